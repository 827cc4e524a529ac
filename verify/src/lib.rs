//! Everything that checks the protocol.
//!
//! The models in [`models`] are generic over [`Model`], a platform that can also spawn
//! threads; the same scenario is explored exhaustively by loom, sampled by shuttle, and re-run on
//! [`Mutant`](mutant::Mutant)s of either, which break the protocol at one site at a time.

pub mod books;
pub mod case;
pub mod figure5;
pub mod ground;
#[cfg(feature = "loom")]
pub mod loom_platform;
pub mod model;
pub mod models;
pub mod mutant;
#[cfg(feature = "shuttle")]
pub mod shuttle_platform;

pub use case::{Bound, Case, Order, Recorder};
pub use model::{Join, Model};
