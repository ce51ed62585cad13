//! LMDB, a copy-on-write B+ tree in one mapped file, by way of heed.
//!
//! Each write is a transaction of its own. Without syncs (`MDB_NOSYNC`) a commit is in the page
//! cache, so it survives the process. The cache is the system's: `memory` does not bound it.
//!
//! Threads: any; writers exclude each other inside LMDB. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};
use std::ops::Bound;
use std::path::Path;

const NAME: &str = "lmdb";
/// The map grows in whole pages of whatever size the system has.
const PAGE_BYTES_MAX: u64 = 1 << 16;
/// Least bytes of a map: a tree of few, large pages.
const MAP_BYTES_MIN: u64 = 64 << 20;
/// More threads than any benchmark has.
const READERS_MAX: u32 = 512;

/// LMDB.
#[derive(Debug)]
pub struct Lmdb;

impl Peer for Lmdb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "LMDB (C, B+ tree in a mapped file), by heed"
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::Process, Durability::Device]
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let mut options = EnvOpenOptions::new();
        let bytes = settings.data_bytes_max.saturating_mul(4);
        let bytes = bytes.max(MAP_BYTES_MIN).next_multiple_of(PAGE_BYTES_MAX);
        options.map_size(usize::try_from(bytes).unwrap_or(usize::MAX));
        options.max_readers(READERS_MAX);
        if settings.durability == Durability::Process {
            // SAFETY: without syncs the file is whole as long as the system runs, which is all
            // that this durability promises; nobody relies on it after a power loss.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the directory is this benchmark's own, so nobody else changes the mapped file,
        // and this process opens it once at a time.
        let opened = unsafe { options.open(dir) };
        let env = opened.map_err(failed("open"))?;
        let mut txn = env.write_txn().map_err(failed("open"))?;
        let database = env.create_database(&mut txn, None);
        let database: Database<Bytes, Bytes> = database.map_err(failed("open"))?;
        txn.commit().map_err(failed("open"))?;
        Ok(Box::new(Open { env, database }))
    }
}

struct Open {
    env: Env<WithTls>,
    database: Database<Bytes, Bytes>,
}

fn failed(attempt: &'static str) -> impl Fn(heed::Error) -> Failure {
    move |error| Failure::store(NAME, attempt, error)
}

/// Shows the first `count` of `pairs`.
fn show<'a>(
    pairs: impl Iterator<Item = heed::Result<(&'a [u8], &'a [u8])>>,
    count: usize,
    visit: Visit<'_>,
) -> Outcome<usize> {
    let mut seen = 0;
    for pair in pairs.take(count) {
        let (key, value) = pair.map_err(failed("scan"))?;
        visit(key, value);
        seen += 1;
    }
    Ok(seen)
}

impl Open {
    fn walk(&self, txn: &RoTxn<'_>, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        // LMDB knows no empty key.
        let first = match from {
            [] => Bound::Unbounded,
            from => Bound::Included(from),
        };
        let bounds = (first, Bound::Unbounded);
        let pairs = self.database.range(txn, &bounds).map_err(failed("scan"))?;
        show(pairs, count, visit)
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let mut txn = self.env.write_txn().map_err(failed("put"))?;
        let put = self.database.put(&mut txn, key, value);
        put.map_err(failed("put"))?;
        txn.commit().map_err(failed("put"))
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        let mut txn = self.env.write_txn().map_err(failed("delete"))?;
        let deleted = self.database.delete(&mut txn, key);
        deleted.map_err(failed("delete"))?;
        txn.commit().map_err(failed("delete"))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let txn = self.env.read_txn().map_err(failed("get"))?;
        let value = self.database.get(&txn, key).map_err(failed("get"))?;
        if let Some(value) = value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let txn = self.env.read_txn().map_err(failed("scan"))?;
        self.walk(&txn, from, count, visit)
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let txn = self.env.read_txn().map_err(failed("scan"))?;
        let pairs = self.database.rev_iter(&txn).map_err(failed("scan"))?;
        show(pairs, count, visit)
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        let failed = failed("write a batch");
        let mut txn = self.env.write_txn().map_err(&failed)?;
        for change in batch {
            let done = match change.value {
                Some(value) => self.database.put(&mut txn, change.key, value),
                None => self.database.delete(&mut txn, change.key).map(|_| ()),
            };
            done.map_err(&failed)?;
        }
        txn.commit().map_err(&failed)
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        let failed = failed("put if absent");
        let mut txn = self.env.write_txn().map_err(&failed)?;
        let there = self.database.get(&txn, key).map_err(&failed)?.is_some();
        if there {
            txn.abort();
            return Ok(false);
        }
        self.database.put(&mut txn, key, value).map_err(&failed)?;
        txn.commit().map_err(&failed)?;
        Ok(true)
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        let txn = self
            .env
            .clone()
            .static_read_txn()
            .map_err(failed("take a view"))?;
        Ok(Box::new(At { open: self, txn }))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let closing = self.env.prepare_for_closing();
        closing.wait();
        Ok(())
    }
}

struct At<'a> {
    open: &'a Open,
    txn: RoTxn<'static, WithTls>,
}

impl View for At<'_> {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.open.walk(&self.txn, from, count, visit)
    }
}
