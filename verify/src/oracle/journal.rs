//! The journal as an update that happens once, whole, however often the server dies in it.
//!
//! The model does not know marks or undo records. It knows what each lane held before the update
//! and what it must hold after it; a death puts every lane in doubt until it was run again.

use protocol::journal::Phase;

/// Lanes of the journal.
pub const LANES: usize = 2;
/// Blocks in a lane: each undo record is used, and used again.
pub const BLOCKS: usize = 4;
/// Words in a block: a death in the middle of a block leaves it torn.
pub const WORDS: usize = 2;

/// What a lane holds.
pub type LaneWeights = [[u64; WORDS]; BLOCKS];

/// What can be done to a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An update begins.
    Begin {
        /// The gradient, which is also its ticket.
        gradient: u64,
    },
    /// A lane is run to its end.
    RunLane {
        /// The lane.
        lane: usize,
    },
    /// A lane is run, and the server dies after some stores, at the latest when it is done.
    DieInLane {
        /// The lane.
        lane: usize,
        /// Stores that are still made.
        stores: u8,
    },
    /// All blocks are written.
    Applied,
    /// What follows an update is done.
    Idle,
    /// A round of `members` begins.
    BeginRound {
        /// A mask of learners.
        members: u64,
    },
    /// Those in `remaining` have yet to be applied.
    SetRemaining {
        /// A mask of learners.
        remaining: u64,
    },
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
    /// The lane is run: it holds this.
    Lane(LaneWeights),
    /// What the new server finds.
    Found {
        /// How far the last update came.
        phase: Phase,
        /// The gradient of the update, if there is one under way.
        gradient: Option<u64>,
        /// The round: who remains, and among how many it is shared.
        round: (u64, u32),
    },
}

/// What a lane holds before the first update: each word another value, so that none passes for
/// another.
pub fn initial(lane: usize) -> LaneWeights {
    let word = |block, word| (lane * 100 + block * 10 + word) as u64;
    std::array::from_fn(|block| std::array::from_fn(|number| word(block, number)))
}

/// One word after the update by `gradient`: neither commutative nor idempotent.
pub const fn fold(old: u64, gradient: u64, word: usize) -> u64 {
    old.wrapping_mul(31).wrapping_add(gradient.wrapping_mul(7)).wrapping_add(word as u64 + 1)
}

/// The sequential model.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    phase: Phase,
    gradient: u64,
    before: [LaneWeights; LANES],
    /// Lanes that were run to their end by the living server.
    done: [bool; LANES],
    alive: bool,
    round: (u64, u32),
}

impl Oracle {
    /// An idle journal over the [`initial`] weights.
    pub fn new() -> Self {
        Self {
            phase: Phase::Idle,
            gradient: 0,
            before: std::array::from_fn(initial),
            done: [false; LANES],
            alive: true,
            round: (0, 0),
        }
    }

    /// Does one operation.
    pub fn step(&mut self, operation: Operation) -> Expected {
        let phase = self.phase;
        match operation {
            Operation::Restart => {
                self.alive = true;
                self.done = [false; LANES];
                let gradient = (phase != Phase::Idle).then_some(self.gradient);
                return Expected::Found { phase, gradient, round: self.round };
            }
            _ if !self.alive => return Expected::Skipped,
            Operation::Begin { gradient } if phase == Phase::Idle => {
                self.phase = Phase::Applying;
                self.gradient = gradient;
                self.done = [false; LANES];
            }
            Operation::RunLane { lane } if phase == Phase::Applying => {
                self.done[lane] = true;
                return Expected::Lane(self.after(lane));
            }
            Operation::DieInLane { .. } if phase == Phase::Applying => self.alive = false,
            Operation::Applied if phase == Phase::Applying && self.done == [true; LANES] => {
                self.phase = Phase::Applied;
            }
            Operation::Idle if phase == Phase::Applied => {
                self.before = std::array::from_fn(|lane| self.after(lane));
                self.phase = Phase::Idle;
            }
            Operation::BeginRound { members } if self.round.0 == 0 => {
                self.round = (members, members.count_ones());
            }
            Operation::SetRemaining { remaining } => self.round.0 = remaining,
            _ => return Expected::Skipped,
        }
        Expected::Done
    }

    fn after(&self, lane: usize) -> LaneWeights {
        self.before[lane]
            .map(|block| std::array::from_fn(|word| fold(block[word], self.gradient, word)))
    }
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new()
    }
}
