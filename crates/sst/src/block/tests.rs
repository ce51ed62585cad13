//! Blocks on their own: tags, and bytes that are no block. Walks and searches are tested through
//! whole tables, in tests/model.rs.

#![allow(clippy::cast_possible_truncation, reason = "sizes in tests are small")]

use super::builder::BlockBuilder;
use super::cursor::BlockCursor;
use super::view::{Layout, common_prefix};
use super::{HEAD_BYTES, INTERVAL, Malformed, PLAIN_HEAD_BYTES};
use crate::filter::key_hash;
use std::sync::Arc;
use velella_base::codec::put_varint;
use velella_base::limits::KEY_BYTES_MAX;
use velella_base::{Entry, Order, Stamp, ValueKind};
use velella_sync::rng::Rng;

fn tag(key: &[u8]) -> u8 {
    key_hash(key).to_le_bytes()[0]
}

/// A block of `keys`, each with two versions, 9 and 5.
fn block(keys: &[Vec<u8>], value: &[u8]) -> Arc<[u8]> {
    let versions = keys.iter().flat_map(|key| {
        [9, 5].map(|stamp| Entry {
            key,
            stamp: Stamp(stamp),
            kind: ValueKind::Put,
            value,
        })
    });
    let versions: Vec<_> = versions.collect();
    built(&versions)
}

/// A block of `entries`, in order.
fn built(entries: &[Entry<'_>]) -> Arc<[u8]> {
    let mut builder = BlockBuilder::new(true);
    let mut last: &[u8] = &[];
    for entry in entries {
        builder.add(*entry, common_prefix(last, entry.key), tag(entry.key));
        last = entry.key;
    }
    let mut out = Vec::new();
    let raw_bytes = builder.raw_bytes();
    builder.finish(&mut out);
    assert_eq!(out.len(), raw_bytes);
    out.into()
}

/// The same as format version 1 has it: each entry with its own kind, length and whole stamp.
fn built_plainly(entries: &[Entry<'_>]) -> Arc<[u8]> {
    let (mut keys, mut values, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    let mut last: &[u8] = &[];
    for (ordinal, entry) in entries.iter().enumerate() {
        let mut shared = common_prefix(last, entry.key);
        if ordinal.is_multiple_of(INTERVAL) {
            restarts.extend((keys.len() as u32).to_le_bytes());
            restarts.extend((values.len() as u32).to_le_bytes());
            shared = 0;
        }
        let suffix = &entry.key[shared..];
        for number in [shared, suffix.len(), entry.value.len()] {
            put_varint(&mut keys, number as u64);
        }
        keys.extend((entry.stamp.0 << 8 | entry.kind as u64).to_le_bytes());
        keys.extend(suffix);
        values.extend(entry.value);
        last = entry.key;
    }
    let numbers = [entries.len(), keys.len()].map(|number| (number as u32).to_le_bytes());
    let tags = entries.iter().map(|entry| tag(entry.key)).collect();
    let head = [&numbers.concat()[..], &[1]].concat();
    [head, tags, restarts, keys, values].concat().into()
}

fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|n| format!("key{n:05}").into_bytes())
        .collect()
}

#[test]
fn a_get_compares_about_one_key() {
    let keys = keys(200);
    let block = block(&keys, b"value");
    let layout = Layout::of(&block).unwrap();
    let mut comparisons = 0;
    for key in &keys {
        for (at, expected) in [(4, None), (5, Some(5)), (8, Some(5)), (9, Some(9))] {
            let hit = layout.find(&block, key, tag(key), Stamp(at), &mut comparisons);
            assert_eq!(hit.unwrap().map(|hit| hit.stamp.0), expected);
        }
    }
    // 400 tags, each of which lies once in 256, half of them in front of the key.
    assert!(comparisons < 800 * 2, "{comparisons} for 800 gets");
    assert!(
        layout
            .find(&block, b"absent", tag(b"absent"), Stamp::MAX, &mut 0)
            .unwrap()
            .is_none()
    );
}

#[test]
fn common_prefixes_are_counted_across_words() {
    for len in 0..40 {
        for differs in 0..=len {
            let a = vec![1; len];
            let mut b = a.clone();
            b.iter_mut()
                .skip(differs)
                .take(1)
                .for_each(|byte| *byte = 2);
            assert_eq!(common_prefix(&a, &b), differs);
            b.truncate(differs);
            assert_eq!(common_prefix(&a, &b), differs);
        }
    }
}

/// Entries of few keys, some of which are the beginning of others, in the order of a block.
fn entries(rng: &mut Rng) -> Vec<(Vec<u8>, u64, ValueKind)> {
    let mut entries: Vec<_> = (0..1 + rng.below(60))
        .map(|_| {
            let common = rng.below(12) as usize;
            let mut key = b"prefix\0prefix"[..common].to_vec();
            key.extend((0..rng.below(4)).map(|_| b"\0a\xff"[rng.below(3) as usize]));
            let kind = match rng.below(8) {
                0 => ValueKind::Delete,
                1 => ValueKind::PutExpiring,
                _ => ValueKind::Put,
            };
            (key, 1 + rng.below(9), kind)
        })
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    entries
}

fn as_entries(entries: &[(Vec<u8>, u64, ValueKind)]) -> Vec<Entry<'_>> {
    let entry = |(key, stamp, kind): &'_ (Vec<u8>, u64, ValueKind)| (key.len() / 2, *stamp, *kind);
    let with = |of| {
        let (value, stamp, kind) = entry(of);
        Entry {
            key: &of.0,
            stamp: Stamp(stamp),
            kind,
            value: &of.0[..value],
        }
    };
    entries.iter().map(with).collect()
}

#[test]
fn a_hop_is_a_step_to_the_next_key_if_that_needs_no_judgement() {
    let mut hops = 0;
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let entries = entries(&mut rng);
        let block = match rng.below(2) {
            0 => built(&as_entries(&entries)),
            _ => built_plainly(&as_entries(&entries)),
        };
        let at = Stamp(rng.below(12));
        let limit = &entries[rng.below(60) as usize % entries.len()].0;
        let limit = (rng.below(2) == 0).then_some(&limit[..]);
        let is_below = |key: &[u8]| limit.is_none_or(|limit| key < limit);
        let mut cursor = BlockCursor::new(Arc::clone(&block)).unwrap();
        let mut plain = BlockCursor::new(block).unwrap();
        cursor.seek_first().unwrap();
        plain.seek_first().unwrap();
        cursor.limit(limit);
        for pair in entries.windows(2) {
            let (before, (key, stamp, kind)) = (&pair[0].0, &pair[1]);
            let is_plain = *kind == ValueKind::Put && *stamp <= at.0;
            let may = before != key && is_plain && is_below(key);
            let hopped = is_below(before) && cursor.hop(at);
            assert_eq!(hopped, may, "seed {seed}: from {before:?} to {key:?}");
            match hopped {
                true => hops += 1,
                false => {
                    assert_eq!(cursor.entry(), plain.entry(), "seed {seed}: it stays");
                    cursor.next().unwrap();
                    cursor.limit(limit);
                }
            }
            plain.next().unwrap();
            assert_eq!(cursor.entry(), plain.entry(), "seed {seed}");
        }
        cursor.limit(None);
        assert!(!cursor.hop(Stamp::MAX), "the last");
    }
    assert!(hops > 2_000, "{hops}");
}

/// Whatever the bytes: searching and walking both ways end, with entries or with an error; and each
/// item is what it is decoded slowly.
fn exercise(block: &Arc<[u8]>) {
    if let Ok(layout) = Layout::of(block) {
        let keys = layout.keys();
        let mut at = keys.start;
        while at < keys.end {
            let item = layout.item(block, at).ok();
            assert_eq!(item, layout.any_item(&block[at..keys.end]));
            let Some(item) = item else { break };
            at = item.end;
        }
        for tag in [0, tag(b"key00003")] {
            let _ = layout.find(block, b"key00003", tag, Stamp(6), &mut 0);
            let _ = layout.find(block, b"", tag, Stamp(6), &mut 0);
        }
    }
    let Ok(mut cursor) = BlockCursor::new(Arc::clone(block)) else {
        return;
    };
    // Steps where the other one hops.
    let mut twin = BlockCursor::new(Arc::clone(block)).expect("as before");
    let order = Order::Bytewise;
    for steps in 0..6 {
        let seek = |cursor: &mut BlockCursor| match steps {
            0 => cursor.seek_first(),
            1 => cursor.seek_last(),
            2 => cursor.seek(&order, b"key00003", Stamp(6), &mut 0),
            3 => cursor.seek_before(&order, b"key00020", &mut 0),
            4 => cursor.seek(&order, b"", Stamp::MAX, &mut 0),
            _ => cursor.seek_before(&order, b"z", &mut 0),
        };
        cursor.limit([None, Some(&b"key00015"[..])][steps / 2 % 2]);
        let mut moved = seek(&mut cursor);
        assert_eq!(seek(&mut twin), moved);
        for turn in 0..200 {
            assert_eq!(cursor.entry().is_some(), cursor.is_positioned());
            assert_eq!(cursor.entry(), twin.entry());
            if moved.is_err() || !cursor.is_positioned() {
                assert!(!cursor.is_positioned());
                break;
            }
            let _ = cursor.hit();
            let _ = cursor.agrees_with_restarts();
            moved = match steps % 2 {
                0 if turn % 2 == 0 && cursor.hop(Stamp(9)) => Ok(()),
                0 => cursor.next(),
                _ => cursor.prev(),
            };
            let as_well = match steps % 2 {
                0 => twin.next(),
                _ => twin.prev(),
            };
            assert_eq!(as_well, moved);
        }
    }
}

#[test]
fn no_change_of_a_block_makes_it_panic() {
    let sound = block(&keys(25), b"val");
    change(&sound);
    // No kind, length or stamp of theirs is common.
    let entries = entries(&mut Rng::new(3));
    change(&built(&as_entries(&entries)));
    change(&built_plainly(&as_entries(&entries)));
    // Stamps that take more bytes of an item: decoded at once, and, up to the largest, not.
    for bits in [8, 12, 20, 28, 40, 48, 56] {
        for base in [1, Stamp::MAX.0 - (64 << (bits - 7))] {
            let mut scattered = entries.clone();
            for (n, (_, stamp, _)) in scattered.iter_mut().enumerate() {
                *stamp = base + ((63 - n as u64) << (bits - 7));
            }
            change(&built(&as_entries(&scattered)));
            scattered
                .iter_mut()
                .for_each(|(_, _, kind)| *kind = ValueKind::Put);
            change(&built(&as_entries(&scattered)));
        }
    }
}

fn change(sound: &Arc<[u8]>) {
    exercise(sound);
    for len in 0..sound.len() {
        exercise(&sound[..len].into());
    }
    for at in 0..sound.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff, sound[at] ^ 1] {
            let mut bytes = sound.to_vec();
            bytes[at] = byte;
            exercise(&bytes.into());
        }
    }
    let mut rng = Rng::new(5);
    for _ in 0..20_000 {
        let mut bytes = sound.to_vec();
        for _ in 0..1 + rng.below(8) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        exercise(&bytes.into());
    }
}

#[test]
fn a_value_that_ends_near_the_end_of_all_numbers_is_cut() {
    let item = |value_bytes: u64, key: u8| {
        let mut item = vec![0, 1];
        put_varint(&mut item, value_bytes);
        item.extend_from_slice(&(1u64 << 8 | 1).to_le_bytes());
        item.push(key);
        item
    };
    for short_of in 0..1_000 {
        let keys = [item(u64::MAX - short_of, b'a'), item(0, b'b')].concat();
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&2u32.to_le_bytes());
        bytes.extend_from_slice(&(keys.len() as u32).to_le_bytes());
        // No tags; one restart, at the beginnings.
        bytes.extend_from_slice(&[0; 9]);
        bytes.extend_from_slice(&keys);
        let mut cursor = BlockCursor::new(bytes.into()).unwrap();
        let sought = cursor.seek(&Order::Bytewise, b"b", Stamp::MAX, &mut 0);
        assert!(sought.is_err(), "{short_of}");
    }
}

#[test]
fn an_unknown_kind_is_refused_by_its_number() {
    let keys = keys(2);
    let of_kinds = |kinds: [ValueKind; 2]| {
        let entries = [
            (keys[0].clone(), 1, kinds[0]),
            (keys[1].clone(), 1, kinds[1]),
        ];
        built(&as_entries(&entries)).to_vec()
    };
    let mut common = of_kinds([ValueKind::Put; 2]);
    common[PLAIN_HEAD_BYTES] = 77;
    // Head, two tags, one restart, shared and unshared.
    let mut own = of_kinds([ValueKind::Put, ValueKind::Delete]);
    own[HEAD_BYTES + 2 + 8 + 2] = 77;
    for bytes in [common, own] {
        let mut cursor = BlockCursor::new(bytes.into()).unwrap();
        assert_eq!(cursor.seek_first(), Err(Malformed::Kind(77)));
        assert_eq!(cursor.seek_last(), Err(Malformed::Kind(77)));
        assert!(cursor.entry().is_none());
    }
}

#[test]
fn what_entries_have_in_common_is_written_once() {
    let keys = keys(20);
    let bytes_of = |stamps: &[u64], kinds: &[ValueKind], lengths: &[usize]| {
        let entries: Vec<_> = (keys.iter().enumerate())
            .map(|(n, key)| Entry {
                key,
                stamp: Stamp(stamps[n % stamps.len()]),
                kind: kinds[n % kinds.len()],
                value: &[7; 300][..lengths[n % lengths.len()]],
            })
            .collect();
        for block in [built(&entries), built_plainly(&entries)] {
            let mut cursor = BlockCursor::new(block).unwrap();
            cursor.seek_first().unwrap();
            for entry in &entries {
                assert_eq!(cursor.entry(), Some(*entry));
                cursor.next().unwrap();
            }
        }
        let values: usize = entries.iter().map(|entry| entry.value.len()).sum();
        built(&entries).len() - values
    };
    let put = [ValueKind::Put];
    let least = bytes_of(&[9], &put, &[5]);
    let most = Stamp::MAX.0;
    for (stamps, bytes) in [
        ([most, most], 0),
        ([most - 255, most], 1),
        ([most - 256, most], 2),
        ([1, 1 << 24], 3),
        ([0, 1 << 24], 4),
        ([0, most], 7),
    ] {
        assert_eq!(
            bytes_of(&stamps, &put, &[5]) - least,
            20 * bytes,
            "{stamps:?}"
        );
    }
    let kinds = [ValueKind::Put, ValueKind::Delete];
    assert_eq!(bytes_of(&[9], &kinds, &[5]) - least, 20);
    assert_eq!(bytes_of(&[9], &put, &[5, 6]) - least, 20);
    assert_eq!(bytes_of(&[9], &put, &[127, 128]) - least, 30);
    assert_eq!(
        bytes_of(&[1, 1 << 24], &kinds, &[0, 200]) - least,
        20 * 4 + 30
    );
}

#[test]
fn a_stamp_above_all_stamps_is_malformed() {
    let entries = [Entry {
        key: b"k",
        stamp: Stamp::MAX,
        kind: ValueKind::Put,
        // Behind the item is more than what is read at once.
        value: b"a value of some bytes",
    }];
    let mut bytes = built(&entries).to_vec();
    // Then one byte of stamp, and no suffix.
    bytes[PLAIN_HEAD_BYTES + 1] = 1;
    let mut cursor = BlockCursor::new(bytes.clone().into()).unwrap();
    assert!(matches!(cursor.seek_first(), Err(Malformed::Shape(_))));
    // More bytes of stamp than there are, flags that are unknown or do not go together, a base
    // above all stamps.
    for (at, wrong) in [
        (PLAIN_HEAD_BYTES + 1, &[8][..]),
        (PLAIN_HEAD_BYTES - 1, &[9]),
        (PLAIN_HEAD_BYTES - 1, &[5]),
        (PLAIN_HEAD_BYTES + 2, &[0xff; 8]),
    ] {
        let mut bytes = bytes.clone();
        bytes[at..at + wrong.len()].copy_from_slice(wrong);
        assert!(BlockCursor::new(bytes.into()).is_err(), "{wrong:?} at {at}");
    }
}

#[test]
fn a_key_beyond_the_limit_is_malformed_where_an_interval_is_put_together() {
    for (len, is_sound) in [(KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)] {
        let key = vec![b'k'; len];
        let entry = Entry {
            key: &key,
            stamp: Stamp(1),
            kind: ValueKind::Put,
            value: b"",
        };
        let mut cursor = BlockCursor::new(built(&[entry])).unwrap();
        assert_eq!(cursor.seek_last().is_ok(), is_sound, "{len}");
    }
}
