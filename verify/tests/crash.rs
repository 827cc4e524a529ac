//! Kills servers and learners after every store, in every order that the compiler may choose, and
//! compares how the run ends with how it ends without (P2, P8, P9, P11; see [`verify::crash`]).
//!
//! `cargo test -p escapement-verify --test crash -- --nocapture` prints what was tried.

use std::collections::BTreeSet;
use std::time::Instant;

use protocol::site::{Kind, Site};
use verify::crash::{Recorded, Scenario, Tally, catalogue, crash_breach, explore, scenario};
use verify::mutant::mutable_sites;
use verify::property_table::{Column, names};

/// Tries every kill of every scenario; prints how many there were.
fn survive(scenarios: Vec<Scenario<Recorded>>) {
    let (mut prefixes, mut reordered) = (0, 0);
    let start = Instant::now();
    for scenario in scenarios {
        let Tally { prefixes: in_order, reordered: overtaking, .. } = tally_of(&scenario);
        assert!(in_order > 0 && overtaking > 0, "{}: nobody was killed", scenario.name);
        let name = scenario.name;
        println!("{in_order:6} kills in program order, {overtaking:6} reordered: {name}");
        prefixes += in_order;
        reordered += overtaking;
    }
    println!("{prefixes:6} kills in program order, {reordered:6} reordered: {:?}", start.elapsed());
}

fn tally_of(scenario: &Scenario<Recorded>) -> Tally {
    explore(scenario).unwrap_or_else(|breach| panic!("{}: {breach}", scenario.name))
}

#[test]
fn a_server_killed_after_any_store_of_an_update_applies_every_gradient_exactly_once() {
    survive(scenario::updates());
}

#[test]
fn a_server_killed_in_the_middle_of_a_round_finishes_it_as_it_was_begun() {
    survive(scenario::rounds());
}

#[test]
fn a_server_killed_while_learners_come_and_go_leaves_them_the_same_seats_and_clocks() {
    survive(scenario::seats());
}

#[test]
fn a_server_killed_while_it_evicts_a_learner_evicts_it_and_loses_nothing_of_others() {
    survive(scenario::evictions());
}

#[test]
fn a_learner_killed_after_any_store_loses_at_most_its_uncommitted_gradient() {
    survive(scenario::learners());
}

#[test]
fn a_server_killed_around_its_end_applies_its_budget_and_what_is_left_exactly() {
    survive(scenario::ends());
}

/// Two kills in a row are many: only of the scenarios with one or two learners.
fn survive_twice(scenarios: Vec<Scenario<Recorded>>) {
    let small = scenarios.into_iter().filter(|scenario| scenario.learners <= 2);
    survive(small.map(Scenario::twice).collect());
}

#[test]
fn a_server_killed_again_while_it_recovers_an_update_applies_it_exactly_once() {
    survive_twice([scenario::updates(), scenario::small_rounds()].into_iter().flatten().collect());
}

#[test]
fn a_server_killed_again_while_it_looks_after_seats_leaves_them_the_same() {
    let groups = [scenario::seats(), scenario::evictions(), scenario::ends()];
    survive_twice(groups.into_iter().flatten().collect());
}

#[test]
fn a_learner_whose_next_life_is_killed_too_loses_no_more() {
    survive_twice(scenario::learners());
}

/// Everything that a server or a learner stores in shared memory, but for questions (their loss
/// is a question not asked) and announcements (nobody sleeps in a sequential run).
const CRASH_POINTS: &[Site] = &[
    Site::Caller,
    Site::BellBump,
    Site::RingJoinStamp,
    Site::RingWritePayload,
    Site::RingWriteHeader,
    Site::RingCommit,
    Site::RingRelease,
    Site::RingSeal,
    Site::RingSealDead,
    Site::RingDiscard,
    Site::RingRefuse,
    Site::StampBegin,
    Site::StampFinish,
    Site::SnapshotVersion,
    Site::SnapshotAnswer,
    Site::ClockTick,
    Site::ClockParticipants,
    Site::ClockPublish,
    Site::SeatGranted,
    Site::SeatChange,
    Site::JournalReset,
    Site::JournalWriteIntent,
    Site::JournalBegin,
    Site::JournalMark,
    Site::JournalApplied,
    Site::JournalIdle,
    Site::JournalShare,
    Site::JournalRoundBegin,
    Site::JournalRoundStep,
    Site::StopRequest,
];

#[test]
fn every_store_of_server_and_learner_is_a_crash_point() {
    let tallies = catalogue().iter().map(tally_of).collect::<Vec<_>>();
    let after: BTreeSet<_> = tallies.into_iter().flat_map(|tally| tally.after).collect();
    assert_eq!(after, CRASH_POINTS.iter().copied().collect());
}

/// The orderings, fences and checks whose absence some kill brings to light.
const NOTICED: &[Site] = &[
    Site::RingCommit,
    Site::RingRelease,
    Site::RingDiscard,
    Site::StampBegin,
    Site::StampFinish,
    Site::SnapshotAnswer,
    Site::ClockParticipants,
    Site::ClockPublish,
    Site::SeatChange,
    Site::JournalBegin,
    Site::JournalMark,
    Site::JournalApplied,
    Site::JournalRoundBegin,
    Site::JournalMarkFence,
    Site::JournalIdleFence,
    Site::RingReserveFull,
    Site::RingSameLife,
    Site::SnapshotIsMine,
    Site::ClockInOrder,
    Site::SeatHandedOver,
    Site::SeatDrained,
    Site::RoundComplete,
];

#[test]
fn every_ordering_fence_and_check_that_a_kill_can_tell_is_missed_where_it_is_broken() {
    let mut survived = Vec::new();
    for site in mutable_sites().filter(|site| site.kind() != Kind::Wake) {
        match crash_breach(site) {
            None => survived.push(site),
            Some((scenario, breach)) => {
                let what = breach.to_string();
                let what = what.lines().next().unwrap_or_default();
                println!("{:18} killed by \"{scenario}\": {what}", site.name());
            }
        }
    }
    println!("survived: {survived:?}");
    let unnoticed: Vec<_> = NOTICED.iter().filter(|site| survived.contains(site)).collect();
    assert!(unnoticed.is_empty(), "no kill tells that these are broken: {unnoticed:?}");
}

#[test]
fn the_property_table_names_the_tests_of_this_file() {
    for property in Column::Crash.marked() {
        let names = names(property, Column::Crash);
        assert!(!names.is_empty(), "{property} names no test");
        for name in names {
            assert!(include_str!("crash.rs").contains(&format!("fn {name}(")), "no test {name}");
        }
    }
}
