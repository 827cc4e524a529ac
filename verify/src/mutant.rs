//! Mutants: the protocol broken at exactly one site, at run time.
//!
//! [`Mutant<M>`] is a platform like `M`, except at the one site that [`with_mutation`] names: there
//! an ordering is weakened to relaxed, a fence or a wake is dropped, or a check is taken to hold.
//! A checker that does not notice has a hole.
//!
//! Both loom and shuttle run all threads of a model on the calling thread, so the choice is a
//! thread-local of that thread, and mutants can be checked in parallel.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol::event::Event;
use protocol::platform::{Park, Platform, Word};
use protocol::site::{Kind, Site};

use crate::model::Model;

thread_local! {
    static MUTATION: Cell<Option<Site>> = const { Cell::new(None) };
}

/// Runs `body` with the protocol broken at `site`.
pub fn with_mutation<R>(site: Option<Site>, body: impl FnOnce() -> R) -> R {
    struct Restore(Option<Site>);
    impl Drop for Restore {
        fn drop(&mut self) {
            MUTATION.set(self.0);
        }
    }
    let _restore = Restore(MUTATION.replace(site));
    body()
}

/// The sites that have something to break.
pub fn mutable_sites() -> impl Iterator<Item = Site> {
    Site::ALL.iter().copied().filter(|site| site.kind() != Kind::Plain)
}

fn is_broken(site: Site) -> bool {
    MUTATION.get() == Some(site)
}

/// The ordering that is used at `site`, and a check that its kind is declared as it is.
fn ordering(site: Site, order: Ordering) -> Ordering {
    if site.kind() == Kind::Plain {
        assert_eq!(order, Ordering::Relaxed, "{site:?} is declared plain");
    }
    if is_broken(site) { Ordering::Relaxed } else { order }
}

/// The platform `M` with at most one site broken.
pub struct Mutant<M>(PhantomData<M>);

impl<M: Platform> Platform for Mutant<M> {
    type U32 = MutantWord<M::U32>;
    type U64 = MutantWord<M::U64>;
    type Cell<T: Send> = M::Cell<T>;

    fn fence(site: Site, order: Ordering) {
        if !is_broken(site) {
            M::fence(site, order);
        }
    }

    fn pause() {
        M::pause();
    }

    fn now_ns() -> u64 {
        M::now_ns()
    }

    fn holds(site: Site, condition: bool) -> bool {
        M::holds(site, condition) || is_broken(site)
    }

    fn report(event: Event) {
        M::report(event);
    }
}

impl<M: Model> Model for Mutant<M> {
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

/// A word whose orderings can be weakened.
pub struct MutantWord<W>(W);

impl<V: Copy, W: Word<V>> Word<V> for MutantWord<W> {
    fn new(value: V) -> Self {
        Self(W::new(value))
    }

    fn load(&self, site: Site, order: Ordering) -> V {
        self.0.load(site, ordering(site, order))
    }

    fn store(&self, site: Site, value: V, order: Ordering) {
        self.0.store(site, value, ordering(site, order));
    }

    fn compare_exchange(&self, site: Site, current: V, new: V, order: Ordering) -> Result<V, V> {
        self.0.compare_exchange(site, current, new, ordering(site, order))
    }

    fn fetch_or(&self, site: Site, bits: V, order: Ordering) -> V {
        self.0.fetch_or(site, bits, ordering(site, order))
    }

    fn fetch_add(&self, site: Site, value: V, order: Ordering) -> V {
        self.0.fetch_add(site, value, ordering(site, order))
    }
}

impl<W: Park> Park for MutantWord<W> {
    fn wait(&self, site: Site, expected: u32, timeout: Option<Duration>) {
        self.0.wait(site, expected, timeout);
    }

    fn wake(&self, site: Site) {
        if !is_broken(site) {
            self.0.wake(site);
        }
    }
}
