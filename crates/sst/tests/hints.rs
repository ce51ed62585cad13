//! Hints change no result: aiming, approaching, going over to another table, being told that an
//! entry is the newest, lending a stretch of a block.
//!
//! Claims: U5, U6 of a cursor; `cursor.rs` Y2, Y3; `cursor/stretch.rs` L1, L2. Every random choice
//! comes from the seed named when one fails.

#![allow(clippy::cast_possible_truncation, reason = "sizes in tests are small")]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::*;
use std::sync::Arc;
use velella_base::{Cursor, Order, Stamp};
use velella_sst::{Compression, Table, TableOptions};
use velella_sync::rng::Rng;
use velella_vfs::MemFs;

fn orders() -> [Order; 3] {
    let fold = |key: &[u8]| key.to_ascii_lowercase();
    [
        Order::Bytewise,
        Order::custom("reverse", |a, b| b.cmp(a)),
        Order::custom("fold-case", move |a, b| fold(a).cmp(&fold(b))),
    ]
}

/// A table of few letters, and what it was made from.
struct Made {
    table: Arc<Table>,
    entries: Vec<Owned>,
}

fn key(rng: &mut Rng) -> Vec<u8> {
    (0..rng.below(5))
        .map(|_| b"abAB\0\xff"[rng.below(6) as usize])
        .collect()
}

fn made(rng: &mut Rng, order: &Order) -> Made {
    let mut entries: Vec<_> = (0..1 + rng.below(250))
        .map(|_| put(&key(rng), 1 + rng.below(6), &[3; 12]))
        .collect();
    sort(&mut entries, order);
    let options = TableOptions {
        block_bytes: [1, 80, 400, 1 << 20][rng.below(4) as usize],
        compression: Compression::None,
        order: order.clone(),
        ..TableOptions::default()
    };
    let fs = MemFs::new();
    build(&fs, &entries, &options);
    Made {
        table: open(&fs, order),
        entries,
    }
}

#[test]
fn a_seek_finds_the_same_whatever_it_was_aimed_at() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let order = &orders()[seed as usize % 3];
        let Made { table, entries } = made(&mut rng, order);
        let mut cursor = table.cursor(seed % 4 != 0);
        for _ in 0..150 {
            let (target, stamp) = (key(&mut rng), Stamp(rng.below(8)));
            // At this very place, at another, or nowhere; with and without its memory.
            match rng.below(4) {
                0 => {}
                1 => cursor.aim(&key(&mut rng), Stamp::MAX),
                _ => cursor.aim(&target, stamp),
            }
            if rng.below(2) == 0 {
                cursor.approach();
            }
            let at = entries.partition_point(|entry| {
                order
                    .compare(&entry.key, &target)
                    .then(stamp.cmp(&entry.stamp))
                    .is_lt()
            });
            cursor.seek(&target, stamp).unwrap();
            let expected = entries.get(at).map(Owned::entry);
            assert_eq!(
                cursor.entry(),
                expected,
                "seed {seed}: {target:?} at {stamp}"
            );
        }
        cursor.aim(b"a", Stamp::MAX);
        assert!(cursor.entry().is_none(), "U5: a hint unpositions");
        assert!(!cursor.is_positioned());
        cursor.seek_first().unwrap();
        assert_eq!(
            cursor.entry(),
            entries.first().map(Owned::entry),
            "seed {seed}"
        );
    }
}

#[test]
fn whatever_is_called_newest_has_nothing_newer() {
    let mut said = 0;
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let order = &orders()[seed as usize % 3];
        let Made { table, entries } = made(&mut rng, order);
        let mut cursor = table.cursor(true);
        cursor.seek_last().unwrap();
        let mut place = entries.len() - 1;
        for step in 0..400 {
            let here = &entries[place];
            assert_eq!(
                cursor.entry(),
                Some(here.entry()),
                "seed {seed}, step {step}"
            );
            if cursor.is_newest() {
                let is_newer = |other: &Owned| {
                    order.compare(&other.key, &here.key).is_eq() && other.stamp > here.stamp
                };
                assert!(!entries.iter().any(is_newer), "U6, seed {seed}: {here:?}");
                said += 1;
            }
            // Mostly back, as those who ask go.
            match rng.below(8) {
                0..6 if place > 0 => {
                    cursor.prev().unwrap();
                    place -= 1;
                }
                6 if place + 1 < entries.len() => {
                    cursor.next().unwrap();
                    place += 1;
                }
                _ => {
                    place = rng.below(entries.len() as u64) as usize;
                    cursor
                        .seek(&entries[place].key, entries[place].stamp)
                        .unwrap();
                }
            }
        }
    }
    assert!(said > 5_000, "a hint that is never given is none: {said}");
}

#[test]
fn a_cursor_that_goes_over_to_another_table_is_a_new_one() {
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let order = Order::Bytewise;
        let tables: Vec<_> = (0..3).map(|_| made(&mut rng, &order)).collect();
        let mut cursor = tables[0].table.cursor(seed % 2 == 0);
        for step in 0..60 {
            let Made { table, entries } = &tables[rng.below(3) as usize];
            // From wherever it stands, also from an aim.
            match rng.below(4) {
                0 => cursor.seek_last().unwrap(),
                1 => cursor.seek(&key(&mut rng), Stamp::MAX).unwrap(),
                2 => cursor.aim(&key(&mut rng), Stamp::MAX),
                _ => {}
            }
            let other = &tables[rng.below(3) as usize].table;
            if !Arc::ptr_eq(other, table) {
                cursor.move_to(other);
            }
            cursor.move_to(table);
            let target = key(&mut rng);
            let at = entries.partition_point(|entry| entry.key < target);
            if rng.below(2) == 0 {
                cursor.seek(&target, Stamp::MAX).unwrap();
                let expected: Vec<_> = entries[at..].iter().take(30).cloned().collect();
                let mut seen = Vec::new();
                while let Some(entry) = cursor.entry().filter(|_| seen.len() < 30) {
                    seen.push(Owned::of(entry));
                    cursor.next().unwrap();
                }
                assert_eq!(seen, expected, "seed {seed}, step {step}");
            } else {
                cursor.seek_before(&target).unwrap();
                let expected = at.checked_sub(1).map(|at| entries[at].entry());
                assert_eq!(cursor.entry(), expected, "seed {seed}, step {step}");
            }
        }
        // To the table it is on: nothing happens, not even to its position.
        let here = Arc::clone(&tables[0].table);
        cursor.move_to(&here);
        cursor.seek_first().unwrap();
        cursor.move_to(&here);
        assert_eq!(cursor.entry(), Some(tables[0].entries[0].entry()));
    }
}

#[test]
fn a_walk_past_the_cache_reads_the_file_in_few_pieces() {
    let fs = MemFs::new();
    let entries: Vec<_> = (0..6_000u32)
        .map(|n| put(&n.to_be_bytes(), 1, &[5; 100]))
        .collect();
    let options = TableOptions {
        compression: Compression::None,
        ..options(4096)
    };
    let meta = build(&fs, &entries, &options);
    let faults = velella_vfs::FaultFs::over_mem(&fs);
    let file = velella_vfs::Vfs::open_read(&faults, std::path::Path::new(PATH)).unwrap();
    let cache = velella_sst::BlockCache::new(1 << 20);
    let table = Table::open(file, CONTEXT, Order::Bytewise, cache, Arc::default()).unwrap();
    for back in [false, true] {
        faults.reset();
        let mut cursor = table.cursor(false);
        let seen = if back {
            backward(&mut cursor)
        } else {
            forward(&mut cursor)
        };
        assert_eq!(seen.len(), entries.len());
        // Y2: 16 KiB, then twice as much each time up to 256 KiB.
        let (calls, least) = (faults.calls(), meta.bytes / (256 << 10));
        assert!(
            (least..least + 8).contains(&calls),
            "{calls} reads of {} bytes",
            meta.bytes
        );
    }
}

#[test]
fn a_walk_goes_on_where_the_stretch_it_lent_ended() {
    let mut hops = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let order = &orders()[usize::from(seed % 10 == 0)];
        let Made { table, entries } = made(&mut rng, order);
        let mut cursor = table.cursor(seed % 4 != 0);
        let at = Stamp(3 + rng.below(5));
        let mut here = entries.len();
        for _ in 0..150 {
            match rng.below(8) {
                0 => {
                    here = rng.below(entries.len() as u64) as usize;
                    let Owned { key, stamp, .. } = &entries[here];
                    cursor.seek(key, *stamp).unwrap();
                    // Of equal entries it finds the first.
                    here = entries.iter().position(|e| e == &entries[here]).unwrap();
                }
                1 if here < entries.len() => {
                    cursor.prev().unwrap();
                    here = here.checked_sub(1).unwrap_or(entries.len());
                }
                2 if here < entries.len() => {
                    cursor.next().unwrap();
                    here += 1;
                }
                _ => {
                    let Some(mut stretch) = cursor.lend(None) else {
                        continue;
                    };
                    assert!(order.is_bytewise(), "seed {seed}");
                    assert!(cursor.entry().is_none(), "seed {seed}: L1");
                    for _ in 0..rng.below(6) {
                        let hopped = stretch.hop(at);
                        hops += u32::from(hopped);
                        here += usize::from(hopped);
                        assert_eq!(stretch.key(), entries[here].key, "seed {seed}");
                        assert_eq!(stretch.value(), entries[here].value, "seed {seed}");
                    }
                    cursor.take_back(stretch);
                }
            }
            let expected = entries.get(here).map(|e| (&e.key[..], e.stamp));
            let entry = cursor.entry().map(|e| (e.key, e.stamp));
            assert_eq!(entry, expected, "seed {seed}");
        }
    }
    assert!(hops > 2_000, "{hops}");
}
