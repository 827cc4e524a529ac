//! Explores every loom case and prints what was explored.

use verify::loom_platform::{Loom, explore};
use verify::{Order, models};

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    for case in models::catalogue::<Loom>() {
        if case.loom.is_none() || !case.name.contains(&filter) { continue; }
        for order in [Order::Forward, Order::Backward] {
            let e = explore(&case, order);
            println!("{} {:?} {:?} {} {:?} {:?}", case.name, case.loom, order, e.executions, e.elapsed, e.outcomes);
        }
    }
}
