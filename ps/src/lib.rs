//! The server side of Escapement: where the verified core meets the operating system.
//!
//! [`platform`] parks threads on futexes, [`mapping`] maps one file into every process of a run.

pub mod mapping;
pub mod platform;
