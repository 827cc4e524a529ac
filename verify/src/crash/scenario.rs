//! What is acted out, and who is killed in it.

use protocol::platform::Platform;
use protocol::server::{Policy, Synchrony};

use super::stage::{Actor, Revival, Stage};

/// How the weights of a run with a kill compare with those of the run without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// They are the same, bit for bit.
    Exact,
    /// They are those of the same gradients, each learner's in its order: a server that restarts
    /// may serve the learners in another turn.
    EachInOrder,
}

/// One scenario.
pub struct Scenario<P: Platform> {
    /// Reads as a claim.
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
    /// What happens.
    pub script: fn(&mut Stage<'_, P>),
}

const IMMEDIATE: Policy =
    Policy { synchrony: Synchrony::Immediate, journalled: true, budget: None };
const AVERAGED: Policy = Policy { synchrony: Synchrony::Averaged, ..IMMEDIATE };

impl<P: Platform> Scenario<P> {
    const fn new(name: &'static str, learners: usize, script: fn(&mut Stage<'_, P>)) -> Self {
        Self {
            name,
            learners,
            capacity: 4,
            policy: IMMEDIATE,
            victim: Actor::Server,
            kills: 1,
            revival: Revival::AfterDeath,
            comparison: Comparison::Exact,
            script,
        }
    }

    const fn averaged(self) -> Self {
        Self { policy: AVERAGED, ..self }
    }

    const fn budget(self, budget: u64) -> Self {
        Self { policy: Policy { budget: Some(budget), ..self.policy }, ..self }
    }

    const fn each_in_order(self) -> Self {
        Self { comparison: Comparison::EachInOrder, ..self }
    }

    const fn killing(self, learner: usize, revival: Revival) -> Self {
        Self { victim: Actor::Learner(learner), revival, ..self }
    }

    const fn twice(self) -> Self {
        Self { kills: 2, ..self }
    }
}

/// Every scenario, on the platform `P`.
pub fn catalogue<P: Platform>() -> Vec<Scenario<P>> {
    [updates(), rounds(), seats(), evictions(), learners(), budgets(), twice()]
        .into_iter()
        .flatten()
        .collect()
}

fn updates<P: Platform>() -> Vec<Scenario<P>> {
    vec![
        Scenario::new("updates of one learner", 1, |stage| {
            stage.join(0);
            stage.learn(0, 3);
            stage.serve();
            stage.learn(0, 4);
            stage.serve();
        }),
        Scenario::new("updates of two learners", 2, |stage| {
            stage.join(0);
            stage.join(1);
            stage.learn(0, 3);
            stage.learn(1, 2);
            stage.serve();
        })
        .each_in_order(),
        Scenario::new("a question among updates", 1, |stage| {
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

fn everybody_joins<P: Platform>(stage: &mut Stage<'_, P>, learners: usize) {
    (0..learners).for_each(|learner| stage.join(learner));
}

fn everybody_learns<P: Platform>(stage: &mut Stage<'_, P>, learners: usize, clock: u64) {
    (0..learners).for_each(|learner| stage.learn(learner, clock));
}

fn rounds<P: Platform>() -> Vec<Scenario<P>> {
    vec![
        Scenario::new("rounds of three, then of two", 3, |stage| {
            everybody_joins(stage, 3);
            everybody_learns(stage, 3, 2);
            stage.serve();
            stage.leave(2);
            everybody_learns(stage, 2, 3);
            stage.serve();
        })
        .averaged(),
        Scenario::new("a round without the dead", 3, |stage| {
            everybody_joins(stage, 3);
            everybody_learns(stage, 2, 1);
            stage.serve();
            stage.give_up(2);
            stage.serve();
        })
        .averaged(),
        Scenario::new("a round with the last of the dead", 3, |stage| {
            everybody_joins(stage, 3);
            stage.learn(2, 1);
            stage.give_up(2);
            stage.serve();
            everybody_learns(stage, 2, 2);
            stage.serve();
        })
        .averaged(),
    ]
}

fn seats<P: Platform>() -> Vec<Scenario<P>> {
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
            stage.join(0);
            stage.join(1);
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

fn evictions<P: Platform>() -> Vec<Scenario<P>> {
    vec![
        Scenario::new("eviction for a payload", 1, |stage| {
            stage.join(0);
            stage.learn(0, 1);
            stage.serve();
            stage.commit_nonsense(0);
            stage.serve();
            stage.rejoin(0);
            stage.learn(0, 2);
            stage.serve();
        }),
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

fn a_life<P: Platform>(stage: &mut Stage<'_, P>) {
    stage.join(0);
    stage.learn(0, 3);
    stage.serve();
    stage.learn(0, 4);
    stage.leave(0);
}

fn a_life_in_rounds<P: Platform>(stage: &mut Stage<'_, P>) {
    everybody_joins(stage, 2);
    for clock in 1..=3 {
        everybody_learns(stage, 2, clock);
        stage.serve();
    }
}

fn learners<P: Platform>() -> Vec<Scenario<P>> {
    use Revival::{AfterDeath, AtOnce};
    vec![
        Scenario::new("a learner marked dead", 1, a_life).killing(0, AfterDeath),
        Scenario::new("a learner back at once", 1, a_life).killing(0, AtOnce),
        Scenario::new("a learner marked dead in a round", 2, a_life_in_rounds)
            .averaged()
            .killing(0, AfterDeath),
        Scenario::new("a learner back at once in a round", 2, a_life_in_rounds)
            .averaged()
            .killing(0, AtOnce),
        Scenario::new("the last learner of a round back at once", 2, a_life_in_rounds)
            .averaged()
            .killing(1, AtOnce),
    ]
}

fn budgets<P: Platform>() -> Vec<Scenario<P>> {
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
    ]
}

fn twice<P: Platform>() -> Vec<Scenario<P>> {
    vec![
        Scenario::new("two servers killed in updates", 1, |stage| {
            stage.join(0);
            stage.learn(0, 2);
            stage.serve();
        })
        .twice(),
        Scenario::new("two servers killed in a round with an eviction", 3, |stage| {
            everybody_joins(stage, 3);
            stage.learn(0, 1);
            stage.commit_nonsense(1);
            stage.learn(2, 1);
            stage.serve();
            stage.learn(0, 2);
            stage.learn(2, 2);
            stage.serve();
        })
        .averaged()
        .twice(),
        Scenario::new("two lives killed", 1, |stage| {
            stage.join(0);
            stage.learn(0, 2);
            stage.leave(0);
        })
        .killing(0, Revival::AtOnce)
        .twice(),
    ]
}
