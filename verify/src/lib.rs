//! Everything that checks the protocol.
//!
//! The models in [`models`] are generic over [`Model`], a platform that can also spawn
//! threads; the same scenario is explored exhaustively by loom, sampled by shuttle, and re-run on
//! [`Mutant`](mutant::Mutant)s of either, which break the protocol at one site at a time.

pub mod books;
pub mod case;
pub mod crash;
pub mod figure5;
pub mod ground;
#[cfg(feature = "loom")]
pub mod loom_platform;
pub mod model;
pub mod models;
pub mod mortal;
pub mod mutant;
pub mod oracle;
pub mod property_table;
pub mod raw;
#[cfg(feature = "shuttle")]
pub mod shuttle_platform;

pub use case::{Bound, Case, Order, Recorder, Sampling};
pub use model::{Join, Model};
