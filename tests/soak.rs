//! `escapement soak`, end to end: real processes, real shared memory, real signals.
//!
//! Every soak runs under a seed of its own that a failure prints, with the one command that deals
//! the same blows again.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long anything here may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(20);

fn soak(flags: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_escapement"));
    command.arg("soak").args(flags.split_whitespace());
    command
}

/// Runs a soak that must be clean, and returns what it says.
fn clean(flags: &str) -> Value {
    let Output { status, stdout, stderr } =
        soak(flags).args(["--json", "--timeout", "40"]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "soak {flags}: {status}\n{stdout}\n{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["clean"], true, "{report:#}");
    assert_eq!((&report["lost"], &report["repeated"]), (&0.into(), &0.into()), "{report:#}");
    report
}

/// Runs a soak in which learners and server are killed, and holds its books together.
fn survive(mode: &str) -> Value {
    let report = clean(&format!("--gradients 6000 --kills 40 --hangs 4 {mode}"));
    assert_eq!((&report["kills"], &report["hangs"]), (&40.into(), &4.into()), "{report:#}");
    assert!(report["server_kills"].as_u64() > Some(0), "{report:#}");
    let sum = |field: &str| {
        let learners = report["learners"].as_array().unwrap().iter();
        learners.map(|learner| learner[field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(Some(sum("applied")), report["version"].as_u64(), "{report:#}");
    assert!(sum("committed") >= sum("applied"), "{report:#}");
    report
}

#[test]
fn killing_learners_and_server_at_random_loses_and_repeats_nothing_async() {
    assert_eq!(survive("--sync async")["version"], 6000);
}

#[test]
fn killing_learners_and_server_at_random_loses_and_repeats_nothing_with_bounded_staleness() {
    let report = survive("--sync ssp:1");
    assert_eq!(report["version"], 6000);
    // Two clocks of two others, and those of the round under way.
    assert!(report["staleness"]["max"].as_u64() < Some(9), "{report:#}");
}

#[test]
fn killing_learners_and_server_at_random_loses_and_repeats_nothing_in_rounds() {
    assert_eq!(survive("--sync bsp")["version"], 6000);
    assert_eq!(survive("--sync bsp --evict")["version"], 6000);
}

#[test]
fn killing_learners_and_server_at_random_loses_and_repeats_nothing_with_consistent_pulls() {
    assert_eq!(survive("--consistent")["version"], 6000);
    assert_eq!(survive("--consistent --sync ssp:2 --capacity 1")["version"], 6000);
}

#[test]
fn a_run_that_is_asked_to_stop_drains_everything_committed() {
    for mode in ["--drain", "--drain --sync bsp"] {
        let report = survive(mode);
        assert!(report["version"].as_u64() >= Some(6000), "{report:#}");
        for learner in report["learners"].as_array().unwrap() {
            assert_eq!(learner["committed"], learner["applied"], "{report:#}");
        }
    }
}

#[test]
fn bsp_results_do_not_depend_on_kills() {
    let undisturbed = clean("--sync bsp --gradients 5000 --kills 0 --hangs 0");
    for seed in [1, 2] {
        let struck =
            clean(&format!("--sync bsp --gradients 5000 --kills 40 --hangs 4 --seed {seed}"));
        assert_eq!(struck["kills"], 40);
        assert_eq!(struck["weights"], undisturbed["weights"], "seed {seed}");
    }
    let shorter = clean("--sync bsp --gradients 4999 --kills 0 --hangs 0");
    assert_ne!(shorter["weights"], undisturbed["weights"]);
}

#[test]
fn a_stopped_learner_is_evicted_and_its_late_commit_is_fenced() {
    let report = clean("--gradients 6000 --kills 0 --hangs 12 --seed 5");
    assert_eq!((&report["hangs"], &report["kills"]), (&12.into(), &0.into()));
    assert!(report["evicted"].as_u64() >= Some(10), "{report:#}");
    assert!(report["fenced_commits"].as_u64() >= Some(3), "{report:#}");
}

#[test]
fn one_learner_with_one_slot_and_many_with_many_are_as_good() {
    clean("--learners 1 --capacity 1 --gradients 3000 --kills 20 --hangs 2");
    clean("--learners 7 --capacity 16 --gradients 8000 --kills 20 --hangs 2 --sync ssp:0");
}

/// A soak that would go on for long, with all of its processes up.
fn long_soak(flags: &str) -> Child {
    let child = soak(&format!("--gradients 2000000 --kills 0 --hangs 0 {flags}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("all children run", || children_of(child.id()).len() == 4);
    child
}

/// The living processes that name `parent` as theirs on their command line.
fn children_of(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = command.split(|byte| *byte == 0).collect();
        words.windows(2).any(|pair| pair == [b"--parent".as_slice(), parent.to_string().as_bytes()])
    };
    let names = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter(is_child).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn interrupting_leaves_nothing_behind() {
    for (number, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM")] {
        let directory = tempfile::tempdir().unwrap();
        let mut child = long_soak(&format!("--dir {}", directory.path().display()));
        signal(&child, number);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{name}: {said}");
        assert!(said.contains("interrupted"), "{name}: {said}");
        assert!(children_of(child.id()).is_empty(), "{name}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn the_parents_sudden_death_leaves_no_orphan_and_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = long_soak(&format!("--dir {}", directory.path().display()));
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    wait_until("no orphan is left", || children_of(child.id()).is_empty());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_run_that_does_not_end_in_time_shows_the_state_of_every_seat() {
    let flags = "--gradients 2000000 --kills 0 --hangs 0 --seed 9 --timeout 1";
    let output = soak(flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for expected in ["did not end in time", "seat 0: Live in life 1", "seat 2:", "--seed 9"] {
        assert!(said.contains(expected), "{expected:?} in {said}");
    }
}

#[test]
fn bad_flags_are_explained() {
    for (flags, way_out) in [
        ("--learners 0", "choose 1 to 64"),
        ("--capacity 3", "choose a power of two"),
        ("--sync sometimes", "choose async, ssp:N"),
        ("--gradients 0", "choose 1 to"),
        ("--gradients 100 --kills 50", "choose --gradients"),
        ("--kills 99999999", "choose at most"),
        ("--kills=-1", "--kills"),
        ("--frobnicate", "--help"),
    ] {
        let output = soak(flags).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags}: {said}");
        assert!(said.contains(way_out), "{flags}: {said}");
    }
    let output = soak("--dir /nowhere/at/all").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/nowhere/at/all") && said.contains("--dir"), "{said}");
}

#[test]
fn help_shows_examples() {
    let output = soak("--help").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    assert!(said.contains("Examples:") && said.contains("--sync bsp"), "{said}");
    assert!(!said.contains("soak-server"), "{said}");
}
