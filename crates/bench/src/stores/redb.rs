//! redb, a copy-on-write B+ tree in Rust.
//!
//! Each write is a transaction of its own. redb knows commits that are on the device and commits
//! that die with the process; so that it can promise what others do in between, its file is given
//! to it through `PageCacheFile`, which writes to the page cache and, in that case, does not sync.
//!
//! Threads: any; writers exclude each other inside redb. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const NAME: &str = "redb";
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// redb.
#[derive(Debug)]
pub struct Redb;

impl Peer for Redb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "redb (Rust, copy-on-write B+ tree)"
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::None, Durability::Process, Durability::Device]
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        std::fs::create_dir_all(dir).map_err(failed("open"))?;
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join("redb"))
            .map_err(failed("open"))?;
        let backend = PageCacheFile {
            file,
            synced: settings.durability == Durability::Device,
        };
        let cache = usize::try_from(settings.memory).unwrap_or(usize::MAX);
        let db = Builder::new()
            .set_cache_size(cache)
            .create_with_backend(backend)
            .map_err(failed("open"))?;
        let open = Open {
            db,
            durability: match settings.durability {
                Durability::None => redb::Durability::None,
                Durability::Process | Durability::Device => redb::Durability::Immediate,
            },
        };
        // The table exists from here on, for readers too.
        open.write(&[])?;
        Ok(Box::new(open))
    }
}

/// A file whose syncs are left out where nobody asks for them.
#[derive(Debug)]
struct PageCacheFile {
    file: File,
    synced: bool,
}

impl StorageBackend for PageCacheFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.synced {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}

struct Open {
    db: Database,
    durability: redb::Durability,
}

fn failed<E: std::fmt::Display>(attempt: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| Failure::store(NAME, attempt, error)
}

impl Open {
    fn change<R>(
        &self,
        attempt: &'static str,
        change: impl FnOnce(
            &mut redb::Table<'_, &'static [u8], &'static [u8]>,
        ) -> Result<R, redb::StorageError>,
    ) -> Outcome<R> {
        let mut txn = self.db.begin_write().map_err(failed(attempt))?;
        txn.set_durability(self.durability)
            .map_err(failed(attempt))?;
        let mut table = txn.open_table(TABLE).map_err(failed(attempt))?;
        let result = change(&mut table).map_err(failed(attempt))?;
        drop(table);
        txn.commit().map_err(failed(attempt))?;
        Ok(result)
    }

    fn table(&self, attempt: &'static str) -> Outcome<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        let txn = self.db.begin_read().map_err(failed(attempt))?;
        txn.open_table(TABLE).map_err(failed(attempt))
    }
}

type Pairs<'a> = redb::Range<'a, &'static [u8], &'static [u8]>;
type Pair<'a> = <Pairs<'a> as Iterator>::Item;

/// Shows the first `count` of `pairs`.
fn show<'a>(
    pairs: impl Iterator<Item = Pair<'a>>,
    count: usize,
    visit: Visit<'_>,
) -> Outcome<usize> {
    let mut seen = 0;
    for pair in pairs.take(count) {
        let (key, value) = pair.map_err(failed("scan"))?;
        visit(key.value(), value.value());
        seen += 1;
    }
    Ok(seen)
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.change("put", |table| table.insert(key, value).map(|_| ()))
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.change("delete", |table| table.remove(key).map(|_| ()))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.table("get")?.get(key).map_err(failed("get"))?;
        if let Some(value) = &value {
            see(value.value());
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let table = self.table("scan")?;
        show(table.range(from..).map_err(failed("scan"))?, count, visit)
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let table = self.table("scan")?;
        let pairs = table.range::<&[u8]>(..).map_err(failed("scan"))?;
        show(pairs.rev(), count, visit)
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        self.change("write a batch", |table| {
            for change in batch {
                match change.value {
                    Some(value) => drop(table.insert(change.key, value)?),
                    None => drop(table.remove(change.key)?),
                }
            }
            Ok(())
        })
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        self.change("put if absent", |table| {
            let absent = table.get(key)?.is_none();
            if absent {
                drop(table.insert(key, value)?);
            }
            Ok(absent)
        })
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Ok(Box::new(At(self.table("take a view")?)))
    }
}

struct At(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl View for At {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        show(self.0.range(from..).map_err(failed("scan"))?, count, visit)
    }
}
