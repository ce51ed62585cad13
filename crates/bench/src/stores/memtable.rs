//! Memtables without an engine: what JellyFish's and S3's papers simulate.
//!
//! A clock, slots and a memtable, which keep the write protocol of docs/concurrency.md without
//! journal, switch and flush. Every kind that the engine offers is here as `memtable:KIND`; beside
//! them what JellyFish (Middleware '20) is compared with: `aoc-noreseek` steps over every obsolete
//! version, `leveldb1w` lets one writer in at a time; and what S3 (VLDB '19), figure 12, compares:
//! `guards:SIZE` is the S3 kind with a guard directory of at most that size; and figure 13:
//! `select:HOW` is the S3 kind whose guards, at most 128 KiB of them, are chosen like that. Both
//! are there of the JellyFish kind as well: `jellyfish-guards:SIZE`, `jellyfish-select:HOW`.
//!
//! W1. A slot is used by one thread at a time: threads get them in turn, and there are more than
//!     twice as many as threads can run at once.
//!
//! Threads: any. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, SeeEntry, Settings, Store, View, Visit};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use velella_base::{Order, Stamp, ValueKind};
use velella_memtable::guards::{GuardSelector, SELECTORS};
use velella_memtable::{
    BatchCell, Counters, CursorMode, GuardOptions, Head, Install, Intent, Memtable, MemtableKind,
    MemtableOptions, Newest, OnPending, Owner, Pending, ReadAt,
};
use velella_mvcc::{Clock, Slots};
use velella_sync::{Guard, epoch};

/// A few guards: one for about every fortieth anchor of a million keys.
const SELECTED_BYTES: usize = 128 << 10;

/// Who chooses guards.
#[derive(Debug, Clone, Copy)]
enum Selector {
    Known(&'static dyn GuardSelector),
    /// The paper's network, trained when it is first asked for: half a minute.
    #[cfg(feature = "neural")]
    Neural,
}

impl Selector {
    fn name(self) -> &'static str {
        match self {
            Selector::Known(selector) => selector.name(),
            #[cfg(feature = "neural")]
            Selector::Neural => "neural",
        }
    }

    fn ready(self) -> &'static dyn GuardSelector {
        match self {
            Selector::Known(selector) => selector,
            #[cfg(feature = "neural")]
            Selector::Neural => {
                use velella_neural::{Network, Plan, SplitGuards, train};
                /// Keys for each of the words that a directory's maker shows, of a million keys.
                const KEYS_PER_WORD: usize = 64;
                static TRAINED: LazyLock<SplitGuards<Network>> = LazyLock::new(|| {
                    let (network, _) = train(&Plan::default(), &mut |_, _| {});
                    SplitGuards::new(network, KEYS_PER_WORD)
                });
                &*TRAINED
            }
        }
    }
}

/// How one of them is made.
#[derive(Debug, Clone, Copy)]
enum Make {
    Kind(MemtableKind),
    /// The kind with so many bytes of guard directory.
    Guards(MemtableKind, usize),
    /// The kind with few guards, chosen so.
    Select(MemtableKind, Selector),
    NoReseek,
    OneWriter,
}

/// A memtable as a store.
#[derive(Debug)]
pub struct Bare {
    name: String,
    make: Make,
}

/// All of them.
pub static ALL: LazyLock<Vec<Bare>> = LazyLock::new(|| {
    let kinds = MemtableKind::ALL.iter().map(|kind| Bare {
        name: format!("memtable:{}", kind.name()),
        make: Make::Kind(*kind),
    });
    let others = [
        ("aoc-noreseek", Make::NoReseek),
        ("leveldb1w", Make::OneWriter),
    ];
    let others = others.map(|(name, make)| Bare {
        name: name.to_owned(),
        make,
    });
    let guided = GUIDED
        .iter()
        .flat_map(|(kind, prefix)| guided(*kind, prefix));
    kinds.chain(others).chain(guided).collect()
});

/// The kinds that have guard directories, with what their names begin with.
const GUIDED: [(MemtableKind, &str); 2] = [
    (MemtableKind::S3, ""),
    (MemtableKind::Jellyfish, "jellyfish-"),
];

/// One kind with each size of directory, and with each selector.
fn guided(kind: MemtableKind, prefix: &str) -> impl Iterator<Item = Bare> {
    let guards = GUARD_BYTES.map(|(size, bytes)| Bare {
        name: format!("{prefix}guards:{size}"),
        make: Make::Guards(kind, bytes),
    });
    let selectors = SELECTORS.into_iter().map(Selector::Known);
    #[cfg(feature = "neural")]
    let selectors = selectors.chain([Selector::Neural]);
    let selectors = selectors.map(move |selector| Bare {
        name: format!("{prefix}select:{}", selector.name().replace(' ', "-")),
        make: Make::Select(kind, selector),
    });
    guards.into_iter().chain(selectors)
}

/// Sizes of guard directories, beside the default's 2 MiB.
const GUARD_BYTES: [(&str, usize); 5] = [
    ("0", 0),
    ("128K", SELECTED_BYTES),
    ("256K", 256 << 10),
    ("8M", 8 << 20),
    ("32M", 32 << 20),
];

/// More than twice the threads that can be asked for (W1).
const SLOTS: usize = 1024;

impl Peer for Bare {
    fn name(&self) -> &'static str {
        let known = ALL.iter().find(|known| known.name == self.name);
        known.map_or("memtable", |known| &known.name)
    }

    fn about(&self) -> &'static str {
        match self.make {
            Make::Kind(_) => "that kind of memtable alone, without an engine",
            Make::Guards(MemtableKind::S3, _) => {
                "memtable of the S3 kind, guard directory of at most that size"
            }
            Make::Guards(..) => {
                "memtable of the JellyFish kind, guard directory of at most that size"
            }
            Make::Select(MemtableKind::S3, _) => {
                "memtable of the S3 kind, 128 KiB of guards that are chosen like that"
            }
            Make::Select(..) => {
                "memtable of the JellyFish kind, 128 KiB of guards that are chosen like that"
            }
            Make::NoReseek => "memtable of one tower per version that never seeks over versions",
            Make::OneWriter => "memtable of one tower per version, one writer at a time",
        }
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::None]
    }

    fn open(&self, _dir: &Path, _settings: &Settings) -> Outcome<Box<dyn Store>> {
        let slots = Arc::new(Slots::new(SLOTS));
        let counters = Arc::new(Counters::default());
        let options = |kind| MemtableOptions {
            kind,
            order: Order::default(),
            slots: Arc::clone(&slots),
            counters: Arc::clone(&counters),
            guards: match self.make {
                Make::Guards(_, bytes) => bytes.into(),
                Make::Select(_, selector) => {
                    GuardOptions::from(SELECTED_BYTES).chosen_by(selector.ready())
                }
                _ => GuardOptions::default(),
            },
            keys: 0,
            spare: Arc::default(),
        };
        let table = match self.make {
            Make::Kind(kind) | Make::Guards(kind, _) | Make::Select(kind, _) => {
                velella_memtable::new(&options(kind))
            }
            Make::OneWriter => velella_memtable::new(&options(MemtableKind::AppendOnly)),
            Make::NoReseek => {
                velella_memtable::append_only_stepping(&options(MemtableKind::AppendOnly))
            }
        };
        Ok(Box::new(World {
            table,
            clock: Clock::new(Stamp::ZERO, Stamp::MAX),
            slots,
            counters,
            writer: matches!(self.make, Make::OneWriter).then(Mutex::default),
        }))
    }
}

struct World {
    table: Arc<dyn Memtable>,
    clock: Clock,
    slots: Arc<Slots>,
    counters: Arc<Counters>,
    /// Held by every writer, where there may be one at a time.
    writer: Option<Mutex<()>>,
}

/// This thread's slot (W1).
fn slot() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: only the number matters.
        static SLOT: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
    }
    SLOT.with(Cell::get)
}

const NEWEST: ReadAt = ReadAt {
    stamp: Stamp::MAX,
    pending: OnPending::Skip,
};

fn intent<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> Intent<'a> {
    Intent {
        key,
        kind: value.map_or(ValueKind::Delete, |_| ValueKind::Put),
        payload: [value.unwrap_or_default(), b""],
    }
}

impl World {
    fn as_writer<R>(&self, write: impl FnOnce() -> R) -> R {
        let held = self
            .writer
            .as_ref()
            .map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        let result = write();
        drop(held);
        result
    }

    /// Installs, waiting for whoever is in the way; `None` if the expected head has moved.
    fn install<'g>(
        &'g self,
        intent: &Intent<'_>,
        owner: Owner<'_>,
        expected: Option<&Head<'g>>,
        guard: &'g Guard,
    ) -> Option<Pending<'g>> {
        loop {
            match self.table.install(intent, owner, expected, guard) {
                Install::Installed(pending) => return Some(pending),
                Install::Moved => return None,
                Install::Busy(other) => {
                    while !other.is_decided() {
                        std::thread::yield_now();
                    }
                }
            }
        }
    }

    /// Announces the slot, draws a stamp, lets `publish` decide at it, and goes idle.
    fn window(&self, publish: impl FnOnce(Stamp)) {
        let slot = slot();
        self.slots.announce(slot, self.clock.lower_bound());
        publish(self.clock.draw());
        self.slots.idle(slot);
    }

    fn write_one(&self, key: &[u8], value: Option<&[u8]>) {
        let guard = epoch::pin();
        let owner = Owner::Slot(slot());
        self.as_writer(|| {
            if let Some(pending) = self.install(&intent(key, value), owner, None, &guard) {
                self.window(|stamp| {
                    pending.publish(stamp);
                });
            }
        });
    }

    /// Shows pairs from `from` on, or from the end backwards.
    fn walk(
        &self,
        at: Stamp,
        from: Option<&[u8]>,
        count: usize,
        visit: Visit<'_>,
    ) -> Outcome<usize> {
        let failed = |error| Failure::store("memtable", "scan", error);
        let mode = CursorMode::Visible {
            at: ReadAt {
                stamp: at,
                pending: OnPending::Resolve,
            },
            keys_only: false,
        };
        let mut cursor = Arc::clone(&self.table).cursor(mode);
        let sought = match from {
            Some(from) => cursor.seek(from, Stamp::MAX),
            None => cursor.seek_last(),
        };
        sought.map_err(failed)?;
        let mut seen = 0;
        while seen < count
            && let Some(entry) = cursor.entry()
        {
            if entry.kind == ValueKind::Put {
                visit(entry.key, entry.value);
                seen += 1;
            }
            if seen < count {
                let moved = match from {
                    Some(_) => cursor.next(),
                    None => cursor.prev(),
                };
                moved.map_err(failed)?;
            }
        }
        Ok(seen)
    }
}

impl Store for World {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.write_one(key, Some(value));
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.write_one(key, None);
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let guard = epoch::pin();
        let found = self.table.get(key, NEWEST, &guard);
        let found = found.filter(|version| version.kind == ValueKind::Put);
        if let Some(version) = &found {
            see(version.value);
        }
        Ok(found.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.walk(self.clock.observe(), Some(from), count, visit)
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.walk(self.clock.observe(), None, count, visit)
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        let mut sorted: Vec<&Change<'_>> = batch.iter().collect();
        // Stable: of several changes of a key the last is kept.
        sorted.sort_by_key(|change| change.key);
        sorted.reverse();
        sorted.dedup_by_key(|change| change.key);
        sorted.reverse();
        self.as_writer(|| {
            let guard = epoch::pin();
            let cell = BatchCell::new(slot());
            let mut pendings = Vec::new();
            for change in sorted {
                let intent = intent(change.key, change.value);
                pendings.extend(self.install(&intent, Owner::Batch(&cell), None, &guard));
            }
            self.window(|stamp| cell.decide(Some(stamp)));
            cell.settle(pendings, &guard);
        });
        Ok(())
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        let owner = Owner::Slot(slot());
        self.as_writer(|| {
            loop {
                let guard = epoch::pin();
                let head = match self.table.newest(key, &guard) {
                    Newest::Busy(_) => {
                        std::thread::yield_now();
                        continue;
                    }
                    Newest::Decided(_, Some(version)) if version.kind == ValueKind::Put => {
                        return Ok(false);
                    }
                    Newest::Decided(head, _) => head,
                };
                let intent = intent(key, Some(value));
                if let Some(pending) = self.install(&intent, owner, Some(&head), &guard) {
                    self.window(|stamp| {
                        pending.publish(stamp);
                    });
                    return Ok(true);
                }
            }
        })
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Ok(Box::new(At {
            world: self,
            stamp: self.clock.observe(),
        }))
    }

    fn entries(&self, see: SeeEntry<'_>) -> Outcome<bool> {
        let failed = |error| Failure::store("memtable", "write out", error);
        let mut cursor = Arc::clone(&self.table).cursor(CursorMode::All);
        cursor.seek_first().map_err(failed)?;
        while let Some(entry) = cursor.entry() {
            see(entry).map_err(failed)?;
            cursor.next().map_err(failed)?;
        }
        Ok(true)
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        counted(&self.counters)
    }
}

/// What a memtable counted, by name.
pub(super) fn counted(counters: &Counters) -> BTreeMap<String, u64> {
    [
        ("memtable_comparisons", &counters.comparisons),
        ("memtable_cas_attempts", &counters.cas_attempts),
        ("memtable_cas_failures", &counters.cas_failures),
        ("memtable_towers", &counters.towers),
        ("memtable_versions", &counters.versions),
        ("memtable_versions_skipped", &counters.versions_skipped),
        ("memtable_directory_probes", &counters.directory_probes),
        ("memtable_bytes_allocated", &counters.bytes),
    ]
    .into_iter()
    .map(|(name, counter)| (name.to_owned(), counter.sum()))
    .collect()
}

struct At<'a> {
    world: &'a World,
    stamp: Stamp,
}

impl View for At<'_> {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.world.walk(self.stamp, Some(from), count, visit)
    }
}
