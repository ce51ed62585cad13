//! Tables at the edges: of intervals, blocks, index groups and sizes, with keys that look alike.
//!
//! Each shape is a way to make sorted entries; each is built with every compression, with block
//! targets from one byte to more than the table, and compared with the vector it was made from:
//! gets at every stamp of every key and of its neighbours, walks both ways, seeks both ways.

#![allow(clippy::cast_possible_truncation, reason = "sizes in tests are small")]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::*;
use std::path::Path;
use velella_base::{Cursor, Order, Stamp, ValueKind};
use velella_sst::{Compression, Table, TableOptions, key_hash};
use velella_vfs::{MemFs, Vfs};

/// A way to make entries, in order.
type Shape = fn() -> Vec<Owned>;

fn numbered(count: u32, value: &[u8]) -> Vec<Owned> {
    (0..count)
        .map(|n| put(&n.to_be_bytes(), 1, value))
        .collect()
}

const SHAPES: [(&str, Shape); 14] = [
    ("one entry without key and value", || vec![put(b"", 1, b"")]),
    ("one byte each", || {
        (0..=255).map(|n| put(&[n], 1, &[n])).collect()
    }),
    ("no values", || numbered(100, b"")),
    ("keys that begin with the one before", || {
        (0..120).map(|len| put(&vec![b'a'; len], 1, b"v")).collect()
    }),
    ("keys that differ in the last byte only", || {
        let key = |last: u8| [&[b'k'; 250][..], &[last]].concat();
        (0..=255)
            .step_by(3)
            .map(|last| put(&key(last), 1, &[last]))
            .collect()
    }),
    ("keys of noughts", || {
        (0..40).map(|len| put(&vec![0; len], 1, b"0")).collect()
    }),
    ("keys of the highest byte", || {
        (1..40).map(|len| put(&vec![0xff; len], 1, b"f")).collect()
    }),
    ("eight bytes, then more", || {
        let tail = |n: u8| [&b"12345678"[..], &[n / 16, n % 16][..usize::from(n.min(2))]].concat();
        let mut keys: Vec<_> = (0..200).map(tail).collect();
        keys.sort();
        keys.dedup();
        keys.iter().map(|key| put(key, 1, b"tied")).collect()
    }),
    ("one key, many versions", || {
        (1..=100)
            .rev()
            .map(|stamp| put(b"the key", stamp, &[7; 20]))
            .collect()
    }),
    ("versions that end where intervals do", || {
        let versions = |n: u32| (1..=16).rev().map(move |s| put(&n.to_be_bytes(), s, b"v"));
        (0..8).flat_map(versions).collect()
    }),
    ("the first and the last stamp", || {
        vec![
            put(b"a", Stamp::MAX.0, b"last"),
            put(b"a", 1, b"first"),
            put(b"b", Stamp::MAX.0, b"only"),
        ]
    }),
    ("values around one byte of length", || {
        let lens = [0, 1, 126, 127, 128, 129, 16_383, 16_384, 16_385];
        let keyed = |(n, len): (usize, &usize)| put(&[n as u8], 1, &vec![n as u8; *len]);
        lens.iter().enumerate().map(keyed).collect()
    }),
    ("keys around one byte of length", || {
        let lens = [1, 126, 127, 128, 129, 4_000, 65_535, 65_536];
        lens.iter()
            .map(|len| put(&vec![b'k'; *len], 1, b"v"))
            .collect()
    }),
    ("every kind", || {
        let mut rng = velella_sync::rng::Rng::new(4);
        let mut of = |(n, kind): (usize, ValueKind)| Owned {
            value: payload(&mut rng, kind, 9),
            kind,
            ..put(&[n as u8], 3, b"")
        };
        ValueKind::ALL
            .into_iter()
            .enumerate()
            .map(&mut of)
            .collect()
    }),
];

/// Compares a table with the entries that it was made from.
fn check(table: &std::sync::Arc<Table>, entries: &[Owned], what: &str) {
    table
        .verify()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut keys: Vec<Vec<u8>> = entries.iter().map(|entry| entry.key.clone()).collect();
    keys.dedup();
    // Each key, what comes right behind it, and what is shorter by a byte.
    let beside = |key: &Vec<u8>| {
        let shorter = &key[..key.len().saturating_sub(1)];
        [key.clone(), [&key[..], &[0]].concat(), shorter.to_vec()]
    };
    let probes: Vec<_> = keys.iter().flat_map(beside).collect();
    for fill_cache in [true, false] {
        let mut cursor = table.cursor(fill_cache);
        assert!(forward(&mut cursor) == entries, "{what}: forward");
        let mut back = backward(&mut cursor);
        back.reverse();
        assert!(back == entries, "{what}: backward");
        for probe in &probes {
            let of_key: Vec<_> = entries.iter().filter(|entry| entry.key == *probe).collect();
            let stamps = of_key.iter().map(|entry| entry.stamp.0);
            for at in stamps
                .flat_map(|at| [at - 1, at])
                .chain([Stamp::MAX.0])
                .map(Stamp)
            {
                let expected = of_key.iter().find(|entry| entry.stamp <= at);
                let found = table.get(probe, key_hash(probe), at).unwrap();
                let found = found.map(|found| (found.stamp, found.kind, found.value.to_vec()));
                let expected = expected.map(|e| (e.stamp, e.kind, e.value.clone()));
                assert!(found == expected, "{what}: get {probe:?} at {at}");
                let place =
                    entries.partition_point(|e| e.key.cmp(probe).then(at.cmp(&e.stamp)).is_lt());
                cursor.seek(probe, at).unwrap();
                let expected = entries.get(place).map(Owned::entry);
                assert!(cursor.entry() == expected, "{what}: seek {probe:?} at {at}");
            }
            let before = entries
                .partition_point(|entry| entry.key < *probe)
                .checked_sub(1);
            cursor.seek_before(probe).unwrap();
            let expected = before.map(|at| entries[at].entry());
            assert!(cursor.entry() == expected, "{what}: before {probe:?}");
        }
    }
}

#[test]
fn every_shape_is_read_as_it_was_written_whatever_the_blocks() {
    for (name, shape) in SHAPES {
        let entries = shape();
        for block_bytes in [1, 100, 1_000, 1 << 20] {
            // One compression for each size of block, every one for some.
            let compressions = match block_bytes {
                1_000 => &COMPRESSIONS[..],
                _ => &COMPRESSIONS[1..2],
            };
            for &compression in compressions {
                let fs = MemFs::new();
                let options = TableOptions {
                    compression,
                    ..options(block_bytes)
                };
                let meta = build(&fs, &entries, &options);
                assert_eq!(meta.smallest, entries[0].key);
                assert_eq!(meta.largest, entries[entries.len() - 1].key);
                let table = open(&fs, &Order::Bytewise);
                check(
                    &table,
                    &entries,
                    &format!("{name}, {block_bytes}, {compression:?}"),
                );
            }
        }
    }
}

#[test]
fn tables_of_any_number_of_entries_and_blocks_are_whole() {
    // Around an interval of 16, and with one entry a block around a group of 32 of the index.
    for count in [
        1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 97, 129,
    ] {
        for block_bytes in [1, 1 << 20] {
            let (fs, entries) = (MemFs::new(), numbered(count, b"value"));
            build(&fs, &entries, &options(block_bytes));
            check(
                &open(&fs, &Order::Bytewise),
                &entries,
                &format!("{count}, {block_bytes}"),
            );
        }
    }
}

#[test]
fn a_block_closes_with_the_entry_that_reaches_its_target() {
    let entries = numbered(64, &[1; 50]);
    let blocks = |block_bytes| {
        let fs = MemFs::new();
        let options = TableOptions {
            compression: Compression::None,
            ..options(block_bytes)
        };
        build(&fs, &entries, &options);
        let mut out = Vec::new();
        let file = fs.open_read(Path::new(PATH)).unwrap();
        velella_sst::inspect(file, velella_sst::Detail::Blocks, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.lines()
            .filter(|line| line.starts_with("  block "))
            .count()
    };
    // T2: a block has its entries until it is full, so a larger target never makes more blocks.
    let counts: Vec<_> = (1..=5_000).step_by(37).map(blocks).collect();
    assert_eq!((counts[0], blocks(1 << 24)), (64, 1));
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    // The same bytes again (T4).
    let bytes = || {
        let fs = MemFs::new();
        build(&fs, &entries, &options(300));
        fs.read_file(Path::new(PATH)).unwrap()
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn a_value_is_pinned_in_its_block_and_shared_in_part() {
    let fs = MemFs::new();
    let entries = [put(b"a", 2, b"0123456789"), put(b"b", 1, b"")];
    build(&fs, &entries, &options(4096));
    let table = open(&fs, &Order::Bytewise);
    let value = |key: &[u8]| {
        table
            .get(key, key_hash(key), Stamp::MAX)
            .unwrap()
            .unwrap()
            .value
    };
    let (whole, empty) = (value(b"a"), value(b"b"));
    drop(table);
    // G1: the block outlives its table and its cache.
    assert_eq!((&*whole, &*empty), (&b"0123456789"[..], &b""[..]));
    for bytes in 0..=10 {
        assert_eq!(&*whole.skip(bytes).unwrap(), &b"0123456789"[bytes..]);
    }
    let rest = whole.skip(8).unwrap();
    assert_eq!(
        &*rest.skip(1).unwrap(),
        b"9",
        "of the part, not of the whole"
    );
    assert!(rest.skip(3).is_none() && whole.skip(11).is_none() && empty.skip(1).is_none());
    assert!(whole.skip(usize::MAX).is_none());
    assert_eq!(&*empty.skip(0).unwrap(), b"");
    let said = format!("{rest:?}");
    assert!(said.starts_with("BlockSlice(2 of "), "{said}");
}
