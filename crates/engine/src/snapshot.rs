//! A fixed view of all keyspaces: a stamp, a time, and a place in the list of live snapshots.
//!
//! Source: cLSM's getSnap (EuroSys '15, Algorithm 2); here one clock operation, whatever runs.
//!
//! N1. It contains everything acknowledged before it was taken, and is exactly the writes with
//!     stamps at or below its own: reads at it never change, however long it lives.
//! N2. Its wall clock is fixed too, and of the moment of its stamp: a key does not expire while one
//!     looks, and is not alive beside what was written once it had expired.
//!
//! Tests: `tests/snapshots.rs`, `cl2_boundary_snapshot`, `cl3_two_snapshots`.

use crate::core::Engine;
use crate::handle::Handle;
use crate::read::Reader;
use std::sync::Arc;
use velella_base::{Error, Result, Stamp};
use velella_mvcc::Registration;

/// A fixed view of the database. Clones share it; it lives as long as the last of them, and as long
/// it keeps the versions that it sees, in memory and on disk.
#[derive(Clone)]
#[must_use = "all that it does is keep what it sees"]
pub struct Snapshot {
    registration: Registration<Handle>,
}

impl Snapshot {
    pub(crate) fn take(handle: &Arc<Handle>) -> Self {
        let engine = &handle.engine;
        let (said, now) = (engine.wall.said_ms(), || engine.wall.now_ms());
        Snapshot {
            registration: Registration::take(Arc::clone(handle), &engine.clock, said, now),
        }
    }

    /// The snapshot's place in the order of writes: it sees exactly the writes with stamps at or
    /// below it.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.registration.at()
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        self.registration.owned()
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Engine {
        &self.handle().engine
    }

    /// The time by which keys are expired in it: milliseconds since 1970, by the database's clock
    /// ([`Keyspace::now_ms`](crate::Keyspace::now_ms)) when it was taken.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.registration.now_ms()
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::snapshot(self.stamp(), self.now_ms())
    }

    /// A snapshot is used only with keyspaces of its own database.
    pub(crate) fn check_origin(&self, handle: &Arc<Handle>) -> Result<()> {
        if Arc::ptr_eq(&self.handle().engine, &handle.engine) {
            return Ok(());
        }
        let found = "it is of another opening or database";
        Err(Error::invalid("use a snapshot", found).remedy("take one of this `Db`"))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot(stamp {})", self.stamp())
    }
}
