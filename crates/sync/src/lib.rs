//! The only door to atomics, locks, threads, time and memory reclamation, and to what the processor
//! has an instruction for.
//!
//! Layer 0. Under `--cfg loom` and `--cfg shuttle` the door opens on a model instead of the
//! machine, so that the code above is checked as it is, not a copy of it. `unsafe` is allowed here:
//! it is what lets the crates above forbid it.
//!
//! Tests: beside each module; models of the crates above, by `cargo xtask models`.

pub mod simulation;
pub mod thread;
pub mod atomic;
pub mod epoch;
pub mod swap;
pub mod pool;
pub mod lock;
pub mod helpers;
pub mod parker;
pub mod counter;
pub mod prefetch;
pub mod crc;
pub mod memory;
pub mod array;
pub mod rng;
pub mod spot;
pub mod turns;
#[cfg(feature = "allocations")]
pub mod allocations;
#[cfg(any(loom, shuttle))]
pub mod model;

pub use crossbeam_utils::CachePadded;
pub use epoch::Guard;
pub use pool::{Pool, PoolGuard};
pub use spot::spot;
pub use swap::{Replaced, Swap};
