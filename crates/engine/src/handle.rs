//! What every handle on an open database shares, and how it closes.
//!
//! H1. The last handle to go closes the database; an explicit `close` reports what went wrong.
//! H2. However it ends, the lock is given up, and nothing is changed from then on.
//! H3. Who closes it again is told how the first close ended, not that all is well.
//!
//! Threads: any. Tests: `tests/lifecycle.rs`, `tests/panics.rs`, `tests/full_disk.rs`.

use crate::core::Engine;
use crate::jobs::Workers;
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Result};
use velella_mvcc::Snapshots;
use velella_sync::lock::Mutex;

/// What all handles of a database share.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    pub(crate) workers: Mutex<Workers>,
    /// How the first close ended (H3); one that began and did not end panicked.
    pub(crate) closed: Mutex<Result<()>>,
}

impl AsRef<Snapshots> for Handle {
    fn as_ref(&self) -> &Snapshots {
        &self.engine.snapshots
    }
}

impl Handle {
    /// Shuts the door, ends background work, makes everything durable, gives up the lock.
    pub(crate) fn close(&self) -> Result<()> {
        let engine = &self.engine;
        engine.refuse_inside_transact("close the database")?;
        let mut workers = self.workers.lock();
        let healthy = engine.check();
        if matches!(&healthy, Err(error) if error.kind() == ErrorKind::Closed) {
            return self.closed.lock().clone();
        }
        *self.closed.lock() = Err(cut_short());
        engine.halt_as_closed();
        engine.resting.shut();
        workers.stop(engine);
        let _unlocks = Unlocks(engine);
        // A write that was let in before the door shut is acknowledged, so it must be in the last
        // round: every pair is waited for.
        let idle = engine.all_pairs();
        let outcome = healthy.and_then(|()| engine.finish());
        drop(idle);
        *self.closed.lock() = outcome.clone();
        outcome
    }
}

fn cut_short() -> Error {
    let found = "an earlier close panicked, in an order of keys or by a fault of ours";
    Error::new(ErrorKind::Closed, "close the database", found)
        .remedy("open it again, and see what was kept: what was not in the journal may be lost")
}

/// Gives up the lock, also where a user's order panics in the last flush (H2).
struct Unlocks<'a>(&'a Engine);

impl Drop for Unlocks<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Errors unseen: whoever wants them calls `close`.
        let _ = self.close();
    }
}
