//! The learner's machines step by step, one thread and no luck: what each does when weights are
//! old, torn or unchanged, when the ring is full, and when its seat is taken away.

use std::thread;

use protocol::bell::{Patience, Waiter};
use protocol::clock::Slack;
use protocol::error::{Fenced, ReserveError};
use protocol::handoff::Handoff;
use protocol::learner::{
    Compute, Contents, Fetched, Life, Loaded, Pull, PullCopy, PullPolicy, Push, PushCopy, Train,
};
use protocol::machine::{Machine, Step};
use protocol::membership::State;
use protocol::ring::{Consumer, Encoding, Parcel, Producer};
use protocol::run::Run;
use protocol::server::{Policy, Server, Synchrony};
use protocol::weights::Publisher;
use ps::platform::Threads;
use verify::books::{Books, Log, Weights};
use verify::ground::Ground;

type Joined = (Life<'static, Threads, u64>, Producer<'static, Threads, u64>);

/// A learner on seat 0, granted by a server that then stands still.
fn join(run: Run<'static, Threads, u64>, weights: &Weights<Threads>) -> Joined {
    let policy =
        Policy { synchrony: Synchrony::Immediate, journalled: true, budget: None, quorum: 0 };
    let books = Books::new(weights.view(), Log::default());
    let mut server = Server::attach(run, policy, books).expect("a new run");
    let joining = thread::spawn(move || {
        Life::join(run, 0, Waiter::new(run.seats()[0].bell(), Patience::PROCESS)).expect("a seat")
    });
    while run.seats()[0].standing().state != State::Live {
        server.step();
    }
    joining.join().expect("a life")
}

/// Steps until there is nothing left to do.
fn settle(machine: &mut impl Machine<Threads>) -> Step {
    loop {
        let step = machine.step();
        if step != Step::Worked {
            return step;
        }
    }
}

/// Says how it copied; if `torn`, an update begins and ends during each copy.
struct Copies {
    run: Run<'static, Threads, u64>,
    torn: bool,
}

impl PullCopy<&'static str> for Copies {
    fn pull(&mut self, weights: &mut &'static str) {
        *weights = "pulled";
        if self.torn {
            update(self.run);
        }
    }

    fn collect(&mut self, weights: &mut &'static str) {
        *weights = "collected";
    }
}

fn update(run: Run<'static, Threads, u64>) -> u64 {
    let mut publisher = Publisher::attach(run.stamp());
    let version = publisher.version() + 1;
    publisher.begin();
    publisher.finish(version);
    version
}

#[test]
fn a_pull_copies_what_is_new_and_nothing_else() {
    let (ground, weights) = (Ground::<Threads, u64>::new(1, 2), Weights::new(1));
    let run = ground.run();
    let (life, _producer) = join(run, &weights);
    let mut handoff = Handoff::new(Fetched::<&str>::default());
    let (out, mut taken) = handoff.split(run.seats()[0].bell());
    let policy = PullPolicy { slack: Slack::Unbounded, consistent: false };
    let mut pull = Pull::new(life, out, Copies { run, torn: false }, policy);
    let mut take = |pull: &mut Pull<'_, _, _, _, _>| {
        assert_eq!(settle(pull), Step::Blocked);
        let mut borrow = taken.loan().expect("open").expect("weights");
        let got = borrow.with(|fetched| (fetched.fresh, fetched.version, fetched.buffer));
        borrow.with(|fetched| fetched.buffer = "");
        borrow.give_back();
        got
    };
    assert_eq!(take(&mut pull), (true, 0, "pulled"));
    assert_eq!(take(&mut pull), (false, 0, ""), "nothing is new");
    update(run);
    assert_eq!(take(&mut pull), (true, 1, "pulled"));
    assert_eq!(take(&mut pull), (false, 1, ""), "nothing is new");
}

#[test]
fn a_pull_that_is_torn_again_and_again_asks_and_waits_for_the_answer() {
    let (ground, weights) = (Ground::<Threads, u64>::new(1, 2), Weights::new(1));
    let run = ground.run();
    let (life, _producer) = join(run, &weights);
    let mut handoff = Handoff::new(Fetched::<&str>::default());
    let (out, mut taken) = handoff.split(run.seats()[0].bell());
    let policy = PullPolicy { slack: Slack::Unbounded, consistent: true };
    let mut pull = Pull::new(life, out, Copies { run, torn: true }, policy);
    assert_eq!(settle(&mut pull), Step::Blocked);
    assert!(taken.loan().expect("open").is_none(), "nobody has answered");
    let publisher = Publisher::attach(run.stamp());
    let seat = &run.seats()[0];
    let answered = publisher.answer(&mut 0, seat.snapshot(), seat.bell(), || {});
    assert!(answered, "it has asked");
    assert_eq!(settle(&mut pull), Step::Blocked);
    let mut borrow = taken.loan().expect("open").expect("weights");
    let version = publisher.version();
    borrow.with(|got| assert_eq!((got.version, got.buffer), (version, "collected")));
}

#[test]
fn a_pull_that_waits_for_an_answer_closes_when_its_seat_is_taken_away() {
    let (ground, weights) = (Ground::<Threads, u64>::new(1, 2), Weights::new(1));
    let run = ground.run();
    let (life, _producer) = join(run, &weights);
    let mut handoff = Handoff::new(Fetched::<&str>::default());
    let (out, mut taken) = handoff.split(run.seats()[0].bell());
    let policy = PullPolicy { slack: Slack::Unbounded, consistent: true };
    let mut pull = Pull::new(life, out, Copies { run, torn: true }, policy);
    assert_eq!(settle(&mut pull), Step::Blocked);
    run.seats()[0].mark_dead(0, life.epoch());
    assert_eq!(settle(&mut pull), Step::Done);
    assert!(taken.loan().is_err(), "train is told");
}

struct Pushes;

impl PushCopy<u64, u64> for Pushes {
    fn push(&mut self, gradient: &mut u64, _: usize, payload: &mut u64) -> Contents {
        *payload = *gradient;
        Contents { first_table: 0, tables: 1, encoding: Encoding::Dense, length: 8 }
    }
}

#[test]
fn a_push_whose_ring_stays_full_closes_when_its_seat_is_taken_away() {
    let (ground, weights) = (Ground::<Threads, u64>::new(1, 1), Weights::new(1));
    let run = ground.run();
    let (life, producer) = join(run, &weights);
    let mut handoff = Handoff::new(Loaded::<u64>::default());
    let (mut given, input) = handoff.split(run.seats()[0].bell());
    let mut push = Push::new(life, input, producer, Pushes);
    for _ in 0..2 {
        given.loan().expect("open").expect("the buffer").give();
        assert_eq!(settle(&mut push), Step::Blocked);
    }
    assert!(given.loan().expect("open").is_none(), "the second waits for room");
    run.seats()[0].mark_dead(0, life.epoch());
    assert_eq!(settle(&mut push), Step::Done);
    assert!(given.loan().is_err(), "train is told");
}

#[test]
fn a_push_that_is_fenced_closes_and_a_life_that_was_fenced_is_not_told_that_it_left() {
    let (ground, weights) = (Ground::<Threads, u64>::new(1, 2), Weights::new(1));
    let run = ground.run();
    let (life, producer) = join(run, &weights);
    let mut handoff = Handoff::new(Loaded::<u64>::default());
    let (mut given, input) = handoff.split(run.seats()[0].bell());
    let mut push = Push::new(life, input, producer, Pushes);
    let mut server_end = protocol::ring::Consumer::attach(run.ring(0), 0, 1, 64);
    server_end.seal_dead(life.epoch());
    given.loan().expect("open").expect("the buffer").give();
    assert_eq!(settle(&mut push), Step::Done, "there is nobody to push to");
    assert!(given.loan().is_err(), "train is told");
    run.seats()[0].mark_dead(0, life.epoch());
    assert!(!life.leave(push.into_producer()), "the seat was taken away");
}

#[test]
fn a_push_with_nothing_left_to_push_seals_its_ring() {
    let (ground, weights) = (Ground::<Threads, u64>::new(1, 2), Weights::new(1));
    let run = ground.run();
    let (life, producer) = join(run, &weights);
    let mut handoff = Handoff::new(Loaded::<u64>::default());
    let (given, input) = handoff.split(run.seats()[0].bell());
    let mut push = Push::new(life, input, producer, Pushes);
    given.close();
    assert_eq!(settle(&mut push), Step::Done);
    let mut server_end = protocol::ring::Consumer::attach(run.ring(0), 0, 1, 64);
    assert!(server_end.is_sealed_by(life.epoch()), "the server need not wait for the rest");
}

#[test]
fn a_fenced_life_cannot_seal_what_is_no_longer_its_own() {
    let (ground, weights) = (Ground::<Threads, u64>::new(1, 2), Weights::new(1));
    let run = ground.run();
    let (_life, mut producer) = join(run, &weights);
    Consumer::attach(run.ring(0), 0, 1, 64).seal_dead(producer.epoch());
    let parcel = Parcel::dense(1, 0, 1, 8);
    assert_eq!(producer.reserve().expect("room").commit(parcel), Err(Fenced));
    assert_eq!(producer.seal(), Err(Fenced));
    assert_eq!(producer.reserve().err(), Some(ReserveError::Ended));
}

/// Computes on whatever it gets.
struct Computes;

impl Compute<u64, u64> for Computes {
    fn compute(&mut self, _: u64, version: u64, weights: &u64, gradient: &mut u64) -> bool {
        assert_eq!(*weights, version * 10, "the weights are those of the version");
        *gradient = *weights;
        true
    }
}

#[test]
fn a_gradient_says_at_which_clock_and_on_which_version_it_was_computed() {
    let (ground, weights) = (Ground::<Threads, u64>::new(1, 2), Weights::new(1));
    let run = ground.run();
    let (life, _producer) = join(run, &weights);
    let bell = run.seats()[0].bell();
    let mut fetched = Handoff::new(Fetched::<u64>::default());
    let mut loaded = Handoff::new(Loaded::<u64>::default());
    let (mut weights_out, weights_in) = fetched.split(bell);
    let (gradients_out, mut gradients_in) = loaded.split(bell);
    let mut train = Train::new(life, weights_in, gradients_out, Computes, 0, 0);
    for (clock, version, fresh) in [(1, 7, true), (2, 7, false), (3, 9, true)] {
        let mut loan = weights_out.loan().expect("open").expect("returned");
        loan.with(|fetched| *fetched = Fetched { buffer: version * 10, version, fresh });
        loan.give();
        assert_eq!(settle(&mut train), Step::Blocked);
        let mut borrow = gradients_in.loan().expect("open").expect("given");
        let expected = Loaded { buffer: version * 10, clock, base_version: version };
        borrow.with(|loaded| assert_eq!(*loaded, expected));
        borrow.give_back();
    }
}
