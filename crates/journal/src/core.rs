//! What the journal's parts share: one object behind the handle and the lanes.
//!
//! O1. D only rises, and only after what it covers is on the device.
//!
//! Threads: any.
//!
//! Tests: `tests/rounds.rs`.

use crate::config::Config;
use crate::inventory::Inventory;
use crate::ledger::Ledger;
use crate::ordering::{Site, is_sound};
use crate::poison::Poison;
use crate::waits::Waits;
use std::sync::Arc;
use velella_base::{Result, Stamp};
use velella_sync::CachePadded;
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_sync::counter::Counter;
use velella_sync::lock::Mutex;
use velella_sync::parker::Parker;
use velella_vfs::WriteFile;

/// Shared by the journal's handle and its lanes.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) seal_file: u64,
    pub(crate) poison: Arc<Poison>,
    pub(crate) inventory: Inventory,
    pub(crate) ledgers: Box<[Ledger]>,
    durable: CachePadded<AtomicU64>,
    pub(crate) waiters: Parker,
    /// Stamps below this are in tables.
    floor: AtomicU64,
    /// Lanes leave segments with a lower number at their next record.
    move_below: AtomicU64,
    pub(crate) externals: Mutex<Vec<Box<dyn WriteFile>>>,
    pub(crate) rounds: Counter,
    pub(crate) syncs: Counter,
    pub(crate) sync_threads: Counter,
    pub(crate) waits: Waits,
}

impl Core {
    pub(crate) fn new(config: Config, seal_file: u64, durable: Stamp) -> Core {
        let poison = Arc::<Poison>::default();
        Core {
            seal_file,
            inventory: Inventory::new(config.clone(), seal_file, Arc::clone(&poison)),
            poison,
            ledgers: (0..config.lanes).map(|_| Ledger::default()).collect(),
            durable: CachePadded::new(AtomicU64::new(durable.0)),
            waiters: Parker::new(),
            floor: AtomicU64::new(0),
            move_below: AtomicU64::new(0),
            externals: Mutex::new(Vec::new()),
            rounds: Counter::new(),
            syncs: Counter::new(),
            sync_threads: Counter::new(),
            waits: Waits::default(),
            config,
        }
    }

    pub(crate) fn durable(&self) -> Stamp {
        // Acquire, partner: `raise_durable`: who sees D sees what it covers.
        Stamp(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn raise_durable(&self, stamp: Stamp) {
        // Release, partner: the Acquire in `durable`.
        self.durable.fetch_max(stamp.0, Ordering::Release);
        if is_sound(Site::Wake) {
            self.waiters.wake_all();
        }
    }

    pub(crate) fn floor(&self) -> Stamp {
        // Relaxed: an old floor only keeps more.
        Stamp(self.floor.load(Ordering::Relaxed))
    }

    pub(crate) fn raise_floor(&self, floor: Stamp) {
        // Relaxed: see `floor`.
        self.floor.fetch_max(floor.0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn move_below(&self) -> u64 {
        // Relaxed: a lane that sees it late moves one record later.
        self.move_below.load(Ordering::Relaxed)
    }

    pub(crate) fn raise_move_below(&self, segment: u64) {
        // Relaxed: see `move_below`.
        self.move_below.fetch_max(segment, Ordering::Relaxed);
    }

    /// Poisons the journal if `result` is an error, and wakes whoever waits for something that
    /// will not come.
    pub(crate) fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.stop(error.clone());
        }
        result
    }

    pub(crate) fn stop(&self, cause: velella_base::Error) {
        self.poison.set(cause);
        self.wake_stopped();
    }

    /// Who made a file may have stopped the journal by it (I6 of the inventory): wakes the others.
    pub(crate) fn wake_if_stopped<T>(&self, made: Result<T>) -> Result<T> {
        if made.is_err() && self.poison.check().is_err() {
            self.wake_stopped();
        }
        made
    }

    pub(crate) fn wake_stopped(&self) {
        if is_sound(Site::Stop) {
            self.waiters.wake_all();
        }
        self.inventory.wake_preparer();
    }
}
