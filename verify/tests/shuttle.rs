//! Samples schedules of every shuttle case, at random and by PCT, and prints how many.
//!
//! A case passes if no schedule fails and no outcome is seen that the case does not state. The
//! seed is printed; the same seed samples the same schedules:
//! `ESCAPEMENT_SEED=7 cargo test --features shuttle --test shuttle -- NAME`.
//! `ESCAPEMENT_SCHEDULES=20000` samples that many of each case instead of the default.

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use verify::property_table::{Column, complaints};
use verify::shuttle_platform::{Shuttle, Strategy, sample};
use verify::{Case, models};

/// Schedules of each case and strategy: more than 20,000 in all.
const SCHEDULES: usize = 600;

type Rows = Arc<Mutex<Vec<Row>>>;

struct Row {
    name: &'static str,
    strategy: Strategy,
    schedules: u64,
    elapsed: Duration,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let seed = number("ESCAPEMENT_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
    let schedules = number("ESCAPEMENT_SCHEDULES").map_or(SCHEDULES, |number| number as usize);
    let rows = Rows::default();
    let cases = models::catalogue::<Shuttle>();
    let complaints = complaints(Column::Shuttle, &cases);
    let mut trials: Vec<_> = cases
        .into_iter()
        .flat_map(|case| Strategy::of(case.shuttle).iter().map(move |strategy| (case, *strategy)))
        .map(|(case, strategy)| {
            let rows = Arc::clone(&rows);
            let name = format!("{}::{}", case.name, name_of(strategy));
            Trial::test(name, move || check(case, strategy, seed, schedules, &rows))
        })
        .collect();
    trials.push(Trial::test("the_property_table_names_the_case_behind_each_cell", move || {
        if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
    }));
    println!("shuttle seed {seed}");
    let conclusion = libtest_mimic::run(&arguments, trials);
    print_table(&mut rows.lock().unwrap(), seed);
    conclusion.exit_code()
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    match value.parse() {
        Ok(number) => Some(number),
        Err(_) => {
            eprintln!("{variable}={value} is not a number: ignored");
            None
        }
    }
}

fn check(
    case: Case,
    strategy: Strategy,
    seed: u64,
    schedules: usize,
    rows: &Rows,
) -> Result<(), Failed> {
    let start = Instant::now();
    let replay = format!(
        "replay: ESCAPEMENT_SEED={seed} ESCAPEMENT_SCHEDULES={schedules} \
         cargo test --features shuttle --test shuttle -- {}::{}",
        case.name,
        name_of(strategy)
    );
    let sampled = std::panic::catch_unwind(|| sample(&case, strategy, seed, schedules));
    let recorder = sampled.map_err(|_| Failed::from(&replay))?;
    let elapsed = start.elapsed();
    let executed = recorder.executions();
    rows.lock().unwrap().push(Row { name: case.name, strategy, schedules: executed, elapsed });
    let unexpected: Vec<_> = recorder
        .seen()
        .into_iter()
        .filter(|seen| !case.outcomes.contains(&seen.as_str()))
        .collect();
    if executed < schedules as u64 {
        return Err(format!("only {executed} of {schedules} schedules ran; {replay}").into());
    }
    if !unexpected.is_empty() {
        return Err(format!("outcomes not stated: {unexpected:?}; {replay}").into());
    }
    Ok(())
}

fn name_of(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Random => "random",
        Strategy::Pct(_) => "pct",
    }
}

fn print_table(rows: &mut [Row], seed: u64) {
    rows.sort_by_key(|row| (row.name, name_of(row.strategy)));
    println!("{:<84} {:<8} {:>10} {:>8}", "shuttle model", "strategy", "schedules", "seconds");
    for Row { name, strategy, schedules, elapsed } in rows.iter() {
        let seconds = elapsed.as_secs_f64();
        println!("{name:<84} {:<8} {schedules:>10} {seconds:>8.2}", name_of(*strategy));
    }
    let total: u64 = rows.iter().map(|row| row.schedules).sum();
    println!("{total} schedules from seed {seed}\n");
}
