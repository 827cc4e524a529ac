//! What a slot says about its gradient, and how the server checks it.
//!
//! A header lies in memory that another process writes, so it is untrusted: every bit pattern is a
//! value of [`Header`], the server copies it once and judges the copy ([`Header::check`]). Room
//! for per-table, row-sparse and compressed payloads is here from the start: they are another
//! table range, encoding and length, not another protocol.

use crate::error::Fault;

/// How the payload represents the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Encoding {
    /// Every element of every table in the range, in order.
    Dense = 0,
    /// Row identifiers and rows.
    RowSparse = 1,
    /// Compressed by a codec that the payload names.
    Compressed = 2,
}

impl Encoding {
    /// The encoding that `raw` stands for.
    pub const fn decode(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Dense),
            1 => Some(Self::RowSparse),
            2 => Some(Self::Compressed),
            _ => None,
        }
    }
}

/// The part of a header that the learner chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The learner's clock at which the gradient was computed, from 1.
    pub clock: u64,
    /// The version of the weights it was computed on.
    pub base_version: u64,
    /// First table it touches.
    pub first_table: u32,
    /// Number of tables it touches.
    pub tables: u32,
    /// How the payload represents it.
    pub encoding: Encoding,
    /// Bytes of payload in use.
    pub length: u64,
}

impl Parcel {
    /// A dense gradient of the tables `0..tables`.
    pub const fn dense(clock: u64, base_version: u64, tables: u32, length: u64) -> Self {
        Self { clock, base_version, first_table: 0, tables, encoding: Encoding::Dense, length }
    }
}

/// The header of a slot as it lies in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Position in the stream of this seat.
    pub ticket: u64,
    /// The learner's clock at which the gradient was computed.
    pub clock: u64,
    /// The version of the weights it was computed on.
    pub base_version: u64,
    /// Bytes of payload in use.
    pub length: u64,
    /// The seat that committed it.
    pub learner: u32,
    /// The life of the learner that committed it.
    pub epoch: u32,
    /// First table it touches.
    pub first_table: u32,
    /// Number of tables it touches.
    pub tables: u32,
    /// An [`Encoding`], not yet judged.
    pub encoding: u32,
    /// Keeps the size a multiple of eight without hidden padding.
    pub reserved: u32,
}

/// What the server knows about a slot before it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The ticket at this position.
    pub ticket: u64,
    /// The seat this ring belongs to.
    pub learner: u32,
    /// The life that was granted the seat.
    pub epoch: u32,
    /// Tables in the model.
    pub tables: u32,
    /// Bytes a slot can hold.
    pub payload_limit: u64,
}

impl Header {
    /// The header that `parcel` gets at this place.
    pub const fn new(ticket: u64, learner: u32, epoch: u32, parcel: Parcel) -> Self {
        Self {
            ticket,
            clock: parcel.clock,
            base_version: parcel.base_version,
            length: parcel.length,
            learner,
            epoch,
            first_table: parcel.first_table,
            tables: parcel.tables,
            encoding: parcel.encoding as u32,
            reserved: 0,
        }
    }

    /// Judges a header that another process wrote.
    ///
    /// `same_life` is the outcome of the epoch check, passed in because it goes through
    /// [`Platform::holds`](crate::platform::Platform::holds).
    pub fn check(&self, expected: &Expected, same_life: bool) -> Result<Parcel, Fault> {
        if self.learner != expected.learner {
            return Err(Fault::WrongLearner { found: self.learner });
        }
        if !same_life {
            return Err(Fault::WrongEpoch { found: self.epoch, expected: expected.epoch });
        }
        if self.ticket != expected.ticket {
            return Err(Fault::WrongTicket { found: self.ticket, expected: expected.ticket });
        }
        let Some(encoding) = Encoding::decode(self.encoding) else {
            return Err(Fault::UnknownEncoding { found: self.encoding });
        };
        let end = self.first_table.checked_add(self.tables);
        if self.tables == 0 || end.is_none_or(|end| end > expected.tables) {
            return Err(Fault::TableRange { first: self.first_table, tables: self.tables });
        }
        if self.length > expected.payload_limit {
            return Err(Fault::Length { found: self.length, limit: expected.payload_limit });
        }
        if self.clock == 0 {
            return Err(Fault::ClockZero);
        }
        Ok(Parcel {
            clock: self.clock,
            base_version: self.base_version,
            first_table: self.first_table,
            tables: self.tables,
            encoding,
            length: self.length,
        })
    }
}
