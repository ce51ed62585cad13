//! Blocks kept from writing a table to reading it: only what the cache has room for, all counted.
//!
//! Claims: `kept.rs` N1-N3.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use velella_base::{Order, Stamp};
use velella_sst::{BlockCache, Counters, KeptBlocks, Table, key_hash};
use velella_vfs::{MemFs, Vfs};

const ENTRIES: u32 = 4_000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn written(fs: &MemFs, cache: &Arc<BlockCache>) -> KeptBlocks {
    let mut builder = builder(fs, &options(512)).keep_blocks(Arc::clone(cache));
    for number in 0..ENTRIES {
        let entry = put(&key(number), 1, &[7; 100]);
        builder.add(entry.entry()).unwrap();
    }
    builder.finish_keeping().unwrap().1.unwrap()
}

fn opened(fs: &MemFs, cache: &Arc<BlockCache>, counters: &Arc<Counters>) -> Arc<Table> {
    let file = fs.open_read(Path::new(PATH)).unwrap();
    let (cache, counters) = (Arc::clone(cache), Arc::clone(counters));
    Table::open(file, CONTEXT, Order::Bytewise, cache, counters).unwrap()
}

fn get_all(table: &Table) {
    for number in 0..ENTRIES {
        let key = key(number);
        let found = table.get(&key, key_hash(&key), Stamp::MAX).unwrap();
        assert_eq!(found.unwrap().stamp, Stamp(1));
    }
}

#[test]
fn a_table_just_written_is_read_from_memory() {
    let (fs, cache) = (MemFs::new(), BlockCache::new(64 << 20));
    let kept = written(&fs, &cache);
    let counters = Arc::new(Counters::default());
    let table = opened(&fs, &cache, &counters);
    table.warm(kept);
    let opening = counters.blocks_read.sum();
    get_all(&table);
    assert_eq!(counters.blocks_read.sum(), opening);
    assert_eq!(cache.misses(), 0);
}

#[test]
fn what_is_kept_is_counted_until_it_is_let_go() {
    let (fs, cache) = (MemFs::new(), BlockCache::new(64 << 20));
    let kept = written(&fs, &cache);
    let bytes = cache.pinned_bytes();
    assert!(bytes > u64::from(ENTRIES) * 100, "{bytes}");
    drop(kept);
    assert_eq!((cache.pinned_bytes(), cache.bytes()), (0, 0));
}

#[test]
fn a_small_cache_keeps_some_and_stays_within_its_bytes() {
    let (fs, cache) = (MemFs::new(), BlockCache::new(100 << 10));
    let kept = written(&fs, &cache);
    assert!(cache.pinned_bytes() <= 100 << 10);
    let counters = Arc::new(Counters::default());
    let table = opened(&fs, &cache, &counters);
    table.warm(kept);
    assert!(cache.bytes() <= 100 << 10);
    let opening = counters.blocks_read.sum();
    get_all(&table);
    let read = counters.blocks_read.sum() - opening;
    // Entries of over 100 bytes in blocks of 512.
    let blocks = u64::from(ENTRIES) / 5;
    assert!(read > blocks / 2 && read < blocks, "{read} of {blocks}");
}

#[test]
fn a_full_cache_keeps_what_it_has() {
    let cache = BlockCache::new(300 << 10);
    let (one, other) = (MemFs::new(), MemFs::new());
    let counters = Arc::new(Counters::default());
    drop(written(&one, &cache));
    let table = opened(&one, &cache, &counters);
    get_all(&table);
    let (bytes, pinned) = (cache.bytes(), cache.pinned_bytes());
    let kept = written(&other, &cache);
    assert_eq!(cache.bytes(), bytes, "N1");
    assert!(cache.pinned_bytes() - pinned <= 16 << 10, "{kept:?}");
}
