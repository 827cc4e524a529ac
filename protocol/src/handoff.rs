//! The size-1 hand-off between two threads of a learner: train→push and pull→train.
//!
//! What passes is *ownership of a buffer*, never data: a hand-off owns one buffer that belongs to
//! the giver while the count is 0 and to the taker while it is 1. No lock is held while either
//! copies; with a second buffer of its own, each side swaps and goes on at once (the paper's
//! double buffering).
//!
//! The count is the difference of two words, each written by one side only: `given` by the giver
//! (release in [`Loan::give`], acquired in [`Taker::loan`]) and `returned` by the taker (release
//! in [`Borrow::give_back`], acquired in [`Giver::loan`]). Both sides park at the bell of their
//! process. Carries P1, P3 and P4 for the hand-offs.

use core::fmt;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::bell::Doorbell;
use crate::platform::{Platform, Tracked, Word};
use crate::site::Site;

/// A buffer with two possible owners.
pub struct Handoff<P: Platform, B: Send> {
    given: P::U32,
    returned: P::U32,
    closed: P::U32,
    buffer: P::Cell<B>,
}

/// The hand-off is closed: the other side has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side of the hand-off has stopped: stop too")
    }
}

impl core::error::Error for Closed {}

const BY_GIVER: u32 = 1;
const BY_TAKER: u32 = 2;

impl<P: Platform, B: Send> Handoff<P, B> {
    /// A hand-off whose buffer belongs to the giver.
    pub fn new(buffer: B) -> Self {
        Self::starting_at(0, buffer)
    }

    /// A hand-off whose words start at `count`: tests start just below the wrap.
    pub fn starting_at(count: u32, buffer: B) -> Self {
        Self {
            given: P::U32::new(count),
            returned: P::U32::new(count),
            closed: P::U32::new(0),
            buffer: P::Cell::new(buffer),
        }
    }

    /// The two ends. Call once; both sides wait at `bell`.
    pub fn split<'a>(&'a mut self, bell: &'a Doorbell<P>) -> (Giver<'a, P, B>, Taker<'a, P, B>) {
        let shared: &'a Self = self;
        let given = shared.given.load(Site::HandoffSplit, Relaxed);
        let returned = shared.returned.load(Site::HandoffSplit, Relaxed);
        (
            Giver { handoff: shared, bell, given, seen_returned: returned },
            Taker { handoff: shared, bell, returned, seen_given: given },
        )
    }
}

/// The side that fills the buffer.
pub struct Giver<'a, P: Platform, B: Send> {
    handoff: &'a Handoff<P, B>,
    bell: &'a Doorbell<P>,
    given: u32,
    seen_returned: u32,
}

impl<'a, P: Platform, B: Send> Giver<'a, P, B> {
    /// The buffer, if it is the giver's; `Ok(None)` while the taker has it.
    pub fn loan(&mut self) -> Result<Option<Loan<'_, 'a, P, B>>, Closed> {
        let closed = self.handoff.closed.load(Site::HandoffTakerClosed, Relaxed);
        if closed & BY_TAKER != 0 {
            return Err(Closed);
        }
        if self.given != self.seen_returned {
            self.seen_returned = self.handoff.returned.load(Site::HandoffReturned, Acquire);
            if !P::holds(Site::HandoffIsReturned, self.given == self.seen_returned) {
                return Ok(None);
            }
        }
        Ok(Some(Loan { giver: self }))
    }

    /// Says that nothing more will be given.
    pub fn close(&self) {
        self.handoff.closed.fetch_or(Site::HandoffGiverClose, BY_GIVER, Release);
        self.bell.ring(Site::HandoffGiverCloseBell);
    }
}

/// The buffer in the giver's hands.
pub struct Loan<'r, 'a, P: Platform, B: Send> {
    giver: &'r mut Giver<'a, P, B>,
}

impl<P: Platform, B: Send> Loan<'_, '_, P, B> {
    /// Works on the buffer.
    pub fn with<R>(&mut self, work: impl FnOnce(&mut B) -> R) -> R {
        self.giver.handoff.buffer.with_mut(Site::HandoffFill, |buffer| {
            // SAFETY: the count is 0, seen by the acquire of `returned` that pairs with the
            // release in `Borrow::give_back`: the buffer is the giver's until `give`.
            work(unsafe { &mut *buffer })
        })
    }

    /// Passes the buffer to the taker.
    pub fn give(self) {
        let giver = self.giver;
        giver.given = giver.given.wrapping_add(1);
        giver.handoff.given.store(Site::HandoffGive, giver.given, Release);
        giver.bell.ring(Site::HandoffGiveBell);
    }
}

/// The side that empties the buffer.
pub struct Taker<'a, P: Platform, B: Send> {
    handoff: &'a Handoff<P, B>,
    bell: &'a Doorbell<P>,
    returned: u32,
    seen_given: u32,
}

impl<'a, P: Platform, B: Send> Taker<'a, P, B> {
    /// The buffer, if it is the taker's; `Ok(None)` while the giver has it. [`Closed`] only after
    /// everything given has been taken.
    pub fn loan(&mut self) -> Result<Option<Borrow<'_, 'a, P, B>>, Closed> {
        if self.seen_given == self.returned {
            // Closed is read first: what was given before closing is still found below.
            let closed = self.handoff.closed.load(Site::HandoffGiverClosed, Acquire);
            self.seen_given = self.handoff.given.load(Site::HandoffGiven, Acquire);
            if !P::holds(Site::HandoffIsGiven, self.seen_given != self.returned) {
                return if closed & BY_GIVER != 0 { Err(Closed) } else { Ok(None) };
            }
        }
        Ok(Some(Borrow { taker: self }))
    }

    /// Says that nothing more will be taken.
    pub fn close(&self) {
        self.handoff.closed.fetch_or(Site::HandoffTakerClose, BY_TAKER, Relaxed);
        self.bell.ring(Site::HandoffTakerCloseBell);
    }
}

/// The buffer in the taker's hands.
pub struct Borrow<'r, 'a, P: Platform, B: Send> {
    taker: &'r mut Taker<'a, P, B>,
}

impl<P: Platform, B: Send> Borrow<'_, '_, P, B> {
    /// Works on the buffer.
    pub fn with<R>(&mut self, work: impl FnOnce(&mut B) -> R) -> R {
        self.taker.handoff.buffer.with_mut(Site::HandoffEmpty, |buffer| {
            // SAFETY: the count is 1, seen by the acquire of `given` that pairs with the release
            // in `Loan::give`: the buffer is the taker's until `give_back`.
            work(unsafe { &mut *buffer })
        })
    }

    /// Passes the buffer back to the giver.
    pub fn give_back(self) {
        let taker = self.taker;
        taker.returned = taker.returned.wrapping_add(1);
        taker.handoff.returned.store(Site::HandoffReturn, taker.returned, Release);
        taker.bell.ring(Site::HandoffReturnBell);
    }
}
