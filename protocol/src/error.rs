//! Everything that can go wrong, as values that name the cause and a way out.

use core::fmt;

/// Why the server does not trust what it found in a learner's ring. It evicts the learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The tail lies further ahead of the head than the ring is long.
    WildTail {
        /// Tickets between head and tail.
        fill: u64,
        /// Slots in the ring.
        capacity: u64,
    },
    /// The header names another seat.
    WrongLearner {
        /// The seat it names.
        found: u32,
    },
    /// The header was written by another life of this learner.
    WrongEpoch {
        /// The life it names.
        found: u32,
        /// The life that was granted the seat.
        expected: u32,
    },
    /// The header carries another ticket than its position.
    WrongTicket {
        /// The ticket it carries.
        found: u64,
        /// The ticket of its position.
        expected: u64,
    },
    /// The header names an encoding that this build does not know.
    UnknownEncoding {
        /// The raw value.
        found: u32,
    },
    /// The header names no table, or one that the model does not have.
    TableRange {
        /// First table named.
        first: u32,
        /// Number of tables named.
        tables: u32,
    },
    /// The header claims more payload than a slot holds.
    Length {
        /// Bytes claimed.
        found: u64,
        /// Bytes a slot holds.
        limit: u64,
    },
    /// The header carries clock 0; clocks count from 1.
    ClockZero,
    /// The header's clock is not the successor of the last one applied.
    ClockSkipped {
        /// The clock it carries.
        found: u64,
        /// The clock that was due.
        expected: u64,
    },
    /// The header claims weights newer than any the server has published.
    VersionFromTheFuture {
        /// The version it claims.
        found: u64,
        /// The newest version there is.
        newest: u64,
    },
    /// The payload was refused by whoever applies it.
    Payload,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::WildTail { fill, capacity } => {
                write!(f, "its tail claims {fill} gradients in a ring of {capacity}")
            }
            Self::WrongLearner { found } => write!(f, "a slot names learner {found}"),
            Self::WrongEpoch { found, expected } => {
                write!(f, "a slot was written by life {found}, the seat belongs to life {expected}")
            }
            Self::WrongTicket { found, expected } => {
                write!(f, "a slot carries ticket {found} in the place of {expected}")
            }
            Self::UnknownEncoding { found } => write!(f, "a slot names unknown encoding {found}"),
            Self::TableRange { first, tables } => {
                write!(f, "a slot names {tables} tables from {first}, outside the model")
            }
            Self::Length { found, limit } => {
                write!(f, "a slot claims {found} bytes, it holds {limit}")
            }
            Self::ClockZero => write!(f, "a slot carries clock 0, clocks count from 1"),
            Self::ClockSkipped { found, expected } => {
                write!(f, "a slot carries clock {found}, due was {expected}")
            }
            Self::VersionFromTheFuture { found, newest } => {
                write!(f, "a slot claims weights of version {found}, the newest is {newest}")
            }
            Self::Payload => write!(f, "the payload of a slot was refused"),
        }
    }
}

impl core::error::Error for Fault {}

/// Why there is no slot to write into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// All slots are in use; wait for the server to release one.
    Full,
    /// The server takes no more gradients: its budget is spent or it has shut down.
    Refused,
    /// This life has ended: sealed by itself, or its seat was given to another.
    Ended,
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the ring is full: wait until the server has released a slot",
            Self::Refused => "the server takes no more gradients: leave the run",
            Self::Ended => "this life of the learner has ended: join again to push more",
        })
    }
}

impl core::error::Error for ReserveError {}

/// The commit came too late: the seat was sealed or given to another life. Nothing was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced;

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the seat was taken from this life before the commit: join again")
    }
}

impl core::error::Error for Fenced {}

/// Why a learner cannot take a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// There is no such seat.
    NoSuchSeat {
        /// The seat asked for.
        learner: usize,
        /// Seats in this run.
        seats: usize,
    },
    /// Somebody else sits there.
    Occupied {
        /// The life that holds it.
        epoch: u32,
    },
    /// The life to be replaced is not the one that holds the seat.
    NotThatLife {
        /// The life that holds it.
        found: u32,
    },
    /// The seat has used up its epochs.
    WornOut,
    /// The run is ending.
    Stopping,
    /// The seat was taken away before the server granted it.
    Evicted,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSuchSeat { learner, seats } => {
                write!(f, "there is no seat {learner}: this run has {seats}, counted from 0")
            }
            Self::Occupied { epoch } => write!(
                f,
                "the seat is held by life {epoch}: take another seat, or rejoin once it is dead"
            ),
            Self::NotThatLife { found } => {
                write!(f, "the seat is held by life {found}: read the seat again")
            }
            Self::WornOut => write!(f, "the seat has seen its last life: start a new run"),
            Self::Stopping => write!(f, "the run is ending: start a new one"),
            Self::Evicted => write!(f, "the seat was taken away before it was granted: join again"),
        }
    }
}

impl core::error::Error for JoinError {}

/// Why a run cannot have this shape, or why memory does not hold such a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// The number of learners is 0 or above the limit.
    Learners {
        /// The number asked for.
        found: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// The number of tables is 0 or above the limit.
    Tables {
        /// The number asked for.
        found: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// The ring capacity is not a power of two within the limit.
    Capacity {
        /// The number asked for.
        found: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// The number of journal lanes is 0 or above the limit.
    Lanes {
        /// The number asked for.
        found: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// The sizes add up to more than an address can hold.
    TooLarge,
    /// The memory is too small or not aligned for this shape.
    Memory {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Learners { found, limit } => {
                write!(f, "{found} learners asked for: choose 1 to {limit}")
            }
            Self::Tables { found, limit } => {
                write!(f, "{found} tables asked for: choose 1 to {limit}")
            }
            Self::Capacity { found, limit } => {
                write!(
                    f,
                    "ring capacity {found} asked for: choose a power of two from 1 to {limit}"
                )
            }
            Self::Lanes { found, limit } => {
                write!(f, "{found} journal lanes asked for: choose 1 to {limit}")
            }
            Self::TooLarge => write!(f, "the run does not fit into the address space"),
            Self::Memory { needed, given } => {
                write!(f, "{needed} aligned bytes needed, {given} given")
            }
        }
    }
}

impl core::error::Error for ShapeError {}
