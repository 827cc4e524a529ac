//! The whole server as a loop over queues: what is applied when, who counts, who is let go.
//!
//! The model takes the same steps in the same order (begin, apply, publish, tick, release, and a
//! look after the seats between gradients) on plain queues and numbers. It knows no words, rings,
//! journals or wake-ups; a restart is the loss of everything that a server keeps to itself.

mod serve;

use std::collections::{BTreeSet, VecDeque};

use protocol::clock::Slack;
use protocol::error::{Fault, Fenced, JoinError, ReserveError};
use protocol::machine::Step;
use protocol::membership::{Standing, State};
use protocol::ring::counter;
use protocol::server::{AttachError, Synchrony};

use super::clock;
use super::ring::Refusal;
use crate::books::{BLOCKS, Posting};

/// What is wrong with a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// It names a table that the model does not have.
    Table,
    /// Its clock is one too far.
    Clock,
    /// It claims weights that do not exist yet.
    Version,
    /// Whoever applies it refuses its payload.
    Payload,
}

/// What can be done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    /// A learner takes a seat.
    Join { learner: usize },
    /// A new life takes a seat; the process of the one before is gone.
    Rejoin { learner: usize },
    /// A life that was granted its seat pushes the gradient of its next clock. Also a life that
    /// was given up and does not know: a zombie.
    Push { learner: usize, value: u64, flaw: Flaw },
    /// A life ends its stream and leaves.
    Leave { learner: usize },
    /// The watchdog gives up the life on a seat.
    Die { learner: usize },
    /// A life asks for a consistent copy of the weights.
    Ask { learner: usize },
    /// A life looks for the answer.
    Collect { learner: usize },
    /// Everybody is asked to stop.
    Stop,
    /// The server takes some steps.
    Step { steps: u8 },
    /// The server takes steps until it has to wait.
    Serve,
    /// The server is killed where it stands; the next one has a budget larger by `raise`.
    Restart { raise: u64 },
    /// The server is killed in the middle of an update, with the weights written or not.
    DieInUpdate { written: bool },
}

/// What must come of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The contract forbids it here.
    Skipped,
    /// Nothing to see.
    Done,
    /// The new life, or why there is none.
    Joined(Result<u32, JoinError>),
    /// A ticket, or why not.
    Pushed(Result<u64, Refusal>),
    /// Whether the seat changed.
    Changed(bool),
    /// The version of the answer and the weights in it.
    Collected(Option<(u64, [u32; BLOCKS])>),
    /// What the last step came to.
    Stepped(Step),
    /// No server can go on from here.
    Refused(AttachError),
}

/// How a run is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Seats.
    pub learners: usize,
    /// Slots in each ring.
    pub capacity: usize,
    /// The first ticket of each ring.
    pub first_ticket: u64,
    /// When a gradient may be applied.
    pub synchrony: Synchrony,
    /// How far a learner may run ahead.
    pub slack: Slack,
    /// Whether updates go through the journal.
    pub journalled: bool,
    /// The version at which to stop.
    pub budget: Option<u64>,
    /// Seats that must have been granted before the first gradient is applied.
    pub quorum: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gradient {
    posting: Posting,
    clock: u64,
    flaw: Flaw,
    version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Scan,
    Apply(Gradient),
    Publish(Gradient),
    Tick(Gradient),
    Release(Gradient),
    Finished,
    /// The server died in an update that it could not take back.
    Lost,
}

/// One life of a learner, as it sees itself.
#[derive(Clone, Copy, Debug)]
struct Life {
    epoch: u32,
    /// The clock that it pushed last.
    clock: Option<u64>,
    knows_its_end: bool,
}

#[derive(Clone, Debug)]
struct Seat {
    standing: Standing,
    granted: u32,
    life: Option<Life>,
    queue: VecDeque<Gradient>,
    next_ticket: u64,
    holder: u32,
    sealed: bool,
    asked: u64,
    answered: u64,
    snapshot: (u64, [u32; BLOCKS]),
}

/// The sequential model.
#[derive(Clone, Debug)]
pub struct Oracle {
    setup: Setup,
    seats: Vec<Seat>,
    /// The clocks.
    pub clocks: clock::Oracle,
    /// Gradients applied and published.
    pub version: u64,
    /// Gradients in the order in which they were applied.
    pub postings: Vec<Posting>,
    /// Who was evicted, and why.
    pub evictions: Vec<(usize, Fault)>,
    /// Whether everybody is asked to stop.
    pub stopping: bool,
    refused: bool,
    remaining: BTreeSet<usize>,
    share: u32,
    cursor: usize,
    work: Work,
}

impl Oracle {
    /// A run that has not begun.
    pub fn new(setup: Setup) -> Self {
        let seat = Seat {
            standing: Standing::NEW,
            granted: 0,
            life: None,
            queue: VecDeque::new(),
            next_ticket: setup.first_ticket,
            holder: 0,
            sealed: true,
            asked: 0,
            answered: 0,
            snapshot: (0, [0; BLOCKS]),
        };
        Self {
            setup,
            seats: vec![seat; setup.learners],
            clocks: clock::Oracle::new(setup.learners, 1),
            version: 0,
            postings: Vec::new(),
            evictions: Vec::new(),
            stopping: false,
            refused: false,
            remaining: BTreeSet::new(),
            share: 1,
            cursor: 0,
            work: Work::Scan,
        }
    }

    /// Where a seat stands.
    pub fn standing(&self, learner: usize) -> Standing {
        self.seats[learner].standing
    }

    /// Whether the life on this seat can push its next gradient.
    pub fn can_push(&self, learner: usize) -> bool {
        let seat = &self.seats[learner];
        seat.standing == Standing { state: State::Live, epoch: seat.granted }
            && seat.life.is_some_and(|life| !life.knows_its_end)
            && self.is_open(learner)
            && seat.queue.len() < self.setup.capacity
    }

    /// Whether gradients may be applied: enough seats have been granted.
    pub fn has_quorum(&self) -> bool {
        let granted = self.seats.iter().filter(|seat| seat.granted > 0).count();
        self.version > 0 || granted >= self.setup.quorum || self.stopping
    }

    /// The clock that the life on this seat pushes next.
    pub fn next_clock(&self, learner: usize) -> u64 {
        let pushed = self.seats[learner].life.and_then(|life| life.clock);
        pushed.unwrap_or_else(|| self.clocks.resume_after(learner)) + 1
    }

    /// Whether that clock may be started.
    pub fn is_open(&self, learner: usize) -> bool {
        let look =
            clock::Operation::Look { clock: self.next_clock(learner), slack: self.setup.slack };
        self.clocks.clone().step(look) == clock::Expected::Open(true)
    }

    /// Does one operation.
    pub fn step(&mut self, operation: Operation) -> Expected {
        if self.work == Work::Lost {
            return Expected::Skipped;
        }
        match operation {
            Operation::Join { learner } => Expected::Joined(self.join(learner)),
            Operation::Rejoin { learner } => {
                if self.seats[learner].standing.state == State::Vacant {
                    return Expected::Skipped;
                }
                Expected::Joined(self.rejoin(learner))
            }
            Operation::Push { learner, value, flaw } => self.push(learner, value, flaw),
            Operation::Leave { learner } => self.leave(learner),
            Operation::Die { learner } => {
                let seat = &mut self.seats[learner];
                let alive = !matches!(seat.standing.state, State::Vacant | State::Dead);
                if alive {
                    seat.standing.state = State::Dead;
                }
                Expected::Changed(alive)
            }
            Operation::Ask { learner } => {
                self.seats[learner].asked += 1;
                Expected::Done
            }
            Operation::Collect { learner } => {
                let seat = &self.seats[learner];
                Expected::Collected((seat.asked == seat.answered).then_some(seat.snapshot))
            }
            Operation::Stop => {
                self.stopping = true;
                Expected::Done
            }
            Operation::Step { steps } => {
                let mut last = Step::Worked;
                (0..steps).for_each(|_| last = self.serve());
                Expected::Stepped(last)
            }
            Operation::Serve => Expected::Stepped(loop {
                let step = self.serve();
                if step != Step::Worked {
                    break step;
                }
            }),
            Operation::Restart { raise } => {
                self.setup.budget = self.setup.budget.map(|budget| budget + raise);
                self.restart()
            }
            Operation::DieInUpdate { written } => {
                let Work::Apply(gradient) = self.work else { return Expected::Skipped };
                if written {
                    self.apply(gradient);
                }
                self.restart()
            }
        }
    }

    fn join(&mut self, learner: usize) -> Result<u32, JoinError> {
        let Standing { state, epoch } = self.seats[learner].standing;
        if self.stopping {
            return Err(JoinError::Stopping);
        }
        if state != State::Vacant {
            return Err(JoinError::Occupied { epoch });
        }
        Ok(self.take_over(learner, State::Joining))
    }

    fn rejoin(&mut self, learner: usize) -> Result<u32, JoinError> {
        if self.stopping {
            return Err(JoinError::Stopping);
        }
        Ok(self.take_over(learner, State::Rejoining))
    }

    fn take_over(&mut self, learner: usize, state: State) -> u32 {
        let seat = &mut self.seats[learner];
        let epoch = seat.standing.epoch + 1;
        seat.standing = Standing { state, epoch };
        seat.life = Some(Life { epoch, clock: None, knows_its_end: false });
        seat.holder = epoch;
        seat.sealed = false;
        epoch
    }

    fn push(&mut self, learner: usize, value: u64, flaw: Flaw) -> Expected {
        let (clock, open) = (self.next_clock(learner), self.is_open(learner));
        let seat = &mut self.seats[learner];
        let Some(life) = &mut seat.life else { return Expected::Skipped };
        if life.epoch != seat.granted || !open {
            return Expected::Skipped;
        }
        if life.knows_its_end {
            return Expected::Pushed(Err(Refusal::Reserve(ReserveError::Ended)));
        }
        if seat.queue.len() >= self.setup.capacity {
            let why = if self.refused { ReserveError::Refused } else { ReserveError::Full };
            return Expected::Pushed(Err(Refusal::Reserve(why)));
        }
        if seat.sealed {
            life.knows_its_end = true;
            return Expected::Pushed(Err(Refusal::Fenced(Fenced)));
        }
        let clock = clock + u64::from(flaw == Flaw::Clock);
        life.clock = Some(clock);
        let ticket = seat.next_ticket;
        seat.next_ticket = counter::next(ticket);
        let value = if flaw == Flaw::Payload { u64::MAX } else { value };
        let posting = Posting { learner: learner as u32, ticket, value, share: 1 };
        seat.queue.push_back(Gradient { posting, clock, flaw, version: 0 });
        Expected::Pushed(Ok(ticket))
    }

    fn leave(&mut self, learner: usize) -> Expected {
        let seat = &mut self.seats[learner];
        let Some(life) = seat.life.take() else { return Expected::Skipped };
        if seat.holder == life.epoch {
            seat.sealed = true;
        }
        let Standing { state, epoch } = seat.standing;
        let there = matches!(state, State::Joining | State::Rejoining | State::Live);
        let left = there && epoch == life.epoch;
        if left {
            seat.standing.state = State::Leaving;
        }
        Expected::Changed(left)
    }
}
