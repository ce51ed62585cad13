//! Files that fail while a table is written, opened, searched or walked: the error says so, nothing
//! is remembered of the failure, and the next try is right.
//!
//! Claims: `builder.rs` T3; U4 of a cursor.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use velella_base::{Cursor, Error, ErrorKind, Order, Result, Stamp};
use velella_sst::{BlockCache, Compression, Counters, Table, TableBuilder, TableOptions, key_hash};
use velella_sync::rng::Rng;
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

const KEYS: u32 = 300;

fn entries() -> Vec<Owned> {
    let versions = |n: u32| [2, 1].map(|stamp| put(&n.to_be_bytes(), stamp, &[7; 90]));
    (0..KEYS).flat_map(versions).collect()
}

/// Blocks of four entries, as long on disk as they are.
fn small_blocks() -> TableOptions {
    TableOptions {
        compression: Compression::None,
        ..options(400)
    }
}

fn try_open_on(faults: &FaultFs, cache_bytes: u64) -> Result<Arc<Table>> {
    try_open_counting(faults, cache_bytes, Arc::default())
}

fn try_open_counting(
    faults: &FaultFs,
    cache_bytes: u64,
    counters: Arc<Counters>,
) -> Result<Arc<Table>> {
    Table::open(
        faults.open_read(Path::new(PATH))?,
        CONTEXT,
        Order::Bytewise,
        BlockCache::new(cache_bytes),
        counters,
    )
}

/// A table of many blocks, over which reads can be made to fail.
fn table(cache_bytes: u64) -> (FaultFs, Arc<Table>) {
    let fs = MemFs::new();
    build(&fs, &entries(), &small_blocks());
    let faults = FaultFs::over_mem(&fs);
    let table = try_open_on(&faults, cache_bytes).unwrap();
    faults.reset();
    (faults, table)
}

/// What a read may come back with, and what it is then called.
const FAULTS: [(Fault, ErrorKind); 4] = [
    (Fault::Io, ErrorKind::Io),
    (Fault::Interrupted, ErrorKind::Io),
    (Fault::Short, ErrorKind::Corruption),
    (Fault::Flip, ErrorKind::Corruption),
];

fn assert_named(error: &Error, kind: ErrorKind, what: &str) {
    assert_eq!(error.kind(), kind, "{what}: {error}");
    assert_eq!(error.file(), Some(Path::new(PATH)), "{what}: {error}");
    assert!(error.offset().is_some(), "{what}: {error}");
}

#[test]
fn a_get_that_failed_is_right_the_next_time() {
    for (fault, kind) in FAULTS {
        let (faults, table) = table(0);
        for n in 0..KEYS {
            let key = n.to_be_bytes();
            let get = |stamp| table.get(&key, key_hash(&key), Stamp(stamp));
            faults.inject(Rule::every(fault).of(Operation::Read).times(1));
            assert_named(&get(2).unwrap_err(), kind, &format!("{fault:?}, key {n}"));
            for stamp in [1, 2] {
                assert_eq!(
                    get(stamp).unwrap().unwrap().stamp,
                    Stamp(stamp),
                    "{fault:?}"
                );
            }
        }
        assert_eq!(faults.fired(), u64::from(KEYS), "{fault:?}");
    }
}

#[test]
fn a_get_that_failed_is_counted_as_one_that_did_not() {
    let (faults, _) = table(0);
    let counters = Arc::new(Counters::default());
    let table = try_open_counting(&faults, 0, Arc::clone(&counters)).unwrap();
    let key = 7u32.to_be_bytes();
    let get = || table.get(&key, key_hash(&key), Stamp(2));
    for (probes, fails) in [(1, true), (2, false), (3, true)] {
        if fails {
            faults.inject(Rule::every(Fault::Io).of(Operation::Read).times(1));
        }
        assert_eq!(get().is_err(), fails);
        assert_eq!(counters.filter_probes.sum(), probes);
    }
    assert_eq!(counters.filter_negatives.sum(), 0);
}

/// A movement, and where it ends in the vector of all entries.
type Movement = (fn(&mut dyn Cursor) -> Result<()>, usize);

const MOVEMENTS: [Movement; 4] = [
    (|cursor| cursor.seek_first(), 0),
    (|cursor| cursor.seek_last(), 2 * KEYS as usize - 1),
    (|cursor| cursor.seek(&150u32.to_be_bytes(), Stamp(1)), 301),
    (|cursor| cursor.seek_before(&150u32.to_be_bytes()), 299),
];

#[test]
fn a_movement_that_failed_leaves_no_position_and_is_right_the_next_time() {
    let entries = entries();
    for fill_cache in [true, false] {
        for (fault, kind) in FAULTS {
            // A bit that is flipped in what was read ahead need not be of the block wanted now.
            if fault == Fault::Flip && !fill_cache {
                continue;
            }
            for (number, (movement, place)) in MOVEMENTS.into_iter().enumerate() {
                let (faults, table) = table(0);
                let what = format!("{fault:?}, movement {number}, through the cache: {fill_cache}");
                // Once from nowhere, once from an entry far away.
                for from in [None, Some(200u32)] {
                    let mut cursor = table.cursor(fill_cache);
                    if let Some(from) = from {
                        cursor.seek(&from.to_be_bytes(), Stamp::MAX).unwrap();
                    }
                    faults.inject(Rule::every(fault).of(Operation::Read).times(1));
                    assert_named(&movement(&mut cursor).unwrap_err(), kind, &what);
                    assert!(cursor.entry().is_none(), "U4: {what}");
                    movement(&mut cursor).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(cursor.entry(), Some(entries[place].entry()), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_walk_goes_on_where_a_seek_after_the_failure_puts_it() {
    let entries = entries();
    for fill_cache in [true, false] {
        for (fault, _) in FAULTS {
            // Stepping forward or back, or forward from version to version as merges do.
            for (forward, passes) in [(true, false), (false, false), (true, true)] {
                let (faults, table) = table(0);
                faults.inject(Rule::every(fault).of(Operation::Read).from_nth(2));
                let mut cursor = table.cursor(fill_cache);
                let mut seen = Vec::new();
                let mut failures = 0;
                let mut moved = match forward {
                    true => cursor.seek_first(),
                    false => cursor.seek_last(),
                };
                loop {
                    if moved.is_err() {
                        assert!(cursor.entry().is_none(), "U4");
                        failures += 1;
                        assert!(failures < 1_000, "{fault:?}: it does not get on");
                        faults.heal();
                        let last: &Owned = seen.last().unwrap();
                        moved = cursor.seek(&last.key, last.stamp);
                        // Every third read from now on fails.
                        faults.inject(Rule::every(fault).of(Operation::Read).from_nth(3));
                    } else if let Some(entry) = cursor.entry() {
                        let entry = Owned::of(entry);
                        if seen.last() != Some(&entry) {
                            seen.push(entry.clone());
                        }
                        moved = match (forward, passes) {
                            (true, false) => cursor.next(),
                            (true, true) => cursor.pass(&entry.key, Stamp(entry.stamp.0 - 1)),
                            (false, _) => cursor.prev(),
                        };
                    } else {
                        break;
                    }
                }
                if !forward {
                    seen.reverse();
                }
                assert_eq!(seen, entries, "{fault:?}, forward {forward}");
                assert!(failures > 0, "{fault:?}, forward {forward}: nothing failed");
            }
        }
    }
}

#[test]
fn a_table_that_could_not_be_opened_opens_the_next_time() {
    let fs = MemFs::new();
    build(&fs, &entries(), &small_blocks());
    let faults = FaultFs::over_mem(&fs);
    for (fault, kind) in FAULTS {
        let mut failed = 0;
        for call in 1.. {
            faults.reset();
            faults.inject(Rule::every(fault).of(Operation::Read).nth(call));
            let opened = try_open_on(&faults, 1 << 20);
            if faults.fired() == 0 {
                faults.heal();
                opened.unwrap().verify().unwrap();
                break;
            }
            let error = opened.expect_err("a part is missing");
            assert_named(&error, kind, &format!("{fault:?}, call {call}"));
            failed += 1;
        }
        // Tail, magic, properties, index, filter.
        assert_eq!(failed, 5, "{fault:?}");
    }
}

#[test]
fn a_builder_whose_file_failed_once_never_makes_a_table() {
    for fault in [Fault::Io, Fault::NoSpace, Fault::Short] {
        let mut failed = 0;
        for call in 1.. {
            let fs = MemFs::new();
            fs.create_dir_all(Path::new(PATH).parent().unwrap())
                .unwrap();
            let faults = FaultFs::over_mem(&fs);
            let file = faults.create(Path::new(PATH)).unwrap();
            faults.reset();
            faults.fail_call(call, fault);
            let mut builder = TableBuilder::new(file, CONTEXT, options(400));
            let mut outcome = Ok(());
            let mut rng = Rng::new(1);
            for n in 0..3_000u32 {
                let value: Vec<u8> = (0..40).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
                let added = builder.add(put(&n.to_be_bytes(), 1, &value).entry());
                if outcome.is_ok() {
                    outcome = added;
                } else {
                    // T3: it says the same again and writes nothing more.
                    let (calls, again) = (faults.calls(), added.unwrap_err());
                    assert_eq!(
                        Some(again.to_string()),
                        outcome.as_ref().err().map(Error::to_string)
                    );
                    assert_eq!(calls, faults.calls());
                }
            }
            let finished = builder.finish();
            if faults.fired() == 0 {
                finished.unwrap();
                open(&fs, &Order::Bytewise).verify().unwrap();
                break;
            }
            let error = finished.unwrap_err();
            assert_eq!(error.file(), Some(Path::new(PATH)), "{error}");
            let is_whole =
                try_open(&fs, &Order::Bytewise, 0).is_ok_and(|table| table.verify().is_ok());
            // Only the last call, the sync, comes after everything was written.
            assert!(
                !is_whole || faults.calls() == call,
                "{fault:?}, call {call}"
            );
            failed += 1;
        }
        assert!(failed >= 3, "{fault:?}: {failed} calls");
    }
}
