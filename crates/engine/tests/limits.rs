//! The limits: what is just allowed works, one byte more is a clear error.

mod common;

use common::{contents, fresh, on, tiny};
use velella::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{Db, ErrorKind, WriteBatch};

#[test]
fn the_longest_key_works_everywhere_and_one_byte_more_is_refused() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let long = |last: u8| [vec![b'k'; KEY_BYTES_MAX - 1], vec![last]].concat();
    for last in [1, 2, 3] {
        db.put(long(last), [last]).unwrap();
    }
    let db = on(&fs.crash(1, CrashMode::KeepAll), tiny());
    for _ in 0..3 {
        for last in [1, 2, 3] {
            assert_eq!(db.get(long(last)).unwrap().unwrap(), [last]);
        }
        assert_eq!(contents(&db).len(), 3);
        assert_eq!(db.increment(long(9), 1).unwrap(), 1);
        db.delete(long(9)).unwrap();
        db.compact().unwrap();
    }
    let too_long = vec![b'k'; KEY_BYTES_MAX + 1];
    let mut batch = WriteBatch::new();
    batch.delete(&db, &too_long);
    let errors = [
        db.put(&too_long, "").unwrap_err(),
        db.delete(&too_long).unwrap_err(),
        db.increment(&too_long, 1).unwrap_err(),
        db.write(&batch).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error.to_string().contains("65537"),
            "it says how long it was: {error}"
        );
    }
    // Reading it is no error: there is none.
    assert_eq!(db.get(&too_long).unwrap(), None);
}

#[test]
fn the_empty_key_and_the_empty_value_are_legal_everywhere() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    db.put("", "").unwrap();
    db.put("a", "").unwrap();
    for _ in 0..3 {
        assert_eq!(db.get("").unwrap().unwrap(), "");
        assert_eq!(contents(&db).len(), 2);
        assert_eq!(db.iter().unwrap().rev().count(), 2);
        let mut iter = db.iter().unwrap();
        assert!(iter.seek("").unwrap() && iter.key() == Some(b""));
        assert!(iter.seek_before("a").unwrap() && iter.key() == Some(b""));
        assert!(!iter.seek_before("").unwrap());
        assert_eq!(db.range(""..).unwrap().count(), 2);
        db.compact().unwrap();
    }
    db.delete("").unwrap();
    let db: Db = on(&fs.crash(1, CrashMode::KeepAll), tiny());
    assert_eq!(db.get("").unwrap(), None);
    assert_eq!(contents(&db).len(), 1);
}

#[test]
fn a_value_over_the_limit_is_refused_before_anything_is_copied() {
    let fs = MemFs::new();
    fs.set_space_max(Some(256 << 20));
    let db = on(&fs, tiny());
    // Zeros that are never touched take no memory, unless somebody copies them.
    let value = vec![0u8; VALUE_BYTES_MAX + 1];
    let before = resident_kib();
    let error = db.put("k", &value).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains(&VALUE_BYTES_MAX.to_string()),
        "{error}"
    );
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "refusing it took {grown} KiB");
    assert_eq!(db.get("k").unwrap(), None);
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or("VmRSS: 0 kB");
    line.split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

#[test]
fn settings_out_of_range_name_the_knob() {
    let open = |builder: velella::Builder| {
        common::try_on(std::sync::Arc::new(MemFs::new()), builder)
            .unwrap_err()
            .to_string()
    };
    assert!(open(tiny().memory(1)).contains("memory"));
    assert!(open(tiny().write_buffer(1)).contains("write_buffer"));
    assert!(open(tiny().block_bytes(1)).contains("block_bytes"));
    assert!(open(tiny().bloom_bits(99)).contains("bloom_bits"));
    assert!(open(tiny().background_threads(0)).contains("background_threads"));
    drop(fresh());
}
