//! The event hook: a traced run reports every action once, and no effect before its cause.
//!
//! Real threads on the native platform, so that the numbers race as they would in production:
//! publishing actions are reported before their store and observing ones after their load.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use protocol::bell::{Patience, Waiter};
use protocol::event::{Event, Sink, Traced};
use protocol::learner::Life;
use protocol::machine::Machine;
use protocol::membership::Action;
use protocol::ring::Parcel;
use protocol::server::{Policy, Server, Synchrony};
use ps::platform::Threads;
use verify::books::{Books, Log, Weights};
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

type Platform = Traced<Threads, Collected>;

const LEARNERS: usize = 2;
const GRADIENTS: u64 = 200;

fn learn(run: protocol::run::Run<'static, Platform, u64>, learner: usize) {
    let waiter = Waiter::new(run.seats()[learner].bell(), Patience { spins: 10, slice: None });
    let (life, mut producer) = Life::join(run, learner, waiter).unwrap();
    for clock in 1..=GRADIENTS {
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

#[test]
fn every_action_is_reported_once_and_no_effect_before_its_cause() {
    let ground = Ground::<Platform, u64>::new(LEARNERS, 4);
    let weights = Weights::<Platform>::new(LEARNERS);
    let (run, view, log) = (ground.run(), weights.view(), Log::default());
    let policy = Policy {
        synchrony: Synchrony::Immediate,
        journalled: true,
        budget: None,
        quorum: LEARNERS,
    };
    thread::scope(|scope| {
        let books = Books::new(view, log.clone());
        let server = scope.spawn(move || {
            let mut server = Server::attach(run, policy, books).unwrap();
            server.run(Waiter::new(run.server_bell(), Patience { spins: 10, slice: None }));
        });
        let learners = [0, 1].map(|learner| scope.spawn(move || learn(run, learner)));
        learners.into_iter().for_each(|learner| learner.join().unwrap());
        run.request_stop();
        server.join().unwrap();
    });

    let trace = TRACE.lock().unwrap();
    for seat in 0..LEARNERS as u32 {
        let of_seat = |wanted: fn(Action) -> bool| {
            number_of(
                &trace,
                |event| matches!(*event, Event::Seat { learner, action } if learner == seat && wanted(action)),
            )
        };
        let joined = of_seat(|action| action == Action::Join);
        let granted = of_seat(|action| matches!(action, Action::Grant { .. }));
        let left = of_seat(|action| matches!(action, Action::Leave { .. }));
        let vacated = of_seat(|action| matches!(action, Action::Vacate { .. }));
        assert!(joined < granted && granted < left && left < vacated);
        for nth in 0..GRADIENTS {
            let due = (FIRST_TICKET + nth) % (1 << 48);
            let walk: [&dyn Fn(&Event) -> bool; 5] = [
                &|event| matches!(*event, Event::Commit { learner, ticket, .. } if (learner, ticket) == (seat, due)),
                &|event| matches!(*event, Event::Begin { learner, ticket, .. } if (learner, ticket) == (seat, due)),
                &|event| matches!(*event, Event::Applied { learner, ticket, .. } if (learner, ticket) == (seat, due)),
                &|event| *event == Event::Tick { learner: seat, clock: nth + 1 },
                &|event| *event == Event::Release { learner: seat, ticket: due },
            ];
            let numbers = walk.map(|step| number_of(&trace, step));
            assert!(numbers.is_sorted(), "learner {seat}, ticket {due}: {numbers:?}");
            assert!(granted < numbers[0] && numbers[4] < vacated);
        }
    }
}
