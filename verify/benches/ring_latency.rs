//! What one gradient costs through the ring, against what it costs anywhere else.
//!
//! Two processes play ping-pong with a payload of 64 bytes: this one serves and times, a copy of
//! this program returns. Every transport has the same two verbs ([`Link`]: copy a payload in, copy
//! it out) and the same loop around them.
//!
//! | transport | spinning | parked |
//! |---|---|---|
//! | ours | a ring of a mapped run each way, polled | the same, no spin before the futex |
//! | raw | a sequence word and a payload each way, polled | the same, and a futex on the word |
//! | iceoryx2 (feature `peers`) | publish-subscribe each way, polled | the same, and a listener |
//!
//! Raw is the floor: no ownership, no header, no room for a second message, no death survived.
//! Absolute times say more about the machine than about the code, so each round runs all
//! transports one after the other, in rotating order, and what counts is the ratio within a round:
//! medians and quartiles over the rounds are reported. Processes are pinned, since where the
//! scheduler puts a sleeper decides more than any transport does: spinning and `parked apart` to
//! two cores, `parked together` to one. Sleeps are counted, so that parked means parked.
//!
//! The claim: in every mode ours costs at most what iceoryx2 *or* raw costs. The exit code is 1 if
//! it costs more than both. `--quick` takes seconds, `--json` prints one object.

use std::env;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

#[path = "ring_latency/ours.rs"]
mod ours;
#[cfg(feature = "peers")]
#[path = "ring_latency/iceoryx2.rs"]
mod peer;
#[path = "ring_latency/raw.rs"]
mod raw;
#[path = "ring_latency/report.rs"]
mod report;

use report::{Report, Series, print_table};

type Payload = [u64; 8];
type Outcome<T> = Result<T, Box<dyn Error>>;

/// The argument that makes this program the returning side.
const RETURNS: &str = "--returns";
/// Trips before the clock starts: caches fill, the peer comes out of its pipe.
const WARM_UP_TRIPS: u32 = 8;

/// One end of a connection that carries payloads both ways.
trait Link {
    fn send(&mut self, payload: &Payload);
    fn receive(&mut self) -> Payload;

    /// Serves `trips` payloads and takes each back; returns how long that took.
    fn serve(&mut self, trips: u32) -> Duration {
        let start = Instant::now();
        for trip in 0..u64::from(trips) {
            self.send(&black_box([trip; 8]));
            let returned = black_box(self.receive());
            assert_eq!((returned[0], returned[7]), (trip + 1, trip), "what was sent comes back");
        }
        start.elapsed()
    }

    /// Returns `trips` payloads, each marked.
    fn give_back(&mut self, trips: u32) {
        for _ in 0..trips {
            let mut payload = black_box(self.receive());
            payload[0] += 1;
            self.send(&payload);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Serves,
    Returns,
}

impl Side {
    /// Of two directions, the one this side sends on and the one it receives on.
    fn order<T>(self, [there, back]: [T; 2]) -> (T, T) {
        match self {
            Self::Serves => (there, back),
            Self::Returns => (back, there),
        }
    }
}

/// How the receiver waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Spinning,
    Parked,
}

#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    wait: Wait,
    apart: bool,
}

const MODES: [Mode; 3] = [
    Mode { name: "spinning", wait: Wait::Spinning, apart: true },
    Mode { name: "parked apart", wait: Wait::Parked, apart: true },
    Mode { name: "parked together", wait: Wait::Parked, apart: false },
];

const TRANSPORTS: &[&str] =
    if cfg!(feature = "peers") { &["ours", "raw", "iceoryx2"] } else { &["ours", "raw"] };

/// One link of each transport, in the order of [`TRANSPORTS`].
fn connect(side: Side, wait: Wait, directory: &Path) -> Outcome<Vec<Box<dyn Link>>> {
    Ok(vec![
        Box::new(ours::Ours::connect(side, wait, directory)?),
        Box::new(raw::Raw::connect(side, wait, directory)?),
        #[cfg(feature = "peers")]
        Box::new(peer::Iceoryx2::connect(side, wait, directory)?),
    ])
}

/// What the serving side asks the returning side to do.
struct Order {
    mode: u8,
    transport: u8,
    trips: u32,
}

impl Order {
    fn encode(&self) -> [u8; 6] {
        let [a, b, c, d] = self.trips.to_le_bytes();
        [self.mode, self.transport, a, b, c, d]
    }

    fn decode([mode, transport, a, b, c, d]: [u8; 6]) -> Self {
        Self { mode, transport, trips: u32::from_le_bytes([a, b, c, d]) }
    }
}

/// The links of one side, and where it runs.
struct Player {
    side: Side,
    cores: [usize; 2],
    spinning: Vec<Box<dyn Link>>,
    parked: Vec<Box<dyn Link>>,
}

impl Player {
    fn enter(side: Side, directory: &Path) -> Outcome<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let (Some(first), Some(second)) = (cores.next(), cores.next()) else {
            return Err("two processes that spin need two cores".into());
        };
        Ok(Self {
            side,
            cores: [first, second],
            spinning: connect(side, Wait::Spinning, directory)?,
            parked: connect(side, Wait::Parked, directory)?,
        })
    }

    /// Moves to the core of `mode` and picks the link.
    fn take_up(&mut self, mode: Mode, transport: usize) -> Outcome<&mut dyn Link> {
        let (serving, returning) = (self.cores[0], self.cores[usize::from(mode.apart)]);
        let mut core = CpuSet::new();
        core.set(if self.side == Side::Serves { serving } else { returning });
        sched_setaffinity(None, &core)?;
        let links = match mode.wait {
            Wait::Spinning => &mut self.spinning,
            Wait::Parked => &mut self.parked,
        };
        Ok(&mut *links[transport])
    }
}

/// The returning side: does what it is asked until its input ends.
fn return_everything(directory: &Path) -> Outcome<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut player = Player::enter(Side::Returns, directory)?;
    let (mut input, mut output) = (std::io::stdin(), std::io::stdout());
    let mut say_ready = || output.write_all(b".").and_then(|()| output.flush());
    say_ready()?;
    let mut order = [0; 6];
    while input.read_exact(&mut order).is_ok() {
        let Order { mode, transport, trips } = Order::decode(order);
        let link = player.take_up(MODES[usize::from(mode)], usize::from(transport))?;
        say_ready()?;
        link.give_back(trips);
    }
    Ok(())
}

/// The other process, and somebody who waits for its end.
struct Peer {
    orders: ChildStdin,
    replies: ChildStdout,
    watch: JoinHandle<()>,
}

impl Peer {
    fn start(directory: &Path) -> Outcome<Self> {
        let mut child = Command::new(env::current_exe()?)
            .arg(RETURNS)
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().ok_or("the input is a pipe")?;
        let replies = child.stdout.take().ok_or("the output is a pipe")?;
        let directory = directory.to_owned();
        let watch = thread::spawn(move || Self::watch(child, &directory));
        let mut peer = Self { orders, replies, watch };
        peer.await_ready()?;
        Ok(peer)
    }

    /// A peer that dies leaves this side waiting for ever: nothing is left but to go too.
    fn watch(mut child: Child, directory: &Path) {
        match child.wait() {
            Ok(status) if status.success() => {}
            outcome => {
                eprintln!("the returning process died: {outcome:?}");
                sweep(directory);
                process::exit(2);
            }
        }
    }

    fn ask(&mut self, order: &Order) -> Outcome<()> {
        self.orders.write_all(&order.encode())?;
        self.await_ready()
    }

    fn await_ready(&mut self) -> Outcome<()> {
        Ok(self.replies.read_exact(&mut [0])?)
    }

    fn dismiss(self) {
        drop(self.orders);
        self.watch.join().expect("watching does not panic");
    }
}

/// How long to measure.
struct Effort {
    rounds: usize,
    spinning_trips: u32,
    parked_trips: u32,
}

impl Effort {
    // Short batches: most of them end before anybody else gets the core.
    const QUICK: Self = Self { rounds: 200, spinning_trips: 500, parked_trips: 25 };
    const FULL: Self = Self { rounds: 600, spinning_trips: 500, parked_trips: 25 };
}

/// Plays all rounds of one mode.
fn measure(player: &mut Player, peer: &mut Peer, mode: usize, effort: &Effort) -> Outcome<Report> {
    let trips = match MODES[mode].wait {
        Wait::Spinning => effort.spinning_trips,
        Wait::Parked => effort.parked_trips,
    };
    let mut series: Vec<_> = TRANSPORTS.iter().map(|_| Series::default()).collect();
    for round in 0..effort.rounds {
        for place in 0..TRANSPORTS.len() {
            let transport = (round + place) % TRANSPORTS.len();
            let link = player.take_up(MODES[mode], transport)?;
            let all = WARM_UP_TRIPS + trips;
            peer.ask(&Order { mode: mode as u8, transport: transport as u8, trips: all })?;
            link.serve(WARM_UP_TRIPS);
            let sleeps = voluntary_switches()?;
            let time = link.serve(trips);
            let sleeps = voluntary_switches()? - sleeps;
            let measured = &mut series[transport];
            measured.trip_us.push(time.as_secs_f64() * 1e6 / f64::from(trips));
            measured.sleeps_a_trip.push(sleeps as f64 / f64::from(trips));
        }
    }
    Ok(Report { mode: MODES[mode], series })
}

/// How often this thread has gone to sleep.
fn voluntary_switches() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Ok(line.ok_or("the kernel counts context switches")?.trim().parse()?)
}

/// Shared memory if there is some, so that no disk takes part.
fn make_directory() -> Outcome<PathBuf> {
    let shared = Path::new("/dev/shm");
    let temporary = env::temp_dir();
    let parent = if shared.is_dir() { shared } else { &temporary };
    Ok(tempfile::Builder::new().prefix("ring-latency-").tempdir_in(parent)?.keep())
}

/// Removes everything shared. What cannot be removed is left, since nothing depends on it.
fn sweep(directory: &Path) {
    #[cfg(feature = "peers")]
    peer::sweep(directory);
    let _ = fs::remove_dir_all(directory);
}

fn main() -> Outcome<ExitCode> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [flag, directory] = &arguments[..]
        && flag == RETURNS
    {
        return_everything(Path::new(directory))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Cargo adds `--bench`.
    let has = |flag| arguments.iter().any(|argument| argument == flag);
    let effort = if has("--quick") { Effort::QUICK } else { Effort::FULL };

    let directory = make_directory()?;
    let mut player = Player::enter(Side::Serves, &directory)?;
    let mut peer = Peer::start(&directory)?;
    let mut reports = Vec::new();
    for mode in 0..MODES.len() {
        reports.push(measure(&mut player, &mut peer, mode, &effort)?);
    }
    peer.dismiss();
    drop(player);
    sweep(&directory);

    if has("--json") {
        let modes: Vec<_> = reports.iter().map(Report::json).collect();
        println!("{{\"rounds\":{},\"modes\":[{}]}}", effort.rounds, modes.join(","));
    } else {
        print_table(&reports, effort.rounds);
    }
    if !cfg!(feature = "peers") {
        eprintln!("not judged: add `--features peers` to measure against iceoryx2 as well");
        return Ok(ExitCode::SUCCESS);
    }
    let slower: Vec<_> = reports.iter().filter(|report| !report.holds()).collect();
    for report in &slower {
        eprintln!("{}: the ring costs more than either peer", report.mode.name);
    }
    Ok(if slower.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
