//! Scenarios, one claim each, generic over the platform that explores them.
//!
//! Every case asserts its properties in each execution and records how the execution ended;
//! [`Case::outcomes`] is the exact set of ends. Cases have no timeouts and, except where closing
//! is the subject, no trailing close: either would hide a missing wake-up.

mod ring;

use crate::case::{Case, Order, Recorder};
use crate::model::{Join, Model};

/// Every case, on the platform `M`.
pub fn catalogue<M: Model>() -> Vec<Case> {
    [ring::cases::<M>()].concat()
}

/// Runs two bodies as threads, spawned in the order that the recorder asks for.
fn both<M: Model, A: Send + 'static, B: Send + 'static>(
    recorder: &Recorder,
    first: impl FnOnce() -> A + Send + 'static,
    second: impl FnOnce() -> B + Send + 'static,
) -> (A, B) {
    match recorder.order() {
        Order::Forward => {
            let (first, second) = (M::spawn(first), M::spawn(second));
            (first.join(), second.join())
        }
        Order::Backward => {
            let second = M::spawn(second);
            let first = M::spawn(first);
            (first.join(), second.join())
        }
    }
}
