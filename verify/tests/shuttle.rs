//! Samples.
use verify::models;
use verify::shuttle_platform::{Shuttle, Strategy, sample};
fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let n: usize = std::env::args().nth(2).map_or(100, |n| n.parse().unwrap());
    for case in models::catalogue::<Shuttle>() {
        if !case.shuttle || case.variants > 1 || !case.name.contains(&filter) {
            continue;
        }
        for strategy in [Strategy::Random, Strategy::Pct(3)] {
            let start = std::time::Instant::now();
            let r = sample(&case, strategy, 7, n);
            println!(
                "{} {:?} {} {:?} {:?}",
                case.name,
                strategy,
                r.executions(),
                start.elapsed(),
                r.seen()
            );
        }
    }
}
