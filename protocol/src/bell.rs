//! The doorbell: how a process sleeps without losing a wake-up (rule 3).
//!
//! Each process has one [`Doorbell`], an eventcount of one word: bit 0 says "somebody may be
//! parked", the bits above count rings. Rings, hand-offs, clocks, membership and stop all ring it;
//! nobody else needs to know what its owner waits for.
//!
//! ```text
//! waiter                               ringer
//!   poll: not ready                      publish            (release store of a component)
//!   announce: word |= PARKED             fence SeqCst       B
//!   fence SeqCst                A        look: word & PARKED?
//!   poll again: ready? return            bump: word += 1    (clears PARKED, counts the ring)
//!   park while word == announced         wake all
//! ```
//!
//! Fences A and B pair: either the waiter's second poll sees what was published, or the ringer's
//! look sees the announcement. Adding 1 to a word whose bit 0 is set clears the bit and carries
//! into the count, so a waiter that announced but has not parked yet finds another value and does
//! not sleep. Two ringers that both saw the bit add 2: the second leaves the bit set, which costs
//! one superfluous wake and loses none.
//!
//! A ringer may be killed between publishing and waking, and even between clearing the
//! announcement and waking: then later ringers see no announcement while somebody sleeps. So who
//! makes up for the dead (the watchdog, a restarted server, a stop) rings
//! [regardless](Doorbell::ring_all_regardless) of announcements; and [`Patience::slice`] bounds
//! each sleep, so that a sleeper also looks for itself.
//!
//! Carries P1 and P10. Orderings: all words of the bell are relaxed; what the poll reads carries
//! its own acquire.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::time::Duration;

use crate::platform::{Park, Platform, Word};
use crate::site::Site;

const PARKED: u32 = 1;

/// The word on which all threads of one process sleep.
#[repr(C)]
pub struct Doorbell<P: Platform> {
    word: P::U32,
}

impl<P: Platform> Doorbell<P> {
    /// A doorbell nobody waits at.
    pub fn new() -> Self {
        Self { word: P::U32::new(0) }
    }

    /// Wakes everybody who waits at this bell. Call after publishing.
    ///
    /// Costs a fence and a load when nobody is parked.
    #[inline]
    pub fn ring(&self, site: Site) {
        if P::holds(site, false) {
            return;
        }
        P::fence(Site::BellRingFence, SeqCst);
        self.wake_if_announced();
    }

    /// Rings several bells behind one fence.
    pub fn ring_all<'b>(site: Site, bells: impl Iterator<Item = &'b Self>)
    where
        P: 'b,
    {
        if P::holds(site, false) {
            return;
        }
        P::fence(Site::BellRingFence, SeqCst);
        bells.for_each(Self::wake_if_announced);
    }

    /// Rings several bells whether or not anybody has announced itself: for whoever makes up for
    /// a ringer that may have died after clearing an announcement and before waking.
    pub fn ring_all_regardless<'b>(site: Site, bells: impl Iterator<Item = &'b Self>)
    where
        P: 'b,
    {
        if P::holds(site, false) {
            return;
        }
        P::fence(Site::BellRingFence, SeqCst);
        for bell in bells {
            // Twice the unit: counts the ring and leaves the parked bit as it is.
            bell.word.fetch_add(Site::BellBump, 2, Relaxed);
            bell.word.wake(Site::BellWake);
        }
    }

    #[inline]
    fn wake_if_announced(&self) {
        if self.word.load(Site::BellLook, Relaxed) & PARKED != 0 {
            self.word.fetch_add(Site::BellBump, 1, Relaxed);
            self.word.wake(Site::BellWake);
        }
    }
}

impl<P: Platform> Default for Doorbell<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// How long a waiter spins before it parks, and how long it parks at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Polls before the first announcement.
    pub spins: u32,
    /// The longest sleep before the waiter looks for itself again. `None` sleeps until woken:
    /// right where a ringer cannot die between publishing and waking.
    pub slice: Option<Duration>,
}

impl Patience {
    /// For models: no spinning (a spin is an unbounded loop to a checker) and no timeouts (with
    /// them a lost wake-up would go unnoticed).
    pub const MODEL: Self = Self { spins: 0, slice: None };

    /// For processes that may be killed: spin for some microseconds, then look every 20 ms.
    pub const PROCESS: Self = Self { spins: 200, slice: Some(Duration::from_millis(20)) };
}

/// A place to wait: a bell and the patience to wait with.
pub struct Waiter<'a, P: Platform> {
    bell: &'a Doorbell<P>,
    patience: Patience,
}

impl<P: Platform> Clone for Waiter<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Waiter<'_, P> {}

impl<'a, P: Platform> Waiter<'a, P> {
    /// Waits at `bell` with `patience`.
    pub fn new(bell: &'a Doorbell<P>, patience: Patience) -> Self {
        Self { bell, patience }
    }

    /// Waits until `poll` returns something.
    pub fn wait<R>(&self, mut poll: impl FnMut() -> Option<R>) -> R {
        loop {
            if let Some(ready) = self.round(None, &mut poll) {
                return ready;
            }
        }
    }

    /// Waits until `poll` returns something or [`Platform::now_ns`] has reached `deadline_ns`.
    pub fn wait_until<R>(
        &self,
        deadline_ns: u64,
        mut poll: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        loop {
            let left = deadline_ns.saturating_sub(P::now_ns());
            if let Some(ready) = self.round(Some(Duration::from_nanos(left)), &mut poll) {
                return Some(ready);
            }
            if left == 0 {
                return None;
            }
        }
    }

    fn round<R>(&self, left: Option<Duration>, poll: &mut impl FnMut() -> Option<R>) -> Option<R> {
        for _ in 0..self.patience.spins {
            if let Some(ready) = poll() {
                return Some(ready);
            }
            P::pause();
        }
        if self.patience.spins == 0
            && let Some(ready) = poll()
        {
            return Some(ready);
        }
        let announced = self.bell.word.fetch_or(Site::BellAnnounce, PARKED, Relaxed) | PARKED;
        P::fence(Site::BellAnnounceFence, SeqCst);
        if !P::holds(Site::BellRecheck, false)
            && let Some(ready) = poll()
        {
            return Some(ready);
        }
        let timeout = match (left, self.patience.slice) {
            (Some(left), Some(slice)) => Some(left.min(slice)),
            (left, slice) => left.or(slice),
        };
        self.bell.word.wait(Site::BellPark, announced, timeout);
        None
    }
}
