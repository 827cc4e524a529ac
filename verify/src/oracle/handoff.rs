//! The hand-off as one buffer with one owner.

use protocol::handoff::Closed;

/// What can be done to a hand-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The giver writes to the buffer and keeps it.
    Fill {
        /// What it writes.
        value: u64,
    },
    /// The giver writes to the buffer and passes it on.
    Give {
        /// What it writes.
        value: u64,
    },
    /// The taker writes to the buffer and keeps it.
    Empty {
        /// What it writes.
        value: u64,
    },
    /// The taker writes to the buffer and passes it back.
    GiveBack {
        /// What it writes.
        value: u64,
    },
    /// The giver says that nothing more will be given.
    CloseGiver,
    /// The taker says that nothing more will be taken.
    CloseTaker,
}

/// What must come of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing to see.
    Done,
    /// What lay in the buffer before; nothing if the other side has it.
    Found(Result<Option<u64>, Closed>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Giver,
    Taker,
}

/// The sequential model.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    buffer: u64,
    owner: Owner,
    giver_closed: bool,
    taker_closed: bool,
}

impl Oracle {
    /// A buffer that belongs to the giver.
    pub fn new(buffer: u64) -> Self {
        Self { buffer, owner: Owner::Giver, giver_closed: false, taker_closed: false }
    }

    /// Does one operation.
    pub fn step(&mut self, operation: Operation) -> Expected {
        use Owner::{Giver, Taker};
        match operation {
            Operation::Fill { value } => Expected::Found(self.work(Giver, Giver, value)),
            Operation::Give { value } => Expected::Found(self.work(Giver, Taker, value)),
            Operation::Empty { value } => Expected::Found(self.work(Taker, Taker, value)),
            Operation::GiveBack { value } => Expected::Found(self.work(Taker, Giver, value)),
            Operation::CloseGiver => {
                self.giver_closed = true;
                Expected::Done
            }
            Operation::CloseTaker => {
                self.taker_closed = true;
                Expected::Done
            }
        }
    }

    /// `side` writes `value`, then the buffer is `next`'s.
    fn work(&mut self, side: Owner, next: Owner, value: u64) -> Result<Option<u64>, Closed> {
        if side == Owner::Giver && self.taker_closed {
            return Err(Closed);
        }
        if self.owner != side {
            // The taker learns of the close only once it has taken everything.
            let ended = side == Owner::Taker && self.giver_closed;
            return if ended { Err(Closed) } else { Ok(None) };
        }
        self.owner = next;
        Ok(Some(std::mem::replace(&mut self.buffer, value)))
    }
}
