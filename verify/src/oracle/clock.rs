//! The clocks as a table of numbers and a set of learners.

use std::collections::BTreeSet;
use std::ops::Range;

use protocol::clock::Slack;

/// What can be done to the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A learner counts from now on.
    Admit {
        /// The learner.
        learner: usize,
    },
    /// A learner counts no more.
    Dismiss {
        /// The learner.
        learner: usize,
    },
    /// The next update of a learner is applied to `tables` tables from `first`.
    Tick {
        /// The learner.
        learner: usize,
        /// First table.
        first: usize,
        /// Number of tables.
        tables: usize,
    },
    /// A learner looks whether it may start a clock.
    Look {
        /// The clock.
        clock: u64,
        /// How far it may run ahead.
        slack: Slack,
    },
    /// Another server goes on where this one stopped.
    Restart,
}

/// What must come of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The contract forbids it here.
    Skipped,
    /// Nothing to see.
    Done,
    /// Whether a minimum rose.
    Rose(bool),
    /// Whether the clock may be started.
    Open(bool),
}

/// The sequential model.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// For each table, the applied clock of each learner.
    pub applied: Vec<Vec<u64>>,
    /// For each table, the published minimum.
    pub minimum: Vec<u64>,
    /// Who counts.
    pub participants: BTreeSet<usize>,
}

impl Oracle {
    /// Nobody counts, all clocks are 0.
    pub fn new(learners: usize, tables: usize) -> Self {
        Self {
            applied: vec![vec![0; learners]; tables],
            minimum: vec![0; tables],
            participants: BTreeSet::new(),
        }
    }

    /// Does one operation.
    pub fn step(&mut self, operation: Operation) -> Expected {
        match operation {
            Operation::Admit { learner } => {
                if self.participants.insert(learner) {
                    for (row, minimum) in self.applied.iter_mut().zip(&self.minimum) {
                        row[learner] = *minimum;
                    }
                }
                Expected::Done
            }
            Operation::Dismiss { learner } => {
                let counted = self.participants.remove(&learner);
                Expected::Rose(counted && self.publish())
            }
            Operation::Tick { learner, first, tables } => match self.next(learner, first, tables) {
                None => Expected::Skipped,
                Some(clock) => Expected::Rose(self.set(learner, first..first + tables, clock)),
            },
            Operation::Look { clock, slack } => Expected::Open(match slack {
                Slack::Unbounded => true,
                Slack::Bounded(slack) => {
                    // P6: every update up to clock - 1 - slack of everybody is in the weights.
                    let seen = i128::from(clock) - 1 - i128::from(slack);
                    self.minimum.iter().all(|minimum| i128::from(*minimum) >= seen)
                }
            }),
            Operation::Restart => Expected::Done,
        }
    }

    /// The update of `learner` at `clock` is applied to `tables`; returns whether a minimum rose.
    pub fn set(&mut self, learner: usize, tables: Range<usize>, clock: u64) -> bool {
        for row in &mut self.applied[tables] {
            row[learner] = clock;
        }
        self.publish()
    }

    /// The next clock of `learner` on these tables, which must agree on it.
    pub fn next(&self, learner: usize, first: usize, tables: usize) -> Option<u64> {
        let rows = self.applied.get(first..first.checked_add(tables)?)?;
        let clock = rows.first()?[learner];
        rows.iter().all(|row| row[learner] == clock).then_some(clock + 1)
    }

    /// The clock after which a new life of `learner` goes on.
    pub fn resume_after(&self, learner: usize) -> u64 {
        self.applied.iter().map(|row| row[learner]).min().expect("a model has a table")
    }

    fn publish(&mut self) -> bool {
        let mut rose = false;
        for (row, minimum) in self.applied.iter().zip(&mut self.minimum) {
            let slowest = self.participants.iter().map(|learner| row[*learner]).min();
            if let Some(slowest) = slowest
                && slowest > *minimum
            {
                *minimum = slowest;
                rose = true;
            }
        }
        rose
    }
}
