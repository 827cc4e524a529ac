//! The paper as printed has holes: each test finds one, for its reason, and then runs the same
//! scenario on the core, where it must hold. So that "holds" means something, the test also breaks
//! the core at the site that closes the hole, and must find it again.
//!
//! The tests need a checker: `cargo test -p escapement-verify --features loom,shuttle --test
//! figure5`. Without these features there are none. Schedules of shuttle come from a fixed seed;
//! `SHUTTLE_RANDOM_SEED` sets another.
#![cfg(any(feature = "loom", feature = "shuttle"))]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use protocol::site::Site;
use verify::figure5::holes::{self, Rounds};
use verify::figure5::ours::{self, Stop};
use verify::figure5::{Death, Ledger};
use verify::mutant::{Mutant, with_mutation};

/// In which orders gradients were counted and taken, or why an execution failed.
type Explored = Result<BTreeSet<String>, String>;

/// Lets `check` run `scenario` as often as it likes, judging each execution.
fn explore_by(
    check: impl FnOnce(Box<dyn Fn() + Send + Sync>),
    scenario: impl Fn() -> Arc<Ledger> + Send + Sync + 'static,
    judge: impl Fn(&Ledger) + Send + Sync + 'static,
) -> Explored {
    let orders = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&orders);
    let execution = move || {
        let ledger = scenario();
        seen.lock().unwrap().insert(ledger.order());
        judge(&ledger);
    };
    match catch_unwind(AssertUnwindSafe(|| check(Box::new(execution)))) {
        Ok(()) => Ok(orders.lock().unwrap().clone()),
        Err(payload) => Err(match payload.downcast::<String>() {
            Ok(reason) => *reason,
            Err(payload) => payload.downcast::<&str>().expect("a panic has a message").to_string(),
        }),
    }
}

/// Asserts that the checker found something, and that it was this.
#[track_caller]
fn assert_found(explored: Explored, reason: &str) {
    match explored {
        Ok(orders) => panic!("nothing found in the orders {orders:?}, expected: {reason}"),
        Err(found) => assert!(found.contains(reason), "found: {found}\nexpected: {reason}"),
    }
}

/// Asserts that every execution held, and that these are all the orders there were.
#[track_caller]
fn assert_holds(explored: Explored, orders: &[&str]) {
    let seen = explored.unwrap_or_else(|reason| panic!("does not hold: {reason}"));
    assert_eq!(seen, orders.iter().map(|order| order.to_string()).collect());
}

fn exactly_once(ledger: &Ledger) {
    ledger.assert_exactly_once(1);
}

fn exactly_once_each_of_two(ledger: &Ledger) {
    ledger.assert_exactly_once(2);
}

fn true_claims(ledger: &Ledger) {
    ledger.assert_claims_are_true();
}

fn not_stale_after_two(ledger: &Ledger) {
    ledger.assert_not_stale(2);
}

fn whatever(_: &Ledger) {}

#[cfg(feature = "loom")]
mod by_loom {
    use verify::figure5::Memory;
    use verify::loom_platform::Loom;

    use super::*;

    /// Explores every execution with at most so many preemptions; `None` is all of them. No limit
    /// on time or number is set: an `Ok` is a complete exploration.
    fn explore(
        preemptions: Option<usize>,
        scenario: impl Fn() -> Arc<Ledger> + Send + Sync + 'static,
        judge: fn(&Ledger),
    ) -> Explored {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder.max_branches = 20_000;
        builder.max_duration = None;
        builder.max_permutations = None;
        explore_by(|execution| builder.check(execution), scenario, judge)
    }

    /// Every order in which three gradients can pass through two slots.
    const THREE_THROUGH_TWO: [&str; 4] = ["CCTCTT", "CCTTCT", "CTCCTT", "CTCTCT"];

    #[test]
    fn figure_5_without_faults_never_deadlocks_and_passes_every_gradient_once() {
        let queue = || holes::pass::<Loom>(Memory::X86, 2, 3);
        assert_holds(explore(None, queue, exactly_once), &THREE_THROUGH_TWO);
        let one_round = || holes::run::<Loom>(1, 1, Rounds::even(1, 1));
        assert_holds(explore(Some(2), one_round, exactly_once), &["CT"]);
        let two_rounds = || holes::run::<Loom>(1, 2, Rounds::even(1, 2));
        assert_holds(explore(Some(1), two_rounds, exactly_once), &["CCTT", "CTCT"]);
    }

    #[test]
    fn figure_5_claims_a_version_it_did_not_copy_and_ours_does_not() {
        let figure = || holes::pulls::<Loom>(2);
        assert_found(explore(Some(2), figure, true_claims), "claims version 2, copied version 1");
        assert_holds(explore(Some(2), || ours::pulls::<Loom>(1), true_claims), &["CT"]);
        assert_holds(explore(Some(1), || ours::pulls::<Loom>(2), true_claims), &["CCTT"]);
        let broken = with_mutation(Some(Site::StampReadAfterCopy), || {
            explore(Some(1), || ours::pulls::<Mutant<Loom>>(2), true_claims)
        });
        assert_found(broken, "claims version");
    }

    #[test]
    fn figure_5_trains_on_stale_weights_for_ever_and_ours_does_not() {
        let figure = || holes::pulls::<Loom>(2);
        let stale = "trains on version 1 for ever, 2 is the last";
        assert_found(explore(Some(2), figure, not_stale_after_two), stale);
        let ours = || ours::pulls::<Loom>(2);
        assert_holds(explore(Some(1), ours, not_stale_after_two), &["CCTT"]);
        let broken = with_mutation(Some(Site::StampReadAfterCopy), || {
            explore(Some(1), || ours::pulls::<Mutant<Loom>>(2), not_stale_after_two)
        });
        assert_found(broken, "for ever, 2 is the last");
    }

    #[test]
    fn figure_5_reads_a_slot_it_does_not_see_on_weak_memory_and_ours_does_not() {
        let race = "Causality violation: Concurrent read and write accesses";
        let figure = || holes::pass::<Loom>(Memory::Weak, 2, 3);
        assert_found(explore(Some(2), figure, whatever), race);
        let ours = || ours::pass::<Loom>(2, 3);
        assert_holds(explore(Some(3), ours, exactly_once), &THREE_THROUGH_TWO);
        for site in [Site::RingCommit, Site::RingPollTail] {
            let broken = with_mutation(Some(site), || {
                explore(Some(3), || ours::pass::<Mutant<Loom>>(2, 3), whatever)
            });
            assert_found(broken, race);
        }
    }

    #[test]
    fn figure_5_hangs_when_a_learner_dies_holding_the_lock_and_ours_goes_on() {
        // The server, which is thread 0, waits for a lock of the learner, which is gone.
        let hangs = "deadlock; threads = [(Id(0), Blocked(Location(None))), (Id(1), Terminated)]";
        for line in Death::HOLDING_GRAD_MTX {
            let figure = move || holes::death::<Loom>(Death::before(line));
            assert_found(explore(Some(2), figure, whatever), hangs);
        }
        for line in Death::HOLDING_NOTHING {
            let figure = move || holes::death::<Loom>(Death::before(line));
            let explored = explore(Some(2), figure, exactly_once_each_of_two);
            assert!(explored.is_ok(), "death before line {line}: {explored:?}");
        }
        for stop in Stop::ALL {
            let ours = move || ours::death::<Loom>(stop);
            let orders: &[_] = if stop.counted() == 1 { &["CCTT", "CTCT"] } else { &["CT"] };
            assert_holds(explore(Some(3), ours, exactly_once_each_of_two), orders);
        }
        let broken = with_mutation(Some(Site::WatchdogBell), || {
            explore(Some(3), || ours::death::<Mutant<Loom>>(Stop::BeforeCommit), whatever)
        });
        assert_found(broken, "deadlock; threads = [(Id(0), Blocked");
    }

    #[test]
    fn figure_5_loses_count_of_its_slots_when_a_learner_rejoins_and_ours_goes_on_exactly() {
        for line in Death::HOLDING_NOTHING {
            let death = Death::before(line);
            let figure = move || holes::rejoin::<Loom>(2, death, 1 + death.counted());
            let explored = explore(Some(2), figure, exactly_once);
            if line == 217 {
                assert_found(explored, "gradient 0.1 of life 1 was taken, never counted");
            } else {
                assert!(explored.is_ok(), "death before line {line}: {explored:?}");
            }
        }
        assert_found(
            explore(None, || holes::rejoin_in_turn::<Loom>(2, Death::before(217), 2), exactly_once),
            "gradient 0.1 of life 1 was taken, never counted; \
             gradient 0.1 of life 2 was taken, the second of its number; \
             gradient 0.2 of life 2 was counted, never taken",
        );
        let torn = || holes::rejoin::<Loom>(2, Death::before(217), 2);
        assert_found(
            explore(Some(2), torn, whatever),
            "Causality violation: Concurrent read and write accesses",
        );
        for stop in Stop::ALL {
            let ours = move || ours::rejoin::<Loom>(2, stop, 2);
            let orders: &[_] = if stop.counted() == 1 { &["CTCT"] } else { &["CCTT", "CTCT"] };
            assert_holds(explore(Some(2), ours, exactly_once), orders);
        }
        let broken = with_mutation(Some(Site::SeatHandedOver), || {
            explore(Some(2), || ours::rejoin::<Mutant<Loom>>(2, Stop::AfterCommit, 2), whatever)
        });
        assert_found(broken, "a slot was written by life 1, the seat belongs to life 2");
    }

    #[test]
    fn a_queue_of_one_hides_what_a_rejoin_does_to_figure_5() {
        let figure = || holes::rejoin::<Loom>(1, Death::before(217), 3);
        assert_holds(explore(None, figure, exactly_once), &["CTCTCT"]);
    }
}

#[cfg(feature = "shuttle")]
mod by_shuttle {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, Runner};
    use verify::shuttle_platform::Shuttle;

    use super::*;

    const SEED: u64 = 5;
    /// Schedules of each kind.
    const SCHEDULES: usize = 2_000;
    /// Priority changes in a PCT schedule.
    const DEPTH: usize = 3;

    /// Every order in which four gradients can pass through two slots.
    const FOUR_THROUGH_TWO: [&str; 8] = [
        "CCTCTCTT", "CCTCTTCT", "CCTTCCTT", "CCTTCTCT", "CTCCTCTT", "CTCCTTCT", "CTCTCCTT",
        "CTCTCTCT",
    ];

    /// Samples executions at random, then by PCT. Memory is sequentially consistent here: what is
    /// found is the fault of no memory at all.
    fn explore(
        scenario: impl Fn() -> Arc<Ledger> + Send + Sync + 'static,
        judge: fn(&Ledger),
    ) -> Explored {
        let check = |execution: Box<dyn Fn() + Send + Sync>| {
            let execution = Arc::new(execution);
            let random = RandomScheduler::new_from_seed(SEED, SCHEDULES);
            let again = Arc::clone(&execution);
            Runner::new(random, Config::new()).run(move || again());
            let pct = PctScheduler::new_from_seed(SEED, DEPTH, SCHEDULES);
            Runner::new(pct, Config::new()).run(move || execution());
        };
        explore_by(check, scenario, judge)
    }

    /// The tasks that the checker found waiting for ever.
    #[track_caller]
    fn deadlocked(explored: Explored) -> Vec<usize> {
        let found = explored.expect_err("a deadlock was to be found");
        let tasks = found.strip_prefix("deadlock! blocked tasks: [").unwrap_or_else(|| {
            panic!("found: {found}\nexpected: a deadlock");
        });
        tasks
            .split("(task main-thread(")
            .skip(1)
            .map(|task| task.split(')').next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn figure_5_without_faults_never_deadlocks_and_passes_every_gradient_once() {
        let figure = || holes::run::<Shuttle>(2, 2, Rounds::even(2, 3));
        let orders = explore(figure, exactly_once_each_of_two).unwrap();
        assert!(orders.len() > 50, "{orders:?}");
    }

    #[test]
    fn figure_5_claims_a_version_it_did_not_copy_and_ours_does_not() {
        let figure = || holes::pulls::<Shuttle>(2);
        assert_found(explore(figure, true_claims), "claims version 2, copied version 1");
        assert_holds(explore(|| ours::pulls::<Shuttle>(2), true_claims), &["CCTT"]);
        let broken = with_mutation(Some(Site::StampReadAfterCopy), || {
            explore(|| ours::pulls::<Mutant<Shuttle>>(2), true_claims)
        });
        assert_found(broken, "claims version");
    }

    #[test]
    fn figure_5_trains_on_stale_weights_for_ever_and_ours_does_not() {
        let stale = "trains on version 1 for ever, 2 is the last";
        assert_found(explore(|| holes::pulls::<Shuttle>(2), not_stale_after_two), stale);
        assert_holds(explore(|| ours::pulls::<Shuttle>(2), not_stale_after_two), &["CCTT"]);
        let broken = with_mutation(Some(Site::StampReadAfterCopy), || {
            explore(|| ours::pulls::<Mutant<Shuttle>>(2), not_stale_after_two)
        });
        assert_found(broken, "for ever, 2 is the last");
    }

    #[test]
    fn figure_5_returns_nobody_when_the_server_stops_and_ours_returns_everybody() {
        let rounds = Rounds { server: 1, push_and_train: 4, pull: 5 };
        let figure = move || holes::run::<Shuttle>(1, 1, rounds);
        // The server, task 0, has returned and waits for push, pull and train.
        assert_eq!(deadlocked(explore(figure, whatever)), [0, 1, 2, 3]);
        let spent = |ledger: &Ledger| {
            let numbers: Vec<_> = ledger.taken(0).iter().map(|taken| taken.number).collect();
            assert_eq!(numbers, [1, 2, 3], "the budget is exact");
        };
        // The machines commit without telling the ledger.
        assert_holds(explore(|| ours::run::<Shuttle>(1, 3), spent), &["TTT"]);
        let broken = with_mutation(Some(Site::HandoffTakerCloseBell), || {
            explore(|| ours::run::<Mutant<Shuttle>>(1, 3), whatever)
        });
        // Push, task 2, has closed its hand-off and returned; train, task 1, does not hear of it.
        let blocked = deadlocked(broken);
        assert!(blocked.contains(&1) && !blocked.contains(&2), "{blocked:?}");
    }

    #[test]
    fn figure_5_hangs_when_a_learner_dies_holding_the_lock_and_ours_goes_on() {
        for line in Death::HOLDING_GRAD_MTX {
            let figure = move || holes::death::<Shuttle>(Death::before(line));
            assert_eq!(deadlocked(explore(figure, whatever)), [0]);
        }
        for stop in Stop::ALL {
            let ours = move || ours::death::<Shuttle>(stop);
            let orders: &[_] = if stop.counted() == 1 { &["CCTT", "CTCT"] } else { &["CT"] };
            assert_holds(explore(ours, exactly_once_each_of_two), orders);
        }
        let broken = with_mutation(Some(Site::WatchdogBell), || {
            explore(|| ours::death::<Mutant<Shuttle>>(Stop::BeforeCommit), whatever)
        });
        assert_eq!(deadlocked(broken), [0]);
    }

    #[test]
    fn figure_5_loses_count_of_its_slots_when_a_learner_rejoins_and_ours_goes_on_exactly() {
        let figure = || holes::rejoin::<Shuttle>(2, Death::before(217), 1);
        let wrong = "gradient 0.1 of life 1 was taken, never counted";
        assert_found(explore(figure, exactly_once), wrong);
        for stop in Stop::ALL {
            let ours = move || ours::rejoin::<Shuttle>(2, stop, 4);
            // The new life is let in after the first one's gradient has been taken.
            let skipped = if stop.counted() == 1 { 4 } else { 0 };
            assert_holds(explore(ours, exactly_once), &FOUR_THROUGH_TWO[skipped..]);
        }
    }
}
