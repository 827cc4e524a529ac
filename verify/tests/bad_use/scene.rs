//! A run in raw memory with a server and learners that a test can drive and damage.

use protocol::clock::Timekeeper;
use protocol::error::{Fault, JoinError};
use protocol::machine::{Machine, Step};
use protocol::membership::{Standing, State};
use protocol::ring::{Parcel, Producer, counter};
use protocol::run::{Run, Shape};
use protocol::server::{AttachError, Policy, Server, Synchrony};
use ps::platform::Threads;
use verify::books::{Books, Log, Posting, Weights, replay};
use verify::raw::RawRun;

pub(crate) const LEARNERS: usize = 3;
pub(crate) const TABLES: usize = 2;
pub(crate) const CAPACITY: usize = 4;
pub(crate) const PAYLOAD_LIMIT: u64 = 8;
pub(crate) const SHAPE: Shape = Shape {
    learners: LEARNERS,
    tables: TABLES,
    capacity: CAPACITY,
    lanes: 1,
    payload_limit: PAYLOAD_LIMIT,
};

/// More steps than a server of this shape ever takes before it has to wait.
const MANY_STEPS: usize = 500;

/// What outlives every server.
pub(crate) struct Memory {
    pub(crate) raw: RawRun<Threads>,
    pub(crate) weights: Weights<Threads>,
    pub(crate) log: Log,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self { raw: RawRun::new(SHAPE), weights: Weights::new(LEARNERS), log: Log::default() }
    }

    pub(crate) fn attach(
        &self,
        synchrony: Synchrony,
    ) -> Result<Server<'_, Threads, u64, Books<Threads>>, AttachError> {
        let policy = Policy { synchrony, journalled: true, budget: None, quorum: 1 };
        Server::attach(self.raw.run(), policy, Books::new(self.weights.view(), self.log.clone()))
    }
}

/// One life of a learner.
pub(crate) struct Member<'a> {
    pub(crate) producer: Producer<'a, Threads, u64>,
    pub(crate) clock: u64,
}

pub(crate) struct Scene<'a> {
    pub(crate) memory: &'a Memory,
    pub(crate) run: Run<'a, Threads, u64>,
    pub(crate) synchrony: Synchrony,
    pub(crate) server: Server<'a, Threads, u64, Books<Threads>>,
    pub(crate) members: Vec<Option<Member<'a>>>,
}

impl<'a> Scene<'a> {
    /// A server with all seats taken; everybody has pushed one gradient, learner 0 two.
    pub(crate) fn new(memory: &'a Memory, synchrony: Synchrony) -> Self {
        let run = memory.raw.run();
        let server = memory.attach(synchrony).expect("a new run");
        let members = (0..LEARNERS).map(|_| None).collect();
        let mut scene = Self { memory, run, synchrony, server, members };
        (0..LEARNERS).for_each(|learner| scene.join(learner).expect("a vacant seat"));
        scene.settle();
        for learner in (0..LEARNERS).chain([0]) {
            scene.push(learner).expect("room for a gradient");
        }
        scene.settle();
        scene
    }

    /// Steps the server until it has to wait.
    pub(crate) fn settle(&mut self) -> Step {
        for _ in 0..MANY_STEPS {
            let step = self.server.step();
            if step != Step::Worked {
                return step;
            }
        }
        panic!("the server works for ever on nothing");
    }

    /// Replaces the server, as if it had been killed where it stands.
    pub(crate) fn restart(&mut self) -> Result<(), AttachError> {
        self.server = self.memory.attach(self.synchrony)?;
        Ok(())
    }

    pub(crate) fn join(&mut self, learner: usize) -> Result<(), JoinError> {
        let epoch = self.run.seats()[learner].join(learner as u32)?;
        self.move_in(learner, epoch);
        Ok(())
    }

    /// A new life takes the seat, whatever was there.
    pub(crate) fn take_seat(&mut self, learner: usize) -> Result<(), JoinError> {
        let seat = &self.run.seats()[learner];
        let epoch = match seat.standing() {
            Standing { state: State::Vacant, .. } => seat.join(learner as u32)?,
            Standing { epoch, .. } => seat.rejoin(learner as u32, epoch)?,
        };
        self.move_in(learner, epoch);
        Ok(())
    }

    fn move_in(&mut self, learner: usize, epoch: u32) {
        let producer = Producer::join(self.run.ring(learner), learner as u32, epoch);
        self.members[learner] = Some(Member { producer, clock: 0 });
    }

    /// Pushes the next gradient of `learner`; its value tells learner and clock.
    pub(crate) fn push(&mut self, learner: usize) -> Option<u64> {
        let next = self.run.clocks().resume_after(learner).wrapping_add(1);
        let member = self.members[learner].as_mut()?;
        member.clock = member.clock.wrapping_add(1).max(next);
        let clock = member.clock;
        let mut reservation = member.producer.reserve().ok()?;
        reservation.write(|payload| *payload = value(learner, clock));
        reservation.commit(Parcel::dense(clock, 0, TABLES as u32, PAYLOAD_LIMIT)).ok()
    }

    /// Everybody but learner 0 pushes a gradient.
    pub(crate) fn others_push(&mut self) {
        for learner in 1..LEARNERS {
            self.push(learner).expect("an innocent learner has room");
        }
    }

    /// Everybody who can pushes a gradient.
    pub(crate) fn everybody_pushes(&mut self) {
        for learner in 0..LEARNERS {
            let _ = self.push(learner);
        }
    }

    /// The learner ends its life as it does when it finds that it is over.
    pub(crate) fn leave(&mut self, learner: usize) {
        if let Some(mut member) = self.members[learner].take() {
            // Fenced if the ring was taken away from it.
            let _ = member.producer.seal();
            self.run.seats()[learner].leave(learner as u32, member.producer.epoch());
        }
    }

    pub(crate) fn counts(&self, learner: usize) -> bool {
        Timekeeper::attach(self.run.clocks()).counts(learner)
    }

    pub(crate) fn standing(&self, learner: usize) -> Standing {
        self.run.seats()[learner].standing()
    }

    pub(crate) fn postings(&self) -> Vec<Posting> {
        self.memory.log.postings()
    }

    pub(crate) fn evictions(&self) -> Vec<(usize, Fault)> {
        self.memory.log.evictions()
    }

    /// The slot that a ticket of `learner` lies in.
    pub(crate) fn slot(&self, ticket: u64) -> usize {
        counter::slot(ticket, CAPACITY)
    }

    /// Everybody but learner 0 goes on for some clocks, and everything they push is applied once
    /// and in order; the weights are those of the log.
    pub(crate) fn assert_others_are_served(&mut self) {
        let before = self.postings().len();
        for _ in 0..3 {
            self.others_push();
            self.settle();
        }
        for learner in 1..LEARNERS {
            let postings = self.postings();
            let applied = postings[before..].iter().filter(|p| p.learner == learner as u32);
            assert_eq!(applied.count(), 3, "learner {learner} is served");
        }
        self.memory.log.assert_in_order(LEARNERS, 0);
        assert_eq!(self.memory.weights.view().copy(), replay(&self.postings()));
    }

    /// Learner 0, and nobody else, was given up; a new life takes its seat and is served.
    pub(crate) fn assert_only_the_damaged_learner_is_given_up(&mut self) {
        assert!(self.evictions().iter().all(|(learner, _)| *learner == 0), "an innocent evicted");
        assert!(!self.counts(0), "nobody waits for learner 0 (P7)");
        for learner in 1..LEARNERS {
            assert!(self.counts(learner));
            assert_eq!(self.standing(learner), Standing { state: State::Live, epoch: 1 });
        }
        self.assert_others_are_served();
        self.take_seat(0).expect("the seat can be taken again");
        self.settle();
        assert_eq!(self.standing(0).state, State::Live, "the new life is granted the seat");
        let before = self.postings().len();
        self.everybody_pushes();
        self.settle();
        assert_eq!(self.postings().len(), before + LEARNERS, "the new life is served");
    }
}

pub(crate) fn value(learner: usize, clock: u64) -> u64 {
    (learner as u64 * 1000).wrapping_add(clock)
}

pub(crate) const SYNCHRONIES: [Synchrony; 2] = [Synchrony::Immediate, Synchrony::Averaged];
