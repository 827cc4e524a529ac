//! The journal: an update that survives the death of the server at any instruction (P9).
//!
//! An update is too long to be atomic, and the gradient it applies must not be applied twice. So
//! the server writes down what it is about to do, keeps an undo record of the one block that it is
//! writing, and a mark of how far it has come:
//!
//! ```text
//! intent := (header, version, share)                   what
//! phase  := Applying                                   ── from here, recovery goes on with it
//!   for each block m of a lane:
//!     record[m mod 2] := weights of block m            the next record, beside the last one
//!     mark := m + 1                                    ── from here, block m is undone first
//!     weights of block m := kernel(...)
//! phase  := Applied                                    ── from here, it is never applied again
//!   publish version, tick clocks, release slot         each sets an absolute value: repeatable
//! phase  := Idle
//! ```
//!
//! A kill leaves a prefix of these stores: a process dies between instructions and the memory is
//! the kernel's, not the process's. Release stores and fences keep the compiler from reordering
//! what matters of that prefix. Recovery restores the block under the mark (a torn block becomes the old block),
//! and goes on from there with the gradient that still lies in its slot, since the slot is released
//! only after `Applied`. Two records in turn make one mark per block enough: while record
//! *m* + 1 is being filled, record *m* still undoes block *m*.
//!
//! Lanes let several threads write disjoint ranges of blocks, each with its own mark and records.
//! The arithmetic plugs in as a [`Kernel`]; this code neither knows nor cares what a block is.

use core::sync::atomic::Ordering::{Relaxed, Release};

use crossbeam_utils::CachePadded;

use crate::platform::{Platform, Tracked, Word};
use crate::ring::Header;
use crate::site::Site;

/// The most lanes a journal can have: more threads than that do not make memory faster.
pub const MAX_LANES: usize = 64;

/// What an update is about, in absolute terms: doing the rest of it twice does no harm.
///
/// The header is the server's judged copy, so that recovery need not trust the slot again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Intent {
    /// The gradient.
    pub header: Header,
    /// The version it makes.
    pub version: u64,
    /// Among how many gradients the step is shared (BSP averaging); 1 otherwise.
    pub share: u32,
    /// 1 if the update keeps undo records; 0 if it cannot be taken up again in the middle.
    pub journalled: u32,
}

/// How far an update has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// No update is under way.
    Idle = 0,
    /// The weights are being written.
    Applying = 1,
    /// The weights are written; what follows can be repeated.
    Applied = 2,
    /// Not written by this protocol.
    Unknown = u32::MAX,
}

/// The words of a journal in shared memory.
#[repr(C)]
pub struct JournalWords<P: Platform> {
    phase: CachePadded<P::U32>,
    /// Learners of the BSP round under way that have yet to be applied.
    remaining: P::U64,
    /// How many learners that round began with.
    share: P::U32,
    intent: P::Cell<Intent>,
}

impl<P: Platform> JournalWords<P> {
    /// An idle journal.
    pub fn new() -> Self {
        Self {
            phase: CachePadded::new(P::U32::new(Phase::Idle as u32)),
            remaining: P::U64::new(0),
            share: P::U32::new(0),
            intent: P::Cell::new(Intent::default()),
        }
    }
}

impl<P: Platform> Default for JournalWords<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// One lane's mark: 0 before its first block, *m* + 1 while block *m* may be torn.
#[repr(C)]
pub struct LaneWords<P: Platform> {
    mark: CachePadded<P::U64>,
}

impl<P: Platform> LaneWords<P> {
    /// A lane that has not begun.
    pub fn new() -> Self {
        Self { mark: CachePadded::new(P::U64::new(0)) }
    }
}

impl<P: Platform> Default for LaneWords<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// The arithmetic of an update on the blocks of one lane. Blocks count from 0 in each lane.
pub trait Kernel {
    /// Copies block `block` of the weights (and of the optimizer's state) to undo record
    /// `record`, 0 or 1.
    fn save(&mut self, block: u64, record: usize);
    /// Copies undo record `record` back to block `block`.
    fn restore(&mut self, block: u64, record: usize);
    /// Updates block `block` in place.
    fn write(&mut self, block: u64);
}

/// One lane of an update under way.
pub struct Lane<'a, P: Platform> {
    words: &'a LaneWords<P>,
    next: u64,
    restore_first: bool,
}

impl<P: Platform> Lane<'_, P> {
    /// Writes the next block of `blocks`; false when all are written.
    #[inline]
    pub fn step(&mut self, kernel: &mut impl Kernel, blocks: u64) -> bool {
        // A mark beyond the blocks, which this protocol does not write, restores nothing.
        if self.next >= blocks {
            return false;
        }
        let block = self.next;
        if self.restore_first {
            self.restore_first = false;
            kernel.restore(block, record_of(block));
        }
        kernel.save(block, record_of(block));
        self.words.mark.store(Site::JournalMark, block + 1, Release);
        // Keeps the stores of the kernel behind the mark.
        P::fence(Site::JournalMarkFence, Release);
        kernel.write(block);
        self.next += 1;
        true
    }

    /// Writes all `blocks`.
    pub fn run(&mut self, kernel: &mut impl Kernel, blocks: u64) {
        while self.step(kernel, blocks) {}
    }
}

const fn record_of(block: u64) -> usize {
    (block % 2) as usize
}

/// A journal and its lanes.
pub struct Journal<'a, P: Platform> {
    words: &'a JournalWords<P>,
    lanes: &'a [LaneWords<P>],
}

impl<P: Platform> Clone for Journal<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Journal<'_, P> {}

impl<'a, P: Platform> Journal<'a, P> {
    /// The journal made of these words.
    pub fn new(words: &'a JournalWords<P>, lanes: &'a [LaneWords<P>]) -> Self {
        assert!(!lanes.is_empty() && lanes.len() <= MAX_LANES);
        Self { words, lanes }
    }

    /// What a restarted server finds: how far the last update came, and what it was.
    ///
    /// Whoever started it has waited for the death of the last one, so all its stores are there.
    pub fn found(&self) -> (Phase, Intent) {
        let phase = match self.words.phase.load(Site::JournalFound, Relaxed) {
            0 => Phase::Idle,
            1 => Phase::Applying,
            2 => Phase::Applied,
            _ => Phase::Unknown,
        };
        let intent = self.words.intent.with(Site::JournalReadIntent, |intent| {
            // SAFETY: the server is the only process that touches the journal, and the one that
            // wrote it is dead. Every bit pattern is an `Intent`.
            unsafe { *intent }
        });
        (phase, intent)
    }

    /// Writes down what is about to be done. From here on it will be done.
    #[inline]
    pub fn begin(&self, intent: Intent) {
        for lane in self.lanes {
            lane.mark.store(Site::JournalReset, 0, Relaxed);
        }
        self.words.intent.with_mut(Site::JournalWriteIntent, |cell| {
            // SAFETY: only the living server touches the journal.
            unsafe { *cell = intent }
        });
        self.words.phase.store(Site::JournalBegin, Phase::Applying as u32, Release);
    }

    /// The lanes of the update, each where it stands: at its start, or where a crash left it.
    pub fn lanes(&self) -> impl ExactSizeIterator<Item = Lane<'a, P>> + use<'a, P> {
        self.lanes.iter().map(|words| {
            let mark = words.mark.load(Site::JournalLane, Relaxed);
            Lane { words, next: mark.saturating_sub(1), restore_first: mark != 0 }
        })
    }

    /// The weights are written: from here on the gradient is never applied again.
    #[inline]
    pub fn applied(&self) {
        self.words.phase.store(Site::JournalApplied, Phase::Applied as u32, Release);
    }

    /// Everything that follows an update is done.
    #[inline]
    pub fn idle(&self) {
        self.words.phase.store(Site::JournalIdle, Phase::Idle as u32, Release);
        // Keeps the next intent behind the phase.
        P::fence(Site::JournalIdleFence, Release);
    }

    /// The BSP round under way: who has yet to be applied, as a mask, and among how many the step
    /// is shared. The mask is 0 between rounds.
    pub fn round(&self) -> (u64, u32) {
        (
            self.words.remaining.load(Site::JournalRoundFound, Relaxed),
            self.words.share.load(Site::JournalRoundFound, Relaxed),
        )
    }

    /// Writes down that a BSP round of `members` begins.
    pub fn begin_round(&self, members: u64) {
        self.words.share.store(Site::JournalShare, members.count_ones(), Relaxed);
        self.words.remaining.store(Site::JournalRoundBegin, members, Release);
    }

    /// Writes down who remains. Part of what follows an update, so that it is repeated with it.
    /// Of an eviction it is no more than a part: a member whose ring is empty no longer remains,
    /// and one whose ring is not is judged again, whatever is written here.
    pub fn set_remaining(&self, remaining: u64) {
        self.words.remaining.store(Site::JournalRoundStep, remaining, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::record_of;

    #[test]
    fn neighbouring_blocks_use_different_records() {
        for block in 0..4 {
            assert_ne!(record_of(block), record_of(block + 1));
        }
    }
}
