//! Crash points: the protocol killed after every store, and in every order that the compiler may
//! have given its stores.
//!
//! A kill leaves the memory of the run to the others: it is the kernel's, not the process's. What
//! lies in it is a prefix of the instructions of the dead, but of the instructions, not of the
//! source: the compiler may reorder stores as far as the memory orders permit. So what a kill can
//! leave is every set of stores that is *closed downwards* in this order:
//!
//! - a release store or read-modify-write comes after every earlier store;
//! - a release (or stronger) fence keeps all stores before it before all stores after it;
//! - stores to one word keep their order;
//! - nothing else is ordered: not two relaxed stores, not plain writes to memory, not what comes
//!   *after* a release store.
//!
//! | module | what it does |
//! |---|---|
//! | [`memory`] | the words of a run in one arena that can be copied and put back, and the stream of stores to it |
//! | [`recorded`] | the platform [`Recorded`] on that memory, for sequential runs |
//! | [`image`] | every memory that a kill in a stream of stores can leave |
//! | [`stage`], [`actions`] | server and learners of one run, acted out, with kills where the plan says |
//! | [`outcome`] | what can be seen of a run, in the middle and at its end |
//! | [`scenario`] | what is acted out |
//! | [`mod@explore`] | every kill of every scenario, compared with the run without; the mutants |
//!
//! After a kill another server attaches (or the learner's next life rejoins), the run goes on to
//! its end, and must end like the one without a kill, bit for bit. Carries P2, P8, P9, P11, and of
//! P5 and P6 that neither a version nor a clock claims what the weights do not hold, in any image.

pub mod actions;
pub mod explore;
pub mod image;
pub mod memory;
pub mod outcome;
pub mod recorded;
pub mod scenario;
pub mod stage;

pub use explore::{Breach, Tally, crash_breach, explore};
pub use recorded::Recorded;
pub use scenario::{Scenario, catalogue};
