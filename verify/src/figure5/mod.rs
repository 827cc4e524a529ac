//! The paper as printed: Figure 5 of GaDei, line by line, and the holes that a checker finds in it.
//!
//! Each function quotes the lines of the figure that it transcribes, so that a reviewer can hold
//! the page beside it. Names are the figure's, in snake case.
//!
//! | figure | lines | code |
//! |---|---|---|
//! | 5a, parameter server | 1-17 | [`server()`] |
//! | 5b, pull thread | 301-319 | [`pull()`] |
//! | 5c, training thread | 101-126 | [`train()`]: [`give`] 103-112, [`take`] 114-125 |
//! | 5d, push thread | 201-223 | [`push()`]: [`push_once`] 203-222 |
//! | `g_env`, `g_buf`, `g_param_ptr`, `g_param_version` | | [`Mapping`] |
//! | `pushCnt`, `pullCnt`, `p_version`, buffers on the device | | [`Learner`] |
//!
//! What the figure leaves open is filled in so that it works as well as it can:
//!
//! - **Loops** that run for ever get a number of rounds. The server's busy loop tells the checker
//!   each time that it found nothing.
//! - **Plain variables with one owner at a time** (slots, `use_ptr`, `fill_ptr`) are cells, so that
//!   loom reports a race. Those that are read without a lock on purpose (`cnt` on line 3,
//!   `g_param_version` on 307, 310 and 313, the weights on 311) are atomic words, as strong as
//!   [`Memory`] says. `cnt` is kept twice, under its mutex and in the word that line 3 reads, and
//!   changed together: loom explores too little when a thread loads a word that it also stores.
//! - **Copies** on and off the device are over when the line after them says so.
//! - **Line 308** prints `...`, and nothing sets the `recvNewWeightsFlag` of line 119: we clear it
//!   on line 308 and set it on line 311.
//! - **A gradient** knows whose it is, and **the weights** count their updates: a copy of them is
//!   the version that it holds. The [`Ledger`] of what happened is the onlooker's.
//! - **Death** ([`Death`]) stops the push thread, and with it the process, before a line. A mutex
//!   of the mapping that it holds stays locked. A new life finds the mapping as it was left.
//!
//! Without faults, and on memory as strong as x86's, the figure keeps what the paper proves:
//! no deadlock, each gradient exactly once. The holes ([`holes`]), and the same scenarios on the
//! core ([`ours`]):
//!
//! | hole | where | found as | the core instead |
//! |---|---|---|---|
//! | a learner claims a version that it did not copy, and when no update follows trains on stale weights for ever | 313 after 311 | false claim, stale weights | reads the version before the copy (rule 4) |
//! | the server reads a slot whose contents it does not see | 3, without `gradMtx`, on weak memory | data race | acquires the tail that the commit releases |
//! | nobody returns when the server has processed its "fixed number": push sleeps on 209 with `pushMtx` held, train waits for that on 104, pull sleeps on 305 | 2-17 | deadlock | refuses and stops: every machine returns |
//! | the server hangs when a learner dies with `gradMtx` held (Section 4.3 says so) | 207-212, 217-219 | deadlock on 11 | holds no lock; the watchdog marks the dead and rings |
//! | after a death between moving `fill_ptr` and counting, the next life is one slot ahead of the server for ever: it takes what was never counted, takes one gradient twice and leaves another, reads a slot that is being written. A queue of one hides it | 215-218 | not exactly once, data race | one commit point; the next life goes on from it |

pub mod holes;
mod ledger;
pub mod ours;
mod pthreads;
mod pull;
mod push;
mod server;
mod state;
mod train;

pub use ledger::Ledger;
pub use pthreads::Pthreads;
pub use pull::pull;
pub use push::{push, push_once};
pub use server::server;
pub use state::{Death, Died, Gradient, Learner, Mapping, Memory};
pub use train::{give, take, train};
