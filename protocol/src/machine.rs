//! Step machines: the loops of server and learner, one action at a time.
//!
//! A machine never blocks inside a step. It says [`Step::Blocked`] and is asked again after its
//! process was rung, so the same text serves a production thread ([`Machine::run`]), a model
//! checker, a crash at any step, and an action of the specification.

use crate::bell::Waiter;
use crate::platform::Platform;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One action was done; there may be another.
    Worked,
    /// Nothing can be done until somebody rings.
    Blocked,
    /// The machine has stopped for good.
    Done,
}

/// A loop written as steps.
pub trait Machine<P: Platform> {
    /// Does one action, if one can be done.
    fn step(&mut self) -> Step;

    /// Steps until done, sleeping while blocked.
    fn run(&mut self, waiter: Waiter<'_, P>) {
        loop {
            let step = waiter.wait(|| match self.step() {
                Step::Blocked => None,
                step => Some(step),
            });
            if step == Step::Done {
                return;
            }
        }
    }
}
