//! What recovery gathers for a keyspace before it becomes tables: entries in the order of the
//! journal, then sorted.
//!
//! Threads: one. Tests: as `recovery.rs`.

use crate::keyspace_core::Core;
use std::sync::Arc;
use velella_base::{Cursor, Entry, Order, Result, Stamp, ValueKind};
use velella_journal::batch;

/// What was gathered for one keyspace.
pub(super) struct Piece {
    pub(super) core: Arc<Core>,
    entries: Vec<Gathered>,
    bytes: Vec<u8>,
}

/// An entry whose key and value lie in the piece's bytes.
#[derive(Clone, Copy)]
struct Gathered {
    start: usize,
    key_len: u32,
    value_len: u32,
    stamp: Stamp,
    kind: ValueKind,
}

impl Piece {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Piece {
            core,
            entries: Vec::new(),
            bytes: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an operation; returns the bytes it takes.
    pub(super) fn add(&mut self, stamp: Stamp, operation: &batch::Operation<'_>) -> u64 {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(operation.key);
        self.bytes.extend_from_slice(operation.value);
        let short = |len: usize| u32::try_from(len).expect("a decoded length fits 32 bits");
        self.entries.push(Gathered {
            start,
            key_len: short(operation.key.len()),
            value_len: short(operation.value.len()),
            stamp,
            kind: operation.kind,
        });
        (self.bytes.len() - start + size_of::<Gathered>()) as u64
    }

    /// Everything gathered, sorted; the piece is empty afterwards.
    pub(super) fn take(&mut self) -> Run {
        let bytes = std::mem::take(&mut self.bytes);
        let mut entries = std::mem::take(&mut self.entries);
        let order = self.core.order.clone();
        let key = |entry: &Gathered| &bytes[entry.start..entry.start + entry.key_len as usize];
        entries.sort_unstable_by(|a, b| {
            order
                .compare(key(a), key(b))
                .then_with(|| b.stamp.cmp(&a.stamp))
        });
        // A record is met once, but a batch may not hold a key twice either way.
        entries.dedup_by(|b, a| a.stamp == b.stamp && order.compare(key(a), key(b)).is_eq());
        Run {
            order,
            bytes,
            entries,
            at: usize::MAX,
        }
    }
}

/// A sorted run in memory.
pub(super) struct Run {
    order: Order,
    bytes: Vec<u8>,
    entries: Vec<Gathered>,
    at: usize,
}

impl Run {
    fn key(&self, entry: &Gathered) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.key_len as usize]
    }
}

impl Cursor for Run {
    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.at = self.entries.len().wrapping_sub(1);
        Ok(())
    }

    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        self.at = self.entries.partition_point(|entry| {
            let order = self.order.compare(self.key(entry), key);
            order.then_with(|| stamp.cmp(&entry.stamp)).is_lt()
        });
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let below = |entry: &Gathered| self.order.compare(self.key(entry), key).is_lt();
        self.at = self.entries.partition_point(below).wrapping_sub(1);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at = self.at.saturating_add(1);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self.at.wrapping_sub(1);
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.entries.get(self.at)?;
        let value = entry.start + entry.key_len as usize;
        Some(Entry {
            key: self.key(entry),
            stamp: entry.stamp,
            kind: entry.kind,
            value: &self.bytes[value..value + entry.value_len as usize],
        })
    }
}
