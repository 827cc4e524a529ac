//! Mortal processes: threads of a model that are killed between two accesses to shared memory.
//!
//! [`Mortal<M>`] is the platform `M` on which the threads of a [`Process`] have a number of
//! accesses to live, together. When they are used up, each of them stops where it is. A thread
//! dies between two instructions, never inside one, and does nothing afterwards that others can
//! see: unwinding drops only private values of the protocol, none of which touches shared memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::event::Event;
use protocol::platform::{Park, Platform, Tracked, Word};
use protocol::site::Site;

use crate::model::Model;

thread_local! {
    /// The processes of the mortal threads of the model that runs on this thread.
    static MORTALS: RefCell<HashMap<u64, Process>> = RefCell::default();
}

struct Death;

/// Threads that are killed together.
#[derive(Clone)]
pub struct Process(Arc<Mutex<Option<u64>>>);

impl Process {
    /// A process that is killed before its access number `accesses`, counted over its threads.
    pub fn killed_after(accesses: u64) -> Self {
        Self(Arc::new(Mutex::new(Some(accesses))))
    }

    /// A process that nobody kills.
    pub fn immortal() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    /// Runs `body` as a thread of this process, on this thread of the model. `None` if it was
    /// killed; then the rest of the process is killed at its next access, wherever it sleeps:
    /// `wake_the_rest` makes the sleepers look.
    pub fn thread<M: Model, R>(
        &self,
        wake_the_rest: impl FnOnce(),
        body: impl FnOnce() -> R,
    ) -> Option<R> {
        let key = M::thread_key();
        MORTALS.with_borrow_mut(|mortals| mortals.insert(key, self.clone()));
        let outcome = catch_unwind(AssertUnwindSafe(body));
        MORTALS.with_borrow_mut(|mortals| mortals.remove(&key));
        match outcome {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Death>() => {
                wake_the_rest();
                None
            }
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Whether there is an access left; takes it.
    fn breathe(&self) -> bool {
        let mut left = self.0.lock().unwrap();
        match &mut *left {
            None => true,
            Some(0) => false,
            Some(accesses) => {
                *accesses -= 1;
                true
            }
        }
    }
}

/// One access of the calling thread; kills it if its process has none left.
fn breathe<M: Model>() {
    if MORTALS.with_borrow(HashMap::is_empty) {
        return;
    }
    let key = M::thread_key();
    let alive = MORTALS.with_borrow(|mortals| mortals.get(&key).is_none_or(Process::breathe));
    if !alive {
        // Not a panic: no hook runs, nothing is printed.
        resume_unwind(Box::new(Death));
    }
}

/// The platform `M`, on which threads can be killed.
pub struct Mortal<M>(PhantomData<M>);

impl<M: Model> Platform for Mortal<M> {
    type U32 = MortalWord<M, M::U32>;
    type U64 = MortalWord<M, M::U64>;
    type Cell<T: Send> = MortalCell<M, M::Cell<T>>;

    fn fence(site: Site, order: Ordering) {
        breathe::<M>();
        M::fence(site, order);
    }

    fn pause() {
        M::pause();
    }

    fn now_ns() -> u64 {
        M::now_ns()
    }

    fn holds(site: Site, condition: bool) -> bool {
        M::holds(site, condition)
    }

    fn report(event: Event) {
        M::report(event);
    }
}

impl<M: Model> Model for Mortal<M> {
    type Handle<R: Send + 'static> = M::Handle<R>;

    fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Self::Handle<R> {
        M::spawn(body)
    }

    fn thread_key() -> u64 {
        M::thread_key()
    }

    fn choose(limit: u64) -> u64 {
        M::choose(limit)
    }
}

/// A word whose accesses count.
pub struct MortalWord<M, W>(W, PhantomData<M>);

impl<V: Copy, M: Model, W: Word<V>> Word<V> for MortalWord<M, W> {
    fn new(value: V) -> Self {
        Self(W::new(value), PhantomData)
    }

    fn load(&self, site: Site, order: Ordering) -> V {
        breathe::<M>();
        self.0.load(site, order)
    }

    fn store(&self, site: Site, value: V, order: Ordering) {
        breathe::<M>();
        self.0.store(site, value, order);
    }

    fn compare_exchange(&self, site: Site, current: V, new: V, order: Ordering) -> Result<V, V> {
        breathe::<M>();
        self.0.compare_exchange(site, current, new, order)
    }

    fn fetch_or(&self, site: Site, bits: V, order: Ordering) -> V {
        breathe::<M>();
        self.0.fetch_or(site, bits, order)
    }

    fn fetch_add(&self, site: Site, value: V, order: Ordering) -> V {
        breathe::<M>();
        self.0.fetch_add(site, value, order)
    }
}

impl<M: Model, W: Park> Park for MortalWord<M, W> {
    fn wait(&self, site: Site, expected: u32, timeout: Option<Duration>) {
        breathe::<M>();
        self.0.wait(site, expected, timeout);
    }

    fn wake(&self, site: Site) {
        breathe::<M>();
        self.0.wake(site);
    }
}

/// A cell whose accesses count.
pub struct MortalCell<M, C>(C, PhantomData<M>);

impl<T, M: Model, C: Tracked<T>> Tracked<T> for MortalCell<M, C> {
    fn new(value: T) -> Self {
        Self(C::new(value), PhantomData)
    }

    fn with<R>(&self, site: Site, access: impl FnOnce(*const T) -> R) -> R {
        breathe::<M>();
        self.0.with(site, access)
    }

    fn with_mut<R>(&self, site: Site, access: impl FnOnce(*mut T) -> R) -> R {
        breathe::<M>();
        self.0.with_mut(site, access)
    }
}
