//! Nonsense in a slot's header: the server names the fault and evicts that learner only.

use protocol::error::Fault;
use protocol::server::Synchrony;
use verify::raw::{Field, Place};

use crate::scene::{Memory, PAYLOAD_LIMIT, SYNCHRONIES, Scene, TABLES};

/// Damages one field of learner 0's next gradient; returns what the server says of it.
fn evicted_for(synchrony: Synchrony, field: Field, wild: impl Fn(u64) -> u64) -> Fault {
    let memory = Memory::new();
    let mut scene = Scene::new(&memory, synchrony);
    if synchrony == Synchrony::Averaged {
        // The second gradient of learner 0 still waits for the others.
        scene.others_push();
        scene.settle();
    }
    let ticket = scene.push(0).unwrap();
    let place = Place::Header { learner: 0, slot: scene.slot(ticket), field };
    memory.raw.write(place, wild(memory.raw.read(place)));
    scene.others_push();
    scene.settle();
    let evictions = scene.evictions();
    assert_eq!(evictions.len(), 1, "{field:?}: {evictions:?}");
    scene.assert_only_the_damaged_learner_is_given_up();
    evictions[0].1
}

fn assert_faults(field: Field, cases: &[(u64, Fault)]) {
    for synchrony in SYNCHRONIES {
        for (wild, fault) in cases {
            assert_eq!(evicted_for(synchrony, field, |_| *wild), *fault, "{synchrony:?}");
        }
    }
}

#[test]
fn a_wild_ticket_evicts_its_learner_only() {
    let expected = 2;
    let cases = [0, 1, 3, 2 | 1 << 48, u64::MAX]
        .map(|found| (found, Fault::WrongTicket { found, expected }));
    assert_faults(Field::Ticket, &cases);
}

#[test]
fn a_header_of_another_seat_evicts_its_learner_only() {
    let cases = [1, 2, 64, u32::MAX].map(|found| (u64::from(found), Fault::WrongLearner { found }));
    assert_faults(Field::Learner, &cases);
}

#[test]
fn a_header_of_another_life_evicts_its_learner_only() {
    let cases = [0, 2, 1 << 15, u32::MAX]
        .map(|found| (u64::from(found), Fault::WrongEpoch { found, expected: 1 }));
    assert_faults(Field::Epoch, &cases);
}

#[test]
fn an_unknown_encoding_evicts_its_learner_only() {
    let cases = [3, u32::MAX].map(|found| (u64::from(found), Fault::UnknownEncoding { found }));
    assert_faults(Field::Encoding, &cases);
}

#[test]
fn a_table_range_outside_the_model_evicts_its_learner_only() {
    let tables = TABLES as u32;
    let first = [1, tables, u32::MAX - 1, u32::MAX]
        .map(|first| (u64::from(first), Fault::TableRange { first, tables }));
    assert_faults(Field::FirstTable, &first);
    let tables = [0, tables + 1, u32::MAX]
        .map(|tables| (u64::from(tables), Fault::TableRange { first: 0, tables }));
    assert_faults(Field::Tables, &tables);
}

#[test]
fn a_length_beyond_the_slot_evicts_its_learner_only() {
    let limit = PAYLOAD_LIMIT;
    let cases = [limit + 1, u64::MAX].map(|found| (found, Fault::Length { found, limit }));
    assert_faults(Field::Length, &cases);
}

#[test]
fn a_clock_that_is_not_due_evicts_its_learner_only() {
    let expected = 3;
    let skipped = |found| (found, Fault::ClockSkipped { found, expected });
    let cases = [(0, Fault::ClockZero), skipped(1), skipped(2), skipped(4), skipped(u64::MAX)];
    assert_faults(Field::Clock, &cases);
}

#[test]
fn a_version_from_the_future_evicts_its_learner_only() {
    // Under averaging the others' gradients of the round may come first, and be versions too.
    for wild in [100, u64::MAX] {
        for synchrony in SYNCHRONIES {
            let fault = evicted_for(synchrony, Field::BaseVersion, |_| wild);
            assert!(matches!(fault, Fault::VersionFromTheFuture { found, .. } if found == wild));
        }
    }
}

#[test]
fn a_payload_that_is_refused_evicts_its_learner_only() {
    for synchrony in SYNCHRONIES {
        let memory = Memory::new();
        let mut scene = Scene::new(&memory, synchrony);
        if synchrony == Synchrony::Averaged {
            scene.others_push();
            scene.settle();
        }
        let ticket = scene.push(0).unwrap();
        memory.raw.write(Place::Payload { learner: 0, slot: scene.slot(ticket) }, u64::MAX);
        scene.others_push();
        scene.settle();
        assert_eq!(scene.evictions(), [(0, Fault::Payload)]);
        scene.assert_only_the_damaged_learner_is_given_up();
    }
}

#[test]
fn what_is_reserved_means_nothing() {
    let memory = Memory::new();
    let mut scene = Scene::new(&memory, Synchrony::Immediate);
    let ticket = scene.push(0).unwrap();
    let slot = scene.slot(ticket);
    let reserved = Place::Header { learner: 0, slot, field: Field::Reserved };
    memory.raw.write(reserved, u64::MAX);
    scene.settle();
    assert_eq!(scene.postings().last().unwrap().ticket, ticket);
    assert_eq!(scene.evictions(), []);
}
