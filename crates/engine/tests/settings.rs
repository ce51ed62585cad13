//! Settings of keyspaces: stored, used at the next opening, changed only when asked, obeyed by
//! flush and compaction.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{DIR, KINDS, contents, counter, on, tiny, try_on};
use std::path::Path;
use std::sync::Arc;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation, Vfs};
use velella::{Compression, Db, ErrorKind, Keyspace, KeyspaceOptions, MemtableKind, Order};
use velella_sst::{Detail, inspect};

/// What a keyspace was created with, order aside.
fn said(keyspace: &Keyspace) -> (MemtableKind, Compression, u32) {
    let settings = keyspace.settings();
    (
        settings.memtable.unwrap(),
        settings.compression.unwrap(),
        settings.bloom_bits.unwrap(),
    )
}

fn own() -> KeyspaceOptions {
    KeyspaceOptions {
        memtable: Some(MemtableKind::AppendOnly),
        compression: Some(Compression::Zstd),
        bloom_bits: Some(17),
        ..KeyspaceOptions::default()
    }
}

const OWN: (MemtableKind, Compression, u32) = (MemtableKind::AppendOnly, Compression::Zstd, 17);

/// The listings of all tables.
fn tables(fs: &MemFs) -> Vec<String> {
    let dir = Path::new(DIR);
    let names = fs.read_dir(dir).unwrap();
    let tables = names
        .iter()
        .filter(|name| name.extension().is_some_and(|ext| ext == "sst"));
    tables
        .map(|name| {
            let mut out = Vec::new();
            let file = fs.open_read(&dir.join(name)).unwrap();
            inspect(file, Detail::Blocks, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        })
        .collect()
}

/// Writes what compresses well.
fn fill(keyspace: &Keyspace) {
    for number in 0..200 {
        let key = format!("key{number:04}");
        keyspace.put(key, [b'x'; 100]).unwrap();
    }
}

/// Flushes, compacts and closes; the tables that are left.
fn settle(fs: &MemFs, db: Db, keyspace: &Keyspace) -> Vec<String> {
    fill(keyspace);
    keyspace.flush().unwrap();
    fill(keyspace);
    db.compact().unwrap();
    db.close().unwrap();
    tables(fs)
}

#[test]
fn what_a_keyspace_was_created_with_holds_after_every_opening() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    assert_eq!(said(&db.create_keyspace("own", own()).unwrap()), OWN);
    db.create_keyspace("plain", KeyspaceOptions::default())
        .unwrap();
    db.close().unwrap();
    for bits in [9, 11] {
        let db = on(&fs, tiny().bloom_bits(bits).compression(Compression::None));
        assert_eq!(said(&db.keyspace("own").unwrap()), OWN);
        assert_eq!(said(&db.keyspace_or_create("own").unwrap()), OWN);
        let plain = (MemtableKind::default(), Compression::None, bits);
        assert_eq!(said(&db.keyspace("plain").unwrap()), plain);
        assert_eq!(said(&db), plain);
        db.close().unwrap();
    }
}

#[test]
fn flush_and_compaction_obey_the_stored_settings_after_a_reopening() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    // Zstd is for level 2 and below, where so little data never comes.
    let own = KeyspaceOptions {
        compression: Some(Compression::None),
        ..own()
    };
    db.create_keyspace("own", own).unwrap();
    db.close().unwrap();
    let db = on(&fs, tiny());
    let keyspace = db.keyspace("own").unwrap();
    fill(&keyspace);
    keyspace.flush().unwrap();
    let flushed = tables(&fs);
    let compacted = settle(&fs, db, &keyspace);
    assert!(!flushed.is_empty() && !compacted.is_empty());
    for table in flushed.into_iter().chain(compacted) {
        assert!(table.contains("17 bloom bits per key"), "{table}");
        assert!(table.contains(" as none, "), "{table}");
    }
}

#[test]
fn what_the_journal_held_is_recovered_into_tables_of_the_stored_settings() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    fill(&db.create_keyspace("own", own()).unwrap());
    db.persist().unwrap();
    let after = fs.image(1, CrashMode::Strict);
    let db = on(&after, tiny());
    assert_eq!(contents(&db.keyspace("own").unwrap()).len(), 200);
    let tables = tables(&after);
    assert_eq!(tables.len(), 1);
    assert!(tables[0].contains("17 bloom bits per key"), "{}", tables[0]);
}

/// Towers that 400 overwrites of a key cost: about 100 where each version is a node of its own,
/// at most one where the key has one node.
fn towers(db: &Db, keyspace: &Keyspace) -> u64 {
    let before = counter(db, "memtable_towers");
    for _ in 0..400 {
        keyspace.put("key", "value").unwrap();
    }
    counter(db, "memtable_towers") - before
}

#[test]
fn a_memtable_is_of_the_kind_stored_and_a_change_holds_from_the_next_one_on() {
    for kind in KINDS {
        let other = KINDS.into_iter().find(|other| *other != kind).unwrap();
        let is_dense = |towers: u64, kind| match kind {
            MemtableKind::Jellyfish | MemtableKind::S3 => towers <= 1,
            MemtableKind::AppendOnly => towers >= 40,
        };
        let fs = MemFs::new();
        let db = on(&fs, tiny().memtable(other));
        let one = |kind| KeyspaceOptions {
            memtable: Some(kind),
            ..KeyspaceOptions::default()
        };
        db.create_keyspace("own", one(kind)).unwrap();
        db.close().unwrap();
        let db = on(&fs, tiny().memtable(other));
        let keyspace = db.keyspace("own").unwrap();
        assert!(is_dense(towers(&db, &keyspace), kind), "{kind:?}");
        let changed = db.open_keyspace("own", one(other)).unwrap();
        assert_eq!(said(&changed).0, other);
        assert!(is_dense(towers(&db, &keyspace), kind), "before a switch");
        keyspace.flush().unwrap();
        assert!(is_dense(towers(&db, &keyspace), other), "after a switch");
        db.close().unwrap();
        let db = on(&fs, tiny().memtable(kind));
        let keyspace = db.keyspace("own").unwrap();
        assert!(is_dense(towers(&db, &keyspace), other), "after an opening");
    }
}

#[test]
fn an_explicit_change_is_stored_and_leaves_the_rest() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let keyspace = db.create_keyspace("own", own()).unwrap();
    let denser = KeyspaceOptions {
        bloom_bits: Some(5),
        ..KeyspaceOptions::default()
    };
    db.open_keyspace("own", denser.clone()).unwrap();
    db.open_keyspace("default", denser).unwrap();
    let now = (OWN.0, OWN.1, 5);
    assert_eq!(said(&keyspace), now);
    db.open_keyspace("own", KeyspaceOptions::default()).unwrap();
    assert_eq!(said(&keyspace), now);
    // An existing table stays what it is until it is rewritten.
    let tables = settle(&fs, db, &keyspace);
    assert!(tables.iter().all(|table| table.contains("  5 bloom bits")));
    let db = on(&fs, tiny());
    assert_eq!(said(&db.keyspace("own").unwrap()), now);
    assert_eq!(said(&db).2, 5);
    assert_eq!(db.stats().keyspaces[1].bloom_bits, 5);
    assert_eq!(contents(&db.keyspace("own").unwrap()).len(), 200);
}

#[test]
fn an_acknowledged_change_survives_a_power_loss_and_a_failed_one_is_not_in_force() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let db = try_on(Arc::new(faulty.clone()) as Arc<dyn Vfs>, tiny()).unwrap();
    let keyspace = db
        .create_keyspace("own", KeyspaceOptions::default())
        .unwrap();
    let before = said(&keyspace);
    db.open_keyspace("own", own()).unwrap();
    for seed in 0..10 {
        let after = on(&fs.image(seed, CrashMode::Random), tiny());
        assert_eq!(said(&after.keyspace("own").unwrap()), OWN);
    }
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncData).times(1));
    let back = KeyspaceOptions {
        memtable: Some(before.0),
        ..KeyspaceOptions::default()
    };
    db.open_keyspace("own", back).unwrap_err();
    assert_eq!(said(&keyspace), OWN);
}

#[test]
fn settings_change_without_the_order_and_nobody_creates_over_them() {
    let fs = MemFs::new();
    let reversed = || Order::custom("test.reversed", |a, b| b.cmp(a));
    let db = on(&fs, tiny().order(reversed()));
    let reversed_with = |bloom_bits| KeyspaceOptions {
        order: Some(reversed()),
        bloom_bits: Some(bloom_bits),
        ..KeyspaceOptions::default()
    };
    let created = db.keyspace_or_create_with("down", reversed_with(5));
    let keyspace = created.unwrap();
    for key in ["a", "b"] {
        keyspace.put(key, "v").unwrap();
    }
    let check = |keyspace: &Keyspace, bits| {
        let settings = keyspace.settings();
        assert_eq!(settings.bloom_bits, Some(bits));
        assert_eq!(settings.order.unwrap().name(), "test.reversed");
        assert_eq!(keyspace.first().unwrap().unwrap().0, b"b");
    };
    check(&keyspace, 5);
    let seven = KeyspaceOptions {
        bloom_bits: Some(7),
        ..KeyspaceOptions::default()
    };
    check(&db.open_keyspace("down", seven).unwrap(), 7);
    // One that is there is opened, with the settings asked for.
    let opened = db.keyspace_or_create_with("down", reversed_with(9));
    check(&opened.unwrap(), 9);
    check(&db.keyspace_or_create("down").unwrap(), 9);
    let bytewise = KeyspaceOptions {
        order: Some(Order::Bytewise),
        ..KeyspaceOptions::default()
    };
    for refused in [
        db.open_keyspace("down", bytewise.clone()),
        db.keyspace_or_create_with("down", bytewise),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    drop((db, keyspace));
    let db = on(&fs, tiny().order(reversed()));
    check(&db.keyspace("down").unwrap(), 9);
}

#[test]
fn another_order_and_settings_that_cannot_be_are_refused_and_change_nothing() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let keyspace = db.create_keyspace("own", own()).unwrap();
    let reversed = KeyspaceOptions {
        order: Some(Order::custom("test.reversed", |a, b| b.cmp(a))),
        bloom_bits: Some(1),
        ..KeyspaceOptions::default()
    };
    let error = db.open_keyspace("own", reversed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    for part in ["own", "test.reversed", "velella.bytewise"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let dense = KeyspaceOptions {
        bloom_bits: Some(33),
        ..KeyspaceOptions::default()
    };
    for refused in [
        db.open_keyspace("own", dense.clone()),
        db.create_keyspace("dense", dense),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("bloom_bits"), "{error}");
    }
    let missing = db.open_keyspace("none", own()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(said(&keyspace), OWN);
    assert_eq!(db.keyspaces(), ["default", "own"]);
}

#[test]
fn an_order_may_not_take_the_name_of_the_bytewise_one() {
    let fs = MemFs::new();
    let order = Order::custom("velella.bytewise", |a, b| b.cmp(a));
    let builder = tiny().order(order.clone());
    let error = try_on(Arc::new(fs.clone()), builder).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let db = on(&fs, tiny());
    let options = KeyspaceOptions {
        order: Some(order),
        ..KeyspaceOptions::default()
    };
    let error = db.create_keyspace("k", options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("name of its own"), "{error}");
}
