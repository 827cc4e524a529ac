//! What an onlooker sees: part of neither the figure nor the core, and the same for both.
//!
//! A scenario that ends is judged by the assertions below; one that does not end is a deadlock
//! and one that races is stopped at the access, and both are the checker's to report.

use std::sync::Mutex;

use super::state::Gradient;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Counted(Gradient),
    Taken(Gradient),
    Claimed { version: u64, copied: u64 },
    TrainsOn { version: u64 },
}

/// Gradients as they are published and applied, and weights as learners believe in them.
///
/// Weights count their updates, so a copy of them is the version that it holds.
#[derive(Default)]
pub struct Ledger(Mutex<Vec<Event>>);

impl Ledger {
    /// A learner publishes a gradient: the figure by `cnt++`, the core by its commit.
    pub fn count(&self, gradient: Gradient) {
        self.note(Event::Counted(gradient));
    }

    /// The server applies a gradient.
    pub fn take(&self, gradient: Gradient) {
        self.note(Event::Taken(gradient));
    }

    /// A learner takes its copy of the weights, which holds version `copied`, for `version`.
    pub fn claim(&self, version: u64, copied: u64) {
        self.note(Event::Claimed { version, copied });
    }

    /// A learner goes on to train on weights that hold `version`.
    pub fn train_on(&self, version: u64) {
        self.note(Event::TrainsOn { version });
    }

    fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    fn select<R>(&self, select: impl FnMut(&Event) -> Option<R>) -> Vec<R> {
        self.0.lock().unwrap().iter().filter_map(select).collect()
    }

    /// Gradients of `learner` in the order of their publication.
    pub fn counted(&self, learner: usize) -> Vec<Gradient> {
        self.select(|event| match event {
            Event::Counted(gradient) if gradient.learner == learner => Some(*gradient),
            _ => None,
        })
    }

    /// Gradients of `learner` in the order of their application.
    pub fn taken(&self, learner: usize) -> Vec<Gradient> {
        self.select(|event| match event {
            Event::Taken(gradient) if gradient.learner == learner => Some(*gradient),
            _ => None,
        })
    }

    /// Each version claimed, and the one copied.
    pub fn claims(&self) -> Vec<(u64, u64)> {
        self.select(|event| match event {
            Event::Claimed { version, copied } => Some((*version, *copied)),
            _ => None,
        })
    }

    /// In which order gradients were counted (`C`) and taken (`T`).
    pub fn order(&self) -> String {
        let letters = self.select(|event| match event {
            Event::Counted(_) => Some('C'),
            Event::Taken(_) => Some('T'),
            _ => None,
        });
        letters.into_iter().collect()
    }

    /// P2: the gradients of each learner were applied once each, in the order of publication.
    pub fn assert_exactly_once(&self, learners: usize) {
        for learner in 0..learners {
            let faults = faults(&self.counted(learner), &self.taken(learner));
            assert!(faults.is_empty(), "not exactly once: {}", faults.join("; "));
        }
    }

    /// P5: no copy is taken for a version that it does not hold.
    pub fn assert_claims_are_true(&self) {
        for (version, copied) in self.claims() {
            assert!(version <= copied, "claims version {version}, copied version {copied}");
        }
    }

    /// P5: a learner that has gone on after the last update, `newest`, trains on it.
    pub fn assert_not_stale(&self, newest: u64) {
        let versions = self.select(|event| match event {
            Event::TrainsOn { version } => Some(*version),
            _ => None,
        });
        let version = *versions.last().expect("the learner has gone on");
        assert!(version == newest, "trains on version {version} for ever, {newest} is the last");
    }
}

fn faults(counted: &[Gradient], taken: &[Gradient]) -> Vec<String> {
    if counted == taken {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (position, gradient) in taken.iter().enumerate() {
        if !counted.contains(gradient) {
            faults.push(format!("{gradient} was taken, never counted"));
        }
        if taken[..position].iter().any(|earlier| earlier.number == gradient.number) {
            faults.push(format!("{gradient} was taken, the second of its number"));
        }
    }
    for gradient in counted.iter().filter(|gradient| !taken.contains(gradient)) {
        faults.push(format!("{gradient} was counted, never taken"));
    }
    if faults.is_empty() {
        faults.push(format!("counted {counted:?}, taken {taken:?}"));
    }
    faults
}
