//! The memtables that wait for their flush, in groups: what one switch made immutable together.
//!
//! Q1. A group stays at the front until its flush has succeeded, so a failed one is tried again.
//! Q2. `turn` is taken before `groups`, and by one flush at a time.
//!
//! Threads: any. Tests: as `flush`.

use crate::keyspace_core::Core;
use crate::view::Mem;
use std::collections::VecDeque;
use std::sync::Arc;
use velella_base::Stamp;
use velella_sync::lock::Mutex;

/// Memtables made immutable by one switch.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) members: Vec<(Arc<Core>, Arc<Mem>)>,
    /// W: everything in the members is below it, everything written later at or above.
    pub(crate) boundary: Stamp,
}

/// Groups waiting to be flushed, oldest first.
#[derive(Debug, Default)]
pub(crate) struct FlushQueue {
    pub(crate) groups: Mutex<VecDeque<Group>>,
    /// Held while a group is being flushed.
    pub(crate) turn: Mutex<()>,
}

impl FlushQueue {
    pub(crate) fn push(&self, group: Group) {
        self.groups.lock().push_back(group);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.lock().is_empty()
    }

    /// How many groups wait, with the one that is being flushed.
    pub(crate) fn len(&self) -> usize {
        self.groups.lock().len()
    }

    /// Whether a group waits and nobody is flushing.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_empty() && !self.turn.is_locked()
    }

    /// Whether the oldest group was made immutable at or before `stamp`.
    pub(crate) fn begins_at_or_before(&self, stamp: Stamp) -> bool {
        self.groups
            .lock()
            .front()
            .is_some_and(|group| group.boundary <= stamp)
    }

    /// Waits for the flush under way, and lets none begin while the result lives.
    pub(crate) fn pause(&self) -> velella_sync::lock::MutexGuard<'_, ()> {
        self.turn.lock()
    }
}
