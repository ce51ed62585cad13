//! The tests of the engine that may share a process, one module each: built as one program, which
//! compiles and links what they share once, and runs them beside each other.
//!
//! A program of its own has what looks at its process as a whole or changes it (`allocations`,
//! `few_descriptors`, `limits`, `memory`, `memory_of_many`, `moved`, `open_files`), what another
//! test's readers would disturb (`journal_space`), what starts itself again (`kill`), mounts
//! (`failing_device`), or is built otherwise (`loom`, `shuttle`).

mod backpressure;
mod batches;
mod common;
mod conditional;
mod corruption;
mod counters;
mod crash;
mod creation;
mod documents;
mod durability;
mod expiry;
mod externals;
mod faults;
mod full_disk;
mod inspect;
mod iterator_errors;
mod iterator_walks;
mod iterators;
mod keyspaces;
mod lifecycle;
mod manifest_cut;
mod overtaken;
mod panics;
mod protocol_conditions;
mod protocol_expiry;
mod protocol_lanes;
mod protocol_memtables;
mod protocol_pruning;
mod protocol_token;
mod reads;
mod regressions;
mod reopening;
mod resting;
mod rmw;
mod seals_lost;
mod seek_compaction;
mod settings;
mod sharing;
mod snapshots;
mod stats;
mod switch;
mod transact;
mod verify;
mod views;
mod writes;
