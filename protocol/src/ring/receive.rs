//! The consumer's end: poll, read in place, release, refuse, seal the dead.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::counter::{self, Tail};
use super::{Encoding, Expected, Header, Parcel, Ring};
use crate::error::Fault;
use crate::event::Event;
use crate::platform::{Platform, Tracked, Word};
use crate::site::Site;

/// The end of a ring that the server reads.
pub struct Consumer<'a, P: Platform, T: Send> {
    ring: Ring<'a, P, T>,
    learner: u32,
    tables: u32,
    payload_limit: u64,
    head: u64,
    cached_tail: Tail,
}

impl<'a, P: Platform, T: Send> Consumer<'a, P, T> {
    /// Goes on where the last server stopped.
    pub fn attach(ring: Ring<'a, P, T>, learner: u32, tables: u32, payload_limit: u64) -> Self {
        let head = Tail::decode(ring.words.head.load(Site::RingAttachHead, Relaxed)).ticket;
        let cached_tail = Tail::decode(ring.words.tail.load(Site::RingPollTail, Acquire));
        Self { ring, learner, tables, payload_limit, head, cached_tail }
    }

    /// The ticket that will be taken next.
    pub fn next_ticket(&self) -> u64 {
        self.head
    }

    /// The oldest committed gradient, if there is one. Nothing is consumed by polling: calling it
    /// again gives the same entry until it is released.
    ///
    /// `epoch` is the life that was granted the seat.
    #[inline]
    pub fn poll(&mut self, epoch: u32) -> Result<Option<Entry<'_, 'a, P, T>>, Fault> {
        if self.cached_tail.ticket == self.head {
            self.look();
        }
        let capacity = self.ring.slots.len() as u64;
        let fill = counter::distance(self.head, self.cached_tail.ticket);
        if fill == 0 {
            return Ok(None);
        }
        if !P::holds(Site::RingTailInRange, fill <= capacity) {
            return Err(Fault::WildTail { fill, capacity });
        }
        let header = self.slot().message.with(Site::RingReadHeader, |message| {
            // SAFETY: the slot was committed, seen by the acquire of `tail` that pairs with the
            // release in `Producer::advance`, and stays the consumer's until `Entry::release`.
            // Every bit pattern is a `Header`.
            unsafe { (*message).header }
        });
        let expected = Expected {
            ticket: self.head,
            learner: self.learner,
            epoch,
            tables: self.tables,
            payload_limit: self.payload_limit,
        };
        let same_life = P::holds(Site::RingSameLife, header.epoch == epoch);
        let parcel = header.check(&expected, same_life)?;
        Ok(Some(Entry { consumer: self, header, parcel }))
    }

    /// Whether the ring is empty, sealed or not, and stamped with the life `epoch`: then nothing
    /// of an earlier life is left in it and none can come.
    pub fn is_handed_over_to(&mut self, epoch: u32) -> bool {
        self.look();
        self.cached_tail.epoch == epoch && self.is_drained()
    }

    /// Whether everything that is committed has been taken, by a fresh look.
    pub fn is_empty(&mut self) -> bool {
        self.look();
        self.is_drained()
    }

    /// Whether the stream has ended and everything in it has been taken.
    pub fn is_finished(&mut self) -> bool {
        self.look();
        self.cached_tail.sealed && self.is_drained()
    }

    /// Whether the life `epoch` has ended the stream, taken or not.
    pub fn is_sealed_by(&mut self, epoch: u32) -> bool {
        self.look();
        self.cached_tail.epoch == epoch && self.cached_tail.sealed
    }

    /// Seals the ring for a life that is dead, so that it cannot commit even if it is not.
    /// Does nothing if another life has taken over.
    pub fn seal_dead(&mut self, epoch: u32) {
        self.look();
        while self.cached_tail.epoch == epoch && !self.cached_tail.sealed {
            let sealed = Tail { sealed: true, ..self.cached_tail };
            let found = self.cached_tail.encode();
            match self.ring.words.tail.compare_exchange(
                Site::RingSealDead,
                found,
                sealed.encode(),
                Relaxed,
            ) {
                Ok(_) => self.cached_tail = sealed,
                Err(_) => self.look(),
            }
        }
    }

    /// Drops everything that is committed: for a ring whose contents cannot be trusted.
    pub fn discard(&mut self) -> u64 {
        self.look();
        let dropped = counter::distance(self.head, self.cached_tail.ticket);
        self.head = self.cached_tail.ticket;
        self.ring.words.head.store(Site::RingDiscard, self.head, Release);
        dropped
    }

    /// Takes no more gradients and wakes a producer that waits for room.
    pub fn refuse(&self) {
        self.ring.words.refused.store(Site::RingRefuse, 1, Relaxed);
        self.ring.learner_bell.ring(Site::RingRefuseBell);
    }

    /// Takes gradients again, after a restart with a larger budget.
    pub fn accept(&self) {
        self.ring.words.refused.store(Site::RingRefuse, 0, Relaxed);
    }

    /// The entry that the journal says is being applied. Its header is the one that was judged
    /// before the crash; `None` if the slot has been released since.
    pub fn recover(&mut self, header: &Header) -> Option<Entry<'_, 'a, P, T>> {
        let encoding = Encoding::decode(header.encoding)?;
        if header.ticket != self.head {
            return None;
        }
        let parcel = Parcel {
            clock: header.clock,
            base_version: header.base_version,
            first_table: header.first_table,
            tables: header.tables,
            encoding,
            length: header.length.min(self.payload_limit),
        };
        Some(Entry { consumer: self, header: *header, parcel })
    }

    fn look(&mut self) {
        self.cached_tail = Tail::decode(self.ring.words.tail.load(Site::RingPollTail, Acquire));
    }

    fn is_drained(&self) -> bool {
        self.cached_tail.ticket == self.head
    }

    #[inline]
    fn slot(&self) -> &'a super::Slot<P, T> {
        &self.ring.slots[counter::slot(self.head, self.ring.slots.len())]
    }

    #[inline]
    fn release(&mut self) {
        P::report(Event::Release { learner: self.learner, ticket: self.head });
        self.head = counter::next(self.head);
        self.ring.words.head.store(Site::RingRelease, self.head, Release);
        self.ring.learner_bell.ring(Site::RingReleaseBell);
    }
}

/// A committed gradient that belongs to the consumer until it is released.
pub struct Entry<'r, 'a, P: Platform, T: Send> {
    consumer: &'r mut Consumer<'a, P, T>,
    header: Header,
    parcel: Parcel,
}

impl<P: Platform, T: Send> Entry<'_, '_, P, T> {
    /// The header, copied once and judged.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The learner's part of the header, decoded.
    #[inline]
    pub fn parcel(&self) -> &Parcel {
        &self.parcel
    }

    /// Which slot this is.
    #[inline]
    pub fn index(&self) -> usize {
        counter::slot(self.consumer.head, self.consumer.ring.slots.len())
    }

    /// Reads the payload in place.
    #[inline]
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        self.consumer.slot().message.with(Site::RingReadPayload, |message| {
            // SAFETY: as for the header in `Consumer::poll`: committed and not yet released.
            read(unsafe { &(*message).payload })
        })
    }

    /// Gives the slot back to the producer and wakes it.
    #[inline]
    pub fn release(self) {
        self.consumer.release();
    }
}
