//! Ticket arithmetic: plain functions on plain values.
//!
//! A ticket numbers the gradients of one seat, for ever: it goes on across the lives of its
//! learner and across restarts of the server. It has [`TICKET_BITS`] bits and wraps; capacities
//! are powers of two, so that slot indices stay continuous at the wrap. The tail word carries, in
//! one atomic value, how many tickets are committed, whose life may commit the next one, and
//! whether that life has sealed the ring. Carries P4.

/// Bits of a ticket: at a million gradients a second, nine years until the (harmless) wrap.
pub const TICKET_BITS: u32 = 48;
const TICKET_MASK: u64 = (1 << TICKET_BITS) - 1;
const SEALED_BIT: u64 = 1 << TICKET_BITS;
const EPOCH_SHIFT: u32 = TICKET_BITS + 1;

/// The last epoch a seat can have: 15 bits remain beside ticket and seal.
pub const MAX_EPOCH: u32 = (1 << (64 - EPOCH_SHIFT)) - 1;

/// The largest ring: bounds the memory of a seat, far beyond any useful queue.
pub const MAX_CAPACITY: usize = 1 << 16;

/// The ticket after `ticket`.
#[inline]
pub const fn next(ticket: u64) -> u64 {
    ticket.wrapping_add(1) & TICKET_MASK
}

/// How many tickets lie in `from..to`, across the wrap.
#[inline]
pub const fn distance(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & TICKET_MASK
}

/// The slot that `ticket` occupies in a ring of `capacity` slots (a power of two).
#[inline]
pub const fn slot(ticket: u64, capacity: usize) -> usize {
    (ticket & (capacity as u64 - 1)) as usize
}

/// Whether a ring may have this many slots.
#[inline]
pub const fn is_valid_capacity(capacity: usize) -> bool {
    capacity.is_power_of_two() && capacity <= MAX_CAPACITY
}

/// What the tail word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The life that may commit next.
    pub epoch: u32,
    /// Whether that life, or the server on its death, has ended the stream.
    pub sealed: bool,
    /// The next ticket to be committed; all before it are.
    pub ticket: u64,
}

impl Tail {
    /// The word for this tail.
    #[inline]
    pub const fn encode(self) -> u64 {
        ((self.epoch as u64) << EPOCH_SHIFT)
            | ((self.sealed as u64) << TICKET_BITS)
            | (self.ticket & TICKET_MASK)
    }

    /// The tail that a word stands for; every word stands for one.
    #[inline]
    pub const fn decode(word: u64) -> Self {
        Self {
            epoch: (word >> EPOCH_SHIFT) as u32,
            sealed: word & SEALED_BIT != 0,
            ticket: word & TICKET_MASK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_and_slots_stay_continuous_at_the_wrap() {
        let last = TICKET_MASK;
        assert_eq!(next(last), 0);
        assert_eq!(distance(last, next(last)), 1);
        assert_eq!(distance(next(last), last), TICKET_MASK);
        for capacity in [1, 2, 4, MAX_CAPACITY] {
            assert_eq!((slot(last, capacity) + 1) % capacity, slot(next(last), capacity));
        }
    }

    #[test]
    fn a_tail_survives_its_word() {
        for epoch in [0, 1, MAX_EPOCH] {
            for sealed in [false, true] {
                for ticket in [0, 1, TICKET_MASK] {
                    let tail = Tail { epoch, sealed, ticket };
                    assert_eq!(Tail::decode(tail.encode()), tail);
                }
            }
        }
    }
}
