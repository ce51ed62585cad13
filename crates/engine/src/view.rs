//! What a reader of a keyspace sees in memory: the memtables, newest first, as one object.
//!
//! Source: cLSM (EuroSys '15) 3.1, the pointers Pm and P'm read in one load; the split stamp is
//! ours, it replaces the exclusive lock of `beforeMerge`.
//!
//! V1. Every stamp in `prev` is below W, every stamp in `cur` at or above it; `older` is older yet.
//! V2. A view is published before its W can be drawn, and W is decided once, by whoever needs it
//!     first. With several keyspaces in one switch, all views are published first.
//! V3. After `quiesced`, nothing is published in `prev` any more. A view moves its `prev` to
//!     `older` only then.
//! V4. Data moves one way: cur, prev, older, tree. A reader that loads the view before the tree
//!     meets it at least once.
//!
//! Threads: readers pin and load; switches and flushes publish under `Keyspace::publishing`.
//! Tests: `tests/switch.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use velella_base::{Stamp, seeded};
use velella_memtable::Memtable;
use velella_mvcc::{Clock, Slots};
use velella_sync::CachePadded;
use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering, spin};
use velella_sync::lock::Mutex;
use velella_tree::ExternalHold;

/// Bytes of external values that fill a memtable, in write buffers.
const EXTERNAL_BUFFERS: u64 = 4;

/// How often a writer looks whether all views are published before it yields.
const SPINS: u32 = 100;

/// Bytes of all memtables of a database that a view holds and something was written to.
#[derive(Debug, Default)]
pub(crate) struct MemtableBytes(CachePadded<AtomicU64>);

impl MemtableBytes {
    /// How many, about now.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        // Relaxed, here and below: a figure that decides when to flush and when to wait.
        self.0.load(Ordering::Relaxed)
    }
}

/// A memtable with what belongs to it.
#[derive(Debug)]
pub(crate) struct Mem {
    pub(crate) table: Arc<dyn Memtable>,
    /// External values that versions in it refer to, by file.
    pub(crate) externals: Mutex<BTreeMap<u64, ExternalHold>>,
    /// Their bytes: a memtable is full of these, too, or overwriting large values would fill the
    /// disk with dead files before their few bytes here fill the memtable.
    external_bytes: AtomicU64,
    /// Its bytes as they are counted among all; `GONE` once they are not.
    counted: AtomicU64,
}

/// `Mem::counted` of a memtable that left its view.
const GONE: u64 = u64::MAX;

impl Mem {
    pub(crate) fn new(table: Arc<dyn Memtable>) -> Arc<Self> {
        Arc::new(Mem {
            table,
            externals: Mutex::default(),
            external_bytes: AtomicU64::new(0),
            counted: AtomicU64::new(0),
        })
    }

    /// Counts its bytes among `all`, after a write to it; whether they have become more.
    #[inline]
    pub(crate) fn count(&self, all: &MemtableBytes) -> bool {
        let bytes = self.table.bytes() as u64;
        // Relaxed: see `MemtableBytes`.
        bytes > self.counted.load(Ordering::Relaxed) && self.count_more(bytes, all)
    }

    #[cold]
    fn count_more(&self, bytes: u64, all: &MemtableBytes) -> bool {
        // Relaxed throughout: see `MemtableBytes`.
        let mut counted = self.counted.load(Ordering::Relaxed);
        while counted < bytes {
            // First here, so that the sum never falls below what it is the sum of.
            all.0.fetch_add(bytes - counted, Ordering::Relaxed);
            let exchanged =
                self.counted
                    .compare_exchange(counted, bytes, Ordering::Relaxed, Ordering::Relaxed);
            let Err(other) = exchanged else { return true };
            all.0.fetch_sub(bytes - counted, Ordering::Relaxed);
            counted = other;
        }
        false
    }

    /// It has left its view: its bytes are counted no more, whatever is written to it yet.
    pub(crate) fn discount(&self, all: &MemtableBytes) {
        // Relaxed: see `MemtableBytes`.
        let counted = self.counted.swap(GONE, Ordering::Relaxed);
        if counted != GONE {
            all.0.fetch_sub(counted, Ordering::Relaxed);
        }
    }

    /// Keeps the external value `file` of `bytes` alive as long as this memtable. A write that
    /// comes again has it held already.
    pub(crate) fn hold(&self, file: u64, external: ExternalHold, bytes: u64) {
        if self.externals.lock().insert(file, external).is_none() {
            // Relaxed: a figure that decides when to flush.
            self.external_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Takes [`Mem::hold`] back: the write failed, and nobody reads its version.
    pub(crate) fn release(&self, file: u64, bytes: u64) {
        if self.externals.lock().remove(&file).is_some() {
            // Relaxed: see `hold`.
            self.external_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Its bytes without the chunk begun last: a memtable that was full as soon as it took a chunk
    /// would leave a sixth of a small write buffer unused, or more.
    #[inline]
    fn filled(&self) -> u64 {
        self.table.bytes().saturating_sub(self.table.newest_chunk()) as u64
    }

    /// Whether it should be switched, with a write buffer of so many bytes.
    #[inline]
    pub(crate) fn is_full(&self, write_buffer: u64) -> bool {
        // Relaxed: see `hold`.
        self.filled() >= write_buffer
            || self.external_bytes.load(Ordering::Relaxed) >= EXTERNAL_BUFFERS * write_buffer
    }
}

/// The boundary between two generations of memtables, shared by all keyspaces of one switch.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// W; 0 while undecided.
    boundary: AtomicU64,
    /// Every view of this switch is published (V2).
    published: AtomicBool,
    quiesced: AtomicBool,
}

impl Split {
    /// All views are published: W may be drawn.
    pub(crate) fn open(&self) {
        // Release, partner: the Acquire in `decide`.
        self.published.store(true, Ordering::Release);
    }

    /// W, decided now if it was not.
    #[inline]
    pub(crate) fn decide(&self, clock: &Clock) -> Stamp {
        // Acquire, partner: the exchange below. Who uses W sees all that was installed before it.
        match self.boundary.load(Ordering::Acquire) {
            0 => self.draw(clock),
            boundary => Stamp(boundary),
        }
    }

    #[cold]
    fn draw(&self, clock: &Clock) -> Stamp {
        // A switch publishes its views by a few stores, one after the other; but it may lose its
        // processor there, and this one may be what it needs.
        let mut turns = 0u32;
        // Acquire, partner: `open`.
        while !self.published.load(Ordering::Acquire)
            && !seeded("a-switch-draws-before-it-publishes")
        {
            turns += 1;
            if turns < SPINS {
                spin();
            } else {
                velella_sync::thread::yield_now();
            }
        }
        // The last one once they have ended: no write has it, nor comes after it (`lease.rs`, K3).
        let candidate = clock.draw().min(Stamp::MAX);
        // AcqRel, partners: this exchange and the load in `decide`.
        match self
            .boundary
            .compare_exchange(0, candidate.0, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => candidate,
            Err(decided) => Stamp(decided),
        }
    }

    /// Waits until nothing can be published below W any more (V3).
    pub(crate) fn quiesce(&self, clock: &Clock, slots: &Slots) -> Stamp {
        let boundary = self.decide(clock);
        slots.wait_past(boundary);
        // Release, partner: the Acquire in `is_quiesced`.
        self.quiesced.store(true, Ordering::Release);
        boundary
    }

    /// Whether `prev` is final.
    #[inline]
    pub(crate) fn is_quiesced(&self) -> bool {
        // Acquire, partner: `quiesce`.
        self.quiesced.load(Ordering::Acquire)
    }
}

/// The memtables of a keyspace.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Takes the writes.
    pub(crate) cur: Arc<Mem>,
    /// Took them before; final once its split is quiesced.
    pub(crate) prev: Option<(Arc<Mem>, Arc<Split>)>,
    /// Final, newest first, waiting to be flushed.
    pub(crate) older: Vec<Arc<Mem>>,
}

impl View {
    pub(crate) fn new(cur: Arc<Mem>) -> Self {
        View {
            cur,
            prev: None,
            older: Vec::new(),
        }
    }

    /// The view after a switch to `next` (V3 is the caller's).
    pub(crate) fn switched(&self, next: Arc<Mem>, split: Arc<Split>) -> View {
        let mut older = Vec::with_capacity(self.older.len() + 1);
        if let Some((prev, old)) = &self.prev {
            assert!(old.is_quiesced(), "V3: a switch waits for the one before");
            older.push(Arc::clone(prev));
        }
        older.extend(self.older.iter().cloned());
        View {
            cur: next,
            prev: Some((Arc::clone(&self.cur), split)),
            older,
        }
    }

    /// The view after `flushed` went to the tree.
    pub(crate) fn without(&self, flushed: &Arc<Mem>) -> View {
        let prev = self
            .prev
            .clone()
            .filter(|(mem, _)| !Arc::ptr_eq(mem, flushed));
        let older = self
            .older
            .iter()
            .filter(|mem| !Arc::ptr_eq(mem, flushed))
            .cloned()
            .collect();
        View {
            cur: Arc::clone(&self.cur),
            prev,
            older,
        }
    }

    /// All memtables, newest first.
    #[inline]
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Mem>> {
        std::iter::once(&self.cur)
            .chain(self.prev.iter().map(|(mem, _)| mem))
            .chain(&self.older)
    }

    /// How many are immutable.
    pub(crate) fn immutables(&self) -> usize {
        usize::from(self.prev.is_some()) + self.older.len()
    }

    /// Bytes of all memtables.
    pub(crate) fn bytes(&self) -> u64 {
        self.memtables().map(|mem| mem.table.bytes() as u64).sum()
    }
}
