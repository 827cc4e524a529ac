//! The kill matrix: the protocol broken at every site in turn, and the model that notices.
//!
//! [`KILLERS`] names, for every site that has something to break, a checker and a case. Each is run
//! in a process of its own on the protocol broken at that site, and must fail for a reason that a
//! checker gives; the same case on the whole protocol passes in the tests of that checker. A site
//! without a killer, or a killer that no longer kills, fails this test.
//!
//! `cargo test --features loom,shuttle --test mutants -- RingCommit` runs one.

use std::process::{Command, ExitCode, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use protocol::site::Site;
use verify::crash::crash_breach;
use verify::loom_platform::{Loom, explore_within};
use verify::mutant::{Mutant, mutable_sites, with_mutation};
use verify::shuttle_platform::{Shuttle, Strategy, sample};
use verify::{Case, Order, models};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checker {
    Loom,
    Shuttle,
    Crash,
}

use Checker::{Crash, Loom as L, Shuttle as S};

const ONE_SLOT: &str = "one_slot_passes_every_gradient_once_and_in_order";
const BUFFER: &str = "a_buffer_belongs_to_one_side_at_a_time";
const RACY: &str = "a_racy_copy_holds_at_least_what_it_claims";
const STILL: &str = "a_consistent_copy_holds_exactly_what_it_claims";
const ASK: &str = "a_reader_that_asks_gets_one_version_under_constant_updates";
const BOUND: &str = "a_learner_at_clock_t_has_seen_every_update_up_to_t_minus_1_minus_slack";
const SHUTDOWN: &str = "a_learner_joins_pushes_and_leaves_and_the_server_drains_and_returns";
const STOP: &str = "a_stop_at_any_moment_lets_everybody_return_and_applies_what_is_committed";
const LATECOMER: &str = "a_granted_learner_begins_after_the_slowest";
const ROUNDS: &str = "rounds_of_four_learners_do_not_depend_on_timing";
const ROUNDS_OF_THE_DEAD: &str = "rounds_apply_what_the_dead_have_committed";
const GIVER_CLOSES: &str = "a_closing_giver_leaves_nothing_behind";
const CRASH: &str = "every memory that a kill can leave";

/// Who notices what.
const KILLERS: &[(Site, Checker, &str)] = &[
    (Site::RingCommit, L, ONE_SLOT),
    (Site::RingPollTail, L, ONE_SLOT),
    (Site::RingRelease, L, ONE_SLOT),
    (Site::RingReserveHead, L, ONE_SLOT),
    (Site::RingJoinHead, L, "a_new_life_writes_only_slots_that_were_released"),
    (Site::RingDiscard, L, "a_new_life_writes_only_slots_that_were_discarded"),
    (Site::HandoffGive, L, BUFFER),
    (Site::HandoffGiven, L, BUFFER),
    (Site::HandoffReturn, L, BUFFER),
    (Site::HandoffReturned, L, BUFFER),
    (Site::HandoffGiverClosed, L, GIVER_CLOSES),
    (Site::StampBegin, L, RACY),
    (Site::StampFinish, L, RACY),
    (Site::StampRead, L, RACY),
    (Site::StampReadBefore, L, STILL),
    (Site::SnapshotAsk, L, ASK),
    (Site::SnapshotAsked, L, ASK),
    (Site::SnapshotAnswer, L, ASK),
    (Site::SnapshotLook, L, ASK),
    (Site::ClockPublish, L, BOUND),
    (Site::ClockLook, L, BOUND),
    (Site::SeatChange, L, LATECOMER),
    (Site::SeatLook, L, LATECOMER),
    (Site::JournalBegin, Crash, CRASH),
    (Site::JournalMark, Crash, CRASH),
    (Site::JournalApplied, Crash, CRASH),
    (Site::JournalRoundBegin, Crash, CRASH),
    (Site::ClockParticipants, Crash, CRASH),
    (Site::BellAnnounceFence, L, ONE_SLOT),
    (Site::BellRingFence, L, ONE_SLOT),
    (Site::StampBeginFence, L, STILL),
    (Site::StampReadFence, L, STILL),
    (Site::JournalMarkFence, Crash, CRASH),
    (Site::JournalIdleFence, Crash, CRASH),
    (Site::BellWake, L, ONE_SLOT),
    (Site::RingCommitBell, L, ONE_SLOT),
    (Site::RingReleaseBell, L, ONE_SLOT),
    (Site::RingSealBell, L, "a_sealed_ring_is_drained_before_it_is_finished"),
    (Site::RingRefuseBell, L, "a_refused_producer_returns_from_a_full_ring"),
    (Site::RingJoinBell, L, SHUTDOWN),
    (Site::HandoffGiveBell, L, BUFFER),
    (Site::HandoffReturnBell, L, BUFFER),
    (Site::HandoffGiverCloseBell, L, GIVER_CLOSES),
    (Site::HandoffTakerCloseBell, L, "a_closing_taker_frees_a_waiting_giver"),
    (Site::ClockBell, L, BOUND),
    (Site::DismissBell, L, "a_dismissal_frees_who_waited_for_the_dismissed"),
    (Site::SeatGrantBell, L, SHUTDOWN),
    (Site::LeaveBell, L, STOP),
    (Site::EvictBell, L, "a_learner_that_pushes_nonsense_is_evicted_and_told"),
    (Site::SnapshotAskBell, L, ASK),
    (Site::SnapshotBell, L, ASK),
    (Site::StopBell, L, STOP),
    (Site::AttachBell, S, "a_server_killed_anywhere_loses_repeats_and_tears_nothing"),
    (Site::WatchdogBell, L, "a_learner_killed_at_any_access_loses_nothing_committed"),
    (Site::BellRecheck, L, ONE_SLOT),
    (Site::RingReserveFull, L, ONE_SLOT),
    (Site::RingTailInRange, S, "a_tail_beyond_the_ring_is_a_fault"),
    (Site::RingSameLife, S, "a_header_of_another_life_is_a_fault"),
    (Site::HandoffIsReturned, L, BUFFER),
    (Site::HandoffIsGiven, L, BUFFER),
    (Site::StampReadAfterCopy, L, RACY),
    (Site::StampIsStill, L, STILL),
    (Site::StampIsSame, L, STILL),
    (Site::SnapshotIsMine, L, ASK),
    (Site::ClockBound, L, BOUND),
    (Site::ClockInOrder, S, "a_learner_that_skips_a_clock_is_evicted"),
    (Site::SeatBetweenRounds, S, "a_newcomer_is_granted_its_seat_between_rounds"),
    (Site::SeatHandedOver, S, ROUNDS_OF_THE_DEAD),
    (Site::SeatDrained, Crash, CRASH),
    (Site::Quorum, S, ROUNDS),
    (Site::RoundComplete, Crash, CRASH),
];

/// Sites whose mutation changes nothing, each with the argument.
const EQUIVALENT: &[(Site, &str)] = &[
    (
        Site::HandoffGiverClose,
        "every give rings, and the SeqCst fence of the ring lies between the give and the close: \
         it orders them as the release does",
    ),
    (
        Site::JournalIdle,
        "every release of a slot rings, and the SeqCst fence of the ring lies between it and the \
         idle phase; where a recovering server finds the slot released and does not ring, that \
         release proves that what came before was done, and it writes the same values again",
    ),
];

/// Tells the child process which mutant to run.
const CHILD: &str = "ESCAPEMENT_MUTANT";

type Rows = Arc<Mutex<Vec<(Site, Checker, &'static str, String, Duration)>>>;

fn main() -> ExitCode {
    if let Ok(site) = std::env::var(CHILD) {
        let (site, checker, case) = *killer(|candidate| candidate.name() == site);
        with_mutation(Some(site), || attack(site, checker, case));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let rows = Rows::default();
    let mut trials: Vec<_> = KILLERS
        .iter()
        .map(|&(site, checker, case)| {
            let rows = Arc::clone(&rows);
            Trial::test(site.name(), move || kill(site, checker, case, &rows))
        })
        .collect();
    trials.push(Trial::test("every_site_has_one_killer_or_an_argument", every_site_is_listed));
    let conclusion = libtest_mimic::run(&arguments, trials);
    print_matrix(&mut rows.lock().unwrap());
    conclusion.exit_code()
}

fn killer(wanted: impl Fn(Site) -> bool) -> &'static (Site, Checker, &'static str) {
    KILLERS.iter().find(|(site, ..)| wanted(*site)).expect("a listed site")
}

fn every_site_is_listed() -> Result<(), Failed> {
    for site in mutable_sites() {
        let killers = KILLERS.iter().filter(|(listed, ..)| *listed == site).count();
        let arguments = EQUIVALENT.iter().filter(|(listed, _)| *listed == site).count();
        if killers + arguments != 1 {
            return Err(format!("{site:?}: {killers} killers, {arguments} arguments").into());
        }
    }
    Ok(())
}

/// Runs the mutant in a process of its own and reads why it died.
fn kill(site: Site, checker: Checker, case: &'static str, rows: &Rows) -> Result<(), Failed> {
    let start = Instant::now();
    let output = Command::new(std::env::current_exe()?)
        .env(CHILD, site.name())
        .env("RUST_BACKTRACE", "0")
        .output()?;
    if output.status.success() {
        return Err(format!("{site:?} survived {case} on {checker:?}").into());
    }
    let reason = reason(&output).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("{site:?} ended without a checker's reason: {stderr}")
    })?;
    rows.lock().unwrap().push((site, checker, case, reason, start.elapsed()));
    Ok(())
}

/// The message of the first panic, if a checker or a model's assertion raised it.
fn reason(output: &Output) -> Option<String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut lines = stderr.lines().skip_while(|line| !line.contains("panicked at"));
    let place = lines.next()?;
    let from_checker = ["loom", "shuttle", "verify/", "protocol/"];
    let message = lines.next()?;
    from_checker.iter().any(|name| place.contains(name)).then(|| message.to_owned())
}

/// Panics if the case notices the mutation.
fn attack(site: Site, checker: Checker, name: &str) {
    match checker {
        Checker::Loom => {
            let case = find(models::catalogue::<Mutant<Loom>>(), name);
            for order in [Order::Forward, Order::Backward] {
                let outcomes = explore_within(&case, order, Some(2)).outcomes;
                outcomes.iter().for_each(|outcome| stated(&case, outcome));
            }
        }
        Checker::Shuttle => {
            let case = find(models::catalogue::<Mutant<Shuttle>>(), name);
            for strategy in Strategy::of(case.shuttle) {
                let recorder = sample(&case, *strategy, 1, 2_000);
                recorder.seen().iter().for_each(|outcome| stated(&case, outcome));
            }
        }
        Checker::Crash => {
            if let Some((scenario, breach)) = crash_breach(site) {
                panic!("{scenario}: {breach}");
            }
        }
    }
}

fn find(cases: Vec<Case>, name: &str) -> Case {
    cases.into_iter().find(|case| case.name == name).expect("a case of the catalogue")
}

fn stated(case: &Case, outcome: &str) {
    assert!(case.outcomes.contains(&outcome), "unexpected outcome: {outcome}");
}

fn print_matrix(rows: &mut [(Site, Checker, &'static str, String, Duration)]) {
    rows.sort_by_key(|(site, ..)| *site);
    println!("{:<22} {:<8} {:<8} {:<76} seconds  reason", "mutant", "kind", "killed by", "case");
    for (site, checker, case, reason, elapsed) in rows {
        let kind = format!("{:?}", site.kind());
        let checker = format!("{checker:?}");
        let (seconds, reason) =
            (elapsed.as_secs_f64(), reason.chars().take(60).collect::<String>());
        println!("{:<22} {kind:<8} {checker:<9} {case:<76} {seconds:>7.2}  {reason}", site.name());
    }
    for (site, argument) in EQUIVALENT {
        println!("{:<22} equivalent: {argument}", site.name());
    }
    println!();
}
