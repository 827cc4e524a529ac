//! Bad use and bad memory end in typed errors: never in a panic, a hang, or a read outside the run.
//!
//! [`shapes`] and [`ends`] misuse the interface. The rest lets a learner, or whoever else maps the
//! run, write nonsense: into a slot's header ([`headers`]), into any other word while the server
//! runs ([`words`]), into what a restarted server finds ([`restart`]), and anywhere at random
//! ([`fuzz`]). The server gives up exactly the learner that is damaged, goes on with the others,
//! and does not panic in a debug build either, where arithmetic that overflows would.
//!
//! A failure of the random test prints the smallest input that shows it; replay it with
//! `cargo test -p escapement-verify --test bad_use`.

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod fuzz;
mod headers;
mod restart;
mod scene;
mod shapes;
mod words;
