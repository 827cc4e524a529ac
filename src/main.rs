//! The `escapement` command: parses, dispatches, prints.

mod soak;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use soak::{Child, Exit, Failure, Soak};

/// A parameter server whose concurrency core is model-checked and runs unchanged in production
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

const SOAK_EXAMPLES: &str = "\
Examples:
  escapement soak                            three learners, 150 kills, 15 hangs: about ten seconds
  escapement soak --sync ssp:1 --consistent  bounded staleness, one version a pull
  escapement soak --sync bsp --kills 500     the weights do not depend on who dies
  escapement soak --seed 42 --json           the same blows again, the outcome for a program

Returns 0 if every gradient passed exactly once, 1 if not, 2 if the flags make no sense.";

#[derive(Subcommand)]
enum Action {
    /// Kill learners and server at random, again and again, and audit that every gradient was
    /// applied exactly once
    #[command(after_help = SOAK_EXAMPLES)]
    Soak(Soak),
    #[command(hide = true)]
    SoakServer(Child),
    #[command(hide = true)]
    SoakLearner(Child),
}

fn main() -> ExitCode {
    match Command::parse().action {
        Action::Soak(flags) => soak(&flags),
        Action::SoakServer(child) => returned("server", soak::be_server(&child)),
        Action::SoakLearner(child) => returned("learner", soak::be_learner(&child)),
    }
}

fn soak(flags: &Soak) -> ExitCode {
    let seed = flags.choose_seed();
    match soak::run(flags, seed) {
        Ok(report) => {
            let text = if flags.json { format!("{:#}\n", report.json()) } else { report.text() };
            // A reader that has gone away does not change the verdict.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::from(u8::from(!report.is_clean()))
        }
        Err(failure) => {
            eprintln!("escapement: {failure}");
            if !matches!(failure, Failure::Usage(_) | Failure::Interrupted) {
                eprintln!("the same blows again: {}", flags.replay(seed));
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

fn returned(who: &str, outcome: Result<Exit, Failure>) -> ExitCode {
    match outcome {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => {
            eprintln!("escapement: {who}: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
