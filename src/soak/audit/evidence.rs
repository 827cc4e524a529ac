//! What is left when all processes are gone, taken down as plain values.

use std::sync::atomic::Ordering::Relaxed;

use protocol::journal::Phase;
use protocol::membership::State;
use protocol::ring::Consumer;

use crate::soak::Setup;
use crate::soak::arithmetic::Vector;
use crate::soak::memory::{Area, Entry, SoakRun, load, shape};

/// What one life of a learner says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) first_clock: u64,
    pub(crate) pushed: u64,
    pub(crate) acknowledged: u64,
    pub(crate) fenced: u64,
    pub(crate) lies: u64,
}

/// What is left of one seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeatEvidence {
    /// Tickets that the server has taken.
    pub(crate) taken: u64,
    /// Committed gradients still in the ring.
    pub(crate) left: u64,
    /// The life last granted.
    pub(crate) granted: u32,
    /// The applied clock.
    pub(crate) clock: u64,
    /// Whether a process still seems to hold the seat.
    pub(crate) held: bool,
    /// Accounts of the lives, from life 1.
    pub(crate) lives: Vec<Account>,
}

/// A ring that the server had sealed and emptied while its learner still hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) learner: usize,
    /// The life that was given up.
    pub(crate) epoch: u32,
    /// Tickets taken by then.
    pub(crate) tickets: u64,
}

/// Everything that is left when all processes are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) setup: Setup,
    pub(crate) version: u64,
    pub(crate) weights: Vector,
    /// Entry *i* made version *i* + 1.
    pub(crate) log: Vec<Option<Entry>>,
    pub(crate) seats: Vec<SeatEvidence>,
    pub(crate) seals: Vec<Seal>,
    pub(crate) evictions: u64,
    pub(crate) idle: bool,
}

impl Evidence {
    /// Takes everything down. The rings are emptied by counting what is in them.
    pub(crate) fn collect(
        setup: &Setup,
        run: &SoakRun<'_>,
        area: &Area<'_>,
        seals: Vec<Seal>,
    ) -> Self {
        let version = run.stamp().version();
        let seats = (0..setup.learners).map(|learner| seat(setup, run, area, learner)).collect();
        Self {
            setup: setup.clone(),
            version,
            weights: load(area.weights),
            log: (1..=version.min(area.log_limit())).map(|at| area.read_entry(at)).collect(),
            seats,
            seals,
            evictions: area.evictions.load(Relaxed),
            idle: run.journal().found().0 == Phase::Idle,
        }
    }
}

fn seat(setup: &Setup, run: &SoakRun<'_>, area: &Area<'_>, learner: usize) -> SeatEvidence {
    let limit = shape(setup).payload_limit;
    let mut consumer = Consumer::attach(run.ring(learner), learner as u32, 1, limit);
    let seat = &run.seats()[learner];
    let standing = seat.standing();
    let account = |epoch| {
        area.life(learner, epoch).map(|words| Account {
            first_clock: words.first_clock.load(Relaxed),
            pushed: words.pushed.load(Relaxed),
            acknowledged: words.acknowledged.load(Relaxed),
            fenced: words.fenced.load(Relaxed),
            lies: words.lies.load(Relaxed),
        })
    };
    SeatEvidence {
        taken: consumer.next_ticket(),
        left: consumer.discard(),
        granted: seat.granted_epoch(),
        clock: run.clocks().applied(0, learner),
        held: !matches!(standing.state, State::Vacant | State::Leaving | State::Dead),
        lives: (1..=standing.epoch).map_while(account).collect(),
    }
}
