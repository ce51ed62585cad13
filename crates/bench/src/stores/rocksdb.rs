//! RocksDB, by its crate, C++ and all.
//!
//! Settings as a user would choose them for the memory at hand: an LRU block cache of all the
//! memory, memtables on top, Bloom filters, LZ4; everything else is RocksDB's default. Its tickers
//! cost it something, so they run only where counters were asked for; then they have the names of
//! Velella's counters of the same things.
//!
//! Threads: any. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use crate::stripes::Stripes;
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WriteBatch, WriteOptions,
};
use std::collections::BTreeMap;
use std::path::Path;

const NAME: &str = "rocksdb";

/// What it counts, by the name that it has in Velella. A sync is one `fdatasync` of the log.
const TICKERS: [(&str, Ticker); 8] = [
    ("journal_syncs", Ticker::WalFileSynced),
    ("journal_bytes", Ticker::WalFileBytes),
    ("flush_bytes", Ticker::FlushWriteBytes),
    ("compaction_bytes_read", Ticker::CompactReadBytes),
    ("compaction_bytes_written", Ticker::CompactWriteBytes),
    ("stall_us_all", Ticker::StallMicros),
    ("cache_hits", Ticker::BlockCacheHit),
    ("cache_misses", Ticker::BlockCacheMiss),
];

/// RocksDB.
#[derive(Debug)]
pub struct RocksDb;

impl Peer for RocksDb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "RocksDB (C++, leveled LSM tree), built from its crate"
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::None, Durability::Process, Durability::Device]
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let mut tables = BlockBasedOptions::default();
        let memory = usize::try_from(settings.memory).unwrap_or(usize::MAX);
        tables.set_block_cache(&Cache::new_lru_cache(memory));
        tables.set_bloom_filter(f64::from(settings.bloom_bits), false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&tables);
        options.set_compression_type(DBCompressionType::Lz4);
        let buffer = usize::try_from(settings.write_buffer).unwrap_or(usize::MAX);
        options.set_write_buffer_size(buffer);
        if settings.counters {
            options.enable_statistics();
            options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        }
        let db = DB::open(&options, dir).map_err(|error| Failure::store(NAME, "open", error))?;
        let mut write = WriteOptions::default();
        write.set_sync(settings.durability == Durability::Device);
        write.disable_wal(settings.durability == Durability::None);
        Ok(Box::new(Open {
            db,
            write,
            read: ReadOptions::default(),
            counted: settings.counters.then_some(options),
            stripes: Stripes::default(),
        }))
    }
}

struct Open {
    db: DB,
    write: WriteOptions,
    /// Kept, since a get that brings none makes one.
    read: ReadOptions,
    /// What it was opened with, which has its tickers, where they run.
    counted: Option<Options>,
    stripes: Stripes,
}

fn failed(attempt: &'static str) -> impl FnOnce(rocksdb::Error) -> Failure {
    move |error| Failure::store(NAME, attempt, error)
}

impl Open {
    /// Shows pairs from `from` on, or from the end backwards.
    fn walk(
        &self,
        options: ReadOptions,
        from: Option<&[u8]>,
        count: usize,
        visit: Visit<'_>,
    ) -> Outcome<usize> {
        let mut iter = self.db.raw_iterator_opt(options);
        match from {
            Some(from) => iter.seek(from),
            None => iter.seek_to_last(),
        }
        let mut seen = 0;
        while seen < count
            && let Some((key, value)) = iter.item()
        {
            visit(key, value);
            seen += 1;
            if seen < count {
                match from {
                    Some(_) => iter.next(),
                    None => iter.prev(),
                }
            }
        }
        iter.status().map_err(failed("scan"))?;
        Ok(seen)
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.db
            .put_opt(key, value, &self.write)
            .map_err(failed("put"))
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.db
            .delete_opt(key, &self.write)
            .map_err(failed("delete"))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.db.get_pinned_opt(key, &self.read);
        let value = value.map_err(failed("get"))?;
        if let Some(value) = &value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.walk(ReadOptions::default(), Some(from), count, visit)
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.walk(ReadOptions::default(), None, count, visit)
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        let mut all = WriteBatch::default();
        for change in batch {
            match change.value {
                Some(value) => all.put(change.key, value),
                None => all.delete(change.key),
            }
        }
        self.db
            .write_opt(all, &self.write)
            .map_err(failed("write a batch"))
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        self.stripes.put_if_absent(self, key, value)
    }

    fn replace(
        &self,
        key: &[u8],
        value: &[u8],
        see: &mut dyn FnMut(&[u8]),
    ) -> Outcome<Option<bool>> {
        self.stripes.replace(self, key, value, see).map(Some)
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Ok(Box::new(At {
            open: self,
            snapshot: self.db.snapshot(),
        }))
    }

    fn settle(&self) -> Outcome<()> {
        self.db.flush().map_err(failed("flush"))?;
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        Ok(())
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let Some(options) = &self.counted else {
            return BTreeMap::new();
        };
        let count = |(name, ticker): (&str, Ticker)| {
            let count = options.get_ticker_count(ticker);
            (name.to_owned(), count)
        };
        TICKERS.into_iter().map(count).collect()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

struct At<'a> {
    open: &'a Open,
    snapshot: rocksdb::Snapshot<'a>,
}

impl View for At<'_> {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let mut options = ReadOptions::default();
        options.set_snapshot(&self.snapshot);
        self.open.walk(options, Some(from), count, visit)
    }
}
