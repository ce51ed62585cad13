//! The golden tables: what each version of the format is, in bytes.
//!
//! The tables in tests/golden were written once, by `write_the_golden_table`, and must be readable
//! for ever: version 1, version 2, and version 2 since its properties say what is shadowed. That
//! the newest is also rebuilt byte for byte pins the writer; should a newer LZ4 encoder choose
//! other matches, only that assertion may be given up, never the reading.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::*;
use std::path::Path;
use velella_base::{Cursor, Order, Stamp, ValueKind};
use velella_sst::{Detail, Shadowed, TableOptions, inspect, key_hash};
use velella_sync::rng::Rng;
use velella_vfs::{MemFs, Vfs};

const GOLDEN: &[u8] = include_bytes!("golden/table_v2_shadowed.sst");
const GOLDEN_V2: &[u8] = include_bytes!("golden/table_v2.sst");
const GOLDEN_V1: &[u8] = include_bytes!("golden/table_v1.sst");

/// All kinds; keys with versions that span blocks; values that shrink, and some that do not; the
/// empty key; a key and a value longer than a block.
fn entries() -> Vec<Owned> {
    let mut rng = Rng::new(2026);
    let mut entries = vec![
        put(b"", 1, b"the empty key"),
        put(&[b'k'; 700], 2, &[7; 3000]),
    ];
    for n in 0..120u64 {
        let kind = ValueKind::ALL[(n % 6) as usize];
        entries.push(Owned {
            value: payload(&mut rng, kind, 80),
            kind,
            ..put(format!("user:{:04}:name", n * 3).as_bytes(), 1000 + n, b"")
        });
    }
    for stamp in 1..=60 {
        entries.push(put(
            b"user:0100:often",
            stamp * 10,
            format!("{stamp}").as_bytes(),
        ));
    }
    sort(&mut entries, &Order::Bytewise);
    entries
}

fn rebuilt() -> (MemFs, Vec<u8>) {
    let fs = MemFs::new();
    let options: TableOptions = options(512);
    build(&fs, &entries(), &options);
    let bytes = fs.read_file(Path::new(PATH)).unwrap();
    (fs, bytes)
}

#[test]
#[ignore = "writes the golden file: only for a new version of the format"]
fn write_the_golden_table() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/table_v2_shadowed.sst"
    );
    std::fs::write(path, rebuilt().1).unwrap();
}

#[test]
fn the_golden_table_is_rebuilt_byte_for_byte() {
    let (_, bytes) = rebuilt();
    let differs = bytes.iter().zip(GOLDEN).position(|(a, b)| a != b);
    assert_eq!((differs, bytes.len()), (None, GOLDEN.len()));
}

#[test]
fn the_golden_tables_are_read() {
    let shadowed = Shadowed {
        entries: 59,
        by: Stamp(600),
    };
    for (version, golden, says) in [
        (1, GOLDEN_V1, None),
        (2, GOLDEN_V2, None),
        (2, GOLDEN, Some(shadowed)),
    ] {
        let tail = &golden[golden.len() - 24..];
        assert_eq!(tail[..4], u32::to_le_bytes(version), "the version it has");
        is_read(version, golden, says);
    }
}

fn is_read(version: u32, golden: &[u8], shadowed: Option<Shadowed>) {
    let (fs, _) = rebuilt();
    fs.write_file(Path::new(PATH), golden).unwrap();
    let table = open(&fs, &Order::Bytewise);
    table.verify().unwrap();
    let entries = entries();
    assert_eq!(forward(&mut table.cursor(true)), entries);
    for entry in &entries {
        let found = table.get(&entry.key, key_hash(&entry.key), entry.stamp);
        let found = found.unwrap().unwrap();
        assert_eq!((found.stamp, found.kind), (entry.stamp, entry.kind));
        assert_eq!(&*found.value, &entry.value[..]);
    }
    let meta = table.meta();
    assert_eq!(meta.kinds, [0, 82, 20, 20, 20, 20, 20]);
    assert_eq!(meta.shadowed, shadowed);
    assert_eq!((meta.min_stamp, meta.max_stamp), (Stamp(1), Stamp(1119)));
    assert_eq!((meta.smallest.as_slice(), meta.file), (&b""[..], 42));
    assert!(meta.externals.is_sorted() && !meta.externals.is_empty());
    let file = fs.open_read(Path::new(PATH)).unwrap();
    let mut description = Vec::new();
    inspect(file, Detail::Blocks, &mut description).unwrap();
    let description = String::from_utf8(description).unwrap();
    assert!(description.contains(&format!("format version {version}\n")));
    assert!(description.contains(" as lz4") && description.contains(" as none"));
    let mut cursor = table.cursor(true);
    cursor.seek(b"user:0100:often", Stamp(305)).unwrap();
    assert_eq!(cursor.entry().unwrap().value, b"30");
}
