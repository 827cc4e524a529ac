//! A case: one scenario with the properties it checks and the outcomes it may have.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How far loom explores a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Every interleaving, whichever side is spawned.
    Exhaustive,
    /// Every interleaving with the first side spawned; at most three preemptions the other way
    /// round, where every one of them would take too long.
    ExhaustiveForward,
    /// Every interleaving with at most this many preemptions.
    Preemptions(usize),
}

impl Bound {
    /// The most preemptions to explore in this order; `None` for all.
    pub fn preemptions(self, order: Order) -> Option<usize> {
        match (self, order) {
            (Self::Exhaustive, _) | (Self::ExhaustiveForward, Order::Forward) => None,
            (Self::ExhaustiveForward, Order::Backward) => Some(3),
            (Self::Preemptions(bound), _) => Some(bound),
        }
    }
}

/// The order in which a case spawns its threads: a bounded search is not symmetric in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As written.
    Forward,
    /// The other way round.
    Backward,
}

/// How shuttle samples a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// By random schedules and by PCT.
    Concurrent,
    /// By random schedules only: one thread runs at a time, PCT has nothing to order.
    Sequential,
}

/// A scenario, its properties, and the exact set of outcomes that a full exploration finds.
#[derive(Clone, Copy)]
pub struct Case {
    /// Reads as a claim.
    pub name: &'static str,
    /// Properties of the design that it carries.
    pub properties: &'static [&'static str],
    /// Every outcome there is, sorted. A full exploration must find all of them and no other.
    pub outcomes: &'static [&'static str],
    /// How far loom explores it; `None` if it is too large for loom.
    pub loom: Option<Bound>,
    /// How shuttle samples it.
    pub shuttle: Sampling,
    /// How many variants there are: the case is explored for each number below this.
    pub variants: u64,
    /// One execution. Panics if a property is broken.
    pub run: fn(&Recorder),
}

/// What the executions of a case have come to.
pub struct Recorder {
    order: Order,
    variant: AtomicU64,
    outcomes: Mutex<BTreeMap<String, u64>>,
}

impl Recorder {
    /// Nothing has happened yet; `variant` is to be run.
    pub fn new(order: Order, variant: u64) -> Self {
        Self { order, variant: variant.into(), outcomes: Mutex::default() }
    }

    /// The variant to run.
    pub fn variant(&self) -> u64 {
        self.variant.load(Relaxed)
    }

    /// Chooses the variant of the next execution.
    pub fn set_variant(&self, variant: u64) {
        self.variant.store(variant, Relaxed);
    }

    /// The order in which threads are to be spawned.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Notes how one execution ended.
    pub fn outcome(&self, outcome: impl Into<String>) {
        *self.outcomes.lock().unwrap().entry(outcome.into()).or_default() += 1;
    }

    /// Executions that ended.
    pub fn executions(&self) -> u64 {
        self.outcomes.lock().unwrap().values().sum()
    }

    /// The outcomes seen, sorted.
    pub fn seen(&self) -> Vec<String> {
        self.outcomes.lock().unwrap().keys().cloned().collect()
    }
}
