//! A seat as a state and the number of the life in it.

use protocol::error::JoinError;
use protocol::membership::{Action, Standing, State};
use protocol::ring::counter::MAX_EPOCH;

/// What can be done to a seat. A life that takes it also takes its ring over; a life that leaves
/// ends its stream first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A learner takes the seat.
    Join,
    /// A new life takes the seat of the life `dead`.
    Rejoin {
        /// The life to be replaced.
        dead: u32,
    },
    /// The life that last took the seat leaves.
    Leave,
    /// Somebody says that the life `epoch` leaves.
    LeaveAs {
        /// The life that is said to leave.
        epoch: u32,
    },
    /// The watchdog gives a life up.
    MarkDead {
        /// The life.
        epoch: u32,
    },
    /// The server attends to the seat until nothing is left to do.
    Serve,
}

/// What must come of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The contract forbids it here.
    Skipped,
    /// The new life, or why there is none.
    Joined(Result<u32, JoinError>),
    /// Whether the seat changed.
    Changed(bool),
    /// Where the seat stands, and whether its learner counts for the clocks.
    Served {
        /// The standing.
        standing: Standing,
        /// Whether it counts.
        counts: bool,
    },
}

/// From which states an action leads where.
const fn transition(action: Action) -> (&'static [State], State) {
    use State::{Dead, Joining, Leaving, Live, Rejoining, Vacant};
    match action {
        Action::Join => (&[Vacant], Joining),
        Action::Rejoin { .. } => (&[Joining, Live, Leaving, Dead, Rejoining], Rejoining),
        Action::Grant { .. } => (&[Joining, Rejoining], Live),
        Action::Leave { .. } => (&[Joining, Rejoining, Live], Leaving),
        Action::Vacate { .. } => (&[Leaving], Vacant),
        Action::MarkDead { .. } => (&[Joining, Rejoining, Live, Leaving], Dead),
    }
}

/// The sequential model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oracle {
    /// Where the seat stands.
    pub standing: Standing,
    /// Whether its learner counts for the clocks.
    pub counts: bool,
}

impl Oracle {
    /// A seat that nobody has ever sat on.
    pub fn new() -> Self {
        Self { standing: Standing::NEW, counts: false }
    }

    /// Does one operation.
    pub fn step(&mut self, operation: Operation) -> Expected {
        let Standing { state, epoch } = self.standing;
        match operation {
            Operation::Join => Expected::Joined(match self.act(Action::Join) {
                true => Ok(epoch + 1),
                false if state == State::Vacant => Err(JoinError::WornOut),
                false => Err(JoinError::Occupied { epoch }),
            }),
            Operation::Rejoin { dead } => {
                Expected::Joined(match self.act(Action::Rejoin { dead }) {
                    true => Ok(dead + 1),
                    false if dead == epoch && dead == MAX_EPOCH => Err(JoinError::WornOut),
                    false => Err(JoinError::NotThatLife { found: epoch }),
                })
            }
            Operation::Leave => self.leave(epoch),
            Operation::LeaveAs { epoch } if epoch == self.standing.epoch => Expected::Skipped,
            Operation::LeaveAs { epoch } => self.leave(epoch),
            Operation::MarkDead { epoch } => {
                Expected::Changed(self.act(Action::MarkDead { epoch }))
            }
            Operation::Serve => {
                if self.act(Action::Grant { epoch }) {
                    self.counts = true;
                }
                let left = self.act(Action::Vacate { epoch });
                if left || self.standing.state == State::Dead {
                    self.counts = false;
                }
                Expected::Served { standing: self.standing, counts: self.counts }
            }
        }
    }

    /// Does `action` if it is allowed; returns whether it was.
    pub fn act(&mut self, action: Action) -> bool {
        let Standing { state, epoch } = self.standing;
        let (from, to) = transition(action);
        let (named, next) = match action {
            Action::Join => (epoch, epoch + 1),
            Action::Rejoin { dead } => (dead, dead.saturating_add(1)),
            Action::Grant { epoch }
            | Action::Leave { epoch }
            | Action::Vacate { epoch }
            | Action::MarkDead { epoch } => (epoch, epoch),
        };
        let allowed = from.contains(&state) && named == epoch && next <= MAX_EPOCH;
        if allowed {
            self.standing = Standing { state: to, epoch: next };
        }
        allowed
    }

    fn leave(&mut self, epoch: u32) -> Expected {
        Expected::Changed(self.act(Action::Leave { epoch }))
    }
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new()
    }
}
