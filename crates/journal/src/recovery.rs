//! Reading the journal of the last incarnation.
//!
//! The order: `source` opens files, `seals` reads what the rounds left, `catalog` finds the
//! extents, `reader` walks one lane, `judge` decides which rule and which cut, `merge` hands out
//! the records by stamp. Before all that, `evidence` tells what the journal says of the caller's
//! own log.
//!
//! V1. Nothing is written, but for the word that a sync of recovery's own failed (J1); whatever
//!     happens, recovery can be repeated and finds the same.
//! V2. Memory is bounded: a small buffer a lane, a piece of a large payload for each of at most
//!     four threads that check lanes, and one large payload when records are handed out.
//! V3. Every length read is bounded by what is left; bad bytes are `Corruption`, never a panic.
//!
//! Tests: `recovery/tests.rs`, `tests/crashes.rs`, `tests/damage.rs`, `tests/golden.rs`,
//! `tests/large.rs`, `tests/unreadable.rs`.

mod report;
mod source;
mod seals;
mod evidence;
mod catalog;
mod reader;
mod judge;
mod merge;

pub use evidence::{Evidence, evidence, highest_frontier, newest_incarnation};
pub use merge::{Record, Recovery};
pub use report::{Last, Report, Rule};

#[cfg(test)]
mod tests;
