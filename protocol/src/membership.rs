//! Membership: who sits where, and in which life.
//!
//! A run has a fixed number of seats. A seat's word holds its state and the epoch of the life that
//! it belongs to; every change is one CAS on that word, so that of two contenders one wins and the
//! other is told. Lives are numbered from 1 and never reused: whatever a dead life still does is
//! recognised by its epoch.
//!
//! ```text
//!            join               grant             leave              vacate
//! Vacant(e) ─────► Joining(e+1) ─────► Live(e) ─────────► Leaving(e) ──────► Vacant(e)
//!                      │                │  ▲                  │
//!                      └───────┬────────┘  │ grant            │
//!                    mark_dead │◄──────────┼──────────────────┘
//!                              ▼           │
//!                           Dead(e) ──► Rejoining(e+1)
//!                                 rejoin
//! ```
//!
//! The learner joins, rejoins and leaves; the server grants and vacates, and it alone changes the
//! clocks; the watchdog marks the dead. `rejoin` is also allowed from any state of a life that the
//! caller knows to be dead, so that a learner restarted at once keeps its place in a BSP round.
//!
//! [`Standing::after`] is the whole transition table as a plain function; [`Seat`] is one CAS
//! around it. Carries P7 and P8.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crossbeam_utils::CachePadded;

use crate::bell::Doorbell;
use crate::error::JoinError;
use crate::event::Event;
use crate::platform::{Platform, Word};
use crate::ring::counter::MAX_EPOCH;
use crate::site::Site;
use crate::weights::SnapshotWords;

/// The state of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Nobody sits there.
    Vacant = 0,
    /// A learner asks for the seat for the first time.
    Joining = 1,
    /// The server has granted the seat.
    Live = 2,
    /// The learner has ended its stream and waits to be let go.
    Leaving = 3,
    /// The watchdog, or the server, has given the life up.
    Dead = 4,
    /// A new life asks for the seat of a dead one.
    Rejoining = 5,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Vacant, Self::Joining, Self::Live, Self::Leaving, Self::Dead, Self::Rejoining];

    const fn decode(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Vacant),
            1 => Some(Self::Joining),
            2 => Some(Self::Live),
            3 => Some(Self::Leaving),
            4 => Some(Self::Dead),
            5 => Some(Self::Rejoining),
            _ => None,
        }
    }
}

/// State and epoch of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// What the seat is in.
    pub state: State,
    /// The life it belongs, or last belonged, to.
    pub epoch: u32,
}

/// What anybody may want to do to a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A learner takes a vacant seat.
    Join,
    /// A new life takes the seat of the dead life `dead`.
    Rejoin {
        /// The life to be replaced.
        dead: u32,
    },
    /// The server admits the life.
    Grant {
        /// The life it admits.
        epoch: u32,
    },
    /// The life ends in good order.
    Leave {
        /// The life that leaves.
        epoch: u32,
    },
    /// The server has taken everything of a leaving life.
    Vacate {
        /// The life that left.
        epoch: u32,
    },
    /// The life is given up.
    MarkDead {
        /// The life given up.
        epoch: u32,
    },
}

impl Standing {
    /// Nobody has ever sat there.
    pub const NEW: Self = Self { state: State::Vacant, epoch: 0 };

    /// Where `action` leads from here; `None` if it is not allowed.
    pub const fn after(self, action: Action) -> Option<Self> {
        use State::{Dead, Joining, Leaving, Live, Rejoining, Vacant};
        let (state, epoch) = match (self.state, action) {
            (Vacant, Action::Join) if self.epoch < MAX_EPOCH => (Joining, self.epoch + 1),
            (Joining | Live | Leaving | Dead | Rejoining, Action::Rejoin { dead })
                if dead == self.epoch && dead < MAX_EPOCH =>
            {
                (Rejoining, dead + 1)
            }
            (Joining | Rejoining, Action::Grant { epoch }) if epoch == self.epoch => (Live, epoch),
            (Joining | Rejoining | Live, Action::Leave { epoch }) if epoch == self.epoch => {
                (Leaving, epoch)
            }
            (Leaving, Action::Vacate { epoch }) if epoch == self.epoch => (Vacant, epoch),
            (Joining | Rejoining | Live | Leaving, Action::MarkDead { epoch })
                if epoch == self.epoch =>
            {
                (Dead, epoch)
            }
            _ => return None,
        };
        Some(Self { state, epoch })
    }

    /// The word for this standing.
    pub const fn encode(self) -> u64 {
        ((self.epoch as u64) << 8) | self.state as u64
    }

    /// The standing that a word stands for. A word that no standing encodes to was not written by
    /// this protocol; it reads as a dead seat, which the server drains and nobody else trusts.
    pub const fn decode(word: u64) -> Self {
        let epoch = (word >> 8) as u32;
        match State::decode(word as u8) {
            Some(state) if word >> 40 == 0 && epoch <= MAX_EPOCH => Self { state, epoch },
            _ => Self { state: State::Dead, epoch: epoch & MAX_EPOCH },
        }
    }
}

/// One learner's place in a run.
#[repr(C)]
pub struct Seat<P: Platform> {
    standing: CachePadded<P::U64>,
    granted: CachePadded<P::U32>,
    bell: CachePadded<Doorbell<P>>,
    snapshot: CachePadded<SnapshotWords<P>>,
}

impl<P: Platform> Seat<P> {
    /// A seat nobody has ever sat on.
    pub fn new() -> Self {
        Self {
            standing: CachePadded::new(P::U64::new(Standing::NEW.encode())),
            granted: CachePadded::new(P::U32::new(0)),
            bell: CachePadded::new(Doorbell::new()),
            snapshot: CachePadded::new(SnapshotWords::new()),
        }
    }

    /// Where the threads of this learner's process sleep.
    pub fn bell(&self) -> &Doorbell<P> {
        &self.bell
    }

    /// The words by which this learner asks for a consistent copy of the weights.
    pub fn snapshot(&self) -> &SnapshotWords<P> {
        &self.snapshot
    }

    /// The standing of the seat, with everything that led to it.
    #[inline]
    pub fn standing(&self) -> Standing {
        Standing::decode(self.standing.load(Site::SeatLook, Acquire))
    }

    /// Takes the seat if it is vacant; returns the epoch of the new life.
    pub fn join(&self, learner: u32) -> Result<u32, JoinError> {
        match self.act(learner, Action::Join) {
            Ok(standing) => Ok(standing.epoch),
            Err(Standing { state: State::Vacant, .. }) => Err(JoinError::WornOut),
            Err(Standing { epoch, .. }) => Err(JoinError::Occupied { epoch }),
        }
    }

    /// Takes the seat of the life `dead`, which the caller knows to be gone for good: its process
    /// has been waited for. Returns the epoch of the new life.
    pub fn rejoin(&self, learner: u32, dead: u32) -> Result<u32, JoinError> {
        match self.act(learner, Action::Rejoin { dead }) {
            Ok(standing) => Ok(standing.epoch),
            Err(Standing { epoch, .. }) if epoch != dead => {
                Err(JoinError::NotThatLife { found: epoch })
            }
            Err(Standing { state: State::Vacant, .. }) => {
                Err(JoinError::NotThatLife { found: dead })
            }
            Err(_) => Err(JoinError::WornOut),
        }
    }

    /// Ends the life in good order. Returns false if the seat no longer belongs to it.
    pub fn leave(&self, learner: u32, epoch: u32) -> bool {
        self.act(learner, Action::Leave { epoch }).is_ok()
    }

    /// Gives the life up. Returns false if the seat no longer belongs to it.
    ///
    /// Ring the server afterwards; it drains the ring and advances the clocks.
    pub fn mark_dead(&self, learner: u32, epoch: u32) -> bool {
        self.act(learner, Action::MarkDead { epoch }).is_ok()
    }

    /// Admits the life `epoch`, after the server has set its clocks. False if it died meanwhile.
    pub(crate) fn grant(&self, learner: u32, epoch: u32) -> bool {
        self.granted.store(Site::SeatGranted, epoch, Relaxed);
        self.act(learner, Action::Grant { epoch }).is_ok()
    }

    /// Lets a leaving life go.
    pub(crate) fn vacate(&self, learner: u32, epoch: u32) -> bool {
        self.act(learner, Action::Vacate { epoch }).is_ok()
    }

    /// The life that was last granted the seat, as a server that restarts finds it.
    pub fn granted_epoch(&self) -> u32 {
        self.granted.load(Site::SeatGrantedLook, Relaxed)
    }

    fn act(&self, learner: u32, action: Action) -> Result<Standing, Standing> {
        let mut found = self.standing.load(Site::SeatLook, Acquire);
        loop {
            let standing = Standing::decode(found);
            let Some(next) = standing.after(action) else {
                return Err(standing);
            };
            P::report(Event::Seat { learner, action });
            match self.standing.compare_exchange(Site::SeatChange, found, next.encode(), Release) {
                Ok(_) => return Ok(next),
                Err(now) => {
                    P::report(Event::SeatFailed { learner, action });
                    found = now;
                }
            }
        }
    }
}

impl<P: Platform> Default for Seat<P> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standing_survives_its_word_and_no_other_word_is_trusted() {
        for state in State::ALL {
            for epoch in [0, 1, MAX_EPOCH] {
                let standing = Standing { state, epoch };
                assert_eq!(Standing::decode(standing.encode()), standing);
            }
        }
        assert_eq!(Standing::decode(u64::MAX).state, State::Dead);
        assert_eq!(Standing::decode(6).state, State::Dead);
    }

    #[test]
    fn a_life_acts_only_on_its_own_epoch() {
        let live = Standing { state: State::Live, epoch: 3 };
        for epoch in [0, 2, 4] {
            assert_eq!(live.after(Action::Leave { epoch }), None);
            assert_eq!(live.after(Action::MarkDead { epoch }), None);
            assert_eq!(live.after(Action::Rejoin { dead: epoch }), None);
        }
        assert_eq!(live.after(Action::Join), None);
    }
}
