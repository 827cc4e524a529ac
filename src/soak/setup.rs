//! What a soak is asked to do: its flags, their limits, and how to ask for the same again.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use protocol::clock::Slack;
use protocol::server::Synchrony;

use super::Failure;
use super::arithmetic::Origin;
use super::memory::shape;

/// The most gradients: what a weight can count, and a log of four gigabytes.
const MAX_GRADIENTS: u64 = 1 << 26;

/// The most blows: a seat has 32767 lives.
const MAX_BLOWS: u64 = 30_000;

/// Gradients a learner can have under way beyond those in its ring: one in each thread's hands.
const IN_HAND: u64 = 3;

/// What to do, the same for all processes of a soak.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Learner processes
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) learners: usize,

    /// Gradients to apply, exactly
    #[arg(long, value_name = "N", default_value_t = 60_000)]
    pub(crate) gradients: u64,

    /// SIGKILLs to deal, to learners and server alike
    #[arg(long, value_name = "N", default_value_t = 150)]
    pub(crate) kills: u64,

    /// SIGSTOPs to deal: a learner that hangs is given up, wakes, must be fenced and is replaced
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) hangs: u64,

    /// Slots in each learner's ring, a power of two
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) capacity: usize,

    /// How far learners may run apart: async, ssp:N (N clocks) or bsp (in rounds, averaged)
    #[arg(long, value_name = "MODE", default_value_t = Sync::Async)]
    pub(crate) sync: Sync,

    /// Pull exactly one version of the weights instead of whatever is there
    #[arg(long)]
    pub(crate) consistent: bool,

    /// Give up the seats of the dead under bsp too: rounds go on without them, and the result
    /// depends on who dies when
    #[arg(long)]
    pub(crate) evict: bool,

    /// Ask everybody to stop after about that many gradients and drain, instead of stopping at
    /// exactly that many
    #[arg(long)]
    pub(crate) drain: bool,
}

impl Setup {
    /// Refuses what cannot work, and says what could.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        shape(self).check().map_err(|error| Failure::Usage(error.to_string()))?;
        if self.gradients == 0 || self.gradients > MAX_GRADIENTS {
            return Err(Failure::Usage(format!(
                "{} gradients asked for: choose 1 to {MAX_GRADIENTS}",
                self.gradients
            )));
        }
        if self.kills.saturating_add(self.hangs) > MAX_BLOWS {
            return Err(Failure::Usage(format!(
                "{} kills and {} hangs asked for: choose at most {MAX_BLOWS} together",
                self.kills, self.hangs
            )));
        }
        let needed = (self.blows() + 1) * 2 * self.under_way();
        if self.blows() > 0 && self.gradients < needed {
            return Err(Failure::Usage(format!(
                "{} kills and hangs among {} gradients leave no time for recovery: with {} \
                 learners and rings of {} choose --gradients {needed} or more, or fewer --kills \
                 and --hangs",
                self.blows(),
                self.gradients,
                self.learners,
                self.capacity
            )));
        }
        Ok(())
    }

    /// Kills and hangs together.
    pub(crate) fn blows(&self) -> u64 {
        self.kills + self.hangs
    }

    /// The most gradients that can be under way at once.
    pub(crate) fn under_way(&self) -> u64 {
        self.learners as u64 * (self.capacity as u64 + IN_HAND)
    }

    /// Versions that the others can make, at most, while a learner that counts stands still.
    pub(crate) fn held_up(&self) -> u64 {
        let slack = match self.sync {
            Sync::Async | Sync::Bsp => 0,
            Sync::Ssp(slack) => slack.min(self.gradients),
        };
        self.under_way() + self.learners as u64 * (slack + 1)
    }

    /// Lives that a seat can see: each begins at the start or after a blow.
    pub(crate) fn lives_limit(&self) -> usize {
        self.blows() as usize + 1
    }

    /// Versions that the log has room for.
    pub(crate) fn log_limit(&self) -> u64 {
        self.gradients + if self.drain { 2 * self.under_way() } else { 0 }
    }

    /// Whether a pull must hold exactly the version it claims, so that gradients can be computed
    /// on it: in BSP nothing changes while learners pull, and consistent pulls promise it.
    pub(crate) fn pulls_are_exact(&self) -> bool {
        self.consistent || self.sync == Sync::Bsp
    }

    /// Whether a killed learner keeps its seat until it is replaced, so that the result depends
    /// on nothing but the gradients.
    pub(crate) fn keeps_seats(&self) -> bool {
        self.sync == Sync::Bsp && !self.evict
    }

    /// Learners that the server waits for before it begins. A BSP round is among those who have
    /// joined: the first one must find everybody, or the result would depend on who came first.
    pub(crate) fn quorum(&self) -> usize {
        if self.sync == Sync::Bsp { self.learners } else { 0 }
    }

    /// What a gradient is computed from besides the weights. Where a killed learner keeps its
    /// seat, its next life computes what it would have computed.
    pub(crate) fn origin(&self, learner: u32, epoch: u32, clock: u64) -> Origin {
        let epoch = if self.keeps_seats() { 0 } else { epoch };
        Origin { learner, epoch, clock }
    }

    /// The flags that ask for this setup.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags: Vec<String> = [
            ("--learners", self.learners.to_string()),
            ("--gradients", self.gradients.to_string()),
            ("--kills", self.kills.to_string()),
            ("--hangs", self.hangs.to_string()),
            ("--capacity", self.capacity.to_string()),
            ("--sync", self.sync.to_string()),
        ]
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_string(), value])
        .collect();
        if self.consistent {
            flags.push("--consistent".into());
        }
        if self.evict {
            flags.push("--evict".into());
        }
        if self.drain {
            flags.push("--drain".into());
        }
        flags
    }
}

/// How far learners may run apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// As far as they like.
    Async,
    /// So many clocks ahead of the slowest.
    Ssp(u64),
    /// In rounds of everybody, averaged in seat order.
    Bsp,
}

impl Sync {
    /// What the pull threads wait for.
    pub(crate) fn slack(self) -> Slack {
        match self {
            Self::Async => Slack::Unbounded,
            Self::Ssp(slack) => Slack::Bounded(slack),
            Self::Bsp => Slack::Bounded(0),
        }
    }

    /// What the server waits for.
    pub(crate) fn synchrony(self) -> Synchrony {
        match self {
            Self::Async | Self::Ssp(_) => Synchrony::Immediate,
            Self::Bsp => Synchrony::Averaged,
        }
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Async => f.write_str("async"),
            Self::Ssp(slack) => write!(f, "ssp:{slack}"),
            Self::Bsp => f.write_str("bsp"),
        }
    }
}

impl FromStr for Sync {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "async" => Ok(Self::Async),
            "bsp" => Ok(Self::Bsp),
            _ => text
                .strip_prefix("ssp:")
                .and_then(|slack| slack.parse().ok())
                .map(Self::Ssp)
                .ok_or_else(|| "choose async, ssp:N (for example ssp:1) or bsp".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_mode_survives_its_text() {
        for sync in [Sync::Async, Sync::Ssp(0), Sync::Ssp(7), Sync::Bsp] {
            assert_eq!(sync.to_string().parse(), Ok(sync));
        }
        for nonsense in ["", "ssp", "ssp:", "ssp:x", "ssp:-1", "BSP"] {
            assert!(nonsense.parse::<Sync>().is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(SETUP.check().is_ok());
        assert!(Setup { kills: 0, hangs: 0, gradients: 1, ..SETUP }.check().is_ok());
        for wrong in [
            Setup { learners: 0, ..SETUP },
            Setup { learners: 65, ..SETUP },
            Setup { capacity: 3, ..SETUP },
            Setup { capacity: 0, ..SETUP },
            Setup { gradients: 0, ..SETUP },
            Setup { gradients: u64::MAX, ..SETUP },
            Setup { kills: u64::MAX, ..SETUP },
            Setup { gradients: 1000, ..SETUP },
        ] {
            assert!(matches!(wrong.check(), Err(Failure::Usage(_))), "{wrong:?}");
        }
    }
}
