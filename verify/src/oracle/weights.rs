//! The weights as a few blocks, each with the number of the version that it holds.
//!
//! The server writes an update in small steps (odd stamp, one block after the other, even stamp);
//! a reader copies one block after the other, and the server may take steps in between. So the
//! interleavings that matter are operations of a sequential model, and what a copy holds and may
//! claim is known exactly.

use protocol::weights::Torn;

/// Blocks of the weights.
pub const BLOCKS: usize = 3;

/// Steps that the server takes after a reader has copied each of the blocks.
pub type Meanwhile = [u8; BLOCKS];

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The server takes some steps: begin, one block after the other, finish, begin...
    Serve {
        /// How many.
        steps: u8,
    },
    /// A reader copies while updates go on.
    ReadRacy {
        /// What the server does meanwhile.
        meanwhile: Meanwhile,
    },
    /// A reader copies between two looks at the stamp.
    ReadStill {
        /// What the server does meanwhile.
        meanwhile: Meanwhile,
    },
    /// The reader asks for a consistent copy.
    Ask,
    /// The server looks for a question.
    Answer,
    /// The reader looks for the answer.
    Collect,
    /// A new life reads on.
    Rejoin,
    /// Another server goes on where this one stopped.
    Restart,
}

/// What must come of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The contract forbids it here.
    Skipped,
    /// Nothing to see.
    Done,
    /// What the reader may claim, and what it copied if it did.
    Read {
        /// The version claimed.
        version: Result<u64, Torn>,
        /// The version that each block of the copy holds.
        copy: Option<[u64; BLOCKS]>,
    },
    /// Whether there was a question.
    Answered(bool),
    /// The version of the answer and the version that each block of it holds.
    Collected(Option<(u64, [u64; BLOCKS])>),
}

/// Where the server stands in its update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Between two updates.
    Still,
    /// These many blocks are written.
    Written(usize),
}

impl Progress {
    /// What the server does next, and where it stands then.
    pub const fn next(self) -> (Action, Self) {
        match self {
            Self::Still => (Action::Begin, Self::Written(0)),
            Self::Written(BLOCKS) => (Action::Finish, Self::Still),
            Self::Written(block) => (Action::Write(block), Self::Written(block + 1)),
        }
    }
}

/// One step of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The stamp becomes odd.
    Begin,
    /// A block is written.
    Write(usize),
    /// The version is published.
    Finish,
}

/// The sequential model.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    blocks: [u64; BLOCKS],
    version: u64,
    progress: Progress,
    asked: u64,
    answered: u64,
    snapshot: (u64, [u64; BLOCKS]),
}

impl Oracle {
    /// Version 0 lies still.
    pub fn new() -> Self {
        Self {
            blocks: [0; BLOCKS],
            version: 0,
            progress: Progress::Still,
            asked: 0,
            answered: 0,
            snapshot: (0, [0; BLOCKS]),
        }
    }

    /// Does one operation.
    pub fn step(&mut self, operation: Operation) -> Expected {
        match operation {
            Operation::Serve { steps } => {
                self.serve(steps);
                Expected::Done
            }
            Operation::ReadRacy { meanwhile } => {
                let version = self.version;
                Expected::Read { version: Ok(version), copy: Some(self.copy(meanwhile)) }
            }
            Operation::ReadStill { .. } if self.progress != Progress::Still => {
                Expected::Read { version: Err(Torn), copy: None }
            }
            Operation::ReadStill { meanwhile } => {
                let version = self.version;
                let copy = Some(self.copy(meanwhile));
                let disturbed = meanwhile.iter().any(|steps| *steps > 0);
                Expected::Read { version: if disturbed { Err(Torn) } else { Ok(version) }, copy }
            }
            Operation::Ask => {
                self.asked += 1;
                Expected::Done
            }
            Operation::Answer if self.progress != Progress::Still => Expected::Skipped,
            Operation::Answer => {
                let question = self.asked != self.answered;
                if question {
                    self.answered = self.asked;
                    self.snapshot = (self.version, self.blocks);
                }
                Expected::Answered(question)
            }
            Operation::Collect => {
                Expected::Collected((self.asked == self.answered).then_some(self.snapshot))
            }
            Operation::Rejoin | Operation::Restart => Expected::Done,
        }
    }

    fn copy(&mut self, meanwhile: Meanwhile) -> [u64; BLOCKS] {
        std::array::from_fn(|block| {
            let value = self.blocks[block];
            self.serve(meanwhile[block]);
            value
        })
    }

    fn serve(&mut self, steps: u8) {
        for _ in 0..steps {
            let (action, next) = self.progress.next();
            match action {
                Action::Begin => {}
                Action::Write(block) => self.blocks[block] = self.version + 1,
                Action::Finish => self.version += 1,
            }
            self.progress = next;
        }
    }
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new()
    }
}
