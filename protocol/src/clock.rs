//! SSP clocks: how far each learner's applied updates have come, table by table.
//!
//! A gradient carries the clock *t* ≥ 1 at which it was computed; when the server has *applied* it,
//! the applied clock of that learner becomes *t*. A learner may start clock *t* once the minimum
//! over the participants is at least *t* − 1 − slack: then it will see every update up to there
//! (P6). Slack 0 is BSP, no slack at all is asynchronous.
//!
//! The server alone writes: `applied[table][learner]` (so that a restarted server and any
//! dashboard find them), the mask of `participants`, and `minimum[table]`, the one word that
//! learners wait on. Published minima never fall: who joins starts at the current minimum, who
//! leaves or is evicted drops out of the mask (P7).
//!
//! Pairing: the release of `minimum` in [`Timekeeper::publish`] with the acquire in
//! [`ClockView::is_open`]; the weights were stored before the one and are read after the other.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::event::Event;
use crate::platform::{Platform, Word};
use crate::site::Site;

/// The most learners a run can have: they are bits of one word.
pub const MAX_LEARNERS: usize = 64;

/// How far a learner may run ahead of the slowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slack {
    /// Up to this many clocks; 0 is bulk-synchronous.
    Bounded(u64),
    /// As far as it likes.
    Unbounded,
}

impl Slack {
    /// Whether a learner may start `clock` when the slowest participant has come to `minimum`.
    #[inline]
    pub const fn permits(self, clock: u64, minimum: u64) -> bool {
        match self {
            Self::Unbounded => true,
            Self::Bounded(slack) => minimum.saturating_add(1).saturating_add(slack) >= clock,
        }
    }
}

/// The smallest applied clock among `participants`, a mask over `applied`.
pub fn minimum(applied: &[u64], participants: u64) -> Option<u64> {
    applied
        .iter()
        .enumerate()
        .filter(|(learner, _)| participants & (1 << learner) != 0)
        .map(|(_, clock)| *clock)
        .min()
}

/// The mask of all of `learners`.
pub const fn mask(learners: usize) -> u64 {
    if learners >= MAX_LEARNERS { u64::MAX } else { (1 << learners) - 1 }
}

/// The clock words of a run.
pub struct ClockView<'a, P: Platform> {
    /// `tables` × `learners` words, table by table.
    applied: &'a [P::U64],
    /// One word a table.
    minimum: &'a [P::U64],
    participants: &'a P::U64,
}

impl<P: Platform> Clone for ClockView<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for ClockView<'_, P> {}

impl<'a, P: Platform> ClockView<'a, P> {
    /// The clocks made of these words. `applied` has a word for each learner of each table.
    pub fn new(applied: &'a [P::U64], minimum: &'a [P::U64], participants: &'a P::U64) -> Self {
        assert!(!minimum.is_empty() && applied.len().is_multiple_of(minimum.len()));
        assert!(applied.len() / minimum.len() <= MAX_LEARNERS);
        Self { applied, minimum, participants }
    }

    /// Number of learners.
    pub fn learners(&self) -> usize {
        self.applied.len() / self.minimum.len()
    }

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.minimum.len()
    }

    /// Whether a learner may start `clock`: every table's minimum permits it.
    #[inline]
    pub fn is_open(&self, clock: u64, slack: Slack) -> bool {
        let Slack::Bounded(_) = slack else { return true };
        self.minimum.iter().all(|word| {
            let minimum = word.load(Site::ClockLook, Acquire);
            P::holds(Site::ClockBound, slack.permits(clock, minimum))
        })
    }

    /// The applied clock of `learner` in `table`.
    pub fn applied(&self, table: usize, learner: usize) -> u64 {
        self.applied[table * self.learners() + learner].load(Site::ClockApplied, Relaxed)
    }

    /// The smallest applied clock of `learner` over all tables: it goes on after this one.
    pub fn resume_after(&self, learner: usize) -> u64 {
        (0..self.tables()).map(|table| self.applied(table, learner)).min().unwrap_or(0)
    }
}

/// The server's private copy of the clocks, and the only hand that writes them.
pub struct Timekeeper<'a, P: Platform> {
    view: ClockView<'a, P>,
    applied: Vec<u64>,
    minimum: Vec<u64>,
    participants: u64,
}

impl<'a, P: Platform> Timekeeper<'a, P> {
    /// Goes on where the last server stopped.
    pub fn attach(view: ClockView<'a, P>) -> Self {
        let load = |words: &[P::U64]| {
            words.iter().map(|word| word.load(Site::ClockAttach, Relaxed)).collect()
        };
        Self {
            view,
            applied: load(view.applied),
            minimum: load(view.minimum),
            participants: view.participants.load(Site::ClockAttach, Relaxed)
                & mask(view.learners()),
        }
    }

    /// The mask of learners that count.
    pub fn participants(&self) -> u64 {
        self.participants
    }

    /// The mask of learners that count and have come no further than any other that does.
    pub fn slowest(&self) -> u64 {
        let come_to = |learner: &usize| {
            (0..self.view.tables()).map(|table| self.applied(table, *learner)).min()
        };
        let counted = || (0..self.view.learners()).filter(|learner| self.counts(*learner));
        let last = counted().map(|learner| come_to(&learner)).min();
        counted()
            .filter(|learner| Some(come_to(learner)) == last)
            .fold(0, |slowest, learner| slowest | 1 << learner)
    }

    /// Whether `learner` counts.
    pub fn counts(&self, learner: usize) -> bool {
        self.participants & (1 << learner) != 0
    }

    /// The applied clock of `learner` in `table`.
    pub fn applied(&self, table: usize, learner: usize) -> u64 {
        self.applied[self.index(table, learner)]
    }

    /// Counts `learner` from now on. A newcomer starts at the current minimum of each table, so
    /// that it neither drags others back nor is owed anything; who still counted keeps its clocks.
    pub fn admit(&mut self, learner: usize) {
        if self.counts(learner) {
            return;
        }
        for table in 0..self.view.tables() {
            let start = self.minimum[table];
            self.set_applied(table, learner, start);
        }
        self.set_participants(self.participants | 1 << learner);
    }

    /// Stops counting `learner`; returns whether a minimum rose.
    pub fn dismiss(&mut self, learner: usize) -> bool {
        if !self.counts(learner) {
            return false;
        }
        P::report(Event::Dismiss { learner: learner as u32 });
        self.set_participants(self.participants & !(1 << learner));
        self.publish()
    }

    /// Notes that the update of `learner` at `clock` is applied to `tables`; returns whether a
    /// minimum rose. Setting the same clock again changes nothing.
    pub fn tick(&mut self, learner: usize, tables: core::ops::Range<usize>, clock: u64) -> bool {
        P::report(Event::Tick { learner: learner as u32, clock });
        for table in tables {
            self.set_applied(table, learner, clock);
        }
        self.publish()
    }

    /// Publishes every minimum that has risen; returns whether one has. A server killed between
    /// a dismissal and its publication repeats this when it restarts.
    pub fn publish(&mut self) -> bool {
        let learners = self.view.learners();
        let mut rose = false;
        for table in 0..self.view.tables() {
            let row = &self.applied[table * learners..(table + 1) * learners];
            if let Some(minimum) = minimum(row, self.participants)
                && minimum > self.minimum[table]
            {
                self.minimum[table] = minimum;
                self.view.minimum[table].store(Site::ClockPublish, minimum, Release);
                rose = true;
            }
        }
        rose
    }

    fn set_applied(&mut self, table: usize, learner: usize, clock: u64) {
        let index = self.index(table, learner);
        self.applied[index] = clock;
        self.view.applied[index].store(Site::ClockTick, clock, Relaxed);
    }

    fn set_participants(&mut self, participants: u64) {
        self.participants = participants;
        // After the clocks of a newcomer: a server that restarts takes who counts to have them.
        self.view.participants.store(Site::ClockParticipants, participants, Release);
    }

    fn index(&self, table: usize, learner: usize) -> usize {
        table * self.view.learners() + learner
    }
}
