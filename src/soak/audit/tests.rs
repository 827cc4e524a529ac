//! Honest evidence is clean; each way of doctoring it is found.

use super::evidence::SeatEvidence;
use super::*;
use crate::soak::Setup;
use crate::soak::setup::Sync;

/// An honest run of two learners, in turn, eight gradients, of which the last life of
/// learner 1 left one more in its ring.
fn honest(sync: Sync, consistent: bool) -> Evidence {
    let setup = Setup {
        learners: 2,
        gradients: 8,
        kills: 1,
        hangs: 0,
        capacity: 4,
        sync,
        consistent,
        evict: false,
        drain: false,
    };
    let mut weights = [0; WORDS];
    let mut history = vec![weights];
    let mut log = Vec::new();
    for version in 1..=8_u64 {
        let (learner, clock) = ((version as u32 - 1) % 2, version.div_ceil(2));
        // Learner 1 was killed after its second gradient.
        let epoch = if learner == 1 && clock > 2 { 2 } else { 1 };
        let base_version = (clock - 1) * 2;
        let basis = setup.pulls_are_exact().then_some(&history[base_version as usize]);
        let payload = gradient(setup.origin(learner, epoch, clock), basis);
        let share = if sync == Sync::Bsp { 2 } else { 1 };
        for (index, weight) in weights.iter_mut().enumerate() {
            *weight = fold(*weight, payload[index], share, index);
        }
        history.push(weights);
        let checksum = checksum(&payload);
        let ticket = clock - 1;
        log.push(Some(Entry { learner, epoch, ticket, clock, base_version, checksum, share }));
    }
    let life = |first_clock, pushed, acknowledged| Account {
        first_clock,
        pushed,
        acknowledged,
        ..Account::default()
    };
    let seat = |left, granted, lives| SeatEvidence {
        taken: 4,
        left,
        granted,
        clock: 4,
        held: false,
        lives,
    };
    let seats =
        vec![seat(0, 1, vec![life(1, 5, 4)]), seat(1, 2, vec![life(1, 3, 2), life(3, 3, 3)])];
    let seals = vec![Seal { learner: 1, epoch: 1, tickets: 2 }];
    Evidence { setup, version: 8, weights, log, seats, seals, evictions: 0, idle: true }
}

fn entry(evidence: &mut Evidence, version: usize) -> &mut Entry {
    evidence.log[version - 1].as_mut().unwrap()
}

/// What the audit finds after `doctor` has been at an honest run.
fn found(sync: Sync, doctor: impl FnOnce(&mut Evidence)) -> Vec<Finding> {
    let mut evidence = honest(sync, false);
    doctor(&mut evidence);
    examine(&evidence).findings
}

#[test]
fn an_honest_run_is_clean_in_every_mode() {
    for sync in [Sync::Async, Sync::Ssp(0), Sync::Ssp(3), Sync::Bsp] {
        for consistent in [false, true] {
            let audit = examine(&honest(sync, consistent));
            assert_eq!(audit.findings, [], "{sync}, consistent: {consistent}");
            assert_eq!((audit.lost, audit.repeated), (0, 0));
            assert_eq!(audit.applied, [4, 4]);
            assert_eq!((audit.median_staleness, audit.max_staleness), (1, 1));
        }
    }
}

#[test]
fn a_gradient_applied_twice_is_found() {
    let mut evidence = honest(Sync::Async, false);
    entry(&mut evidence, 4).ticket = 0;
    let audit = examine(&evidence);
    assert_eq!((audit.lost, audit.repeated), (1, 1));
    let repeated = Finding::Repeated { version: 4, learner: 1, ticket: 0 };
    assert!(audit.findings.contains(&repeated));
}

#[test]
fn a_gradient_skipped_is_found() {
    let skipped = Finding::Skipped { version: 7, learner: 0, from: 3, to: 8 };
    assert!(found(Sync::Async, |e| entry(e, 7).ticket = 9).contains(&skipped));
    let taken = Finding::Taken { learner: 0, taken: 5, applied: 4 };
    assert!(found(Sync::Async, |e| e.seats[0].taken = 5).contains(&taken));
    assert_eq!(found(Sync::Async, |e| e.log[3] = None)[0], Finding::Unlogged { version: 4 });
}

#[test]
fn a_commit_that_a_life_knows_of_and_nobody_else_is_found() {
    let lost = Finding::Lost { learner: 1, epoch: 1, acknowledged: 3, found: 2 };
    assert_eq!(found(Sync::Async, |e| e.seats[1].lives[0].acknowledged = 3), [lost]);
    let forged = Finding::Forged { learner: 1, epoch: 2, pushed: 2, found: 3 };
    assert_eq!(found(Sync::Async, |e| e.seats[1].lives[1].pushed = 2), [forged]);
    let lies = Finding::Lies { learner: 0, epoch: 1, lies: 1 };
    assert_eq!(found(Sync::Async, |e| e.seats[0].lives[0].lies = 1), [lies]);
    let stranger = Finding::Stranger { version: 8, learner: 1, epoch: 3 };
    assert!(found(Sync::Async, |e| entry(e, 8).epoch = 3).contains(&stranger));
}

#[test]
fn a_commit_after_the_seal_is_found() {
    let late = Finding::LateCommit { learner: 1, epoch: 1, sealed: 1, found: 2 };
    assert_eq!(found(Sync::Async, |e| e.seals[0].tickets = 1), [late]);
}

#[test]
fn a_clock_out_of_step_is_found() {
    let clock = |found| Finding::Clock { version: 7, learner: 0, found, expected: 4 };
    assert!(found(Sync::Async, |e| entry(e, 7).clock = 5).contains(&clock(5)));
    let first = Finding::Clock { version: 6, learner: 1, found: 3, expected: 9 };
    assert!(found(Sync::Async, |e| e.seats[1].lives[1].first_clock = 9).contains(&first));
    let last = Finding::LastClock { learner: 1, found: 3, expected: 4 };
    assert_eq!(found(Sync::Async, |e| e.seats[1].clock = 3), [last]);
}

#[test]
fn a_torn_gradient_and_a_torn_weight_are_found() {
    let torn = Finding::Torn { version: 3, learner: 0, ticket: 1 };
    assert_eq!(found(Sync::Async, |e| entry(e, 3).checksum ^= 1), [torn]);
    let wrong = found(Sync::Async, |e| e.weights[9] ^= 1 << 40);
    assert!(matches!(wrong[..], [Finding::Weights { word: 9, .. }]));
}

#[test]
fn weights_that_do_not_hold_what_they_claim_are_found() {
    let future = Finding::FromTheFuture { version: 3, learner: 0, base_version: 3 };
    assert_eq!(found(Sync::Async, |e| entry(e, 3).base_version = 3), [future]);
    let mut evidence = honest(Sync::Async, true);
    entry(&mut evidence, 5).base_version = 3;
    let torn = Finding::Torn { version: 5, learner: 0, ticket: 2 };
    assert!(examine(&evidence).findings.contains(&torn));
}

#[test]
fn a_learner_ahead_of_its_slack_is_found() {
    let ahead = Finding::Ahead { version: 7, learner: 0, clock: 4, behind: 2 };
    assert_eq!(found(Sync::Ssp(1), |e| entry(e, 7).base_version = 3), [ahead]);
    assert_eq!(found(Sync::Ssp(2), |e| entry(e, 7).base_version = 3), []);
}

#[test]
fn a_round_out_of_order_or_not_whole_is_found() {
    let round = Finding::Round { version: 6, learner: 1 };
    assert!(found(Sync::Bsp, |e| entry(e, 6).share = 1).contains(&round));
    let swapped = found(Sync::Bsp, |e| e.log.swap(2, 3));
    assert!(swapped.contains(&Finding::Round { version: 4, learner: 0 }));
}

#[test]
fn with_evictions_rounds_may_be_smaller_but_are_whole_and_in_order() {
    let round = Finding::Round { version: 6, learner: 1 };
    let evicting = |doctor: fn(&mut Evidence)| {
        found(Sync::Bsp, |e| {
            e.setup.evict = true;
            doctor(e);
        })
    };
    let is_round = |finding: &Finding| matches!(finding, Finding::Round { .. });
    assert!(!evicting(|_| ()).iter().any(is_round));
    assert!(!evicting(|e| (entry(e, 5).share, entry(e, 6).share) = (1, 1)).iter().any(is_round));
    assert!(evicting(|e| entry(e, 6).share = 1).contains(&round));
    assert!(evicting(|e| entry(e, 5).clock = 9).contains(&round));
    assert!(evicting(|e| e.log.swap(4, 5)).iter().any(is_round));
}

#[test]
fn an_end_that_is_none_is_found() {
    let version = Finding::Version { found: 8, expected: 9 };
    assert_eq!(found(Sync::Async, |e| e.setup.gradients = 9), [version]);
    let left = Finding::LeftBehind { learner: 1, left: 1 };
    assert_eq!(found(Sync::Async, |e| e.setup.drain = true), [left]);
    assert_eq!(found(Sync::Async, |e| e.evictions = 1), [Finding::Evictions { count: 1 }]);
    assert_eq!(found(Sync::Async, |e| e.seats[0].held = true), [Finding::Held { learner: 0 }]);
    assert_eq!(found(Sync::Async, |e| e.idle = false), [Finding::NotIdle]);
}
