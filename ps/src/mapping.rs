//! One file mapped by every process of a run.
//!
//! The mapping owns the memory; the protocol's types are placed in it unchanged
//! ([`Run::initialize`], [`Run::map`]). A file is created exclusively, readable and writable by
//! its owner only, and its space is reserved up front, so that no later access can fail with
//! SIGBUS for want of space.
//!
//! Behind the run there is room for whatever else its processes share ([`Mapping::extra`]):
//! weights, snapshots, a log. It is zero at first, and reached through atomic words only, so that
//! no access to it can be a data race whatever another process does.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::slice;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};
use protocol::error::ShapeError;
use protocol::platform::Platform;
use protocol::run::{ALIGNMENT, Layout, Run, Shape};
use rustix::fs::{FallocateFlags, fallocate};

/// Shared memory that holds one run.
pub struct Mapping {
    map: MmapRaw,
    shape: Shape,
    extra: Extra,
}

/// Where the room behind the run lies.
#[derive(Clone, Copy)]
struct Extra {
    offset: usize,
    words: usize,
}

impl Mapping {
    /// Creates `path` with room for a run of this shape.
    pub fn create<P: Platform, T: Send>(path: &Path, shape: Shape) -> io::Result<Self> {
        Self::create_with_extra::<P, T>(path, shape, 0)
    }

    /// Creates `path` with room for a run of this shape and `words` words behind it.
    pub fn create_with_extra<P: Platform, T: Send>(
        path: &Path,
        shape: Shape,
        words: usize,
    ) -> io::Result<Self> {
        let (extra, size) = plan::<P, T>(&shape, words)?;
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        fallocate(&file, FallocateFlags::empty(), 0, size as u64)?;
        Self::of(&file, shape, extra)
    }

    /// Maps a run that another process has made at `path`.
    pub fn open<P: Platform, T: Send>(path: &Path, shape: Shape) -> io::Result<Self> {
        Self::open_with_extra::<P, T>(path, shape, 0)
    }

    /// Maps a run that another process has made at `path` with `words` words behind it.
    pub fn open_with_extra<P: Platform, T: Send>(
        path: &Path,
        shape: Shape,
        words: usize,
    ) -> io::Result<Self> {
        let (extra, size) = plan::<P, T>(&shape, words)?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        if length < size as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{} has {length} bytes, a run of this shape needs {size}: \
                     start the run again or pass the shape it was made with",
                    path.display()
                ),
            ));
        }
        Self::of(&file, shape, extra)
    }

    fn of(file: &File, shape: Shape, extra: Extra) -> io::Result<Self> {
        let map = MmapOptions::new().map_raw(file)?;
        Ok(Self { map, shape, extra })
    }

    /// The words behind the run, zero at first.
    pub fn extra(&self) -> &[AtomicU64] {
        let Extra { offset, words } = self.extra;
        // SAFETY: `plan` placed the words behind the run, aligned to a cache line and within the
        // file, whose space is reserved; the map is valid as long as `self` lives. Every bit
        // pattern is an `AtomicU64`, and nobody reaches this memory but through this function.
        unsafe { slice::from_raw_parts(self.map.as_mut_ptr().add(offset).cast(), words) }
    }

    /// Makes a new run in the memory.
    ///
    /// # Safety
    ///
    /// Nobody else uses the memory until this returns, and all users agree on `P` and `T`, of
    /// which every bit pattern is a value.
    pub unsafe fn initialize<P: Platform, T: Send>(
        &self,
        payload: impl FnMut() -> T,
    ) -> Result<Run<'_, P, T>, ShapeError> {
        // SAFETY: the map is valid for its length as long as `self` lives; the rest by the caller.
        unsafe { Run::initialize(self.map.as_mut_ptr(), self.map.len(), &self.shape, payload) }
    }

    /// The run that was made in the memory.
    ///
    /// # Safety
    ///
    /// [`initialize`](Self::initialize) has returned, in this process or another, and all users
    /// agree on `P` and `T`, of which every bit pattern is a value.
    pub unsafe fn run<P: Platform, T: Send>(&self) -> Result<Run<'_, P, T>, ShapeError> {
        // SAFETY: as above.
        unsafe { Run::map(self.map.as_mut_ptr(), self.map.len(), &self.shape) }
    }
}

/// Where the extra words lie, and the size of it all.
fn plan<P: Platform, T: Send>(shape: &Shape, words: usize) -> io::Result<(Extra, usize)> {
    let refuse = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let layout = Layout::of::<P, T>(shape).map_err(refuse)?;
    let offset = layout.size.next_multiple_of(ALIGNMENT);
    let size = words
        .checked_mul(size_of::<AtomicU64>())
        .and_then(|bytes| offset.checked_add(bytes))
        .filter(|size| *size <= isize::MAX as usize)
        .ok_or_else(|| refuse(ShapeError::TooLarge))?;
    Ok((Extra { offset, words }, size))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::platform::Processes;

    const SHAPE: Shape = Shape { learners: 2, tables: 3, capacity: 4, lanes: 1, payload_limit: 64 };

    #[test]
    fn two_mappings_of_one_file_are_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let first = Mapping::create::<Processes, u64>(&path, SHAPE).unwrap();
        let second = Mapping::open::<Processes, u64>(&path, SHAPE).unwrap();
        // SAFETY: `initialize` returns before anybody else looks; both use the same types.
        let (ours, theirs) = unsafe {
            (
                first.initialize::<Processes, u64>(|| 0).unwrap(),
                second.run::<Processes, u64>().unwrap(),
            )
        };
        assert!(!theirs.is_stopping());
        ours.request_stop();
        assert!(theirs.is_stopping());
    }

    #[test]
    fn words_behind_the_run_are_shared_and_start_at_zero() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let first = Mapping::create_with_extra::<Processes, u64>(&path, SHAPE, 5).unwrap();
        let second = Mapping::open_with_extra::<Processes, u64>(&path, SHAPE, 5).unwrap();
        // SAFETY: nobody else has the run yet.
        let _run = unsafe { first.initialize::<Processes, u64>(|| u64::MAX) }.unwrap();
        assert_eq!(second.extra().len(), 5);
        assert!(second.extra().iter().all(|word| word.load(Relaxed) == 0));
        first.extra()[4].store(7, Relaxed);
        assert_eq!(second.extra()[4].load(Relaxed), 7);
        let longer = Mapping::open_with_extra::<Processes, u64>(&path, SHAPE, 6).err().unwrap();
        assert_eq!(longer.kind(), io::ErrorKind::InvalidData);
        let huge = Mapping::create_with_extra::<Processes, u64>(&path, SHAPE, usize::MAX / 4);
        assert_eq!(huge.err().unwrap().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_file_that_exists_or_is_too_short_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        std::fs::write(&path, [0; 16]).unwrap();
        let taken = Mapping::create::<Processes, u64>(&path, SHAPE).err().unwrap();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        let short = Mapping::open::<Processes, u64>(&path, SHAPE).err().unwrap();
        assert_eq!(short.kind(), io::ErrorKind::InvalidData);
    }
}
