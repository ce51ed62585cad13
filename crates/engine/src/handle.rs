//! What every handle on an open database shares, and how it closes.
//!
//! H1. The last handle to go closes the database; an explicit `close` reports what went wrong.
//!
//! Threads: any. Tests: `tests/lifecycle.rs`.

use crate::core::Engine;
use crate::jobs::Workers;
use std::sync::Arc;
use velella_base::{ErrorKind, Result};
use velella_sync::lock::Mutex;

/// What all handles of a database share.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    pub(crate) workers: Mutex<Workers>,
}

impl Handle {
    /// Shuts the door, ends background work, makes everything durable, gives up the lock.
    pub(crate) fn close(&self) -> Result<()> {
        let engine = &self.engine;
        engine.refuse_inside_transact("close the database")?;
        let mut workers = self.workers.lock();
        let healthy = engine.check();
        if matches!(&healthy, Err(error) if error.kind() == ErrorKind::Closed) {
            return Ok(());
        }
        engine.halt_as_closed();
        workers.stop(engine);
        // A write that was let in before the door shut is acknowledged, so it must be in the last
        // round: every pair is waited for.
        let idle = engine.all_pairs();
        let outcome = healthy.and_then(|()| engine.finish());
        drop(idle);
        engine.unlock();
        outcome
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Errors unseen: whoever wants them calls `close`.
        let _ = self.close();
    }
}
