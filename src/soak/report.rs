//! What a soak says: a short table and a verdict, or the same as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::Setup;
use super::arithmetic::checksum;
use super::audit::{Audit, Evidence};
use super::watchdog::Tally;

/// Findings shown before the rest is only counted.
const SHOWN: usize = 10;

/// Everything there is to say about a soak that came to its end.
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) elapsed: Duration,
    pub(crate) evidence: Evidence,
    pub(crate) tally: Tally,
    pub(crate) audit: Audit,
    /// The command that asks for the same again.
    pub(crate) replay: String,
}

impl Report {
    /// Whether everything is as it must be.
    pub(crate) fn is_clean(&self) -> bool {
        self.audit.findings.is_empty()
    }

    /// One line that says it all.
    pub(crate) fn verdict(&self) -> String {
        let Setup { gradients, drain, .. } = self.evidence.setup;
        let due = if drain { self.evidence.version } else { gradients };
        format!(
            "{}: {} of {due} gradients, {} kills, {} hangs, {} lost, {} repeated",
            if self.is_clean() { "exactly once" } else { "NOT exactly once" },
            self.audit.applied.iter().sum::<u64>(),
            self.tally.kills(),
            self.tally.hangs,
            self.audit.lost,
            self.audit.repeated,
        )
    }

    fn fenced(&self) -> u64 {
        let lives = self.evidence.seats.iter().flat_map(|seat| &seat.lives);
        lives.map(|life| life.fenced).sum()
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::from("learner   lives  committed    applied    kills\n");
        let row = |text: &mut String, name: &str, numbers: [u64; 4]| {
            let [lives, committed, applied, kills] = numbers;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<7} {lives:>7} {committed:>10} {applied:>10} {kills:>8}");
        };
        let mut totals = [0; 4];
        for (learner, seat) in self.evidence.seats.iter().enumerate() {
            let numbers = [
                seat.lives.len() as u64,
                seat.taken + seat.left,
                self.audit.applied[learner],
                self.tally.learner_kills[learner],
            ];
            for (total, number) in totals.iter_mut().zip(numbers) {
                *total += number;
            }
            row(&mut text, &learner.to_string(), numbers);
        }
        row(&mut text, "all", totals);
        let Tally { server_kills, amid_update, hangs, evicted, .. } = self.tally;
        let Audit { median_staleness, max_staleness, .. } = self.audit;
        let _ = write!(
            text,
            "\nserver: {server_kills} kills, {amid_update} of them in the middle of an update\n\
             hangs: {hangs}, learners given up alive: {evicted}, late commits fenced: {}\n\
             version {}, staleness: median {median_staleness}, max {max_staleness}; weights \
             {:016x}; seed {}; {:.1} s\n",
            self.fenced(),
            self.evidence.version,
            checksum(&self.evidence.weights),
            self.seed,
            self.elapsed.as_secs_f64(),
        );
        for finding in self.audit.findings.iter().take(SHOWN) {
            let _ = writeln!(text, "found: {finding}");
        }
        if let Some(more) = self.audit.findings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            let _ = writeln!(text, "found: {more} more");
        }
        let _ = writeln!(text, "{}", self.verdict());
        if !self.is_clean() {
            let _ = writeln!(text, "the same blows again: {}", self.replay);
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let seats = self.evidence.seats.iter().enumerate();
        let learners: Vec<Value> = seats
            .map(|(learner, seat)| {
                json!({
                    "learner": learner,
                    "lives": seat.lives.len(),
                    "committed": seat.taken + seat.left,
                    "applied": self.audit.applied[learner],
                    "kills": self.tally.learner_kills[learner],
                })
            })
            .collect();
        let findings: Vec<String> = self.audit.findings.iter().map(ToString::to_string).collect();
        json!({
            "clean": self.is_clean(),
            "verdict": self.verdict(),
            "findings": findings,
            "learners": learners,
            "version": self.evidence.version,
            "kills": self.tally.kills(),
            "server_kills": self.tally.server_kills,
            "server_kills_amid_update": self.tally.amid_update,
            "hangs": self.tally.hangs,
            "evicted": self.tally.evicted,
            "fenced_commits": self.fenced(),
            "lost": self.audit.lost,
            "repeated": self.audit.repeated,
            "staleness": {
                "median": self.audit.median_staleness,
                "max": self.audit.max_staleness,
            },
            "weights": format!("{:016x}", checksum(&self.evidence.weights)),
            "seed": self.seed,
            "elapsed_s": self.elapsed.as_secs_f64(),
            "replay": self.replay,
        })
    }
}
