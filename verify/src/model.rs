//! What a model needs beyond a platform: threads.

use protocol::platform::Platform;

/// A platform on which threads can be spawned and joined.
pub trait Model: Platform {
    /// A thread that returns `R`.
    type Handle<R: Send + 'static>: Join<R>;

    /// Starts a thread.
    fn spawn<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> Self::Handle<R>;

    /// A number that tells the threads of one execution apart.
    fn thread_key() -> u64;

    /// A number below `limit` that the checker chooses; a checker that does not choose at random
    /// explores all of them in separate cases instead.
    fn choose(limit: u64) -> u64;
}

/// A thread that can be waited for.
pub trait Join<R> {
    /// Waits for the thread's end.
    fn join(self) -> R;
}
