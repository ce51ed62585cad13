//! Time: the clock, the announced windows, the live snapshots, and what a collector may drop.
//!
//! Source: cLSM (EuroSys '15) 3.2, rebuilt so that nothing waits and nothing rolls back; see
//! docs/concurrency.md for the protocol these parts serve, and the numbered steps of a write in
//! `velella::commit`.
//!
//! Layer 1, first of it: the memtable reads words and windows defined here.

#![forbid(unsafe_code)]

#[cfg(loom)]
pub mod ordering;
#[cfg(not(loom))]
mod ordering;
pub mod word;
pub mod clock;
pub mod slots;
pub mod retention;
pub mod snapshots;

pub use clock::Clock;
pub use retention::Retention;
pub use slots::Slots;
pub use snapshots::{Registration, Round, Snapshots};
pub use word::Word;
