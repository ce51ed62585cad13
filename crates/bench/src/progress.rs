//! How far the work at hand is: counted by those who do it, read by whoever shows it.
//!
//! Threads: any. Tests: by eye; what it shows is no result.

use std::sync::atomic::AtomicU64;

/// How far the work at hand is, for whoever shows it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Operations done.
    pub(crate) done: AtomicU64,
    /// Operations to do; 0 where time ends it.
    pub(crate) of: AtomicU64,
    /// Keys of numbers below this were inserted.
    pub(crate) inserted: AtomicU64,
}
