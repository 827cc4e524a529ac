//! The production platform: the processor's own atomics, and a futex supplied by the caller.
//!
//! Words and cells are `repr(transparent)` over what the processor knows, so every shared type of
//! this crate, instantiated here, has a stable layout and can be placed in a mapping. How to park
//! differs between threads of one process and processes on shared memory, and needs system calls
//! that do not belong in the core: [`Futex`] is that seam, two functions and a clock wide.
//!
//! This is the only module of the crate that may name raw atomics (see `clippy.toml`).
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use core::time::Duration;

use crate::platform::{Park, Platform, Tracked, Word};
use crate::site::Site;

/// How threads sleep and wake, and what time it is.
pub trait Futex: Send + Sync + 'static {
    /// Sleeps while `word` holds `expected`, until woken or until `timeout` has passed.
    fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>);
    /// Wakes every thread parked on `word`.
    fn wake(word: &AtomicU32);
    /// A monotonic clock in nanoseconds, the same for all processes of this machine.
    fn now_ns() -> u64;
}

/// The production platform on a given futex.
pub struct Native<F>(PhantomData<F>);

impl<F: Futex> Platform for Native<F> {
    type U32 = NativeU32<F>;
    type U64 = NativeU64;
    type Cell<T: Send> = NativeCell<T>;

    #[inline(always)]
    fn fence(_: Site, order: Ordering) {
        fence(order);
    }

    #[inline(always)]
    fn pause() {
        core::hint::spin_loop();
    }

    #[inline]
    fn now_ns() -> u64 {
        F::now_ns()
    }
}

/// A 32-bit atomic that threads can park on.
#[repr(transparent)]
pub struct NativeU32<F>(AtomicU32, PhantomData<F>);

/// A 64-bit atomic.
#[repr(transparent)]
pub struct NativeU64(AtomicU64);

macro_rules! native_word {
    ($value:ty) => {
        #[inline(always)]
        fn load(&self, _: Site, order: Ordering) -> $value {
            self.0.load(order)
        }

        #[inline(always)]
        fn store(&self, _: Site, value: $value, order: Ordering) {
            self.0.store(value, order);
        }

        #[inline(always)]
        fn compare_exchange(
            &self,
            _: Site,
            current: $value,
            new: $value,
            order: Ordering,
        ) -> Result<$value, $value> {
            self.0.compare_exchange(current, new, order, Ordering::Relaxed)
        }

        #[inline(always)]
        fn fetch_or(&self, _: Site, bits: $value, order: Ordering) -> $value {
            self.0.fetch_or(bits, order)
        }

        #[inline(always)]
        fn fetch_add(&self, _: Site, value: $value, order: Ordering) -> $value {
            self.0.fetch_add(value, order)
        }
    };
}

impl<F: Futex> Word<u32> for NativeU32<F> {
    fn new(value: u32) -> Self {
        Self(AtomicU32::new(value), PhantomData)
    }

    native_word!(u32);
}

impl Word<u64> for NativeU64 {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    native_word!(u64);
}

impl<F: Futex> Park for NativeU32<F> {
    #[inline]
    fn wait(&self, _: Site, expected: u32, timeout: Option<Duration>) {
        F::wait(&self.0, expected, timeout);
    }

    #[inline]
    fn wake(&self, _: Site) {
        F::wake(&self.0);
    }
}

/// Plain memory that the protocol hands from owner to owner.
#[repr(transparent)]
pub struct NativeCell<T>(UnsafeCell<T>);

// SAFETY: the cell gives out raw pointers only; whoever dereferences one argues, by the rule of
// the component that owns the cell, that it has exclusive (or shared read) access at that moment.
unsafe impl<T: Send> Sync for NativeCell<T> {}

impl<T: Send> Tracked<T> for NativeCell<T> {
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[inline(always)]
    fn with<R>(&self, _: Site, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    #[inline(always)]
    fn with_mut<R>(&self, _: Site, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}
