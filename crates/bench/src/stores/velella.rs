//! Velella itself, and the baselines that are Velella but for one part.
//!
//! `aoc` has one skip-list tower per version (JellyFish's AOC); `journal-write` calls `write(2)`
//! for each record. The others have a `gate` before their writers. `lock-striped-rmw` does its
//! read-modify-writes as a get and a put under striped locks, which its plain writes take, too
//! (cLSM's comparison). `rwlock-writers` has cLSM's own lock: puts and snapshots share it, batches
//! have it alone, gets take none; the switch of memtables, which has it alone in cLSM, is
//! Velella's. `journal-one-lock` lets one write in at a time, its journal record and all.
//!
//! V1. Nobody waits for the device with the one lock held, or each write would sync alone. So the
//!     engine takes its writes for ones that do not wait, which go into a lane of their thread's;
//!     those that wait go into the first free one, so that a sync has fewer pages to write.
//!
//! Threads: any. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::gate::Gate;
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit, Waits};
use crate::stripes::Stripes;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex, RwLock};
use velella::{Db, Decision, JournalMode, Keyspace, MemtableKind, Snapshot, Stamp, WriteBatch};

/// How it differs from Velella as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Plain,
    LockStriped,
    CLsm,
    OneLock,
}

impl Variant {
    fn gate(self) -> Gate {
        match self {
            Variant::Plain => Gate::Open,
            Variant::LockStriped => Gate::Striped(Stripes::default()),
            Variant::CLsm => Gate::Shared(RwLock::default()),
            Variant::OneLock => Gate::One(Mutex::default()),
        }
    }
}

/// A store that is Velella.
#[derive(Debug)]
pub struct Velella {
    name: &'static str,
    about: &'static str,
    /// `None`: the default.
    memtable: Option<MemtableKind>,
    journal: JournalMode,
    variant: Variant,
}

/// All of them, the product first; last, Velella with each kind of memtable that is neither its
/// default nor `aoc`.
pub static ALL: LazyLock<Vec<Velella>> = LazyLock::new(|| {
    let known = [MemtableKind::default(), MemtableKind::AppendOnly];
    let others = MemtableKind::ALL
        .into_iter()
        .filter(|kind| !known.contains(kind));
    let others = others.map(|memtable| Velella {
        memtable: Some(memtable),
        ..Velella::of(memtable.name(), "Velella with that kind of memtable")
    });
    NAMED.into_iter().chain(others).collect()
});

const NAMED: [Velella; 6] = [
    Velella::of("velella", "Velella with default options"),
    Velella {
        memtable: Some(MemtableKind::AppendOnly),
        ..Velella::of("aoc", "Velella with one skip-list tower per version")
    },
    Velella {
        variant: Variant::LockStriped,
        ..Velella::of(
            "lock-striped-rmw",
            "Velella, read-modify-writes and plain writes under striped locks",
        )
    },
    Velella {
        variant: Variant::CLsm,
        ..Velella::of(
            "rwlock-writers",
            "Velella, writers and snapshots share a lock that batches have alone (cLSM's)",
        )
    },
    Velella {
        variant: Variant::OneLock,
        ..Velella::of(
            "journal-one-lock",
            "Velella, one write at a time: one lock for all journal records",
        )
    },
    Velella {
        journal: JournalMode::Write,
        ..Velella::of(
            "journal-write",
            "Velella, one write(2) per record instead of mapped files",
        )
    },
];

impl Velella {
    const fn of(name: &'static str, about: &'static str) -> Self {
        Velella {
            name,
            about,
            memtable: None,
            journal: JournalMode::Auto,
            variant: Variant::Plain,
        }
    }

    fn journal(&self, asked: Durability) -> JournalMode {
        match asked {
            Durability::None => JournalMode::Off,
            Durability::Process | Durability::Device => self.journal,
        }
    }
}

impl Peer for Velella {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::None, Durability::Process, Durability::Device]
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let sync = settings.durability == Durability::Device;
        let waits = sync && self.variant == Variant::OneLock;
        let durability = match sync && !waits {
            true => velella::Durability::Sync,
            false => velella::Durability::Buffered,
        };
        let db = Db::builder()
            .memory(settings.memory)
            .write_buffer(settings.write_buffer)
            .bloom_bits(settings.bloom_bits)
            .durability(durability)
            .journal(self.journal(settings.durability))
            .memtable(self.memtable.unwrap_or_default())
            .open(dir)
            .map_err(|error| Failure::store(self.name, "open", error))?;
        Ok(Box::new(Open {
            name: self.name,
            keyspace: db.default_keyspace(),
            db,
            waits,
            gate: self.variant.gate(),
        }))
    }
}

struct Open {
    name: &'static str,
    db: Db,
    keyspace: Keyspace,
    /// Whether it waits for the device itself, outside of the gate (V1).
    waits: bool,
    gate: Gate,
}

impl Open {
    fn failed(&self, attempt: &'static str) -> impl FnOnce(velella::Error) -> Failure {
        let name = self.name;
        move |error| Failure::store(name, attempt, error)
    }

    /// Waits until what was `written` is as durable as was asked for.
    #[inline]
    fn durable(&self, written: velella::Result<Stamp>) -> velella::Result<()> {
        let stamp = written?;
        match self.waits {
            true => self.db.wait_durable(stamp),
            false => Ok(()),
        }
    }

    /// Writes what `decide` makes of the value of `key`, as one step: the engine's, or two steps
    /// under the lock of the key.
    fn step<'v>(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> Decision<'v>,
    ) -> velella::Result<()> {
        let stamp = self.gate.write(key, || {
            if !matches!(self.gate, Gate::Striped(_)) {
                return self.keyspace.update(key, decide);
            }
            let found = self.keyspace.get_with(key, |old| decide(Some(old)))?;
            match found.unwrap_or_else(|| decide(None)) {
                Decision::Put(value) => self.keyspace.put(key, value).map(Some),
                _ => Ok(None),
            }
        })?;
        stamp.map_or(Ok(()), |stamp| self.durable(Ok(stamp)))
    }

    /// Shows pairs from `from` on, or from the end backwards.
    fn walk(
        &self,
        iter: velella::Result<velella::Iter>,
        from: Option<&[u8]>,
        count: usize,
        visit: Visit<'_>,
    ) -> velella::Result<usize> {
        let mut iter = iter?;
        let mut there = match from {
            Some(from) => iter.seek(from)?,
            None => iter.seek_last()?,
        };
        let mut seen = 0;
        while there && seen < count {
            let (key, value) = iter.pair()?.unwrap_or_default();
            visit(key, value);
            seen += 1;
            if seen < count {
                there = match from {
                    Some(_) => iter.step()?,
                    None => iter.step_back()?,
                };
            }
        }
        Ok(seen)
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let put = self.gate.write(key, || self.keyspace.put(key, value));
        self.durable(put).map_err(self.failed("put"))
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        let deleted = self.gate.write(key, || self.keyspace.delete(key));
        self.durable(deleted).map_err(self.failed("delete"))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.keyspace
            .get_with(key, |value| see(value))
            .map(|found| found.is_some())
            .map_err(self.failed("get"))
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let iter = self.gate.snapshot(|| self.keyspace.iter());
        self.walk(iter, Some(from), count, visit)
            .map_err(self.failed("scan"))
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let iter = self.gate.snapshot(|| self.keyspace.iter());
        self.walk(iter, None, count, visit)
            .map_err(self.failed("scan backwards"))
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        let mut all = WriteBatch::new();
        for change in batch {
            match change.value {
                Some(value) => all.put(&self.keyspace, change.key, value),
                None => all.delete(&self.keyspace, change.key),
            };
        }
        let keys = batch.iter().map(|change| change.key);
        let written = self.gate.batch(keys, || self.db.write(&all));
        self.durable(written).map_err(self.failed("write a batch"))
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        let mut absent = false;
        let put = self.step(key, |old| {
            absent = old.is_none();
            match absent {
                true => Decision::put(value),
                false => Decision::Keep,
            }
        });
        put.map_err(self.failed("put if absent"))?;
        Ok(absent)
    }

    fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        see: &mut dyn FnMut(&[u8]),
    ) -> Outcome<Option<bool>> {
        let mut found = false;
        let replaced = self.step(key, |old| {
            found = old.is_some();
            if let Some(old) = old {
                see(old);
            }
            Decision::put(value)
        });
        replaced.map_err(self.failed("replace"))?;
        Ok(Some(found))
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Ok(Box::new(At {
            open: self,
            snapshot: self.gate.snapshot(|| self.db.snapshot()),
        }))
    }

    fn settle(&self) -> Outcome<()> {
        self.db.compact().map_err(self.failed("compact"))
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let stats = self.db.stats();
        let mut counters = stats.counters;
        counters.insert("journal_records".to_owned(), stats.journal.records);
        counters.insert("journal_bytes".to_owned(), stats.journal.bytes);
        counters.insert("journal_rounds".to_owned(), stats.journal.rounds);
        counters.insert("journal_syncs".to_owned(), stats.journal.syncs);
        counters.insert("cache_hits".to_owned(), stats.cache.hits);
        counters.insert("cache_misses".to_owned(), stats.cache.misses);
        for stall in stats.stalls {
            counters.insert(format!("stall_us_{}", stall.cause), stall.total_us);
        }
        counters
    }

    fn waits(&self) -> Option<BTreeMap<String, Waits>> {
        let waits = |stall: velella::Stall| {
            let waits = Waits {
                count: stall.count,
                total_us: stall.total_us,
                max_us: stall.max_us,
            };
            (stall.cause, waits)
        };
        Some(self.db.stats().stalls.into_iter().map(waits).collect())
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.db.close().map_err(self.failed("close"))
    }
}

struct At<'a> {
    open: &'a Open,
    snapshot: Snapshot,
}

impl View for At<'_> {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let iter = self.snapshot.iter(&self.open.keyspace);
        self.open
            .walk(iter, Some(from), count, visit)
            .map_err(self.open.failed("scan a snapshot"))
    }
}
