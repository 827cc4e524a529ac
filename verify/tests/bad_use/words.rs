//! Nonsense in a learner's own words while the server runs: bit by bit.

use protocol::error::Fault;
use protocol::membership::State;
use protocol::ring::counter::Tail;
use protocol::server::Synchrony;
use verify::raw::Place;

use crate::scene::{CAPACITY, Memory, SYNCHRONIES, Scene};

/// Every bit of a word; some of them where each run of the server is interpreted.
fn bits() -> impl Iterator<Item = u32> {
    (0..64).step_by(if cfg!(miri) { 16 } else { 1 })
}

/// What becomes of learner 0 after its words were damaged: it goes on until it is told, then
/// leaves; the watchdog gives up a life that no process lives.
fn end_of_the_damaged(scene: &mut Scene<'_>) {
    scene.settle();
    scene.push(0);
    scene.settle();
    scene.leave(0);
    scene.settle();
    let standing = scene.standing(0);
    if matches!(standing.state, State::Joining | State::Rejoining) {
        assert!(scene.run.seats()[0].mark_dead(0, standing.epoch));
        scene.settle();
    }
}

/// Under averaging what learner 0 had committed is applied in rounds with the others.
fn drain_in_rounds(scene: &mut Scene<'_>) {
    for _ in 0..CAPACITY {
        scene.others_push();
        scene.settle();
    }
}

#[test]
fn a_tail_beyond_the_ring_evicts_its_learner_only() {
    for synchrony in SYNCHRONIES {
        for fill in [CAPACITY as u64 + 1, 1000, (1 << 48) - 1] {
            let memory = Memory::new();
            let mut scene = Scene::new(&memory, synchrony);
            let head = memory.raw.read(Place::Head(0));
            let wild = Tail { epoch: 1, sealed: false, ticket: head + fill };
            memory.raw.write(Place::Tail(0), wild.encode());
            scene.others_push();
            scene.settle();
            if synchrony == Synchrony::Immediate {
                let capacity = CAPACITY as u64;
                assert_eq!(scene.evictions(), [(0, Fault::WildTail { fill, capacity })]);
            }
            end_of_the_damaged(&mut scene);
            scene.assert_only_the_damaged_learner_is_given_up();
        }
    }
}

#[test]
fn whatever_bit_of_a_tail_flips_the_others_are_served() {
    for synchrony in SYNCHRONIES {
        for bit in bits() {
            for committed in [false, true] {
                let memory = Memory::new();
                let mut scene = Scene::new(&memory, synchrony);
                if committed {
                    scene.push(0).unwrap();
                }
                memory.raw.flip(Place::Tail(0), 1 << bit);
                end_of_the_damaged(&mut scene);
                drain_in_rounds(&mut scene);
                scene.assert_only_the_damaged_learner_is_given_up();
            }
        }
    }
}

#[test]
fn whatever_bit_of_a_standing_flips_the_others_are_served() {
    for synchrony in SYNCHRONIES {
        for bit in bits() {
            for committed in [false, true] {
                let memory = Memory::new();
                let mut scene = Scene::new(&memory, synchrony);
                if committed {
                    scene.push(0).unwrap();
                }
                memory.raw.flip(Place::Standing(0), 1 << bit);
                end_of_the_damaged(&mut scene);
                drain_in_rounds(&mut scene);
                scene.assert_only_the_damaged_learner_is_given_up();
            }
        }
    }
}

#[test]
fn whatever_bit_of_a_question_or_an_answer_flips_the_server_goes_on() {
    for place in [Place::Asked(0), Place::Answered(0), Place::SnapshotVersion(0), Place::Bell(0)] {
        for bit in bits() {
            let memory = Memory::new();
            let mut scene = Scene::new(&memory, Synchrony::Immediate);
            memory.raw.flip(place, 1 << bit);
            scene.settle();
            assert_eq!(scene.evictions(), []);
            scene.assert_others_are_served();
        }
    }
}
