//! Scenarios, one claim each, generic over the platform that explores them.
//!
//! Every case asserts its properties in each execution and records how the execution ended;
//! [`Case::outcomes`] is the exact set of ends. Cases have no timeouts and, except where closing
//! is the subject, no trailing close: either would hide a missing wake-up.

mod clock;
mod handoff;
mod ring;
mod run;
mod system;
mod weights;

use crate::case::{Case, Order, Recorder};
use crate::model::{Join, Model};

/// Every case, on the platform `M`.
pub fn catalogue<M: Model>() -> Vec<Case> {
    [
        ring::cases::<M>(),
        handoff::cases::<M>(),
        weights::cases::<M>(),
        clock::cases::<M>(),
        run::cases::<M>(),
        system::cases::<M>(),
    ]
    .concat()
}

/// Runs two bodies beside each other, one on a new thread and one on this one: which is which is
/// the order that the recorder asks for.
fn both<M: Model, A: Send + 'static, B: Send + 'static>(
    recorder: &Recorder,
    first: impl FnOnce() -> A + Send + 'static,
    second: impl FnOnce() -> B + Send + 'static,
) -> (A, B) {
    match recorder.order() {
        Order::Forward => {
            let first = M::spawn(first);
            let second = second();
            (first.join(), second)
        }
        Order::Backward => {
            let second = M::spawn(second);
            let first = first();
            (first, second.join())
        }
    }
}
