//! The clocks do, operation by operation, what a table of numbers and a set of learners do, and
//! published minima never fall.
//!
//! A failure prints the smallest list of operations that shows it; replay it with
//! `cargo test -p escapement-verify --test oracle_clock`.

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::clock::{ClockView, Slack, Timekeeper};
use protocol::platform::{Platform, Word};
use ps::platform::Threads;
use verify::oracle::clock::{Expected, Operation, Oracle};

const LEARNERS: usize = 3;
const TABLES: usize = 2;

fn operation() -> impl Strategy<Value = Operation> {
    let learner = 0..LEARNERS;
    let clock = prop_oneof![8 => 0..20_u64, 1 => Just(u64::MAX), 1 => any::<u64>()];
    let slack = prop_oneof![
        4 => (0..4_u64).prop_map(Slack::Bounded),
        1 => Just(Slack::Bounded(u64::MAX)),
        1 => Just(Slack::Unbounded),
    ];
    prop_oneof![
        2 => learner.clone().prop_map(|learner| Operation::Admit { learner }),
        1 => learner.clone().prop_map(|learner| Operation::Dismiss { learner }),
        8 => (learner, 0..TABLES, 1..=TABLES)
            .prop_map(|(learner, first, tables)| Operation::Tick { learner, first, tables }),
        6 => (clock, slack).prop_map(|(clock, slack)| Operation::Look { clock, slack }),
        1 => Just(Operation::Restart),
    ]
}

fn step<'a>(
    view: ClockView<'a, Threads>,
    time: &mut Timekeeper<'a, Threads>,
    oracle: &Oracle,
    operation: Operation,
) -> Expected {
    match operation {
        Operation::Admit { learner } => {
            time.admit(learner);
            Expected::Done
        }
        Operation::Dismiss { learner } => Expected::Rose(time.dismiss(learner)),
        Operation::Tick { learner, first, tables } => {
            let clock = oracle.next(learner, first, tables).expect("the oracle allows the tick");
            Expected::Rose(time.tick(learner, first..first + tables, clock))
        }
        Operation::Look { clock, slack } => Expected::Open(view.is_open(clock, slack)),
        Operation::Restart => {
            *time = Timekeeper::attach(view);
            Expected::Done
        }
    }
}

fn assert_same(view: ClockView<'_, Threads>, time: &Timekeeper<'_, Threads>, oracle: &Oracle) {
    for learner in 0..LEARNERS {
        assert_eq!(time.counts(learner), oracle.participants.contains(&learner));
        assert_eq!(view.resume_after(learner), oracle.resume_after(learner));
        for table in 0..TABLES {
            assert_eq!(view.applied(table, learner), oracle.applied[table][learner]);
            assert_eq!(time.applied(table, learner), oracle.applied[table][learner]);
        }
    }
    // The published minimum permits its own successor and, without slack, nothing beyond it.
    let published = *oracle.minimum.iter().min().unwrap();
    assert!(view.is_open(published + 1, Slack::Bounded(0)));
    assert!(!view.is_open(published + 2, Slack::Bounded(0)));
}

proptest! {
    #![proptest_config(common::cases(12_000))]

    #[test]
    fn clocks_are_a_table_of_numbers_whose_minima_never_fall(
        operations in vec(operation(), 1..120),
    ) {
        let word = |_| <Threads as Platform>::U64::new(0);
        let applied: Vec<_> = (0..LEARNERS * TABLES).map(word).collect();
        let minimum: Vec<_> = (0..TABLES).map(word).collect();
        let participants = word(0);
        let view = ClockView::<Threads>::new(&applied, &minimum, &participants);
        let mut time = Timekeeper::attach(view);
        let mut oracle = Oracle::new(LEARNERS, TABLES);
        for (number, operation) in operations.into_iter().enumerate() {
            let before = oracle.clone();
            let expected = oracle.step(operation);
            if expected != Expected::Skipped {
                let found = step(view, &mut time, &before, operation);
                prop_assert_eq!(found, expected, "{} {:?}", number, operation);
            }
            prop_assert!(oracle.minimum.iter().zip(&before.minimum).all(|(now, then)| now >= then));
            assert_same(view, &time, &oracle);
        }
    }
}
