//! The blows of a soak, drawn from its seed before anything starts.
//!
//! A blow falls when the run has come to its version and a random moment later. Blows are spread
//! over the whole run; one in four follows the one before it at its heels and hits the same
//! victim, to catch it joining or recovering, or another, so that both are missed at once and a
//! learner may be back before the server is. The same seed draws the same blows; what they hit is
//! up to the machine.

use std::time::Duration;

use super::Setup;
use super::arithmetic::mix;

/// Whom a blow hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Server,
    Learner(usize),
}

/// What a blow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Hang {
        /// In the middle of the next gradient's copy, instead of wherever the victim is.
        amid_push: bool,
    },
}

/// One blow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blow {
    /// It is due once the run has come to this version.
    pub(crate) version: u64,
    /// Learners wait at this version until it has fallen.
    pub(crate) gate: u64,
    /// How long after that it falls.
    pub(crate) delay: Duration,
    pub(crate) victim: Victim,
    pub(crate) harm: Harm,
    /// How long the victim is missed before somebody reacts.
    pub(crate) absence: Duration,
}

/// The longest time between a blow's version and its fall.
const MAX_DELAY: Duration = Duration::from_micros(2000);

/// The longest time until somebody reacts; long enough for everybody else to stand still.
const MAX_ABSENCE: Duration = Duration::from_micros(4000);

/// Draws the blows of a soak.
pub(crate) fn draw(setup: &Setup, seed: u64) -> Vec<Blow> {
    let mut dice = Dice(seed);
    let count = setup.blows();
    let interval = setup.gradients / (count + 1);
    let mut hangs_left = setup.hangs;
    let mut blows = Vec::<Blow>::new();
    for index in 0..count {
        let hang = dice.below(count - index) < hangs_left;
        hangs_left -= u64::from(hang);
        let last = blows.last().copied().filter(|_| dice.below(4) == 0);
        let own = interval * (index + 1) - dice.below(interval / 2 + 1);
        let again = last.filter(|_| dice.below(2) == 0).map(|last| last.victim);
        let mut victim = again.unwrap_or_else(|| dice.victim(setup.learners));
        if hang && !setup.keeps_seats() {
            // Only a learner can be given up alive.
            victim = Victim::Learner(dice.below(setup.learners as u64) as usize);
        }
        let amid_push = hang && victim != Victim::Server && dice.below(2) == 0;
        blows.push(Blow {
            version: last.map_or(own, |last| last.version),
            gate: own + interval / 2,
            delay: dice.time(MAX_DELAY),
            victim,
            harm: if hang { Harm::Hang { amid_push } } else { Harm::Kill },
            absence: dice.time(MAX_ABSENCE),
        });
    }
    blows
}

/// A seeded source of numbers.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `limit`, which is at least 1. The bias is of no consequence here.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Up to `limit`, half of the time close to nothing.
    fn time(&mut self, limit: Duration) -> Duration {
        let limit = limit.as_micros() as u64 / if self.below(2) == 0 { 20 } else { 1 };
        Duration::from_micros(self.below(limit + 1))
    }

    /// The server as often as any learner.
    fn victim(&mut self, learners: usize) -> Victim {
        match self.below(learners as u64 + 1) as usize {
            0 => Victim::Server,
            learner => Victim::Learner(learner - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::setup::Sync;

    const SETUP: Setup = Setup {
        learners: 3,
        gradients: 20_000,
        kills: 100,
        hangs: 10,
        capacity: 4,
        sync: Sync::Async,
        consistent: false,
        evict: false,
        drain: false,
    };

    #[test]
    fn the_same_seed_draws_the_same_blows_and_another_draws_others() {
        assert_eq!(draw(&SETUP, 7), draw(&SETUP, 7));
        assert_ne!(draw(&SETUP, 7), draw(&SETUP, 8));
    }

    #[test]
    fn every_blow_falls_before_the_budget_can_be_spent() {
        for seed in 0..200 {
            let blows = draw(&SETUP, seed);
            let hangs = blows.iter().filter(|blow| blow.harm != Harm::Kill).count() as u64;
            assert_eq!((blows.len() as u64, hangs), (SETUP.blows(), SETUP.hangs));
            for blow in blows {
                assert!(blow.version <= blow.gate);
                assert!(blow.gate + SETUP.under_way() <= SETUP.gradients);
                assert!(blow.harm == Harm::Kill || blow.victim != Victim::Server);
            }
        }
    }
}
