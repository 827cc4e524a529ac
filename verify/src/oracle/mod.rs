//! Sequential models, one per component: what the protocol must do when nothing happens at once.
//!
//! Each module has the same three names. `Operation` is everything that can be done to the
//! component, one enum for all who drive it; `Oracle` is a plain model without atomics, slots or
//! bells; `Oracle::step` does one operation and says what must come of it. An operation that the
//! component's contract forbids in the present state comes to `Expected::Skipped`, and whoever
//! drives the component leaves it out.
//!
//! Nothing here knows how operations are chosen: `tests/oracle_*.rs` draw them at random.

pub mod clock;
pub mod handoff;
pub mod journal;
pub mod membership;
pub mod ring;
pub mod server;
pub mod weights;
