//! The whole system: a server and up to four learners with their three threads each, too large for
//! loom, sampled by shuttle; with deaths of any process between any two accesses.

use protocol::bell::{Doorbell, Patience, Waiter};
use protocol::clock::Slack;
use protocol::error::JoinError;
use protocol::handoff::Handoff;
use protocol::learner::{
    Compute, Contents, Fetched, Life, Loaded, Pull, PullCopy, PullPolicy, Push, PushCopy, Train,
};
use protocol::machine::Machine;
use protocol::membership::{Standing, State};
use protocol::ring::{Consumer, Encoding, Producer};
use protocol::run::Run;
use protocol::server::{Policy, Synchrony};
use protocol::site::Site;

use super::run::{audit, serve};
use crate::books::{BLOCKS, Log, Posting, Weights, WeightsView, count};
use crate::case::{Case, Recorder, Sampling};
use crate::ground::{FIRST_TICKET, Ground, Leaked};
use crate::model::{Join, Model};
use crate::mortal::{Mortal, Process};

pub(super) fn cases<M: Model>() -> Vec<Case> {
    let case = |name, properties, outcomes, run| Case {
        name,
        properties,
        outcomes,
        loom: None,
        shuttle: Sampling::Concurrent,
        variants: 1,
        run,
    };
    vec![
        case(
            "four_learners_run_free_and_every_gradient_is_applied_once",
            &["P1", "P2", "P5", "P10"],
            &["applied 8"],
            |recorder| System::<M> { clocks: 2, ..System::free() }.check(recorder),
        ),
        case(
            "four_learners_with_slack_never_run_further_ahead",
            &["P1", "P2", "P6"],
            &["applied 12"],
            |recorder| {
                let slack = Slack::Bounded(1);
                System::<M> { clocks: 3, slack, ..System::free() }.check(recorder);
            },
        ),
        case(
            "rounds_of_four_learners_do_not_depend_on_timing",
            &["P1", "P2", "P6"],
            &["applied 12 in rounds"],
            |recorder| System::<M> { clocks: 3, ..System::rounds() }.check(recorder),
        ),
        case(
            "consistent_pulls_see_one_version_under_constant_updates",
            &["P1", "P5"],
            &["applied 8"],
            |recorder| {
                System::<M> { clocks: 2, consistent: true, ..System::free() }.check(recorder);
            },
        ),
        case(
            "a_budget_among_four_learners_is_exact_and_everybody_returns",
            &["P1", "P11"],
            &["applied 5"],
            |recorder| {
                System::<M> { clocks: 3, budget: Some(5), ..System::free() }.check(recorder);
            },
        ),
        case(
            "a_budget_in_the_middle_of_a_round_is_exact",
            &["P1", "P11"],
            &["applied 5"],
            |recorder| {
                System::<M> { clocks: 3, budget: Some(5), ..System::rounds() }.check(recorder);
            },
        ),
        case(
            "a_stop_at_any_moment_drains_and_everybody_returns",
            &["P1", "P10"],
            &["stopped"],
            |recorder| System::<M> { clocks: 3, stop: true, ..System::free() }.check(recorder),
        ),
        case(
            "learners_killed_anywhere_and_rejoining_neither_repeat_nor_skip",
            &["P1", "P2", "P7", "P8"],
            &["survived"],
            |recorder| {
                let slack = Slack::Bounded(1);
                let mortal = Mortals { learners: 2, server: 0 };
                System::<M> { learners: 3, clocks: 3, slack, mortal, ..System::free() }
                    .check(recorder);
            },
        ),
        case(
            "a_server_killed_anywhere_loses_repeats_and_tears_nothing",
            &["P1", "P2", "P9"],
            &["survived"],
            |recorder| {
                let mortal = Mortals { learners: 0, server: 2 };
                System::<M> { learners: 2, clocks: 3, mortal, ..System::free() }.check(recorder);
            },
        ),
        case(
            "rounds_do_not_depend_on_who_is_killed_when",
            &["P1", "P2", "P6", "P8", "P9"],
            &["applied 6 in rounds"],
            |recorder| {
                let mortal = Mortals { learners: 1, server: 1 };
                System::<M> { learners: 2, clocks: 3, mortal, ..System::rounds() }.check(recorder);
            },
        ),
        case(
            "rounds_apply_what_the_dead_have_committed",
            &["P1", "P2", "P7", "P8"],
            &["survived"],
            |recorder| {
                let mortal = Mortals { learners: 1, server: 0 };
                let keeps_place = false;
                System::<M> { learners: 3, clocks: 3, mortal, keeps_place, ..System::rounds() }
                    .check(recorder);
            },
        ),
        case(
            "a_latecomer_and_an_early_leaver_hold_nobody_up",
            &["P1", "P6", "P7"],
            &["survived"],
            |recorder| {
                let slack = Slack::Bounded(0);
                System::<M> { learners: 3, clocks: 3, slack, uneven: true, ..System::free() }
                    .check(recorder);
            },
        ),
    ]
}

/// How many lives of each kind of process end by a kill before one is left to finish.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mortals {
    learners: u64,
    server: u64,
}

/// A kill falls within this many accesses: about as many as a short life makes.
const LIFETIME: u64 = 250;

/// What to run.
struct System<M> {
    learners: usize,
    /// Clocks that each learner computes.
    clocks: u64,
    slack: Slack,
    synchrony: Synchrony,
    consistent: bool,
    budget: Option<u64>,
    /// Somebody asks everybody to stop at any moment.
    stop: bool,
    mortal: Mortals,
    /// Whether a killed learner rejoins without being given up: it keeps its place in the round.
    keeps_place: bool,
    /// Learner *i* computes *i* clocks fewer than the others.
    uneven: bool,
    platform: std::marker::PhantomData<M>,
}

impl<M: Model> System<M> {
    fn free() -> Self {
        Self {
            learners: 4,
            clocks: 2,
            slack: Slack::Unbounded,
            synchrony: Synchrony::Immediate,
            consistent: false,
            budget: None,
            stop: false,
            mortal: Mortals { learners: 0, server: 0 },
            keeps_place: false,
            uneven: false,
            platform: std::marker::PhantomData,
        }
    }

    fn rounds() -> Self {
        let synchrony = Synchrony::Averaged;
        Self { slack: Slack::Bounded(0), synchrony, keeps_place: true, ..Self::free() }
    }

    /// One execution.
    fn check(self, recorder: &Recorder) {
        let ground = Ground::<Mortal<M>, u64>::new(self.learners, 2);
        let weights = Weights::<Mortal<M>>::new(self.learners);
        let (run, view, log) = (ground.run(), weights.view(), Log::default());
        let policy = Policy {
            synchrony: self.synchrony,
            journalled: true,
            budget: self.budget,
            quorum: if self.uneven { 1 } else { self.learners },
        };
        let (books, server_deaths) = (log.clone(), self.mortal.server);
        let server =
            M::spawn(move || supervise_server::<M>(run, policy, view, books, server_deaths));
        let learners: Vec<_> = (0..self.learners)
            .map(|learner| {
                let learner = Learner {
                    run,
                    view,
                    learner,
                    last_clock: self.clocks - if self.uneven { learner as u64 } else { 0 },
                    pull: PullPolicy { slack: self.slack, consistent: self.consistent },
                    keeps_place: self.keeps_place,
                    steady: self.mortal.learners == 0 && !self.uneven,
                };
                let deaths = self.mortal.learners;
                M::spawn(move || learner.supervise(deaths))
            })
            .collect();
        let stopper = self.stop.then(|| {
            M::spawn(move || {
                (0..M::choose(LIFETIME)).for_each(|_| M::pause());
                run.request_stop();
            })
        });
        learners.into_iter().for_each(Join::join);
        stopper.into_iter().for_each(Join::join);
        if self.budget.is_none() && !self.stop {
            run.request_stop();
        }
        server.join();
        self.judge(recorder, run, view, &log);
    }

    fn judge(
        &self,
        recorder: &Recorder,
        run: Run<'static, Mortal<M>, u64>,
        view: WeightsView<Mortal<M>>,
        log: &Log,
    ) {
        let applied = audit(run, view, log);
        if self.budget.is_none() {
            for learner in 0..self.learners {
                let mut consumer = Consumer::attach(run.ring(learner), learner as u32, 1, 64);
                assert!(consumer.is_empty(), "committed, so applied (P10)");
            }
        }
        let undisturbed = self.keeps_place && self.budget.is_none();
        if undisturbed {
            assert_eq!(log.postings(), self.rounds_in_order(), "BSP does not depend on timing");
        }
        recorder.outcome(match (self.stop, self.mortal, self.uneven) {
            (true, ..) => "stopped".to_owned(),
            _ if undisturbed => format!("applied {applied} in rounds"),
            (false, Mortals { learners: 0, server: 0 }, false) => format!("applied {applied}"),
            _ => "survived".to_owned(),
        });
    }

    /// What a BSP run applies, in order, whatever happens.
    fn rounds_in_order(&self) -> Vec<Posting> {
        let learners = self.learners as u32;
        let round = |clock| {
            (0..learners).map(move |learner| Posting {
                learner,
                ticket: (FIRST_TICKET + clock - 1) % (1 << 48),
                value: value(learner as usize, clock),
                share: learners,
            })
        };
        (1..=self.clocks).flat_map(round).collect()
    }
}

/// The gradient of a learner at a clock.
fn value(learner: usize, clock: u64) -> u64 {
    learner as u64 * 100 + clock
}

/// Starts servers until one is not killed.
fn supervise_server<M: Model>(
    run: Run<'static, Mortal<M>, u64>,
    policy: Policy,
    view: WeightsView<Mortal<M>>,
    log: Log,
    deaths: u64,
) {
    for death in 0..=deaths {
        let process = if death < deaths {
            Process::killed_after(M::choose(LIFETIME))
        } else {
            Process::immortal()
        };
        let log = log.clone();
        if process.thread::<M, _>(|| (), || serve(run, policy, view, log)).is_some() {
            return;
        }
    }
}

/// One learner and what it is to do.
struct Learner<M: Model> {
    run: Run<'static, Mortal<M>, u64>,
    view: WeightsView<Mortal<M>>,
    learner: usize,
    last_clock: u64,
    pull: PullPolicy,
    /// Whether a killed learner rejoins without being given up: it keeps its place in the round.
    keeps_place: bool,
    /// Whether nobody dies, joins late or leaves early: then P6 holds for every learner.
    steady: bool,
}

impl<M: Model> Clone for Learner<M> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

type Joined<M> = (Life<'static, Mortal<M>, u64>, Producer<'static, Mortal<M>, u64>);

impl<M: Model> Learner<M> {
    fn waiter(&self) -> Waiter<'static, Mortal<M>> {
        Waiter::new(self.run.seats()[self.learner].bell(), Patience::MODEL)
    }

    /// Lives until a life ends in good order.
    fn supervise(self, deaths: u64) {
        let seat = &self.run.seats()[self.learner];
        for death in 0..=deaths {
            let process = if death < deaths {
                Process::killed_after(M::choose(LIFETIME))
            } else {
                Process::immortal()
            };
            if self.live(&process) {
                return;
            }
            // The watchdog: every thread of the process has been waited for.
            let Standing { state, epoch } = seat.standing();
            if state != State::Vacant && !self.keeps_place {
                seat.mark_dead(self.learner as u32, epoch);
                self.run.ring_everybody(Site::WatchdogBell);
            }
        }
    }

    fn join(&self) -> Result<Joined<M>, JoinError> {
        match self.run.seats()[self.learner].standing() {
            Standing { state: State::Vacant, .. } => {
                Life::join(self.run, self.learner, self.waiter())
            }
            Standing { epoch, .. } => Life::rejoin(self.run, self.learner, epoch, self.waiter()),
        }
    }

    /// One life with its three threads; false if it was killed.
    fn live(&self, process: &Process) -> bool {
        let wake =
            |run: Run<'static, Mortal<M>, u64>| move || run.ring_everybody(Site::WatchdogBell);
        let joined = process.thread::<M, _>(wake(self.run), || self.join());
        let (life, producer) = match joined {
            None => return false,
            Some(Ok(joined)) => joined,
            Some(Err(JoinError::Stopping)) => return true,
            Some(Err(error)) => panic!("{error}"),
        };
        let bell: &'static Doorbell<_> = self.run.seats()[self.learner].bell();
        let mut weights_handoff = Leaked::new(Box::new(Handoff::new(Fetched::<Copied>::default())));
        let mut gradients_handoff = Leaked::new(Box::new(Handoff::new(Loaded::<u64>::default())));
        let (weights_out, weights_in) = weights_handoff.get_mut().split(bell);
        let (gradients_out, gradients_in) = gradients_handoff.get_mut().split(bell);
        let waiter = self.waiter();

        let (mine, thread, run) = (self.clone(), process.clone(), self.run);
        let train = M::spawn(move || {
            thread.thread::<M, _>(wake(run), || {
                let copied = Copied::default();
                Train::new(life, weights_in, gradients_out, mine, copied, 0).run(waiter);
            })
        });
        let (mine, thread) = (self.clone(), process.clone());
        let pull = M::spawn(move || {
            thread.thread::<M, _>(wake(run), || {
                let policy = mine.pull;
                Pull::new(life, weights_out, mine, policy).run(waiter);
            })
        });
        let pushed = process.thread::<M, _>(wake(run), || {
            let mut push = Push::new(life, gradients_in, producer, self.clone());
            push.run(waiter);
            push.into_producer()
        });
        let (trained, pulled) = (train.join(), pull.join());
        let (Some(producer), Some(()), Some(())) = (pushed, trained, pulled) else {
            return false;
        };
        process.thread::<M, _>(wake(run), || life.leave(producer)).is_some()
    }
}

/// Weights as a learner has them.
#[derive(Clone, Default)]
struct Copied {
    blocks: [u32; BLOCKS],
    tally: Vec<u64>,
}

impl<M: Model> Compute<u64, Copied> for Learner<M> {
    fn compute(&mut self, clock: u64, version: u64, weights: &Copied, gradient: &mut u64) -> bool {
        let holds = weights.blocks.map(|block| u64::from(count(block)));
        assert!(
            holds.iter().all(|holds| *holds >= version),
            "claims {version}, holds {holds:?} (P5)"
        );
        if self.pull.consistent {
            assert_eq!(holds, [version; BLOCKS], "one version (P5)");
        }
        if let (true, Slack::Bounded(slack)) = (self.steady, self.pull.slack) {
            let owed = clock.saturating_sub(1 + slack);
            let tally = &weights.tally;
            // Weights that were never pulled have no tally at all: they hold nothing of anybody.
            let seen = |learner| tally.get(learner).copied().unwrap_or(0);
            let learners = self.run.shape().learners;
            assert!((0..learners).all(|l| seen(l) >= owed), "clock {clock}: {tally:?} (P6)");
        }
        *gradient = value(self.learner, clock);
        clock <= self.last_clock
    }
}

impl<M: Model> PullCopy<Copied> for Learner<M> {
    fn pull(&mut self, weights: &mut Copied) {
        *weights = Copied { blocks: self.view.copy(), tally: self.view.tally() };
    }

    fn collect(&mut self, weights: &mut Copied) {
        let blocks = self.view.copy_snapshot(self.learner);
        *weights = Copied { blocks, tally: self.view.tally() };
    }
}

impl<M: Model> PushCopy<u64, u64> for Learner<M> {
    fn push(&mut self, gradient: &mut u64, _: usize, payload: &mut u64) -> Contents {
        *payload = *gradient;
        Contents { first_table: 0, tables: 1, encoding: Encoding::Dense, length: 8 }
    }
}
