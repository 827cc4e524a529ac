//! What can be seen of a run: by a learner in the middle of it, and by anybody at its end.
//!
//! Everything is read as a protocol without a mutation reads it: what is broken is what lies in
//! memory, not the eye.

use protocol::clock::{Slack, Timekeeper};
use protocol::journal::Phase;
use protocol::membership::{Standing, State};
use protocol::platform::Platform;
use protocol::ring::Consumer;
use protocol::weights::Publisher;

use super::stage::Stage;
use crate::books::{self, BLOCKS};
use crate::mutant::with_mutation;

/// How a run has ended, as far as it must not depend on kills: everything but the epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Outcome {
    pub weights: [u32; BLOCKS],
    pub version: u64,
    pub writing: bool,
    pub phase: Phase,
    pub remaining: u64,
    pub participants: u64,
    pub minimum: u64,
    pub stopping: bool,
    pub seats: Vec<Place>,
}

/// One seat at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Place {
    pub state: State,
    pub applied_clock: u64,
    pub next_ticket: u64,
    pub is_empty: bool,
    pub is_refused: bool,
}

impl<P: Platform> Stage<'_, P> {
    /// The standing of a seat.
    pub(super) fn standing(&self, learner: usize) -> Standing {
        with_mutation(None, || self.run.seats()[learner].standing())
    }

    /// How the run has ended.
    pub fn outcome(&self) -> Outcome {
        with_mutation(None, || {
            let publisher = Publisher::attach(self.run.stamp());
            Outcome {
                weights: self.weights.copy(),
                version: publisher.version(),
                writing: publisher.is_writing(),
                phase: self.run.journal().found().0,
                remaining: self.run.journal().round().0,
                participants: Timekeeper::attach(self.run.clocks()).participants(),
                minimum: self.minimum(),
                stopping: self.run.is_stopping(),
                seats: (0..self.learners.len()).map(|learner| self.place(learner)).collect(),
            }
        })
    }

    fn place(&self, learner: usize) -> Place {
        let mut consumer = Consumer::attach(self.run.ring(learner), learner as u32, 1, 64);
        let producer = self.learners[learner].producer.as_ref();
        Place {
            state: self.standing(learner).state,
            applied_clock: self.run.clocks().applied(0, learner),
            next_ticket: consumer.next_ticket(),
            is_empty: consumer.is_empty(),
            is_refused: producer.is_some_and(|producer| producer.is_refused()),
        }
    }

    fn minimum(&self) -> u64 {
        let is_open = |clock: &u64| self.run.clocks().is_open(*clock + 1, Slack::Bounded(0));
        (0..).take_while(is_open).last().expect("clock 1 is open from the start")
    }

    /// Neither version nor clocks claim what the weights do not hold, and a consistent copy that
    /// the reader takes for an answer is one.
    pub(super) fn assert_honest(&self) {
        let blocks = self.weights.copy();
        let held = blocks.into_iter().map(books::count).min().expect("there are blocks");
        let (version, minimum) =
            with_mutation(None, || (self.run.stamp().version(), self.minimum()));
        assert!(version <= u64::from(held), "version {version}, but {blocks:x?} (P5)");
        assert!(minimum <= u64::from(held), "clock {minimum}, but {blocks:x?} (P6)");
        let answer = self.reader.as_ref().and_then(|reader| reader.collect(|| ()));
        if let (Some(version), Some(expected)) = (answer, self.expected) {
            let whole = books::replay(&expected[..version as usize]);
            assert_eq!(self.weights.copy_snapshot(0), whole, "a copy of version {version} (P5)");
        }
    }
}
