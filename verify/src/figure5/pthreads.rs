//! The calls that Figure 5 makes: mutexes and condition variables, as each checker supplies them.
//!
//! A mutex carries what it guards, which the figure leaves to the reader; everything else keeps
//! the names and the meaning of POSIX. Neither checker wakes a waiter without a signal, so what
//! deadlocks here is not saved by luck.

use std::ops::DerefMut;

use crate::model::Model;

/// A model that also has the figure's `pthread_*` calls.
pub trait Pthreads: Model {
    /// A `pthread_mutex_t` and what it guards.
    type Mutex<T: Send + 'static>: Send + Sync;
    /// A mutex that the calling thread holds.
    type Guard<'m, T: Send + 'static>: DerefMut<Target = T>;
    /// A `pthread_cond_t`.
    type Condition: Send + Sync;

    /// `pthread_mutex_init`.
    fn mutex_init<T: Send + 'static>(value: T) -> Self::Mutex<T>;

    /// `pthread_mutex_lock`.
    fn mutex_lock<T: Send + 'static>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T>;

    /// `pthread_mutex_unlock`.
    fn mutex_unlock<T: Send + 'static>(guard: Self::Guard<'_, T>) {
        drop(guard);
    }

    /// `pthread_cond_init`.
    fn cond_init() -> Self::Condition;

    /// `pthread_cond_wait`.
    fn cond_wait<'m, T: Send + 'static>(
        condition: &Self::Condition,
        guard: Self::Guard<'m, T>,
    ) -> Self::Guard<'m, T>;

    /// `pthread_cond_signal`.
    fn cond_signal(condition: &Self::Condition);
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
macro_rules! pthreads {
    ($checker:ident, $model:ty) => {
        impl Pthreads for $model {
            type Mutex<T: Send + 'static> = $checker::sync::Mutex<T>;
            type Guard<'m, T: Send + 'static> = $checker::sync::MutexGuard<'m, T>;
            type Condition = $checker::sync::Condvar;

            fn mutex_init<T: Send + 'static>(value: T) -> Self::Mutex<T> {
                $checker::sync::Mutex::new(value)
            }

            fn mutex_lock<T: Send + 'static>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T> {
                mutex.lock().expect("no thread panics holding a lock")
            }

            fn cond_init() -> Self::Condition {
                $checker::sync::Condvar::new()
            }

            fn cond_wait<'m, T: Send + 'static>(
                condition: &Self::Condition,
                guard: Self::Guard<'m, T>,
            ) -> Self::Guard<'m, T> {
                condition.wait(guard).expect("no thread panics holding a lock")
            }

            fn cond_signal(condition: &Self::Condition) {
                condition.notify_one();
            }
        }
    };
}

#[cfg(feature = "loom")]
pthreads!(loom, crate::loom_platform::Loom);
#[cfg(feature = "shuttle")]
pthreads!(shuttle, crate::shuttle_platform::Shuttle);
