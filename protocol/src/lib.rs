//! The verified core of Escapement.
//!
//! A parameter server's concurrency, written once as generic code over a [`Platform`](platform::Platform), checked on
//! loom, shuttle and Kani, and run unchanged in production on shared memory. No I/O, no threads,
//! no clock, no lock, and no `cfg` for a checker.
//!
//! A gradient walks through it once: [`learner::Train`] computes it and passes its buffer through a
//! [`handoff`] to [`learner::Push`], which copies it into a slot of a [`ring`] and commits;
//! [`server::Server`] applies it through the [`journal`], publishes the version ([`weights`]),
//! ticks the [`clock`] and releases the slot; [`learner::Pull`] copies the weights back.
//! [`membership`] says who takes part, [`bell`] how everybody sleeps.
//!
//! | component | carries |
//! |---|---|
//! | [`ring`] | P2 exactly once, P3 slot ownership, P4 fill, P8 death and rejoin of a learner |
//! | [`handoff`] | P1 no deadlock, P3, P4 |
//! | [`bell`] | P1, P10 everybody returns |
//! | [`weights`] | P5 versions |
//! | [`clock`], [`membership`] | P6 bound, P7 progress |
//! | [`journal`] | P9 death of the server |
//! | [`server`] | P2, P9, P10, P11 exact budget |
#![no_std]

extern crate alloc;

pub mod bell;
pub mod clock;
pub mod error;
pub mod event;
pub mod handoff;
pub mod journal;
pub mod learner;
pub mod machine;
pub mod membership;
pub mod native;
pub mod platform;
pub mod ring;
pub mod run;
pub mod server;
pub mod site;
pub mod weights;
