//! What several tests share: seeds that can be replayed, a model of many versions, histories of
//! many clients and their checker, a watchdog, an explorer of small protocols.
//!
//! T1. A test that draws at random prints its seed first; `VELELLA_SEED` repeats one run.
//! T2. Nothing here knows the engine: keys, stamps and values are bytes and numbers.
//! T3. A watchdog ends the process with the name of the test that hung; it times nothing else.
//!
//! Tests: `model.rs`, `watchdog.rs` and `history/checker.rs` below; the rest is used by tests that
//! would hang or not repeat without it.

#![forbid(unsafe_code)]

mod seed;
mod model;
pub mod history;
mod watchdog;
mod explore;

pub use explore::{Explored, Step, explore};
pub use model::Model;
pub use seed::{Seed, scale, seeds};
pub use watchdog::{Watchdog, patience};
