//! The train thread: take weights, compute, offer the gradient (Figure 5c of the paper).

use core::mem::swap;

use super::{Fetched, Life, Loaded};
use crate::handoff::{Closed, Giver, Taker};
use crate::machine::{Machine, Step};
use crate::platform::Platform;

/// The model; supplied by the caller.
pub trait Compute<G, W> {
    /// Computes the gradient of `clock` on `weights` into `gradient`. False if there is nothing
    /// left to learn from: the learner leaves.
    fn compute(&mut self, clock: u64, version: u64, weights: &W, gradient: &mut G) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    TakeWeights,
    Compute,
    Offer,
    Close,
    Done,
}

/// The train thread's state machine. It owns one buffer of each kind and swaps them with those in
/// the hand-offs.
pub struct Train<'a, P: Platform, T: Send, G: Send, W: Send, C> {
    life: Life<'a, P, T>,
    weights_in: Taker<'a, P, Fetched<W>>,
    gradients_out: Giver<'a, P, Loaded<G>>,
    compute: C,
    weights: W,
    gradient: G,
    version: u64,
    clock: u64,
    work: Work,
}

impl<'a, P: Platform, T: Send, G: Send, W: Send, C: Compute<G, W>> Train<'a, P, T, G, W, C> {
    /// Begins at the first clock of `life`.
    pub fn new(
        life: Life<'a, P, T>,
        weights_in: Taker<'a, P, Fetched<W>>,
        gradients_out: Giver<'a, P, Loaded<G>>,
        compute: C,
        weights: W,
        gradient: G,
    ) -> Self {
        let clock = life.first_clock();
        let work = Work::TakeWeights;
        Self {
            life,
            weights_in,
            gradients_out,
            compute,
            weights,
            gradient,
            version: 0,
            clock,
            work,
        }
    }

    /// What computes the gradients.
    pub fn compute(&self) -> &C {
        &self.compute
    }

    /// The version that the current weights may claim.
    pub fn version(&self) -> u64 {
        self.version
    }

    fn take_weights(&mut self) -> Result<Option<Work>, Closed> {
        let Some(mut borrow) = self.weights_in.loan()? else {
            return Ok(None);
        };
        borrow.with(|fetched| {
            if fetched.fresh {
                swap(&mut self.weights, &mut fetched.buffer);
                self.version = fetched.version;
            }
        });
        borrow.give_back();
        Ok(Some(Work::Compute))
    }

    fn offer(&mut self) -> Result<Option<Work>, Closed> {
        let Some(mut loan) = self.gradients_out.loan()? else {
            return Ok(None);
        };
        loan.with(|loaded| {
            swap(&mut self.gradient, &mut loaded.buffer);
            loaded.clock = self.clock;
            loaded.base_version = self.version;
        });
        loan.give();
        self.clock = self.clock.saturating_add(1);
        Ok(Some(Work::TakeWeights))
    }
}

impl<P, T, G, W, C> Machine<P> for Train<'_, P, T, G, W, C>
where
    P: Platform,
    T: Send,
    G: Send,
    W: Send,
    C: Compute<G, W>,
{
    fn step(&mut self) -> Step {
        let next = match self.work {
            Work::TakeWeights => self.take_weights(),
            Work::Compute if self.life.is_over() => Err(Closed),
            Work::Compute => {
                let (weights, gradient) = (&self.weights, &mut self.gradient);
                let more = self.compute.compute(self.clock, self.version, weights, gradient);
                Ok(Some(if more { Work::Offer } else { Work::Close }))
            }
            Work::Offer => self.offer(),
            Work::Close => {
                self.gradients_out.close();
                self.weights_in.close();
                Ok(Some(Work::Done))
            }
            Work::Done => return Step::Done,
        };
        match next {
            Ok(None) => return Step::Blocked,
            Ok(Some(work)) => self.work = work,
            Err(Closed) => self.work = Work::Close,
        }
        Step::Worked
    }
}
