//! The whole server does, step by step, what a loop over queues does: with learners that join,
//! push, leave, die, rejoin and push on as zombies, with servers that are killed anywhere, with
//! rounds, slack, quorum, budget and stop. At rest somebody can always go on (P7).
//!
//! A failure prints the smallest list of operations that shows it; replay it with
//! `cargo test -p escapement-verify --test oracle_server`.

mod common;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::clock::{Slack, Timekeeper};
use protocol::error::{Fault, JoinError};
use protocol::journal::Journal;
use protocol::machine::{Machine, Step};
use protocol::ring::{Encoding, Parcel, Producer};
use protocol::run::Run;
use protocol::server::{Apply, AttachError, Gradient, Policy, Server, Synchrony};
use protocol::weights::Reader;
use ps::platform::Threads;
use verify::books::{Books, Log, Weights, WeightsView, replay};
use verify::ground::{FIRST_TICKET, Ground};
use verify::oracle::ring::Refusal;
use verify::oracle::server::{Expected, Flaw, Operation, Oracle, Setup};

fn operation(learners: usize) -> impl Strategy<Value = Operation> {
    let learner = 0..learners;
    let flaw = prop_oneof![
        60 => Just(Flaw::None),
        1 => Just(Flaw::Table),
        1 => Just(Flaw::Clock),
        1 => Just(Flaw::Version),
        1 => Just(Flaw::Payload),
    ];
    prop_oneof![
        30 => (learner.clone(), 1..1000_u64, flaw)
            .prop_map(|(learner, value, flaw)| Operation::Push { learner, value, flaw }),
        16 => (1..8_u8).prop_map(|steps| Operation::Step { steps }),
        10 => Just(Operation::Serve),
        6 => learner.clone().prop_map(|learner| Operation::Join { learner }),
        4 => learner.clone().prop_map(|learner| Operation::Rejoin { learner }),
        3 => learner.clone().prop_map(|learner| Operation::Leave { learner }),
        3 => learner.clone().prop_map(|learner| Operation::Die { learner }),
        2 => learner.clone().prop_map(|learner| Operation::Ask { learner }),
        3 => learner.prop_map(|learner| Operation::Collect { learner }),
        4 => (0..3_u64).prop_map(|raise| Operation::Restart { raise }),
        3 => any::<bool>().prop_map(|written| Operation::DieInUpdate { written }),
        1 => Just(Operation::Stop),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let slack = prop_oneof![
        3 => Just(Slack::Bounded(0)),
        2 => (1..4_u64).prop_map(Slack::Bounded),
        1 => Just(Slack::Unbounded),
    ];
    let budget = prop_oneof![3 => Just(None), 1 => (0..30_u64).prop_map(Some)];
    let synchrony = prop_oneof![Just(Synchrony::Immediate), Just(Synchrony::Averaged)];
    let journalled = prop_oneof![4 => Just(true), 1 => Just(false)];
    (1..=3_usize, 0..3_u32, synchrony, slack, journalled, budget, 0..=3_usize).prop_map(
        |(learners, log_capacity, synchrony, slack, journalled, budget, quorum)| Setup {
            learners,
            capacity: 1 << log_capacity,
            first_ticket: FIRST_TICKET,
            synchrony,
            slack,
            journalled,
            budget,
            quorum: quorum.min(learners),
        },
    )
}

fn scenario() -> impl Strategy<Value = (Setup, Vec<Operation>)> {
    (setup(), any::<bool>()).prop_flat_map(|(setup, joined)| {
        let joins = (0..setup.learners).map(|learner| Operation::Join { learner });
        let joins: Vec<_> = joins.filter(|_| joined).collect();
        vec(operation(setup.learners), 1..150)
            .prop_map(move |operations| (setup, [joins.clone(), operations].concat()))
    })
}

/// When the server dies in an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lives,
    DiesBeforeItWrites,
    DiesOnceItHasWritten,
}

/// The death of the server.
struct Death;

/// Books whose server may die in an update.
struct Mortal {
    books: Books<Threads>,
    fate: Rc<Cell<Fate>>,
}

impl Apply<Threads, u64> for Mortal {
    fn admit(&mut self, gradient: &Gradient<'_, u64>) -> bool {
        self.books.admit(gradient)
    }

    fn update(&mut self, gradient: &Gradient<'_, u64>, journal: Option<Journal<'_, Threads>>) {
        if self.fate.get() == Fate::DiesBeforeItWrites {
            resume_unwind(Box::new(Death));
        }
        self.books.update(gradient, journal);
        if self.fate.get() == Fate::DiesOnceItHasWritten {
            resume_unwind(Box::new(Death));
        }
    }

    fn snapshot(&mut self, learner: usize) {
        self.books.snapshot(learner);
    }

    fn evicted(&mut self, learner: usize, epoch: u32, fault: Fault) {
        self.books.evicted(learner, epoch, fault);
    }
}

struct Member {
    producer: Producer<'static, Threads, u64>,
    clock: Option<u64>,
}

struct Subject {
    run: Run<'static, Threads, u64>,
    weights: WeightsView<Threads>,
    log: Log,
    policy: Policy,
    fate: Rc<Cell<Fate>>,
    server: Server<'static, Threads, u64, Mortal>,
    members: Vec<Option<Member>>,
    readers: Vec<Reader<'static, Threads>>,
}

fn attach(
    run: Run<'static, Threads, u64>,
    policy: Policy,
    weights: WeightsView<Threads>,
    log: &Log,
    fate: &Rc<Cell<Fate>>,
) -> Result<Server<'static, Threads, u64, Mortal>, AttachError> {
    let apply = Mortal { books: Books::new(weights, log.clone()), fate: fate.clone() };
    Server::attach(run, policy, apply)
}

impl Subject {
    fn new(run: Run<'static, Threads, u64>, weights: WeightsView<Threads>, setup: Setup) -> Self {
        let Setup { synchrony, journalled, budget, quorum, .. } = setup;
        let policy = Policy { synchrony, journalled, budget, quorum };
        let (log, fate) = (Log::default(), Rc::new(Cell::new(Fate::Lives)));
        let server = attach(run, policy, weights, &log, &fate).expect("a new run");
        let members = (0..setup.learners).map(|_| None).collect();
        let reader = |learner: usize| {
            Reader::join(run.stamp(), run.seats()[learner].snapshot(), run.server_bell())
        };
        let readers = (0..setup.learners).map(reader).collect();
        Self { run, weights, log, policy, fate, server, members, readers }
    }

    fn step(&mut self, operation: Operation) -> Expected {
        match operation {
            Operation::Join { learner } => {
                self.take_seat(learner, |run| run.seats()[learner].join(learner as u32))
            }
            Operation::Rejoin { learner } => self.take_seat(learner, |run| {
                let seat = &run.seats()[learner];
                seat.rejoin(learner as u32, seat.standing().epoch)
            }),
            Operation::Push { learner, value, flaw } => {
                Expected::Pushed(self.push(learner, value, flaw))
            }
            Operation::Leave { learner } => {
                let mut member = self.members[learner].take().expect("a life");
                // Fenced if the server has sealed the ring for it.
                let _ = member.producer.seal();
                let epoch = member.producer.epoch();
                Expected::Changed(self.run.seats()[learner].leave(learner as u32, epoch))
            }
            Operation::Die { learner } => {
                let seat = &self.run.seats()[learner];
                Expected::Changed(seat.mark_dead(learner as u32, seat.standing().epoch))
            }
            Operation::Ask { learner } => {
                self.readers[learner].ask();
                Expected::Done
            }
            Operation::Collect { learner } => {
                let mut copy = None;
                let version = self.readers[learner]
                    .collect(|| copy = Some(self.weights.copy_snapshot(learner)));
                Expected::Collected(version.zip(copy))
            }
            Operation::Stop => {
                self.run.request_stop();
                Expected::Done
            }
            Operation::Step { steps } => {
                let mut last = Step::Worked;
                (0..steps).for_each(|_| last = self.server.step());
                Expected::Stepped(last)
            }
            Operation::Serve => Expected::Stepped(loop {
                let step = self.server.step();
                if step != Step::Worked {
                    break step;
                }
            }),
            Operation::Restart { raise } => {
                self.policy.budget = self.policy.budget.map(|budget| budget + raise);
                self.restart()
            }
            Operation::DieInUpdate { written } => {
                self.fate.set(match written {
                    true => Fate::DiesOnceItHasWritten,
                    false => Fate::DiesBeforeItWrites,
                });
                let died = catch_unwind(AssertUnwindSafe(|| self.server.step()));
                assert!(died.is_err_and(|cause| cause.is::<Death>()), "it was about to update");
                self.fate.set(Fate::Lives);
                self.restart()
            }
        }
    }

    fn restart(&mut self) -> Expected {
        match attach(self.run, self.policy, self.weights, &self.log, &self.fate) {
            Ok(server) => self.server = server,
            Err(error) => return Expected::Refused(error),
        }
        Expected::Done
    }

    fn take_seat(
        &mut self,
        learner: usize,
        take: impl FnOnce(Run<'static, Threads, u64>) -> Result<u32, JoinError>,
    ) -> Expected {
        if self.run.is_stopping() {
            return Expected::Joined(Err(JoinError::Stopping));
        }
        Expected::Joined(take(self.run).inspect(|epoch| {
            let producer = Producer::join(self.run.ring(learner), learner as u32, *epoch);
            self.members[learner] = Some(Member { producer, clock: None });
        }))
    }

    fn next_clock(&self, learner: usize) -> u64 {
        let pushed = self.members[learner].as_ref().and_then(|member| member.clock);
        pushed.unwrap_or_else(|| self.run.clocks().resume_after(learner)) + 1
    }

    fn push(&mut self, learner: usize, value: u64, flaw: Flaw) -> Result<u64, Refusal> {
        let clock = self.next_clock(learner) + u64::from(flaw == Flaw::Clock);
        let parcel = Parcel {
            clock,
            base_version: if flaw == Flaw::Version { u64::MAX } else { 0 },
            first_table: 0,
            tables: if flaw == Flaw::Table { 2 } else { 1 },
            encoding: Encoding::Dense,
            length: 8,
        };
        let member = self.members[learner].as_mut().expect("a life");
        let mut reservation = member.producer.reserve().map_err(Refusal::Reserve)?;
        let value = if flaw == Flaw::Payload { u64::MAX } else { value };
        reservation.write(|payload| *payload = value);
        let ticket = reservation.commit(parcel).map_err(Refusal::Fenced)?;
        member.clock = Some(clock);
        Ok(ticket)
    }

    fn assert_same(&self, oracle: &Oracle, slack: Slack) {
        assert_eq!(self.log.postings(), oracle.postings, "what was applied (P2)");
        assert_eq!(self.log.evictions(), oracle.evictions);
        assert_eq!(self.server.version(), oracle.version);
        assert_eq!(self.run.stamp().version(), oracle.version);
        assert_eq!(self.weights.copy(), replay(&oracle.postings), "the weights are the log's (P9)");
        assert_eq!(self.run.is_stopping(), oracle.stopping);
        let clocks = self.run.clocks();
        let time = Timekeeper::attach(clocks);
        for learner in 0..self.members.len() {
            assert_eq!(self.run.seats()[learner].standing(), oracle.standing(learner));
            assert_eq!(clocks.applied(0, learner), oracle.clocks.applied[0][learner]);
            assert_eq!(time.counts(learner), oracle.clocks.participants.contains(&learner));
            let clock = self.next_clock(learner);
            assert_eq!(clock, oracle.next_clock(learner));
            assert_eq!(clocks.is_open(clock, slack), oracle.is_open(learner), "(P6)");
        }
    }
}

/// At rest, a run with learners has one that can go on (P7), and rest is rest.
fn assert_rest(subject: &mut Subject, oracle: &Oracle, learners: usize) {
    assert_eq!(subject.server.step(), Step::Blocked, "it has to wait, so it has nothing to do");
    let waits = oracle.stopping || !oracle.has_quorum();
    let counts = !oracle.clocks.participants.is_empty();
    assert!(
        waits || !counts || (0..learners).any(|learner| oracle.can_push(learner)),
        "everybody waits for somebody else (P7)"
    );
}

/// Does every operation on a real run and on the model.
fn drive(setup: Setup, operations: impl IntoIterator<Item = Operation>) -> Oracle {
    let ground = Ground::<Threads, u64>::new(setup.learners, setup.capacity);
    let weights = Weights::new(setup.learners);
    let mut subject = Subject::new(ground.run(), weights.view(), setup);
    let mut oracle = Oracle::new(setup);
    for (number, operation) in operations.into_iter().enumerate() {
        let expected = oracle.step(operation);
        if expected != Expected::Skipped {
            assert_eq!(subject.step(operation), expected, "{number} {operation:?}");
            subject.assert_same(&oracle, setup.slack);
        }
        if expected == Expected::Stepped(Step::Blocked) {
            assert_rest(&mut subject, &oracle, setup.learners);
        }
    }
    oracle
}

proptest! {
    #![proptest_config(common::cases(8_000))]

    #[test]
    fn a_server_is_a_loop_over_queues((setup, operations) in scenario()) {
        drive(setup, operations);
    }
}

/// Rounds of `learners` without slack.
fn rounds(learners: usize, budget: Option<u64>) -> Setup {
    Setup {
        learners,
        capacity: 1,
        first_ticket: FIRST_TICKET,
        synchrony: Synchrony::Averaged,
        slack: Slack::Bounded(0),
        journalled: true,
        budget,
        quorum: learners,
    }
}

fn joins(learners: usize) -> Vec<Operation> {
    let joins = (0..learners).map(|learner| Operation::Join { learner });
    joins.chain([Operation::Serve]).collect()
}

fn push(learner: usize, flaw: Flaw) -> Operation {
    Operation::Push { learner, value: 1, flaw }
}

#[test]
fn a_life_that_follows_an_evicted_one_begins_with_the_others() {
    let eviction = [push(0, Flaw::Clock), Operation::Rejoin { learner: 0 }, push(1, Flaw::None)];
    let next = [0, 1].map(|learner| push(learner, Flaw::None));
    let rest = [Operation::Serve];
    let operations = [joins(2), eviction.into(), rest.into(), next.into(), rest.into()].concat();
    let oracle = drive(rounds(2, None), operations);
    assert_eq!(oracle.version, 3, "one in the round of the eviction, two in the next");
}

#[test]
fn who_is_left_out_of_a_last_round_that_was_not_the_last_catches_up() {
    // The budget lets two of three into the round, and one of the two is evicted.
    let round = [push(0, Flaw::None), push(1, Flaw::Clock), push(2, Flaw::None)];
    let rest = [Operation::Serve];
    let operations = [joins(3), round.into(), rest.into()].concat();
    let oracle = drive(rounds(3, Some(2)), operations);
    assert_eq!(oracle.version, 2, "the budget is reached, and exactly (P11)");
}
