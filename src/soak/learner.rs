//! A learner process: one life on a seat, its three machines on three threads.
//!
//! The life takes the seat, or that of the dead life it replaces, pulls, computes and pushes until
//! the run ends or its seat is taken away, and leaves. Like the server it dawdles while it copies,
//! so that kills hit it with half a gradient in a slot and half the weights in its hands.
//!
//! It keeps its own account, independent of the protocol's counters: how many gradients it began to
//! push, how many it *knows* to be committed (the push thread asked for the next one, or train
//! could hand over the one after), whether a commit failed, and whether a pull ever held less than
//! the version it claimed (P5). The audit holds the server's log against it (P8).

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use protocol::bell::{Patience, Waiter};
use protocol::error::JoinError;
use protocol::handoff::Handoff;
use protocol::learner::{
    Compute, Contents, Fetched, Life, Loaded, Pull, PullCopy, PullPolicy, Push, PushCopy, Train,
};
use protocol::machine::Machine;
use protocol::ring::{Encoding, Producer};
use ps::platform::Processes;
use rustix::process::{Signal, getpid, kill_process};

use super::arithmetic::{Vector, WORDS, count, gradient};
use super::memory::{Area, LifeWords, Memory, load};
use super::{Exit, Failure, Setup, dawdle};

/// How often a learner that waits at the gate looks again.
const GATE_POLL: Duration = Duration::from_micros(50);

/// Pauses after each word that is copied: some microseconds a gradient.
const PAUSES: u32 = 40;

/// The life of a learner process on seat `learner`, replacing the life `dead` if there was one.
pub(crate) fn live(
    setup: &Setup,
    memory: &Memory,
    learner: usize,
    dead: Option<u32>,
) -> Result<Exit, Failure> {
    let run = memory.run()?;
    let Some(seat) = run.seats().get(learner) else {
        return Err(Failure::Usage(format!("there is no seat {learner}")));
    };
    let waiter = Waiter::new(seat.bell(), Patience::PROCESS);
    let joined = match dead {
        None => Life::join(run, learner, waiter),
        Some(dead) => Life::rejoin(run, learner, dead, waiter),
    };
    let who = || format!("learner {learner}");
    let (life, producer) = match joined {
        Ok(joined) => joined,
        Err(JoinError::Stopping) => return Ok(Exit::Done),
        Err(JoinError::Evicted | JoinError::NotThatLife { .. } | JoinError::Occupied { .. }) => {
            return Ok(Exit::Evicted);
        }
        Err(error) => return Err(Failure::Protocol { who: who(), cause: error.to_string() }),
    };
    let area = memory.area();
    let Some(account) = area.life(learner, life.epoch()) else {
        let cause = format!("life {} is one more than there were deaths", life.epoch());
        return Err(Failure::Protocol { who: who(), cause });
    };
    account.first_clock.store(life.first_clock(), Relaxed);
    let left = work(setup, area, account, life, producer, waiter);
    Ok(if left { Exit::Done } else { Exit::Evicted })
}

/// Runs the three machines to their end, closes the account and leaves. False if there was no seat
/// left to leave.
fn work<'m>(
    setup: &Setup,
    area: Area<'m>,
    account: LifeWords<'m>,
    life: Life<'m, Processes, Vector>,
    producer: Producer<'m, Processes, Vector>,
    waiter: Waiter<'_, Processes>,
) -> bool {
    let seat = life.learner();
    let run = life.run();
    let bell = run.seats()[seat].bell();
    let first_ticket = producer.next_ticket();
    let mut weights = Handoff::new(Fetched::<Vector>::default());
    let mut gradients = Handoff::new(Loaded::<Vector>::default());
    let (weights_out, weights_in) = weights.split(bell);
    let (gradients_out, gradients_in) = gradients.split(bell);

    let policy = PullPolicy { slack: setup.sync.slack(), consistent: setup.consistent };
    let mut pull = Pull::new(life, weights_out, PullWords { area, seat }, policy);
    let model = Model { setup, area, account, life };
    let zero = [0; WORDS];
    let mut train = Train::new(life, weights_in, gradients_out, model, zero, zero);
    let copy = PushWords { area, account, seat, epoch: life.epoch(), pushed: 0 };
    let mut push = Push::new(life, gradients_in, producer, copy);
    thread::scope(|scope| {
        scope.spawn(|| pull.run(waiter));
        scope.spawn(|| train.run(waiter));
        push.run(waiter);
    });

    let producer = push.into_producer();
    let committed = producer.next_ticket().wrapping_sub(first_ticket);
    account.acknowledged.store(committed, Relaxed);
    account.fenced.store(account.pushed.load(Relaxed).saturating_sub(committed), Relaxed);
    life.leave(producer)
}

struct PullWords<'m> {
    area: Area<'m>,
    seat: usize,
}

impl PullCopy<Vector> for PullWords<'_> {
    fn pull(&mut self, weights: &mut Vector) {
        for (weight, word) in weights.iter_mut().zip(self.area.weights) {
            *weight = word.load(Relaxed);
            dawdle(PAUSES);
        }
    }

    fn collect(&mut self, weights: &mut Vector) {
        *weights = load(self.area.snapshot(self.seat));
    }
}

struct Model<'s, 'm> {
    setup: &'s Setup,
    area: Area<'m>,
    account: LifeWords<'m>,
    life: Life<'m, Processes, Vector>,
}

impl Compute<Vector, Vector> for Model<'_, '_> {
    fn compute(
        &mut self,
        clock: u64,
        version: u64,
        weights: &Vector,
        computed: &mut Vector,
    ) -> bool {
        // The last gradient could be handed over because the one before had been committed.
        let first_clock = self.account.first_clock.load(Relaxed);
        self.account.acknowledged.fetch_max(clock.saturating_sub(first_clock + 1), Relaxed);
        let exact = self.setup.pulls_are_exact();
        let honest = |held| if exact { held == version } else { held >= version };
        if let Some(weight) = weights.iter().find(|weight| !honest(count(**weight))) {
            self.account.lies.fetch_add(1, Relaxed);
            eprintln!(
                "escapement: learner {}: clock {clock} claims version {version}, a weight holds {}",
                self.life.learner(),
                count(*weight),
            );
        }
        while self.life.run().stamp().version() >= self.area.gate.load(Relaxed) {
            if self.life.is_over() {
                return false;
            }
            thread::sleep(GATE_POLL);
        }
        let origin = self.setup.origin(self.life.learner() as u32, self.life.epoch(), clock);
        *computed = gradient(origin, exact.then_some(weights));
        true
    }
}

struct PushWords<'m> {
    area: Area<'m>,
    account: LifeWords<'m>,
    seat: usize,
    epoch: u32,
    pushed: u64,
}

impl PushCopy<Vector, Vector> for PushWords<'_> {
    fn push(&mut self, gradient: &mut Vector, _: usize, payload: &mut Vector) -> Contents {
        // To be asked for the next one is to know that the last one was committed.
        self.account.acknowledged.fetch_max(self.pushed, Relaxed);
        self.pushed += 1;
        self.account.pushed.store(self.pushed, Relaxed);
        for (index, (slot, word)) in payload.iter_mut().zip(gradient.iter()).enumerate() {
            if index == WORDS / 2 {
                self.obey();
            }
            *slot = *word;
            dawdle(PAUSES);
        }
        let length = size_of::<Vector>() as u64;
        Contents { first_table: 0, tables: 1, encoding: Encoding::Dense, length }
    }
}

impl PushWords<'_> {
    /// Hangs, if the watchdog has ordered this life to, at the worst moment there is: with a
    /// gradient half copied, to be committed when the seat belongs to somebody else.
    fn obey(&self) {
        let order = self.area.order(self.seat);
        let mine = u64::from(self.epoch);
        // Whoever takes the order down sees to the stop, so that there is exactly one.
        if order.compare_exchange(mine, 0, Relaxed, Relaxed).is_ok() {
            // It cannot fail: the process is its own.
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }
}
