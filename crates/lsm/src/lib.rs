//! The leveled log-structured merge tree.
//!
//! Source: O'Neil et al., The Log-Structured Merge-Tree, 1996; levels as in LevelDB; which table
//! goes next, by least overlap, as RocksDB found best.
//!
//! Level 0 holds flushed runs, newest first, which may overlap. Each deeper level is one sorted
//! run of disjoint tables, ten times larger than the one above. A compaction merges tables of a
//! level with those they overlap in the next, drops what nobody can read (`velella_tree::retain`),
//! and is made durable by one manifest edit, or one for each part of a large one.
//!
//! Threads: reads from any thread, under an epoch pin, without lock or count; see
//! `velella_tree::Tree` for the rest.
//! Tests: `velella_tree::contract`, `tests/model.rs`, `tests/crash.rs`.

#![forbid(unsafe_code)]

mod search;
mod version;
mod pressure;
mod picker;
mod tree;
mod output;
mod compaction;
mod flush;
mod lsm;

pub use lsm::open;
