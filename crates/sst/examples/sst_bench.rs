//! Measures tables: building, cached gets, seeks, scans both ways; prints ns per operation and
//! counters.
//!
//! `cargo run --release -p velella-sst --example sst_bench -- [entries] [none|lz4|zstd]`
//! The table is in memory, so file reads cost a copy, not a system call. Threads: one.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use velella_base::checksum::Context;
use velella_base::{Cursor, Entry, Order, Result, Stamp, ValueKind};
use velella_sst::{BlockCache, Compression, Counters, Table, TableBuilder, TableOptions, key_hash};
use velella_sync::rng::Rng;
use velella_vfs::{MemFs, Vfs};

const VALUE_BYTES: usize = 100;
const ROUNDS: u64 = 20;
const CONTEXT: Context = Context {
    database: 1,
    file: 2,
};

/// `n` in sixteen decimal digits.
fn key(mut n: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    for digit in key.iter_mut().rev() {
        *digit += u8::try_from(n % 10).unwrap_or(0);
        n /= 10;
    }
    key
}

/// Runs `operation` `count` times in rounds and prints what one costs in the best of them: other
/// work on the machine only ever adds.
fn measure(name: &str, count: u64, mut operation: impl FnMut() -> Result<()>) -> Result<f64> {
    let round = (count / ROUNDS).max(1);
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..round {
            operation()?;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / round as f64);
    }
    println!("{name:<36} {best:>9.1} ns/op   {:>8.2} M/s", 1000.0 / best);
    Ok(best)
}

fn build(fs: &MemFs, path: &Path, entries: u64, options: TableOptions) -> Result<()> {
    let mut rng = Rng::new(1);
    // Half of each value is noise, half repeats, so that it compresses about twofold.
    let mut value = [b'v'; VALUE_BYTES];
    let start = Instant::now();
    let mut builder = TableBuilder::new(fs.create(path)?, CONTEXT, options);
    for n in 0..entries {
        for word in value[..VALUE_BYTES / 2].chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        builder.add(Entry {
            // Every second key, so that absent ones lie between.
            key: &key(n * 2),
            stamp: Stamp(n + 1),
            kind: ValueKind::Put,
            value: &value,
        })?;
    }
    let meta = builder.finish()?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "build: {:.0} MB/s raw, {:.1} ns/entry, {} bytes on disk of {} raw",
        meta.raw_bytes as f64 / seconds / 1e6,
        seconds * 1e9 / entries as f64,
        meta.bytes,
        meta.raw_bytes
    );
    Ok(())
}

fn gets(table: &Arc<Table>, entries: u64, count: u64) -> Result<()> {
    let mut rng = Rng::new(2);
    measure("get, present, random", count, || {
        let key = key(rng.below(entries) * 2);
        let found = table.get(&key, key_hash(&key), Stamp::MAX)?;
        std::hint::black_box(&found);
        Ok(())
    })?;
    measure("get, absent, random", count, || {
        let key = key(rng.below(entries) * 2 + 1);
        std::hint::black_box(table.get(&key, key_hash(&key), Stamp::MAX)?);
        Ok(())
    })?;
    measure("get, present, 1,000 hot keys", count, || {
        let key = key(rng.below(1000) * (entries / 1000) * 2);
        std::hint::black_box(table.get(&key, key_hash(&key), Stamp::MAX)?);
        Ok(())
    })?;
    Ok(())
}

fn walks(table: &Arc<Table>, entries: u64, count: u64) -> Result<()> {
    let mut rng = Rng::new(3);
    let mut cursor = table.cursor(true);
    let mut sum = 0;
    measure("seek + 10 next", count / 2, || {
        cursor.seek(&key(rng.below(entries) * 2), Stamp::MAX)?;
        for _ in 0..10 {
            let Some(entry) = cursor.entry() else { break };
            sum += entry.value.len() + entry.key.len();
            cursor.next()?;
        }
        Ok(())
    })?;
    let mut ratios = [0.0; 2];
    for (ratio, back) in ratios.iter_mut().zip([false, true]) {
        let name = ["seek + 1,000 next", "seek + 1,000 prev"][usize::from(back)];
        *ratio = measure(name, 4000, || {
            cursor.seek(&key((1000 + rng.below(entries - 2000)) * 2), Stamp::MAX)?;
            for _ in 0..1000 {
                let Some(entry) = cursor.entry() else { break };
                sum += entry.value.len() + entry.key.len();
                if back { cursor.prev()? } else { cursor.next()? }
            }
            Ok(())
        })?;
    }
    println!(
        "a step back costs {:.2} steps forward",
        ratios[1] / ratios[0]
    );
    for fill_cache in [true, false] {
        let mut cursor = table.cursor(fill_cache);
        cursor.seek_first()?;
        let name = match fill_cache {
            true => "full scan, cached, per entry",
            false => "full scan, from the file, per entry",
        };
        measure(name, entries, || {
            sum += cursor
                .entry()
                .map_or(0, |entry| entry.value.len() + entry.key.len());
            cursor.next()
        })?;
    }
    std::hint::black_box(sum);
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let entries: u64 = arguments
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_000_000);
    let compression = match arguments.next().as_deref() {
        Some("none") => Compression::None,
        Some("zstd") => Compression::Zstd,
        _ => Compression::Lz4,
    };
    let (fs, path) = (MemFs::new(), Path::new("/000002.sst"));
    let options = TableOptions {
        compression,
        ..TableOptions::default()
    };
    build(&fs, path, entries, options)?;
    let (cache, counters) = (BlockCache::new(1 << 30), Arc::new(Counters::default()));
    let table = Table::open(
        fs.open_read(path)?,
        CONTEXT,
        Order::Bytewise,
        Arc::clone(&cache),
        Arc::clone(&counters),
    )?;
    println!("pinned {} bytes", table.pinned_bytes());
    // Fills the cache.
    let mut cursor = table.cursor(true);
    cursor.seek_first()?;
    measure("full scan into the cache", entries, || cursor.next())?;
    println!("cached {} bytes", cache.bytes());
    let before = (
        counters.comparisons.sum(),
        counters.filter_negatives.sum(),
        cache.misses(),
    );
    let count = 2_000_000;
    gets(&table, entries, count)?;
    println!(
        "comparisons per present get {:.3}, absent keys denied {:.4}, cache misses {}",
        (counters.comparisons.sum() - before.0) as f64 / (2 * count) as f64,
        (counters.filter_negatives.sum() - before.1) as f64 / count as f64,
        cache.misses() - before.2
    );
    walks(&table, entries, count)
}
