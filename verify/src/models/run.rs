//! The whole server with learners that push straight into their rings: joining, leaving, dying,
//! budgets and shutdown.

use protocol::bell::{Patience, Waiter};
use protocol::clock::Timekeeper;
use protocol::error::{JoinError, ReserveError};
use protocol::learner::Life;
use protocol::machine::{Machine, Step};
use protocol::membership::{Standing, State};
use protocol::ring::{Consumer, Parcel, Producer};
use protocol::run::Run;
use protocol::server::{AttachError, Policy, Server, Synchrony};
use protocol::site::Site;

use super::both;
use crate::books::{Books, Log, Weights, WeightsView, replay};
use crate::case::{Bound, Case, Recorder, Sampling};
use crate::ground::{FIRST_TICKET, Ground};
use crate::model::{Join, Model};
use crate::mortal::{Mortal, Process};

pub(super) fn cases<M: Model>() -> Vec<Case> {
    vec![
        Case {
            name: "a_learner_joins_pushes_and_leaves_and_the_server_drains_and_returns",
            properties: &["P1", "P2", "P10"],
            outcomes: &["applied 2"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: shutdown::<M>,
        },
        Case {
            name: "a_stop_at_any_moment_lets_everybody_return_and_applies_what_is_committed",
            properties: &["P1", "P10"],
            outcomes: &["applied 0", "applied 1", "never joined"],
            loom: Some(Bound::Preemptions(2)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: stop::<M>,
        },
        Case {
            name: "a_budget_is_exact_and_its_surplus_is_refused",
            properties: &["P1", "P11"],
            outcomes: &["committed 1, applied 1", "committed 2, applied 1"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: budget::<M>,
        },
        Case {
            name: "a_learner_killed_at_any_access_loses_nothing_committed",
            properties: &["P1", "P2", "P7", "P8"],
            outcomes: &["applied 0", "applied 1"],
            loom: Some(Bound::Preemptions(2)),
            shuttle: Sampling::Concurrent,
            variants: LIFE_OF_ONE_PUSH,
            run: death::<M>,
        },
        Case {
            name: "without_undo_records_a_kill_is_harmless_or_refused_as_half_written",
            properties: &["P2", "P9"],
            outcomes: &["applied 2", "half written"],
            loom: None,
            shuttle: Sampling::Concurrent,
            variants: LIFE_OF_TWO_UPDATES,
            run: unjournalled::<M>,
        },
        Case {
            name: "a_granted_learner_begins_after_the_slowest",
            properties: &["P1", "P6", "P7"],
            outcomes: &["begins at 6"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: latecomer::<M>,
        },
        Case {
            name: "a_learner_that_pushes_nonsense_is_evicted_and_told",
            properties: &["P1"],
            outcomes: &["[(0, Payload)]"],
            loom: Some(Bound::Preemptions(3)),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: |recorder| nonsense::<M>(recorder, 1, u64::MAX),
        },
        Case {
            name: "a_newcomer_is_granted_its_seat_between_rounds",
            properties: &["P6"],
            outcomes: &["granted at version 2"],
            loom: None,
            shuttle: Sampling::Sequential,
            variants: 1,
            run: newcomer::<M>,
        },
        Case {
            name: "a_learner_that_skips_a_clock_is_evicted",
            properties: &["P6"],
            outcomes: &["[(0, ClockSkipped { found: 2, expected: 1 })]"],
            loom: None,
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: |recorder| nonsense::<M>(recorder, 2, 7),
        },
    ]
}

/// More accesses than a learner that pushes once makes: some variants kill it, the last does not.
const LIFE_OF_ONE_PUSH: u64 = 34;

/// More accesses than a server makes that applies two gradients.
const LIFE_OF_TWO_UPDATES: u64 = 250;

pub(super) fn immediate(budget: Option<u64>) -> Policy {
    Policy { synchrony: Synchrony::Immediate, journalled: true, budget, quorum: 1 }
}

/// Runs a server until it is done.
pub(super) fn serve<M: Model>(
    run: Run<'static, M, u64>,
    policy: Policy,
    weights: WeightsView<M>,
    log: Log,
) {
    let mut server =
        Server::attach(run, policy, Books::new(weights, log)).expect("the journal is sound");
    server.run(Waiter::new(run.server_bell(), Patience::MODEL));
}

/// Asserts what must hold when everybody has returned.
pub(super) fn audit<M: Model>(
    run: Run<'static, M, u64>,
    weights: WeightsView<M>,
    log: &Log,
) -> usize {
    let postings = log.postings();
    log.assert_in_order(run.seats().len(), FIRST_TICKET);
    assert_eq!(log.evictions(), [], "nobody wrote nonsense");
    assert_eq!(weights.copy(), replay(&postings), "each gradient once, whole, in order (P2)");
    assert_eq!(run.stamp().version(), postings.len() as u64);
    postings.len()
}

pub(super) fn waiter<M: Model>(run: Run<'static, M, u64>, learner: usize) -> Waiter<'static, M> {
    Waiter::new(run.seats()[learner].bell(), Patience::MODEL)
}

/// Pushes the gradient of `clock`, waiting for room.
pub(super) fn push<M: Model>(
    life: Life<'static, M, u64>,
    producer: &mut Producer<'static, M, u64>,
    clock: u64,
) -> Result<(), ReserveError> {
    let waiter = waiter(life.run(), life.learner());
    let mut reservation = producer.reserve_wait(waiter, || life.is_evicted())?;
    let value = life.learner() as u64 * 100 + clock;
    reservation.write(|payload| *payload = value);
    reservation.commit(Parcel::dense(clock, 0, 1, 8)).map_err(|_| ReserveError::Ended)?;
    Ok(())
}

fn shutdown<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 1);
    let weights = Weights::<M>::new(1);
    let (run, view, log) = (ground.run(), weights.view(), Log::default());
    let books = log.clone();
    both::<M, _, _>(
        recorder,
        move || {
            let (life, mut producer) = Life::join(run, 0, waiter(run, 0)).unwrap();
            assert_eq!(life.first_clock(), 1);
            push(life, &mut producer, 1).unwrap();
            push(life, &mut producer, 2).unwrap();
            assert!(life.leave(producer));
            run.request_stop();
        },
        move || serve(run, immediate(None), view, books),
    );
    let standing = run.seats()[0].standing();
    assert_eq!(standing, Standing { state: State::Vacant, epoch: 1 }, "let go");
    recorder.outcome(format!("applied {}", audit(run, view, &log)));
}

fn stop<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 1);
    let weights = Weights::<M>::new(1);
    let (run, view, log) = (ground.run(), weights.view(), Log::default());
    let books = log.clone();
    let server = M::spawn(move || serve(run, immediate(None), view, books));
    let (committed, ()) = both::<M, _, _>(
        recorder,
        move || match Life::join(run, 0, waiter(run, 0)) {
            Ok((life, mut producer)) => {
                let pushed = !life.is_over() && push(life, &mut producer, 1).is_ok();
                assert!(life.leave(producer));
                Some(usize::from(pushed))
            }
            Err(JoinError::Stopping) => None,
            Err(other) => panic!("{other}"),
        },
        move || run.request_stop(),
    );
    server.join();
    let applied = audit(run, view, &log);
    assert_eq!(applied, committed.unwrap_or(0), "committed, so applied (P10)");
    recorder.outcome(match committed {
        Some(_) => format!("applied {applied}"),
        None => "never joined".to_owned(),
    });
}

fn budget<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(1, 1);
    let weights = Weights::<M>::new(1);
    let (run, view, log) = (ground.run(), weights.view(), Log::default());
    let books = log.clone();
    let (committed, ()) = both::<M, _, _>(
        recorder,
        move || {
            let (life, mut producer) = Life::join(run, 0, waiter(run, 0)).unwrap();
            (1..).take_while(|clock| push(life, &mut producer, *clock).is_ok()).count()
        },
        move || serve(run, immediate(Some(1)), view, books),
    );
    let applied = audit(run, view, &log);
    assert_eq!(applied, 1, "the budget is exact (P11)");
    recorder.outcome(format!("committed {committed}, applied {applied}"));
}

fn death<M: Model>(recorder: &Recorder) {
    let ground = Ground::<Mortal<M>, u64>::new(1, 1);
    let weights = Weights::<Mortal<M>>::new(1);
    let (run, view, log) = (ground.run(), weights.view(), Log::default());
    let books = log.clone();
    let accesses = recorder.variant();
    both::<M, _, _>(
        recorder,
        move || {
            Process::killed_after(accesses).thread::<M, _>(
                || (),
                || {
                    let (life, mut producer) = Life::join(run, 0, waiter(run, 0)).unwrap();
                    push(life, &mut producer, 1).unwrap();
                },
            );
            // From here on this thread is the watchdog: it has waited for the dead.
            run.request_stop();
            let Standing { epoch, .. } = run.seats()[0].standing();
            run.seats()[0].mark_dead(0, epoch);
            run.ring_everybody(Site::WatchdogBell);
        },
        move || serve(run, immediate(None), view, books),
    );
    recorder.outcome(format!("applied {}", audit(run, view, &log)));
}

/// A learner joins a run whose slowest has come to clock 5.
fn latecomer<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(2, 1);
    let weights = Weights::<M>::new(2);
    let (run, view) = (ground.run(), weights.view());
    let mut time = Timekeeper::attach(run.clocks());
    time.admit(1);
    time.tick(1, 0..1, 5);
    let (clock, ()) = both::<M, _, _>(
        recorder,
        move || {
            let (life, producer) = Life::join(run, 0, waiter(run, 0)).unwrap();
            let clock = life.first_clock();
            assert!(life.leave(producer));
            run.request_stop();
            clock
        },
        move || serve(run, immediate(None), view, Log::default()),
    );
    recorder.outcome(format!("begins at {clock}"));
}

/// A learner pushes what the server cannot accept, and sleeps until it is told.
fn nonsense<M: Model>(recorder: &Recorder, clock: u64, value: u64) {
    let ground = Ground::<M, u64>::new(1, 1);
    let weights = Weights::<M>::new(1);
    let (run, view, log) = (ground.run(), weights.view(), Log::default());
    let books = log.clone();
    both::<M, _, _>(
        recorder,
        move || {
            let (life, mut producer) = Life::join(run, 0, waiter(run, 0)).unwrap();
            let mut reservation = producer.reserve().unwrap();
            reservation.write(|payload| *payload = value);
            reservation.commit(Parcel::dense(clock, 0, 1, 8)).unwrap();
            waiter(run, 0).wait(|| (life.is_evicted() || run.stamp().version() > 0).then_some(()));
            run.request_stop();
        },
        move || serve(run, immediate(Some(1)), view, books),
    );
    recorder.outcome(format!("{:?}", log.evictions()));
}

/// A server that keeps no undo records is killed and replaced, if it can be.
fn unjournalled<M: Model>(recorder: &Recorder) {
    let ground = Ground::<Mortal<M>, u64>::new(1, 2);
    let weights = Weights::<Mortal<M>>::new(1);
    let (run, view, log) = (ground.run(), weights.view(), Log::default());
    let (books, accesses) = (log.clone(), recorder.variant());
    let policy = Policy { journalled: false, ..immediate(Some(2)) };
    let (_, replaced) = both::<M, _, _>(
        recorder,
        move || {
            let (life, mut producer) = Life::join(run, 0, waiter(run, 0)).ok()?;
            [1, 2].into_iter().try_for_each(|clock| push(life, &mut producer, clock)).ok()
        },
        move || {
            let first = Process::killed_after(accesses)
                .thread::<M, _>(|| (), || serve(run, policy, view, books.clone()));
            if first.is_some() {
                return true;
            }
            match Server::attach(run, policy, Books::new(view, books)) {
                Ok(mut server) => {
                    server.run(Waiter::new(run.server_bell(), Patience::MODEL));
                    true
                }
                Err(error) => {
                    assert!(matches!(error, AttachError::HalfWritten { .. }), "{error}");
                    // The watchdog gives the run up.
                    Consumer::attach(run.ring(0), 0, 1, 64).refuse();
                    run.request_stop();
                    false
                }
            }
        },
    );
    recorder.outcome(if replaced {
        format!("applied {}", audit(run, view, &log))
    } else {
        "half written".to_owned()
    });
}

/// A third learner asks for its seat in the middle of a round of two.
fn newcomer<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(3, 1);
    let weights = Weights::<M>::new(3);
    let (run, view) = (ground.run(), weights.view());
    let policy = Policy { synchrony: Synchrony::Averaged, ..immediate(None) };
    let mut server = Server::attach(run, policy, Books::new(view, Log::default())).unwrap();
    let join = |learner: usize| {
        let epoch = run.seats()[learner].join(learner as u32).unwrap();
        Producer::join(run.ring(learner), learner as u32, epoch)
    };
    let mut members = [join(0), join(1)];
    while server.step() == Step::Worked {}
    for producer in &mut members {
        producer.reserve().unwrap().commit(Parcel::dense(1, 0, 1, 8)).unwrap();
    }
    assert_eq!(server.step(), Step::Worked, "the round begins");
    let _newcomer = join(2);
    while run.seats()[2].standing().state == State::Joining {
        assert_eq!(server.step(), Step::Worked, "the newcomer gets its seat in the end");
    }
    recorder.outcome(format!("granted at version {}", server.version()));
}
