//! What recovery gathers for a keyspace before it becomes tables: entries in the order of the
//! journal, then sorted.
//!
//! P1. Each entry has the first eight bytes of its key at hand: in the bytewise order they decide
//!     almost every comparison of the sort, without a look at the key.
//! P2. Parts are ranges of keys, so that each can be sorted and written by a thread of its own; all
//!     versions of a key are in one.
//!
//! Threads: one for each part. Tests: below, and as `recovery.rs`.

use crate::keyspace_core::Core;
use std::cmp::Ordering;
use std::sync::Arc;
use velella_base::order::word;
use velella_base::{Cursor, Entry, Order, Result, Stamp, ValueKind};
use velella_journal::batch;

/// Fewer entries than this are not worth a thread.
const PART_MIN: usize = 32 << 10;
/// Entries looked at to find where a part begins.
const SAMPLE: usize = 1000;

/// What was gathered for one keyspace.
pub(super) struct Piece {
    pub(super) core: Arc<Core>,
    entries: Vec<Gathered>,
    bytes: Vec<u8>,
}

/// An entry whose key and value lie in the piece's bytes.
#[derive(Debug, Clone, Copy)]
struct Gathered {
    /// The beginning of its key in the bytewise order, 0 in others (P1).
    word: u64,
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
        let is_bytewise = self.core.order.is_bytewise();
        self.entries.push(Gathered {
            word: if is_bytewise { word(operation.key) } else { 0 },
            start,
            key_len: short(operation.key.len()),
            value_len: short(operation.value.len()),
            stamp,
            kind: operation.kind,
        });
        (self.bytes.len() - start + size_of::<Gathered>()) as u64
    }

    /// Everything gathered, in about as many parts as `parts` says; the piece is empty afterwards.
    pub(super) fn take(&mut self, parts: usize) -> Vec<Run> {
        let all = Run {
            order: self.core.order.clone(),
            bytes: Arc::new(std::mem::take(&mut self.bytes)),
            entries: std::mem::take(&mut self.entries),
            at: usize::MAX,
        };
        all.split(parts)
    }
}

/// A run in memory, sorted once it is told to be.
pub(super) struct Run {
    order: Order,
    bytes: Arc<Vec<u8>>,
    entries: Vec<Gathered>,
    at: usize,
}

impl Run {
    fn key(&self, entry: &Gathered) -> &[u8] {
        key(&self.bytes, entry)
    }

    /// As runs of ranges of keys, each as ascending as this and none empty (P2).
    fn split(mut self, parts: usize) -> Vec<Run> {
        let parts = parts.min(self.entries.len() / PART_MIN).max(1);
        let mut runs = Vec::with_capacity(parts);
        for left in (2..=parts).rev() {
            let border = self.border(left);
            let (upper, lower) = std::mem::take(&mut self.entries)
                .into_iter()
                .partition(|entry| compare_keys(&self.order, &self.bytes, entry, &border).is_ge());
            self.entries = lower;
            runs.push(Run {
                order: self.order.clone(),
                bytes: Arc::clone(&self.bytes),
                entries: upper,
                at: usize::MAX,
            });
        }
        runs.push(self);
        runs.reverse();
        runs.retain(|run| !run.entries.is_empty());
        runs
    }

    /// An entry that about one in `parts` entries is not below.
    fn border(&self, parts: usize) -> Gathered {
        let step = (self.entries.len() / SAMPLE).max(1);
        let mut sample: Vec<Gathered> = self.entries.iter().step_by(step).copied().collect();
        sample.sort_unstable_by(|a, b| compare_keys(&self.order, &self.bytes, a, b));
        sample[sample.len() * (parts - 1) / parts]
    }

    /// Sorts the entries, and drops doubles.
    pub(super) fn sort(&mut self) {
        let (order, bytes) = (&self.order, &self.bytes);
        self.entries.sort_unstable_by(|a, b| {
            compare_keys(order, bytes, a, b).then_with(|| b.stamp.cmp(&a.stamp))
        });
        // A record is met once, but a batch may not hold a key twice either way.
        self.entries
            .dedup_by(|b, a| a.stamp == b.stamp && compare_keys(order, bytes, a, b).is_eq());
    }
}

fn key<'a>(bytes: &'a [u8], entry: &Gathered) -> &'a [u8] {
    &bytes[entry.start..entry.start + entry.key_len as usize]
}

#[inline]
fn compare_keys(order: &Order, bytes: &[u8], a: &Gathered, b: &Gathered) -> Ordering {
    a.word
        .cmp(&b.word)
        .then_with(|| order.compare(key(bytes, a), key(bytes, b)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::fresh;
    use velella_sync::rng::Rng;

    #[test]
    fn parts_are_ranges_of_keys_and_lose_nothing() {
        let (db, _engine) = fresh();
        let mut piece = Piece::new(Arc::clone(&db.core));
        let mut rng = Rng::new(3);
        let mut expected = Vec::new();
        for stamp in 1..=4 * PART_MIN as u64 {
            // Every key has some versions, and long runs of keys begin with the same eight bytes.
            let key = format!("{:08}{:04}", rng.below(9), rng.below(5000));
            let operation = batch::Operation {
                keyspace: 0,
                kind: ValueKind::Put,
                key: key.as_bytes(),
                value: b"value",
            };
            piece.add(Stamp(stamp), &operation);
            expected.push((key.into_bytes(), stamp));
        }
        expected.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut runs = piece.take(3);
        assert!(piece.is_empty());
        assert_eq!(runs.len(), 3);
        let mut all = Vec::new();
        for run in &mut runs {
            assert!(run.entries.len() > PART_MIN, "{}", run.entries.len());
            run.sort();
            run.seek_first().unwrap();
            while let Some(entry) = run.entry() {
                all.push((entry.key.to_vec(), entry.stamp.0));
                run.next().unwrap();
            }
        }
        assert!(all == expected);
    }

    #[test]
    fn one_key_makes_one_part() {
        let (db, _engine) = fresh();
        let mut piece = Piece::new(Arc::clone(&db.core));
        let operation = batch::Operation {
            keyspace: 0,
            kind: ValueKind::Put,
            key: b"key",
            value: b"",
        };
        for stamp in 1..=2 * PART_MIN as u64 {
            piece.add(Stamp(stamp), &operation);
        }
        let mut runs = piece.take(2);
        assert_eq!(runs.len(), 1);
        runs[0].sort();
        assert_eq!(runs[0].entries.len(), 2 * PART_MIN);
    }
}
