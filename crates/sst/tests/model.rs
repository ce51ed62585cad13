//! Tables against a sorted vector, for random keys, versions, options and orders.
//!
//! Every random choice comes from the seed named when an assertion fails.

#![allow(clippy::cast_possible_truncation, reason = "sizes in tests are small")]

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use velella_base::{Cursor, Order, Stamp, ValueKind};
use velella_sst::{BlockCache, Counters, Table, TableOptions, key_hash};
use velella_sync::rng::Rng;
use velella_vfs::{MemFs, Vfs};

const SEEDS: u64 = 120;

fn orders() -> [Order; 3] {
    [
        Order::Bytewise,
        Order::custom("reverse", |a, b| b.cmp(a)),
        Order::custom("case-folding", |a, b| {
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        }),
    ]
}

/// Keys of one table look alike: a common prefix, then a few letters, numbers or bytes.
fn key(rng: &mut Rng, prefix: &[u8], shape: u64) -> Vec<u8> {
    let mut key = prefix.to_vec();
    match shape {
        0 => key.extend((0..rng.below(4)).map(|_| b"aAbBc\0\xff"[rng.below(7) as usize])),
        1 => key.extend(format!("{:08}", rng.below(200)).bytes()),
        2 => key.extend((0..rng.below(30)).map(|_| rng.next_u64() as u8)),
        _ => {
            key.resize(key.len() + rng.below(300) as usize, b'x');
            key.push(rng.below(3) as u8);
        }
    }
    key
}

struct Case {
    entries: Vec<Owned>,
    /// Keys of the table and others like them.
    keys: Vec<Vec<u8>>,
    stamps: u64,
    options: TableOptions,
}

fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let shape = rng.below(4);
    let prefix = vec![b'p'; [0, 1, 7, 8, 9, 200][rng.below(6) as usize]];
    let options = TableOptions {
        block_bytes: [1, 60, 300, 4096, 1 << 20][rng.below(5) as usize],
        compression: COMPRESSIONS[rng.below(3) as usize],
        bloom_bits: [0, 3, 10][rng.below(3) as usize],
        order: orders()[(seed % 3) as usize].clone(),
    };
    let keys: Vec<_> = (0..1 + rng.below(150))
        .map(|_| key(&mut rng, &prefix, shape))
        .collect();
    let stamps = [1, 4, 40][rng.below(3) as usize];
    let mut entries = Vec::new();
    for _ in 0..rng.below(600) {
        // Few of the keys have most of the versions.
        let most = rng.below(keys.len() as u64) + 1;
        let kind = ValueKind::ALL[rng.below(6) as usize];
        entries.push(Owned {
            key: keys[rng.below(most) as usize].clone(),
            stamp: Stamp(1 + rng.below(stamps)),
            kind,
            value: payload(&mut rng, kind, 60),
        });
    }
    sort(&mut entries, &options.order);
    Case {
        entries,
        keys,
        stamps,
        options,
    }
}

#[test]
fn a_get_finds_the_newest_version_at_or_below_every_stamp() {
    for seed in 0..SEEDS {
        let case = case(seed);
        let (fs, order) = (MemFs::new(), &case.options.order);
        let meta = build(&fs, &case.entries, &case.options);
        assert_eq!(meta.entries(), case.entries.len() as u64);
        let table = open(&fs, order);
        assert_eq!(table.meta(), &meta, "seed {seed}");
        table.verify().unwrap();
        for key in &case.keys {
            let versions = case.entries.iter();
            let versions: Vec<_> = versions
                .filter(|entry| order.compare(&entry.key, key).is_eq())
                .collect();
            for at in (0..=case.stamps + 1).map(Stamp).chain([Stamp::MAX]) {
                let expected = versions.iter().find(|entry| entry.stamp <= at);
                let found = table.get(key, key_hash(key), at).unwrap();
                let found = found.as_ref().map(|f| (f.stamp, f.kind, &*f.value));
                let expected = expected.map(|e| (e.stamp, e.kind, &e.value[..]));
                assert_eq!(found, expected, "seed {seed}, key {key:?} at {at}");
            }
        }
    }
}

#[test]
fn forward_is_the_vector_and_the_reverse_of_backward() {
    for seed in 0..SEEDS {
        let case = case(seed);
        let fs = MemFs::new();
        build(&fs, &case.entries, &case.options);
        let table = open(&fs, &case.options.order);
        for fill_cache in [true, false] {
            assert_eq!(
                forward(&mut table.cursor(fill_cache)),
                case.entries,
                "seed {seed}"
            );
            let mut reversed = backward(&mut table.cursor(fill_cache));
            reversed.reverse();
            assert_eq!(reversed, case.entries, "seed {seed}");
        }
    }
}

#[test]
fn any_movement_of_a_cursor_agrees_with_an_index_into_the_vector() {
    for seed in 0..SEEDS {
        let case = case(seed);
        let (fs, order, entries) = (MemFs::new(), &case.options.order, &case.entries);
        build(&fs, entries, &case.options);
        let table = open(&fs, order);
        let mut rng = Rng::new(!seed);
        let mut cursor = table.cursor(seed % 2 == 0);
        assert!(cursor.entry().is_none(), "U2");
        // `None`: unpositioned.
        let mut place: Option<usize> = None;
        for step in 0..400 {
            let key = &case.keys[rng.below(case.keys.len() as u64) as usize];
            let stamp = [Stamp(rng.below(case.stamps + 2)), Stamp::MAX][rng.below(2) as usize];
            let below = |e: &Owned| order.compare(&e.key, key).then(stamp.cmp(&e.stamp)).is_lt();
            match (rng.below(14), place) {
                (0, _) => {
                    cursor.seek_first().unwrap();
                    place = Some(0);
                }
                (1, _) => {
                    cursor.seek_last().unwrap();
                    place = entries.len().checked_sub(1);
                }
                (2, _) => {
                    cursor.seek(key, stamp).unwrap();
                    place = Some(entries.partition_point(below));
                }
                (3, _) => {
                    cursor.seek_before(key).unwrap();
                    let at = entries.partition_point(|e| order.compare(&e.key, key).is_lt());
                    place = at.checked_sub(1);
                }
                (4..7, Some(at)) => {
                    cursor.next().unwrap();
                    place = Some(at + 1);
                }
                (7..9, Some(at)) => {
                    let from = &entries[at];
                    let down_to = Stamp(stamp.0.min(from.stamp.0 - 1));
                    let is_passed = |e: &velella_base::Entry<'_>| {
                        order.compare(e.key, &from.key).is_eq() && e.stamp > down_to
                    };
                    // Early only where the key is spelled differently (U7).
                    while cursor.entry().as_ref().is_some_and(is_passed) {
                        let is_there = cursor.pass_to(&from.key, down_to).unwrap();
                        assert_eq!(is_there, cursor.entry().is_some());
                    }
                    let versions = entries[at..].iter();
                    place = Some(at + versions.take_while(|e| is_passed(&e.entry())).count());
                }
                (_, Some(at)) => {
                    cursor.prev().unwrap();
                    place = at.checked_sub(1);
                }
                (_, None) => continue,
            }
            place = place.filter(|&at| at < entries.len());
            let expected = place.map(|at| entries[at].entry());
            assert_eq!(cursor.entry(), expected, "seed {seed}, step {step}");
            assert_eq!(cursor.key(), expected.map(|entry| entry.key));
        }
    }
}

#[test]
fn offsets_of_keys_ascend_from_the_first_block_to_the_end_of_the_data() {
    let fs = MemFs::new();
    let keys: Vec<_> = (0..2000u32).map(|n| n.to_be_bytes()).collect();
    let entries: Vec<_> = keys.iter().map(|key| put(key, 1, &[7; 50])).collect();
    let meta = build(&fs, &entries, &options(1000));
    let table = open(&fs, &Order::Bytewise);
    let offsets: Vec<_> = keys.iter().map(|key| table.offset_of(key)).collect();
    assert!(offsets.is_sorted());
    assert!(offsets[0] < offsets[1000] && offsets[1000] < offsets[1999]);
    assert!(table.offset_of(b"\xff") > offsets[1999]);
    assert!(table.offset_of(b"\xff") < meta.bytes);
    assert!(table.pinned_bytes() > 2000 * 10 / 8);
}

#[test]
fn many_threads_on_a_cache_too_small_for_the_table_read_what_is_there() {
    let case = (0..).map(case).find(|case| {
        case.entries.len() > 250 && case.options.block_bytes == 300 && case.options.bloom_bits > 0
    });
    let case = case.unwrap();
    let (fs, order) = (MemFs::new(), &case.options.order);
    build(&fs, &case.entries, &case.options);
    let table = try_open(&fs, order, 4000).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (table, entries) = (&table, &case.entries);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for _ in 0..20_000 {
                    let entry = &entries[rng.below(entries.len() as u64) as usize];
                    let found = table.get(&entry.key, key_hash(&entry.key), entry.stamp);
                    assert_eq!(&*found.unwrap().unwrap().value, &entry.value[..]);
                }
                assert_eq!(forward(&mut table.cursor(true)), *entries);
            });
        }
    });
}

#[test]
fn a_get_reads_one_block_at_most_and_none_that_is_cached() {
    let fs = MemFs::new();
    // Two hundred versions of each key: most keys span blocks.
    let versions = |n: u32| (1..=200).rev().map(move |stamp| (n, stamp));
    let entries: Vec<_> = (0..20)
        .flat_map(versions)
        .map(|(n, stamp)| put(&n.to_be_bytes(), stamp, &[1; 30]))
        .collect();
    build(&fs, &entries, &options(512));
    let counters = Arc::new(Counters::default());
    let table = Table::open(
        fs.open_read(Path::new(PATH)).unwrap(),
        CONTEXT,
        Order::Bytewise,
        BlockCache::new(10 << 20),
        Arc::clone(&counters),
    )
    .unwrap();
    let read = || counters.blocks_read.sum();
    for pass in 0..2 {
        for entry in &entries {
            let before = read();
            let found = table.get(&entry.key, key_hash(&entry.key), entry.stamp);
            assert_eq!(found.unwrap().unwrap().stamp, entry.stamp);
            assert!(read() - before <= 1 - pass, "pass {pass}");
        }
    }
    let before = read();
    assert!(
        table
            .get(b"absent", key_hash(b"absent"), Stamp::MAX)
            .unwrap()
            .is_none()
    );
    assert_eq!(read(), before);
}
