//! The hand-off does, operation by operation, what one buffer with one owner does: across the wrap
//! of its counts, and whoever closes it when.
//!
//! A failure prints the smallest list of operations that shows it; replay it with
//! `cargo test -p escapement-verify --test oracle_handoff`.

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::bell::Doorbell;
use protocol::handoff::{Giver, Handoff, Taker};
use ps::platform::Threads;
use verify::oracle::handoff::{Expected, Operation, Oracle};

fn operation() -> impl Strategy<Value = Operation> {
    let value = 1..1000_u64;
    prop_oneof![
        2 => value.clone().prop_map(|value| Operation::Fill { value }),
        10 => value.clone().prop_map(|value| Operation::Give { value }),
        2 => value.clone().prop_map(|value| Operation::Empty { value }),
        10 => value.prop_map(|value| Operation::GiveBack { value }),
        1 => Just(Operation::CloseGiver),
        1 => Just(Operation::CloseTaker),
    ]
}

fn step(
    giver: &mut Giver<'_, Threads, u64>,
    taker: &mut Taker<'_, Threads, u64>,
    operation: Operation,
) -> Expected {
    match operation {
        Operation::Fill { value } | Operation::Give { value } => {
            Expected::Found(giver.loan().map(|loan| {
                let mut loan = loan?;
                let found = loan.with(|buffer| std::mem::replace(buffer, value));
                if matches!(operation, Operation::Give { .. }) {
                    loan.give();
                }
                Some(found)
            }))
        }
        Operation::Empty { value } | Operation::GiveBack { value } => {
            Expected::Found(taker.loan().map(|borrow| {
                let mut borrow = borrow?;
                let found = borrow.with(|buffer| std::mem::replace(buffer, value));
                if matches!(operation, Operation::GiveBack { .. }) {
                    borrow.give_back();
                }
                Some(found)
            }))
        }
        Operation::CloseGiver => {
            giver.close();
            Expected::Done
        }
        Operation::CloseTaker => {
            taker.close();
            Expected::Done
        }
    }
}

proptest! {
    #![proptest_config(common::cases(20_000))]

    #[test]
    fn a_handoff_is_one_buffer_with_one_owner(
        count in prop_oneof![Just(0), Just(u32::MAX), u32::MAX - 8..=u32::MAX, any::<u32>()],
        operations in vec(operation(), 1..120),
    ) {
        let bell = Doorbell::new();
        let mut handoff = Handoff::<Threads, u64>::starting_at(count, 0);
        let (mut giver, mut taker) = handoff.split(&bell);
        let mut oracle = Oracle::new(0);
        for (number, operation) in operations.into_iter().enumerate() {
            let expected = oracle.step(operation);
            let found = step(&mut giver, &mut taker, operation);
            prop_assert_eq!(found, expected, "{} {:?}", number, operation);
        }
    }
}
