//! The ground the protocol stands on: atomic words, tracked cells, fences, parking and time.
//!
//! The protocol is generic code over one trait, [`Platform`]. Production instantiates it on
//! [`Native`](crate::native::Native) (plain atomics and a futex, mappable into shared memory);
//! loom, shuttle, Kani, the mutants and the crash points instantiate the *same text* on types of
//! their own. There is no `cfg` for a checker anywhere in this crate.
//!
//! Every access names its [`Site`]. Production compiles the name away; a mutant uses it to weaken
//! exactly one ordering, to drop exactly one fence or wake, or to force exactly one check.

use core::sync::atomic::Ordering;
use core::time::Duration;

use crate::event::Event;
use crate::site::Site;

/// A supplier of shared-memory primitives.
///
/// All functions are associated functions: a platform has no state of its own, so the shared
/// types carry nothing but their words and can be placed in a mapping as they are.
pub trait Platform: Sized + Send + Sync + 'static {
    /// A 32-bit atomic word that a thread can park on.
    type U32: Park;
    /// A 64-bit atomic word.
    type U64: Word<u64>;
    /// Plain memory whose accesses a checker can follow.
    type Cell<T: Send>: Tracked<T>;

    /// An atomic fence.
    fn fence(site: Site, order: Ordering);

    /// A hint to the processor that this thread is spinning.
    fn pause();

    /// A monotonic clock in nanoseconds, used for deadlines only.
    fn now_ns() -> u64;

    /// Passes a condition through, naming the site that decides on it.
    ///
    /// Every check whose absence would be a protocol bug (re-checks before parking, epoch and
    /// index checks) goes through here, so that a mutant can leave it out.
    #[inline(always)]
    fn holds(site: Site, condition: bool) -> bool {
        let _ = site;
        condition
    }

    /// Reports one linearised action of the protocol: the source of traces.
    ///
    /// Publishing actions report just *before* the store that publishes them, observing actions
    /// just *after* the load that observes: so a cause is always reported before its effects.
    #[inline(always)]
    fn report(event: Event) {
        let _ = event;
    }
}

/// An atomic word of a platform.
pub trait Word<V: Copy>: Send + Sync {
    /// A word that holds `value`.
    fn new(value: V) -> Self;
    /// Atomic load.
    fn load(&self, site: Site, order: Ordering) -> V;
    /// Atomic store.
    fn store(&self, site: Site, value: V, order: Ordering);
    /// Atomic compare-and-exchange. A failure orders nothing and returns what was found.
    fn compare_exchange(&self, site: Site, current: V, new: V, order: Ordering) -> Result<V, V>;
    /// Atomic bitwise or; returns the previous value.
    fn fetch_or(&self, site: Site, bits: V, order: Ordering) -> V;
    /// Atomic wrapping addition; returns the previous value.
    fn fetch_add(&self, site: Site, value: V, order: Ordering) -> V;
}

/// A word that threads can park on, with the semantics of a futex.
pub trait Park: Word<u32> {
    /// Sleeps while the word holds `expected`, until woken or until `timeout` has passed.
    ///
    /// May return early for no reason; the caller re-checks what it waits for.
    fn wait(&self, site: Site, expected: u32, timeout: Option<Duration>);
    /// Wakes every thread that is parked on this word.
    fn wake(&self, site: Site);
}

/// Plain memory whose accesses a checker can follow.
///
/// The closures get raw pointers because the type cannot know who owns the memory at that moment:
/// the protocol does, and says so where it dereferences them.
pub trait Tracked<T>: Send + Sync {
    /// A cell that holds `value`.
    fn new(value: T) -> Self;
    /// Access for reading. The pointer must not leave the closure.
    fn with<R>(&self, site: Site, access: impl FnOnce(*const T) -> R) -> R;
    /// Access for writing. The pointer must not leave the closure.
    fn with_mut<R>(&self, site: Site, access: impl FnOnce(*mut T) -> R) -> R;
}
