//! The parent of a soak: deals the blows, sees who dies, and puts somebody else in the place.
//!
//! One loop on one thread, many times a millisecond: look for news of every child, do what has
//! become due, deal the next blow. Nothing in it waits, so nothing in it can hang; a deadline ends
//! it with the state of every seat if the others do.
//!
//! What the watchdog does to the run is what a production watchdog would do, and nothing else:
//! mark a dead learner's life as dead, ring everybody, start a successor. Under BSP it starts the
//! successor at once instead, and the seat is never given up, so that the rounds stay complete.
//!
//! A learner that hangs is given up *alive*: the others go on without it. Then it is woken, and
//! whatever it still tries to commit must be fenced, and it must find out and leave (P8). Only
//! then does its successor take the seat: the slots of a ring are memory that a life writes
//! *before* its commit is refused, so two lives must never write into one ring at once.

mod state;

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use protocol::journal::Phase;
use protocol::membership::State;
use protocol::ring::Consumer;
use protocol::site::Site;
use rustix::process::{Pid, Signal};

use super::audit::Seal;
use super::children::{News, Process, Spawner};
use super::memory::{Area, SoakRun};
use super::plan::{Blow, Harm, Victim};
use super::{Exit, Failure, Setup};

/// Time between two rounds of the loop.
const TICK: Duration = Duration::from_micros(100);

/// How long an ordered hang may take until the watchdog stops the learner itself.
const ORDER_PATIENCE: Duration = Duration::from_millis(20);

/// What was done to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// SIGKILLs that a process died of, by seat.
    pub(crate) learner_kills: Vec<u64>,
    /// SIGKILLs that a server died of.
    pub(crate) server_kills: u64,
    /// Servers that died in the middle of an update.
    pub(crate) amid_update: u64,
    /// Processes that were stopped.
    pub(crate) hangs: u64,
    /// Learners that woke up on a seat that was no longer theirs, and left.
    pub(crate) evicted: u64,
    /// Rings that were sealed before their learner woke up.
    pub(crate) seals: Vec<Seal>,
}

impl Tally {
    /// All SIGKILLs.
    pub(crate) fn kills(&self) -> u64 {
        self.learner_kills.iter().sum::<u64>() + self.server_kills
    }
}

/// A blow whose version has come.
#[derive(Clone, Copy)]
struct Armed {
    blow: Blow,
    falls_at: Instant,
    /// The process that has been ordered to stop itself.
    ordered: Option<Pid>,
}

#[derive(Clone, Copy)]
enum Chore {
    /// Put somebody in the place of the dead.
    Restart(Victim),
    /// Let it go on as if nothing had been.
    Resume(Victim, Pid),
    /// Give it up while it hangs.
    GiveUp(usize, Pid),
    /// Let it find out that it was given up, once the others have come to this version.
    Wake(usize, Pid, u64),
}

/// The parent's state.
pub(crate) struct Watchdog<'m> {
    setup: &'m Setup,
    run: SoakRun<'m>,
    area: Area<'m>,
    spawner: Spawner,
    server: Option<Process>,
    learners: Vec<Option<Process>>,
    chores: Vec<(Instant, Chore)>,
    blows: VecDeque<Blow>,
    armed: Option<Armed>,
    tally: Tally,
}

impl<'m> Watchdog<'m> {
    /// Starts everybody.
    pub(crate) fn start(
        setup: &'m Setup,
        run: SoakRun<'m>,
        area: Area<'m>,
        spawner: Spawner,
        blows: Vec<Blow>,
    ) -> Result<Self, Failure> {
        let mut watchdog = Self {
            setup,
            run,
            area,
            spawner,
            server: None,
            learners: (0..setup.learners).map(|_| None).collect(),
            chores: Vec::new(),
            blows: blows.into(),
            armed: None,
            tally: Tally { learner_kills: vec![0; setup.learners], ..Tally::default() },
        };
        watchdog.set_gate();
        watchdog.restart(Victim::Server)?;
        for learner in 0..setup.learners {
            watchdog.restart(Victim::Learner(learner))?;
        }
        Ok(watchdog)
    }

    /// Watches over the run until everybody has returned.
    pub(crate) fn watch(
        mut self,
        deadline: Instant,
        interrupted: &AtomicBool,
        mut progress: impl FnMut(u64, &Tally),
    ) -> Result<Tally, Failure> {
        while !self.everybody_is_gone() {
            self.hear()?;
            self.do_chores()?;
            self.strike();
            self.stop_when_done();
            progress(self.version(), &self.tally);
            if interrupted.load(Relaxed) {
                return Err(Failure::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(Failure::Hung { state: self.describe() });
            }
            thread::sleep(TICK);
        }
        Ok(self.tally)
    }

    fn version(&self) -> u64 {
        self.run.stamp().version()
    }

    /// Whether learners may leave: the run is stopping, or the budget is spent and the server is
    /// about to say so, ring by ring.
    fn is_ending(&self) -> bool {
        let spent = !self.setup.drain && self.version() >= self.setup.gradients;
        spent || self.run.is_stopping()
    }

    fn everybody_is_gone(&self) -> bool {
        self.server.is_none() && self.learners.iter().all(Option::is_none) && self.chores.is_empty()
    }

    fn process(&mut self, victim: Victim) -> &mut Option<Process> {
        match victim {
            Victim::Server => &mut self.server,
            Victim::Learner(learner) => &mut self.learners[learner],
        }
    }

    fn everybody(&self) -> impl Iterator<Item = Victim> + use<> {
        (0..self.learners.len()).map(Victim::Learner).chain([Victim::Server])
    }

    // News.

    fn hear(&mut self) -> Result<(), Failure> {
        for victim in self.everybody() {
            let Some(news) = self.process(victim).as_mut().and_then(Process::news) else {
                continue;
            };
            match news {
                News::Stopped => self.on_stop(victim),
                News::Exited(_) | News::Killed(_) => self.on_end(victim, news)?,
            }
        }
        Ok(())
    }

    fn on_stop(&mut self, victim: Victim) {
        let Some(process) = self.process(victim).as_ref() else { return };
        let (pid, due) = (process.pid(), Instant::now() + process.absence);
        let chore = match victim {
            Victim::Learner(learner) if !self.setup.keeps_seats() => Chore::GiveUp(learner, pid),
            _ => Chore::Resume(victim, pid),
        };
        self.tally.hangs += 1;
        self.chores.push((due, chore));
    }

    fn on_end(&mut self, victim: Victim, news: News) -> Result<(), Failure> {
        let Some(process) = self.process(victim).take() else { return Ok(()) };
        let ending = self.is_ending();
        if let Victim::Learner(learner) = victim
            && (ending || !self.setup.keeps_seats())
        {
            self.mark_dead(learner);
        }
        let (killed, done, evicted) = (
            News::Killed(Signal::KILL.as_raw()),
            News::Exited(Exit::Done as i32),
            News::Exited(Exit::Evicted as i32),
        );
        match process.struck {
            Some(Harm::Kill) if news == killed => self.count_kill(victim),
            _ if process.given_up && news == evicted => self.tally.evicted += 1,
            _ if news == done && ending => return Ok(()),
            _ => return Err(self.unexpected(victim, news)),
        }
        self.chores.push((Instant::now() + process.absence, Chore::Restart(victim)));
        Ok(())
    }

    fn count_kill(&mut self, victim: Victim) {
        match victim {
            Victim::Learner(learner) => self.tally.learner_kills[learner] += 1,
            Victim::Server => {
                self.tally.server_kills += 1;
                let (phase, _) = self.run.journal().found();
                self.tally.amid_update += u64::from(phase == Phase::Applying);
            }
        }
    }

    fn unexpected(&self, victim: Victim, news: News) -> Failure {
        Failure::Child { who: victim.to_string(), news: news.to_string(), state: self.describe() }
    }

    // Chores.

    fn do_chores(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        let (due, later) = self.chores.iter().partition(|(at, _)| *at <= now);
        self.chores = later;
        let due: Vec<(Instant, Chore)> = due;
        for (_, chore) in due {
            match chore {
                Chore::Restart(victim) => self.restart(victim)?,
                Chore::Resume(victim, pid) => {
                    if let Some(process) = self.alive(victim, pid) {
                        process.struck = None;
                        process.resume();
                    }
                }
                Chore::GiveUp(learner, pid) => self.give_up(learner, pid),
                Chore::Wake(learner, pid, version) => self.wake(learner, pid, version),
            }
        }
        Ok(())
    }

    /// The victim, if it still is the same process.
    fn alive(&mut self, victim: Victim, pid: Pid) -> Option<&mut Process> {
        self.process(victim).as_mut().filter(|process| process.pid() == pid)
    }

    fn restart(&mut self, victim: Victim) -> Result<(), Failure> {
        let process = match victim {
            Victim::Server => self.spawner.server()?,
            Victim::Learner(learner) if self.is_ending() => {
                self.mark_dead(learner);
                return Ok(());
            }
            Victim::Learner(learner) => {
                let standing = self.run.seats()[learner].standing();
                let dead = (standing.state != State::Vacant).then_some(standing.epoch);
                self.spawner.learner(learner, dead)?
            }
        };
        *self.process(victim) = Some(process);
        Ok(())
    }

    /// Marks the life that holds the seat as dead, unless it has left in good order or nobody
    /// holds it. Returns whether there was somebody.
    fn mark_dead(&mut self, learner: usize) -> bool {
        let seat = &self.run.seats()[learner];
        let standing = seat.standing();
        let held = !matches!(standing.state, State::Vacant | State::Leaving | State::Dead);
        let marked = held && seat.mark_dead(learner as u32, standing.epoch);
        self.run.ring_everybody(Site::WatchdogBell);
        marked
    }

    /// Gives up a learner that hangs. One that hangs before it has taken the seat has nothing to
    /// lose yet, and may go on.
    fn give_up(&mut self, learner: usize, pid: Pid) {
        let victim = Victim::Learner(learner);
        if let Some(process) = self.alive(victim, pid) {
            let due = Instant::now() + process.absence;
            let chore = if self.mark_dead(learner) {
                Chore::Wake(learner, pid, self.version() + self.setup.held_up())
            } else {
                Chore::Resume(victim, pid)
            };
            self.chores.push((due, chore));
        }
    }

    /// Wakes a learner that was given up. One that stopped with a gradient half copied has to wait
    /// until the server has sealed its ring, so that its commit must fail, and until the others
    /// have come further than they could if it still counted (P7).
    fn wake(&mut self, learner: usize, pid: Pid, version: u64) {
        let limit = self.run.shape().payload_limit;
        let mut ring = Consumer::attach(self.run.ring(learner), learner as u32, 1, limit);
        let sealed = ring.is_finished();
        let epoch = self.run.seats()[learner].standing().epoch;
        let reachable = version.min(self.area.gate.load(Relaxed));
        let held_up = self.others_work(learner) && self.version() < reachable;
        let too_early = (held_up || !sealed) && !self.is_ending();
        let Some(process) = self.alive(Victim::Learner(learner), pid) else { return };
        let amid_push = process.struck == Some(Harm::Hang { amid_push: true });
        if amid_push && too_early {
            self.chores.push((Instant::now(), Chore::Wake(learner, pid, version)));
            return;
        }
        process.given_up = true;
        process.resume();
        if sealed {
            self.tally.seals.push(Seal { learner, epoch, tickets: ring.next_ticket() });
        }
    }

    /// Whether somebody else can make progress.
    fn others_work(&self, learner: usize) -> bool {
        let others = self.learners.iter().enumerate().filter(|(other, _)| *other != learner);
        let is_well = |process: &Process| process.struck.is_none();
        self.server.as_ref().is_some_and(is_well)
            && others.filter_map(|(_, process)| process.as_ref()).any(is_well)
    }

    // Blows.

    fn strike(&mut self) {
        if self.armed.is_none()
            && let Some(blow) = self.blows.front().copied()
            && self.version() >= blow.version
        {
            self.blows.pop_front();
            let falls_at = Instant::now() + blow.delay;
            self.armed = Some(Armed { blow, falls_at, ordered: None });
        }
        if let Some(armed) = self.armed.filter(|armed| armed.falls_at <= Instant::now()) {
            self.armed = self.deal(armed);
        }
        self.set_gate();
    }

    /// Deals the blow; what comes back has yet to be dealt.
    fn deal(&mut self, mut armed: Armed) -> Option<Armed> {
        let Blow { victim, harm, absence, .. } = armed.blow;
        let (run, area) = (self.run, self.area);
        let Some(process) = self.process(victim).as_mut() else { return Some(armed) };
        if let Some(pid) = armed.ordered {
            // It has stopped, and may have been resumed, woken or replaced since.
            let woken = process.struck.is_none() || process.given_up;
            if process.stopped || woken || process.pid() != pid {
                return None;
            }
            if armed.falls_at + ORDER_PATIENCE > Instant::now() {
                return Some(armed);
            }
        } else if process.struck.is_some() {
            return Some(armed);
        }
        process.absence = absence;
        process.struck = Some(harm);
        match (harm, victim) {
            (Harm::Kill, _) => process.kill(),
            (Harm::Hang { amid_push: true }, Victim::Learner(learner))
                if armed.ordered.is_none() =>
            {
                let epoch = run.seats()[learner].standing().epoch;
                area.order(learner).store(u64::from(epoch), Relaxed);
                armed.ordered = Some(process.pid());
                return Some(armed);
            }
            (Harm::Hang { amid_push: true }, Victim::Learner(learner))
                if area.order(learner).swap(0, Relaxed) == 0 =>
            {
                // It has taken the order down and is about to stop.
                return Some(armed);
            }
            (Harm::Hang { .. }, _) => process.stop(),
        }
        None
    }

    fn set_gate(&self) {
        let next = self.armed.map(|armed| armed.blow).or(self.blows.front().copied());
        let last = if self.setup.drain { self.setup.gradients } else { u64::MAX };
        self.area.gate.store(next.map_or(last, |blow| blow.gate), Relaxed);
    }

    fn stop_when_done(&self) {
        let done = self.blows.is_empty() && self.armed.is_none();
        if self.setup.drain
            && done
            && self.version() >= self.setup.gradients
            && !self.run.is_stopping()
        {
            self.run.request_stop();
        }
    }
}
