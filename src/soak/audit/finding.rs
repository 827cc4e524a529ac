//! What an audit can find, and how it says so.

use std::fmt;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Finding {
    Version { found: u64, expected: u64 },
    Unlogged { version: u64 },
    Stranger { version: u64, learner: u32, epoch: u32 },
    Repeated { version: u64, learner: u32, ticket: u64 },
    Skipped { version: u64, learner: u32, from: u64, to: u64 },
    Taken { learner: usize, taken: u64, applied: u64 },
    Clock { version: u64, learner: u32, found: u64, expected: u64 },
    LastClock { learner: usize, found: u64, expected: u64 },
    Lost { learner: usize, epoch: u32, acknowledged: u64, found: u64 },
    Forged { learner: usize, epoch: u32, pushed: u64, found: u64 },
    LateCommit { learner: usize, epoch: u32, sealed: u64, found: u64 },
    LeftBehind { learner: usize, left: u64 },
    Torn { version: u64, learner: u32, ticket: u64 },
    FromTheFuture { version: u64, learner: u32, base_version: u64 },
    Weights { word: usize, found: u64, expected: u64 },
    Lies { learner: usize, epoch: u32, lies: u64 },
    Ahead { version: u64, learner: u32, clock: u64, behind: u64 },
    Round { version: u64, learner: u32 },
    Evictions { count: u64 },
    Held { learner: usize },
    NotIdle,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Version { found, expected } => {
                write!(f, "the run ended at version {found}, not {expected}")
            }
            Self::Unlogged { version } => {
                write!(f, "version {version} was published and never logged")
            }
            Self::Stranger { version, learner, epoch } => write!(
                f,
                "version {version} is by life {epoch} of learner {learner}, which never was"
            ),
            Self::Repeated { version, learner, ticket } => {
                write!(f, "version {version} repeats ticket {ticket} of learner {learner}")
            }
            Self::Skipped { version, learner, from, to } => {
                write!(f, "version {version} skips tickets {from} to {to} of learner {learner}")
            }
            Self::Taken { learner, taken, applied } => {
                write!(f, "learner {learner}: {taken} gradients taken, {applied} applied")
            }
            Self::Clock { version, learner, found, expected } => write!(
                f,
                "version {version} is by clock {found} of learner {learner}, due was {expected}"
            ),
            Self::LastClock { learner, found, expected } => {
                write!(
                    f,
                    "learner {learner} ended at clock {found}, its last gradient's is {expected}"
                )
            }
            Self::Lost { learner, epoch, acknowledged, found } => write!(
                f,
                "life {epoch} of learner {learner} knows {acknowledged} commits, {found} arrived"
            ),
            Self::Forged { learner, epoch, pushed, found } => write!(
                f,
                "life {epoch} of learner {learner} pushed {pushed} gradients, {found} arrived"
            ),
            Self::LateCommit { learner, epoch, sealed, found } => write!(
                f,
                "life {epoch} of learner {learner} was sealed at ticket {sealed} and came to {found}"
            ),
            Self::LeftBehind { learner, left } => {
                write!(f, "learner {learner}: {left} committed gradients were not drained")
            }
            Self::Torn { version, learner, ticket } => write!(
                f,
                "version {version}: ticket {ticket} of learner {learner} is not what was computed"
            ),
            Self::FromTheFuture { version, learner, base_version } => write!(
                f,
                "version {version} by learner {learner} was computed on version {base_version}"
            ),
            Self::Weights { word, found, expected } => {
                write!(
                    f,
                    "weight {word} is {found:#018x}, the sums done again give {expected:#018x}"
                )
            }
            Self::Lies { learner, epoch, lies } => write!(
                f,
                "life {epoch} of learner {learner}: {lies} pulls held other than they claimed"
            ),
            Self::Ahead { version, learner, clock, behind } => write!(
                f,
                "version {version}: learner {learner} computed clock {clock} without clock {behind} of another"
            ),
            Self::Round { version, learner } => {
                write!(f, "version {version}: learner {learner} is out of its round")
            }
            Self::Evictions { count } => write!(f, "the server evicted {count} honest learners"),
            Self::Held { learner } => write!(f, "seat {learner} is still held, by nobody"),
            Self::NotIdle => write!(f, "the journal is not idle"),
        }
    }
}
