//! The stage: one run acted out sequentially, with kills where the plan says.
//!
//! A scenario tells the actors what to do; each thing that one of them does without another in
//! between is an *act*, numbered from 0. The plan names acts that are not played: instead, the
//! memory becomes an [`Image`] of what the act would have stored, the actor is gone, and the next
//! act is that of its successor: a server that attaches, or the next life of a learner. Whatever
//! was stored before an act has happened: others may have acted on it.
//!
//! After every step of the server, and in every image, [`Stage::assert_honest`] looks at what a
//! learner that is still alive could see.

use protocol::clock::Slack;
use protocol::journal::Phase;
use protocol::machine::{Machine, Step};
use protocol::membership::{Standing, State};
use protocol::platform::Platform;
use protocol::ring::{Consumer, Parcel, Producer};
use protocol::run::Run;
use protocol::server::{Policy, Server};
use protocol::site::Site;
use protocol::weights::{Publisher, Reader};

use super::image::{Image, images};
use super::memory;
use crate::books::{self, BLOCKS, Books, Log, Posting, Weights, WeightsView};
use crate::ground::Ground;
use crate::mutant::with_mutation;

/// A server that works longer than this without coming to rest never will.
const MOST_STEPS: usize = 1000;

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The server.
    Server,
    /// The learner on this seat.
    Learner(usize),
    /// Whoever notices deaths; never killed.
    Watchdog,
}

/// A kill: the act that is not played, and what it leaves.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Number of the act.
    pub act: usize,
    /// What lies in memory.
    pub image: Image,
}

/// How a killed learner comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revival {
    /// The watchdog marks it dead, the server takes notice, then it rejoins.
    AfterDeath,
    /// It rejoins before anybody has noticed.
    AtOnce,
}

/// The memory of a run. One at a time on each thread.
pub struct World<P: Platform> {
    ground: Ground<P, u64>,
    weights: Weights<P>,
    blank: Vec<u64>,
}

impl<P: Platform> World<P> {
    /// A run that has not begun.
    pub fn new(learners: usize, capacity: usize) -> Self {
        memory::clear();
        let ground = Ground::new(learners, capacity);
        let weights = Weights::new(learners);
        Self { ground, weights, blank: memory::snapshot() }
    }
}

/// How a run has ended, as far as it must not depend on kills.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Outcome {
    pub weights: [u32; BLOCKS],
    pub version: u64,
    pub writing: bool,
    pub phase: Phase,
    pub remaining: u64,
    pub participants: u64,
    pub minimum: u64,
    pub applied: Vec<u64>,
    pub next_tickets: Vec<u64>,
    pub left_in_rings: Vec<bool>,
    pub states: Vec<State>,
}

struct Learner<P: Platform> {
    producer: Option<Producer<'static, P, u64>>,
    next_clock: Option<u64>,
}

/// What is left of the learner's choice: its gradient at each clock.
pub fn gradient(learner: usize, clock: u64) -> u64 {
    (learner as u64 + 1) * 1009 + clock * 37
}

/// One performance.
pub struct Stage<'p, P: Platform> {
    run: Run<'static, P, u64>,
    weights: WeightsView<P>,
    log: Log,
    policy: Policy,
    revival: Revival,
    server: Option<Server<'static, P, u64, Books<P>>>,
    learners: Vec<Learner<P>>,
    reader: Option<Reader<'static, P>>,
    expected: Option<&'p [Posting]>,
    plan: &'p [Kill],
    acts: usize,
    recorded: Vec<(usize, Actor, Vec<memory::Entry>)>,
}

impl<'p, P: Platform> Stage<'p, P> {
    /// The beginning. `expected` is the order in which gradients are applied, where it is known:
    /// what a consistent copy of each version holds.
    pub fn new(
        world: &World<P>,
        policy: Policy,
        revival: Revival,
        expected: Option<&'p [Posting]>,
        plan: &'p [Kill],
    ) -> Self {
        memory::reinstate(&world.blank);
        memory::take_stream();
        let run = world.ground.run();
        let learners = (0..run.shape().learners)
            .map(|_| Learner { producer: None, next_clock: None })
            .collect();
        Self {
            run,
            weights: world.weights.view(),
            log: Log::default(),
            policy,
            revival,
            server: None,
            learners,
            reader: None,
            expected,
            plan,
            acts: 0,
            recorded: Vec::new(),
        }
    }

    /// Gradients in the order in which they were applied, without those of acts that were killed.
    pub fn postings(&self) -> Vec<Posting> {
        self.log.postings()
    }

    /// The images of every act of `victim` after the last kill, with the number of the act.
    pub fn images(&self, victim: Actor) -> impl Iterator<Item = Kill> + use<'_, P> {
        let first = self.plan.last().map_or(0, |kill| kill.act + 1);
        self.recorded
            .iter()
            .filter(move |(act, actor, _)| *act >= first && *actor == victim)
            .flat_map(|(act, _, stream)| images(stream).into_iter().map(|i| (*act, i)))
            .map(|(act, image)| Kill { act, image })
    }

    /// Plays one act, or kills its actor; then there is no result.
    fn act<R>(&mut self, actor: Actor, play: impl FnOnce(&mut Self) -> R) -> Option<R> {
        let number = self.acts;
        self.acts += 1;
        if let Some(kill) = self.plan.iter().find(|kill| kill.act == number) {
            memory::overwrite(&kill.image.writes);
            self.assert_honest();
            return None;
        }
        let result = play(self);
        self.recorded.push((number, actor, memory::take_stream()));
        Some(result)
    }

    /// The server works until there is nothing to do. If it is killed, another one attaches.
    pub fn serve(&mut self) {
        while self.act(Actor::Server, Self::serve_once).is_none() {
            self.server = None;
        }
    }

    fn serve_once(&mut self) {
        let mut server = self.server.take().unwrap_or_else(|| {
            let books = Books::new(self.weights, self.log.clone());
            match Server::attach(self.run, self.policy, books) {
                Ok(server) => server,
                Err(error) => panic!("no server can attach: {error}"),
            }
        });
        self.assert_honest();
        for _ in 0..MOST_STEPS {
            let step = server.step();
            self.assert_honest();
            if step != Step::Worked {
                self.server = Some(server);
                return;
            }
        }
        panic!("the server does not come to rest");
    }

    /// A learner takes its vacant seat and is granted it.
    pub fn join(&mut self, learner: usize) {
        let joined = self.act(Actor::Learner(learner), |stage| {
            let seat = &stage.run.seats()[learner];
            let epoch = seat.join(learner as u32).expect("the seat is vacant");
            stage.move_in(learner, epoch);
        });
        if joined.is_none() {
            self.revive(learner);
        }
        self.serve();
        assert_eq!(self.standing(learner).state, State::Live, "learner {learner} is granted");
    }

    /// A learner takes the seat of its last life.
    pub fn rejoin(&mut self, learner: usize) {
        let dead = self.standing(learner).epoch;
        let rejoined = self.act(Actor::Learner(learner), |stage| {
            let seat = &stage.run.seats()[learner];
            let epoch = seat.rejoin(learner as u32, dead).expect("the last life is dead");
            stage.move_in(learner, epoch);
        });
        if rejoined.is_none() {
            self.revive(learner);
        }
        self.serve();
    }

    fn move_in(&mut self, learner: usize, epoch: u32) {
        let producer = Producer::join(self.run.ring(learner), learner as u32, epoch);
        self.learners[learner] = Learner { producer: Some(producer), next_clock: None };
    }

    /// The next life of a learner that was killed.
    fn revive(&mut self, learner: usize) {
        self.learners[learner].producer = None;
        if self.standing(learner).state == State::Vacant {
            return self.join(learner);
        }
        if self.revival == Revival::AfterDeath {
            self.give_up(learner);
            self.serve();
        }
        self.rejoin(learner);
    }

    /// A learner commits its gradients up to `clock`, while the server works if the ring is full.
    ///
    /// A life whose predecessor's gradients wait for others is not granted yet: it has nothing to
    /// do.
    pub fn learn(&mut self, learner: usize, clock: u64) {
        while self.is_due(learner, clock) {
            let committed = self.act(Actor::Learner(learner), |stage| stage.commit_next(learner));
            match committed {
                None => self.revive(learner),
                Some(true) => {}
                Some(false) => self.serve(),
            }
        }
    }

    fn is_due(&mut self, learner: usize, clock: u64) -> bool {
        if self.standing(learner).state != State::Live {
            self.serve();
        }
        if self.standing(learner).state != State::Live {
            return false;
        }
        let resumed = self.run.clocks().resume_after(learner) + 1;
        *self.learners[learner].next_clock.get_or_insert(resumed) <= clock
    }

    fn commit_next(&mut self, learner: usize) -> bool {
        let clock = self.learners[learner].next_clock.expect("is due");
        let committed = self.commit(learner, gradient(learner, clock), clock);
        if committed {
            self.learners[learner].next_clock = Some(clock + 1);
        }
        committed
    }

    fn commit(&mut self, learner: usize, value: u64, clock: u64) -> bool {
        let base_version = self.run.stamp().version();
        let producer = self.learners[learner].producer.as_mut().expect("has joined");
        let Ok(mut reservation) = producer.reserve() else { return false };
        reservation.write(|payload| *payload = value);
        let parcel = Parcel::dense(clock, base_version, 1, 8);
        reservation.commit(parcel).expect("nobody else holds the ring");
        true
    }

    /// A learner commits something that the server must refuse: a payload that cannot be applied.
    pub fn commit_nonsense(&mut self, learner: usize) {
        let clock = self.run.clocks().resume_after(learner) + 1;
        self.act(Actor::Watchdog, |stage| assert!(stage.commit(learner, u64::MAX, clock)));
    }

    /// A learner commits a gradient of a clock that is not due.
    pub fn commit_skipping(&mut self, learner: usize) {
        let clock = self.run.clocks().resume_after(learner) + 2;
        let value = gradient(learner, clock);
        self.act(Actor::Watchdog, |stage| assert!(stage.commit(learner, value, clock)));
    }

    /// Somebody who does not hold the seat commits to its ring.
    pub fn commit_foreign(&mut self, learner: usize) {
        let epoch = self.standing(learner).epoch + 1;
        let clock = self.run.clocks().resume_after(learner) + 1;
        self.act(Actor::Watchdog, |stage| {
            stage.move_in(learner, epoch);
            assert!(stage.commit(learner, gradient(learner, clock), clock));
        });
    }

    /// A learner ends its stream and leaves; the server lets it go.
    pub fn leave(&mut self, learner: usize) {
        while self
            .act(Actor::Learner(learner), |stage| {
                let mut producer = stage.learners[learner].producer.take().expect("has joined");
                let epoch = producer.epoch();
                producer.seal().expect("nobody else holds the ring");
                assert!(stage.run.seats()[learner].leave(learner as u32, epoch));
                stage.run.server_bell().ring(Site::LeaveBell);
            })
            .is_none()
        {
            self.revive(learner);
        }
        self.serve();
    }

    /// The watchdog finds a learner dead.
    pub fn give_up(&mut self, learner: usize) {
        self.act(Actor::Watchdog, |stage| {
            let epoch = stage.standing(learner).epoch;
            let seat = &stage.run.seats()[learner];
            // It may have left, or have been evicted, just before it died.
            seat.mark_dead(learner as u32, epoch);
            stage.learners[learner].producer = None;
            stage.run.ring_everybody(Site::WatchdogBell);
        });
    }

    /// Learner 0 asks for a consistent copy.
    pub fn ask(&mut self) {
        self.act(Actor::Watchdog, |stage| {
            let (stamp, bell) = (stage.run.stamp(), stage.run.server_bell());
            let snapshot = stage.run.seats()[0].snapshot();
            stage.reader.get_or_insert_with(|| Reader::join(stamp, snapshot, bell)).ask();
        });
    }

    /// The answer to the last question, which must be there.
    pub fn collect(&mut self) {
        let reader = self.reader.as_ref().expect("has asked");
        assert!(reader.collect(|| ()).is_some(), "the question is answered (P5)");
    }

    fn standing(&self, learner: usize) -> Standing {
        with_mutation(None, || self.run.seats()[learner].standing())
    }

    fn minimum(&self) -> u64 {
        let is_open = |clock: &u64| self.run.clocks().is_open(*clock + 1, Slack::Bounded(0));
        (0..).take_while(is_open).last().expect("clock 1 is open from the start")
    }

    /// What learners can see now, read as an unbroken protocol reads it, claims nothing that the
    /// weights do not hold.
    fn assert_honest(&self) {
        with_mutation(None, || {
            let version = self.run.stamp().version();
            let minimum = self.minimum();
            let blocks = self.weights.copy();
            let held = blocks.into_iter().map(books::count).min().expect("there are blocks");
            let held = u64::from(held);
            assert!(version <= held, "version {version}, but {blocks:x?} (P5)");
            assert!(minimum <= held, "clock {minimum}, but {blocks:x?} (P6)");
            let answer = self.reader.as_ref().and_then(|reader| reader.collect(|| ()));
            if let (Some(version), Some(expected)) = (answer, self.expected) {
                let copy = self.weights.copy_snapshot(0);
                let whole = books::replay(&expected[..version as usize]);
                assert_eq!(copy, whole, "a snapshot of version {version} (P5)");
            }
        });
    }

    /// How the run has ended.
    pub fn outcome(&self) -> Outcome {
        with_mutation(None, || {
            let publisher = Publisher::attach(self.run.stamp());
            let time = protocol::clock::Timekeeper::attach(self.run.clocks());
            let learners = 0..self.run.shape().learners;
            let consumer = |l: usize| Consumer::attach(self.run.ring(l), l as u32, 1, 64);
            Outcome {
                weights: self.weights.copy(),
                version: publisher.version(),
                writing: publisher.is_writing(),
                phase: self.run.journal().found().0,
                remaining: self.run.journal().round().0,
                participants: time.participants(),
                minimum: self.minimum(),
                applied: learners.clone().map(|l| time.applied(0, l)).collect(),
                next_tickets: learners.clone().map(|l| consumer(l).next_ticket()).collect(),
                left_in_rings: learners.clone().map(|l| !consumer(l).is_empty()).collect(),
                states: learners.map(|l| self.standing(l).state).collect(),
            }
        })
    }
}
