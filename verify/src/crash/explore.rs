//! Every kill of a scenario, compared with the run without; and the same on mutants.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use protocol::journal::Phase;
use protocol::platform::Platform;
use protocol::site::Site;

use super::outcome::Outcome;
use super::recorded::Recorded;
use super::scenario::{Comparison, Scenario, catalogue};
use super::stage::{Kill, Stage, World};
use crate::books::{BLOCKS, Posting, replay};
use crate::mutant::{Mutant, with_mutation};

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Kills between two stores of the program.
    pub prefixes: usize,
    /// Kills between two stores of a program that the compiler has reordered.
    pub reordered: usize,
    /// The stores after which there was a kill.
    pub after: BTreeSet<Site>,
}

impl Tally {
    fn count(&mut self, kill: &Kill) {
        *(if kill.image.is_prefix() { &mut self.prefixes } else { &mut self.reordered }) += 1;
        self.after.extend(kill.image.last);
    }
}

/// A kill after which the run went wrong.
#[derive(Clone, Debug)]
pub struct Breach {
    /// The kills, in a row; none if the run goes wrong without.
    pub kills: Vec<Kill>,
    /// What went wrong.
    pub message: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kill in &self.kills {
            write!(f, "killed in act {} {}; ", kill.act, kill.image)?;
        }
        write!(f, "{}", self.message)
    }
}

/// Performs `scenario` with every kill, or two in a row, that there is.
pub fn explore<P: Platform>(scenario: &Scenario<P>) -> Result<Tally, Breach> {
    let world = World::new(scenario.learners, scenario.capacity);
    let reference = with_mutation(None, || Reference::of(scenario, &world));
    let mut tally = Tally::default();
    Explorer { scenario, world: &world, reference: &reference }.kill_after(&[], &mut tally)?;
    Ok(tally)
}

/// The run without a kill, in the protocol without a mutation: how it must end, by itself and for
/// every run that is compared with it.
struct Reference {
    outcome: Outcome,
    postings: Vec<Posting>,
    weights: BTreeSet<[u32; BLOCKS]>,
}

impl Reference {
    fn of<P: Platform>(scenario: &Scenario<P>, world: &World<P>) -> Self {
        let mut stage = Stage::new(scenario, world, None, &[]);
        (scenario.script)(&mut stage);
        let (outcome, postings) = (stage.outcome(), stage.postings());
        stage.assert_in_order();
        assert_eq!(replay(&postings), outcome.weights, "{}: weights", scenario.name);
        assert_eq!(postings.len() as u64, outcome.version, "{}: version", scenario.name);
        assert!(scenario.policy.budget.is_none_or(|budget| budget == outcome.version), "P11");
        assert!(outcome.phase == Phase::Idle && !outcome.writing && outcome.remaining == 0);
        let mut weights = BTreeSet::from([outcome.weights]);
        if scenario.comparison == Comparison::EachInOrder {
            let streams = (0..scenario.learners as u32)
                .map(|learner| postings.iter().filter(|p| p.learner == learner).copied().collect())
                .collect();
            merge(streams, &mut Vec::new(), &mut weights);
        }
        Self { outcome, postings, weights }
    }

    fn compare(&self, outcome: &Outcome, postings: &[Posting]) {
        for posting in postings {
            assert!(self.postings.contains(posting), "not so without a kill: {posting:?}");
        }
        assert!(self.weights.contains(&outcome.weights), "weights {:x?}", outcome.weights);
        let outcome = Outcome { weights: self.outcome.weights, ..outcome.clone() };
        assert_eq!(outcome, self.outcome, "found (left), expected (right)");
    }
}

/// The weights after every order that keeps the order of each stream.
fn merge(
    streams: Vec<Vec<Posting>>,
    order: &mut Vec<Posting>,
    weights: &mut BTreeSet<[u32; BLOCKS]>,
) {
    if streams.iter().all(Vec::is_empty) {
        weights.insert(replay(order));
    }
    for stream in 0..streams.len() {
        let mut rest = streams.clone();
        if !rest[stream].is_empty() {
            order.push(rest[stream].remove(0));
            merge(rest, order, weights);
            order.pop();
        }
    }
}

struct Explorer<'e, P: Platform> {
    scenario: &'e Scenario<P>,
    world: &'e World<P>,
    reference: &'e Reference,
}

impl<P: Platform> Explorer<'_, P> {
    /// Performs with these kills, then with each possible next one.
    fn kill_after(&self, plan: &[Kill], tally: &mut Tally) -> Result<(), Breach> {
        let more = plan.len() < self.scenario.kills;
        let performed = quietly(|| self.perform(plan, more));
        let kills = performed.map_err(|message| Breach { kills: plan.to_vec(), message })?;
        if let Some(last) = plan.last() {
            tally.count(last);
        }
        let mut plan = plan.to_vec();
        for kill in kills {
            plan.push(kill);
            self.kill_after(&plan, tally)?;
            plan.pop();
        }
        Ok(())
    }

    fn perform(&self, plan: &[Kill], more: bool) -> Vec<Kill> {
        let expected = Some(self.reference.postings.as_slice());
        let mut stage = Stage::new(self.scenario, self.world, expected, plan);
        (self.scenario.script)(&mut stage);
        self.reference.compare(&stage.outcome(), &stage.postings());
        if more { stage.next_kills() } else { Vec::new() }
    }
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`; a panic becomes its message and prints nothing.
fn quietly<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                loud(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    IS_QUIET.set(false);
    result.map_err(|payload| message_of(payload.as_ref()))
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

/// The first scenario that notices, by some kill, that the protocol is broken at `site`, and what
/// it noticed.
pub fn crash_breach(site: Site) -> Option<(&'static str, Breach)> {
    catalogue::<Mutant<Recorded>>().into_iter().find_map(|scenario| {
        let breach = with_mutation(Some(site), || explore(&scenario)).err()?;
        Some((scenario.name, breach))
    })
}
