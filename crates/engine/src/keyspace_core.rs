//! One keyspace inside the engine: its memtables, its tree, and where they stand.
//!
//! Threads: reads and writes from any thread; `publishing` serialises those who replace the view.

use crate::options::Options;
use crate::settings::Effective;
use crate::toll::Toll;
use crate::view::{Mem, View};
use std::sync::Arc;
use velella_base::{Error, ErrorKind, KeyspaceId, Order, Result, Stamp};
use velella_memtable::{Counters, Hint, MemtableOptions, Spare};
use velella_mvcc::Slots;
use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_sync::epoch::{self, Guard};
use velella_sync::lock::Mutex;
use velella_sync::{Replaced, Swap};
use velella_tree::{Env, KeyspaceSettings, KeyspaceState, Tree};

/// A keyspace at work.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) order: Order,
    /// What the manifest holds of its settings; held by whoever changes them.
    pub(crate) settings: Mutex<KeyspaceSettings>,
    /// The settings in force. A leaf: nothing else is locked under it.
    effective: Mutex<Effective>,
    pub(crate) view: Swap<View>,
    pub(crate) tree: Arc<dyn Tree>,
    pub(crate) toll: Toll,
    /// Held by whoever replaces the view.
    pub(crate) publishing: Mutex<()>,
    /// Those of its opening of the database, and of no other.
    slots: Arc<Slots>,
    /// Every stamp of this keyspace below this is in its tree.
    flushed_below: AtomicU64,
    /// Rises with every published view.
    views: AtomicU64,
    /// Writers are turned away: it is being dropped.
    dropped: AtomicBool,
    /// It was dropped: its tables are gone.
    gone: AtomicBool,
}

/// What memtables of all keyspaces share.
#[derive(Debug)]
pub(crate) struct MadeOf {
    pub(crate) slots: Arc<Slots>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) spare: Arc<Spare>,
}

impl MadeOf {
    /// For so many lanes, and memtables that leave at most `spare` bytes to the next ones.
    pub(crate) fn new(lanes: usize, spare: u64) -> Self {
        MadeOf {
            slots: Arc::new(Slots::new(lanes)),
            counters: Arc::default(),
            spare: Arc::new(Spare::new(spare.try_into().unwrap_or(usize::MAX))),
        }
    }

    /// How a memtable of this order is made, for about so many keys.
    pub(crate) fn memtable(
        &self,
        effective: &Effective,
        order: &Order,
        keys: usize,
    ) -> MemtableOptions {
        MemtableOptions {
            kind: effective.memtable,
            order: order.clone(),
            slots: Arc::clone(&self.slots),
            counters: Arc::clone(&self.counters),
            spare: Arc::clone(&self.spare),
            guards: velella_memtable::GuardOptions::default(),
            keys,
        }
    }
}

impl Core {
    /// The keyspace as the manifest has it, with an empty memtable.
    ///
    /// # Errors
    /// `Unsupported`: a setting of a newer build; what opening its tables met.
    pub(crate) fn open(
        env: &Env,
        state: &KeyspaceState,
        order: Order,
        options: &Options,
        shared: &MadeOf,
    ) -> Result<Arc<Self>> {
        let record = &state.record;
        let effective = Effective::of(options, &state.settings, &record.name)?;
        let tree_options = effective.tree_options(options, record.id, order.clone());
        let tree = velella_lsm::open(env.clone(), tree_options, state)?;
        let cur = Mem::new(velella_memtable::new(
            &shared.memtable(&effective, &order, 0),
        ));
        Ok(Arc::new(Core {
            id: record.id,
            name: record.name.clone(),
            order,
            settings: Mutex::new(state.settings.clone()),
            effective: Mutex::new(effective),
            view: Swap::new(Arc::new(View::new(cur))),
            tree,
            toll: Toll::default(),
            publishing: Mutex::new(()),
            slots: Arc::clone(&shared.slots),
            flushed_below: AtomicU64::new(state.flushed_below.0),
            views: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }))
    }

    /// The settings in force.
    pub(crate) fn effective(&self) -> Effective {
        *self.effective.lock()
    }

    /// Puts settings in force: for the next memtable, and tables begun from now on.
    pub(crate) fn set_effective(&self, effective: Effective) {
        *self.effective.lock() = effective;
        self.tree.restyle(effective.style());
    }

    /// Whether it is a keyspace of the opening that has these slots.
    #[inline]
    pub(crate) fn is_of(&self, slots: &Arc<Slots>) -> bool {
        Arc::ptr_eq(&self.slots, slots)
    }

    /// Asks for what a write of `key` looks at first, while the caller does something else.
    #[inline]
    pub(crate) fn prefetch(&self, key: &[u8]) -> Hint {
        let guard = epoch::pin();
        self.view.load(&guard).cur.table.prefetch(key, &guard)
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

    /// Fails if it was dropped. Asked before a write leaves anything, too: what is in the memtable
    /// of a dropped keyspace, or on the disk for it, nobody counts, and nobody flushes.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.is_dropped() {
            false => Ok(()),
            true => Err(self.refuse("write to")),
        }
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

    /// Gives its tables up, for good. What a reader finds from here on would be a part only.
    pub(crate) fn give_up(&self) {
        // Release, partner: `is_gone`. Before the tables go: who misses them sees it.
        self.gone.store(true, Ordering::Release);
        self.tree.drop_files();
    }

    /// Whether its tables were given up; to be asked after they were looked into.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        // Acquire, partner: `give_up`.
        self.gone.load(Ordering::Acquire)
    }

    /// Fails if they were.
    #[inline]
    pub(crate) fn check_there(&self) -> Result<()> {
        match self.is_gone() {
            false => Ok(()),
            true => Err(self.refuse("read")),
        }
    }

    /// Why `what` it is not possible any more.
    #[cold]
    pub(crate) fn refuse(&self, what: &str) -> Error {
        let attempt = format!("{what} keyspace `{}`", self.name);
        if self.is_gone() {
            return Error::new(ErrorKind::NotFound, attempt, "it was dropped");
        }
        let found = "it is being dropped";
        Error::new(ErrorKind::NotFound, attempt, found).remedy("if that fails, it is as it was")
    }
}
