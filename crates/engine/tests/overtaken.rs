//! Tables whose keys all have newer versions in memory are no place to look for the newest.
//!
//! Claims: `overtaken.rs` V1-V3.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::{alone, contents, counter, try_on, wall_ms};
use std::collections::BTreeMap;
use std::sync::Arc;
use velella::simulation::{self, Step};
use velella::vfs::MemFs;
use velella::{Builder, Db, JournalMode, Snapshot};

const KEYS: u32 = 100;

fn put_all(db: &Db, value: &str, but: Option<u32>) {
    for key in (0..KEYS).filter(|key| Some(*key) != but) {
        db.put(key.to_be_bytes(), value).unwrap();
    }
}

/// A database with a table of two versions of each key, `old` as the snapshot sees it and `middle`,
/// made by a compaction after each key was written once more by `last`.
fn database(last: impl Fn(&Db)) -> (Db, Snapshot) {
    database_of(alone(), last)
}

fn database_of(builder: Builder, last: impl Fn(&Db)) -> (Db, Snapshot) {
    let db = try_on(Arc::new(MemFs::new()), builder).unwrap();
    put_all(&db, "old", None);
    let snapshot = db.snapshot();
    db.flush().unwrap();
    for _ in 0..3 {
        put_all(&db, "middle", None);
        db.flush().unwrap();
    }
    last(&db);
    simulation::step(&db, Step::Compact).unwrap();
    let tables: Vec<_> = db.stats().keyspaces[0]
        .levels
        .iter()
        .map(|level| level.tables)
        .collect();
    assert_eq!(tables, [0, 1]);
    (db, snapshot)
}

/// Looks into blocks of tables, cached or not.
fn looks(db: &Db) -> u64 {
    let cache = db.stats().cache;
    cache.hits + cache.misses
}

fn all(value: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pair = |key: u32| (key.to_be_bytes().to_vec(), value.as_bytes().to_vec());
    (0..KEYS).map(pair).collect()
}

fn seen_by(db: &Db, snapshot: &Snapshot) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let keyspace = db.default_keyspace();
    let pairs = snapshot.iter(&keyspace).unwrap();
    let owned = |pair: velella::Result<(Vec<u8>, velella::Value)>| {
        let (key, value) = pair.unwrap();
        (key, value.to_vec())
    };
    pairs.map(owned).collect()
}

#[test]
fn who_reads_the_newest_passes_no_table_that_memory_has_overtaken() {
    let (db, snapshot) = database(|db| put_all(db, "new", None));
    assert_eq!(counter(&db, "overtaken"), 1);
    let before = looks(&db);
    assert_eq!(contents(&db.default_keyspace()), all("new"));
    assert_eq!(looks(&db), before, "the table is not looked into");
    assert_eq!(seen_by(&db, &snapshot), all("old"));
    assert!(looks(&db) > before, "an older reader needs it");
}

#[test]
fn a_key_that_was_not_written_again_is_still_found() {
    for but in [0, 57, KEYS - 1] {
        let (db, snapshot) = database(|db| put_all(db, "new", Some(but)));
        assert_eq!(counter(&db, "overtaken"), 0);
        let mut expected = all("new");
        expected.insert(but.to_be_bytes().to_vec(), b"middle".to_vec());
        assert_eq!(contents(&db.default_keyspace()), expected);
        assert_eq!(seen_by(&db, &snapshot), all("old"));
    }
}

#[test]
fn deletions_overtake_and_that_lasts_beyond_their_flush() {
    let (db, snapshot) = database(|db| {
        put_all(db, "new", Some(3));
        db.delete(3u32.to_be_bytes()).unwrap();
    });
    assert_eq!(counter(&db, "overtaken"), 1);
    let mut expected = all("new");
    expected.remove(&3u32.to_be_bytes()[..]);
    assert_eq!(contents(&db.default_keyspace()), expected);
    db.flush().unwrap();
    assert_eq!(contents(&db.default_keyspace()), expected);
    assert_eq!(seen_by(&db, &snapshot), all("old"));
    db.default_keyspace().compact().unwrap();
    assert_eq!(contents(&db.default_keyspace()), expected);
    assert_eq!(seen_by(&db, &snapshot), all("old"));
}

#[test]
fn a_reader_between_the_table_and_the_last_of_the_newer_versions_still_finds_it() {
    let between = std::cell::RefCell::new(None);
    let (db, _) = database(|db| {
        // From the last key to the first: the first key's newest version is the latest of all.
        for key in (0..KEYS).rev() {
            if key == KEYS / 2 {
                between.replace(Some(db.snapshot()));
            }
            db.put(key.to_be_bytes(), "new").unwrap();
        }
    });
    assert_eq!(counter(&db, "overtaken"), 1);
    let snapshot = between.take().unwrap();
    let mut expected = all("new");
    for key in 0..=KEYS / 2 {
        expected.insert(key.to_be_bytes().to_vec(), b"middle".to_vec());
    }
    assert_eq!(seen_by(&db, &snapshot), expected);
    assert_eq!(contents(&db.default_keyspace()), all("new"));
}

#[test]
fn what_has_expired_in_memory_does_not_show_what_is_below() {
    let soon = wall_ms() + 300;
    let (db, snapshot) = database(|db| {
        for key in 0..KEYS {
            let options = velella::WriteOptions::default();
            db.put_expiring(key.to_be_bytes(), "new", soon, options)
                .unwrap();
        }
    });
    assert_eq!(counter(&db, "overtaken"), 1);
    while wall_ms() <= soon {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for _ in 0..2 {
        assert_eq!(contents(&db.default_keyspace()), BTreeMap::new());
        assert_eq!(seen_by(&db, &snapshot), all("old"));
        db.flush().unwrap();
        db.default_keyspace().compact().unwrap();
    }
}

#[test]
fn iterators_of_before_go_on_and_every_way_shows_the_same() {
    for mode in [JournalMode::Auto, JournalMode::Off] {
        let (db, snapshot) = database_of(alone().journal(mode), |db| put_all(db, "new", None));
        assert_eq!(counter(&db, "overtaken"), 1);
        let keyspace = db.default_keyspace();
        let back = keyspace.iter().unwrap().rev().map(|pair| pair.unwrap());
        let back: BTreeMap<_, _> = back.map(|(key, value)| (key, value.to_vec())).collect();
        assert_eq!(back, all("new"));
        let mut held = snapshot.iter(&keyspace).unwrap();
        let mut newest = keyspace.iter().unwrap();
        assert!(held.step().unwrap() && newest.step().unwrap());
        // New tables, and so other sources, under both.
        db.flush().unwrap();
        keyspace.compact().unwrap();
        let mut seen = 1;
        while held.step().unwrap() {
            assert_eq!(held.value().unwrap(), b"old");
            assert!(newest.step().unwrap());
            assert_eq!(newest.value().unwrap(), b"new");
            seen += 1;
        }
        assert_eq!(seen, KEYS);
        held.refresh_to_now().unwrap();
        assert!(held.seek_first().unwrap());
        assert_eq!(held.value().unwrap(), b"new");
    }
}
