//! What recovery gathers for a keyspace before it becomes tables: entries in the order of the
//! journal, then sorted.
//!
//! P1. Each entry has eight bytes of its key at hand, those behind what all keys begin with: in the
//!     bytewise order they decide almost every comparison of the sort, without a look at the key.
//! P2. A version of a key that was overwritten soon gives way at once, if both are values of their
//!     own or deletions: nobody can ask for it, since no snapshot outlives its process. So keys
//!     that are written again and again are sorted once, and take the memory of one version.
//! P3. Parts are ranges of keys, so that each can be sorted and written by a thread of its own; all
//!     versions of a key are in one.
//!
//! Threads: one for each part. Tests: below, and as `recovery.rs`.

use crate::keyspace_core::Core;
use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;
use velella_base::order::word;
use velella_base::{Cursor, Entry, Order, Result, Stamp, ValueKind};
use velella_journal::batch;
use velella_sync::prefetch::prefetch_at;

/// Keys of which the last entry is remembered (P2): as many as there are entries, within these.
const REMEMBERED: RangeInclusive<usize> = 1 << 10..=1 << 17;
/// Fewer entries than this are not worth a thread.
const PART_MIN: usize = 32 << 10;
/// How many entries ahead of a walk the bytes of an entry are asked for.
const LEAD: usize = 8;
/// Entries looked at to find where a part begins.
const SAMPLE: usize = 1000;
/// 2^64 by the golden ratio: its multiples are spread evenly, and never in step with anything.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What was gathered for one keyspace.
pub(super) struct Piece {
    pub(super) core: Arc<Core>,
    entries: Vec<Gathered>,
    bytes: Vec<u8>,
    /// By the hash of a key, its last entry, if no other key came by since. Grows with the entries,
    /// from nothing.
    last: Vec<Last>,
}

/// The last entry of some key.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// More of the key's hash: most other keys show by it, without a look at the entry.
    tag: u32,
    number: u32,
}

impl Last {
    const NONE: Last = Last {
        tag: 0,
        number: u32::MAX,
    };

    fn new(tag: u32, number: usize) -> Last {
        let number = u32::try_from(number).expect("a gathering has fewer entries");
        Last { tag, number }
    }
}

/// An entry whose key and value lie in the piece's bytes.
#[derive(Debug, Clone, Copy)]
struct Gathered {
    /// Eight bytes of its key (P1); 0 where the order is not bytewise.
    word: u64,
    start: usize,
    key_len: u32,
    value_len: u32,
    /// What a value may take that replaces this one (P2).
    room: u32,
    stamp: Stamp,
    kind: ValueKind,
}

impl Piece {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Piece {
            core,
            entries: Vec::new(),
            bytes: Vec::new(),
            last: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an operation, which is newer than all before it; returns the bytes it takes.
    pub(super) fn add(&mut self, stamp: Stamp, operation: &batch::Operation<'_>) -> u64 {
        self.remember_more();
        let (place, tag) = self.place_of(operation.key);
        let last = self.last[place];
        if last.tag == tag && self.replace(last.number, stamp, operation) {
            return 0;
        }
        self.last[place] = Last::new(tag, self.entries.len());
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
            room: short(operation.value.len()),
            stamp,
            kind: operation.kind,
        });
        (self.bytes.len() - start + size_of::<Gathered>()) as u64
    }

    /// Where the last entry of a key is remembered, and the key's tag.
    fn place_of(&self, key: &[u8]) -> (usize, u32) {
        // All of the key: many differ in their middles only.
        let mixed = key.chunks(8).fold(key.len() as u64, |mixed, chunk| {
            (mixed.rotate_left(5) ^ word(chunk)).wrapping_mul(GOLDEN)
        });
        // The upper bits are the mixed ones; some of them are the place.
        let tag = u32::try_from(mixed >> 32).expect("32 bits");
        (tag as usize & (self.last.len() - 1), tag)
    }

    /// Makes more places once there are as many entries.
    fn remember_more(&mut self) {
        let places = self.last.len();
        if places > self.entries.len() || places == *REMEMBERED.end() {
            return;
        }
        let more = (2 * places).clamp(*REMEMBERED.start(), *REMEMBERED.end());
        self.last = vec![Last::NONE; more];
        for number in 0..self.entries.len() {
            let (place, tag) = self.place_of(key(&self.bytes, &self.entries[number]));
            self.last[place] = Last::new(tag, number);
        }
    }

    /// Puts the operation into the place of entry `last`, if it hides that one and is no longer
    /// (P2).
    fn replace(&mut self, last: u32, stamp: Stamp, operation: &batch::Operation<'_>) -> bool {
        let Some(entry) = self.entries.get_mut(last as usize) else {
            return false;
        };
        let (key, value) = (operation.key.len(), operation.value.len());
        let old = &mut self.bytes[entry.start..];
        if stamp < entry.stamp
            || !(is_plain(entry.kind) && is_plain(operation.kind))
            || value > entry.room as usize
            || entry.key_len as usize != key
            || old[..key] != *operation.key
        {
            return false;
        }
        old[key..key + value].copy_from_slice(operation.value);
        entry.value_len = u32::try_from(value).expect("not longer than one of 32 bits");
        (entry.stamp, entry.kind) = (stamp, operation.kind);
        true
    }

    /// Everything gathered, in about as many parts as `parts` says; the piece is empty afterwards.
    pub(super) fn take(&mut self, parts: usize) -> Vec<Run> {
        self.last = Vec::new();
        if self.core.order.is_bytewise() {
            self.pass_prefix();
        }
        let all = Run {
            order: self.core.order.clone(),
            bytes: Arc::new(std::mem::take(&mut self.bytes)),
            entries: std::mem::take(&mut self.entries),
            at: usize::MAX,
        };
        all.split(parts)
    }

    /// Has the words of keys begin behind what all of them begin with (P1).
    fn pass_prefix(&mut self) {
        let (bytes, entries) = (&self.bytes, &mut self.entries);
        let Some(first) = entries.first() else { return };
        let mut prefix = key(bytes, first);
        for entry in &*entries {
            let key = key(bytes, entry);
            if key.starts_with(prefix) {
                continue;
            }
            let same = prefix.iter().zip(key).take_while(|(a, b)| a == b);
            prefix = &prefix[..same.count()];
            if prefix.is_empty() {
                return;
            }
        }
        let len = prefix.len();
        for entry in entries {
            entry.word = word(&key(bytes, entry)[len..]);
        }
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

    /// As runs of ranges of keys, each as ascending as this and none empty (P3).
    fn split(mut self, parts: usize) -> Vec<Run> {
        let parts = parts.min(self.entries.len() / PART_MIN).max(1);
        let mut runs = Vec::with_capacity(parts);
        for left in (2..=parts).rev() {
            // Of few keys, or one that is written most, the parts so far may have taken all.
            let Some(border) = self.border(left) else {
                break;
            };
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

    /// An entry that about one in `parts` entries is not below; `None` if there are none.
    fn border(&self, parts: usize) -> Option<Gathered> {
        let len = self.entries.len() as u128;
        // At uneven distances: keys may have been written in turn.
        let place = |n: usize| (len * u128::from((n as u64).wrapping_mul(GOLDEN))) >> 64;
        let looks = 0..self.entries.len().min(SAMPLE);
        let mut sample: Vec<Gathered> = looks
            .filter_map(|n| self.entries.get(usize::try_from(place(n)).ok()?).copied())
            .collect();
        sample.sort_unstable_by(|a, b| compare_keys(&self.order, &self.bytes, a, b));
        sample.get(sample.len() * (parts - 1) / parts).copied()
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

/// Whether a version is nothing but its kind and its bytes.
fn is_plain(kind: ValueKind) -> bool {
    matches!(
        kind,
        ValueKind::Put | ValueKind::PutExpiring | ValueKind::Delete
    )
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
        // Neighbours in the order of keys lie anywhere in that of the journal.
        if let Some(soon) = self.entries.get(self.at.saturating_add(LEAD)) {
            let start = self.bytes.as_ptr().wrapping_add(soon.start);
            prefetch_at(start);
            prefetch_at(start.wrapping_add(64));
        }
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
    use std::collections::BTreeMap;
    use velella_sync::rng::Rng;

    fn operation<'a>(kind: ValueKind, key: &'a str, value: &'a str) -> batch::Operation<'a> {
        batch::Operation {
            keyspace: 0,
            kind,
            key: key.as_bytes(),
            value: value.as_bytes(),
        }
    }

    /// All entries of a run: key, stamp, kind, value.
    fn sorted(run: &mut Run) -> Vec<(String, u64, ValueKind, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut all = Vec::new();
        run.sort();
        run.seek_first().unwrap();
        while let Some(entry) = run.entry() {
            let (key, value) = (text(entry.key), text(entry.value));
            all.push((key, entry.stamp.0, entry.kind, value));
            run.next().unwrap();
        }
        all
    }

    #[test]
    fn parts_are_ranges_of_keys_and_lose_no_newest_version() {
        let (db, _engine) = fresh();
        let mut piece = Piece::new(Arc::clone(&db.core));
        let mut rng = Rng::new(3);
        let mut newest = BTreeMap::new();
        for stamp in 1..=6 * PART_MIN as u64 {
            // Every key has some versions, and long runs of keys begin with the same eight bytes.
            let key = format!("{:016}{:05}", rng.below(9) << 30, rng.below(12_000));
            piece.add(
                Stamp(stamp),
                &operation(ValueKind::Put, &key, &stamp.to_string()),
            );
            newest.insert(key, stamp);
        }
        let mut runs = piece.take(3);
        assert!(piece.is_empty());
        assert_eq!(runs.len(), 3);
        let mut found = BTreeMap::new();
        let mut before = None;
        for run in &mut runs {
            assert!(run.entries.len() > PART_MIN, "{}", run.entries.len());
            for (key, stamp, _, value) in sorted(run) {
                assert_eq!(value, stamp.to_string());
                let here = (key.clone(), std::cmp::Reverse(stamp));
                assert!(before < Some(here.clone()), "{before:?} {here:?}");
                before = Some(here);
                found.entry(key).or_insert(stamp);
            }
        }
        assert!(found == newest);
    }

    #[test]
    fn the_words_of_a_sort_begin_where_keys_differ() {
        let (db, _engine) = fresh();
        let words = |keys: &[&str]| {
            let mut piece = Piece::new(Arc::clone(&db.core));
            for (stamp, key) in (1..).zip(keys) {
                piece.add(Stamp(stamp), &operation(ValueKind::Put, key, "value"));
            }
            let mut run = piece.take(1).remove(0);
            let found: Vec<String> = sorted(&mut run).into_iter().map(|entry| entry.0).collect();
            let mut expected = keys.to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected);
            run.entries
                .iter()
                .map(|entry| entry.word)
                .collect::<Vec<_>>()
        };
        let word_of = |text: &str| word(text.as_bytes());
        let users = words(&["userkey:20", "userkey:1", "userkey:10", "userkey:"]);
        assert_eq!(users, ["", "1", "10", "20"].map(word_of));
        // One that is the beginning of all others, and keys that share nothing.
        let nested = words(&["abc", "ab", "abd"]);
        assert_eq!(nested, ["", "c", "d"].map(word_of));
        assert_eq!(words(&["b", "a", ""]), ["", "a", "b"].map(word_of));
        assert_eq!(words(&["only"]), [word_of("")]);
        // Words that tie: keys that differ behind them, or by zeros only.
        let long = words(&["k-12345678b", "k-0", "k-12345678a", "k-12345678"]);
        assert_eq!(long[0], word_of("0"));
        assert_eq!(long[1..], [word_of("12345678"); 3]);
        assert_eq!(words(&["a\0\0", "a", "a\0"]), [0; 3]);
    }

    #[test]
    fn one_key_makes_one_part() {
        let (db, _engine) = fresh();
        let mut piece = Piece::new(Arc::clone(&db.core));
        for stamp in 1..=2 * PART_MIN as u64 {
            piece.add(Stamp(stamp), &operation(ValueKind::External, "key", ""));
        }
        let mut runs = piece.take(2);
        assert_eq!(runs.len(), 1);
        runs[0].sort();
        assert_eq!(runs[0].entries.len(), 2 * PART_MIN);
    }

    #[test]
    fn few_keys_make_few_parts_wherever_their_borders_are_looked_for() {
        let (db, _engine) = fresh();
        // All versions count, and as many keys as there are looks between two of them.
        for keys in [1, 2, 3, 4 * PART_MIN / SAMPLE] {
            let mut piece = Piece::new(Arc::clone(&db.core));
            for stamp in 1..=4 * PART_MIN as u64 {
                let key = format!("{:03}", stamp % keys as u64);
                piece.add(Stamp(stamp), &operation(ValueKind::External, &key, ""));
            }
            let mut runs = piece.take(4);
            assert!((1..=keys).contains(&runs.len()), "{} of {keys}", runs.len());
            runs.iter_mut().for_each(Run::sort);
            let entries: usize = runs.iter().map(|run| run.entries.len()).sum();
            assert_eq!(entries, 4 * PART_MIN);
            let border = |run: &Run, at: usize| run.key(&run.entries[at]).to_vec();
            for pair in runs.windows(2) {
                let last = pair[0].entries.len() - 1;
                assert!(border(&pair[0], last) < border(&pair[1], 0), "P3");
            }
            if keys > 100 {
                assert_eq!(runs.len(), 4);
            }
        }
    }

    #[test]
    fn keys_that_differ_in_their_middles_only_take_few_places_too() {
        let (db, _engine) = fresh();
        let mut piece = Piece::new(Arc::clone(&db.core));
        for stamp in 1..=1000 {
            let key = format!("heartbeat:{}:timestamp", stamp % 4);
            piece.add(Stamp(stamp), &operation(ValueKind::Put, &key, "value"));
        }
        assert_eq!(piece.entries.len(), 4);
    }

    #[test]
    fn what_was_overwritten_soon_takes_no_place() {
        use ValueKind::{Delete, External, Put};
        let (db, _engine) = fresh();
        let mut piece = Piece::new(Arc::clone(&db.core));
        for (stamp, kind, value, takes_place) in [
            (1, Put, "first", true),
            (2, Put, "again", false),
            (3, Delete, "", false),
            // As long as the longest that fits, though the one before it was shorter.
            (4, Put, "fresh", false),
            // Longer than the place it would take.
            (5, Put, "longer", true),
            // Somebody must hear that the file is not needed any more.
            (6, External, "", true),
            (7, Put, "last", true),
            (8, Put, "end", false),
        ] {
            let bytes = piece.add(Stamp(stamp), &operation(kind, "key", value));
            assert_eq!(bytes > 0, takes_place, "{stamp}");
        }
        let entry = |stamp, kind, value: &str| ("key".to_owned(), stamp, kind, value.to_owned());
        let expected = [
            entry(8, Put, "end"),
            entry(6, External, ""),
            entry(5, Put, "longer"),
            entry(4, Put, "fresh"),
        ];
        assert_eq!(sorted(&mut piece.take(1)[0]), expected);
        // What a gathering remembers is gone with it.
        assert!(piece.add(Stamp(9), &operation(Put, "key", "new")) > 0);
        // An older one hides nothing.
        assert!(piece.add(Stamp(8), &operation(Put, "key", "old")) > 0);
    }

    #[test]
    fn keys_written_in_turn_take_few_places_whatever_their_number() {
        let (db, _engine) = fresh();
        for keys in [10u64, 5_000, 50_000] {
            let mut piece = Piece::new(Arc::clone(&db.core));
            for stamp in 0..6 * keys {
                let key = format!(
                    "{:016x}",
                    (stamp % keys).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                );
                piece.add(Stamp(stamp + 1), &operation(ValueKind::Put, &key, "value"));
            }
            let entries = piece.entries.len() as u64;
            // Some keys meet in a place and push each other out.
            assert!(entries < 3 * keys, "{entries} entries of {keys} keys");
        }
    }
}
