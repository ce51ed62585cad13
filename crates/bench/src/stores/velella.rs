//! Velella itself, and the baselines that are Velella but for one part.
//!
//! `aoc` has one skip-list tower per version (JellyFish's AOC); `lock-striped-rmw` does its
//! read-modify-writes under striped locks (cLSM's comparison); `rwlock-writers` lets writers share
//! a reader-writer lock, as the stores that cLSM starts from.
//!
//! Threads: any. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use crate::stripes::Stripes;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{LazyLock, PoisonError, RwLock};
use velella::{Db, JournalMode, Keyspace, MemtableKind, Snapshot, WriteBatch};

/// How it differs from Velella as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Plain,
    LockStriped,
    LockedWriters,
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

const NAMED: [Velella; 5] = [
    Velella::of("velella", "Velella with default options"),
    Velella {
        memtable: Some(MemtableKind::AppendOnly),
        ..Velella::of("aoc", "Velella with one skip-list tower per version")
    },
    Velella {
        variant: Variant::LockStriped,
        ..Velella::of(
            "lock-striped-rmw",
            "Velella, read-modify-writes under striped locks",
        )
    },
    Velella {
        variant: Variant::LockedWriters,
        ..Velella::of(
            "rwlock-writers",
            "Velella, writers one at a time, readers under a lock",
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
        let durability = match settings.durability {
            Durability::Device => velella::Durability::Sync,
            Durability::None | Durability::Process => velella::Durability::Buffered,
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
            variant: self.variant,
            stripes: Stripes::default(),
            lock: RwLock::new(()),
        }))
    }
}

struct Open {
    name: &'static str,
    db: Db,
    keyspace: Keyspace,
    variant: Variant,
    stripes: Stripes,
    lock: RwLock<()>,
}

impl Open {
    fn failed(&self, attempt: &'static str) -> impl FnOnce(velella::Error) -> Failure {
        let name = self.name;
        move |error| Failure::store(name, attempt, error)
    }

    /// Does `write` as this variant lets writers in.
    #[inline]
    fn as_writer<R>(&self, write: impl FnOnce() -> R) -> R {
        if self.variant != Variant::LockedWriters {
            return write();
        }
        let held = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        let result = write();
        drop(held);
        result
    }

    /// Does `read` as this variant lets readers in.
    #[inline]
    fn as_reader<R>(&self, read: impl FnOnce() -> R) -> R {
        if self.variant != Variant::LockedWriters {
            return read();
        }
        let held = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        let result = read();
        drop(held);
        result
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
        self.as_writer(|| self.keyspace.put(key, value))
            .map(|_| ())
            .map_err(self.failed("put"))
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.as_writer(|| self.keyspace.delete(key))
            .map(|_| ())
            .map_err(self.failed("delete"))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.as_reader(|| self.keyspace.get_with(key, |value| see(value)))
            .map(|found| found.is_some())
            .map_err(self.failed("get"))
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.as_reader(|| self.walk(self.keyspace.iter(), Some(from), count, visit))
            .map_err(self.failed("scan"))
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.as_reader(|| self.walk(self.keyspace.iter(), None, count, visit))
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
        self.as_writer(|| self.db.write(&all))
            .map(|_| ())
            .map_err(self.failed("write a batch"))
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        if self.variant != Variant::LockStriped {
            return self
                .as_writer(|| self.keyspace.put_if_absent(key, value))
                .map_err(self.failed("put if absent"));
        }
        self.stripes.put_if_absent(self, key, value)
    }

    fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        see: &mut dyn FnMut(&[u8]),
    ) -> Outcome<Option<bool>> {
        if self.variant == Variant::LockStriped {
            return self.stripes.replace(self, key, value, see).map(Some);
        }
        let mut found = false;
        let replaced = self.as_writer(|| {
            self.keyspace.rmw(key, |old| {
                found = old.is_some();
                if let Some(old) = old {
                    see(old);
                }
                velella::Decision::Put(value.to_vec())
            })
        });
        replaced.map_err(self.failed("replace"))?;
        Ok(Some(found))
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Ok(Box::new(At {
            open: self,
            snapshot: self.db.snapshot(),
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
        counters.insert("journal_syncs".to_owned(), stats.journal.syncs);
        counters.insert("cache_hits".to_owned(), stats.cache.hits);
        counters.insert("cache_misses".to_owned(), stats.cache.misses);
        for stall in stats.stalls {
            counters.insert(format!("stall_us_{}", stall.cause), stall.total_us);
        }
        counters
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
