//! A run: all shared words in one view, and where each lies in a mapping.
//!
//! [`Shape`] says how many learners, tables, slots and lanes; [`Layout::of`] computes the offset of
//! each part, for any shape without overflow; [`Run`] is the view that server and learners work
//! on. The same view is made of boxed parts by the models and of a mapping by production
//! ([`Run::initialize`], [`Run::map`]): there is no second implementation.

use core::mem::{align_of, size_of};
use core::slice;
use core::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::CachePadded;

use crate::bell::Doorbell;
use crate::clock::{ClockView, MAX_LEARNERS};
use crate::error::ShapeError;
use crate::event::Event;
use crate::journal::{Journal, JournalWords, LaneWords, MAX_LANES};
use crate::membership::Seat;
use crate::platform::{Platform, Word};
use crate::ring::{Ring, RingWords, Slot, counter};
use crate::site::Site;
use crate::weights::Stamp;

/// The most tables a model can have: each needs a clock word per learner.
pub const MAX_TABLES: usize = 1 << 16;

/// How large a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Seats.
    pub learners: usize,
    /// Tables of the model.
    pub tables: usize,
    /// Slots in each ring, a power of two.
    pub capacity: usize,
    /// Lanes of the journal.
    pub lanes: usize,
    /// Bytes of payload that a slot holds.
    pub payload_limit: u64,
}

impl Shape {
    /// Whether a run can have this shape.
    pub const fn check(&self) -> Result<(), ShapeError> {
        if self.learners == 0 || self.learners > MAX_LEARNERS {
            return Err(ShapeError::Learners { found: self.learners, limit: MAX_LEARNERS });
        }
        if self.tables == 0 || self.tables > MAX_TABLES {
            return Err(ShapeError::Tables { found: self.tables, limit: MAX_TABLES });
        }
        if !counter::is_valid_capacity(self.capacity) {
            return Err(ShapeError::Capacity {
                found: self.capacity,
                limit: counter::MAX_CAPACITY,
            });
        }
        if self.lanes == 0 || self.lanes > MAX_LANES {
            return Err(ShapeError::Lanes { found: self.lanes, limit: MAX_LANES });
        }
        Ok(())
    }
}

/// The words that belong to nobody in particular.
#[repr(C)]
pub struct Control<P: Platform> {
    stop: CachePadded<P::U32>,
    server_bell: CachePadded<Doorbell<P>>,
    stamp: CachePadded<Stamp<P>>,
    participants: CachePadded<P::U64>,
}

impl<P: Platform> Control<P> {
    /// A run that has not begun.
    pub fn new() -> Self {
        Self {
            stop: CachePadded::new(P::U32::new(0)),
            server_bell: CachePadded::new(Doorbell::new()),
            stamp: CachePadded::new(Stamp::new()),
            participants: CachePadded::new(P::U64::new(0)),
        }
    }
}

impl<P: Platform> Default for Control<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// Everything that the processes of a run share.
pub struct Run<'a, P: Platform, T: Send> {
    shape: Shape,
    control: &'a Control<P>,
    seats: &'a [Seat<P>],
    rings: &'a [RingWords<P>],
    slots: &'a [Slot<P, T>],
    clocks: ClockView<'a, P>,
    journal: Journal<'a, P>,
}

impl<P: Platform, T: Send> Clone for Run<'_, P, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, T: Send> Copy for Run<'_, P, T> {}

/// The parts of a run, wherever they live.
#[allow(missing_docs)]
pub struct Parts<'a, P: Platform, T: Send> {
    pub control: &'a Control<P>,
    pub seats: &'a [Seat<P>],
    pub rings: &'a [RingWords<P>],
    pub slots: &'a [Slot<P, T>],
    pub applied: &'a [P::U64],
    pub minimum: &'a [P::U64],
    pub journal: &'a JournalWords<P>,
    pub lanes: &'a [LaneWords<P>],
}

impl<'a, P: Platform, T: Send> Run<'a, P, T> {
    /// The run made of these parts, whose number gives the shape.
    pub fn new(parts: Parts<'a, P, T>, payload_limit: u64) -> Result<Self, ShapeError> {
        let learners = parts.seats.len();
        let shape = Shape {
            learners,
            tables: parts.minimum.len(),
            capacity: parts.slots.len().checked_div(learners).unwrap_or(0),
            lanes: parts.lanes.len(),
            payload_limit,
        };
        shape.check()?;
        assert_eq!(parts.rings.len(), learners, "one ring a seat");
        assert_eq!(parts.slots.len(), learners * shape.capacity, "as many slots in each ring");
        assert_eq!(parts.applied.len(), learners * shape.tables, "a clock a seat and table");
        Ok(Self {
            shape,
            control: parts.control,
            seats: parts.seats,
            rings: parts.rings,
            slots: parts.slots,
            clocks: ClockView::<P>::new(parts.applied, parts.minimum, &parts.control.participants),
            journal: Journal::new(parts.journal, parts.lanes),
        })
    }

    /// How large the run is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The seats.
    pub fn seats(&self) -> &'a [Seat<P>] {
        self.seats
    }

    /// The ring of a seat. Panics if there is no such seat.
    pub fn ring(&self, learner: usize) -> Ring<'a, P, T> {
        let capacity = self.shape.capacity;
        Ring {
            words: &self.rings[learner],
            slots: &self.slots[learner * capacity..(learner + 1) * capacity],
            server_bell: &self.control.server_bell,
            learner_bell: self.seats[learner].bell(),
        }
    }

    /// The clocks.
    pub fn clocks(&self) -> ClockView<'a, P> {
        self.clocks
    }

    /// The journal.
    pub fn journal(&self) -> Journal<'a, P> {
        self.journal
    }

    /// The version stamp.
    pub fn stamp(&self) -> &'a Stamp<P> {
        &self.control.stamp
    }

    /// Where the server sleeps.
    pub fn server_bell(&self) -> &'a Doorbell<P> {
        &self.control.server_bell
    }

    /// Asks everybody to finish what they have begun and return.
    pub fn request_stop(&self) {
        P::report(Event::Stop);
        self.control.stop.fetch_or(Site::StopRequest, 1, Relaxed);
        self.ring_everybody(Site::StopBell);
    }

    /// Whether everybody is asked to return.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.control.stop.load(Site::StopLook, Relaxed) != 0
    }

    /// Rings every bell of the run, announced or not: for the watchdog, after it has marked
    /// somebody dead, and for a stop.
    pub fn ring_everybody(&self, site: Site) {
        let learners = self.seats.iter().map(Seat::bell);
        Doorbell::ring_all_regardless(site, learners.chain([self.server_bell()]));
    }

    /// Rings every learner's bell.
    pub(crate) fn ring_learners(&self, site: Site) {
        Doorbell::ring_all(site, self.seats.iter().map(Seat::bell));
    }
}

/// Where one array of a run lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes from the start of the run.
    pub offset: usize,
    /// Elements.
    pub count: usize,
}

/// Where every part of a run lies in a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Layout {
    pub control: Part,
    pub seats: Part,
    pub rings: Part,
    pub slots: Part,
    pub applied: Part,
    pub minimum: Part,
    pub journal: Part,
    pub lanes: Part,
    /// Bytes in all.
    pub size: usize,
}

/// The alignment that a mapping must have: the largest of any part (a padded cache line).
pub const ALIGNMENT: usize = 128;

struct Planner {
    end: usize,
}

impl Planner {
    fn place<E>(&mut self, count: usize) -> Result<Part, ShapeError> {
        const { assert!(align_of::<E>() <= ALIGNMENT) };
        let offset = self.end.checked_next_multiple_of(ALIGNMENT).ok_or(ShapeError::TooLarge)?;
        let bytes = count.checked_mul(size_of::<E>()).ok_or(ShapeError::TooLarge)?;
        self.end = offset.checked_add(bytes).ok_or(ShapeError::TooLarge)?;
        Ok(Part { offset, count })
    }
}

impl Layout {
    /// The layout of a run of this shape on platform `P` with payload `T`.
    pub fn of<P: Platform, T: Send>(shape: &Shape) -> Result<Self, ShapeError> {
        shape.check()?;
        let mut planner = Planner { end: 0 };
        Ok(Self {
            control: planner.place::<Control<P>>(1)?,
            seats: planner.place::<Seat<P>>(shape.learners)?,
            rings: planner.place::<RingWords<P>>(shape.learners)?,
            slots: planner.place::<Slot<P, T>>(shape.learners * shape.capacity)?,
            applied: planner.place::<P::U64>(shape.learners * shape.tables)?,
            minimum: planner.place::<P::U64>(shape.tables)?,
            journal: planner.place::<JournalWords<P>>(1)?,
            lanes: planner.place::<LaneWords<P>>(shape.lanes)?,
            size: planner.end,
        })
    }
}

impl<'a, P: Platform, T: Send> Run<'a, P, T> {
    /// Makes a new run in `length` bytes at `base` and returns its view.
    ///
    /// # Safety
    ///
    /// `base` is valid for reads and writes of `length` bytes for `'a`, and nobody else touches
    /// them until this returns.
    pub unsafe fn initialize(
        base: *mut u8,
        length: usize,
        shape: &Shape,
        mut payload: impl FnMut() -> T,
    ) -> Result<Self, ShapeError> {
        let layout = Layout::of::<P, T>(shape)?;
        check_memory(base, length, &layout)?;
        // SAFETY: every part lies within `length` bytes of `base`, aligned, by `Layout::of` and
        // `check_memory`; the caller lends the memory exclusively.
        unsafe {
            fill(base, layout.control, Control::<P>::new);
            fill(base, layout.seats, Seat::<P>::new);
            fill(base, layout.rings, || RingWords::<P>::starting_at(0));
            fill(base, layout.slots, || Slot::<P, T>::new(payload()));
            fill(base, layout.applied, || P::U64::new(0));
            fill(base, layout.minimum, || P::U64::new(0));
            fill(base, layout.journal, JournalWords::<P>::new);
            fill(base, layout.lanes, LaneWords::<P>::new);
            Self::map(base, length, shape)
        }
    }

    /// The view of a run that another process, or this one, has made at `base`.
    ///
    /// # Safety
    ///
    /// `base` is valid for reads and writes of `length` bytes for `'a`; a run of this shape,
    /// platform and payload was initialized there; and every bit pattern is a valid `T`.
    pub unsafe fn map(base: *mut u8, length: usize, shape: &Shape) -> Result<Self, ShapeError> {
        let layout = Layout::of::<P, T>(shape)?;
        check_memory(base, length, &layout)?;
        // SAFETY: as in `initialize`; the parts are initialized, and shared only through atomics
        // and cells.
        let parts = unsafe {
            Parts {
                control: &view(base, layout.control)[0],
                seats: view(base, layout.seats),
                rings: view(base, layout.rings),
                slots: view(base, layout.slots),
                applied: view(base, layout.applied),
                minimum: view(base, layout.minimum),
                journal: &view(base, layout.journal)[0],
                lanes: view(base, layout.lanes),
            }
        };
        Self::new(parts, shape.payload_limit)
    }
}

fn check_memory(base: *mut u8, length: usize, layout: &Layout) -> Result<(), ShapeError> {
    if length < layout.size || !base.addr().is_multiple_of(ALIGNMENT) {
        return Err(ShapeError::Memory { needed: layout.size, given: length });
    }
    Ok(())
}

/// # Safety
///
/// `part` lies in memory valid for writes from `base`, aligned for `E`.
unsafe fn fill<E>(base: *mut u8, part: Part, mut make: impl FnMut() -> E) {
    for index in 0..part.count {
        // SAFETY: by the caller.
        unsafe { base.add(part.offset).cast::<E>().add(index).write(make()) };
    }
}

/// # Safety
///
/// `part` holds initialized `E`s, aligned, valid for `'a`.
unsafe fn view<'a, E>(base: *mut u8, part: Part) -> &'a [E] {
    // SAFETY: by the caller.
    unsafe { slice::from_raw_parts(base.add(part.offset).cast::<E>(), part.count) }
}
