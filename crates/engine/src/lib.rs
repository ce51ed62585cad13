//! Velella: an embedded, concurrent, multi-version key-value store.
//!
//! ```
//! # fn main() -> velella::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("velella-doc-{}", std::process::id()));
//! let db = velella::open(&dir)?;
//! db.put("greeting", "hello")?;
//! assert_eq!(db.get("greeting")?.unwrap(), "hello");
//!
//! let before = db.snapshot();
//! db.increment("visits", 1)?;
//! assert_eq!(before.get(&db, "visits")?, None);
//!
//! for pair in db.prefix("gr")? {
//!     let (key, value) = pair?;
//!     println!("{} = {:?}", String::from_utf8_lossy(&key), value);
//! }
//! # db.close()?;
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! [`Db`], [`Keyspace`], [`Snapshot`], [`WriteBatch`], [`Value`] and [`Error`] are `Send` and
//! `Sync`: share one `Db` by clones or references. An iterator ([`Iter`], [`Rev`]) is `Send`: it
//! may move to another thread, but one thread at a time uses it. Calls block their thread; there is
//! no async API.
//!
//! # More
//!
//! In the repository: `docs/consistency.md` has what is promised and what to do on each kind of
//! error, `docs/options.md` the settings, `docs/stats.md` every figure of [`Stats`].
//!
//! Where to start reading the code: [`Db`], then `commit.rs` for how a write becomes visible and
//! `read.rs` for how it is found. The engine orders phases and owns lifetimes; structures and
//! formats live in the crates below it.

#![forbid(unsafe_code)]

mod sizes;
mod options;
mod budget;
mod stats;
mod stalls;
mod shortage;
mod view;
mod settings;
mod toll;
mod keyspace_core;
mod resting;
mod value;
mod entry;
mod pace;
mod crew;
mod flush_queue;
mod deciding;
mod core;
mod measure;
mod switch;
mod durability;
mod lease;
mod overtaken;
mod flush;
mod backpressure;
mod change;
mod commit;
mod read;
mod batch;
mod rmw;
mod catalogue;
mod agreement;
mod verify;
mod recovery;
mod compaction;
mod gather;
mod jobs;
mod handle;
mod snapshot;
mod iterator;
mod keyspace;
mod keyspace_updates;
mod snapshot_reads;
mod write_batch;
mod open;
mod db;
mod transact;

#[doc(hidden)]
pub mod simulation;

#[cfg(test)]
mod fixture;

pub mod inspect;

pub use catalogue::DEFAULT_KEYSPACE;
pub use db::Db;
pub use entry::{Decision, Entry, EntryInfo, Lent, RmwOutcome, Storable};
pub use iterator::{Iter, IterOptions, Rev};
pub use keyspace::Keyspace;
pub use options::{
    Builder, Durability, JournalMode, KeyspaceOptions, MEMORY_MIN, Options, RecoveryMode,
    WriteOptions,
};
pub use snapshot::Snapshot;
pub use stats::{
    CacheStats, Histogram, JournalStats, KeyspaceStats, LevelStats, MemoryStats, Stall, Stats,
};
pub use value::Value;
pub use velella_base::limits;
pub use velella_base::{Error, ErrorKind, Order, Result, Stamp};
pub use velella_journal::{Report as RecoveryReport, Rule as RecoveryRule};
pub use velella_memtable::MemtableKind;
pub use velella_sst::Compression;
pub use velella_vfs as vfs;
pub use verify::VerifyReport;
pub use write_batch::WriteBatch;

/// Opens the database in `dir` with default settings, creating it if there is none.
///
/// # Errors
/// As [`Builder::open`].
pub fn open(dir: impl AsRef<std::path::Path>) -> Result<Db> {
    Builder::default().open(dir)
}
