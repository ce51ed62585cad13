//! The only door to atomics, locks, threads, time and memory reclamation.
//!
//! Layer 0. Under `--cfg loom` the door opens on loom's model instead of the machine, so that the
//! code above is checked as it is, not a copy of it. `unsafe` is allowed here: it is what lets the
//! crates above forbid it.
//!
//! Tests: beside each module; loom models in `tests/loom.rs`.

pub mod atomic;
pub mod epoch;
pub mod swap;
pub mod pool;
pub mod parker;
pub mod lock;
pub mod thread;
pub mod counter;
pub mod prefetch;
pub mod rng;
#[cfg(feature = "allocations")]
pub mod allocations;

pub use crossbeam_utils::CachePadded;
pub use epoch::Guard;
pub use pool::{Pool, PoolGuard};
pub use swap::Swap;
