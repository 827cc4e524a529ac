//! What learners, their watchdog and intruders do on a [`Stage`].
//!
//! A learner's gradient depends on its clock alone, so that a life that takes over computes the
//! same one: if a kill costs nothing but the gradient that was not committed, the run ends as if
//! there had been none (P8).

use protocol::membership::State;
use protocol::platform::Platform;
use protocol::ring::{Parcel, Producer};
use protocol::site::Site;
use protocol::weights::Reader;

use super::stage::{Actor, Learner, Stage};

/// How a killed learner comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revival {
    /// The watchdog marks it dead, the server takes notice, then it rejoins.
    AfterDeath,
    /// It rejoins before anybody has noticed.
    AtOnce,
}

/// What `learner` computes at `clock`.
fn gradient(learner: usize, clock: u64) -> u64 {
    (learner as u64 + 1) * 1009 + clock * 37
}

impl<P: Platform> Stage<'_, P> {
    /// A learner takes its vacant seat and is granted it.
    pub fn join(&mut self, learner: usize) {
        let joined = self.act(Actor::Learner(learner), |stage| {
            let seat = &stage.run.seats()[learner];
            let epoch = seat.join(learner as u32).expect("the seat is vacant");
            stage.move_in(learner, epoch);
        });
        if joined.is_none() {
            self.revive(learner);
        }
        self.serve();
        assert_eq!(self.standing(learner).state, State::Live, "learner {learner} is granted");
    }

    /// A learner takes the seat of its last life; the server grants it when it can.
    pub fn rejoin(&mut self, learner: usize) {
        self.come_back(learner);
        self.serve();
    }

    /// A learner asks for the seat of its last life.
    pub fn come_back(&mut self, learner: usize) {
        let dead = self.standing(learner).epoch;
        let asked = self.act(Actor::Learner(learner), |stage| {
            let seat = &stage.run.seats()[learner];
            let epoch = seat.rejoin(learner as u32, dead).expect("the last life is dead");
            stage.move_in(learner, epoch);
        });
        if asked.is_none() {
            self.revive(learner);
        }
    }

    fn move_in(&mut self, learner: usize, epoch: u32) {
        let producer = Producer::join(self.run.ring(learner), learner as u32, epoch);
        self.learners[learner] = Learner { producer: Some(producer), next_clock: None };
    }

    /// The next life of a learner that was killed.
    fn revive(&mut self, learner: usize) {
        self.learners[learner].producer = None;
        if self.standing(learner).state == State::Vacant {
            return self.join(learner);
        }
        if self.scenario.revival == Revival::AfterDeath {
            self.give_up(learner);
            self.serve();
        }
        self.rejoin(learner);
    }

    /// A learner commits its gradients up to `clock`; if its ring is full, the server works.
    ///
    /// A life whose predecessor's gradients wait for others is not granted yet and does nothing:
    /// the gradient of this clock is among them.
    pub fn learn(&mut self, learner: usize, clock: u64) {
        while self.is_due(learner, clock) {
            match self.act(Actor::Learner(learner), |stage| stage.commit_next(learner)) {
                None => self.revive(learner),
                Some(true) => {}
                Some(false) => self.serve(),
            }
        }
    }

    /// A learner commits its gradients up to `clock`, as far as there is room.
    pub fn learn_alone(&mut self, learner: usize, clock: u64) {
        let is_live = self.standing(learner).state == State::Live;
        while is_live
            && self.next_clock(learner) <= clock
            && self.act(Actor::Learner(learner), |stage| stage.commit_next(learner)) == Some(true)
        {
        }
    }

    fn is_due(&mut self, learner: usize, clock: u64) -> bool {
        if self.standing(learner).state != State::Live {
            self.serve();
        }
        self.standing(learner).state == State::Live && self.next_clock(learner) <= clock
    }

    /// The first clock of a life is the one after the last that was applied for its seat.
    fn next_clock(&mut self, learner: usize) -> u64 {
        let first = self.run.clocks().resume_after(learner) + 1;
        *self.learners[learner].next_clock.get_or_insert(first)
    }

    fn commit_next(&mut self, learner: usize) -> bool {
        let clock = self.next_clock(learner);
        let committed = self.commit(learner, gradient(learner, clock), clock);
        if committed {
            self.learners[learner].next_clock = Some(clock + 1);
        }
        committed
    }

    fn commit(&mut self, learner: usize, value: u64, clock: u64) -> bool {
        let base_version = self.run.stamp().version();
        let producer = self.learners[learner].producer.as_mut().expect("has joined");
        let Ok(mut reservation) = producer.reserve() else { return false };
        reservation.write(|payload| *payload = value);
        let parcel = Parcel::dense(clock, base_version, 1, 8);
        reservation.commit(parcel).expect("nobody else holds the ring");
        true
    }

    /// A learner commits a payload that cannot be applied.
    pub fn commit_nonsense(&mut self, learner: usize) {
        let clock = self.next_clock(learner);
        self.act(Actor::Other, |stage| assert!(stage.commit(learner, u64::MAX, clock)));
    }

    /// A learner commits the gradient of a clock that is not due.
    pub fn commit_skipping(&mut self, learner: usize) {
        let clock = self.next_clock(learner) + 1;
        let value = gradient(learner, clock);
        self.act(Actor::Other, |stage| assert!(stage.commit(learner, value, clock)));
    }

    /// Somebody who does not hold the seat commits to its ring.
    pub fn commit_foreign(&mut self, learner: usize) {
        let clock = self.next_clock(learner);
        let epoch = self.standing(learner).epoch + 1;
        self.act(Actor::Other, |stage| {
            stage.move_in(learner, epoch);
            assert!(stage.commit(learner, gradient(learner, clock), clock));
        });
    }

    /// A learner ends its stream and leaves; the server lets it go.
    pub fn leave(&mut self, learner: usize) {
        while self.act(Actor::Learner(learner), |stage| stage.move_out(learner)).is_none() {
            self.revive(learner);
        }
        self.serve();
    }

    fn move_out(&mut self, learner: usize) {
        let mut producer = self.learners[learner].producer.take().expect("has joined");
        producer.seal().expect("nobody else holds the ring");
        assert!(self.run.seats()[learner].leave(learner as u32, producer.epoch()));
        self.run.server_bell().ring(Site::LeaveBell);
    }

    /// The watchdog finds a learner dead.
    pub fn give_up(&mut self, learner: usize) {
        self.act(Actor::Other, |stage| {
            let epoch = stage.standing(learner).epoch;
            // False if it was evicted, or had left and was let go, before it died.
            stage.run.seats()[learner].mark_dead(learner as u32, epoch);
            stage.learners[learner].producer = None;
            stage.run.ring_everybody(Site::WatchdogBell);
        });
    }

    /// Whether the life on this seat was given up.
    pub fn is_dead(&self, learner: usize) -> bool {
        self.standing(learner).state == State::Dead
    }

    /// Somebody asks everybody to finish.
    pub fn stop(&mut self) {
        self.act(Actor::Other, |stage| stage.run.request_stop());
    }

    /// Learner 0 asks for a consistent copy.
    pub fn ask(&mut self) {
        self.act(Actor::Other, |stage| {
            let (stamp, bell) = (stage.run.stamp(), stage.run.server_bell());
            let snapshot = stage.run.seats()[0].snapshot();
            stage.reader.get_or_insert_with(|| Reader::join(stamp, snapshot, bell)).ask();
        });
    }

    /// The answer to the last question must be there.
    pub fn collect(&mut self) {
        let reader = self.reader.as_ref().expect("has asked");
        assert!(reader.collect(|| ()).is_some(), "the question is answered (P5)");
    }
}
