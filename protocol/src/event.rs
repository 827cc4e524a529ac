//! Linearised actions, reported through [`Platform::report`].
//!
//! The default platform ignores them at no cost. [`Traced`] wraps any platform and passes each one
//! to a [`Sink`] with a number from a counter that all processes of the run share: a trace that a
//! specification can be held against. The words are the wrapped platform's, so traced and
//! untraced processes can share a run.

use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use crate::membership::Action;
use crate::platform::Platform;
use crate::site::Site;

/// One action of the protocol. Field names are those of the components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Event {
    /// A seat changes its standing.
    Seat { learner: u32, action: Action },
    /// The change just reported was overtaken by another and did not happen.
    SeatFailed { learner: u32, action: Action },
    /// A gradient is committed.
    Commit { learner: u32, epoch: u32, ticket: u64, clock: u64, base_version: u64 },
    /// The commit just reported came too late and did not happen.
    CommitFenced { learner: u32, epoch: u32, ticket: u64 },
    /// A life ends its stream.
    Seal { learner: u32, epoch: u32 },
    /// The server begins to apply a gradient.
    Begin { learner: u32, ticket: u64, share: u32 },
    /// The server has applied a gradient.
    Applied { learner: u32, ticket: u64, version: u64 },
    /// The clocks of a learner advance.
    Tick { learner: u32, clock: u64 },
    /// The slot of a gradient is free again.
    Release { learner: u32, ticket: u64 },
    /// A learner no longer counts for the clocks.
    Dismiss { learner: u32 },
    /// The server evicts a learner that wrote nonsense.
    Evict { learner: u32, epoch: u32 },
    /// A learner starts a clock.
    Start { learner: u32, clock: u64 },
    /// A learner has copied the weights and claims `version`.
    Pull { learner: u32, version: u64 },
    /// A learner's weights are current; it copies nothing.
    SkipPull { learner: u32, version: u64 },
    /// Somebody asks everybody to drain.
    Stop,
    /// A server starts, and perhaps finds an update half done.
    Recover { version: u64 },
    /// The server has applied its budget and refuses the rest.
    Finish { version: u64 },
}

/// Where a traced platform sends its events.
pub trait Sink: Send + Sync + 'static {
    /// Numbers and stores one event.
    fn record(event: Event);
}

/// A platform that passes every event to a [`Sink`].
pub struct Traced<P, S>(PhantomData<(P, S)>);

impl<P: Platform, S: Sink> Platform for Traced<P, S> {
    type U32 = P::U32;
    type U64 = P::U64;
    type Cell<T: Send> = P::Cell<T>;

    #[inline(always)]
    fn fence(site: Site, order: Ordering) {
        P::fence(site, order);
    }

    #[inline(always)]
    fn pause() {
        P::pause();
    }

    #[inline]
    fn now_ns() -> u64 {
        P::now_ns()
    }

    #[inline(always)]
    fn holds(site: Site, condition: bool) -> bool {
        P::holds(site, condition)
    }

    #[inline]
    fn report(event: Event) {
        S::record(event);
    }
}
