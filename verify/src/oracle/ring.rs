//! The ring as a queue: what is pushed comes out once and in order, by the life that holds it.
//!
//! The model knows tickets, lives and the seal. It knows nothing of slots, caches or words.

use std::collections::VecDeque;

use protocol::error::{Fault, Fenced, ReserveError};
use protocol::ring::counter;

/// What can be done to a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The next life takes the ring over; the present one becomes the zombie.
    Join,
    /// The life that holds the ring pushes a gradient.
    Push {
        /// The gradient.
        value: u64,
    },
    /// The life that holds the ring writes a gradient and lets go of the slot.
    Abandon {
        /// The gradient.
        value: u64,
    },
    /// The life before the present one pushes as if nothing had happened.
    ZombiePush {
        /// The gradient.
        value: u64,
    },
    /// The life that holds the ring ends its stream.
    Seal,
    /// The server admits the life that holds the ring, if nothing of an earlier one is left.
    Grant,
    /// The server looks at the oldest gradient.
    Poll,
    /// The server takes the oldest gradient.
    Take,
    /// The server seals the ring for the life that holds it.
    SealDead,
    /// The server drops everything.
    Discard,
    /// The server takes no more.
    Refuse,
    /// The server takes more again.
    Accept,
    /// Another server goes on where this one stopped.
    Restart,
    /// Both ends say where they stand.
    Inspect,
}

/// A gradient as it comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gradient {
    /// Its ticket.
    pub ticket: u64,
    /// The life that pushed it.
    pub epoch: u32,
    /// What was pushed.
    pub value: u64,
}

/// Why a push came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There was no slot.
    Reserve(ReserveError),
    /// The commit came too late.
    Fenced(Fenced),
}

/// Where both ends stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The ticket of the next push, if a life holds the ring.
    pub push: Option<u64>,
    /// The ticket that is taken next.
    pub take: u64,
    /// Whether nothing is left to take.
    pub empty: bool,
    /// Whether nothing is left to take and nothing will come.
    pub finished: bool,
    /// Whether the life that holds the ring reads that it is refused.
    pub refused: bool,
}

/// What must come of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The contract forbids it here.
    Skipped,
    /// Nothing to see.
    Done,
    /// A ticket, or why not.
    Pushed(Result<u64, Refusal>),
    /// The slot that was written and given back was that of this ticket.
    Abandoned(Result<u64, ReserveError>),
    /// Whether the stream could be ended.
    Sealed(Result<(), Fenced>),
    /// Whether the life was admitted.
    Granted(bool),
    /// The oldest gradient.
    Found(Result<Option<Gradient>, Fault>),
    /// How many gradients were dropped.
    Discarded(u64),
    /// Where both ends stand.
    Inspected(Standing),
}

/// The sequential model.
#[derive(Clone, Debug)]
pub struct Oracle {
    capacity: usize,
    queue: VecDeque<Gradient>,
    next: u64,
    epoch: u32,
    granted: u32,
    sealed: bool,
    /// Whether the life that holds the ring knows that it has ended.
    knows: bool,
    /// Whether it knows so because it was fenced.
    fenced: bool,
    refused: bool,
    /// The next ticket of the life before the present one.
    zombie: Option<u64>,
}

impl Oracle {
    /// An empty ring of `capacity` whose first ticket is `first_ticket`.
    pub fn new(capacity: usize, first_ticket: u64) -> Self {
        Self {
            capacity,
            queue: VecDeque::new(),
            next: first_ticket,
            epoch: 0,
            granted: 0,
            sealed: true,
            knows: false,
            fenced: false,
            refused: false,
            zombie: None,
        }
    }

    /// Does one operation.
    pub fn step(&mut self, operation: Operation) -> Expected {
        let held = self.epoch != 0;
        match operation {
            Operation::Join => {
                self.zombie = held.then_some(self.next);
                self.epoch += 1;
                self.sealed = false;
                self.knows = false;
                self.fenced = false;
                Expected::Done
            }
            Operation::ZombiePush { .. } => self.push_by_zombie(),
            Operation::Push { value } if held => Expected::Pushed(self.push(value)),
            Operation::Abandon { .. } if held => {
                Expected::Abandoned(self.room().map(|()| self.next))
            }
            Operation::Seal if held => Expected::Sealed(self.seal()),
            Operation::Push { .. } | Operation::Abandon { .. } | Operation::Seal => {
                Expected::Skipped
            }
            Operation::Grant => {
                let granted = self.queue.is_empty();
                if granted {
                    self.granted = self.epoch;
                }
                Expected::Granted(granted)
            }
            Operation::Poll => Expected::Found(self.oldest()),
            Operation::Take => {
                let oldest = self.oldest();
                if let Ok(Some(_)) = oldest {
                    self.queue.pop_front();
                }
                Expected::Found(oldest)
            }
            Operation::SealDead => {
                self.sealed = true;
                Expected::Done
            }
            Operation::Discard => Expected::Discarded(self.queue.drain(..).count() as u64),
            Operation::Refuse | Operation::Accept => {
                self.refused = operation == Operation::Refuse;
                Expected::Done
            }
            Operation::Restart => Expected::Done,
            Operation::Inspect => Expected::Inspected(self.standing()),
        }
    }

    fn standing(&self) -> Standing {
        let held = self.epoch != 0;
        Standing {
            push: held.then_some(self.next),
            take: self.queue.front().map_or(self.next, |gradient| gradient.ticket),
            empty: self.queue.is_empty(),
            finished: self.queue.is_empty() && self.sealed,
            refused: held && self.refused,
        }
    }

    fn room(&self) -> Result<(), ReserveError> {
        if self.knows {
            Err(ReserveError::Ended)
        } else if self.queue.len() < self.capacity {
            Ok(())
        } else if self.refused {
            Err(ReserveError::Refused)
        } else {
            Err(ReserveError::Full)
        }
    }

    fn push(&mut self, value: u64) -> Result<u64, Refusal> {
        self.room().map_err(Refusal::Reserve)?;
        if self.sealed {
            self.knows = true;
            self.fenced = true;
            return Err(Refusal::Fenced(Fenced));
        }
        let ticket = self.next;
        self.queue.push_back(Gradient { ticket, epoch: self.epoch, value });
        self.next = counter::next(ticket);
        Ok(ticket)
    }

    fn seal(&mut self) -> Result<(), Fenced> {
        self.fenced |= self.sealed && !self.knows;
        self.sealed = true;
        self.knows = true;
        if self.fenced { Err(Fenced) } else { Ok(()) }
    }

    /// A zombie publishes nothing. It may exist only as long as the slot that it holds is not in
    /// use by its successor: who replaces a life that far knows that its process is gone.
    fn push_by_zombie(&mut self) -> Expected {
        let Some(ticket) = self.zombie else { return Expected::Skipped };
        let slot = counter::slot(ticket, self.capacity);
        let in_use = |gradient: &Gradient| counter::slot(gradient.ticket, self.capacity) == slot;
        if self.queue.iter().any(in_use) {
            return Expected::Skipped;
        }
        Expected::Pushed(Err(Refusal::Fenced(Fenced)))
    }

    fn oldest(&self) -> Result<Option<Gradient>, Fault> {
        match self.queue.front() {
            Some(gradient) if gradient.epoch != self.granted => {
                Err(Fault::WrongEpoch { found: gradient.epoch, expected: self.granted })
            }
            oldest => Ok(oldest.copied()),
        }
    }
}
