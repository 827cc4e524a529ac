//! Explores every loom case, in both spawn orders, and prints what was explored.
//!
//! A case passes if no execution fails, more than one was explored, and the set of outcomes is
//! exactly the one that the case states. `cargo test --features loom --test loom -- NAME` runs
//! the cases whose name contains `NAME`.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};
use verify::loom_platform::{Exploration, Loom, explore};
use verify::property_table::{Column, complaints};
use verify::{Case, Order, models};

type Rows = Arc<Mutex<Vec<Row>>>;

struct Row {
    case: Case,
    order: Order,
    exploration: Exploration,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let rows = Rows::default();
    let cases: Vec<_> =
        models::catalogue::<Loom>().into_iter().filter(|case| case.loom.is_some()).collect();
    let complaints = complaints(Column::Loom, &cases);
    let mut trials: Vec<_> = cases
        .into_iter()
        .flat_map(|case| [(case, Order::Forward), (case, Order::Backward)])
        .map(|(case, order)| {
            let rows = Arc::clone(&rows);
            let name = format!("{}::{}", case.name, name_of(order));
            Trial::test(name, move || check(case, order, &rows))
        })
        .collect();
    trials.push(Trial::test("the_property_table_names_the_case_behind_each_cell", move || {
        if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
    }));
    let conclusion = libtest_mimic::run(&arguments, trials);
    print_table(&mut rows.lock().unwrap());
    conclusion.exit_code()
}

fn check(case: Case, order: Order, rows: &Rows) -> Result<(), Failed> {
    let exploration = explore(&case, order);
    let (executions, outcomes) = (exploration.executions, exploration.outcomes.clone());
    rows.lock().unwrap().push(Row { case, order, exploration });
    if executions < 2 {
        return Err("only one execution was explored: the model is too small to say much".into());
    }
    if !outcomes.iter().eq(case.outcomes) {
        return Err(format!("outcomes {outcomes:?}, stated are {:?}", case.outcomes).into());
    }
    Ok(())
}

fn name_of(order: Order) -> &'static str {
    match order {
        Order::Forward => "forward",
        Order::Backward => "backward",
    }
}

fn print_table(rows: &mut [Row]) {
    rows.sort_by_key(|row| (row.case.name, name_of(row.order)));
    println!("{:<84} {:<8} {:>10} {:>8}  explored", "loom model", "order", "executions", "seconds");
    for Row { case, order, exploration } in rows {
        let bound = case.loom.and_then(|bound| bound.preemptions(*order));
        let explored =
            bound.map_or("exhaustive".to_owned(), |bound| format!("up to {bound} preemptions"));
        println!(
            "{:<84} {:<8} {:>10} {:>8.2}  {explored}",
            case.name,
            name_of(*order),
            exploration.executions,
            exploration.elapsed.as_secs_f64(),
        );
    }
    println!();
}
