//! A data block: any bytes, and one built of entries.
//!
//! B1. Read forwards or backwards, a block whose restarts agree with it has the same entries.
//! B2. In a block in order, seeks and lookups find what a linear search finds.
//! B3. Built again of the entries read, it has the same entries.
//!
//! Threads: any. Tests: see `fuzz`.

use crate::block::Malformed;
use crate::block::builder::BlockBuilder;
use crate::block::cursor::BlockCursor;
use crate::block::view::{Layout, common_prefix};
use crate::filter::key_hash;
use std::sync::Arc;
use velella_base::{Entry, Order, Stamp, ValueKind};

/// Keys of damaged blocks can grow by sharing: no more than so many bytes are looked at.
const WALK_BYTES_MAX: usize = 1 << 20;

/// Entries of a block that are searched for: each costs eight searches, and more inputs find more
/// than more searches in one.
const SOUGHT: usize = 12;

/// An entry with its bytes: key, stamp, kind, value.
type Owned = (Vec<u8>, Stamp, ValueKind, Vec<u8>);

/// Any bytes as a block; if the first one is odd, as instructions to build one and damage it.
pub fn block(bytes: &[u8]) {
    let Some((&mode, rest)) = bytes.split_first() else {
        return;
    };
    if mode & 1 == 0 {
        check(rest);
        return;
    }
    // Stamps near each other, or so far apart that each takes more bytes.
    let (entries, damage) = entries(rest, [0, 16, 30, 46][usize::from(mode >> 2 & 3)]);
    if entries.is_empty() {
        return;
    }
    let mut built = build(&entries, mode & 2 == 0);
    let (found, consistent) = check(&built);
    assert_eq!(found.as_ref(), Some(&entries), "what was built is read");
    assert!(consistent, "what was built agrees with its restarts");
    for place in damage.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([place[0], place[1]])) % built.len();
        built[at] ^= place[2];
    }
    check(&built);
}

/// Entries in order, drawn from bytes, and the bytes left over; stamps are multiples of a power of
/// two.
fn entries(mut bytes: &[u8], power: u32) -> (Vec<Owned>, &[u8]) {
    let mut entries: Vec<Owned> = Vec::new();
    let wanted = bytes.first().copied().unwrap_or(0) % 64;
    bytes = bytes.get(1..).unwrap_or_default();
    for number in 0..u64::from(wanted) {
        let Some((&[shared, more, value, kind], rest)) = bytes.split_first_chunk::<4>() else {
            break;
        };
        let (more, value) = (usize::from(more % 24), usize::from(value));
        let Some((suffix, rest)) = rest.split_at_checked(more.min(rest.len())) else {
            break;
        };
        let before = entries.last().map_or(&[][..], |entry| &entry.0);
        let mut key = before[..before.len().min(usize::from(shared))].to_vec();
        key.extend_from_slice(suffix);
        let kind = ValueKind::ALL[usize::from(kind) % ValueKind::ALL.len()];
        entries.push((
            key,
            Stamp((1000 - number) << power),
            kind,
            vec![shared; value],
        ));
        bytes = rest;
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    (entries, bytes)
}

fn build(entries: &[Owned], tagged: bool) -> Vec<u8> {
    let mut builder = BlockBuilder::new(tagged);
    let mut last: &[u8] = &[];
    for (key, stamp, kind, value) in entries {
        let entry = Entry {
            key,
            stamp: *stamp,
            kind: *kind,
            value,
        };
        builder.add(
            entry,
            common_prefix(last, key),
            key_hash(key).to_le_bytes()[0],
        );
        last = key;
    }
    let mut out = Vec::new();
    builder.finish(&mut out);
    out
}

/// Reads a block in every way; its entries if all of it can be read, and whether its restarts
/// agree.
fn check(bytes: &[u8]) -> (Option<Vec<Owned>>, bool) {
    let block: Arc<[u8]> = bytes.into();
    let Ok(layout) = Layout::of(&block) else {
        return (None, false);
    };
    assert!(
        layout.entries <= bytes.len() * 16,
        "a restart for 16 entries fits"
    );
    let Ok(mut cursor) = BlockCursor::new(Arc::clone(&block)) else {
        return (None, false);
    };
    let (forward, consistent) = walk(&mut cursor, false);
    assert_eq!(walk(&mut cursor, true), (forward.clone(), consistent), "H1");
    let backward = backward(&mut cursor);
    let Ok(entries) = forward else {
        return (None, false);
    };
    if consistent && let Ok(mut backward) = backward {
        backward.reverse();
        assert_eq!(entries, backward, "B1");
    }
    let in_order = entries.windows(2).all(|two| {
        two[0]
            .0
            .cmp(&two[1].0)
            .then(two[1].1.cmp(&two[0].1))
            .is_lt()
    });
    if consistent && in_order {
        searches(&block, layout, &mut cursor, &entries);
        let again = build(&entries, layout.tagged);
        let again = BlockCursor::new(again.into()).map(|mut cursor| walk(&mut cursor, true));
        let again = again.expect("what was built has a layout");
        assert_eq!(again.0.as_ref(), Ok(&entries), "B3");
    }
    (Some(entries), consistent)
}

/// Its entries in order, found by hops as far as these get.
fn walk(cursor: &mut BlockCursor, hops: bool) -> (Result<Vec<Owned>, Malformed>, bool) {
    let (mut entries, mut consistent, mut bytes) = (Vec::new(), true, 0);
    let mut moved = cursor.seek_first();
    while let Some(entry) = cursor.entry() {
        bytes += entry.key.len() + entry.value.len();
        if bytes > WALK_BYTES_MAX {
            return (Err(Malformed::Shape("too much to look at")), false);
        }
        entries.push(owned(&entry));
        consistent &= cursor.agrees_with_restarts() == Ok(true);
        if hops && cursor.hop(Stamp(990)) {
            continue;
        }
        moved = cursor.next();
        if moved.is_err() {
            assert!(!cursor.is_positioned(), "W3");
        }
    }
    consistent &= moved.is_ok() && cursor.has_consumed_all();
    (moved.map(|()| entries), consistent)
}

fn backward(cursor: &mut BlockCursor) -> Result<Vec<Owned>, Malformed> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    cursor.seek_last()?;
    while let Some(entry) = cursor.entry() {
        bytes += entry.key.len() + entry.value.len();
        if bytes > WALK_BYTES_MAX {
            return Err(Malformed::Shape("too much to look at"));
        }
        entries.push(owned(&entry));
        cursor.prev()?;
    }
    Ok(entries)
}

/// B2.
fn searches(block: &Arc<[u8]>, layout: Layout, cursor: &mut BlockCursor, entries: &[Owned]) {
    let tags_hold = layout.tagged && tags_hold(&layout, block, entries);
    let mut probes: Vec<(Vec<u8>, Stamp)> = Vec::new();
    // Spread over the block; which ones, its length decides.
    let step = entries.len().div_ceil(SOUGHT).max(1);
    for (key, stamp, ..) in entries.iter().skip(block.len() % step).step_by(step) {
        probes.push((key.clone(), *stamp));
        probes.push((key.clone(), Stamp::MAX));
        probes.push(([&key[..], b"\0"].concat(), Stamp(7)));
        probes.push((key[..key.len() / 2].to_vec(), Stamp::ZERO));
    }
    for (key, at) in probes {
        let behind = |entry: &&Owned| entry.0.cmp(&key).then(at.cmp(&entry.1)).is_ge();
        let expected = entries.iter().find(behind);
        cursor
            .seek(&Order::Bytewise, &key, at, &mut 0)
            .expect("every entry was read before");
        assert_eq!(
            cursor.entry().map(|entry| owned(&entry)).as_ref(),
            expected,
            "B2: seek"
        );
        let before = entries.iter().rev().find(|entry| entry.0 < key);
        cursor
            .seek_before(&Order::Bytewise, &key, &mut 0)
            .expect("every entry was read before");
        assert_eq!(
            cursor.entry().map(|entry| owned(&entry)).as_ref(),
            before,
            "B2: before"
        );
        if tags_hold {
            let tag = key_hash(&key).to_le_bytes()[0];
            let hit = layout.find(block, &key, tag, at, &mut 0);
            let hit = hit.expect("every entry was read before");
            let expected = expected.filter(|entry| entry.0 == key);
            assert_eq!(
                hit.map(|hit| (hit.stamp, hit.kind, block[hit.value].to_vec())),
                expected.map(|entry| (entry.1, entry.2, entry.3.clone())),
                "B2: find"
            );
        }
    }
}

/// Whether each entry's tag is its key's.
fn tags_hold(layout: &Layout, block: &[u8], entries: &[Owned]) -> bool {
    let tags = layout.tags(block);
    let tag = |entry: &Owned| key_hash(&entry.0).to_le_bytes()[0];
    entries
        .iter()
        .zip(tags)
        .all(|(entry, found)| tag(entry) == *found)
}

fn owned(entry: &Entry<'_>) -> Owned {
    (
        entry.key.to_vec(),
        entry.stamp,
        entry.kind,
        entry.value.to_vec(),
    )
}
