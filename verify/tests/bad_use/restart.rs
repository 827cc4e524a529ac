//! Nonsense in what a restarted server finds: it goes on, or says why it cannot.

use protocol::clock::Timekeeper;
use protocol::journal::Phase;
use protocol::machine::{Machine, Step};
use protocol::membership::State;
use protocol::server::{AttachError, Synchrony};
use verify::books::BLOCKS;
use verify::raw::{Field, Place};

use crate::scene::{LEARNERS, Memory, SYNCHRONIES, Scene, TABLES};

/// Steps of one gradient: begin, apply, publish, tick, release.
const STEPS: usize = 5;

/// A server killed after `steps` steps of learner 0's third gradient.
fn killed_after<'a>(memory: &'a Memory, steps: usize) -> Scene<'a> {
    let mut scene = Scene::new(memory, Synchrony::Immediate);
    scene.push(0).unwrap();
    for _ in 0..steps {
        assert_eq!(scene.server.step(), Step::Worked);
    }
    scene
}

fn assert_bad_journal(place: Place, steps: usize, wild: u64) {
    let memory = Memory::new();
    let mut scene = killed_after(&memory, steps);
    memory.raw.write(place, wild);
    let refused = scene.restart();
    assert_eq!(refused, Err(AttachError::BadJournal), "{place:?} = {wild} after {steps} steps");
}

#[test]
fn an_intent_that_was_never_judged_is_not_gone_on_with() {
    // Before the last step the intent is in force.
    for steps in 1..STEPS {
        let header = |field, wild: &[u64]| {
            for wild in wild {
                assert_bad_journal(Place::IntentHeader(field), steps, *wild);
            }
        };
        header(Field::Ticket, &[0, 3, 2 | 1 << 48, u64::MAX]);
        if steps < STEPS - 1 {
            // After the tick nothing tells them from what is released and what is due.
            header(Field::Ticket, &[1]);
            header(Field::Clock, &[4]);
        }
        header(Field::Clock, &[0, 1, 5, u64::MAX]);
        header(Field::BaseVersion, &[100, u64::MAX]);
        header(Field::Length, &[9, u64::MAX]);
        header(Field::Learner, &[1, LEARNERS as u64, 64, u64::from(u32::MAX)]);
        header(Field::Epoch, &[0, 2, u64::from(u32::MAX)]);
        header(Field::FirstTable, &[1, 2, u64::from(u32::MAX)]);
        header(Field::Tables, &[0, 3, u64::from(u32::MAX)]);
        header(Field::Encoding, &[3, u64::from(u32::MAX)]);
        for wild in [0, 100, u64::MAX] {
            assert_bad_journal(Place::IntentVersion, steps, wild);
        }
        for wild in [0, LEARNERS as u64 + 1, u64::from(u32::MAX)] {
            assert_bad_journal(Place::IntentShare, steps, wild);
        }
        for wild in [2, u64::from(u32::MAX)] {
            assert_bad_journal(Place::IntentJournalled, steps, wild);
        }
    }
}

#[test]
fn a_phase_that_is_none_is_not_taken_for_idle() {
    for steps in 0..=STEPS {
        for wild in [3, 4, 1 << 31, u64::from(u32::MAX)] {
            assert_bad_journal(Place::Phase, steps, wild);
        }
    }
}

#[test]
fn half_written_weights_without_a_journal_are_not_gone_on_with() {
    let memory = Memory::new();
    let mut scene = killed_after(&memory, 2);
    memory.raw.write(Place::Phase, 0);
    let version = scene.server.version() + 1;
    assert_eq!(scene.restart(), Err(AttachError::HalfWritten { version }));
}

#[test]
fn an_undamaged_journal_is_gone_on_with_from_every_step() {
    for steps in 0..=STEPS {
        let memory = Memory::new();
        let mut scene = killed_after(&memory, steps);
        scene.restart().unwrap();
        scene.settle();
        scene.assert_others_are_served();
        assert_eq!(scene.evictions(), []);
    }
}

#[test]
fn an_update_is_over_once_its_slot_is_released() {
    let memory = Memory::new();
    let mut scene = killed_after(&memory, STEPS);
    // The kill came between the release and the journal's idle.
    memory.raw.write(Place::Phase, Phase::Applied as u64);
    let applied = scene.postings();
    scene.restart().unwrap();
    scene.settle();
    assert_eq!(scene.postings(), applied);
    scene.assert_others_are_served();
    assert_eq!(scene.evictions(), []);
}

#[test]
fn a_mark_beyond_the_blocks_touches_nothing_outside_them() {
    let blocks = BLOCKS as u64;
    for wild in [blocks + 1, blocks + 2, 1 << 63, u64::MAX] {
        let memory = Memory::new();
        let mut scene = killed_after(&memory, 1);
        memory.raw.write(Place::Mark(0), wild);
        scene.restart().unwrap();
        scene.settle();
        scene.everybody_pushes();
        scene.settle();
        assert_eq!(scene.evictions(), []);
        assert_eq!(scene.server.version(), 5 + LEARNERS as u64);
    }
}

/// Restarts the server over a damaged word and lets everybody go on as they can.
fn go_on_over(synchrony: Synchrony, place: Place, wild: u64) -> Option<AttachError> {
    let memory = Memory::new();
    let mut scene = Scene::new(&memory, synchrony);
    memory.raw.write(place, wild);
    if let Err(error) = scene.restart() {
        return Some(error);
    }
    for _ in 0..4 {
        scene.everybody_pushes();
        scene.settle();
    }
    // Whoever was given up comes back.
    for learner in 0..LEARNERS {
        if scene.standing(learner).state == State::Dead {
            scene.take_seat(learner).unwrap();
        }
        scene.settle();
        scene.push(learner);
    }
    scene.settle();
    None
}

#[test]
fn wild_words_of_the_server_do_not_make_it_panic_when_it_restarts() {
    for synchrony in SYNCHRONIES {
        for place in [Place::Stamp, Place::Participants, Place::Remaining, Place::Share] {
            for wild in [1 << 3, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX - 3] {
                assert_eq!(go_on_over(synchrony, place, wild), None, "{place:?} {wild}");
            }
        }
        for table in 0..TABLES {
            for wild in [1 << 63, u64::MAX - 1, u64::MAX] {
                let applied = Place::Applied { table, learner: 0 };
                assert_eq!(go_on_over(synchrony, applied, wild), None);
                assert_eq!(go_on_over(synchrony, Place::Minimum(table), wild), None);
            }
        }
    }
}

#[test]
fn a_wild_word_of_one_seat_costs_that_seat_only_when_the_server_restarts() {
    for synchrony in SYNCHRONIES {
        for (place, wild) in [
            (Place::Granted(0), 0),
            (Place::Granted(0), 2),
            (Place::Granted(0), u64::from(u32::MAX)),
            (Place::Head(0), 1),
            (Place::Head(0), 100),
            (Place::Head(0), 1 << 48),
            (Place::Head(0), u64::MAX),
        ] {
            let memory = Memory::new();
            let mut scene = Scene::new(&memory, synchrony);
            memory.raw.write(place, wild);
            scene.restart().unwrap();
            for _ in 0..2 {
                scene.everybody_pushes();
                scene.settle();
            }
            if matches!(place, Place::Granted(_)) {
                assert_eq!(scene.standing(0).state, State::Dead, "it is told");
            }
            scene.leave(0);
            scene.settle();
            scene.others_push();
            scene.settle();
            assert!(scene.evictions().iter().all(|(learner, _)| *learner == 0), "{place:?}");
            assert!(!scene.counts(0), "{place:?} = {wild}: nobody waits for it (P7)");
            for learner in 1..LEARNERS {
                let mut applied = scene.postings();
                applied.retain(|posting| posting.learner == learner as u32);
                assert_eq!(applied.len(), 4, "{place:?} = {wild}");
            }
            scene.take_seat(0).unwrap();
            scene.settle();
            assert_eq!(scene.standing(0).state, State::Live, "{place:?} = {wild}: a new life");
        }
    }
}

#[test]
fn bits_above_the_ticket_are_no_part_of_a_head() {
    for synchrony in SYNCHRONIES {
        let memory = Memory::new();
        let mut scene = Scene::new(&memory, synchrony);
        memory.raw.flip(Place::Head(0), 0xffff << 48);
        scene.restart().unwrap();
        scene.everybody_pushes();
        scene.settle();
        assert_eq!(scene.evictions(), []);
        scene.memory.log.assert_in_order(LEARNERS, 0);
        assert_eq!(scene.postings().len(), if synchrony == Synchrony::Immediate { 7 } else { 6 });
    }
}

#[test]
fn nobody_waits_for_a_participant_that_nobody_sits_for() {
    for synchrony in SYNCHRONIES {
        let memory = Memory::new();
        let mut scene = Scene::new(&memory, synchrony);
        scene.others_push();
        scene.settle();
        scene.leave(0);
        scene.settle();
        assert!(!scene.counts(0));
        memory.raw.write(Place::Participants, u64::MAX);
        memory.raw.write(Place::Remaining, u64::MAX);
        scene.restart().unwrap();
        scene.settle();
        let participants = Timekeeper::attach(scene.run.clocks()).participants();
        assert_eq!(participants, 0b110, "neither a vacant seat counts nor one that is not there");
        scene.assert_others_are_served();
    }
}
