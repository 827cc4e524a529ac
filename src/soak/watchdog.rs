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
//! A learner that hangs is given up *alive*. Its successor takes the seat, then the zombie is
//! woken: whatever it still does must be fenced, and it must find out and leave (P8).

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use protocol::journal::Phase;
use protocol::membership::State;
use protocol::site::Site;
use rustix::process::{Pid, Signal};

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

/// A learner that was given up while it hung.
struct Zombie {
    process: Process,
    learner: usize,
    epoch: u32,
    /// Wait until the successor is granted, not only seated.
    patient: bool,
    resumed: bool,
}

#[derive(Clone, Copy)]
enum Chore {
    Restart(Victim),
    Resume(Victim, Pid),
    Evict(usize, Pid),
}

/// The parent's state.
pub(crate) struct Watchdog<'m> {
    setup: &'m Setup,
    run: SoakRun<'m>,
    area: Area<'m>,
    spawner: Spawner,
    server: Option<Process>,
    learners: Vec<Option<Process>>,
    zombies: Vec<Zombie>,
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
            zombies: Vec::new(),
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
            self.wake_zombies();
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

    fn everybody_is_gone(&self) -> bool {
        self.server.is_none()
            && self.learners.iter().all(Option::is_none)
            && self.zombies.is_empty()
            && self.chores.is_empty()
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
        for mut zombie in std::mem::take(&mut self.zombies) {
            match zombie.process.news() {
                None => self.zombies.push(zombie),
                Some(News::Stopped) => {
                    // It had read an order before it was stopped otherwise: wake it again.
                    zombie.resumed = false;
                    self.zombies.push(zombie);
                }
                Some(news) => self.on_zombie_end(zombie.learner, news)?,
            }
        }
        Ok(())
    }

    fn on_stop(&mut self, victim: Victim) {
        let Some(process) = self.process(victim).as_ref() else { return };
        let (pid, due) = (process.pid(), Instant::now() + process.absence);
        let chore = match victim {
            Victim::Learner(learner) if !self.setup.sync.keeps_seats() => {
                Chore::Evict(learner, pid)
            }
            _ => Chore::Resume(victim, pid),
        };
        self.tally.hangs += 1;
        self.chores.push((due, chore));
    }

    fn on_end(&mut self, victim: Victim, news: News) -> Result<(), Failure> {
        let Some(process) = self.process(victim).take() else { return Ok(()) };
        let stopping = self.run.is_stopping();
        if let Victim::Learner(learner) = victim
            && (stopping || !self.setup.sync.keeps_seats())
        {
            self.give_up(learner);
        }
        match news {
            News::Killed(signal)
                if process.struck == Some(Harm::Kill) && signal == Signal::KILL.as_raw() =>
            {
                match victim {
                    Victim::Learner(learner) => self.tally.learner_kills[learner] += 1,
                    Victim::Server => {
                        self.tally.server_kills += 1;
                        let (phase, _) = self.run.journal().found();
                        self.tally.amid_update += u64::from(phase == Phase::Applying);
                    }
                }
                self.chores.push((Instant::now() + process.absence, Chore::Restart(victim)));
                Ok(())
            }
            News::Exited(code) if code == Exit::Done as i32 && stopping => Ok(()),
            _ => Err(self.unexpected(victim, news)),
        }
    }

    fn on_zombie_end(&mut self, learner: usize, news: News) -> Result<(), Failure> {
        match news {
            News::Exited(code) if code == Exit::Evicted as i32 => {
                self.tally.evicted += 1;
                Ok(())
            }
            News::Exited(code) if code == Exit::Done as i32 && self.run.is_stopping() => Ok(()),
            _ => Err(self.unexpected(Victim::Learner(learner), news)),
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
                    if let Some(process) = self.process(victim).as_mut().filter(|p| p.pid() == pid)
                    {
                        process.resume();
                    }
                }
                Chore::Evict(learner, pid) => self.evict(learner, pid)?,
            }
        }
        Ok(())
    }

    fn restart(&mut self, victim: Victim) -> Result<(), Failure> {
        let process = match victim {
            Victim::Server => self.spawner.server()?,
            Victim::Learner(learner) if self.run.is_stopping() => {
                self.give_up(learner);
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

    /// Gives up the life that holds the seat, unless it has left in good order.
    fn give_up(&mut self, learner: usize) {
        let seat = &self.run.seats()[learner];
        let standing = seat.standing();
        if !matches!(standing.state, State::Vacant | State::Leaving | State::Dead) {
            seat.mark_dead(learner as u32, standing.epoch);
        }
        self.run.ring_everybody(Site::WatchdogBell);
    }

    /// Gives up a learner that hangs, and replaces it.
    fn evict(&mut self, learner: usize, pid: Pid) -> Result<(), Failure> {
        let Some(process) = self.learners[learner].take_if(|process| process.pid() == pid) else {
            return Ok(());
        };
        let patient = process.struck == Some(Harm::Hang { amid_push: true });
        let epoch = self.run.seats()[learner].standing().epoch;
        self.give_up(learner);
        self.zombies.push(Zombie { process, learner, epoch, patient, resumed: false });
        self.restart(Victim::Learner(learner))
    }

    fn wake_zombies(&mut self) {
        for zombie in &mut self.zombies {
            let seat = &self.run.seats()[zombie.learner];
            let newest = if zombie.patient { seat.granted_epoch() } else { seat.standing().epoch };
            if !zombie.resumed && (newest > zombie.epoch || self.run.is_stopping()) {
                zombie.process.resume();
                zombie.resumed = true;
            }
        }
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
            if process.stopped || process.pid() != pid {
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
            (Harm::Hang { .. }, _) => {
                if let Victim::Learner(learner) = victim {
                    area.order(learner).store(0, Relaxed);
                }
                process.stop();
            }
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

    // State.

    /// Everything there is to know about a run that does not go on.
    fn describe(&self) -> String {
        let (phase, intent) = self.run.journal().found();
        let mut lines = vec![format!(
            "version {}, stopping: {}, journal: {phase:?} towards version {} (learner {}, ticket {}), \
             server: {}, blows left: {}",
            self.version(),
            self.run.is_stopping(),
            intent.version,
            intent.header.learner,
            intent.header.ticket,
            describe_process(self.server.as_ref()),
            self.blows.len() + usize::from(self.armed.is_some()),
        )];
        for (learner, seat) in self.run.seats().iter().enumerate() {
            let standing = seat.standing();
            let account = self.area.life(learner, standing.epoch);
            lines.push(format!(
                "seat {learner}: {:?} in life {}, granted {}, applied clock {}, pushed {}, process: {}",
                standing.state,
                standing.epoch,
                seat.granted_epoch(),
                self.run.clocks().applied(0, learner),
                account.map_or(0, |account| account.pushed.load(Relaxed)),
                describe_process(self.learners[learner].as_ref()),
            ));
        }
        for zombie in &self.zombies {
            lines.push(format!(
                "zombie: learner {} in life {}, woken: {}",
                zombie.learner, zombie.epoch, zombie.resumed
            ));
        }
        lines.join("\n")
    }
}

fn describe_process(process: Option<&Process>) -> &'static str {
    match process {
        None => "gone",
        Some(process) if process.stopped => "stopped",
        Some(_) => "running",
    }
}
