//! The producer's end: reserve, write in place, commit or abandon, seal.

use core::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use super::counter::{self, Tail};
use super::{Header, Parcel, Ring};
use crate::bell::Waiter;
use crate::error::{Fenced, ReserveError};
use crate::event::Event;
use crate::platform::{Platform, Tracked, Word};
use crate::site::Site;

/// The end of a ring that one life of a learner pushes into.
pub struct Producer<'a, P: Platform, T: Send> {
    ring: Ring<'a, P, T>,
    learner: u32,
    tail: Tail,
    cached_head: u64,
    /// Whether a CAS has failed: the ring belongs to another life, or to nobody.
    fenced: bool,
}

impl<'a, P: Platform, T: Send> Producer<'a, P, T> {
    /// Takes over the ring for the life `epoch` of `learner`, going on after the last ticket that
    /// any earlier life committed. From here on, no earlier life can commit.
    ///
    /// The caller holds the seat for this epoch (see [`membership`](crate::membership)).
    pub fn join(ring: Ring<'a, P, T>, learner: u32, epoch: u32) -> Self {
        debug_assert!(epoch <= counter::MAX_EPOCH);
        let mut found = ring.words.tail.load(Site::RingJoinTail, Relaxed);
        let tail = loop {
            let tail = Tail { epoch, sealed: false, ticket: Tail::decode(found).ticket };
            match ring.words.tail.compare_exchange(
                Site::RingJoinStamp,
                found,
                tail.encode(),
                Relaxed,
            ) {
                Ok(_) => break tail,
                Err(now) => found = now,
            }
        };
        ring.server_bell.ring(Site::RingJoinBell);
        let cached_head = ring.words.head.load(Site::RingJoinHead, Acquire);
        Self { ring, learner, tail, cached_head, fenced: false }
    }

    /// The ticket that the next commit will carry.
    pub fn next_ticket(&self) -> u64 {
        self.tail.ticket
    }

    /// The life this end belongs to.
    pub fn epoch(&self) -> u32 {
        self.tail.epoch
    }

    /// A free slot to write into, without waiting. Nothing is published by reserving: calling it
    /// again gives the same slot.
    #[inline]
    pub fn reserve(&mut self) -> Result<Reservation<'_, 'a, P, T>, ReserveError> {
        if self.tail.sealed || self.fenced {
            return Err(ReserveError::Ended);
        }
        if self.is_full() {
            self.cached_head = self.ring.words.head.load(Site::RingReserveHead, Acquire);
            if P::holds(Site::RingReserveFull, !self.is_full()) {
                return Ok(Reservation { producer: self });
            }
            if self.ring.words.refused.load(Site::RingReserveRefused, Relaxed) != 0 {
                return Err(ReserveError::Refused);
            }
            return Err(ReserveError::Full);
        }
        Ok(Reservation { producer: self })
    }

    /// A free slot to write into, waiting until there is one. `give_up` is polled beside it: the
    /// wait ends when it returns true.
    pub fn reserve_wait(
        &mut self,
        waiter: Waiter<'_, P>,
        mut give_up: impl FnMut() -> bool,
    ) -> Result<Reservation<'_, 'a, P, T>, ReserveError> {
        waiter.wait(|| match self.reserve() {
            Err(ReserveError::Full) => give_up().then_some(Err(ReserveError::Ended)),
            Err(other) => Some(Err(other)),
            Ok(_) => Some(Ok(())),
        })?;
        self.reserve()
    }

    /// Ends the stream: no ticket follows. The server takes what is committed, then lets go.
    pub fn seal(&mut self) -> Result<(), Fenced> {
        if self.fenced {
            return Err(Fenced);
        }
        if self.tail.sealed {
            return Ok(());
        }
        let sealed = Tail { sealed: true, ..self.tail };
        P::report(Event::Seal { learner: self.learner, epoch: self.tail.epoch });
        self.advance(Site::RingSeal, sealed, Relaxed)?;
        self.ring.server_bell.ring(Site::RingSealBell);
        Ok(())
    }

    /// Whether the server has refused further gradients.
    pub fn is_refused(&self) -> bool {
        self.ring.words.refused.load(Site::RingReserveRefused, Relaxed) != 0
    }

    #[inline]
    fn is_full(&self) -> bool {
        counter::distance(self.cached_head, self.tail.ticket) >= self.ring.slots.len() as u64
    }

    /// The commit point: one CAS that fails if this life no longer holds the ring.
    #[inline]
    fn advance(&mut self, site: Site, tail: Tail, order: Ordering) -> Result<(), Fenced> {
        let found = self.tail.encode();
        match self.ring.words.tail.compare_exchange(site, found, tail.encode(), order) {
            Ok(_) => {
                self.tail = tail;
                Ok(())
            }
            Err(_) => {
                self.fenced = true;
                Err(Fenced)
            }
        }
    }
}

/// A slot that belongs to the producer until it commits. Dropping it abandons the slot: nothing
/// was published, the next reservation gets it again.
pub struct Reservation<'r, 'a, P: Platform, T: Send> {
    producer: &'r mut Producer<'a, P, T>,
}

impl<P: Platform, T: Send> Reservation<'_, '_, P, T> {
    /// Which slot this is.
    #[inline]
    pub fn index(&self) -> usize {
        counter::slot(self.producer.tail.ticket, self.producer.ring.slots.len())
    }

    /// The ticket it will carry.
    #[inline]
    pub fn ticket(&self) -> u64 {
        self.producer.tail.ticket
    }

    /// Writes the payload in place.
    #[inline]
    pub fn write<R>(&mut self, write: impl FnOnce(&mut T) -> R) -> R {
        self.producer.ring.slots[self.index()].message.with_mut(Site::RingWritePayload, |message| {
            // SAFETY: the slot of the next ticket belongs to the producer (P3): the consumer
            // released it, seen by the acquire of `head` in `reserve` that pairs with the release
            // in `Entry::release`, and does not look at it before the commit.
            write(unsafe { &mut (*message).payload })
        })
    }

    /// Publishes the slot. This is the one commit point; after it the gradient will be applied.
    #[inline]
    pub fn commit(self, parcel: Parcel) -> Result<u64, Fenced> {
        let index = self.index();
        let producer = self.producer;
        let Tail { epoch, ticket, .. } = producer.tail;
        let learner = producer.learner;
        let header = Header::new(ticket, learner, epoch, parcel);
        producer.ring.slots[index].message.with_mut(Site::RingWriteHeader, |message| {
            // SAFETY: as in `write`: the slot belongs to the producer until the CAS below.
            unsafe { (*message).header = header }
        });
        P::report(Event::Commit {
            learner,
            epoch,
            ticket,
            clock: parcel.clock,
            base_version: parcel.base_version,
        });
        let committed = Tail { ticket: counter::next(ticket), ..producer.tail };
        producer.advance(Site::RingCommit, committed, Release).inspect_err(|_| {
            P::report(Event::CommitFenced { learner, epoch, ticket });
        })?;
        producer.ring.server_bell.ring(Site::RingCommitBell);
        Ok(ticket)
    }

    /// Gives the slot back unused.
    pub fn abandon(self) {}
}
