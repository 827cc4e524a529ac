//! Scenarios of the figure: one without faults, and one for each hole.
//!
//! Each runs once, ends with all its threads, and returns what the onlooker saw; who calls it
//! asserts what it came for. All but [`pass`] run on [`Memory::X86`]: what is found there is not
//! the fault of a weak memory.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::ledger::Ledger;
use super::pthreads::Pthreads;
use super::pull::pull;
use super::push::{push, push_once};
use super::server::server;
use super::state::{Death, Learner, Mapping, Memory};
use super::train::{give, take, train};
use crate::model::Join;

/// How often each thread goes round its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// The server, in gradients.
    pub server: usize,
    /// Each push and each training thread.
    pub push_and_train: u32,
    /// Each pull thread.
    pub pull: u32,
}

impl Rounds {
    /// Everybody goes round as often as the others need: the figure without faults.
    pub const fn even(learners: usize, rounds: u32) -> Self {
        Self { server: learners * rounds as usize, push_and_train: rounds, pull: rounds }
    }
}

/// All threads of the figure, with queues of `sz`.
pub fn run<M: Pthreads>(learners: usize, sz: usize, rounds: Rounds) -> Arc<Ledger> {
    let mapping = Arc::new(Mapping::<M>::new(Memory::X86, learners, sz));
    let mut threads = Vec::new();
    for tid in 0..learners {
        let learner = Arc::new(Learner::<M>::new(tid, 1));
        let (m, l) = (Arc::clone(&mapping), Arc::clone(&learner));
        threads.push(M::spawn(move || push(&m, &l, rounds.push_and_train)));
        let (m, l) = (Arc::clone(&mapping), Arc::clone(&learner));
        threads.push(M::spawn(move || pull(&m, &l, rounds.pull)));
        let (m, l) = (Arc::clone(&mapping), Arc::clone(&learner));
        threads.push(M::spawn(move || train(&m, &l, rounds.push_and_train)));
    }
    server(&mapping, rounds.server);
    threads.into_iter().for_each(Join::join);
    Arc::clone(mapping.ledger())
}

/// The queue alone: one thread gives and pushes `gradients`, the other one is the server.
pub fn pass<M: Pthreads>(memory: Memory, sz: usize, gradients: u32) -> Arc<Ledger> {
    let mapping = Arc::new(Mapping::<M>::new(memory, 1, sz));
    let pushing = {
        let mapping = Arc::clone(&mapping);
        M::spawn(move || {
            let learner = Learner::new(0, 1);
            push_numbers(&mapping, &learner, 1..=gradients);
        })
    };
    server(&mapping, gradients as usize);
    pushing.join();
    Arc::clone(mapping.ledger())
}

/// Some updates while a learner pulls; then no more, and the learner goes on.
pub fn pulls<M: Pthreads>(updates: u32) -> Arc<Ledger> {
    let mapping = Arc::new(Mapping::<M>::new(Memory::X86, 1, updates as usize));
    let learner = Arc::new(Learner::new(0, 1));
    push_numbers(&mapping, &learner, 1..=updates);
    let pulling = {
        let (mapping, learner) = (Arc::clone(&mapping), Arc::clone(&learner));
        M::spawn(move || pull(&mapping, &learner, 2))
    };
    server(&mapping, updates as usize);
    // What it takes first may have been copied during the updates; the next was not.
    let mut weights = 0;
    take(&mapping, &learner, &mut weights);
    take(&mapping, &learner, &mut weights);
    pulling.join();
    Arc::clone(mapping.ledger())
}

/// One learner has pushed a gradient; another one dies pushing its second.
pub fn death<M: Pthreads>(death: Death) -> Arc<Ledger> {
    let mapping = Arc::new(Mapping::<M>::new(Memory::X86, 2, 2));
    push_numbers(&mapping, &Learner::new(1, 1), 1..=1);
    let dying = {
        let mapping = Arc::clone(&mapping);
        M::spawn(move || {
            let learner = Learner::new(0, 1);
            push_numbers(&mapping, &learner, 1..=1);
            give(&learner, 2);
            push_once(&mapping, &learner, death).expect_err("it dies");
        })
    };
    server(&mapping, 2 + death.counted() as usize);
    dying.join();
    Arc::clone(mapping.ledger())
}

/// A learner dies pushing its first gradient. A new life comes to its queue and goes on after the
/// last gradient that was counted, until `gradients` were.
pub fn rejoin<M: Pthreads>(sz: usize, death: Death, gradients: u32) -> Arc<Ledger> {
    let mapping = Arc::new(Mapping::<M>::new(Memory::X86, 1, sz));
    let living = {
        let mapping = Arc::clone(&mapping);
        M::spawn(move || {
            let (learner, next) = die_and_rejoin(&mapping, death);
            push_numbers(&mapping, &learner, next..=gradients);
        })
    };
    server(&mapping, gradients as usize);
    living.join();
    Arc::clone(mapping.ledger())
}

/// The same without any concurrency: the server takes each gradient before the next is computed.
pub fn rejoin_in_turn<M: Pthreads>(sz: usize, death: Death, gradients: u32) -> Arc<Ledger> {
    let mapping = Mapping::<M>::new(Memory::X86, 1, sz);
    let (learner, next) = die_and_rejoin(&mapping, death);
    for number in next..=gradients {
        push_numbers(&mapping, &learner, number..=number);
        server(&mapping, 1);
    }
    Arc::clone(mapping.ledger())
}

/// The first life dies pushing its first gradient. Returns the second, and which gradient is next.
fn die_and_rejoin<M: Pthreads>(mapping: &Mapping<M>, death: Death) -> (Learner<M>, u32) {
    let learner = Learner::new(0, 1);
    give(&learner, 1);
    push_once(mapping, &learner, death).expect_err("it dies");
    (Learner::new(0, 2), mapping.ledger().counted(0).len() as u32 + 1)
}

/// One thread plays the training and the push thread of `learner` in turn.
fn push_numbers<M: Pthreads>(
    mapping: &Mapping<M>,
    learner: &Learner<M>,
    numbers: RangeInclusive<u32>,
) {
    for number in numbers {
        give(learner, number);
        push(mapping, learner, 1);
    }
}
