//! What is acted out, and who is killed in it.

use protocol::platform::Platform;
use protocol::server::{Policy, Synchrony};

use super::actions::Revival;
use super::stage::{Actor, Stage};

/// How the weights of a run with a kill compare with those of the run without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// They are the same, bit for bit.
    Exact,
    /// They are those of the same gradients, each learner's in its order, bit for bit: a server
    /// that restarts may serve the learners in another turn.
    EachInOrder,
}

/// One scenario.
pub struct Scenario<P: Platform> {
    /// What it is about.
    pub name: &'static str,
    /// Number of seats.
    pub learners: usize,
    /// Slots in each ring.
    pub capacity: usize,
    /// How the server works.
    pub policy: Policy,
    /// Who is killed.
    pub victim: Actor,
    /// How often, in a row.
    pub kills: usize,
    /// How a killed learner comes back.
    pub revival: Revival,
    /// How the weights compare.
    pub comparison: Comparison,
    /// What others do while there is no server.
    pub meanwhile: fn(&mut Stage<'_, P>),
    /// What happens.
    pub script: fn(&mut Stage<'_, P>),
}

const IMMEDIATE: Policy =
    Policy { synchrony: Synchrony::Immediate, journalled: true, budget: None, quorum: 0 };
const AVERAGED: Policy = Policy { synchrony: Synchrony::Averaged, ..IMMEDIATE };

impl<P: Platform> Scenario<P> {
    fn new(name: &'static str, learners: usize, script: fn(&mut Stage<'_, P>)) -> Self {
        Self {
            name,
            learners,
            capacity: 4,
            policy: IMMEDIATE,
            victim: Actor::Server,
            kills: 1,
            revival: Revival::AfterDeath,
            comparison: Comparison::Exact,
            meanwhile: |_| (),
            script,
        }
    }

    fn averaged(self) -> Self {
        Self { policy: AVERAGED, ..self }
    }

    fn budget(self, budget: u64) -> Self {
        Self { policy: Policy { budget: Some(budget), ..self.policy }, ..self }
    }

    fn each_in_order(self) -> Self {
        Self { comparison: Comparison::EachInOrder, ..self }
    }

    fn meanwhile(self, meanwhile: fn(&mut Stage<'_, P>)) -> Self {
        Self { meanwhile, ..self }
    }

    /// Kills a learner instead of the server. Small rings: a life begins in a slot that another
    /// has left half written.
    fn killing(self, learner: usize, revival: Revival) -> Self {
        Self { victim: Actor::Learner(learner), revival, capacity: 2, ..self }
    }

    /// The same with two kills in a row: the successor is killed too.
    pub fn twice(self) -> Self {
        Self { kills: 2, ..self }
    }
}

/// Every scenario, on the platform `P`.
pub fn catalogue<P: Platform>() -> Vec<Scenario<P>> {
    let groups = [updates(), rounds(), seats(), evictions(), learners(), ends()];
    groups.into_iter().flatten().collect()
}

fn everybody_joins<P: Platform>(stage: &mut Stage<'_, P>, learners: usize) {
    (0..learners).for_each(|learner| stage.join(learner));
}

fn everybody_learns<P: Platform>(stage: &mut Stage<'_, P>, learners: usize, clock: u64) {
    (0..learners).for_each(|learner| stage.learn(learner, clock));
}

/// A server killed in its updates.
pub fn updates<P: Platform>() -> Vec<Scenario<P>> {
    let one: fn(&mut Stage<'_, P>) = |stage| {
        stage.join(0);
        stage.learn(0, 3);
        stage.serve();
        stage.learn(0, 4);
        stage.serve();
    };
    vec![
        Scenario::new("updates of one learner", 1, one),
        Scenario::new("updates while the learner goes on", 1, one)
            .meanwhile(|stage| stage.learn_alone(0, 4)),
        Scenario::new("updates while the learner is replaced", 1, one)
            .meanwhile(|stage| stage.come_back(0)),
        Scenario::new("updates of two learners", 2, |stage| {
            everybody_joins(stage, 2);
            stage.learn(0, 3);
            stage.learn(1, 2);
            stage.serve();
        })
        .each_in_order(),
        Scenario::new("questions among updates", 1, |stage| {
            stage.join(0);
            stage.learn(0, 1);
            stage.serve();
            stage.ask();
            stage.learn(0, 2);
            stage.serve();
            stage.collect();
            stage.learn(0, 3);
            stage.ask();
            stage.serve();
            stage.collect();
        }),
    ]
}

/// A server killed in a round of several learners.
pub fn rounds<P: Platform>() -> Vec<Scenario<P>> {
    let three_then_two: fn(&mut Stage<'_, P>) = |stage| {
        everybody_joins(stage, 3);
        everybody_learns(stage, 3, 2);
        stage.serve();
        stage.leave(2);
        everybody_learns(stage, 2, 3);
        stage.serve();
    };
    let scenarios = [
        Scenario::new("rounds of three, then of two", 3, three_then_two),
        Scenario::new("rounds while a member is replaced", 3, three_then_two)
            .meanwhile(|stage| stage.come_back(0)),
        Scenario::new("a round without the dead", 3, |stage| {
            everybody_joins(stage, 3);
            everybody_learns(stage, 2, 1);
            stage.serve();
            stage.give_up(2);
            stage.serve();
        }),
        Scenario::new("a round with the last of the dead", 3, |stage| {
            everybody_joins(stage, 3);
            stage.learn(2, 1);
            stage.give_up(2);
            stage.serve();
            everybody_learns(stage, 2, 2);
            stage.serve();
        }),
    ];
    scenarios.into_iter().map(Scenario::averaged).collect()
}

/// A server killed while learners come and go.
pub fn seats<P: Platform>() -> Vec<Scenario<P>> {
    vec![
        Scenario::new("joining late and leaving", 2, |stage| {
            stage.join(0);
            stage.learn(0, 2);
            stage.serve();
            stage.join(1);
            stage.learn(1, 3);
            stage.serve();
            stage.leave(0);
            stage.learn(1, 4);
            stage.leave(1);
        }),
        Scenario::new("death and return", 2, |stage| {
            everybody_joins(stage, 2);
            stage.learn(0, 2);
            stage.serve();
            stage.learn(1, 1);
            stage.give_up(1);
            stage.serve();
            stage.learn(0, 3);
            stage.serve();
            stage.rejoin(1);
            stage.learn(1, 4);
            stage.serve();
        }),
    ]
}

fn eviction_and_return<P: Platform>(stage: &mut Stage<'_, P>) {
    stage.join(0);
    stage.learn(0, 1);
    stage.serve();
    stage.commit_nonsense(0);
    stage.serve();
    if stage.is_dead(0) {
        stage.rejoin(0);
    }
    stage.learn(0, 2);
    stage.serve();
}

/// A server killed while it evicts a learner.
pub fn evictions<P: Platform>() -> Vec<Scenario<P>> {
    vec![
        Scenario::new("eviction for a payload", 1, eviction_and_return),
        Scenario::new("eviction of one who is replaced", 1, eviction_and_return)
            .meanwhile(|stage| stage.come_back(0)),
        Scenario::new("eviction for a skipped clock", 1, |stage| {
            stage.join(0);
            stage.commit_skipping(0);
            stage.serve();
        }),
        Scenario::new("eviction for another life", 1, |stage| {
            stage.join(0);
            stage.commit_foreign(0);
            stage.serve();
        }),
        Scenario::new("eviction in a round", 3, |stage| {
            everybody_joins(stage, 3);
            stage.learn(0, 1);
            stage.commit_nonsense(1);
            stage.learn(2, 1);
            stage.serve();
            stage.learn(0, 2);
            stage.learn(2, 2);
            stage.serve();
        })
        .averaged(),
    ]
}

/// A learner killed at any point of its life.
pub fn learners<P: Platform>() -> Vec<Scenario<P>> {
    use Revival::{AfterDeath, AtOnce};
    let alone: fn(&mut Stage<'_, P>) = |stage| {
        stage.join(0);
        stage.learn(0, 3);
        stage.serve();
        stage.learn(0, 4);
        stage.leave(0);
    };
    let in_rounds: fn(&mut Stage<'_, P>) = |stage| {
        everybody_joins(stage, 2);
        for clock in 1..=3 {
            everybody_learns(stage, 2, clock);
            stage.serve();
        }
    };
    vec![
        Scenario::new("a learner marked dead", 1, alone).killing(0, AfterDeath),
        Scenario::new("a learner back at once", 1, alone).killing(0, AtOnce),
        Scenario::new("the first of a round marked dead", 2, in_rounds)
            .averaged()
            .killing(0, AfterDeath),
        Scenario::new("the first of a round back at once", 2, in_rounds)
            .averaged()
            .killing(0, AtOnce),
        Scenario::new("the last of a round back at once", 2, in_rounds)
            .averaged()
            .killing(1, AtOnce),
    ]
}

/// A server killed around its end: at the budget, or when asked to stop.
pub fn ends<P: Platform>() -> Vec<Scenario<P>> {
    vec![
        Scenario::new("a budget", 1, |stage| {
            stage.join(0);
            stage.learn(0, 4);
            stage.serve();
        })
        .budget(3),
        Scenario::new("a budget in a round", 3, |stage| {
            everybody_joins(stage, 3);
            everybody_learns(stage, 3, 2);
            stage.serve();
        })
        .averaged()
        .budget(4),
        Scenario::new("a stop", 2, |stage| {
            everybody_joins(stage, 2);
            stage.learn(0, 2);
            stage.stop();
            stage.leave(0);
            stage.learn_alone(1, 1);
            stage.leave(1);
        }),
    ]
}

/// Small rounds, for two kills in a row.
pub fn small_rounds<P: Platform>() -> Vec<Scenario<P>> {
    let scenarios = [
        Scenario::new("a round of two", 2, |stage| {
            everybody_joins(stage, 2);
            everybody_learns(stage, 2, 1);
            stage.serve();
        }),
        Scenario::new("eviction in a round of two", 2, |stage| {
            everybody_joins(stage, 2);
            stage.commit_nonsense(0);
            stage.learn(1, 1);
            stage.serve();
            stage.learn(1, 2);
            stage.serve();
        }),
    ];
    scenarios.into_iter().map(Scenario::averaged).collect()
}
