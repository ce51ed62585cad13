//! The contract of an on-disk layout, and what layouts share.
//!
//! The engine owns memtables, stamps and the journal; a layout never sees a put. It is given
//! sorted runs, answers reads at a stamp, and offers its own upkeep as data: jobs.
//!
//! L1. What the engine committed is durable before the run is visible to a reader of the tree:
//!     `build`, then `Manifest::commit` of its edits, then `apply`.
//! L2. A file is deleted only when no version of the tree that names it can be reached.
//! L3. A job drops a version only where `Retention` allows it, and a tombstone only where nothing
//!     older can lie beneath.
//! L4. Tables are installed in the order of their stamps: a run whose stamps all lie above those
//!     of the runs before it, except for runs that one manifest edit installs together.
//!
//! Threads: reads from any thread; `build` from several at once, of runs that share no key or whose
//! order does not matter yet; `apply` by one flush at a time per tree; jobs from several threads
//! where `next_job` handed out disjoint ones.
//! Tests: `contract::run`, on every layout (feature `contract`).

#![forbid(unsafe_code)]

mod header;
pub mod retain;
pub mod manifest;
pub mod open_files;
pub mod external;
pub mod table_file;
pub mod cursor;
pub mod job;
pub mod tree;
pub mod inspect;
#[cfg(feature = "contract")]
pub mod contract;

pub use cursor::{ConcatCursor, MergeCursor, Source};
pub use external::{ExternalHold, ExternalStore};
pub use job::{Job, JobReport};
pub use manifest::{
    Edit, KeyspaceRecord, KeyspaceSettings, KeyspaceState, Manifest, State, create_directory,
    unreferenced,
};
pub use open_files::OpenFiles;
pub use retain::{Retain, Retained};
pub use table_file::{Env, Graveyard, TableFile};
pub use tree::{Built, Level, Pressure, TableStyle, Tree, TreeOptions, Wanted};
pub use velella_sst::Stretch;
