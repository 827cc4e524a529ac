//! What the processes of a soak share: the run, and behind it everything that must survive them.
//!
//! The file is created, initialized, and unlinked at once. The children inherit its descriptor, and
//! when the last process is gone, however it went, the kernel takes the memory back: there is
//! nothing to clean up, not even after a SIGKILL of the parent.
//!
//! | part | written by | what for |
//! |---|---|---|
//! | gate | watchdog | the version at which learners wait for the next blow |
//! | evictions | server | learners it had to evict; there must be none |
//! | weights, undo records | server | the model, 16 words in 4 blocks, and the journal's records |
//! | snapshots | server | one copy of the weights a seat, for consistent pulls |
//! | orders | watchdog | the life that shall stop itself in the middle of its next copy |
//! | lives | each life of each learner | what it pushed, what it knows to be committed |
//! | log | server | one entry a version, at an absolute place: writing it twice does no harm |
//!
//! All of it is relaxed atomic words. The orderings that make it mean something are the protocol's
//! (P3, P5, P9): if they were wrong, the audit would see it here.

use std::fs::{self, File, OpenOptions};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use protocol::run::{Run, Shape};
use ps::mapping::Mapping;
use ps::platform::Processes;
use rustix::io::{FdFlags, fcntl_setfd};

use super::arithmetic::{BLOCK_WORDS, Vector, WORDS};
use super::{Failure, Setup};

/// The run of a soak.
pub(crate) type SoakRun<'m> = Run<'m, Processes, Vector>;

/// Words before the weights: one cache line.
const HEADER_WORDS: usize = 16;
const UNDO_WORDS: usize = 2 * BLOCK_WORDS;
const LIFE_WORDS: usize = 5;
const ENTRY_WORDS: usize = 8;

/// The mapping of one process.
pub(crate) struct Memory {
    mapping: Mapping,
    setup: Setup,
}

impl Memory {
    /// Makes the run and everything behind it in `directory`. The file is for children to inherit.
    pub(crate) fn create(setup: &Setup, directory: &Path) -> Result<(Self, File), Failure> {
        let path = directory.join(format!("escapement-soak-{}", process::id()));
        let cannot = |cause| Failure::Memory { path: path.clone(), cause };
        let words = words(setup)?;
        let mapping = Mapping::create_with_extra::<Processes, Vector>(&path, shape(setup), words);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        // Nobody needs the name from here on, whether this worked or not; and if somebody has left
        // a file of this name, it was a process of ours that is no more.
        let _ = fs::remove_file(&path);
        let (mapping, file) = (mapping.map_err(cannot)?, file.map_err(cannot)?);
        fcntl_setfd(&file, FdFlags::empty()).map_err(|cause| cannot(cause.into()))?;
        // SAFETY: nobody else has the file yet; every process of a soak uses these types, and
        // every bit pattern is a `Vector`.
        unsafe { mapping.initialize::<Processes, Vector>(|| [0; WORDS]) }
            .map_err(|error| Failure::Usage(error.to_string()))?;
        Ok((Self { mapping, setup: setup.clone() }, file))
    }

    /// Maps what the parent has made, through the inherited descriptor.
    pub(crate) fn inherit(setup: &Setup, descriptor: RawFd) -> Result<Self, Failure> {
        let path = PathBuf::from(format!("/proc/self/fd/{descriptor}"));
        let words = words(setup)?;
        let mapping = Mapping::open_with_extra::<Processes, Vector>(&path, shape(setup), words)
            .map_err(|cause| Failure::Memory { path, cause })?;
        Ok(Self { mapping, setup: setup.clone() })
    }

    /// The run.
    pub(crate) fn run(&self) -> Result<SoakRun<'_>, Failure> {
        // SAFETY: `create` initialized it before anybody could inherit the descriptor; every
        // process of a soak uses these types, and every bit pattern is a `Vector`.
        unsafe { self.mapping.run() }.map_err(|error| Failure::Usage(error.to_string()))
    }

    /// Everything behind the run.
    pub(crate) fn area(&self) -> Area<'_> {
        Area::split(self.mapping.extra(), &self.setup)
    }
}

/// The shape of a soak's run: one table, one lane.
pub(crate) fn shape(setup: &Setup) -> Shape {
    Shape {
        learners: setup.learners,
        tables: 1,
        capacity: setup.capacity,
        lanes: 1,
        payload_limit: size_of::<Vector>() as u64,
    }
}

fn words(setup: &Setup) -> Result<usize, Failure> {
    let count = || {
        let seat_words = setup.lives_limit().checked_mul(LIFE_WORDS)?.checked_add(WORDS + 1)?;
        let log_words = usize::try_from(setup.log_limit()).ok()?.checked_mul(ENTRY_WORDS)?;
        setup
            .learners
            .checked_mul(seat_words)?
            .checked_add(log_words)?
            .checked_add(HEADER_WORDS + WORDS + UNDO_WORDS)
    };
    count().ok_or_else(|| Failure::Usage("no memory can hold that many gradients".into()))
}

/// The parts behind the run.
#[derive(Clone, Copy)]
pub(crate) struct Area<'m> {
    pub(crate) gate: &'m AtomicU64,
    pub(crate) evictions: &'m AtomicU64,
    pub(crate) weights: &'m [AtomicU64],
    pub(crate) undo: &'m [AtomicU64],
    snapshots: &'m [AtomicU64],
    orders: &'m [AtomicU64],
    lives: &'m [AtomicU64],
    log: &'m [AtomicU64],
    lives_limit: usize,
}

impl<'m> Area<'m> {
    fn split(words: &'m [AtomicU64], setup: &Setup) -> Self {
        let (header, rest) = words.split_at(HEADER_WORDS);
        let (weights, rest) = rest.split_at(WORDS);
        let (undo, rest) = rest.split_at(UNDO_WORDS);
        let (snapshots, rest) = rest.split_at(setup.learners * WORDS);
        let (orders, rest) = rest.split_at(setup.learners);
        let lives_limit = setup.lives_limit();
        let (lives, log) = rest.split_at(setup.learners * lives_limit * LIFE_WORDS);
        let (gate, evictions) = (&header[0], &header[1]);
        Self { gate, evictions, weights, undo, snapshots, orders, lives, log, lives_limit }
    }

    /// The snapshot of `learner`.
    pub(crate) fn snapshot(&self, learner: usize) -> &'m [AtomicU64] {
        &self.snapshots[learner * WORDS..(learner + 1) * WORDS]
    }

    /// The life of `learner` that shall stop itself; 0 for none.
    pub(crate) fn order(&self, learner: usize) -> &'m AtomicU64 {
        &self.orders[learner]
    }

    /// What the life `epoch` of `learner` writes down about itself; `None` if the soak has no
    /// room for so many lives.
    pub(crate) fn life(&self, learner: usize, epoch: u32) -> Option<LifeWords<'m>> {
        let index = (epoch as usize).checked_sub(1).filter(|index| *index < self.lives_limit)?;
        let start = (learner * self.lives_limit + index) * LIFE_WORDS;
        let [first_clock, pushed, acknowledged, fenced, lies] =
            &self.lives[start..start + LIFE_WORDS]
        else {
            return None;
        };
        Some(LifeWords { first_clock, pushed, acknowledged, fenced, lies })
    }

    /// How many gradients the log can hold.
    pub(crate) fn log_limit(&self) -> u64 {
        (self.log.len() / ENTRY_WORDS) as u64
    }

    /// Writes down the gradient that makes `version`. `version` is at least 1 and in the log.
    pub(crate) fn write_entry(&self, version: u64, entry: &Entry) {
        let words = self.entry(version);
        let values = [
            u64::from(entry.learner),
            u64::from(entry.epoch),
            entry.ticket,
            entry.clock,
            entry.base_version,
            entry.checksum,
            u64::from(entry.share),
        ];
        for (word, value) in words.iter().zip(values) {
            word.store(value, Relaxed);
        }
    }

    /// The gradient that made `version`; `None` if nothing was written down for it.
    pub(crate) fn read_entry(&self, version: u64) -> Option<Entry> {
        let values: [u64; ENTRY_WORDS] =
            std::array::from_fn(|index| self.entry(version)[index].load(Relaxed));
        let [learner, epoch, ticket, clock, base_version, checksum, share, _] = values;
        let (learner, epoch, share) = (learner as u32, epoch as u32, share as u32);
        (share != 0).then_some(Entry {
            learner,
            epoch,
            ticket,
            clock,
            base_version,
            checksum,
            share,
        })
    }

    fn entry(&self, version: u64) -> &'m [AtomicU64] {
        let start = (version as usize - 1) * ENTRY_WORDS;
        &self.log[start..start + ENTRY_WORDS]
    }
}

/// What one life of a learner writes down about itself.
#[derive(Clone, Copy)]
pub(crate) struct LifeWords<'m> {
    /// The clock it began at; 0 if it never began.
    pub(crate) first_clock: &'m AtomicU64,
    /// Gradients it began to copy into a slot.
    pub(crate) pushed: &'m AtomicU64,
    /// Gradients it knows to be committed.
    pub(crate) acknowledged: &'m AtomicU64,
    /// Gradients whose commit it knows to have failed.
    pub(crate) fenced: &'m AtomicU64,
    /// Pulls that held less, or other, than the version they claimed.
    pub(crate) lies: &'m AtomicU64,
}

/// One gradient as the server applied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) learner: u32,
    pub(crate) epoch: u32,
    pub(crate) ticket: u64,
    pub(crate) clock: u64,
    pub(crate) base_version: u64,
    /// Of the payload that the server read.
    pub(crate) checksum: u64,
    /// Among how many the step was shared; at least 1.
    pub(crate) share: u32,
}

/// Copies words that may be changing.
pub(crate) fn load(words: &[AtomicU64]) -> Vector {
    std::array::from_fn(|index| words[index].load(Relaxed))
}
