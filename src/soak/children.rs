//! Child processes: how they are started, struck, and seen to stop or die.
//!
//! Every child is this same program with a hidden subcommand. It dies with its parent: it asks the
//! kernel for a SIGKILL at the parent's death ([`die_with`]), and leaves at once if that was too
//! late. The parent is the only one to wait for it, so a pid cannot be reused under its hands.
//! Each child has a process group of its own: Ctrl-C reaches the parent, which then cleans up.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process,
    set_parent_process_death_signal, waitpid,
};

use super::plan::{Harm, Victim};
use super::{Failure, Setup};

/// How to start a child.
pub(crate) struct Spawner {
    program: PathBuf,
    flags: Vec<String>,
}

impl Spawner {
    /// Starts children of a soak that inherit `file`.
    pub(crate) fn new(setup: &Setup, file: &File) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|cause| Failure::Start { who: "a child".into(), cause })?;
        let mut flags = setup.flags();
        flags.extend(["--descriptor".into(), file.as_raw_fd().to_string()]);
        flags.extend(["--parent".into(), getpid().as_raw_nonzero().to_string()]);
        Ok(Self { program, flags })
    }

    /// Starts the server.
    pub(crate) fn server(&self) -> Result<Process, Failure> {
        self.spawn("the server", "soak-server", &[])
    }

    /// Starts a learner on seat `learner`, in the place of the life `dead` if there was one.
    pub(crate) fn learner(&self, learner: usize, dead: Option<u32>) -> Result<Process, Failure> {
        let mut flags = vec!["--learner".to_string(), learner.to_string()];
        if let Some(dead) = dead {
            flags.extend(["--dead".to_string(), dead.to_string()]);
        }
        self.spawn(&format!("learner {learner}"), "soak-learner", &flags)
    }

    fn spawn(&self, who: &str, subcommand: &str, flags: &[String]) -> Result<Process, Failure> {
        let cannot = |cause| Failure::Start { who: who.to_string(), cause };
        let child = Command::new(&self.program)
            .arg(subcommand)
            .args(&self.flags)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| cannot(io::Error::other("the system gave it no pid")))?;
        Ok(Process {
            pid,
            reaped: false,
            stopped: false,
            struck: None,
            given_up: false,
            absence: Duration::ZERO,
        })
    }
}

/// Ties the life of this process to that of `parent`. False if the parent is already gone.
pub(crate) fn die_with(parent: i32) -> io::Result<bool> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent))
}

/// What became of a child since it was last looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It stopped, by our hand or its own.
    Stopped,
    /// It returned this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
}

/// A child that has not been waited for. Dropping it kills it and waits.
pub(crate) struct Process {
    pid: Pid,
    reaped: bool,
    /// Whether it was last seen stopped.
    pub(crate) stopped: bool,
    /// The blow it was dealt, if one is still being suffered.
    pub(crate) struck: Option<Harm>,
    /// Whether it was woken on a seat that had been taken from it.
    pub(crate) given_up: bool,
    /// How long it shall be missed after that blow.
    pub(crate) absence: Duration,
}

impl Process {
    /// Its pid.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// What became of it, if anything did.
    pub(crate) fn news(&mut self) -> Option<News> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        // The only errors are a signal to this process, after which the next look will tell, and
        // a child that is not ours, which cannot be.
        let (_, status) = waitpid(Some(self.pid), options).ok().flatten()?;
        let news = judge(status)?;
        match news {
            News::Stopped => self.stopped = true,
            News::Exited(_) | News::Killed(_) => self.reaped = true,
        }
        Some(news)
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Stops it.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn resume(&mut self) {
        self.stopped = false;
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // It is ours and has not been waited for, so the pid is its own, dead or alive.
        let _ = kill_process(self.pid, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            while let Err(rustix::io::Errno::INTR) = waitpid(Some(self.pid), WaitOptions::empty()) {
            }
        }
    }
}

fn judge(status: WaitStatus) -> Option<News> {
    if status.stopped() {
        return Some(News::Stopped);
    }
    let exited = status.exit_status().map(News::Exited);
    exited.or_else(|| status.terminating_signal().map(News::Killed))
}

impl std::fmt::Display for Victim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server => f.write_str("the server"),
            Self::Learner(learner) => write!(f, "learner {learner}"),
        }
    }
}

impl std::fmt::Display for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Exited(code) => write!(f, "returned with code {code}"),
            Self::Killed(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}
