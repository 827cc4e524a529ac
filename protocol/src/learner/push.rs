//! The push thread: take a gradient, copy it into a slot, commit (Figure 5d of the paper).

use super::{Life, Loaded};
use crate::error::ReserveError;
use crate::handoff::Taker;
use crate::machine::{Machine, Step};
use crate::platform::Platform;
use crate::ring::{Encoding, Parcel, Producer};

/// What a copied gradient consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// First table it touches.
    pub first_table: u32,
    /// Number of tables it touches.
    pub tables: u32,
    /// How the payload represents it.
    pub encoding: Encoding,
    /// Bytes of payload in use.
    pub length: u64,
}

/// How a gradient gets off the device; supplied by the caller.
pub trait PushCopy<G, T> {
    /// Copies `gradient` into slot `slot`, whose payload is `payload`.
    fn push(&mut self, gradient: &mut G, slot: usize, payload: &mut T) -> Contents;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Take,
    Copy,
    Commit(Contents),
    GiveBack,
    Close,
    Done,
}

/// The push thread's state machine.
pub struct Push<'a, P: Platform, T: Send, G: Send, C> {
    life: Life<'a, P, T>,
    gradients_in: Taker<'a, P, Loaded<G>>,
    producer: Producer<'a, P, T>,
    copy: C,
    work: Work,
}

impl<'a, P: Platform, T: Send, G: Send, C: PushCopy<G, T>> Push<'a, P, T, G, C> {
    /// Pushes what comes out of `gradients_in`.
    pub fn new(
        life: Life<'a, P, T>,
        gradients_in: Taker<'a, P, Loaded<G>>,
        producer: Producer<'a, P, T>,
        copy: C,
    ) -> Self {
        Self { life, gradients_in, producer, copy, work: Work::Take }
    }

    /// Gives the ring back, for [`Life::leave`].
    pub fn into_producer(self) -> Producer<'a, P, T> {
        self.producer
    }

    fn take(&mut self) -> Option<Work> {
        match self.gradients_in.loan() {
            Ok(Some(_)) => Some(Work::Copy),
            Ok(None) => None,
            Err(_) => Some(Work::Close),
        }
    }

    fn copy(&mut self) -> Option<Work> {
        let mut reservation = match self.producer.reserve() {
            Ok(reservation) => reservation,
            Err(ReserveError::Full) => return self.life.is_evicted().then_some(Work::Close),
            Err(ReserveError::Refused | ReserveError::Ended) => return Some(Work::Close),
        };
        let Ok(Some(mut borrow)) = self.gradients_in.loan() else {
            return Some(Work::Close);
        };
        let slot = reservation.index();
        let contents = borrow.with(|loaded| {
            reservation.write(|payload| self.copy.push(&mut loaded.buffer, slot, payload))
        });
        Some(Work::Commit(contents))
    }

    fn commit(&mut self, contents: Contents) -> Option<Work> {
        let (Ok(Some(mut borrow)), Ok(reservation)) =
            (self.gradients_in.loan(), self.producer.reserve())
        else {
            return Some(Work::Close);
        };
        let Contents { first_table, tables, encoding, length } = contents;
        let parcel = borrow.with(|loaded| {
            let Loaded { clock, base_version, .. } = *loaded;
            Parcel { clock, base_version, first_table, tables, encoding, length }
        });
        Some(if reservation.commit(parcel).is_ok() { Work::GiveBack } else { Work::Close })
    }

    fn give_back(&mut self) -> Option<Work> {
        if let Ok(Some(borrow)) = self.gradients_in.loan() {
            borrow.give_back();
        }
        Some(Work::Take)
    }

    fn close(&mut self) -> Option<Work> {
        // A fenced seal means that the seat is gone; there is nothing left to end.
        let _ = self.producer.seal();
        self.gradients_in.close();
        Some(Work::Done)
    }
}

impl<P, T, G, C> Machine<P> for Push<'_, P, T, G, C>
where
    P: Platform,
    T: Send,
    G: Send,
    C: PushCopy<G, T>,
{
    fn step(&mut self) -> Step {
        let next = match self.work {
            Work::Take => self.take(),
            Work::Copy => self.copy(),
            Work::Commit(contents) => self.commit(contents),
            Work::GiveBack => self.give_back(),
            Work::Close => self.close(),
            Work::Done => return Step::Done,
        };
        let Some(work) = next else { return Step::Blocked };
        self.work = work;
        Step::Worked
    }
}
