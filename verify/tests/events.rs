//! The event hook: a traced run reports every action once, and no effect before its cause.
//!
//! Publishing actions are reported before their store and observing ones after their load. Real
//! threads show that it works in production, shuttle that it does under every schedule it finds.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use protocol::bell::{Patience, Waiter};
use protocol::event::{Event, Sink, Traced};
use protocol::learner::Life;
use protocol::machine::Machine;
use protocol::membership::Action;
use protocol::platform::Platform;
use protocol::ring::Parcel;
use protocol::run::Run;
use protocol::server::{Policy, Server, Synchrony};
use ps::platform::Threads;
use verify::books::{Books, Log, Weights, WeightsView};
use verify::ground::{FIRST_TICKET, Ground};

static SEQUENCE: AtomicU64 = AtomicU64::new(0);
static TRACE: Mutex<BTreeMap<u64, Event>> = Mutex::new(BTreeMap::new());

/// Numbers events with one counter for all threads.
struct Collected;

impl Sink for Collected {
    fn record(event: Event) {
        let number = SEQUENCE.fetch_add(1, Ordering::SeqCst);
        TRACE.lock().unwrap().insert(number, event);
    }
}

const LEARNERS: usize = 2;

fn learn<P: Platform>(
    run: Run<'static, P, u64>,
    learner: usize,
    patience: Patience,
    gradients: u64,
) {
    let waiter = Waiter::new(run.seats()[learner].bell(), patience);
    let (life, mut producer) = Life::join(run, learner, waiter).unwrap();
    for clock in 1..=gradients {
        let mut reservation = producer.reserve_wait(waiter, || false).unwrap();
        reservation.write(|payload| *payload = clock);
        reservation.commit(Parcel::dense(clock, 0, 1, 8)).unwrap();
    }
    assert!(life.leave(producer));
}

/// The number of the one event that `wanted` picks.
fn number_of(trace: &BTreeMap<u64, Event>, wanted: impl Fn(&Event) -> bool) -> u64 {
    let mut found = trace.iter().filter(|(_, event)| wanted(event));
    let (number, event) = found.next().expect("the action was reported");
    assert_eq!(found.next(), None, "{event:?} was reported once");
    *number
}

fn serve<P: Platform>(run: Run<'static, P, u64>, view: WeightsView<P>, patience: Patience) {
    let policy = Policy {
        synchrony: Synchrony::Immediate,
        journalled: true,
        budget: None,
        quorum: LEARNERS,
    };
    let mut server = Server::attach(run, policy, Books::new(view, Log::default())).unwrap();
    server.run(Waiter::new(run.server_bell(), patience));
}

#[test]
fn every_action_is_reported_once_and_no_effect_before_its_cause() {
    const GRADIENTS: u64 = 200;
    let patience = Patience { spins: 10, slice: None };
    let ground = Ground::<Traced<Threads, Collected>, u64>::new(LEARNERS, 4);
    let weights = Weights::new(LEARNERS);
    let (run, view) = (ground.run(), weights.view());
    thread::scope(|scope| {
        let server = scope.spawn(move || serve(run, view, patience));
        let learners =
            [0, 1].map(|learner| scope.spawn(move || learn(run, learner, patience, GRADIENTS)));
        learners.into_iter().for_each(|learner| learner.join().unwrap());
        run.request_stop();
        server.join().unwrap();
    });
    judge(&TRACE.lock().unwrap(), GRADIENTS);
}

#[cfg(feature = "shuttle")]
mod on_shuttle {
    use std::cell::RefCell;

    use verify::shuttle_platform::{Shuttle, Strategy, sample};
    use verify::{Case, Join, Model, Sampling};

    use super::*;

    thread_local! {
        static EVENTS: RefCell<BTreeMap<u64, Event>> = RefCell::default();
    }

    /// Numbers the events of the model that runs on this thread.
    struct Numbered;

    impl Sink for Numbered {
        fn record(event: Event) {
            // Others may run between an action and its report.
            Shuttle::pause();
            EVENTS.with_borrow_mut(|events| events.insert(events.len() as u64, event));
        }
    }

    fn walk() {
        const GRADIENTS: u64 = 3;
        EVENTS.take();
        let patience = Patience::MODEL;
        let ground = Ground::<Traced<Shuttle, Numbered>, u64>::new(LEARNERS, 2);
        let weights = Weights::new(LEARNERS);
        let (run, view) = (ground.run(), weights.view());
        let server = Shuttle::spawn(move || serve(run, view, patience));
        let learners =
            [0, 1].map(|learner| Shuttle::spawn(move || learn(run, learner, patience, GRADIENTS)));
        learners.into_iter().for_each(Join::join);
        run.request_stop();
        server.join();
        judge(&EVENTS.take(), GRADIENTS);
    }

    #[test]
    fn no_schedule_reports_an_effect_before_its_cause() {
        let case = Case {
            name: "no_schedule_reports_an_effect_before_its_cause",
            properties: &[],
            outcomes: &["in order"],
            loom: None,
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: |recorder| {
                walk();
                recorder.outcome("in order");
            },
        };
        for strategy in Strategy::of(case.shuttle) {
            assert_eq!(sample(&case, *strategy, 1, 500).executions(), 500);
        }
    }
}

/// Asserts that `trace` holds the walk of every gradient, in order.
fn judge(trace: &BTreeMap<u64, Event>, gradients: u64) {
    for seat in 0..LEARNERS as u32 {
        let of_seat = |wanted: fn(Action) -> bool| {
            number_of(
                trace,
                |event| matches!(*event, Event::Seat { learner, action } if learner == seat && wanted(action)),
            )
        };
        let joined = of_seat(|action| action == Action::Join);
        let granted = of_seat(|action| matches!(action, Action::Grant { .. }));
        let left = of_seat(|action| matches!(action, Action::Leave { .. }));
        let vacated = of_seat(|action| matches!(action, Action::Vacate { .. }));
        assert!(joined < granted && granted < left && left < vacated);
        for nth in 0..gradients {
            let due = (FIRST_TICKET + nth) % (1 << 48);
            let walk: [&dyn Fn(&Event) -> bool; 5] = [
                &|event| matches!(*event, Event::Commit { learner, ticket, .. } if (learner, ticket) == (seat, due)),
                &|event| matches!(*event, Event::Begin { learner, ticket, .. } if (learner, ticket) == (seat, due)),
                &|event| matches!(*event, Event::Applied { learner, ticket, .. } if (learner, ticket) == (seat, due)),
                &|event| *event == Event::Tick { learner: seat, clock: nth + 1 },
                &|event| *event == Event::Release { learner: seat, ticket: due },
            ];
            let numbers = walk.map(|step| number_of(trace, step));
            assert!(numbers.is_sorted(), "learner {seat}, ticket {due}: {numbers:?}");
            assert!(granted < numbers[0] && numbers[4] < vacated);
        }
    }
}
