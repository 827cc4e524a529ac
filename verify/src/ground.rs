//! Memory for a model: a run made of boxed parts that every thread of an execution shares.
//!
//! loom's threads need `'static` data and create their atomics anew in every execution. So the
//! ground hands out `'static` references and takes the memory back when it is dropped: a model
//! drops it last, after it has joined every thread.

use std::ptr::NonNull;

use protocol::journal::{JournalWords, LaneWords};
use protocol::membership::Seat;
use protocol::platform::{Platform, Word};
use protocol::ring::{RingWords, Slot};
use protocol::run::{Control, Parts, Run, Shape};

/// A box that lends `'static` references and frees its memory when dropped.
pub struct Leaked<T: ?Sized + 'static>(NonNull<T>);

impl<T: ?Sized> Leaked<T> {
    /// Takes the box over.
    pub fn new(value: Box<T>) -> Self {
        Self(NonNull::from(Box::leak(value)))
    }

    /// The value. Valid until the `Leaked` is dropped, which a model does last.
    pub fn get(&self) -> &'static T {
        // SAFETY: the box is alive until `drop`, by which time no thread of the model is.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Leaked<T> {
    /// The value for one thread to own, while nobody else looks at it.
    pub fn get_mut(&mut self) -> &'static mut T {
        // SAFETY: as in `get`; exclusive because of `&mut self` and because a model calls this
        // once, before it shares anything.
        unsafe { self.0.as_mut() }
    }
}

impl<T: ?Sized> Drop for Leaked<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak` in `new`, dropped once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

fn many<E>(count: usize, make: impl FnMut(usize) -> E) -> Leaked<[E]> {
    Leaked::new((0..count).map(make).collect())
}

/// Everything that the threads of a model share.
pub struct Ground<M: Platform, T: Send + 'static> {
    control: Leaked<Control<M>>,
    seats: Leaked<[Seat<M>]>,
    rings: Leaked<[RingWords<M>]>,
    slots: Leaked<[Slot<M, T>]>,
    applied: Leaked<[M::U64]>,
    minimum: Leaked<[M::U64]>,
    journal: Leaked<JournalWords<M>>,
    lanes: Leaked<[LaneWords<M>]>,
}

/// Two tickets before the wrap, so that every model that passes three gradients crosses it.
pub const FIRST_TICKET: u64 = (1 << 48) - 2;

impl<M: Platform, T: Send + Default + 'static> Ground<M, T> {
    /// A run of `learners` with rings of `capacity`, one table and one lane.
    pub fn new(learners: usize, capacity: usize) -> Self {
        let shape = Shape { learners, tables: 1, capacity, lanes: 1, payload_limit: 64 };
        shape.check().expect("a model's shape is valid");
        Self {
            control: Leaked::new(Box::new(Control::new())),
            seats: many(learners, |_| Seat::new()),
            rings: many(learners, |_| RingWords::starting_at(FIRST_TICKET)),
            slots: many(learners * capacity, |_| Slot::new(T::default())),
            applied: many(learners, |_| M::U64::new(0)),
            minimum: many(1, |_| M::U64::new(0)),
            journal: Leaked::new(Box::new(JournalWords::new())),
            lanes: many(1, |_| LaneWords::new()),
        }
    }

    /// The view of it.
    pub fn run(&self) -> Run<'static, M, T> {
        let parts = Parts {
            control: self.control.get(),
            seats: self.seats.get(),
            rings: self.rings.get(),
            slots: self.slots.get(),
            applied: self.applied.get(),
            minimum: self.minimum.get(),
            journal: self.journal.get(),
            lanes: self.lanes.get(),
        };
        Run::new(parts, 64).expect("a model's shape is valid")
    }
}
