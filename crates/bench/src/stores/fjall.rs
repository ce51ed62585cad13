//! fjall, an LSM tree in Rust.
//!
//! Its journal reaches the operating system with every write, by default; on the device it is
//! after `persist`, which is called after each write where that is asked for.
//!
//! Threads: any. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use crate::stripes::Stripes;
use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use std::collections::BTreeMap;
use std::path::Path;

const NAME: &str = "fjall";

/// fjall.
#[derive(Debug)]
pub struct Fjall;

impl Peer for Fjall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "fjall (Rust, leveled LSM tree)"
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::Process, Durability::Device]
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let db = Database::builder(dir)
            .cache_size(settings.memory)
            .open()
            .map_err(failed("open"))?;
        #[expect(clippy::cast_precision_loss, reason = "a few bits")]
        let bits = settings.bloom_bits as f32;
        let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits));
        let keyspace = db
            .keyspace("bench", || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(settings.write_buffer)
                    .filter_policy(FilterPolicy::all(filter))
            })
            .map_err(failed("open"))?;
        Ok(Box::new(Open {
            db,
            keyspace,
            synced: settings.durability == Durability::Device,
            stripes: Stripes::default(),
        }))
    }
}

struct Open {
    db: Database,
    keyspace: Keyspace,
    synced: bool,
    stripes: Stripes,
}

fn failed(attempt: &'static str) -> impl FnOnce(fjall::Error) -> Failure {
    move |error| Failure::store(NAME, attempt, error)
}

fn walk(
    iter: impl Iterator<Item = fjall::Guard>,
    count: usize,
    visit: Visit<'_>,
) -> Outcome<usize> {
    let mut seen = 0;
    for pair in iter.take(count) {
        let (key, value) = pair.into_inner().map_err(failed("scan"))?;
        visit(&key, &value);
        seen += 1;
    }
    Ok(seen)
}

impl Open {
    fn sync(&self) -> Outcome<()> {
        if self.synced {
            let persisted = self.db.persist(PersistMode::SyncData);
            persisted.map_err(failed("persist"))?;
        }
        Ok(())
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.keyspace.insert(key, value).map_err(failed("put"))?;
        self.sync()
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.keyspace.remove(key).map_err(failed("delete"))?;
        self.sync()
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.keyspace.get(key).map_err(failed("get"))?;
        if let Some(value) = &value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        walk(self.keyspace.range(from..), count, visit)
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        walk(self.keyspace.iter().rev(), count, visit)
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        let mode = if self.synced {
            PersistMode::SyncData
        } else {
            PersistMode::Buffer
        };
        let mut all = self.db.batch().durability(Some(mode));
        for change in batch {
            match change.value {
                Some(value) => all.insert(&self.keyspace, change.key, value),
                None => all.remove(&self.keyspace, change.key),
            }
        }
        all.commit().map_err(failed("write a batch"))
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        self.stripes.put_if_absent(self, key, value)
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Ok(Box::new(At {
            open: self,
            snapshot: self.db.snapshot(),
        }))
    }

    fn settle(&self) -> Outcome<()> {
        let flushed = self.keyspace.rotate_memtable_and_wait();
        flushed.map_err(failed("flush"))?;
        self.keyspace.major_compact().map_err(failed("compact"))
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let compactions = self.db.compactions_completed() as u64;
        BTreeMap::from([("compactions".to_owned(), compactions)])
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let persisted = self.db.persist(PersistMode::Buffer);
        persisted.map_err(failed("close"))
    }
}

struct At<'a> {
    open: &'a Open,
    snapshot: Snapshot,
}

impl View for At<'_> {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        walk(
            self.snapshot.range(&self.open.keyspace, from..),
            count,
            visit,
        )
    }
}
