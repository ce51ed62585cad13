//! Which memtable something is from.
//!
//! I1. No two memtables of a process share an identity, not even one after the other: an address
//!     comes again, a number does not. So who holds what is a memtable's, and meets one with the
//!     same identity, has met that memtable, alive.
//!
//! Threads: any. Tests: `a_hint_may_be_old_or_for_another_memtable`,
//! `a_hint_leads_to_the_newest_version_again`,
//! `a_hint_of_a_memtable_that_is_gone_is_not_taken_by_the_next_one`, `tests/uses.rs`.

use velella_sync::atomic::machine::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A memtable's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity(u64);

impl Identity {
    /// Another one at every call.
    pub(crate) fn fresh() -> Self {
        // Relaxed: only that no number comes twice matters.
        Identity(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
