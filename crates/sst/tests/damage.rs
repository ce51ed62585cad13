//! Damaged tables: any flipped bit, truncation, exchange or overwriting is reported as corruption
//! of that file at an offset, or changes no answer.

#![allow(clippy::cast_possible_truncation, reason = "sizes in tests are small")]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::*;
use std::path::Path;
use velella_base::{Error, ErrorKind, Order, Result, ValueKind};
use velella_sst::{Compression, TableOptions, key_hash};
use velella_sync::rng::Rng;
use velella_vfs::MemFs;

fn entries() -> Vec<Owned> {
    let mut rng = Rng::new(11);
    let mut entries = Vec::new();
    for n in 0..40u64 {
        let kind = ValueKind::ALL[(n % 6) as usize];
        entries.push(Owned {
            value: payload(&mut rng, kind, 40),
            kind,
            ..put(format!("key{:03}", n / 2).as_bytes(), 2 - n % 2, b"")
        });
    }
    entries
}

fn table(fs: &MemFs, compression: Compression) -> Vec<u8> {
    let options = TableOptions {
        compression,
        ..options(300)
    };
    build(fs, &entries(), &options);
    fs.read_file(Path::new(PATH)).unwrap()
}

fn assert_corruption(error: &Error, what: &str) {
    assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
    assert_eq!(error.file(), Some(Path::new(PATH)), "{what}: {error}");
    assert!(error.offset().is_some(), "{what}: {error}");
}

/// Opens, gets every key, walks both ways and verifies: every answer is right or `Corruption`, and
/// the damage is seen by opening or verifying.
fn check(fs: &MemFs, bytes: &[u8], entries: &[Owned], what: &str) {
    fs.write_file(Path::new(PATH), bytes).unwrap();
    let table = match try_open(fs, &Order::Bytewise, 0) {
        Ok(table) => table,
        Err(error) => return assert_corruption(&error, what),
    };
    let right = |outcome: Result<bool>| match outcome {
        Ok(right) => assert!(right, "{what}: a wrong answer"),
        Err(error) => assert_corruption(&error, what),
    };
    for entry in entries {
        let found = table.get(&entry.key, key_hash(&entry.key), entry.stamp);
        right(found.map(|found| {
            found.is_some_and(|found| {
                (found.stamp, found.kind, &*found.value)
                    == (entry.stamp, entry.kind, &entry.value[..])
            })
        }));
    }
    for fill_cache in [true, false] {
        right(try_forward(&mut table.cursor(fill_cache)).map(|seen| seen == entries));
    }
    assert_corruption(&table.verify().expect_err(what), what);
}

#[test]
fn every_flipped_bit_is_corruption_or_without_effect() {
    for compression in COMPRESSIONS {
        let (fs, entries) = (MemFs::new(), entries());
        let sound = table(&fs, compression);
        open(&fs, &Order::Bytewise).verify().unwrap();
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            check(
                &fs,
                &bytes,
                &entries,
                &format!("{compression:?}, bit {bit}"),
            );
        }
    }
}

#[test]
fn every_truncation_and_extension_is_corruption() {
    let fs = MemFs::new();
    let sound = table(&fs, Compression::Lz4);
    for len in 0..sound.len() {
        fs.write_file(Path::new(PATH), &sound[..len]).unwrap();
        let error = try_open(&fs, &Order::Bytewise, 0).unwrap_err();
        assert_corruption(&error, &format!("{len} bytes"));
    }
    for more in [1, 7, 4096] {
        let mut bytes = sound.clone();
        bytes.resize(sound.len() + more, 0);
        fs.write_file(Path::new(PATH), &bytes).unwrap();
        let error = try_open(&fs, &Order::Bytewise, 0).unwrap_err();
        assert_corruption(&error, &format!("{more} bytes more"));
    }
}

#[test]
fn moved_copied_and_zeroed_bytes_are_corruption() {
    let (fs, entries) = (MemFs::new(), entries());
    let sound = table(&fs, Compression::None);
    let mut rng = Rng::new(2);
    for round in 0..2000 {
        let mut bytes = sound.clone();
        let len = 1 + rng.below(300) as usize;
        let mut place = || rng.below((sound.len() - len) as u64) as usize;
        let (from, to) = (place(), place());
        match round % 3 {
            0 => bytes.copy_within(from..from + len, to),
            1 => bytes[to..to + len].fill(0),
            _ => {
                bytes.drain(from..from + len);
                let moved = sound[from..from + len].iter().copied();
                let to = to.min(bytes.len());
                bytes.splice(to..to, moved);
            }
        }
        if bytes != sound {
            check(&fs, &bytes, &entries, &format!("round {round}"));
        }
    }
}

#[test]
fn a_table_of_another_file_database_or_order_is_refused_by_name() {
    let fs = MemFs::new();
    build(&fs, &entries(), &options(300));
    let foreign = |context| {
        velella_sst::Table::open(
            velella_vfs::Vfs::open_read(&fs, Path::new(PATH)).unwrap(),
            context,
            Order::Bytewise,
            velella_sst::BlockCache::new(0),
            Default::default(),
        )
        .unwrap_err()
    };
    let mut other = CONTEXT;
    other.file = 43;
    let error = foreign(other);
    assert_corruption(&error, "another file");
    assert!(error.to_string().contains("it is table 42"), "{error}");
    let mut other = CONTEXT;
    other.database = 1;
    assert_corruption(&foreign(other), "another database");

    let reverse = Order::custom("reverse", |a, b| b.cmp(a));
    let error = try_open(&fs, &reverse, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("velella.bytewise"), "{error}");

    fs.write_file(Path::new(PATH), b"a text of somebody's")
        .unwrap();
    let error = try_open(&fs, &Order::Bytewise, 0).unwrap_err();
    assert!(error.to_string().contains("not a Velella table"), "{error}");
}
