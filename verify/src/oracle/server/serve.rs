//! The server's side of the model: one step at a time, in the order of the real one.

use std::collections::BTreeSet;

use protocol::error::Fault;
use protocol::machine::Step;
use protocol::membership::{Standing, State};
use protocol::server::{AttachError, Synchrony};

use super::{Expected, Flaw, Gradient, Oracle, Work};
use crate::books::replay;
use crate::oracle::clock;

impl Oracle {
    /// One step of the server.
    pub(super) fn serve(&mut self) -> Step {
        self.work = match self.work {
            Work::Scan => return self.scan(),
            Work::Apply(gradient) => {
                self.apply(gradient);
                Work::Publish(gradient)
            }
            Work::Publish(gradient) => {
                self.version = gradient.version;
                Work::Tick(gradient)
            }
            Work::Tick(gradient) => {
                let learner = gradient.posting.learner as usize;
                self.clocks.set(learner, 0..1, gradient.clock);
                self.remaining.remove(&learner);
                Work::Release(gradient)
            }
            Work::Release(gradient) => {
                self.seats[gradient.posting.learner as usize].queue.pop_front();
                Work::Scan
            }
            Work::Finished | Work::Lost => return Step::Done,
        };
        Step::Worked
    }

    pub(super) fn apply(&mut self, gradient: Gradient) {
        // A server that goes on with an update applies the same gradient: it counts once.
        if self.postings.last() != Some(&gradient.posting) {
            self.postings.push(gradient.posting);
        }
    }

    pub(super) fn restart(&mut self) -> Expected {
        self.cursor = 0;
        self.refused = false;
        self.work = match self.work {
            Work::Scan | Work::Finished => Work::Scan,
            Work::Apply(gradient) if self.setup.journalled => Work::Apply(gradient),
            Work::Apply(Gradient { version, .. }) => {
                self.work = Work::Lost;
                return Expected::Refused(AttachError::HalfWritten { version });
            }
            Work::Publish(gradient) | Work::Tick(gradient) | Work::Release(gradient) => {
                Work::Publish(gradient)
            }
            Work::Lost => Work::Lost,
        };
        Expected::Done
    }

    fn scan(&mut self) -> Step {
        if self.setup.budget.is_some_and(|budget| self.version >= budget) {
            self.refused = true;
            self.stopping = true;
            self.work = Work::Finished;
            return Step::Done;
        }
        let (mut worked, open) = (false, self.has_quorum());
        for _ in 0..self.setup.learners {
            let learner = self.cursor;
            self.cursor = (self.cursor + 1) % self.setup.learners;
            worked |= self.attend(learner);
            let at_once = self.setup.synchrony == Synchrony::Immediate;
            if open && at_once && self.begin(learner, 1) {
                return Step::Worked;
            }
        }
        let in_rounds = self.setup.synchrony == Synchrony::Averaged;
        if open && in_rounds && self.begin_in_round() || worked {
            return Step::Worked;
        }
        if self.stopping && self.everybody_is_gone() {
            self.work = Work::Finished;
            return Step::Done;
        }
        Step::Blocked
    }

    fn everybody_is_gone(&self) -> bool {
        self.seats.iter().enumerate().all(|(learner, seat)| match seat.standing.state {
            State::Vacant => true,
            State::Dead => !self.clocks.participants.contains(&learner),
            _ => false,
        })
    }

    fn attend(&mut self, learner: usize) -> bool {
        let weights = replay(&self.postings);
        let counts = self.clocks.participants.contains(&learner);
        let between_rounds = self.remaining.is_empty();
        let seat = &mut self.seats[learner];
        let asked = seat.asked != seat.answered;
        if asked {
            seat.answered = seat.asked;
            seat.snapshot = (self.version, weights);
        }
        let Standing { state, epoch } = seat.standing;
        let changed = match state {
            State::Vacant | State::Live => false,
            State::Joining | State::Rejoining => {
                let granted = !self.stopping && between_rounds && seat.queue.is_empty();
                if granted {
                    seat.granted = epoch;
                    seat.standing.state = State::Live;
                    self.clocks.step(clock::Operation::Admit { learner });
                }
                granted
            }
            State::Leaving => {
                let drained = seat.queue.is_empty();
                if drained {
                    seat.standing.state = State::Vacant;
                    self.clocks.step(clock::Operation::Dismiss { learner });
                }
                drained
            }
            State::Dead => {
                seat.sealed = true;
                let dismissed = seat.queue.is_empty() && counts;
                if dismissed {
                    self.clocks.step(clock::Operation::Dismiss { learner });
                }
                dismissed
            }
        };
        asked || changed
    }

    /// Begins the oldest gradient of `learner`; false if there is none.
    fn begin(&mut self, learner: usize, share: u32) -> bool {
        let Some(mut gradient) = self.seats[learner].queue.front().copied() else {
            return false;
        };
        match self.judge(learner, &gradient) {
            Some(fault) => self.evict(learner, fault),
            None => {
                gradient.posting.share = share;
                gradient.version = self.version + 1;
                self.work = Work::Apply(gradient);
            }
        }
        true
    }

    fn begin_in_round(&mut self) -> bool {
        if self.remaining.is_empty() {
            let slowest = self.slowest();
            for learner in &slowest {
                match self.seats[*learner].queue.front() {
                    None => return false,
                    Some(gradient) if gradient.flaw == Flaw::Table => {
                        self.evict(*learner, Fault::TableRange { first: 0, tables: 2 });
                        return true;
                    }
                    Some(_) => {}
                }
            }
            let left = self.setup.budget.map_or(u64::MAX, |budget| budget - self.version);
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            self.remaining = slowest.into_iter().take(left).collect();
            self.share = self.remaining.len() as u32;
        }
        match self.remaining.first() {
            Some(learner) => self.begin(*learner, self.share),
            None => false,
        }
    }

    /// Who counts and has come no further than anybody else.
    fn slowest(&self) -> BTreeSet<usize> {
        let clock = |learner: &usize| self.clocks.applied[0][*learner];
        let participants = &self.clocks.participants;
        let last = participants.iter().map(clock).min();
        participants.iter().copied().filter(|learner| Some(clock(learner)) == last).collect()
    }

    fn judge(&self, learner: usize, gradient: &Gradient) -> Option<Fault> {
        let expected = self.clocks.applied[0][learner] + 1;
        match gradient.flaw {
            Flaw::Table => Some(Fault::TableRange { first: 0, tables: 2 }),
            _ if gradient.clock != expected => {
                Some(Fault::ClockSkipped { found: gradient.clock, expected })
            }
            Flaw::Version => {
                let found = u64::MAX;
                Some(Fault::VersionFromTheFuture { found, newest: self.version })
            }
            Flaw::Payload => Some(Fault::Payload),
            Flaw::None | Flaw::Clock => None,
        }
    }

    fn evict(&mut self, learner: usize, fault: Fault) {
        let seat = &mut self.seats[learner];
        if seat.standing.epoch == seat.granted && seat.standing.state != State::Vacant {
            seat.standing.state = State::Dead;
        }
        if seat.holder == seat.granted {
            seat.sealed = true;
        }
        seat.queue.clear();
        self.remaining.remove(&learner);
        self.clocks.step(clock::Operation::Dismiss { learner });
        self.evictions.push((learner, fault));
    }
}
