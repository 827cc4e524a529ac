//! The stage: one run acted out sequentially, with kills where the plan says.
//!
//! A [scenario](super::scenario) tells the actors what to do; each thing that one of them does
//! without another in between is an *act*, numbered from 0. The plan names acts that are not
//! played: instead, the memory becomes an [`Image`] of what the act would have stored, the actor is
//! gone, and the next act is that of its successor: a server that attaches, or the next life of a
//! learner. Whatever was stored before an act has happened: an act ends where its actor would go to
//! sleep or ring, behind a fence, and others may have acted on it.
//!
//! After every step of the server, and in every image, [`outcome`](super::outcome) looks at what a
//! learner that is still alive could see. What the learners do is in [`actions`](super::actions).

use protocol::machine::{Machine, Step};
use protocol::platform::Platform;
use protocol::ring::Producer;
use protocol::run::Run;
use protocol::server::Server;
use protocol::weights::Reader;

use super::image::{Image, images};
use super::memory::{self, Entry};
use super::scenario::Scenario;
use crate::books::{Books, Log, Posting, Weights, WeightsView};
use crate::ground::{FIRST_TICKET, Ground};

/// A server that works longer than this without coming to rest never will.
const MOST_STEPS: usize = 1000;

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The server.
    Server,
    /// The learner on this seat.
    Learner(usize),
    /// Somebody whose death is not looked at: the watchdog, an intruder.
    Other,
}

/// A kill: the act that is not played, and what it leaves.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Number of the act.
    pub act: usize,
    /// What lies in memory.
    pub image: Image,
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

/// What a learner's process knows.
pub(super) struct Learner<P: Platform> {
    pub(super) producer: Option<Producer<'static, P, u64>>,
    pub(super) next_clock: Option<u64>,
}

/// One performance of a scenario.
pub struct Stage<'p, P: Platform> {
    pub(super) scenario: &'p Scenario<P>,
    pub(super) run: Run<'static, P, u64>,
    pub(super) weights: WeightsView<P>,
    pub(super) learners: Vec<Learner<P>>,
    pub(super) reader: Option<Reader<'static, P>>,
    /// The order in which gradients are applied, where it is known: what a consistent copy of
    /// each version holds.
    pub(super) expected: Option<&'p [Posting]>,
    server: Option<Server<'static, P, u64, Books<P>>>,
    log: Log,
    plan: &'p [Kill],
    acts: usize,
    recorded: Vec<(usize, Actor, Vec<Entry>)>,
}

impl<'p, P: Platform> Stage<'p, P> {
    /// The beginning.
    pub fn new(
        scenario: &'p Scenario<P>,
        world: &World<P>,
        expected: Option<&'p [Posting]>,
        plan: &'p [Kill],
    ) -> Self {
        memory::reinstate(&world.blank);
        memory::take_stream();
        let nobody = |_| Learner { producer: None, next_clock: None };
        Self {
            scenario,
            run: world.ground.run(),
            weights: world.weights.view(),
            learners: (0..scenario.learners).map(nobody).collect(),
            reader: None,
            expected,
            server: None,
            log: Log::default(),
            plan,
            acts: 0,
            recorded: Vec::new(),
        }
    }

    /// Gradients in the order in which they were applied, without those of acts that were killed.
    pub fn postings(&self) -> Vec<Posting> {
        self.log.postings()
    }

    /// Asserts that each learner's tickets were applied in order, each once, from the first. A
    /// gradient that was discarded with its learner takes its ticket along: then they have gaps.
    pub fn assert_in_order(&self) {
        if self.log.evictions().is_empty() {
            self.log.assert_in_order(self.learners.len(), FIRST_TICKET);
        }
    }

    /// Every kill of the victim that can follow the last one.
    pub fn next_kills(&self) -> Vec<Kill> {
        let first = self.plan.last().map_or(0, |kill| kill.act + 1);
        let victim = self.scenario.victim;
        let acts = self.recorded.iter().filter(|(act, actor, _)| *act >= first && *actor == victim);
        acts.flat_map(|(act, _, stream)| {
            images(stream).into_iter().map(|image| Kill { act: *act, image })
        })
        .collect()
    }

    /// Plays one act, or kills its actor; then there is no result.
    pub(super) fn act<R>(&mut self, actor: Actor, play: impl FnOnce(&mut Self) -> R) -> Option<R> {
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

    /// The server works until there is nothing to do. If it is killed, another one attaches, after
    /// what the scenario lets happen meanwhile.
    pub fn serve(&mut self) {
        while self.act(Actor::Server, Self::serve_once).is_none() {
            self.server = None;
            (self.scenario.meanwhile)(self);
        }
    }

    fn serve_once(&mut self) {
        let mut server = self.server.take().unwrap_or_else(|| {
            let books = Books::new(self.weights, self.log.clone());
            match Server::attach(self.run, self.scenario.policy, books) {
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
}
