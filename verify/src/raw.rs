//! A run in raw bytes, as it lies in a mapping, and a name for every word in it: to be damaged.
//!
//! Whoever maps a run can write anywhere in it. [`RawRun`] is a run in memory of its own; a
//! [`Place`] names one word by what it means, so that a test can say which word it overwrites, and
//! [`Place::all`] lists every word there is. Padding between words is nobody's and is left alone.

use std::alloc::{Layout as Allocation, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::{align_of, offset_of, size_of};

use protocol::journal::{Intent, JournalWords, LaneWords};
use protocol::membership::Seat;
use protocol::platform::Platform;
use protocol::ring::{Header, Message, RingWords, Slot};
use protocol::run::{ALIGNMENT, Control, Layout, Run, Shape};

/// A field of a [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    Ticket,
    Clock,
    BaseVersion,
    Length,
    Learner,
    Epoch,
    FirstTable,
    Tables,
    Encoding,
    Reserved,
}

impl Field {
    /// Every field.
    pub const ALL: [Self; 10] = [
        Self::Ticket,
        Self::Clock,
        Self::BaseVersion,
        Self::Length,
        Self::Learner,
        Self::Epoch,
        Self::FirstTable,
        Self::Tables,
        Self::Encoding,
        Self::Reserved,
    ];

    const fn span(self) -> Span {
        match self {
            Self::Ticket => Span::long(offset_of!(Header, ticket)),
            Self::Clock => Span::long(offset_of!(Header, clock)),
            Self::BaseVersion => Span::long(offset_of!(Header, base_version)),
            Self::Length => Span::long(offset_of!(Header, length)),
            Self::Learner => Span::short(offset_of!(Header, learner)),
            Self::Epoch => Span::short(offset_of!(Header, epoch)),
            Self::FirstTable => Span::short(offset_of!(Header, first_table)),
            Self::Tables => Span::short(offset_of!(Header, tables)),
            Self::Encoding => Span::short(offset_of!(Header, encoding)),
            Self::Reserved => Span::short(offset_of!(Header, reserved)),
        }
    }
}

/// One word of a run. Where it needs one, it carries its learner, slot, table or lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Place {
    Stop,
    ServerBell,
    Stamp,
    Participants,
    Standing(usize),
    Granted(usize),
    Bell(usize),
    Asked(usize),
    Answered(usize),
    SnapshotVersion(usize),
    Tail(usize),
    Head(usize),
    Refused(usize),
    Header { learner: usize, slot: usize, field: Field },
    Payload { learner: usize, slot: usize },
    Applied { table: usize, learner: usize },
    Minimum(usize),
    Phase,
    Remaining,
    Share,
    IntentHeader(Field),
    IntentVersion,
    IntentShare,
    IntentJournalled,
    Mark(usize),
}

/// Where a word lies and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    offset: usize,
    bytes: usize,
}

impl Span {
    const fn long(offset: usize) -> Self {
        Self { offset, bytes: 8 }
    }

    const fn short(offset: usize) -> Self {
        Self { offset, bytes: 4 }
    }

    const fn from(self, base: usize) -> Self {
        Self { offset: base + self.offset, bytes: self.bytes }
    }
}

impl Place {
    /// Every word of a run of this shape.
    pub fn all(shape: &Shape) -> Vec<Self> {
        let mut places =
            vec![Self::Stop, Self::ServerBell, Self::Stamp, Self::Participants, Self::Phase];
        places.extend([Self::Remaining, Self::Share]);
        places.extend([Self::IntentVersion, Self::IntentShare, Self::IntentJournalled]);
        places.extend(Field::ALL.map(Self::IntentHeader));
        places.extend((0..shape.lanes).map(Self::Mark));
        places.extend((0..shape.tables).map(Self::Minimum));
        for learner in 0..shape.learners {
            places.extend([Self::Standing, Self::Granted, Self::Bell].map(|place| place(learner)));
            places.extend([Self::Asked(learner), Self::Answered(learner)]);
            places.extend([Self::SnapshotVersion, Self::Tail].map(|place| place(learner)));
            places.extend([Self::Head(learner), Self::Refused(learner)]);
            places.extend((0..shape.tables).map(|table| Self::Applied { table, learner }));
            for slot in 0..shape.capacity {
                places.extend(Field::ALL.map(|field| Self::Header { learner, slot, field }));
                places.push(Self::Payload { learner, slot });
            }
        }
        places
    }

    fn span<P: Platform>(self, shape: &Shape, layout: &Layout) -> Span {
        // Padded words lie one to a line; `RingWords` consists of three of them.
        let line = size_of::<RingWords<P>>() / 3;
        debug_assert_eq!(size_of::<Control<P>>(), 4 * line);
        debug_assert_eq!(size_of::<Seat<P>>(), 4 * line);
        let control = |number: usize| layout.control.offset + number * line;
        let seat = |learner: usize, number: usize| {
            layout.seats.offset + learner * size_of::<Seat<P>>() + number * line
        };
        let ring = |learner: usize, number: usize| {
            layout.rings.offset + learner * size_of::<RingWords<P>>() + number * line
        };
        let slot = |learner: usize, slot: usize| {
            layout.slots.offset + (learner * shape.capacity + slot) * size_of::<Slot<P, u64>>()
        };
        let journal = layout.journal.offset;
        debug_assert!(size_of::<JournalWords<P>>() >= line + 16 + size_of::<Intent>());
        let intent = journal + (line + 12).next_multiple_of(align_of::<Intent>());
        match self {
            Self::Stop => Span::short(control(0)),
            Self::ServerBell => Span::short(control(1)),
            Self::Stamp => Span::long(control(2)),
            Self::Participants => Span::long(control(3)),
            Self::Standing(learner) => Span::long(seat(learner, 0)),
            Self::Granted(learner) => Span::short(seat(learner, 1)),
            Self::Bell(learner) => Span::short(seat(learner, 2)),
            Self::Asked(learner) => Span::long(seat(learner, 3)),
            Self::Answered(learner) => Span::long(seat(learner, 3) + 8),
            Self::SnapshotVersion(learner) => Span::long(seat(learner, 3) + 16),
            Self::Tail(learner) => Span::long(ring(learner, 0)),
            Self::Head(learner) => Span::long(ring(learner, 1)),
            Self::Refused(learner) => Span::short(ring(learner, 2)),
            Self::Header { learner, slot: number, field } => {
                field.span().from(slot(learner, number) + offset_of!(Message<u64>, header))
            }
            Self::Payload { learner, slot: number } => {
                Span::long(slot(learner, number) + offset_of!(Message<u64>, payload))
            }
            Self::Applied { table, learner } => {
                let index = table * shape.learners + learner;
                Span::long(layout.applied.offset + index * size_of::<P::U64>())
            }
            Self::Minimum(table) => Span::long(layout.minimum.offset + table * size_of::<P::U64>()),
            Self::Phase => Span::short(journal),
            Self::Remaining => Span::long(journal + line),
            Self::Share => Span::short(journal + line + 8),
            Self::IntentHeader(field) => field.span().from(intent + offset_of!(Intent, header)),
            Self::IntentVersion => Span::long(intent + offset_of!(Intent, version)),
            Self::IntentShare => Span::short(intent + offset_of!(Intent, share)),
            Self::IntentJournalled => Span::short(intent + offset_of!(Intent, journalled)),
            Self::Mark(lane) => Span::long(layout.lanes.offset + lane * size_of::<LaneWords<P>>()),
        }
    }
}

/// A run with `u64` payloads in memory of its own, on a platform whose words are plain memory.
pub struct RawRun<P: Platform> {
    base: *mut u8,
    allocation: Allocation,
    shape: Shape,
    layout: Layout,
    platform: PhantomData<P>,
}

impl<P: Platform> RawRun<P> {
    /// A new run of this shape.
    ///
    /// # Panics
    ///
    /// If a run cannot have this shape.
    pub fn new(shape: Shape) -> Self {
        let layout = Layout::of::<P, u64>(&shape).expect("a valid shape");
        let allocation = Allocation::from_size_align(layout.size, ALIGNMENT).expect("a small run");
        // SAFETY: a run is larger than nothing.
        let base = unsafe { alloc_zeroed(allocation) };
        if base.is_null() {
            handle_alloc_error(allocation);
        }
        // SAFETY: `base` was just allocated with this size and alignment, for us alone.
        unsafe { Run::<P, u64>::initialize(base, layout.size, &shape, || 0) }.expect("it fits");
        Self { base, allocation, shape, layout, platform: PhantomData }
    }

    /// The view of it.
    pub fn run(&self) -> Run<'_, P, u64> {
        // SAFETY: initialized in `new` and alive as long as `self`; every bit pattern is a `u64`.
        unsafe { Run::map(self.base, self.layout.size, &self.shape) }.expect("it fits")
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many bytes the word has.
    pub fn bytes(&self, place: Place) -> usize {
        self.span(place).bytes
    }

    /// What the word holds.
    pub fn read(&self, place: Place) -> u64 {
        let Span { offset, bytes } = self.span(place);
        // SAFETY: the word lies in the allocation, aligned, and no other thread uses the run while
        // it is being damaged.
        unsafe {
            match bytes {
                4 => u64::from(self.base.add(offset).cast::<u32>().read()),
                _ => self.base.add(offset).cast::<u64>().read(),
            }
        }
    }

    /// Overwrites the word with as much of `value` as it holds.
    pub fn write(&self, place: Place, value: u64) {
        let Span { offset, bytes } = self.span(place);
        // SAFETY: as in `read`. Every word is an atomic or in a cell, so the views that exist do
        // not rely on what it holds, and every bit pattern is a value of it.
        unsafe {
            match bytes {
                4 => self.base.add(offset).cast::<u32>().write(value as u32),
                _ => self.base.add(offset).cast::<u64>().write(value),
            }
        }
    }

    /// Flips the bits of the word that are set in `mask`.
    pub fn flip(&self, place: Place, mask: u64) {
        self.write(place, self.read(place) ^ mask);
    }

    fn span(&self, place: Place) -> Span {
        let span = place.span::<P>(&self.shape, &self.layout);
        assert!(span.offset + span.bytes <= self.layout.size, "{place:?} lies outside the run");
        assert!(span.offset.is_multiple_of(span.bytes), "{place:?} is not aligned");
        span
    }
}

impl<P: Platform> Drop for RawRun<P> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, dropped once; all views borrow from `self`.
        unsafe { dealloc(self.base, self.allocation) };
    }
}
