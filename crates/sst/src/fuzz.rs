//! Properties of everything this crate decodes, as functions of bytes: for the fuzzers.
//!
//! Each function takes any bytes, never panics unless a property is broken, and asserts more than
//! that: what decodes encodes to the same again, blocks hold what they seem to hold whichever way
//! one reads them, memory is bounded by the input, errors name file and offset.
//!
//! Threads: any. Tests: `crates/reliability/tests/corpus.rs` replays the corpus; the campaign
//! `fuzz` and the targets of `fuzz/` go on from there.

mod parts;
mod block;
mod table;

pub use block::block;
pub use parts::{compression, filter, footer, index, properties};
pub use table::{reseal, table};
