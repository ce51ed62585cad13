//! Concurrent histories: what clients asked, when, what they were told, and whether that may be.
//!
//! Beginnings and ends are numbers of one counter, so that of two operations of which one ended
//! before the other began, everybody agrees on which came first.
//!
//! Tests: in `checker.rs`, `expiry.rs`, `crash.rs` and `sums.rs`; `reliability/tests/histories.rs`.

pub mod event;
pub mod expiry;
mod times;
pub mod checker;
pub mod crash;
pub mod sums;
