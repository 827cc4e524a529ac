//! What came out: medians, quartiles, ratios within rounds, and whether the claim holds.

use std::fmt;

use super::{Mode, TRANSPORTS};

/// What was measured of one transport in one mode.
#[derive(Default)]
pub(super) struct Series {
    pub(super) trip_us: Vec<f64>,
    pub(super) sleeps_a_trip: Vec<f64>,
}

/// Median and quartiles.
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }

    fn json(&self) -> String {
        let Self { low, median, high } = self;
        format!("{{\"median\":{median:.4},\"quartiles\":[{low:.4},{high:.4}]}}")
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.2} [{:.2} {:.2}]", self.median, self.low, self.high))
    }
}

/// What was measured of all transports in one mode.
pub(super) struct Report {
    pub(super) mode: Mode,
    pub(super) series: Vec<Series>,
}

impl Report {
    fn time_us(&self, transport: usize) -> Spread {
        Spread::of(self.series[transport].trip_us.iter().copied())
    }

    fn sleeps(&self, transport: usize) -> f64 {
        Spread::of(self.series[transport].sleeps_a_trip.iter().copied()).median
    }

    /// Ours over another transport, round by round.
    fn ratio(&self, other: usize) -> Spread {
        let (ours, theirs) = (&self.series[0].trip_us, &self.series[other].trip_us);
        Spread::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
    }

    /// Whether ours costs at most what one of the others does.
    pub(super) fn holds(&self) -> bool {
        (1..TRANSPORTS.len()).any(|other| self.ratio(other).median <= 1.0)
    }

    pub(super) fn json(&self) -> String {
        let transports = TRANSPORTS.iter().enumerate().map(|(index, name)| {
            let time = self.time_us(index).json();
            let sleeps = self.sleeps(index);
            format!("\"{name}\":{{\"round_trip_us\":{time},\"sleeps_a_trip\":{sleeps:.2}}}")
        });
        let ratios = (1..TRANSPORTS.len()).map(|other| {
            format!("\"ours_over_{}\":{}", TRANSPORTS[other], self.ratio(other).json())
        });
        let fields: Vec<_> = transports.chain(ratios).collect();
        let (mode, holds) = (self.mode.name, self.holds());
        format!("{{\"mode\":\"{mode}\",{},\"holds\":{holds}}}", fields.join(","))
    }

    fn print(&self) {
        print!("{:16}", self.mode.name);
        for index in 0..TRANSPORTS.len() {
            print!(" {:22}", self.time_us(index));
        }
        for other in 1..TRANSPORTS.len() {
            print!(" {:18}", self.ratio(other));
        }
        let sleeps: Vec<_> =
            (0..TRANSPORTS.len()).map(|index| format!("{:.2}", self.sleeps(index))).collect();
        println!(" {}", sleeps.join(" "));
    }
}

/// Prints a table.
pub(super) fn print_table(reports: &[Report], rounds: usize) {
    println!(
        "64-byte payload, round trips between two processes: us, median of {rounds} rounds [quartiles]"
    );
    print!("{:16}", "");
    for name in TRANSPORTS {
        print!(" {name:22}");
    }
    for other in &TRANSPORTS[1..] {
        print!(" {:18}", format!("ours/{other}"));
    }
    println!(" sleeps a trip");
    for report in reports {
        report.print();
    }
}
