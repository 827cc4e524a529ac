//! Clocks: a learner that may start has every update that it is owed in its weights.

use std::sync::atomic::Ordering::Relaxed;

use protocol::bell::{Patience, Waiter};
use protocol::clock::{Slack, Timekeeper};
use protocol::platform::Word;
use protocol::run::Run;
use protocol::site::Site;

use super::both;
use crate::case::{Bound, Case, Recorder, Sampling};
use crate::ground::{Ground, Leaked};
use crate::model::Model;

pub(super) fn cases<M: Model>() -> Vec<Case> {
    vec![
        Case {
            name: "a_learner_at_clock_t_has_seen_every_update_up_to_t_minus_1_minus_slack",
            properties: &["P1", "P6"],
            outcomes: &["clock 2 of slack 0 holds [1, 1]", "clock 2 of slack 0 holds [1, 2]"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: |recorder| bound::<M>(recorder, 0, 2),
        },
        Case {
            name: "slack_lets_a_learner_run_ahead_and_no_further",
            properties: &["P1", "P6"],
            outcomes: &["clock 3 of slack 1 holds [1, 1]", "clock 3 of slack 1 holds [1, 2]"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: |recorder| bound::<M>(recorder, 1, 3),
        },
        Case {
            name: "a_dismissal_frees_who_waited_for_the_dismissed",
            properties: &["P1", "P7"],
            outcomes: &["free at [1, 0]"],
            loom: Some(Bound::Exhaustive),
            shuttle: Sampling::Concurrent,
            variants: 1,
            run: dismissal::<M>,
        },
    ]
}

fn apply<M: Model>(
    run: Run<'static, M, u64>,
    time: &mut Timekeeper<'static, M>,
    weights: &[M::U32; 2],
    learner: usize,
    clock: u64,
) {
    weights[learner].store(Site::Caller, clock as u32, Relaxed);
    if time.tick(learner, 0..1, clock) {
        run.ring_everybody(Site::ClockBell);
    }
}

fn weights<M: Model>() -> Leaked<[M::U32; 2]> {
    Leaked::new(Box::new([M::U32::new(0), M::U32::new(0)]))
}

fn timekeeper<M: Model>(run: Run<'static, M, u64>) -> Timekeeper<'static, M> {
    let mut time = Timekeeper::attach(run.clocks());
    time.admit(0);
    time.admit(1);
    time
}

/// Waits as learner 0 until `clock` is open, then copies.
fn start<M: Model>(
    run: Run<'static, M, u64>,
    weights: &[M::U32; 2],
    clock: u64,
    slack: u64,
) -> [u32; 2] {
    let waiter = Waiter::new(run.seats()[0].bell(), Patience::MODEL);
    waiter.wait(|| run.clocks().is_open(clock, Slack::Bounded(slack)).then_some(()));
    [0, 1].map(|learner| weights[learner].load(Site::Caller, Relaxed))
}

fn bound<M: Model>(recorder: &Recorder, slack: u64, clock: u64) {
    let ground = Ground::<M, u64>::new(2, 1);
    let (run, memory) = (ground.run(), weights::<M>());
    let weights = memory.get();
    let mut time = timekeeper(run);
    let ((), seen) = both::<M, _, _>(
        recorder,
        move || {
            apply(run, &mut time, weights, 0, 1);
            apply(run, &mut time, weights, 1, 1);
            apply(run, &mut time, weights, 1, 2);
        },
        move || start(run, weights, clock, slack),
    );
    for clock_seen in seen {
        let owed = clock - 1 - slack;
        assert!(u64::from(clock_seen) >= owed, "clock {clock}: holds {seen:?}, owed {owed} (P6)");
    }
    recorder.outcome(format!("clock {clock} of slack {slack} holds {seen:?}"));
}

fn dismissal<M: Model>(recorder: &Recorder) {
    let ground = Ground::<M, u64>::new(2, 1);
    let (run, memory) = (ground.run(), weights::<M>());
    let weights = memory.get();
    let mut time = timekeeper(run);
    let ((), seen) = both::<M, _, _>(
        recorder,
        move || {
            apply(run, &mut time, weights, 0, 1);
            if time.dismiss(1) {
                run.ring_everybody(Site::DismissBell);
            }
        },
        move || start(run, weights, 2, 0),
    );
    recorder.outcome(format!("free at {seen:?}"));
}
