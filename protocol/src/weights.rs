//! Weight versions: what a reader may claim about the weights it copied.
//!
//! The version counts applied gradients. One word, the `stamp`, publishes it: 2·v while version
//! *v* lies still, 2·v + 1 while the update to *v* + 1 is being written. The weights themselves are
//! written and read as relaxed atomics by the caller's kernels; what this module adds is the order
//! around them.
//!
//! **Hogwild** ([`Reader::read_racy`]): read the stamp, *then* copy (rule 4). The copy holds
//! everything up to the claimed version, and perhaps parts of later updates: the version never
//! lies. Pairs: the release of either stamp, in [`Publisher::begin`] and [`Publisher::finish`],
//! with the acquire in `read_racy`.
//!
//! **Consistent**: a pull sees exactly one version. [`Reader::read_still`] copies between two equal,
//! even stamps (a seqlock: the fence in [`Publisher::begin`] keeps the weights behind the odd
//! stamp, the fence in `read_still` keeps the second look behind the copy). Under constant updates
//! that could fail for ever, and the server must never wait for a reader that may be dead. So after
//! a few torn copies the reader asks ([`Reader::ask`]), and the server itself, between two updates,
//! copies the weights to the reader's snapshot ([`Publisher::answer`]): readers make progress,
//! updates are delayed by at most one copy per asking reader, and nobody holds a lock.
//!
//! Carries P5.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::bell::Doorbell;
use crate::platform::{Platform, Word};
use crate::site::Site;

/// By which a learner asks for a consistent copy, and the server answers.
#[repr(C)]
pub struct SnapshotWords<P: Platform> {
    /// Counts questions; written by the learner.
    asked: P::U64,
    /// The last question answered; written by the server.
    answered: P::U64,
    /// The version that the last answer holds; written by the server before `answered`.
    version: P::U64,
}

impl<P: Platform> SnapshotWords<P> {
    /// Nothing asked, nothing answered.
    pub fn new() -> Self {
        Self { asked: P::U64::new(0), answered: P::U64::new(0), version: P::U64::new(0) }
    }
}

impl<P: Platform> SnapshotWords<P> {
    /// The last question answered, as a server that restarts finds it.
    pub fn answered(&self) -> u64 {
        self.answered.load(Site::SnapshotAttach, Relaxed)
    }
}

impl<P: Platform> Default for SnapshotWords<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// The word that publishes versions.
#[repr(C)]
pub struct Stamp<P: Platform> {
    word: P::U64,
}

impl<P: Platform> Stamp<P> {
    /// Version 0 lies still.
    pub fn new() -> Self {
        Self { word: P::U64::new(0) }
    }

    /// The newest whole version, for counters and dashboards.
    pub fn version(&self) -> u64 {
        self.word.load(Site::StampWatch, Relaxed) / 2
    }
}

impl<P: Platform> Default for Stamp<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// The server's side: it alone writes the stamp.
pub struct Publisher<'a, P: Platform> {
    stamp: &'a Stamp<P>,
    version: u64,
    writing: bool,
}

impl<'a, P: Platform> Publisher<'a, P> {
    /// Goes on where the last server stopped, perhaps in the middle of an update.
    pub fn attach(stamp: &'a Stamp<P>) -> Self {
        let word = stamp.word.load(Site::StampAttach, Relaxed);
        Self { stamp, version: word / 2, writing: word % 2 == 1 }
    }

    /// The newest whole version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether an update has begun and not finished.
    pub fn is_writing(&self) -> bool {
        self.writing
    }

    /// Announces that the weights are about to change. Idempotent, for recovery.
    #[inline]
    pub fn begin(&mut self) {
        self.writing = true;
        // Release: a reader that meets the odd stamp claims the version before and must have it;
        // and to a server that restarts, an odd stamp beside an idle journal means that the weights
        // are half written with no way back, so the intent comes first.
        self.stamp.word.store(Site::StampBegin, self.version.wrapping_mul(2) | 1, Release);
        // Keeps the stores of the update behind the odd stamp.
        P::fence(Site::StampBeginFence, Release);
    }

    /// Publishes `version`: the update that makes it is complete. Idempotent, for recovery.
    #[inline]
    pub fn finish(&mut self, version: u64) {
        debug_assert!(version == self.version || version == self.version + 1);
        self.version = version;
        self.writing = false;
        self.stamp.word.store(Site::StampFinish, version.wrapping_mul(2), Release);
    }

    /// Answers a reader that asked for a consistent copy, if one has, by `copy`ing the weights to
    /// its snapshot. Call between updates. Returns whether there was a question.
    ///
    /// `answered` is the last question answered on this seat, kept by the server.
    pub fn answer(
        &self,
        answered: &mut u64,
        snapshot: &SnapshotWords<P>,
        bell: &Doorbell<P>,
        copy: impl FnOnce(),
    ) -> bool {
        debug_assert!(!self.writing);
        let asked = snapshot.asked.load(Site::SnapshotAsked, Acquire);
        if asked == *answered {
            return false;
        }
        *answered = asked;
        copy();
        snapshot.version.store(Site::SnapshotVersion, self.version, Relaxed);
        snapshot.answered.store(Site::SnapshotAnswer, asked, Release);
        bell.ring(Site::SnapshotBell);
        true
    }
}

/// A copy was disturbed by an update; it holds no single version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn;

/// The pull thread's side.
pub struct Reader<'a, P: Platform> {
    stamp: &'a Stamp<P>,
    snapshot: &'a SnapshotWords<P>,
    server_bell: &'a Doorbell<P>,
    asked: u64,
}

impl<'a, P: Platform> Reader<'a, P> {
    /// A reader of the weights behind `stamp` that asks by `snapshot`.
    pub fn join(
        stamp: &'a Stamp<P>,
        snapshot: &'a SnapshotWords<P>,
        server_bell: &'a Doorbell<P>,
    ) -> Self {
        let asked = snapshot.asked.load(Site::SnapshotJoin, Relaxed);
        Self { stamp, snapshot, server_bell, asked }
    }

    /// The newest whole version. A copy made after this holds everything up to it.
    #[inline]
    pub fn newest(&self) -> u64 {
        self.stamp.word.load(Site::StampRead, Acquire) / 2
    }

    /// Copies while updates may be going on; returns the version that the copy may claim.
    #[inline]
    pub fn read_racy(&self, copy: impl FnOnce()) -> u64 {
        // The version is read before the copy, never after (rule 4).
        let early = self.newest();
        copy();
        if P::holds(Site::StampReadAfterCopy, false) { self.newest() } else { early }
    }

    /// Copies one version, or fails if an update came in between.
    pub fn read_still(&self, copy: impl FnOnce()) -> Result<u64, Torn> {
        let before = self.stamp.word.load(Site::StampReadBefore, Acquire);
        if !P::holds(Site::StampIsStill, before % 2 == 0) {
            return Err(Torn);
        }
        copy();
        P::fence(Site::StampReadFence, Acquire);
        let after = self.stamp.word.load(Site::StampReadAgain, Relaxed);
        if P::holds(Site::StampIsSame, before == after) { Ok(before / 2) } else { Err(Torn) }
    }

    /// Asks the server for a consistent copy.
    pub fn ask(&mut self) {
        self.asked = self.asked.wrapping_add(1);
        self.snapshot.asked.store(Site::SnapshotAsk, self.asked, Release);
        self.server_bell.ring(Site::SnapshotAskBell);
    }

    /// Copies the answer, once it is there; returns its version.
    pub fn collect(&self, copy: impl FnOnce()) -> Option<u64> {
        let answered = self.snapshot.answered.load(Site::SnapshotLook, Acquire);
        if !P::holds(Site::SnapshotIsMine, answered == self.asked) {
            return None;
        }
        let version = self.snapshot.version.load(Site::SnapshotReadVersion, Relaxed);
        copy();
        Some(version)
    }
}
