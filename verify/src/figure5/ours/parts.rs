//! What the scenarios on the core are made of.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use protocol::bell::{Doorbell, Patience, Waiter};
use protocol::error::Fault;
use protocol::handoff::{Giver, Handoff, Taker};
use protocol::journal::Journal;
use protocol::learner::{Compute, Contents, Life, PullCopy, PushCopy};
use protocol::machine::{Machine, Step};
use protocol::membership::State;
use protocol::platform::{Platform, Word};
use protocol::ring::{Encoding, Parcel, Producer};
use protocol::run::Run;
use protocol::server::{self, Apply, Policy, Server, Synchrony};
use protocol::site::Site;

use super::super::ledger::Ledger;
use super::super::state::Gradient;
use crate::model::{Join, Model};

/// A run whose payloads are the figure's gradients.
pub(super) type Shared<M> = Run<'static, M, Gradient>;

/// The figure's server on the core.
pub(super) type OurServer<M> = Server<'static, M, Gradient, Onlooker<M>>;

/// Waits without spinning and without timeouts.
pub(super) fn waiter<M: Model>(bell: &'static Doorbell<M>) -> Waiter<'static, M> {
    Waiter::new(bell, Patience::MODEL)
}

/// A server that applies gradients as it finds them.
pub(super) fn attach<M: Model>(
    run: Shared<M>,
    budget: Option<u64>,
    onlooker: &Onlooker<M>,
) -> OurServer<M> {
    let policy = Policy { synchrony: Synchrony::Immediate, journalled: false, budget, quorum: 0 };
    Server::attach(run, policy, onlooker.clone()).expect("nothing was half written")
}

/// Steps the server, sleeping while it is blocked, until `done`.
pub(super) fn serve_until<M: Model>(
    run: Shared<M>,
    server: &mut OurServer<M>,
    mut done: impl FnMut() -> bool,
) {
    waiter(run.server_bell()).wait(|| {
        loop {
            let step = server.step();
            if done() {
                return Some(());
            }
            if step == Step::Blocked {
                return None;
            }
        }
    });
}

/// Weights that count their updates, the ledger, and the copies between them.
pub(super) struct Onlooker<M: Platform> {
    pub(super) ledger: Arc<Ledger>,
    weights: Arc<M::U64>,
}

impl<M: Platform> Onlooker<M> {
    pub(super) fn new() -> Self {
        Self { ledger: Arc::default(), weights: Arc::new(M::U64::new(0)) }
    }
}

impl<M: Platform> Clone for Onlooker<M> {
    fn clone(&self) -> Self {
        Self { ledger: Arc::clone(&self.ledger), weights: Arc::clone(&self.weights) }
    }
}

impl<M: Platform> Apply<M, Gradient> for Onlooker<M> {
    fn admit(&mut self, _: &server::Gradient<'_, Gradient>) -> bool {
        true
    }

    fn update(&mut self, gradient: &server::Gradient<'_, Gradient>, _: Option<Journal<'_, M>>) {
        self.ledger.take(*gradient.payload);
        self.weights.fetch_add(Site::Caller, 1, Relaxed);
    }

    fn snapshot(&mut self, learner: usize) {
        panic!("learner {learner} does not ask for a consistent copy");
    }

    fn evicted(&mut self, learner: usize, _: u32, fault: Fault) {
        panic!("learner {learner} was evicted: {fault}");
    }
}

impl<M: Platform> PullCopy<u64> for Onlooker<M> {
    fn pull(&mut self, weights: &mut u64) {
        *weights = self.weights.load(Site::Caller, Relaxed);
    }

    fn collect(&mut self, _: &mut u64) {
        panic!("nobody asks for a consistent copy");
    }
}

impl<M: Platform> PushCopy<Gradient, Gradient> for Onlooker<M> {
    fn push(&mut self, gradient: &mut Gradient, _: usize, payload: &mut Gradient) -> Contents {
        *payload = *gradient;
        Contents { first_table: 0, tables: 1, encoding: Encoding::Dense, length: 8 }
    }
}

impl<M: Platform> Compute<Gradient, u64> for Onlooker<M> {
    fn compute(&mut self, clock: u64, _: u64, weights: &u64, gradient: &mut Gradient) -> bool {
        self.ledger.train_on(*weights);
        *gradient = Gradient { learner: 0, life: 1, number: clock as u32 };
        true
    }
}

/// Where a push stops for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before a slot is reserved.
    BeforeReserve,
    /// Between reservation and write.
    BeforeWrite,
    /// Between write and commit.
    BeforeCommit,
    /// After the commit.
    AfterCommit,
}

impl Stop {
    /// Every place.
    pub const ALL: [Self; 4] =
        [Self::BeforeReserve, Self::BeforeWrite, Self::BeforeCommit, Self::AfterCommit];

    /// How many gradients were committed in the push that stops here.
    pub fn counted(self) -> u32 {
        u32::from(self == Self::AfterCommit)
    }
}

/// One life of a learner that computes and pushes in turn.
pub(super) struct Pusher<M: Model> {
    pub(super) life: Life<'static, M, Gradient>,
    producer: Producer<'static, M, Gradient>,
    clock: u64,
    ledger: Arc<Ledger>,
}

impl<M: Model> Pusher<M> {
    /// Takes the vacant seat of `learner`, which the server grants meanwhile.
    pub(super) fn join(run: Shared<M>, learner: usize, server: &mut OurServer<M>) -> Self {
        let seat = &run.seats()[learner];
        let joining = M::spawn(move || Life::join(run, learner, waiter(seat.bell())));
        serve_until(run, server, || seat.standing().state == State::Live);
        Self::new(joining.join().expect("the seat was vacant"), &server.apply().ledger)
    }

    /// Takes the seat of this life, which is dead.
    pub(super) fn rejoin(self) -> Self {
        let (run, learner, dead) = (self.life.run(), self.life.learner(), self.life.epoch());
        let bell = waiter(run.seats()[learner].bell());
        Self::new(Life::rejoin(run, learner, dead, bell).expect("it was dead"), &self.ledger)
    }

    fn new(
        (life, producer): (Life<'static, M, Gradient>, Producer<'static, M, Gradient>),
        ledger: &Arc<Ledger>,
    ) -> Self {
        Self { life, producer, clock: life.first_clock(), ledger: Arc::clone(ledger) }
    }

    /// Pushes the gradient after the last one that was counted, whole.
    pub(super) fn push(&mut self) {
        self.push_up_to(Stop::AfterCommit);
    }

    /// Pushes the gradient after the last one that was counted, up to `stop`.
    pub(super) fn push_up_to(&mut self, stop: Stop) {
        if stop == Stop::BeforeReserve {
            return;
        }
        let learner = self.life.learner();
        let bell = waiter(self.life.run().seats()[learner].bell());
        let mut slot = self.producer.reserve_wait(bell, || false).expect("nobody ends this life");
        if stop == Stop::BeforeWrite {
            return;
        }
        let number = self.ledger.counted(learner).len() as u32 + 1;
        let gradient = Gradient { learner, life: self.life.epoch(), number };
        slot.write(|payload| *payload = gradient);
        if stop == Stop::BeforeCommit {
            return;
        }
        self.ledger.count(gradient);
        slot.commit(Parcel::dense(self.clock, 0, 1, 8)).expect("nobody ends this life");
        self.clock += 1;
    }

    /// Ends this life in good order.
    pub(super) fn leave(self) {
        assert!(self.life.leave(self.producer), "nobody ends this life");
    }
}

/// The two ends of a hand-off.
pub(super) type Ends<M, B> = (Giver<'static, M, B>, Taker<'static, M, B>);

/// A hand-off whose ends two threads can have; it is dropped after they have ended.
pub(super) struct Between<M: Model, B: Send + 'static>(*mut Handoff<M, B>);

impl<M: Model, B: Send + 'static> Between<M, B> {
    /// The hand-off and its ends.
    pub(super) fn new(buffer: B, bell: &'static Doorbell<M>) -> (Self, Ends<M, B>) {
        let handoff = Box::into_raw(Box::new(Handoff::new(buffer)));
        // SAFETY: nobody else has it yet, and it is alive until `drop`, by which time no thread
        // of the scenario is.
        let ends = unsafe { &mut *handoff }.split(bell);
        (Self(handoff), ends)
    }
}

impl<M: Model, B: Send + 'static> Drop for Between<M, B> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`, dropped once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
