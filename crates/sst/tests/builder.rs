//! What the builder refuses, counts, bounds and passes on.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::*;
use std::path::Path;
use velella_base::{ErrorKind, Order, Stamp, ValueKind};
use velella_sst::{TableOptions, key_hash};
use velella_vfs::MemFs;

fn refused(entries: &[Owned], order: &Order) -> velella_base::Error {
    let fs = MemFs::new();
    let options = TableOptions {
        order: order.clone(),
        ..options(100)
    };
    let mut builder = builder(&fs, &options);
    let (last, sound) = entries.split_last().unwrap();
    for entry in sound {
        builder.add(entry.entry()).unwrap();
    }
    let error = builder.add(last.entry()).unwrap_err();
    // T3: it stays refused.
    assert_eq!(builder.finish().unwrap_err().kind(), error.kind());
    error
}

#[test]
fn entries_out_of_order_are_refused_with_both_keys() {
    let reverse = Order::custom("reverse", |a, b| b.cmp(a));
    let folding = Order::custom("folding", |a, b| {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    });
    for (first, second, order) in [
        (put(b"b", 1, b""), put(b"a", 1, b""), &Order::Bytewise),
        (put(b"ab", 1, b""), put(b"a", 1, b""), &Order::Bytewise),
        (put(b"a", 1, b""), put(b"a", 2, b""), &Order::Bytewise),
        (put(b"a", 1, b""), put(b"a", 1, b""), &Order::Bytewise),
        (put(b"a", 1, b""), put(b"b", 1, b""), &reverse),
        (put(b"A", 1, b""), put(b"a", 2, b""), &folding),
    ] {
        let error = refused(&[first.clone(), second.clone()], order);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let said = error.to_string();
        let quoted = second.key.escape_ascii().to_string();
        assert!(said.contains(&quoted) && said.contains(PATH), "{said}");
    }
}

#[test]
fn limits_and_payloads_are_checked() {
    let long = put(&vec![1; (64 << 10) + 1], 1, b"");
    let late = put(b"k", Stamp::MAX.0 + 1, b"");
    let reference = Owned {
        kind: ValueKind::External,
        ..put(b"k", 1, b"short")
    };
    let large = put(b"k", 1, &vec![0; (16 << 20) + 1]);
    let expiry = Owned {
        kind: ValueKind::PutExpiring,
        ..put(b"k", 1, b"1234567")
    };
    for entry in [long, late, reference, large, expiry] {
        let error = refused(&[entry], &Order::Bytewise);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn a_batch_may_delete_a_range_and_put_its_first_key() {
    let fs = MemFs::new();
    let entries = [
        put(b"a", 5, b"new"),
        Owned {
            kind: ValueKind::RangeDelete,
            ..put(b"a", 5, b"z")
        },
        put(b"a", 4, b"old"),
    ];
    for block_bytes in [1, 4096] {
        build(&fs, &entries, &options(block_bytes));
        let table = open(&fs, &Order::Bytewise);
        table.verify().unwrap();
        assert_eq!(forward(&mut table.cursor(true)), entries);
        let found = table.get(b"a", key_hash(b"a"), Stamp(5)).unwrap().unwrap();
        assert_eq!(found.kind, ValueKind::Put);
    }
}

#[test]
fn the_largest_inline_keys_and_values_round_trip() {
    let fs = MemFs::new();
    let mut long = vec![b'k'; 64 << 10];
    let mut entries = Vec::new();
    for n in 0..20u8 {
        *long.last_mut().unwrap() = n;
        entries.push(put(&long, u64::from(n) + 1, &vec![n; 1 << 20]));
    }
    for compression in COMPRESSIONS {
        let options = TableOptions {
            compression,
            ..options(4096)
        };
        build(&fs, &entries, &options);
        let table = open(&fs, &Order::Bytewise);
        table.verify().unwrap();
        let found = table.get(&long, key_hash(&long), Stamp::MAX).unwrap();
        assert_eq!(&*found.unwrap().value, &entries[19].value[..]);
        let mut reversed = backward(&mut table.cursor(false));
        reversed.reverse();
        assert!(reversed == entries);
    }
}

#[test]
fn an_empty_table_is_a_table() {
    let fs = MemFs::new();
    let builder = builder(&fs, &options(100));
    assert!(builder.is_empty());
    let meta = builder.finish().unwrap();
    assert_eq!(meta.entries(), 0);
    let table = open(&fs, &Order::Bytewise);
    table.verify().unwrap();
    assert!(forward(&mut table.cursor(true)).is_empty());
    assert!(backward(&mut table.cursor(false)).is_empty());
    assert!(table.get(b"", key_hash(b""), Stamp::MAX).unwrap().is_none());
}

#[test]
fn the_estimate_grows_with_the_table_and_bounds_its_data() {
    let fs = MemFs::new();
    let mut builder = builder(&fs, &options(4096));
    let mut before = builder.estimated_bytes();
    for n in 0..5000u32 {
        builder
            .add(put(&n.to_be_bytes(), 1, &[3; 100]).entry())
            .unwrap();
    }
    let estimate = builder.estimated_bytes();
    assert!(estimate > before);
    before = builder.finish().unwrap().bytes;
    assert!(
        before > estimate - 4200 && before < estimate + 20_000,
        "{before} {estimate}"
    );
}

#[test]
fn a_full_device_is_an_error_that_stays() {
    let fs = MemFs::new();
    let mut builder = builder(&fs, &options(4096));
    fs.set_space_max(Some(100_000));
    let mut failed = None;
    for n in 0..20_000u32 {
        let value = key_hash(&n.to_be_bytes()).to_be_bytes().repeat(12);
        let added = builder.add(put(&n.to_be_bytes(), 1, &value).entry());
        match (&failed, added) {
            (None, Err(error)) => failed = Some(error),
            (Some(_), added) => assert!(added.is_err()),
            _ => {}
        }
    }
    let error = builder.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(error.file(), Some(Path::new(PATH)));
}
