//! The protocol on loom: every interleaving, and every value that a weak memory may return.
//!
//! A word carries a mutex and a condition variable for parking. As in the kernel, the futex's
//! value is compared and the thread queued under one lock, and a wake takes the same lock: a wake
//! after the comparison finds the thread queued, a wake before it makes the new value visible.
//! There are no timeouts and no spurious wake-ups, so a lost wake-up is a deadlock, which loom
//! reports.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use loom::sync::{Condvar, Mutex};
use loom::{cell, thread};
use protocol::platform::{Park, Platform, Tracked, Word};
use protocol::site::Site;

use crate::case::{Case, Order, Recorder};
use crate::model::{Join, Model};

/// The loom platform.
pub struct Loom;

impl Platform for Loom {
    type U32 = LoomU32;
    type U64 = LoomU64;
    type Cell<T: Send> = LoomCell<T>;

    fn fence(_: Site, order: Ordering) {
        loom::sync::atomic::fence(order);
    }

    fn pause() {
        thread::yield_now();
    }

    fn now_ns() -> u64 {
        0
    }
}

impl Model for Loom {
    type Handle<R: Send + 'static> = LoomHandle<R>;

    fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Self::Handle<R> {
        LoomHandle(thread::spawn(body))
    }

    fn thread_key() -> u64 {
        let mut hasher = DefaultHasher::new();
        thread::current().id().hash(&mut hasher);
        hasher.finish()
    }

    fn choose(_: u64) -> u64 {
        unreachable!("loom explores choices as separate cases")
    }
}

/// A thread of a loom model.
pub struct LoomHandle<R>(thread::JoinHandle<R>);

impl<R> Join<R> for LoomHandle<R> {
    fn join(self) -> R {
        self.0.join().expect("a model's threads do not panic")
    }
}

/// A word to park on.
pub struct LoomU32 {
    word: loom::sync::atomic::AtomicU32,
    queue: Mutex<()>,
    woken: Condvar,
}

/// A word.
pub struct LoomU64 {
    word: loom::sync::atomic::AtomicU64,
}

macro_rules! loom_word {
    ($value:ty) => {
        fn load(&self, _: Site, order: Ordering) -> $value {
            self.word.load(order)
        }

        fn store(&self, _: Site, value: $value, order: Ordering) {
            self.word.store(value, order);
        }

        fn compare_exchange(
            &self,
            _: Site,
            current: $value,
            new: $value,
            order: Ordering,
        ) -> Result<$value, $value> {
            self.word.compare_exchange(current, new, order, Ordering::Relaxed)
        }

        fn fetch_or(&self, _: Site, bits: $value, order: Ordering) -> $value {
            self.word.fetch_or(bits, order)
        }

        fn fetch_add(&self, _: Site, value: $value, order: Ordering) -> $value {
            self.word.fetch_add(value, order)
        }
    };
}

impl Word<u32> for LoomU32 {
    fn new(value: u32) -> Self {
        let word = loom::sync::atomic::AtomicU32::new(value);
        Self { word, queue: Mutex::new(()), woken: Condvar::new() }
    }

    loom_word!(u32);
}

impl Word<u64> for LoomU64 {
    fn new(value: u64) -> Self {
        Self { word: loom::sync::atomic::AtomicU64::new(value) }
    }

    loom_word!(u64);
}

impl Park for LoomU32 {
    fn wait(&self, _: Site, expected: u32, _: Option<Duration>) {
        let queue = self.queue.lock().expect("no thread panics in here");
        if self.word.load(Ordering::Relaxed) == expected {
            drop(self.woken.wait(queue).expect("no thread panics in here"));
        }
    }

    fn wake(&self, _: Site) {
        drop(self.queue.lock().expect("no thread panics in here"));
        self.woken.notify_all();
    }
}

/// Memory whose races loom reports.
pub struct LoomCell<T>(cell::UnsafeCell<T>);

// SAFETY: loom checks every access; racing ones fail the model.
unsafe impl<T: Send> Sync for LoomCell<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for LoomCell<T> {}

impl<T: Send> Tracked<T> for LoomCell<T> {
    fn new(value: T) -> Self {
        Self(cell::UnsafeCell::new(value))
    }

    fn with<R>(&self, _: Site, access: impl FnOnce(*const T) -> R) -> R {
        self.0.with(access)
    }

    fn with_mut<R>(&self, _: Site, access: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(access)
    }
}

/// How one exploration went.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// Executions.
    pub executions: u64,
    /// Outcomes seen, sorted.
    pub outcomes: BTreeSet<String>,
    /// Wall-clock time.
    pub elapsed: Duration,
}

/// Explores every variant of `case` to the end of its bound. Panics, as loom does, when an
/// execution fails.
///
/// No limit on time or number is set: if this returns, the exploration is complete.
pub fn explore(case: &Case, order: Order) -> Exploration {
    let bound = case.loom.unwrap_or_else(|| panic!("{} is not a loom case", case.name));
    explore_within(case, order, bound.preemptions(order))
}

/// Explores every variant of `case` with at most `preemptions`, whatever its own bound says.
pub fn explore_within(case: &Case, order: Order, preemptions: Option<usize>) -> Exploration {
    let start = Instant::now();
    let mut exploration =
        Exploration { executions: 0, outcomes: BTreeSet::new(), elapsed: Duration::ZERO };
    for variant in 0..case.variants {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 20_000;
        builder.max_duration = None;
        builder.max_permutations = None;
        builder.preemption_bound = preemptions;
        let recorder = Arc::new(Recorder::new(order, variant));
        let (run, inside) = (case.run, Arc::clone(&recorder));
        builder.check(move || run(&inside));
        exploration.executions += recorder.executions();
        exploration.outcomes.extend(recorder.seen());
    }
    exploration.elapsed = start.elapsed();
    exploration
}
