//! The protocol on shuttle: random and PCT schedules of systems too large for loom.
//!
//! Atomics are sequentially consistent here: shuttle finds lost wake-ups, deadlocks and wrong
//! logic, not weak memory. A wait without timeout ends only when woken; a wait with one may end at
//! once, so a case that wants lost wake-ups found waits without.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::platform::{Park, Platform, Tracked, Word};
use protocol::site::Site;
use shuttle::rand::Rng;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::{Condvar, Mutex};
use shuttle::{Config, FailurePersistence, Runner, thread};

use crate::case::{Case, Order, Recorder, Sampling};
use crate::model::{Join, Model};

/// The shuttle platform.
pub struct Shuttle;

impl Platform for Shuttle {
    type U32 = ShuttleU32;
    type U64 = ShuttleU64;
    type Cell<T: Send> = ShuttleCell<T>;

    fn fence(_: Site, order: Ordering) {
        shuttle::sync::atomic::fence(order);
    }

    fn pause() {
        thread::yield_now();
    }

    fn now_ns() -> u64 {
        0
    }
}

impl Model for Shuttle {
    type Handle<R: Send + 'static> = ShuttleHandle<R>;

    fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Self::Handle<R> {
        ShuttleHandle(thread::spawn(body))
    }

    fn thread_key() -> u64 {
        usize::from(shuttle::current::me()) as u64
    }

    fn choose(limit: u64) -> u64 {
        shuttle::rand::thread_rng().gen_range(0..limit)
    }
}

/// A thread of a shuttle model.
pub struct ShuttleHandle<R>(thread::JoinHandle<R>);

impl<R> Join<R> for ShuttleHandle<R> {
    fn join(self) -> R {
        self.0.join().expect("a model's threads do not panic")
    }
}

/// A word to park on.
pub struct ShuttleU32 {
    word: shuttle::sync::atomic::AtomicU32,
    queue: Mutex<()>,
    woken: Condvar,
}

/// A word.
pub struct ShuttleU64 {
    word: shuttle::sync::atomic::AtomicU64,
}

macro_rules! shuttle_word {
    ($value:ty) => {
        fn load(&self, _: Site, _: Ordering) -> $value {
            self.word.load(Ordering::SeqCst)
        }

        fn store(&self, _: Site, value: $value, _: Ordering) {
            self.word.store(value, Ordering::SeqCst);
        }

        fn compare_exchange(
            &self,
            _: Site,
            current: $value,
            new: $value,
            _: Ordering,
        ) -> Result<$value, $value> {
            self.word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
        }

        fn fetch_or(&self, _: Site, bits: $value, _: Ordering) -> $value {
            self.word.fetch_or(bits, Ordering::SeqCst)
        }

        fn fetch_add(&self, _: Site, value: $value, _: Ordering) -> $value {
            self.word.fetch_add(value, Ordering::SeqCst)
        }
    };
}

impl Word<u32> for ShuttleU32 {
    fn new(value: u32) -> Self {
        let word = shuttle::sync::atomic::AtomicU32::new(value);
        Self { word, queue: Mutex::new(()), woken: Condvar::new() }
    }

    shuttle_word!(u32);
}

impl Word<u64> for ShuttleU64 {
    fn new(value: u64) -> Self {
        Self { word: shuttle::sync::atomic::AtomicU64::new(value) }
    }

    shuttle_word!(u64);
}

impl Park for ShuttleU32 {
    fn wait(&self, _: Site, expected: u32, timeout: Option<Duration>) {
        if timeout.is_some() {
            return thread::yield_now();
        }
        let queue = self.queue.lock().expect("no thread panics in here");
        if self.word.load(Ordering::SeqCst) == expected {
            drop(self.woken.wait(queue).expect("no thread panics in here"));
        }
    }

    fn wake(&self, _: Site) {
        drop(self.queue.lock().expect("no thread panics in here"));
        self.woken.notify_all();
    }
}

/// Memory that the protocol hands from owner to owner.
///
/// shuttle does not look for data races; but a thread that finds another inside the cell has
/// found a broken hand-over, and says so.
pub struct ShuttleCell<T> {
    value: std::cell::UnsafeCell<T>,
    writers: std::cell::Cell<u32>,
    readers: std::cell::Cell<u32>,
}

// SAFETY: shuttle runs one thread at a time; overlapping accesses fail the model.
unsafe impl<T: Send> Sync for ShuttleCell<T> {}

struct Inside<'c>(&'c std::cell::Cell<u32>);

impl<'c> Inside<'c> {
    fn enter(count: &'c std::cell::Cell<u32>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<T: Send> Tracked<T> for ShuttleCell<T> {
    fn new(value: T) -> Self {
        Self { value: value.into(), writers: 0.into(), readers: 0.into() }
    }

    fn with<R>(&self, site: Site, access: impl FnOnce(*const T) -> R) -> R {
        assert_eq!(self.writers.get(), 0, "{site:?} reads while another writes");
        let _inside = Inside::enter(&self.readers);
        access(self.value.get())
    }

    fn with_mut<R>(&self, site: Site, access: impl FnOnce(*mut T) -> R) -> R {
        assert_eq!(self.writers.get() + self.readers.get(), 0, "{site:?} writes beside another");
        let _inside = Inside::enter(&self.writers);
        access(self.value.get())
    }
}

/// How the schedules of a case are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Uniformly at random.
    Random,
    /// Probabilistic concurrency testing, with this many priority changes.
    Pct(usize),
}

impl Strategy {
    /// The strategies by which a case is sampled.
    pub const fn of(sampling: Sampling) -> &'static [Self] {
        match sampling {
            Sampling::Concurrent => &[Self::Random, Self::Pct(3)],
            Sampling::Sequential => &[Self::Random],
        }
    }
}

/// Samples `schedules` of `case`, from `seed`. Panics, as shuttle does, when one fails.
pub fn sample(case: &Case, strategy: Strategy, seed: u64, schedules: usize) -> Arc<Recorder> {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.stack_size = 1 << 18;
    config.failure_persistence = FailurePersistence::None;
    let recorder = Arc::new(Recorder::new(Order::Forward, 0));
    let (run, variants, inside) = (case.run, case.variants, Arc::clone(&recorder));
    let body = move || {
        inside.set_variant(Shuttle::choose(variants));
        run(&inside);
    };
    match strategy {
        Strategy::Random => {
            Runner::new(RandomScheduler::new_from_seed(seed, schedules), config).run(body)
        }
        Strategy::Pct(depth) => {
            Runner::new(PctScheduler::new_from_seed(seed, depth, schedules), config).run(body)
        }
    };
    recorder
}
