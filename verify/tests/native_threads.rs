//! The production platforms among real threads: the same words, futexes and plain memory that ship.
//!
//! Everything that passes through a ring or a hand-off is plain memory, and nobody sleeps with a
//! deadline: a lost wake-up hangs, and a weakened ordering is a data race that Miri and
//! ThreadSanitizer report (`.ci/nightly` runs this file under both). Under Miri the counts are small.

use std::thread;

use protocol::bell::{Doorbell, Patience, Waiter};
use protocol::clock::{ClockView, Slack, Timekeeper};
use protocol::handoff::Handoff;
use protocol::learner::Life;
use protocol::machine::Machine;
use protocol::platform::{Platform, Word};
use protocol::ring::{Consumer, Parcel, Producer, Ring, RingWords, Slot};
use protocol::server::{Policy, Server, Synchrony};
use protocol::site::Site;
use protocol::weights::{Publisher, Reader, SnapshotWords, Stamp};
use ps::platform::{Processes, Threads};
use std::sync::atomic::Ordering::Relaxed;
use verify::books::{Books, Log, Weights, replay};
use verify::ground::{FIRST_TICKET, Ground};

/// As many as a second of a processor passes; a handful where each is interpreted.
const MANY: u64 = if cfg!(miri) { 12 } else { 100_000 };
/// Where each is more work.
const SOME: u64 = if cfg!(miri) { 6 } else { 5_000 };

/// Spins now and then, and sleeps without a deadline.
const PATIENCE: Patience = Patience { spins: 2, slice: None };

/// A gradient, long enough to be torn.
type Payload = [u64; 4];

/// What a ring passes comes out whole, once and in order.
fn ring<P: Platform>(capacity: usize) {
    let words = RingWords::<P>::starting_at(FIRST_TICKET);
    let slots: Vec<_> = (0..capacity).map(|_| Slot::<P, Payload>::new([0; 4])).collect();
    let (server_bell, learner_bell) = (Doorbell::new(), Doorbell::new());
    let ring = Ring::new(&words, &slots, &server_bell, &learner_bell).unwrap();
    let mut producer = Producer::join(ring, 0, 1);
    let mut consumer = Consumer::attach(ring, 0, 1, 32);
    let waiter = Waiter::new(&learner_bell, PATIENCE);
    thread::scope(|scope| {
        scope.spawn(move || {
            for value in 1..=MANY {
                let mut reservation = producer.reserve_wait(waiter, || false).unwrap();
                reservation.write(|payload| *payload = [value; 4]);
                reservation.commit(Parcel::dense(value, 0, 1, 32)).unwrap();
            }
        });
        for value in 1..=MANY {
            Waiter::new(&server_bell, PATIENCE).wait(|| {
                let entry = consumer.poll(1).unwrap()?;
                assert_eq!(entry.parcel().clock, value);
                assert_eq!(entry.read(|payload| *payload), [value; 4]);
                entry.release();
                Some(())
            });
        }
    });
}

/// A buffer that goes to and fro belongs to one side at a time, until its giver closes.
fn handoff<P: Platform>() {
    let bell = Doorbell::<P>::new();
    let mut handoff = Handoff::<P, Payload>::starting_at(u32::MAX - 2, [0; 4]);
    let (mut giver, mut taker) = handoff.split(&bell);
    let waiter = Waiter::new(&bell, PATIENCE);
    thread::scope(|scope| {
        scope.spawn(move || {
            for value in 1..=MANY {
                waiter.wait(|| {
                    let mut loan = giver.loan().unwrap()?;
                    loan.with(|buffer| {
                        let returned = if value == 1 { 0 } else { 2 * (value - 1) };
                        assert_eq!(*buffer, [returned; 4]);
                        *buffer = [value; 4];
                    });
                    loan.give();
                    Some(())
                });
            }
            giver.close();
        });
        let taken = (1..).take_while(|value| {
            waiter.wait(|| match taker.loan() {
                Err(_) => Some(false),
                Ok(None) => None,
                Ok(Some(mut borrow)) => {
                    borrow.with(|buffer| {
                        assert_eq!(*buffer, [*value; 4]);
                        *buffer = [2 * value; 4];
                    });
                    borrow.give_back();
                    Some(true)
                }
            })
        });
        assert_eq!(taken.count() as u64, MANY);
    });
}

/// Two threads wake each other by nothing but the bell.
fn doorbell<P: Platform>() {
    let bells = [Doorbell::<P>::new(), Doorbell::new()];
    let turn = P::U32::new(0);
    let play = |side: u32| {
        let waiter = Waiter::new(&bells[side as usize], Patience::MODEL);
        for round in 0..SOME as u32 {
            let mine = 2 * round + side;
            waiter.wait(|| (turn.load(Site::Caller, Relaxed) == mine).then_some(()));
            turn.store(Site::Caller, mine + 1, Relaxed);
            bells[1 - side as usize].ring(Site::HandoffGiveBell);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play(1));
        play(0);
    });
}

/// A racy copy holds at least what it claims, a still one exactly that, an answer too.
fn weights<P: Platform>() {
    const BLOCKS: usize = 3;
    let words = || -> [P::U64; BLOCKS] { std::array::from_fn(|_| P::U64::new(0)) };
    let (blocks, snapshot) = (words(), words());
    let copy = |blocks: &[P::U64; BLOCKS]| -> [u64; BLOCKS] {
        std::array::from_fn(|block| blocks[block].load(Site::Caller, Relaxed))
    };
    let (stamp, questions) = (Stamp::<P>::new(), SnapshotWords::<P>::new());
    let (server_bell, learner_bell) = (Doorbell::new(), Doorbell::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut publisher = Publisher::attach(&stamp);
            let mut answered = 0;
            let mut answer = |publisher: &Publisher<'_, P>| {
                publisher.answer(&mut answered, &questions, &learner_bell, || {
                    for (block, version) in copy(&blocks).into_iter().enumerate() {
                        snapshot[block].store(Site::Caller, version, Relaxed);
                    }
                })
            };
            for version in 1..=SOME {
                publisher.begin();
                blocks.iter().for_each(|block| block.store(Site::Caller, version, Relaxed));
                publisher.finish(version);
                answer(&publisher);
            }
            // The reader's last question may still come.
            Waiter::new(&server_bell, PATIENCE).wait(|| answer(&publisher).then_some(()));
        });
        let mut reader = Reader::join(&stamp, &questions, &server_bell);
        let mut newest = 0;
        while newest < SOME {
            let mut held = [0; BLOCKS];
            newest = reader.read_racy(|| held = copy(&blocks));
            assert!(held.iter().all(|version| *version >= newest), "{held:?} claims {newest}");
            if let Ok(version) = reader.read_still(|| held = copy(&blocks)) {
                assert_eq!(held, [version; BLOCKS]);
            }
        }
        reader.ask();
        let waiter = Waiter::new(&learner_bell, PATIENCE);
        let mut held = [0; BLOCKS];
        let version = waiter.wait(|| reader.collect(|| held = copy(&snapshot)));
        assert_eq!((version, held), (SOME, [SOME; BLOCKS]));
    });
}

/// Two learners in lockstep see each other's updates of the clock before.
fn clocks<P: Platform>() {
    let words = |count: usize| (0..count).map(|_| P::U64::new(0)).collect::<Vec<_>>();
    let (applied, minimum, participants) = (words(2), words(1), P::U64::new(0));
    let view = ClockView::<P>::new(&applied, &minimum, &participants);
    let mut time = Timekeeper::attach(view);
    (0..2).for_each(|learner| time.admit(learner));
    let (pushed, weights) = (words(2), words(2));
    let server_bell = Doorbell::<P>::new();
    let learner_bells = [Doorbell::<P>::new(), Doorbell::new()];
    let learn = |learner: usize| {
        for clock in 1..=SOME {
            let waiter = Waiter::new(&learner_bells[learner], PATIENCE);
            waiter.wait(|| view.is_open(clock, Slack::Bounded(0)).then_some(()));
            for weight in &weights {
                assert!(weight.load(Site::Caller, Relaxed) >= clock - 1, "P6 at clock {clock}");
            }
            pushed[learner].store(Site::Caller, clock, Relaxed);
            server_bell.ring(Site::RingCommitBell);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| learn(0));
        scope.spawn(|| learn(1));
        for turn in 0..2 * SOME {
            let (learner, clock) = ((turn % 2) as usize, turn / 2 + 1);
            let there = || pushed[learner].load(Site::Caller, Relaxed) == clock;
            Waiter::new(&server_bell, PATIENCE).wait(|| there().then_some(()));
            weights[learner].store(Site::Caller, clock, Relaxed);
            if time.tick(learner, 0..1, clock) {
                Doorbell::ring_all(Site::ClockBell, learner_bells.iter());
            }
        }
    });
}

/// A server and learners from join to drain: everything pushed is applied once and in order.
fn run<P: Platform>(synchrony: Synchrony) {
    const LEARNERS: usize = 2;
    let gradients = SOME / 2;
    let ground = Ground::<P, u64>::new(LEARNERS, 2);
    let weights = Weights::new(LEARNERS);
    let (run, log) = (ground.run(), Log::default());
    let policy = Policy { synchrony, journalled: true, budget: None, quorum: LEARNERS };
    let mut server = Server::attach(run, policy, Books::new(weights.view(), log.clone())).unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            server.run(Waiter::new(run.server_bell(), PATIENCE));
            server.version()
        });
        let learn = |learner: usize| {
            let waiter = Waiter::new(run.seats()[learner].bell(), PATIENCE);
            let (life, mut producer) = Life::join(run, learner, waiter).unwrap();
            for clock in (life.first_clock()..).take(gradients as usize) {
                let mut reservation = producer.reserve_wait(waiter, || false).unwrap();
                reservation.write(|payload| *payload = clock);
                reservation.commit(Parcel::dense(clock, 0, 1, 8)).unwrap();
            }
            assert!(life.leave(producer));
        };
        let learners = [0, 1].map(|learner| scope.spawn(move || learn(learner)));
        learners.into_iter().for_each(|learner| learner.join().unwrap());
        run.request_stop();
        assert_eq!(serving.join().unwrap(), LEARNERS as u64 * gradients);
    });
    log.assert_in_order(LEARNERS, FIRST_TICKET);
    assert_eq!(weights.view().copy(), replay(&log.postings()));
}

macro_rules! on_both_platforms {
    ($($name:ident: $body:expr;)*) => {
        on_both_platforms! { threads Threads $($name: $body;)* }
        on_both_platforms! { processes Processes $($name: $body;)* }
    };
    ($module:ident $platform:ident $($name:ident: $body:expr;)*) => {
        mod $module {
            use super::*;
            type P = $platform;

            $(
                #[test]
                fn $name() {
                    $body;
                }
            )*
        }
    };
}

on_both_platforms! {
    one_slot_passes_every_gradient_whole_once_and_in_order: ring::<P>(1);
    four_slots_pass_every_gradient_whole_once_and_in_order: ring::<P>(4);
    a_buffer_belongs_to_one_side_at_a_time: handoff::<P>();
    two_threads_wake_each_other: doorbell::<P>();
    a_copy_holds_what_it_claims: weights::<P>();
    nobody_starts_a_clock_before_it_can_see_the_one_before: clocks::<P>();
    a_run_applies_everything_once: run::<P>(Synchrony::Immediate);
    a_run_in_rounds_applies_everything_once: run::<P>(Synchrony::Averaged);
}
