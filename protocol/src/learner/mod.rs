//! The learner: one life on a seat, and its three threads as step machines.
//!
//! ```text
//!            weights hand-off                 gradient hand-off           ring
//!   Pull ────────────────────────► Train ──────────────────────► Push ────────────► server
//!   wait for the clock,            swap buffers, compute,        copy into a slot,
//!   version, copy                  swap buffers                  commit
//! ```
//!
//! A life takes a seat ([`Life::join`] or [`Life::rejoin`]), waits until the server has granted it,
//! runs the machines, and leaves. The machines never wait for each other's work: each owns its
//! buffer while it works and passes ownership on ([`handoff`](crate::handoff)). A stop, a refusal
//! or an eviction seen by any of them closes its hand-offs, and the others follow: nobody is left
//! behind blocked (P1, P10).

mod pull;
mod push;
mod train;

pub use pull::{Pull, PullCopy, PullPolicy};
pub use push::{Contents, Push, PushCopy};
pub use train::{Compute, Train};

use crate::bell::Waiter;
use crate::error::JoinError;
use crate::membership::{Standing, State};
use crate::platform::Platform;
use crate::ring::Producer;
use crate::run::Run;
use crate::site::Site;

/// A gradient on its way from train to push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded<G> {
    /// The buffer whose ownership passes.
    pub buffer: G,
    /// The clock at which it was computed.
    pub clock: u64,
    /// The version of the weights it was computed on.
    pub base_version: u64,
}

/// Weights on their way from pull to train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched<W> {
    /// The buffer whose ownership passes.
    pub buffer: W,
    /// The version that the buffer may claim.
    pub version: u64,
    /// Whether the buffer holds newer weights than train already has.
    pub fresh: bool,
}

/// One life of a learner on its seat.
pub struct Life<'a, P: Platform, T: Send> {
    run: Run<'a, P, T>,
    learner: usize,
    epoch: u32,
}

impl<P: Platform, T: Send> Clone for Life<'_, P, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, T: Send> Copy for Life<'_, P, T> {}

impl<'a, P: Platform, T: Send> Life<'a, P, T> {
    /// Takes a vacant seat and waits until the server has granted it.
    pub fn join(
        run: Run<'a, P, T>,
        learner: usize,
        waiter: Waiter<'_, P>,
    ) -> Result<(Self, Producer<'a, P, T>), JoinError> {
        Self::seat(&run, learner)?;
        let epoch = run.seats()[learner].join(learner as u32)?;
        Self { run, learner, epoch }.move_in(waiter)
    }

    /// Takes the seat of the life `dead` and waits until the server has granted it. The caller
    /// knows that the process of that life is gone.
    pub fn rejoin(
        run: Run<'a, P, T>,
        learner: usize,
        dead: u32,
        waiter: Waiter<'_, P>,
    ) -> Result<(Self, Producer<'a, P, T>), JoinError> {
        Self::seat(&run, learner)?;
        let epoch = run.seats()[learner].rejoin(learner as u32, dead)?;
        Self { run, learner, epoch }.move_in(waiter)
    }

    fn seat(run: &Run<'a, P, T>, learner: usize) -> Result<(), JoinError> {
        let seats = run.seats().len();
        if learner >= seats {
            return Err(JoinError::NoSuchSeat { learner, seats });
        }
        if run.is_stopping() {
            return Err(JoinError::Stopping);
        }
        Ok(())
    }

    fn move_in(self, waiter: Waiter<'_, P>) -> Result<(Self, Producer<'a, P, T>), JoinError> {
        let mut producer =
            Producer::join(self.run.ring(self.learner), self.learner as u32, self.epoch);
        let verdict = waiter.wait(|| match self.standing() {
            Standing { state: State::Live, epoch } if epoch == self.epoch => Some(Ok(())),
            Standing { state: State::Joining | State::Rejoining, epoch } if epoch == self.epoch => {
                self.run.is_stopping().then_some(Err(JoinError::Stopping))
            }
            _ => Some(Err(JoinError::Evicted)),
        });
        if let Err(error) = verdict {
            // Whatever became of the seat meanwhile, this life lets go of it.
            let _ = producer.seal();
            self.leave(producer);
            return Err(error);
        }
        Ok((self, producer))
    }

    /// The seat.
    pub fn learner(&self) -> usize {
        self.learner
    }

    /// Which life this is.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The run.
    pub fn run(&self) -> Run<'a, P, T> {
        self.run
    }

    /// The clock at which this life begins: the one after the last that was applied for its seat.
    pub fn first_clock(&self) -> u64 {
        self.run.clocks().resume_after(self.learner).saturating_add(1)
    }

    /// Whether this life should end: the run is stopping, or the seat was taken away.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.run.is_stopping() || self.is_evicted()
    }

    /// Whether the seat was taken away from this life.
    #[inline]
    pub fn is_evicted(&self) -> bool {
        self.standing() != Standing { state: State::Live, epoch: self.epoch }
    }

    /// Ends this life: no ticket follows, the server takes what is committed and lets go.
    /// Returns false if the seat was already taken away.
    pub fn leave(self, mut producer: Producer<'a, P, T>) -> bool {
        let sealed = producer.seal().is_ok();
        let left = self.run.seats()[self.learner].leave(self.learner as u32, self.epoch);
        self.run.server_bell().ring(Site::LeaveBell);
        sealed && left
    }

    fn standing(&self) -> Standing {
        self.run.seats()[self.learner].standing()
    }
}
