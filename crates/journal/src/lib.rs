//! The write-ahead journal: lanes of extents in mapped segments, synced in rounds, cut at recovery.
//!
//! Source: Xyza (HotStorage '18) 3.1, a journal per client without its many files; the cut is what
//! the paper lacks. Formats: docs/format/journal.md.
//!
//! J1. A record is complete in its lane before its write is published, so whoever saw a write finds
//!     it after the process dies.
//! J2. A round fixes a frontier F, the lanes' ends after it, writes a seal naming both, syncs all
//!     of it, and only then raises D to F. Rounds are strictly sequential.
//! J3. After a power loss recovery takes exactly the records at or below the cut, and the cut is at
//!     or above every D announced.
//! J4. Bytes that a round handed to the device are never written again.
//! J5. A sync that failed poisons the journal: nothing is retried.
//! J6. A segment is recycled only when no extent in it is open, all its stamps are in tables, and
//!     a completed round excludes it.
//!
//! The journal does not know time: it is given frontiers and floors.
//!
//! Threads: a lane has one holder at a time; `round` serialises itself; all else from any thread.
//!
//! Tests: beside the modules, and `tests/`.

#![forbid(unsafe_code)]

mod ordering;
mod header;
mod record;
mod extent;
mod config;
mod poison;
mod waits;
mod seal;
mod segment;
mod left;
mod inventory;
mod large;
mod space;
mod ledger;
mod core;
mod seal_file;
mod lane;
mod round;
mod retention;
mod journal;
mod recovery;

pub mod batch;
pub mod inspect;

pub use config::{Access, Config, LANES_MAX, MakeRoom, NextFile, Note};
pub use inventory::discard_all;
pub use journal::{Journal, Start, Stats};
pub use lane::Lane;
#[cfg(any(loom, shuttle))]
pub use ordering::{Site, spoil};
pub use recovery::{
    Evidence, Last, Record, Recovery, Report, Rule, evidence, highest_frontier, newest_incarnation,
};
pub use waits::Waited;
