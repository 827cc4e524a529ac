//! One file mapped by every process of a run.
//!
//! The mapping owns the memory; the protocol's types are placed in it unchanged
//! ([`Run::initialize`], [`Run::map`]). A file is created exclusively, readable and writable by
//! its owner only, and its space is reserved up front, so that no later access can fail with
//! SIGBUS for want of space.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use memmap2::{MmapOptions, MmapRaw};
use protocol::error::ShapeError;
use protocol::platform::Platform;
use protocol::run::{Layout, Run, Shape};
use rustix::fs::{FallocateFlags, fallocate};

/// Shared memory that holds one run.
pub struct Mapping {
    map: MmapRaw,
    shape: Shape,
}

impl Mapping {
    /// Creates `path` with room for a run of this shape.
    pub fn create<P: Platform, T: Send>(path: &Path, shape: Shape) -> io::Result<Self> {
        let size = size_of_run::<P, T>(&shape)?;
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        fallocate(&file, FallocateFlags::empty(), 0, size as u64)?;
        Self::of(&file, shape)
    }

    /// Maps a run that another process has made at `path`.
    pub fn open<P: Platform, T: Send>(path: &Path, shape: Shape) -> io::Result<Self> {
        let size = size_of_run::<P, T>(&shape)?;
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
        Self::of(&file, shape)
    }

    fn of(file: &File, shape: Shape) -> io::Result<Self> {
        let map = MmapOptions::new().map_raw(file)?;
        Ok(Self { map, shape })
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

fn size_of_run<P: Platform, T: Send>(shape: &Shape) -> io::Result<usize> {
    let layout = Layout::of::<P, T>(shape)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    Ok(layout.size)
}

#[cfg(test)]
mod tests {
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
