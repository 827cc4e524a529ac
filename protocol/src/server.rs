//! The server: takes gradients from the rings, applies each exactly once, and keeps the books.
//!
//! One gradient is five actions, each a step: **begin** (poll, judge, write the intent down),
//! **apply** (the caller's kernel, block by block through the journal), **publish** (the version),
//! **tick** (the clocks), **release** (the slot, and the journal is idle again). A server killed
//! between or inside any of them is replaced by one that [attaches](Server::attach) and goes on:
//! before `Applied` it finishes the same gradient, after it repeats what sets absolute values.
//!
//! Between gradients it attends to the seats: grants joins once nothing of an earlier life is left,
//! drains and dismisses who leaves or is dead, evicts who writes nonsense, answers readers that
//! asked for a consistent copy. It is the only writer of clocks, version, journal and heads.
//!
//! Under [`Synchrony::Averaged`] a round begins when every participant has a gradient, takes them
//! in seat order with a step shared among them (the paper's Eq. 2), and survives a crash in the
//! middle: so the result does not depend on timing. All participants are at the same clock, unless
//! the budget left some out of what was to be the last round and was then not reached; a round
//! consists of the slowest, so that these catch up instead of waiting for who waits for them.
//!
//! Carries P2, P5 to P11.

use alloc::vec::Vec;
use core::fmt;

use crate::clock::{Timekeeper, mask};
use crate::error::Fault;
use crate::event::Event;
use crate::journal::{Intent, Journal, Phase};
use crate::machine::{Machine, Step};
use crate::membership::{Standing, State};
use crate::platform::Platform;
use crate::ring::{Consumer, Expected, Header, Parcel, counter};
use crate::run::Run;
use crate::site::Site;
use crate::weights::Publisher;

/// When a gradient may be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchrony {
    /// As soon as it is found. With slack on the learners' side this is SSP.
    Immediate,
    /// In rounds of all participants, averaged, in seat order.
    Averaged,
}

/// How the server works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// When a gradient may be applied.
    pub synchrony: Synchrony,
    /// Whether updates keep undo records. Without them, a server killed in the middle of an
    /// update cannot be replaced ([`AttachError::HalfWritten`]); everything else is as with them.
    pub journalled: bool,
    /// The version at which to stop, exactly; `None` runs until asked to.
    pub budget: Option<u64>,
    /// Seats that must have been granted once before the first gradient is applied, so that all
    /// of them begin at clock 1; later ones begin where the slowest is. Who was granted and died
    /// since counts, so that a death before the start holds nobody up.
    pub quorum: usize,
}

/// A gradient about to be applied.
pub struct Gradient<'g, T> {
    /// The judged header.
    pub header: &'g Header,
    /// Its decoded part.
    pub parcel: &'g Parcel,
    /// The slot it lies in, counted over the ring.
    pub slot: usize,
    /// The payload. Another process can write here: do not trust a value read twice.
    pub payload: &'g T,
    /// Divide the step by this: 1, or the size of the round.
    pub share: u32,
}

/// What the server does with a gradient; supplied by the caller.
pub trait Apply<P: Platform, T> {
    /// Whether the payload can be applied. Refusing evicts the learner.
    fn admit(&mut self, gradient: &Gradient<'_, T>) -> bool;

    /// Applies the gradient. With a journal, every lane is run to its end; after a crash this is
    /// called again with the same gradient, and the lanes know where they stopped.
    fn update(&mut self, gradient: &Gradient<'_, T>, journal: Option<Journal<'_, P>>);

    /// Copies the weights to the snapshot of `learner`, for a consistent pull.
    fn snapshot(&mut self, learner: usize);

    /// Hears that `learner` was evicted and why.
    fn evicted(&mut self, learner: usize, epoch: u32, fault: Fault);
}

/// Why a server cannot go on where the last one stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The last server died in the middle of an update and kept no journal.
    HalfWritten {
        /// The version that was being written.
        version: u64,
    },
    /// The journal names a seat, slot or table that this run does not have.
    BadJournal,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HalfWritten { version } => write!(
                f,
                "the weights are half way to version {version} and there is no journal: \
                 restart from the last checkpoint"
            ),
            Self::BadJournal => {
                write!(f, "the journal is not one of this run: restart from the last checkpoint")
            }
        }
    }
}

impl core::error::Error for AttachError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Scan,
    Apply(Intent),
    Publish(Intent),
    Tick(Intent),
    Release(Intent),
    Finished,
}

/// The server's state machine.
pub struct Server<'a, P: Platform, T: Send, A> {
    run: Run<'a, P, T>,
    policy: Policy,
    apply: A,
    consumers: Vec<Consumer<'a, P, T>>,
    granted: Vec<u32>,
    answered: Vec<u64>,
    time: Timekeeper<'a, P>,
    publisher: Publisher<'a, P>,
    journal: Journal<'a, P>,
    remaining: u64,
    share: u32,
    cursor: usize,
    work: Work,
}

impl<'a, P: Platform, T: Send, A: Apply<P, T>> Server<'a, P, T, A> {
    /// Goes on where the last server stopped, or starts a new run. The caller knows that no other
    /// server of this run is alive.
    pub fn attach(run: Run<'a, P, T>, policy: Policy, apply: A) -> Result<Self, AttachError> {
        let shape = run.shape();
        let mut consumers: Vec<_> = (0..shape.learners)
            .map(|learner| {
                let ring = run.ring(learner);
                Consumer::attach(ring, learner as u32, shape.tables as u32, shape.payload_limit)
            })
            .collect();
        let granted = run.seats().iter().map(|seat| seat.granted_epoch()).collect();
        let answered = run.seats().iter().map(|seat| seat.snapshot().answered()).collect();
        let publisher = Publisher::attach(run.stamp());
        let journal = run.journal();
        let (remaining, share) = journal.round();
        // Who remains has a gradient in its ring, unless the last server died while it evicted
        // that learner: after the ring was emptied, before the round was told.
        let remaining = ones(remaining & mask(shape.learners))
            .filter(|&learner| !consumers[learner].is_empty())
            .fold(0, |members, learner| members | 1 << learner);
        let mut server = Self {
            time: Timekeeper::attach(run.clocks()),
            run,
            policy,
            apply,
            consumers,
            granted,
            answered,
            publisher,
            journal,
            remaining,
            share: share.clamp(1, shape.learners as u32),
            cursor: 0,
            work: Work::Scan,
        };
        server.work = server.found_work()?;
        P::report(Event::Recover { version: server.publisher.version() });
        server.journal.set_remaining(remaining);
        for consumer in &server.consumers {
            consumer.accept();
        }
        // The clock of an update under way may be there before its weights are; the tick that
        // follows the update publishes it. Whatever came before the update is published.
        if !matches!(server.work, Work::Apply(_)) {
            server.time.publish();
        }
        run.ring_everybody(Site::AttachBell);
        Ok(server)
    }

    fn found_work(&self) -> Result<Work, AttachError> {
        let (phase, intent) = self.journal.found();
        if phase == Phase::Idle {
            if self.publisher.is_writing() {
                let version = self.publisher.version() + 1;
                return Err(AttachError::HalfWritten { version });
            }
            return Ok(Work::Scan);
        }
        if !self.is_mine(phase, &intent) {
            return Err(AttachError::BadJournal);
        }
        if phase == Phase::Applying && intent.journalled == 0 {
            return Err(AttachError::HalfWritten { version: intent.version });
        }
        Ok(if phase == Phase::Applied { Work::Publish(intent) } else { Work::Apply(intent) })
    }

    /// Whether `intent` is one that a server of this run judged, as far as `phase` says.
    fn is_mine(&self, phase: Phase, intent: &Intent) -> bool {
        let Intent { ref header, version, share, journalled } = *intent;
        let shape = self.run.shape();
        let learner = header.learner as usize;
        if phase == Phase::Unknown || learner >= shape.learners {
            return false;
        }
        let expected = Expected {
            ticket: header.ticket,
            learner: header.learner,
            epoch: self.granted[learner],
            tables: shape.tables as u32,
            payload_limit: shape.payload_limit,
        };
        // What follows an update may be done already: the release last, and all of it after it.
        let applied = phase == Phase::Applied;
        let newest = self.publisher.version();
        let head = self.consumers[learner].next_ticket();
        let released = applied && head == counter::next(header.ticket);
        let is_due = |table| {
            let last = self.time.applied(table, learner);
            header.clock == last || !released && header.clock == last.wrapping_add(1)
        };
        header.check(&expected, header.epoch == expected.epoch).is_ok()
            && (released || head == header.ticket)
            && (applied && version == newest || !released && version == newest + 1)
            && header.base_version < version
            && (1..=shape.learners as u32).contains(&share)
            && journalled <= 1
            && tables_of(header).all(is_due)
    }

    /// The number of gradients applied so far.
    pub fn version(&self) -> u64 {
        self.publisher.version()
    }

    /// What applies the gradients.
    pub fn apply(&self) -> &A {
        &self.apply
    }

    /// Gives back what applies the gradients.
    pub fn into_apply(self) -> A {
        self.apply
    }

    fn scan(&mut self) -> Step {
        if self.policy.budget.is_some_and(|budget| self.publisher.version() >= budget) {
            return self.finish();
        }
        let mut worked = false;
        let open = self.has_quorum();
        for _ in 0..self.consumers.len() {
            let learner = self.cursor;
            self.cursor = (self.cursor + 1) % self.consumers.len();
            worked |= self.attend(learner);
            if open && self.policy.synchrony == Synchrony::Immediate && self.begin(learner, 1) {
                return Step::Worked;
            }
        }
        if open && self.policy.synchrony == Synchrony::Averaged && self.begin_in_round() {
            return Step::Worked;
        }
        if worked {
            return Step::Worked;
        }
        if self.run.is_stopping() && self.everybody_is_gone() {
            self.work = Work::Finished;
            return Step::Done;
        }
        Step::Blocked
    }

    /// Whether gradients may be applied: the first waits for the quorum, or for the end.
    fn has_quorum(&self) -> bool {
        self.publisher.version() > 0
            || P::holds(Site::Quorum, self.seats_granted() >= self.policy.quorum)
            || self.run.is_stopping()
    }

    fn seats_granted(&self) -> usize {
        self.granted.iter().filter(|epoch| **epoch > 0).count()
    }

    /// Looks after one seat; returns whether something changed that may let others go on.
    fn attend(&mut self, learner: usize) -> bool {
        let seat = &self.run.seats()[learner];
        let bell = seat.bell();
        let apply = &mut self.apply;
        let answered =
            self.publisher.answer(&mut self.answered[learner], seat.snapshot(), bell, || {
                apply.snapshot(learner)
            });
        let Standing { state, epoch } = seat.standing();
        let granted = self.granted[learner];
        let consumer = &mut self.consumers[learner];
        let changed = match state {
            State::Vacant if !self.time.counts(learner) => false,
            State::Live if epoch == granted => false,
            State::Joining | State::Rejoining => self.grant(learner, epoch),
            // Nobody lives where nobody was granted to, and nobody leaves before its stream has
            // ended: a seat that says so was not written by this protocol, and is given up.
            State::Live => seat.mark_dead(learner as u32, epoch),
            State::Leaving if !consumer.is_sealed_by(epoch) => {
                seat.mark_dead(learner as u32, epoch)
            }
            State::Leaving => {
                if !P::holds(Site::SeatDrained, self.consumers[learner].is_finished()) {
                    return answered;
                }
                self.dismiss(learner);
                self.run.seats()[learner].vacate(learner as u32, epoch)
            }
            State::Dead | State::Vacant => {
                consumer.seal_dead(granted);
                consumer.seal_dead(epoch);
                let drained = P::holds(Site::SeatDrained, self.consumers[learner].is_empty());
                drained && self.time.counts(learner) && {
                    self.dismiss(learner);
                    true
                }
            }
        };
        answered || changed
    }

    fn grant(&mut self, learner: usize, epoch: u32) -> bool {
        // Who joined in the middle of a round would begin one clock behind its members: the next
        // round would wait for them, and they for it.
        let between_rounds = P::holds(Site::SeatBetweenRounds, self.remaining == 0);
        if self.run.is_stopping() || !between_rounds {
            return false;
        }
        let handed_over = self.consumers[learner].is_handed_over_to(epoch);
        if !P::holds(Site::SeatHandedOver, handed_over) {
            return false;
        }
        self.time.admit(learner);
        self.granted[learner] = epoch;
        let seat = &self.run.seats()[learner];
        let granted = seat.grant(learner as u32, epoch);
        seat.bell().ring(Site::SeatGrantBell);
        granted
    }

    fn dismiss(&mut self, learner: usize) {
        self.forget_in_round(learner);
        if self.time.dismiss(learner) {
            self.run.ring_learners(Site::DismissBell);
        }
    }

    fn evict(&mut self, learner: usize, fault: Fault) {
        let epoch = self.granted[learner];
        P::report(Event::Evict { learner: learner as u32, epoch });
        self.run.seats()[learner].mark_dead(learner as u32, epoch);
        self.consumers[learner].seal_dead(epoch);
        self.consumers[learner].discard();
        // At once: a new life that has the seat by now begins with the others, not where this
        // one stopped.
        self.dismiss(learner);
        self.run.seats()[learner].bell().ring(Site::EvictBell);
        self.apply.evicted(learner, epoch, fault);
    }

    /// Begins the oldest gradient of `learner`, if there is one that can be applied.
    fn begin(&mut self, learner: usize, share: u32) -> bool {
        match self.judge(learner, share) {
            Ok(None) => false,
            Ok(Some(intent)) => {
                let Header { learner, ticket, .. } = intent.header;
                P::report(Event::Begin { learner, ticket, share });
                self.journal.begin(intent);
                self.work = Work::Apply(intent);
                true
            }
            Err(fault) => {
                self.evict(learner, fault);
                true
            }
        }
    }

    fn judge(&mut self, learner: usize, share: u32) -> Result<Option<Intent>, Fault> {
        let newest = self.publisher.version();
        let Some(entry) = self.consumers[learner].poll(self.granted[learner])? else {
            return Ok(None);
        };
        let header = *entry.header();
        for table in tables_of(&header) {
            // The last clock has no successor: 0 is nobody's.
            let expected = self.time.applied(table, learner).wrapping_add(1);
            if !P::holds(Site::ClockInOrder, header.clock == expected) {
                return Err(Fault::ClockSkipped { found: header.clock, expected });
            }
        }
        if header.base_version > newest {
            return Err(Fault::VersionFromTheFuture { found: header.base_version, newest });
        }
        let apply = &mut self.apply;
        let (parcel, slot) = (entry.parcel(), entry.index());
        let admitted = entry.read(|payload| {
            apply.admit(&Gradient { header: &header, parcel, slot, payload, share })
        });
        if !admitted {
            return Err(Fault::Payload);
        }
        let journalled = u32::from(self.policy.journalled);
        Ok(Some(Intent { header, version: newest + 1, share, journalled }))
    }

    /// Begins the next gradient of a BSP round, or a round when everybody is ready.
    fn begin_in_round(&mut self) -> bool {
        if self.remaining == 0 {
            match self.begin_round() {
                Ok(true) => {}
                Ok(false) => return false,
                Err((learner, fault)) => {
                    self.evict(learner, fault);
                    return true;
                }
            }
        }
        let learner = self.remaining.trailing_zeros() as usize;
        self.begin(learner, self.share)
    }

    fn begin_round(&mut self) -> Result<bool, (usize, Fault)> {
        let slowest = self.time.slowest();
        for learner in ones(slowest) {
            match self.consumers[learner].poll(self.granted[learner]) {
                Ok(Some(_)) => {}
                Ok(None) if P::holds(Site::RoundComplete, false) => {}
                Ok(None) => return Ok(false),
                Err(fault) => return Err((learner, fault)),
            }
        }
        let left = self.policy.budget.map_or(u64::MAX, |budget| budget - self.publisher.version());
        let members = ones(slowest).take(left.min(64) as usize).fold(0, |m, l| m | 1 << l);
        if members == 0 {
            return Ok(false);
        }
        self.remaining = members;
        self.share = members.count_ones();
        self.journal.begin_round(members);
        Ok(true)
    }

    fn apply_now(&mut self, intent: Intent) {
        let learner = intent.header.learner as usize;
        self.publisher.begin();
        let journal = (intent.journalled != 0).then_some(self.journal);
        let apply = &mut self.apply;
        if let Some(entry) = self.consumers[learner].recover(&intent.header) {
            let (parcel, slot) = (entry.parcel(), entry.index());
            entry.read(|payload| {
                let header = &intent.header;
                let gradient = Gradient { header, parcel, slot, payload, share: intent.share };
                apply.update(&gradient, journal);
            });
        }
        P::report(Event::Applied {
            learner: intent.header.learner,
            ticket: intent.header.ticket,
            version: intent.version,
        });
        self.journal.applied();
    }

    fn tick(&mut self, intent: Intent) {
        let learner = intent.header.learner as usize;
        let rose = self.time.tick(learner, tables_of(&intent.header), intent.header.clock);
        self.forget_in_round(learner);
        if rose {
            self.run.ring_learners(Site::ClockBell);
        }
    }

    /// The round under way does not, or no longer, wait for `learner`.
    fn forget_in_round(&mut self, learner: usize) {
        if self.remaining & (1 << learner) != 0 {
            self.remaining &= !(1 << learner);
            self.journal.set_remaining(self.remaining);
        }
    }

    fn release(&mut self, intent: Intent) {
        let consumer = &mut self.consumers[intent.header.learner as usize];
        if let Some(entry) = consumer.recover(&intent.header) {
            entry.release();
        }
        self.journal.idle();
    }

    fn finish(&mut self) -> Step {
        P::report(Event::Finish { version: self.publisher.version() });
        for consumer in &self.consumers {
            consumer.refuse();
        }
        self.run.request_stop();
        self.work = Work::Finished;
        Step::Done
    }

    fn everybody_is_gone(&self) -> bool {
        self.run.seats().iter().enumerate().all(|(learner, seat)| match seat.standing().state {
            State::Vacant => true,
            State::Dead => !self.time.counts(learner),
            State::Joining | State::Live | State::Leaving | State::Rejoining => false,
        })
    }
}

impl<P: Platform, T: Send, A: Apply<P, T>> Machine<P> for Server<'_, P, T, A> {
    fn step(&mut self) -> Step {
        self.work = match self.work {
            Work::Scan => return self.scan(),
            Work::Apply(intent) => {
                self.apply_now(intent);
                Work::Publish(intent)
            }
            Work::Publish(intent) => {
                self.publisher.finish(intent.version);
                Work::Tick(intent)
            }
            Work::Tick(intent) => {
                self.tick(intent);
                Work::Release(intent)
            }
            Work::Release(intent) => {
                self.release(intent);
                Work::Scan
            }
            Work::Finished => return Step::Done,
        };
        Step::Worked
    }
}

fn tables_of(header: &Header) -> core::ops::Range<usize> {
    let first = header.first_table as usize;
    first..first + header.tables as usize
}

fn ones(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |bit| mask & (1 << bit) != 0)
}
