//! The floor: a sequence word and a payload each way, with nothing that a process could rely on.

use std::cell::UnsafeCell;
use std::fs::OpenOptions;
use std::hint::spin_loop;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use memmap2::{MmapOptions, MmapRaw};
use rustix::thread::futex;

use super::{Link, Outcome, Payload, Side, Wait};

/// Something alone on its cache line.
#[repr(C, align(64))]
struct Line<T>(T);

/// One direction: the payload belongs to the receiver once the sequence has risen.
#[repr(C)]
struct Lane {
    sequence: Line<AtomicU32>,
    payload: Line<UnsafeCell<Payload>>,
}

/// One end. The map must outlive the pointers into it, so it is kept beside them.
pub(super) struct Raw {
    outgoing: *const Lane,
    incoming: *const Lane,
    wait: Wait,
    sent: u32,
    received: u32,
    _map: MmapRaw,
}

impl Raw {
    pub(super) fn connect(side: Side, wait: Wait, directory: &Path) -> Outcome<Self> {
        let path = directory.join(format!("raw-{}", wait as u8));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(side == Side::Serves).open(path)?;
        file.set_len(size_of::<[Lane; 2]>() as u64)?;
        let map = MmapOptions::new().map_raw(&file)?;
        let lanes = map.as_mut_ptr().cast_const().cast::<Lane>();
        // SAFETY: the file, and so the map, has room for two lanes.
        let (outgoing, incoming) = side.order([lanes, unsafe { lanes.add(1) }]);
        Ok(Self { outgoing, incoming, wait, sent: 0, received: 0, _map: map })
    }
}

impl Link for Raw {
    fn send(&mut self, payload: &Payload) {
        // SAFETY: the map lives as long as `self`; zeroed pages are a lane.
        let Lane { sequence, payload: place } = unsafe { &*self.outgoing };
        // SAFETY: in ping-pong, the receiver has taken the last payload before it answered.
        unsafe { *place.0.get() = *payload };
        self.sent = self.sent.wrapping_add(1);
        sequence.0.store(self.sent, Release);
        if self.wait == Wait::Parked {
            futex::wake(&sequence.0, futex::Flags::empty(), 1).expect("a futex can be woken");
        }
    }

    fn receive(&mut self) -> Payload {
        // SAFETY: as in `send`.
        let Lane { sequence, payload: place } = unsafe { &*self.incoming };
        let last = self.received;
        self.received = last.wrapping_add(1);
        while sequence.0.load(Acquire) == last {
            match self.wait {
                Wait::Spinning => spin_loop(),
                Wait::Parked => drop(futex::wait(&sequence.0, futex::Flags::empty(), last, None)),
            }
        }
        // SAFETY: the sequence was acquired, and the sender waits for an answer.
        unsafe { *place.0.get() }
    }
}
