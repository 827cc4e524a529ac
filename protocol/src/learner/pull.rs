//! The pull thread: wait for the clock, copy the weights, hand them over (Figure 5b of the paper,
//! with the version read before the copy instead of after it).

use super::{Fetched, Life};
use crate::clock::Slack;
use crate::event::Event;
use crate::handoff::Giver;
use crate::machine::{Machine, Step};
use crate::platform::Platform;
use crate::weights::Reader;

/// Torn copies before a consistent pull asks the server to help.
const ATTEMPTS: u32 = 3;

/// How weights get onto the device; supplied by the caller.
pub trait PullCopy<W> {
    /// Copies the weights, which may be changing meanwhile, to `weights`.
    fn pull(&mut self, weights: &mut W);
    /// Copies this learner's snapshot to `weights`.
    fn collect(&mut self, weights: &mut W);
}

/// What the pull thread promises about the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullPolicy {
    /// How far this learner may run ahead of the slowest.
    pub slack: Slack,
    /// Whether a pull must see exactly one version.
    pub consistent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    AwaitHandoff,
    AwaitClock,
    Copy { attempts: u32 },
    Collect,
    Give { fresh: bool },
    Close,
    Done,
}

/// The pull thread's state machine.
pub struct Pull<'a, P: Platform, T: Send, W: Send, C> {
    life: Life<'a, P, T>,
    weights_out: Giver<'a, P, Fetched<W>>,
    reader: Reader<'a, P>,
    copy: C,
    policy: PullPolicy,
    /// The version last handed over; `None` before the first.
    version: Option<u64>,
    clock: u64,
    work: Work,
}

impl<'a, P: Platform, T: Send, W: Send, C: PullCopy<W>> Pull<'a, P, T, W, C> {
    /// Begins at the first clock of `life`.
    pub fn new(
        life: Life<'a, P, T>,
        weights_out: Giver<'a, P, Fetched<W>>,
        copy: C,
        policy: PullPolicy,
    ) -> Self {
        let run = life.run();
        let snapshot = run.seats()[life.learner()].snapshot();
        let reader = Reader::join(run.stamp(), snapshot, run.server_bell());
        let clock = life.first_clock();
        let work = Work::AwaitHandoff;
        Self { life, weights_out, reader, copy, policy, version: None, clock, work }
    }

    /// What copies the weights.
    pub fn copy(&self) -> &C {
        &self.copy
    }

    fn await_handoff(&mut self) -> Option<Work> {
        match self.weights_out.loan() {
            Ok(Some(_)) => Some(Work::AwaitClock),
            Ok(None) => None,
            Err(_) => Some(Work::Close),
        }
    }

    fn await_clock(&mut self) -> Option<Work> {
        if self.must_close() {
            return Some(Work::Close);
        }
        if !self.life.run().clocks().is_open(self.clock, self.policy.slack) {
            return None;
        }
        let learner = self.life.learner() as u32;
        P::report(Event::Start { learner, clock: self.clock });
        let newest = self.reader.newest();
        if self.version == Some(newest) {
            P::report(Event::SkipPull { learner, version: newest });
            return Some(Work::Give { fresh: false });
        }
        Some(Work::Copy { attempts: 0 })
    }

    fn pull(&mut self, attempts: u32) -> Option<Work> {
        let Ok(Some(mut loan)) = self.weights_out.loan() else {
            return Some(Work::Close);
        };
        let (reader, copy, consistent) = (&self.reader, &mut self.copy, self.policy.consistent);
        let outcome = loan.with(|fetched| {
            let buffer = &mut fetched.buffer;
            if consistent {
                reader.read_still(|| copy.pull(buffer))
            } else {
                Ok(reader.read_racy(|| copy.pull(buffer)))
            }
        });
        match outcome {
            Ok(version) => Some(self.fetched(version)),
            Err(_) if attempts + 1 < ATTEMPTS => Some(Work::Copy { attempts: attempts + 1 }),
            Err(_) => {
                self.reader.ask();
                Some(Work::Collect)
            }
        }
    }

    fn collect(&mut self) -> Option<Work> {
        if self.must_close() {
            return Some(Work::Close);
        }
        let Ok(Some(mut loan)) = self.weights_out.loan() else {
            return Some(Work::Close);
        };
        let (reader, copy) = (&self.reader, &mut self.copy);
        let version = loan.with(|fetched| reader.collect(|| copy.collect(&mut fetched.buffer)))?;
        Some(self.fetched(version))
    }

    fn fetched(&mut self, version: u64) -> Work {
        P::report(Event::Pull { learner: self.life.learner() as u32, version });
        self.version = Some(version);
        Work::Give { fresh: true }
    }

    fn give(&mut self, fresh: bool) -> Option<Work> {
        let Ok(Some(mut loan)) = self.weights_out.loan() else {
            return Some(Work::Close);
        };
        loan.with(|fetched| {
            fetched.fresh = fresh;
            fetched.version = self.version.unwrap_or(0);
        });
        loan.give();
        self.clock = self.clock.saturating_add(1);
        Some(Work::AwaitHandoff)
    }

    fn must_close(&mut self) -> bool {
        self.life.is_over() || self.weights_out.loan().is_err()
    }

    fn close(&self) -> Option<Work> {
        self.weights_out.close();
        Some(Work::Done)
    }
}

impl<P: Platform, T: Send, W: Send, C: PullCopy<W>> Machine<P> for Pull<'_, P, T, W, C> {
    fn step(&mut self) -> Step {
        let next = match self.work {
            Work::AwaitHandoff => self.await_handoff(),
            Work::AwaitClock => self.await_clock(),
            Work::Copy { attempts } => self.pull(attempts),
            Work::Collect => self.collect(),
            Work::Give { fresh } => self.give(fresh),
            Work::Close => self.close(),
            Work::Done => return Step::Done,
        };
        let Some(work) = next else { return Step::Blocked };
        self.work = work;
        Step::Worked
    }
}
