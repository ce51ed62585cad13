//! One keyspace inside the engine: its memtables, its tree, and where they stand.
//!
//! Threads: reads and writes from any thread; `publishing` serialises those who replace the view.

use crate::view::{Mem, View};
use std::sync::Arc;
use velella_base::{KeyspaceId, Order, Stamp};
use velella_memtable::{MemtableKind, MemtableOptions};
use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_sync::epoch::Guard;
use velella_sync::lock::Mutex;
use velella_sync::{Replaced, Swap};
use velella_tree::Tree;

/// A keyspace at work.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) order: Order,
    pub(crate) memtable: MemtableKind,
    pub(crate) view: Swap<View>,
    pub(crate) tree: Arc<dyn Tree>,
    /// Held by whoever replaces the view.
    pub(crate) publishing: Mutex<()>,
    /// Every stamp of this keyspace below this is in its tree.
    flushed_below: AtomicU64,
    /// Rises with every published view.
    views: AtomicU64,
    dropped: AtomicBool,
}

impl Core {
    pub(crate) fn new(
        id: KeyspaceId,
        name: String,
        options: &MemtableOptions,
        tree: Arc<dyn Tree>,
        flushed_below: Stamp,
    ) -> Arc<Self> {
        let cur = Mem::new(velella_memtable::new(options));
        Arc::new(Core {
            id,
            name,
            order: options.order.clone(),
            memtable: options.kind,
            view: Swap::new(Arc::new(View::new(cur))),
            tree,
            publishing: Mutex::new(()),
            flushed_below: AtomicU64::new(flushed_below.0),
            views: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
        })
    }

    /// Replaces the view; the caller holds `publishing`.
    pub(crate) fn publish(&self, view: View, guard: &Guard) {
        self.exchange(Arc::new(view)).retire(guard);
    }

    /// As `publish`, but for a few stores the caller's to finish.
    pub(crate) fn exchange(&self, view: Arc<View>) -> Replaced<View> {
        let replaced = self.view.exchange(view);
        // Release, partner: the Acquire in `generation`.
        self.views.fetch_add(1, Ordering::Release);
        replaced
    }

    /// Rises whenever an iterator's memtables or files are superseded.
    #[inline]
    pub(crate) fn generation(&self) -> (u64, u64) {
        // Acquire, partner: `publish`.
        (self.views.load(Ordering::Acquire), self.tree.generation())
    }

    pub(crate) fn flushed_below(&self) -> Stamp {
        // Acquire, partner: `set_flushed_below`.
        Stamp(self.flushed_below.load(Ordering::Acquire))
    }

    pub(crate) fn set_flushed_below(&self, boundary: Stamp) {
        // Release, partner: `flushed_below`.
        self.flushed_below.fetch_max(boundary.0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        // Acquire, partner: `mark_dropped`.
        self.dropped.load(Ordering::Acquire)
    }

    /// Turns writers away; whether they were not before.
    pub(crate) fn mark_dropped(&self) -> bool {
        // Release, partner: `is_dropped`. Relaxed as to what another thread marked before.
        !self.dropped.swap(true, Ordering::Release)
    }

    /// Lets writers in again; called by who marked it.
    pub(crate) fn unmark_dropped(&self) {
        // Release, partner: `is_dropped`.
        self.dropped.store(false, Ordering::Release);
    }
}
