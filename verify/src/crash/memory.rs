//! The memory of a sequential run: an arena of words, and the stream of stores to it.
//!
//! A word of [`Recorded`](super::Recorded) is a number into this arena, so that the whole memory can
//! be copied, and put back as a kill may have left it, while every reference into it stays valid.
//! The arena belongs to the calling thread: tests run side by side, each with one run of its own
//! at a time.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use protocol::site::Site;

/// One entry of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A word was stored.
    Store(Store),
    /// A fence that orders stores.
    Fence(Site),
}

/// A store as the program made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Which word.
    pub word: usize,
    /// By which line of the protocol.
    pub site: Site,
    /// What it held before.
    pub old: u64,
    /// What it holds after.
    pub value: u64,
    /// The order of the store; plain writes are relaxed.
    pub order: Ordering,
}

impl Store {
    /// Whether every earlier store comes before this one.
    pub fn is_release(&self) -> bool {
        releases(self.order)
    }
}

/// Whether an access or a fence of this order comes after every earlier store.
pub fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

#[derive(Default)]
struct Memory {
    words: Vec<u64>,
    stream: Vec<Entry>,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

fn with<R>(access: impl FnOnce(&mut Memory) -> R) -> R {
    MEMORY.with_borrow_mut(access)
}

/// Forgets every word: the next one allocated is the first of another run.
pub fn clear() {
    with(|memory| *memory = Memory::default());
}

/// Adds words that hold `values` and returns the number of the first.
pub(super) fn allocate(values: impl IntoIterator<Item = u64>) -> usize {
    with(|memory| {
        let first = memory.words.len();
        memory.words.extend(values);
        first
    })
}

pub(super) fn load(word: usize) -> u64 {
    with(|memory| memory.words[word])
}

/// Stores and records; returns what the word held before.
pub(super) fn store(word: usize, site: Site, value: u64, order: Ordering) -> u64 {
    with(|memory| {
        let old = std::mem::replace(&mut memory.words[word], value);
        memory.stream.push(Entry::Store(Store { word, site, old, value, order }));
        old
    })
}

pub(super) fn fence(site: Site, order: Ordering) {
    if releases(order) {
        with(|memory| memory.stream.push(Entry::Fence(site)));
    }
}

/// A copy of every word.
pub fn snapshot() -> Vec<u64> {
    with(|memory| memory.words.clone())
}

/// Puts a copy back, without a trace in the stream.
pub fn reinstate(words: &[u64]) {
    with(|memory| memory.words.copy_from_slice(words));
}

/// Sets some words, as if somebody who is gone had stored them.
pub fn overwrite(writes: &[(usize, u64)]) {
    with(|memory| writes.iter().for_each(|&(word, value)| memory.words[word] = value));
}

/// What was stored since the last call.
pub fn take_stream() -> Vec<Entry> {
    with(|memory| std::mem::take(&mut memory.stream))
}
