//! Velella beside what people would pick instead: same work, same durability, same memory.
//!
//! One program for peers and for the papers' baselines; each benchmark has a name, a source and
//! parameters (`catalogue`). Stores take turns in processes of their own (`session`, `task`), do
//! the same drawn operations (`client`), and are believed only if their answers were right
//! (`ledger`, `audit`). docs/benchmarking.md says how to run it.
//!
//! L1. Nothing is compared that did not promise the same, and no figure is printed of a store that
//!     returned a wrong value or lost one.
//!
//! Start reading at `spec`, then `store`, then `drive`. Tests: beside the modules, and `tests/`.

#![deny(unsafe_code)]

pub mod durability;
pub mod failure;
pub mod store;
pub mod random;
pub mod keys;
pub mod values;
pub mod choice;
pub mod stripes;
mod gate;
pub mod stores;
pub mod spec;
mod several;
pub mod result;
pub mod meters;
mod ledger;
mod present;
mod due;
mod witness;
mod progress;
mod done;
mod stolen;
mod speed;
mod client;
mod audit;
mod chains;
mod drive;
pub mod message;
pub mod callgrind;
mod kill;
mod versions;
mod write_out;
pub mod task;
pub mod catalogue;
pub mod session;
pub mod servers;
pub mod report;
pub mod check;
