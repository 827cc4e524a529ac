//! The hot path allocates nothing and calls the kernel only when somebody sleeps.
//!
//! Each scenario runs in a child process (this program again). It maps, allocates and starts
//! everything, then shuts the door behind itself ([`confinement`]): from there on a system call
//! ends the process with the number of the call, and every allocation is counted. Hundreds of
//! thousands of gradients later it reports what happened. So the claims are about the code as it
//! ships, on the platforms it ships on, and not about a trace of what it happened to do.
//!
//! The door is a seccomp filter that all threads get at once and that traps. Strict mode would do
//! the same, but it kills only the thread that calls, and leaves its peer spinning.
//!
//! The controls show that the door is shut: a receiver that parks, a sender that has to wake one,
//! and a loop that allocates are each caught, and caught at exactly that.

use std::env;
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};

#[path = "hot_path/confinement.rs"]
mod confinement;
#[path = "hot_path/scenarios.rs"]
mod scenarios;

use confinement::Verdict;
use scenarios::Scenario;

/// The argument that makes this program the confined child.
const CONFINED: &str = "--confined";
/// Far beyond what a scenario takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(300);

/// Runs a scenario in a child and hears what became of it.
fn verdict_on(scenario: Scenario) -> Result<Verdict, Failed> {
    let mut child = Command::new(env::current_exe()?)
        .args([CONFINED, scenario.name()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(format!("still running after {DEADLINE:?}").into());
        }
        thread::sleep(Duration::from_millis(5));
    };
    let mut said = Vec::new();
    child.stdout.take().ok_or("the output is a pipe")?.read_to_end(&mut said)?;
    Verdict::decode(&said)
        .ok_or_else(|| format!("the child ended without a verdict: {status}").into())
}

fn is_quiet(scenario: Scenario) -> Result<(), Failed> {
    match verdict_on(scenario)? {
        Verdict::Finished { allocations: 0 } => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn is_caught_at_a_futex(scenario: Scenario) -> Result<(), Failed> {
    match verdict_on(scenario)? {
        Verdict::Called { number } if number == libc::SYS_futex => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn is_caught_allocating(scenario: Scenario) -> Result<(), Failed> {
    match verdict_on(scenario)? {
        Verdict::Finished { allocations } if allocations >= scenarios::RING_GRADIENTS => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().collect();
    if let [_, flag, name] = &arguments[..]
        && flag == CONFINED
    {
        Scenario::named(name).expect("the parent asks for what there is").run();
    }
    type Check = fn(Scenario) -> Result<(), Failed>;
    let claims: [(&str, Check, Scenario); 7] = [
        ("a_ring_neither_allocates_nor_calls_the_kernel", is_quiet, Scenario::Ring),
        ("a_handoff_neither_allocates_nor_calls_the_kernel", is_quiet, Scenario::Handoff),
        ("a_journalled_server_neither_allocates_nor_calls_the_kernel", is_quiet, Scenario::Server),
        ("a_whole_walk_neither_allocates_nor_calls_the_kernel", is_quiet, Scenario::Walk),
        ("a_receiver_that_parks_is_caught", is_caught_at_a_futex, Scenario::Parks),
        ("a_sender_that_must_wake_is_caught", is_caught_at_a_futex, Scenario::Wakes),
        ("a_loop_that_allocates_is_caught", is_caught_allocating, Scenario::Allocates),
    ];
    let trials = claims
        .map(|(claim, check, scenario)| Trial::test(claim, move || check(scenario)))
        .into_iter()
        .collect();
    // Each child keeps two cores busy: one after the other.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials).exit_code()
}
