//! A soak: the verified protocol on real processes, real shared memory and real SIGKILLs.
//!
//! ```text
//!                   watchdog (this process): blows, deaths, successors
//!                  ┌──────────────┼──────────────┐
//!             learner 0 ...  learner n         server
//!                  └──── one mapping: run, weights, accounts, log ────┘
//! ```
//!
//! [`watchdog`] starts a [`server`] and some [`learner`]s on one [`memory`], deals them the blows
//! that the [`plan`] drew from the seed, and replaces whoever dies; when all gradients are applied
//! and everybody has returned, the [`audit`] holds what is left against what must hold. The
//! concurrency is `protocol`'s, unchanged: here are only arithmetic, processes and suspicion.

mod arithmetic;
mod audit;
mod children;
mod learner;
mod memory;
mod plan;
mod report;
mod server;
mod setup;
mod watchdog;

use std::hint;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use audit::Evidence;
use children::Spawner;
use memory::Memory;
pub(crate) use report::Report;
pub(crate) use setup::Setup;
use watchdog::{Tally, Watchdog};

/// Where shared memory lives on Linux, without a disk behind it.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// The flags of `escapement soak`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Soak {
    #[command(flatten)]
    pub(crate) setup: Setup,

    /// Draw the blows from this seed; a random one is chosen and shown otherwise
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Make the shared file here; it is unlinked at once. Shared memory, or else the temporary
    /// directory, is used otherwise
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Give up after so many seconds, and show the state of every seat
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) timeout: u64,

    /// Print the outcome as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Show no progress
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// The flags of a child.
#[derive(Args, Clone, Debug)]
pub(crate) struct Child {
    #[command(flatten)]
    setup: Setup,
    #[arg(long)]
    descriptor: i32,
    #[arg(long)]
    parent: i32,
    #[arg(long, default_value_t = 0)]
    learner: usize,
    #[arg(long)]
    dead: Option<u32>,
}

/// How a child returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The run has ended, or the seat was left in good order.
    Done = 0,
    /// The seat belongs to another life.
    Evicted = 3,
}

/// Why a soak came to no end. Each says what happened and what to do about it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for cannot be done.
    Usage(String),
    /// There is no memory to share.
    Memory { path: PathBuf, cause: io::Error },
    /// A process could not be started.
    Start { who: String, cause: io::Error },
    /// The protocol refused to go on.
    Protocol { who: String, cause: String },
    /// A child ended as none should.
    Child { who: String, news: String, state: String },
    /// The deadline passed.
    Hung { state: String },
    /// Somebody asked us to end.
    Interrupted,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(cause) => f.write_str(cause),
            Self::Memory { path, cause } => write!(
                f,
                "cannot make shared memory at {}: {cause}: choose another directory with --dir, \
                 or fewer --gradients",
                path.display()
            ),
            Self::Start { who, cause } => write!(
                f,
                "cannot start {who}: {cause}: check the limits on processes, or choose fewer \
                 --learners"
            ),
            Self::Protocol { who, cause } => write!(f, "{who}: {cause}"),
            Self::Child { who, news, state } => {
                write!(f, "{who} {news}, which nobody asked for; the run then:\n{state}")
            }
            Self::Hung { state } => write!(
                f,
                "the run did not end in time (raise --timeout if the machine is slow); it stands \
                 at:\n{state}"
            ),
            Self::Interrupted => f.write_str("interrupted; all processes and memory are released"),
        }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// The code to return to the shell.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Interrupted => 130,
            _ => 1,
        }
    }
}

impl Soak {
    /// The seed to use: the one asked for, or one from the clock.
    pub(crate) fn choose_seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // Short enough to be typed again.
            arithmetic::mix(now.as_nanos() as u64) % 1_000_000
        })
    }

    /// The command that deals the same blows again.
    pub(crate) fn replay(&self, seed: u64) -> String {
        format!("escapement soak {} --seed {seed}", self.setup.flags().join(" "))
    }
}

/// Runs a soak to its end and audits it.
pub(crate) fn run(soak: &Soak, seed: u64) -> Result<Report, Failure> {
    soak.setup.check()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|cause| Failure::Start { who: "a signal handler".into(), cause })?;
    }
    let directory = soak.dir.clone().unwrap_or_else(memory_directory);
    let (memory, file) = Memory::create(&soak.setup, &directory)?;
    let (run, area) = (memory.run()?, memory.area());
    let spawner = Spawner::new(&soak.setup, &file)?;
    let blows = plan::draw(&soak.setup, seed);
    let started = Instant::now();
    let deadline = started + Duration::from_secs(soak.timeout.clamp(1, 1_000_000));
    let watchdog = Watchdog::start(&soak.setup, run, area, spawner, blows)?;
    let bar = progress_bar(soak);
    let progress = |version: u64, tally: &Tally| {
        bar.set_position(version);
        bar.set_message(format!("{} kills, {} hangs", tally.kills(), tally.hangs));
    };
    let outcome = watchdog.watch(deadline, &interrupted, progress);
    bar.finish_and_clear();
    let tally = outcome?;
    let evidence = Evidence::collect(&soak.setup, &run, &area, tally.seals.clone());
    let audit = audit::examine(&evidence);
    let elapsed = started.elapsed();
    Ok(Report { seed, elapsed, evidence, tally, audit, replay: soak.replay(seed) })
}

/// The life of a child: a server, or a learner.
pub(crate) fn be_server(child: &Child) -> Result<Exit, Failure> {
    with_memory(child, |memory| server::serve(&child.setup, memory))
}

/// The life of a learner.
pub(crate) fn be_learner(child: &Child) -> Result<Exit, Failure> {
    with_memory(child, |memory| learner::live(&child.setup, memory, child.learner, child.dead))
}

fn with_memory(
    child: &Child,
    live: impl FnOnce(&Memory) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    child.setup.check()?;
    let alone = || Failure::Usage("this subcommand is started by `escapement soak` only".into());
    if !children::die_with(child.parent).unwrap_or(false) {
        return Err(alone());
    }
    live(&Memory::inherit(&child.setup, child.descriptor)?)
}

fn memory_directory() -> PathBuf {
    let shared = Path::new(MEMORY_DIRECTORY);
    if shared.is_dir() { shared.to_path_buf() } else { std::env::temp_dir() }
}

fn progress_bar(soak: &Soak) -> ProgressBar {
    if soak.quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = "{bar:40} {pos} of {len} gradients, {msg}, {elapsed} ";
    let style =
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(soak.setup.gradients).with_style(style)
}

/// Takes its time, so that a blow is likely to fall right here.
fn dawdle(pauses: u32) {
    for _ in 0..pauses {
        hint::spin_loop();
    }
}
