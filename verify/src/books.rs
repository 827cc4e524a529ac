//! The books: small weights whose final value tells exactly which gradients were applied, in
//! which order, and a server-side [`Apply`] that keeps them.
//!
//! Each gradient (a number) is folded into every block by a function that is neither commutative
//! nor idempotent, through the journal like in production. An independent log of the order lets a
//! model replay the fold sequentially and compare: a gradient lost, repeated, torn or taken out of
//! turn changes the result.

use std::sync::{Arc, Mutex};

use protocol::error::Fault;
use protocol::journal::{Journal, Kernel};
use protocol::platform::{Platform, Word};
use protocol::ring::Header;
use protocol::server::{Apply, Gradient};
use protocol::site::Site;
use std::sync::atomic::Ordering::Relaxed;

use crate::ground::Leaked;

/// Blocks that an update writes: enough for both undo records to be used twice.
pub const BLOCKS: usize = 3;

/// One gradient as the server applied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting {
    /// The seat it came from.
    pub learner: u32,
    /// Its ticket.
    pub ticket: u64,
    /// Its payload.
    pub value: u64,
    /// Among how many its step was shared.
    pub share: u32,
}

/// The weights of a model, with undo records and snapshots.
pub struct Weights<M: Platform> {
    blocks: Leaked<[M::U32]>,
    records: Leaked<[M::U32]>,
    snapshots: Leaked<[M::U32]>,
    tally: Leaked<[M::U32]>,
}

impl<M: Platform> Weights<M> {
    /// All zero, with a snapshot for each of `learners`.
    pub fn new(learners: usize) -> Self {
        let zeros = |count: usize| Leaked::new((0..count).map(|_| M::U32::new(0)).collect());
        Self {
            blocks: zeros(BLOCKS),
            records: zeros(2),
            snapshots: zeros(learners * BLOCKS),
            tally: zeros(learners),
        }
    }

    /// What the threads of the model use.
    pub fn view(&self) -> WeightsView<M> {
        WeightsView {
            blocks: self.blocks.get(),
            records: self.records.get(),
            snapshots: self.snapshots.get(),
            tally: self.tally.get(),
        }
    }
}

/// The weights as a thread sees them.
pub struct WeightsView<M: Platform> {
    blocks: &'static [M::U32],
    records: &'static [M::U32],
    snapshots: &'static [M::U32],
    tally: &'static [M::U32],
}

impl<M: Platform> Clone for WeightsView<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Platform> Copy for WeightsView<M> {}

impl<M: Platform> WeightsView<M> {
    /// A copy, block by block, as a pull makes it.
    pub fn copy(&self) -> [u32; BLOCKS] {
        std::array::from_fn(|block| self.blocks[block].load(Site::Caller, Relaxed))
    }

    /// The last clock of each learner that is in the weights.
    pub fn tally(&self) -> Vec<u64> {
        self.tally.iter().map(|clock| clock.load(Site::Caller, Relaxed).into()).collect()
    }

    /// A copy of the snapshot of `learner`.
    pub fn copy_snapshot(&self, learner: usize) -> [u32; BLOCKS] {
        std::array::from_fn(|block| {
            self.snapshots[learner * BLOCKS + block].load(Site::Caller, Relaxed)
        })
    }
}

/// The fold of one gradient into one block.
///
/// The low byte counts gradients, so that a reader can tell how many its copy holds; the rest is
/// a hash of their order.
pub fn fold(old: u32, posting: &Posting, block: usize) -> u32 {
    let hash = (old >> 8)
        .wrapping_mul(31)
        .wrapping_add((posting.value as u32).wrapping_mul(7))
        .wrapping_add(posting.share.wrapping_mul(3))
        .wrapping_add(block as u32 + 1);
    (hash << 8) | (old.wrapping_add(1) & 0xff)
}

/// How many gradients a block holds.
pub fn count(block: u32) -> u32 {
    block & 0xff
}

/// The weights after these gradients, sequentially.
pub fn replay(log: &[Posting]) -> [u32; BLOCKS] {
    let mut weights = [0; BLOCKS];
    for posting in log {
        for (block, weight) in weights.iter_mut().enumerate() {
            *weight = fold(*weight, posting, block);
        }
    }
    weights
}

/// What has been applied and who was evicted, shared by all servers of a model.
#[derive(Clone, Default)]
pub struct Log {
    postings: Arc<Mutex<Vec<Posting>>>,
    evictions: Arc<Mutex<Vec<(usize, Fault)>>>,
}

impl Log {
    /// Gradients in the order in which they were applied.
    pub fn postings(&self) -> Vec<Posting> {
        self.postings.lock().unwrap().clone()
    }

    /// Who was evicted, and why.
    pub fn evictions(&self) -> Vec<(usize, Fault)> {
        self.evictions.lock().unwrap().clone()
    }

    /// Asserts that the tickets of each learner were applied in order, each once, from `first`.
    pub fn assert_in_order(&self, learners: usize, first: u64) {
        for learner in 0..learners as u32 {
            let mut expected = first;
            for posting in self.postings().iter().filter(|posting| posting.learner == learner) {
                assert_eq!(posting.ticket, expected, "learner {learner}: out of order (P2)");
                expected = (expected + 1) % (1 << 48);
            }
        }
    }
}

/// The server's side of the books.
pub struct Books<M: Platform> {
    weights: WeightsView<M>,
    log: Log,
}

impl<M: Platform> Books<M> {
    /// Keeps `weights` and `log`.
    pub fn new(weights: WeightsView<M>, log: Log) -> Self {
        Self { weights, log }
    }
}

impl<M: Platform> Apply<M, u64> for Books<M> {
    fn admit(&mut self, gradient: &Gradient<'_, u64>) -> bool {
        *gradient.payload != u64::MAX
    }

    fn update(&mut self, gradient: &Gradient<'_, u64>, journal: Option<Journal<'_, M>>) {
        let posting = Posting {
            learner: gradient.header.learner,
            ticket: gradient.header.ticket,
            value: *gradient.payload,
            share: gradient.share,
        };
        {
            // A server that recovers applies the gradient under way again; it is one posting.
            let mut postings = self.log.postings.lock().unwrap();
            if postings.last() != Some(&posting) {
                postings.push(posting);
            }
        }
        let mut kernel = Fold { weights: self.weights, posting };
        match journal {
            Some(journal) => {
                journal.lanes().for_each(|mut lane| lane.run(&mut kernel, BLOCKS as u64));
            }
            None => (0..BLOCKS as u64).for_each(|block| kernel.write(block)),
        }
        let Header { learner, clock, .. } = *gradient.header;
        self.weights.tally[learner as usize].store(Site::Caller, clock as u32, Relaxed);
    }

    fn snapshot(&mut self, learner: usize) {
        for (block, value) in self.weights.copy().into_iter().enumerate() {
            self.weights.snapshots[learner * BLOCKS + block].store(Site::Caller, value, Relaxed);
        }
    }

    fn evicted(&mut self, learner: usize, _: u32, fault: Fault) {
        self.log.evictions.lock().unwrap().push((learner, fault));
    }
}

struct Fold<M: Platform> {
    weights: WeightsView<M>,
    posting: Posting,
}

impl<M: Platform> Kernel for Fold<M> {
    fn save(&mut self, block: u64, record: usize) {
        let old = self.weights.blocks[block as usize].load(Site::Caller, Relaxed);
        self.weights.records[record].store(Site::Caller, old, Relaxed);
    }

    fn restore(&mut self, block: u64, record: usize) {
        let old = self.weights.records[record].load(Site::Caller, Relaxed);
        self.weights.blocks[block as usize].store(Site::Caller, old, Relaxed);
    }

    fn write(&mut self, block: u64) {
        let word = &self.weights.blocks[block as usize];
        let old = word.load(Site::Caller, Relaxed);
        word.store(Site::Caller, fold(old, &self.posting, block as usize), Relaxed);
    }
}
