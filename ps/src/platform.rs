//! The two production platforms: how threads sleep within a process and across processes.
//!
//! [`Threads`] parks with `atomic-wait`, whose futexes are private to a process: right, and a
//! little cheaper, for threads of one process. [`Processes`] parks on shared futexes: a private
//! futex in a shared mapping is keyed by the process, so a wake from another one would be lost.
//! `atomic-wait` has no deadlines; where one is asked for, the same private futex is waited on
//! through `rustix`.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use protocol::native::{Futex, Native};
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Production among threads of one process.
pub type Threads = Native<PrivateFutex>;

/// Production among processes on shared memory.
pub type Processes = Native<SharedFutex>;

/// Parks threads of one process.
pub struct PrivateFutex;

impl Futex for PrivateFutex {
    fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
        match timeout {
            None => atomic_wait::wait(word, expected),
            Some(timeout) => wait_at_most(word, futex::Flags::PRIVATE, expected, timeout),
        }
    }

    fn wake(word: &AtomicU32) {
        atomic_wait::wake_all(word);
    }

    fn now_ns() -> u64 {
        monotonic_ns()
    }
}

/// Parks threads of any process that maps the word.
pub struct SharedFutex;

impl Futex for SharedFutex {
    fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
        match timeout {
            None => drop(futex::wait(word, futex::Flags::empty(), expected, None)),
            Some(timeout) => wait_at_most(word, futex::Flags::empty(), expected, timeout),
        }
    }

    fn wake(word: &AtomicU32) {
        // The only errors are a bad address and bad flags, which the types rule out.
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }

    fn now_ns() -> u64 {
        monotonic_ns()
    }
}

/// Every way in which a futex wait ends (woken, value changed, signal, timeout) is one on which
/// the caller looks again, so the outcome does not matter.
fn wait_at_most(word: &AtomicU32, flags: futex::Flags, expected: u32, timeout: Duration) {
    let timeout = Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let _ = futex::wait(word, flags, expected, Some(&timeout));
}

/// The system's monotonic clock: one for all processes.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use protocol::bell::{Doorbell, Patience, Waiter};
    use protocol::platform::Platform;
    use protocol::site::Site;

    use super::*;

    fn a_deadline_ends_a_wait<P: Platform>(slice: Option<Duration>) {
        let bell = Doorbell::<P>::new();
        let waiter = Waiter::new(&bell, Patience { spins: 1, slice });
        let start = Instant::now();
        let deadline_ns = P::now_ns() + 30_000_000;
        assert_eq!(waiter.wait_until(deadline_ns, || None::<()>), None);
        assert!(start.elapsed() >= Duration::from_millis(30), "not before its time");
        assert_eq!(waiter.wait_until(0, || Some(7)), Some(7), "what is ready is ready");
    }

    #[test]
    fn a_deadline_ends_a_wait_that_nobody_else_does() {
        for slice in [None, Some(Duration::from_millis(4))] {
            a_deadline_ends_a_wait::<Threads>(slice);
            a_deadline_ends_a_wait::<Processes>(slice);
        }
    }

    /// Nobody rings: only the slice makes the waiter look again.
    #[test]
    fn a_slice_lets_a_sleeper_look_for_itself() {
        let bell = Doorbell::<Processes>::new();
        let slice = Some(Duration::from_millis(4));
        let mut looks = 0;
        Waiter::new(&bell, Patience { spins: 1, slice }).wait(|| {
            looks += 1;
            (looks > 6).then_some(())
        });
    }

    #[test]
    fn a_ring_ends_a_wait_before_its_deadline() {
        let bell = Doorbell::<Processes>::new();
        let rung = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let waiter = Waiter::new(&bell, Patience { spins: 1, slice: None });
                let deadline_ns = Processes::now_ns() + 60_000_000_000;
                let ready = || (rung.load(std::sync::atomic::Ordering::Acquire) != 0).then_some(());
                waiter.wait_until(deadline_ns, ready)
            });
            std::thread::sleep(Duration::from_millis(20));
            rung.store(1, std::sync::atomic::Ordering::Release);
            bell.ring(Site::Caller);
            assert_eq!(waiting.join().expect("no panic"), Some(()));
        });
    }
}
