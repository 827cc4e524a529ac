//! The protocol on recorded memory: sequential, every store written down.
//!
//! Words and cells are numbers into the [`memory`] of the calling thread. A cell is
//! as many words as it is long: an access gets a copy, and what a write changed is stored word by
//! word, as plain stores, so that a kill can tear a message in the middle.
//!
//! There is one thread, which never sleeps: a park is a mistake of the scenario.

use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, needs_drop, size_of};
use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::platform::{Park, Platform, Tracked, Word};
use protocol::site::Site;

use super::memory;

/// The recording platform.
pub struct Recorded;

impl Platform for Recorded {
    type U32 = RecordedWord<u32>;
    type U64 = RecordedWord<u64>;
    type Cell<T: Send> = RecordedCell<T>;

    fn fence(site: Site, order: Ordering) {
        memory::fence(site, order);
    }

    fn pause() {}

    fn now_ns() -> u64 {
        0
    }
}

/// A word of the arena.
pub struct RecordedWord<V> {
    word: usize,
    value: PhantomData<fn() -> V>,
}

macro_rules! recorded_word {
    ($value:ty) => {
        impl Word<$value> for RecordedWord<$value> {
            fn new(value: $value) -> Self {
                Self { word: memory::allocate([u64::from(value)]), value: PhantomData }
            }

            fn load(&self, _: Site, _: Ordering) -> $value {
                memory::load(self.word) as $value
            }

            fn store(&self, site: Site, value: $value, order: Ordering) {
                memory::store(self.word, site, u64::from(value), order);
            }

            fn compare_exchange(
                &self,
                site: Site,
                current: $value,
                new: $value,
                order: Ordering,
            ) -> Result<$value, $value> {
                let found = self.load(site, Ordering::Relaxed);
                if found != current {
                    return Err(found);
                }
                self.store(site, new, order);
                Ok(found)
            }

            fn fetch_or(&self, site: Site, bits: $value, order: Ordering) -> $value {
                let found = self.load(site, Ordering::Relaxed);
                self.store(site, found | bits, order);
                found
            }

            fn fetch_add(&self, site: Site, value: $value, order: Ordering) -> $value {
                let found = self.load(site, Ordering::Relaxed);
                self.store(site, found.wrapping_add(value), order);
                found
            }
        }
    };
}

recorded_word!(u32);
recorded_word!(u64);

impl Park for RecordedWord<u32> {
    fn wait(&self, site: Site, _: u32, _: Option<Duration>) {
        panic!("{site:?}: nobody can sleep in a sequential run");
    }

    fn wake(&self, _: Site) {}
}

/// Plain memory, word by word in the arena.
///
/// Only for values made of whole words without padding that need no drop, like everything that
/// lies in the protocol's shared memory.
pub struct RecordedCell<T> {
    first: usize,
    value: PhantomData<fn(T) -> T>,
}

impl<T> RecordedCell<T> {
    const WORDS: usize = {
        assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() <= 8 && !needs_drop::<T>());
        size_of::<T>() / 8
    };

    fn read(&self) -> MaybeUninit<T> {
        let mut value = MaybeUninit::<T>::uninit();
        let words = value.as_mut_ptr().cast::<u64>();
        for index in 0..Self::WORDS {
            // SAFETY: `WORDS` words make up exactly the value. It may be aligned to less than a
            // word, hence unaligned.
            unsafe { words.add(index).write_unaligned(memory::load(self.first + index)) };
        }
        value
    }
}

/// The words of a value.
fn words_of<T>(value: &MaybeUninit<T>) -> impl Iterator<Item = u64> + '_ {
    (0..RecordedCell::<T>::WORDS).map(|index| {
        // SAFETY: within the value, which is initialized and has no padding (see `RecordedCell`).
        unsafe { value.as_ptr().cast::<u64>().add(index).read_unaligned() }
    })
}

impl<T: Send> Tracked<T> for RecordedCell<T> {
    fn new(value: T) -> Self {
        let first = memory::allocate(words_of(&MaybeUninit::new(value)));
        Self { first, value: PhantomData }
    }

    fn with<R>(&self, _: Site, access: impl FnOnce(*const T) -> R) -> R {
        access(self.read().as_ptr())
    }

    fn with_mut<R>(&self, site: Site, access: impl FnOnce(*mut T) -> R) -> R {
        let mut value = self.read();
        let result = access(value.as_mut_ptr());
        for (index, word) in words_of(&value).enumerate() {
            if word != memory::load(self.first + index) {
                memory::store(self.first + index, site, word, Ordering::Relaxed);
            }
        }
        result
    }
}
