//! What the tests of tables share: owned entries, random tables, building, opening, walking.
//!
//! Threads: none. Each test file uses a part of this.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test file uses a part"
)]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(clippy::cast_possible_truncation, reason = "sizes in tests are small")]

use std::path::Path;
use std::sync::Arc;
use velella_base::checksum::Context;
use velella_base::external::ExternalRef;
use velella_base::{Cursor, Entry, Order, Result, Stamp, ValueKind};
use velella_sst::{
    BlockCache, Compression, Counters, Table, TableBuilder, TableMeta, TableOptions,
};
use velella_sync::rng::Rng;
use velella_vfs::{MemFs, Vfs};

pub const CONTEXT: Context = Context {
    database: 0x0123_4567_89ab_cdef,
    file: 42,
};
pub const PATH: &str = "/db/000042.sst";

/// An entry with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    pub key: Vec<u8>,
    pub stamp: Stamp,
    pub kind: ValueKind,
    pub value: Vec<u8>,
}

impl Owned {
    pub fn of(entry: Entry<'_>) -> Owned {
        Owned {
            key: entry.key.to_vec(),
            stamp: entry.stamp,
            kind: entry.kind,
            value: entry.value.to_vec(),
        }
    }

    pub fn entry(&self) -> Entry<'_> {
        Entry {
            key: &self.key,
            stamp: self.stamp,
            kind: self.kind,
            value: &self.value,
        }
    }
}

pub fn put(key: &[u8], stamp: u64, value: &[u8]) -> Owned {
    Owned {
        key: key.to_vec(),
        stamp: Stamp(stamp),
        kind: ValueKind::Put,
        value: value.to_vec(),
    }
}

/// A payload that `kind` allows.
pub fn payload(rng: &mut Rng, kind: ValueKind, longest: u64) -> Vec<u8> {
    let mut value = match kind {
        ValueKind::Delete => return Vec::new(),
        ValueKind::External => {
            let reference = ExternalRef {
                file: rng.below(50),
                length: rng.next_u64(),
                crc: 7,
                expires_at_ms: rng.below(3) * 1000,
            };
            return reference.encode().to_vec();
        }
        ValueKind::PutExpiring => rng.below(1 << 40).to_le_bytes().to_vec(),
        _ => Vec::new(),
    };
    let len = rng.below(longest + 1);
    // Half text, which shrinks, half noise, which does not.
    let text = rng.below(2) == 0;
    value.extend((0..len).map(|n| match text {
        true => b"velella"[n as usize % 7],
        false => rng.next_u64() as u8,
    }));
    value
}

/// Sorts as tables are sorted.
pub fn sort(entries: &mut Vec<Owned>, order: &Order) {
    entries.sort_by(|a, b| order.compare(&a.key, &b.key).then(b.stamp.cmp(&a.stamp)));
    entries.dedup_by(|b, a| order.compare(&a.key, &b.key).is_eq() && a.stamp == b.stamp);
}

pub fn options(block_bytes: usize) -> TableOptions {
    TableOptions {
        block_bytes,
        ..TableOptions::default()
    }
}

pub const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

pub fn builder(fs: &MemFs, options: &TableOptions) -> TableBuilder {
    let path = Path::new(PATH);
    if !fs.exists(path).unwrap() {
        fs.create_dir_all(path.parent().unwrap()).unwrap();
    } else {
        fs.remove(path).unwrap();
    }
    TableBuilder::new(fs.create(path).unwrap(), CONTEXT, options.clone())
}

pub fn build(fs: &MemFs, entries: &[Owned], options: &TableOptions) -> TableMeta {
    let mut builder = builder(fs, options);
    for entry in entries {
        builder.add(entry.entry()).unwrap();
    }
    builder.finish().unwrap()
}

pub fn try_open(fs: &MemFs, order: &Order, cache_bytes: u64) -> Result<Arc<Table>> {
    Table::open(
        fs.open_read(Path::new(PATH))?,
        CONTEXT,
        order.clone(),
        BlockCache::new(cache_bytes),
        Arc::new(Counters::default()),
    )
}

pub fn open(fs: &MemFs, order: &Order) -> Arc<Table> {
    try_open(fs, order, 1 << 20).unwrap()
}

pub fn try_forward(cursor: &mut impl Cursor) -> Result<Vec<Owned>> {
    let mut seen = Vec::new();
    cursor.seek_first()?;
    while let Some(entry) = cursor.entry() {
        seen.push(Owned::of(entry));
        cursor.next()?;
    }
    Ok(seen)
}

pub fn forward(cursor: &mut impl Cursor) -> Vec<Owned> {
    try_forward(cursor).unwrap()
}

pub fn backward(cursor: &mut impl Cursor) -> Vec<Owned> {
    let mut seen = Vec::new();
    cursor.seek_last().unwrap();
    while let Some(entry) = cursor.entry() {
        seen.push(Owned::of(entry));
        cursor.prev().unwrap();
    }
    seen
}
