//! The gradient ring: one producer, one consumer, one commit point.
//!
//! Each seat has one ring of slots in shared memory. Its learner's push thread fills slots, the
//! server empties them, in ticket order.
//!
//! | field | written by | read by | pairs with |
//! |---|---|---|---|
//! | `tail` | producer: release CAS to commit, relaxed CAS to join and seal; server: relaxed CAS to seal the dead | consumer: acquire load in [`Consumer::poll`] | slot contents |
//! | `head` | consumer: release store in [`Entry::release`] | producer: acquire load in [`Producer::reserve`] | slot may be overwritten |
//! | `refused` | consumer: relaxed store in [`Consumer::refuse`] | producer | – |
//! | a slot | its owner: producer from reserve to commit, consumer from poll to release | | |
//!
//! - **One commit point.** Everything a producer does before the CAS on `tail` is invisible. A
//!   producer killed at any instruction leaves either a whole gradient or none (rule 2).
//! - **Fenced lives.** The tail word names the life that may commit. A new life stamps its epoch
//!   there when it joins, and the server seals the ring of a life that was given up: a commit that
//!   comes too late is a failed CAS, not a gradient. Only the commit is fenced, not the memory of
//!   the slots: a successor joins when the process of the life before is gone
//!   ([`Seat::rejoin`](crate::membership::Seat::rejoin)).
//! - **Private indices.** Each end keeps its own index and reads the shared one only when it joins
//!   (rule 5); it reads the other end's word only when its cached copy says "full" or "empty".
//!
//! Carries P2, P3, P4 and P8.

pub mod counter;
pub mod header;
mod receive;
mod send;

use core::fmt;

use crossbeam_utils::CachePadded;

use crate::bell::Doorbell;
use crate::error::ShapeError;
use crate::platform::{Platform, Tracked, Word};
use counter::Tail;
pub use header::{Encoding, Expected, Header, Parcel};
pub use receive::{Consumer, Entry};
pub use send::{Producer, Reservation};

/// The words of a ring, each end's on a cache line of its own.
#[repr(C)]
pub struct RingWords<P: Platform> {
    tail: CachePadded<P::U64>,
    head: CachePadded<P::U64>,
    refused: CachePadded<P::U32>,
}

impl<P: Platform> RingWords<P> {
    /// An empty ring whose first ticket will be `first_ticket`.
    ///
    /// Tests start just below the wrap; everybody else starts at 0.
    pub fn starting_at(first_ticket: u64) -> Self {
        let tail = Tail { epoch: 0, sealed: true, ticket: first_ticket };
        Self {
            tail: CachePadded::new(P::U64::new(tail.encode())),
            head: CachePadded::new(P::U64::new(tail.ticket)),
            refused: CachePadded::new(P::U32::new(0)),
        }
    }
}

/// What lies in a slot. `T` is the payload, or `()` where payloads live in an area of their own
/// that is indexed by [`Reservation::index`] and [`Entry::index`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Message<T> {
    /// What the slot says about its gradient.
    pub header: Header,
    /// The gradient.
    pub payload: T,
}

/// One slot: plain memory with one owner at a time, on cache lines of its own.
#[repr(C, align(64))]
pub struct Slot<P: Platform, T: Send> {
    message: P::Cell<Message<T>>,
}

impl<P: Platform, T: Send> Slot<P, T> {
    /// A slot around `payload`.
    pub fn new(payload: T) -> Self {
        Self { message: P::Cell::new(Message { header: Header::default(), payload }) }
    }
}

/// A ring as seen by either end: its words, its slots, and whom to wake.
pub struct Ring<'a, P: Platform, T: Send> {
    pub(crate) words: &'a RingWords<P>,
    pub(crate) slots: &'a [Slot<P, T>],
    pub(crate) server_bell: &'a Doorbell<P>,
    pub(crate) learner_bell: &'a Doorbell<P>,
}

impl<P: Platform, T: Send> Clone for Ring<'_, P, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, T: Send> Copy for Ring<'_, P, T> {}

impl<P: Platform, T: Send> fmt::Debug for Ring<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("capacity", &self.slots.len()).finish_non_exhaustive()
    }
}

impl<'a, P: Platform, T: Send> Ring<'a, P, T> {
    /// The ring made of these parts.
    pub fn new(
        words: &'a RingWords<P>,
        slots: &'a [Slot<P, T>],
        server_bell: &'a Doorbell<P>,
        learner_bell: &'a Doorbell<P>,
    ) -> Result<Self, ShapeError> {
        if !counter::is_valid_capacity(slots.len()) {
            return Err(ShapeError::Capacity { found: slots.len(), limit: counter::MAX_CAPACITY });
        }
        Ok(Self { words, slots, server_bell, learner_bell })
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}
