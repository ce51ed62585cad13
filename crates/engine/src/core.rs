//! The parts of an open database, and who owns them.
//!
//! The engine orders phases and owns lifetimes; it contains no data structure and no byte format.
//!
//! E1. Memtables, views, stamps and the journal belong here, the same for every layout.
//! E2. Once `halt` was called with a cause, every later write and sync fails with it; reads go on
//!     as before, and take no lock for it, unless the database was closed.
//!
//! Threads: all. Locks, outermost first: `writing_alone`, `compacting`, `changing`, `switching`,
//! `keyspaces`, `Core::publishing`, the flush queue; none is taken by a get or an uncontended put.
//! The turn of flushes is taken inside of `compacting` and outside of `switching`: with a journal
//! outside of `changing`, too, and without one, where flushes make a change durable, inside.

use crate::deciding::{self, Deciding};
use crate::flush_queue::FlushQueue;
use crate::keyspace_core::{Core, MadeOf};
use crate::options::{Durability, Options, WriteOptions};
use crate::resting::Resting;
use crate::shortage::Shortages;
use crate::sizes::Sizes;
use crate::stalls::{Cause, Stalls, Timer};
use crate::view::MemtableBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use velella_base::{Error, ErrorKind, Result, Stamp};
use velella_journal::{Journal, Lane};
use velella_mvcc::{Clock, Retention, Slots, Snapshots};
use velella_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use velella_sync::counter::Counter;
use velella_sync::lock::{Mutex, RwLock};
use velella_sync::parker::Parker;
use velella_sync::{Pool, PoolGuard, thread};
use velella_tree::Edit;

/// What a database refuses, in steps that are never taken back.
mod halted {
    /// It is open.
    pub(super) const NOT: u32 = 0;
    /// It takes no more writes, and can still be read.
    pub(super) const FOR_WRITES: u32 = 1;
    /// It was closed.
    pub(super) const FOR_ALL: u32 = 2;
}

/// A lane, or nothing where the database keeps no journal.
pub(crate) type Pair = Option<Lane>;

/// An open database.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) options: Options,
    pub(crate) sizes: Sizes,
    /// No background threads: who waits for their work does it.
    pub(crate) alone: bool,
    pub(crate) dir: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) slots: Arc<Slots>,
    pub(crate) pairs: Pool<Pair>,
    pub(crate) journal: Option<Arc<Journal>>,
    /// Where the clock stood when the database was opened.
    pub(crate) opened_at: Stamp,
    /// D of a database without a journal.
    pub(crate) installed: AtomicU64,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) env: velella_tree::Env,
    pub(crate) keyspaces: Mutex<BTreeMap<String, Arc<Core>>>,
    pub(crate) memtable_counters: Arc<velella_memtable::Counters>,
    /// What freed memtables leave to the next one.
    pub(crate) spare: Arc<velella_memtable::Spare>,
    pub(crate) memtable_bytes: MemtableBytes,
    /// Held while a keyspace is created or dropped.
    pub(crate) changing: Mutex<()>,
    /// Held during a switch of memtables.
    pub(crate) switching: Mutex<()>,
    /// A batch holds that lock, to keep switches off.
    pub(crate) switches_off: AtomicBool,
    /// The turn of the only writer (`transact.rs`).
    pub(crate) writing_alone: Mutex<()>,
    pub(crate) flushes: FlushQueue,
    pub(crate) stalls: Stalls,
    pub(crate) shortages: Shortages,
    pub(crate) timers: Timers,
    pub(crate) counters: Counters,
    pub(crate) wall: Wall,
    pub(crate) recovery: velella_journal::Report,
    pub(crate) started: Instant,
    /// Rung when there may be background work.
    pub(crate) work: Parker,
    /// Rung when memtables left memory or a tree calmed down.
    pub(crate) relief: Parker,
    /// Cursors that iterators have left.
    pub(crate) resting: Resting,
    /// Rung when the coordinator should look up before its time.
    pub(crate) sync_bell: Parker,
    /// Background threads leave their loops.
    pub(crate) stopping: AtomicBool,
    /// How far it is from open, see `halted`.
    halted: AtomicU32,
    cause: Mutex<Option<Error>>,
    pub(crate) pace: crate::pace::Pace,
    pub(crate) crew: crate::crew::Crew,
    /// Shared by background compactions, held whole by a full one and by closing.
    pub(crate) compacting: RwLock<()>,
    /// Held by who extends the lease of stamps; innermost but for the manifest's.
    pub(crate) leasing: Mutex<()>,
    /// Held until the database is closed; released last.
    lock: Mutex<Option<Box<dyn velella_vfs::FileLock>>>,
}

/// How long background work takes.
#[derive(Debug)]
pub(crate) struct Timers {
    pub(crate) flush: Timer,
    pub(crate) compaction: Timer,
    pub(crate) round: Timer,
    pub(crate) switch: Timer,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            flush: Timer::new("flush"),
            compaction: Timer::new("compaction"),
            round: Timer::new("sync round"),
            switch: Timer::new("memtable switch"),
        }
    }
}

/// What the engine itself counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) writes: Counter,
    pub(crate) reads: Counter,
    pub(crate) batches: Counter,
    pub(crate) rmws: Counter,
    pub(crate) rmw_retries: Counter,
    pub(crate) switch_aborts: Counter,
    /// Turns of the only writer (`transact.rs`).
    pub(crate) written_alone: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flush_bytes: Counter,
    pub(crate) gatherings: Counter,
    pub(crate) compactions: Counter,
    pub(crate) compaction_bytes_read: Counter,
    pub(crate) compaction_bytes_written: Counter,
    pub(crate) prunes: Counter,
    pub(crate) overtaken: Counter,
    pub(crate) shortages: Counter,
}

/// The wall clock, kept from going back, also across restarts.
#[derive(Debug)]
pub(crate) struct Wall {
    latest: AtomicU64,
}

impl Wall {
    pub(crate) fn new(at_least: u64) -> Self {
        Wall {
            latest: AtomicU64::new(at_least),
        }
    }

    /// Milliseconds since 1970; never less than what it said before.
    pub(crate) fn now_ms(&self) -> u64 {
        let now = thread::wall_ms();
        // Relaxed: a maximum of readings, orders nothing. Most readings are of a millisecond that
        // another one has noted: then nothing is written to the line that all threads read.
        let latest = self.latest.load(Ordering::Relaxed);
        if now <= latest {
            return latest;
        }
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// What it said last.
    #[inline]
    pub(crate) fn said_ms(&self) -> u64 {
        // Relaxed: as above.
        self.latest.load(Ordering::Relaxed)
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(crate) fn advance_to(&self, ms: u64) {
        // Relaxed: as `now_ms`.
        self.latest.fetch_max(ms, Ordering::Relaxed);
    }
}

/// What an engine is made of at opening.
pub(crate) struct Parts {
    pub(crate) options: Options,
    pub(crate) sizes: Sizes,
    pub(crate) alone: bool,
    pub(crate) dir: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) slots: Arc<Slots>,
    pub(crate) lanes: Vec<Pair>,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) opened_at: Stamp,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) env: velella_tree::Env,
    pub(crate) keyspaces: BTreeMap<String, Arc<Core>>,
    pub(crate) memtable_counters: Arc<velella_memtable::Counters>,
    /// What freed memtables leave to the next one.
    pub(crate) spare: Arc<velella_memtable::Spare>,
    pub(crate) wall_ms: u64,
    pub(crate) recovery: velella_journal::Report,
    pub(crate) lock: Box<dyn velella_vfs::FileLock>,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        Arc::new(Engine {
            options: parts.options,
            sizes: parts.sizes,
            alone: parts.alone,
            dir: parts.dir,
            clock: parts.clock,
            slots: parts.slots,
            pairs: Pool::new(parts.lanes),
            journal: parts.journal,
            opened_at: parts.opened_at,
            installed: AtomicU64::new(parts.opened_at.0),
            snapshots: parts.snapshots,
            env: parts.env,
            keyspaces: Mutex::new(parts.keyspaces),
            memtable_counters: parts.memtable_counters,
            spare: parts.spare,
            memtable_bytes: MemtableBytes::default(),
            changing: Mutex::new(()),
            switching: Mutex::new(()),
            switches_off: AtomicBool::new(false),
            writing_alone: Mutex::new(()),
            flushes: FlushQueue::default(),
            stalls: Stalls::default(),
            shortages: Shortages::default(),
            timers: Timers::default(),
            counters: Counters::default(),
            wall: Wall::new(parts.wall_ms),
            recovery: parts.recovery,
            started: thread::now(),
            work: Parker::new(),
            relief: Parker::new(),
            resting: Resting::default(),
            sync_bell: Parker::new(),
            stopping: AtomicBool::new(false),
            halted: AtomicU32::new(halted::NOT),
            cause: Mutex::new(None),
            pace: crate::pace::Pace::default(),
            crew: crate::crew::Crew::new(crate::options::processors()),
            compacting: RwLock::new(()),
            leasing: Mutex::new(()),
            lock: Mutex::new(Some(parts.lock)),
        })
    }

    /// Makes the database read-only: every later write fails with `cause`. The first cause stays.
    pub(crate) fn halt(&self, cause: Error) {
        let mut slot = self.cause.lock();
        if slot.is_none() {
            if let Some(journal) = &self.journal {
                journal.poison(cause.clone());
            }
            *slot = Some(cause);
        }
        drop(slot);
        // Release, partner: `check`. The greater of the two: what was closed stays so.
        self.halted.fetch_max(halted::FOR_WRITES, Ordering::Release);
        self.work.wake_all();
        self.relief.wake_all();
        self.sync_bell.wake_all();
    }

    /// Fails if the database was closed or poisoned.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        // Acquire, partners: `halt` and `halt_as_closed`, which note the cause before.
        match self.halted.load(Ordering::Acquire) {
            halted::NOT => Ok(()),
            _ => Err(self.cause_of_halt()),
        }
    }

    /// Fails if the database was closed; a poisoned one can still be read, and without a lock.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        // Acquire, partner: `halt_as_closed`, which notes the cause before.
        match self.halted.load(Ordering::Acquire) {
            halted::FOR_ALL => Err(self.cause_of_halt()),
            _ => Ok(()),
        }
    }

    /// Shuts the door: every later call fails with `Closed`.
    pub(crate) fn halt_as_closed(&self) {
        let closed = Error::new(ErrorKind::Closed, "use the database", "it was closed")
            .remedy("open it again");
        *self.cause.lock() = Some(closed);
        // Release, partners: `check` and `check_open`.
        self.halted.store(halted::FOR_ALL, Ordering::Release);
        self.relief.wake_all();
    }

    /// All pairs, once every write under way has given its own back.
    pub(crate) fn all_pairs(&self) -> Vec<PoolGuard<'_, Pair>> {
        let wait = |index| loop {
            match self.pairs.try_checkout(index) {
                Some(pair) => return pair,
                None => thread::sleep(Duration::from_micros(100)),
            }
        };
        (0..self.pairs.len()).map(wait).collect()
    }

    /// The last thing before the lock goes: everything written becomes durable, and the journal
    /// notes that it was closed.
    pub(crate) fn finish(&self) -> Result<()> {
        match &self.journal {
            Some(journal) => journal.close(|| self.slots.frontier(&self.clock))?,
            None => self.drain_memtables(&self.cores())?,
        }
        let wall = Edit::WallClock {
            ms: self.wall.now_ms(),
        };
        match self.env.manifest.commit(&[wall]) {
            // All that was written is durable. What expired may come back only if the machine's
            // clock is set back before the next opening. Nor does a manifest in doubt take any
            // of it.
            Err(error) if Shortages::is_one(&error) => Ok(()),
            Err(error) if self.journal.is_some() && error.kind() == ErrorKind::ReadOnly => Ok(()),
            noted => noted,
        }
    }

    /// Waits for flushes and compactions of other threads, then gives up the lock. Whoever waited
    /// for one of these, or changes the directory otherwise, comes too late: the manifest is shut.
    pub(crate) fn unlock(&self) {
        let compacting = self.compacting.write();
        let turn = self.flushes.pause();
        for core in self.cores() {
            core.tree.clean();
        }
        self.env.manifest.shut();
        self.env.files.shut();
        self.lock.lock().take();
        drop((turn, compacting));
    }

    #[cold]
    fn cause_of_halt(&self) -> Error {
        let cause = self.cause.lock().clone();
        let unknown = || Error::new(ErrorKind::ReadOnly, "write", "the database is read-only");
        cause.unwrap_or_else(unknown)
    }

    /// A (slot, lane) pair for one write. Writes that wait for the device share lanes, so that
    /// their records stand in few pages; they wait without the lane.
    #[inline]
    pub(crate) fn checkout(&self, options: WriteOptions) -> Result<PoolGuard<'_, Pair>> {
        let pair = self.checkout_now(options);
        pair.map_or_else(|| self.checkout_slowly(), Ok)
    }

    /// As `checkout`, if one is free; none is for who has to be refused.
    #[inline]
    pub(crate) fn checkout_now(&self, options: WriteOptions) -> Option<PoolGuard<'_, Pair>> {
        if deciding::is_any() && self.is_deciding() {
            return None;
        }
        match options.durability.unwrap_or(self.options.durability) {
            Durability::Buffered => self.pairs.checkout(),
            Durability::Sync | Durability::Group(_) => self.pairs.checkout_first(),
        }
    }

    #[cold]
    fn checkout_slowly(&self) -> Result<PoolGuard<'_, Pair>> {
        self.refuse_inside_transact("write")?;
        let started = thread::now();
        for turn in 0u32.. {
            if let Some(pair) = self.pairs.checkout() {
                self.stalls.note(Cause::Slots, started.elapsed());
                return Ok(pair);
            }
            // Who keeps them all may wait for this thread: an only writer that writes to another
            // database, whose only writer writes to this one. A close ends that.
            self.check()?;
            if turn < 100 {
                thread::yield_now()
            } else {
                thread::sleep(Duration::from_micros(200))
            }
        }
        unreachable!("the loop ends only by returning")
    }

    /// What the function given to `transact` writes by itself would be in no batch of it, and waits
    /// for its own thread once that is the only writer, as a close would.
    #[cold]
    pub(crate) fn refuse_inside_transact(&self, attempt: &str) -> Result<()> {
        if !self.is_deciding() {
            return Ok(());
        }
        let found = "it is asked for within the function given to `transact`";
        Err(Error::invalid(attempt, found).remedy("add writes to its batch; close after it"))
    }

    /// Marks that this thread runs a function given to `transact`, as long as the mark lives.
    pub(crate) fn deciding(&self) -> Deciding {
        Deciding::over(std::ptr::from_ref(self).addr())
    }

    /// Whether this thread is running one.
    fn is_deciding(&self) -> bool {
        deciding::is_over(std::ptr::from_ref(self).addr())
    }

    /// D: every stamp at or below it survives a power loss.
    pub(crate) fn durable(&self) -> Stamp {
        match &self.journal {
            Some(journal) => journal.durable(),
            // Acquire, partner: `raise_installed`.
            None => Stamp(self.installed.load(Ordering::Acquire)),
        }
    }

    /// Everything up to `stamp`, in every keyspace, is in tables now.
    pub(crate) fn raise_installed(&self, stamp: Stamp) {
        // Release, partner: `durable`.
        self.installed.fetch_max(stamp.0, Ordering::Release);
    }

    /// What a collector must keep, now.
    pub(crate) fn retention(&self) -> Retention {
        let now_ms = self.wall.now_ms();
        self.snapshots
            .retention(&self.clock, &self.slots, || self.durable(), now_ms)
    }

    /// All living keyspaces.
    pub(crate) fn cores(&self) -> Vec<Arc<Core>> {
        self.keyspaces.lock().values().cloned().collect()
    }

    /// Whether `core` is still one of the keyspaces.
    pub(crate) fn lives(&self, core: &Arc<Core>) -> bool {
        let keyspaces = self.keyspaces.lock();
        keyspaces
            .get(&core.name)
            .is_some_and(|living| Arc::ptr_eq(living, core))
    }

    /// Options for a new memtable of `core`, for as many keys as the current one has.
    pub(crate) fn memtable_options(
        &self,
        core: &Core,
        guard: &velella_sync::Guard,
    ) -> velella_memtable::MemtableOptions {
        let keys = core.view.load(guard).cur.table.nodes();
        self.made_of()
            .memtable(&core.effective(), &core.order, keys)
    }

    /// What memtables of all keyspaces share.
    pub(crate) fn made_of(&self) -> MadeOf {
        MadeOf {
            slots: Arc::clone(&self.slots),
            counters: Arc::clone(&self.memtable_counters),
            spare: Arc::clone(&self.spare),
        }
    }

    /// Whether background threads should end.
    pub(crate) fn is_stopping(&self) -> bool {
        // Acquire, partner: the Release in `jobs::stop`.
        self.stopping.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
