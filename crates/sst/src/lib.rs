//! Immutable sorted tables: prefix-compressed blocks, a block index, a Bloom filter, and a cache.
//!
//! Layer 1, above `base`, `sync` and `vfs`. Formats: docs/format/sst.md.
//!
//! B1. Keys ascend; within a key, stamps descend. The builder refuses anything else, `verify`
//!     checks it.
//! B2. Every byte is under a checksum that also covers database, file number and offset.
//! B3. No length read from disk is trusted beyond what is left of its block or file.
//! B4. A point read of a cached table allocates nothing and makes no system call.
//!
//! A user's order may hold different bytes for the same key, so its tables have neither filter nor
//! tags: they are searched by comparing.
//!
//! Threads: a table is read from any thread. Tests: see each module; against a model in
//! tests/model.rs, damaged in tests/damage.rs, the golden file in tests/golden.rs.

#![forbid(unsafe_code)]

mod format;
mod compression;
mod hashes;
mod filter;
mod block;
mod index;
mod properties;
mod counters;
mod source;
mod cache;
mod kept;
mod found;
mod builder;
mod parts;
mod table;
mod cursor;
mod verify;
mod inspect;
#[cfg(feature = "fuzz")]
pub mod fuzz;

#[cfg(test)]
mod tests;

pub use builder::{TableBuilder, TableOptions};
pub use cache::BlockCache;
pub use compression::Compression;
pub use counters::{Counters, Tally};
pub use cursor::{Stretch, TableCursor};
pub use filter::key_hash;
pub use found::{BlockSlice, Found};
pub use inspect::{Detail, inspect};
pub use kept::KeptBlocks;
pub use properties::{Shadowed, TableMeta};
pub use table::Table;
pub use velella_sync::counter::Counter;
