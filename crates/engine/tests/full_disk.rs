//! A full disk refuses what needs room, and nothing else; nobody has to open the database again.
//!
//! Claims: `shortage.rs`, H1 to H3; `flush.rs`, F4; docs/consistency.md, "When something fails".

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{alone, contents, counter, on, tiny, try_on, until};
use std::collections::BTreeMap;
use std::sync::Arc;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation};
use velella::{Builder, Db, ErrorKind, JournalMode, KeyspaceOptions, Result};
use velella_testkit::Watchdog;

const MODES: [JournalMode; 3] = [JournalMode::Mapped, JournalMode::Write, JournalMode::Off];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes keys `from` on until one is refused or there were `most`; how many were taken.
fn fill(db: &Db, model: &mut Model, from: u32, most: u32) -> (u32, Result<()>) {
    for number in from..from + most {
        let key = number.to_be_bytes();
        let value = vec![number.to_le_bytes()[0]; 2_000];
        if let Err(error) = db.put(key, &value) {
            return (number - from, Err(error));
        }
        model.insert(key.to_vec(), value);
    }
    (most, Ok(()))
}

/// A database whose file system fails when told to.
fn faulty(builder: Builder) -> (MemFs, FaultFs, Db) {
    let fs = MemFs::new();
    let faults = FaultFs::over_mem(&fs);
    let db = try_on(Arc::new(faults.clone()), builder).unwrap();
    (fs, faults, db)
}

/// No table finds room.
fn no_tables() -> Rule {
    Rule::every(Fault::NoSpace).of(Operation::Create).on(".sst")
}

fn tables(fs: &MemFs) -> usize {
    let files = fs.files();
    let tables = files
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "sst"));
    tables.count()
}

/// Without a journal the last close flushes: what it cannot is lost, and a second try makes it no
/// better.
#[test]
fn a_close_that_failed_fails_again() {
    let (_fs, faults, db) = faulty(alone().journal(JournalMode::Off));
    db.put("k", "v").unwrap();
    faults.inject(no_tables());
    for _ in 0..2 {
        assert_eq!(db.close().unwrap_err().kind(), ErrorKind::NoSpace);
    }
    faults.heal();
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::NoSpace);
}

#[test]
fn writers_are_refused_while_the_disk_is_full_and_go_on_once_there_is_room() {
    let _watchdog = Watchdog::new("a full disk", 200);
    for journal in MODES {
        let fs = MemFs::new();
        let db = on(&fs, tiny().journal(journal));
        let mut model = Model::new();
        fill(&db, &mut model, 0, 300).1.unwrap();
        db.flush().unwrap();
        fs.set_space_max(Some(fs.space_used()));
        // What is in memory already, and in the journal's segments, is still taken.
        let (taken, refused) = fill(&db, &mut model, 300, 20_000);
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{journal:?}: {error}");
        assert!(taken > 0, "{journal:?}");
        // It stays so, for as long as it takes; reads are not concerned.
        for _ in 0..50 {
            let error = db.put("more", vec![1; 60_000]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{journal:?}: {error}");
        }
        assert_eq!(contents(&db), model, "{journal:?}");
        fs.set_space_max(None);
        until(|| db.put("more", "again").is_ok());
        model.insert(b"more".to_vec(), b"again".to_vec());
        let next = 300 + taken;
        until(|| fill(&db, &mut model, next, 1_000).1.is_ok());
        assert_eq!(contents(&db), model, "{journal:?}");
        db.flush().unwrap();
        assert_eq!(db.stats().shortage, None, "{journal:?}");
        db.verify().unwrap();
        let after = on(&fs.image(1, CrashMode::Strict), tiny());
        assert_eq!(contents(&after), model, "{journal:?}");
    }
}

#[test]
fn a_flush_in_the_background_without_room_is_told_and_made_up_for() {
    let _watchdog = Watchdog::new("a flush without room", 100);
    let (_, faults, db) = faulty(tiny());
    faults.inject(no_tables());
    let mut model = Model::new();
    // More than a memtable, less than all of them may hold.
    fill(&db, &mut model, 0, 250).1.unwrap();
    until(|| db.stats().shortage.is_some());
    let told = db.stats().shortage.unwrap();
    assert!(told.contains(".sst"), "{told}");
    until(|| counter(&db, "shortages") > 0);
    faults.reset();
    until(|| counter(&db, "flushes") > 0);
    until(|| db.stats().shortage.is_none());
    assert_eq!(contents(&db), model);
    db.put("writes", "go on").unwrap();
}

#[test]
fn who_waits_for_memory_is_told_that_the_disk_is_full() {
    let _watchdog = Watchdog::new("waiting on a full disk", 100);
    let (_, faults, db) = faulty(tiny());
    faults.inject(no_tables());
    let mut model = Model::new();
    let (taken, refused) = fill(&db, &mut model, 0, 100_000);
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("by itself"), "{error}");
    let memory = db.stats().memory.memtables;
    assert!(
        memory <= 9 << 20,
        "{memory} bytes of memtables, {taken} writes"
    );
    faults.reset();
    until(|| db.put("more", "again").is_ok());
    model.insert(b"more".to_vec(), b"again".to_vec());
    assert_eq!(contents(&db), model);
}

#[test]
fn a_journal_that_no_flush_can_shorten_stops_at_its_bound() {
    let _watchdog = Watchdog::new("the journal of a full disk", 100);
    let (_, faults, db) = faulty(tiny());
    faults.inject(no_tables());
    // One key fills no memtable. More than any bound, were it not kept.
    let refused = (0..200_000).find_map(|_| db.put("hot", [7; 1_000]).err());
    let error = refused.expect("the journal takes 200 MB");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("by itself"), "{error}");
    faults.reset();
    until(|| db.put("hot", "again").is_ok());
    until(|| {
        db.put("hot", "again").unwrap_or_default();
        db.stats().journal.unflushed_bytes < 32 << 20
    });
    assert_eq!(db.get("hot").unwrap().unwrap(), "again");
}

#[test]
fn a_database_closes_and_drops_while_the_disk_is_full() {
    let _watchdog = Watchdog::new("closing on a full disk", 100);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let other = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0, 300).1.unwrap();
    other.put("k", "v").unwrap();
    fs.set_space_max(Some(fs.space_used()));
    let (_, refused) = fill(&db, &mut model, 300, 20_000);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoSpace);
    let told = [db.flush(), db.compact(), db.drop_keyspace("other")];
    for error in told.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    }
    db.close().unwrap();
    fs.set_space_max(None);
    assert_eq!(contents(&on(&fs, tiny())), model);
}

#[test]
fn large_values_that_are_refused_keep_no_space() {
    let (fs, faults, db) = faulty(alone());
    // The journal has no room for the record, which comes after the value's file.
    faults.inject(Rule::every(Fault::NoSpace).on(".seg"));
    let mut model = Model::new();
    fill(&db, &mut model, 0, 1_000).1.unwrap_err();
    // Nor for a smaller one: a large value's refers to its file.
    while db.put("s", "").is_ok() {}
    model.insert(b"s".to_vec(), Vec::new());
    let used = fs.space_used();
    for _ in 0..20 {
        let error = db.put("large", vec![1; 100_000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    }
    assert_eq!(fs.space_used(), used);
    faults.reset();
    db.put("large", vec![1; 100_000]).unwrap();
    model.insert(b"large".to_vec(), vec![1; 100_000]);
    assert_eq!(contents(&db), model);
}

#[test]
fn a_sync_that_meets_a_full_disk_is_no_write_refused() {
    let (_, faults, db) = faulty(alone());
    db.put("k", "v").unwrap();
    faults.inject(Rule::every(Fault::NoSpace).of(Operation::SyncData));
    faults.inject(Rule::every(Fault::NoSpace).of(Operation::SyncMap));
    let error = db.persist().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    faults.reset();
    let error = db.put("k", "v").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
}

#[test]
fn a_close_needs_no_room_in_the_manifest() {
    let (fs, faults, db) = faulty(alone());
    db.put("k", "v").unwrap();
    let full = Rule::every(Fault::NoSpace).of(Operation::Write);
    faults.inject(full.on("MANIFEST"));
    db.close().unwrap();
    assert!(faults.fired() > 0);
    assert_eq!(on(&fs, alone()).get("k").unwrap().unwrap(), "v");
}

#[test]
fn too_many_open_files_in_the_background_end_nothing() {
    let _watchdog = Watchdog::new("too many files", 100);
    let (_, faults, db) = faulty(tiny());
    let rule = Rule::every(Fault::TooManyFiles).of(Operation::Create);
    faults.inject(rule.on(".sst").times(3));
    let mut model = Model::new();
    fill(&db, &mut model, 0, 250).1.unwrap();
    until(|| counter(&db, "flushes") > 0);
    assert_eq!(faults.fired(), 3);
    fill(&db, &mut model, 250, 1_000).1.unwrap();
    assert_eq!(contents(&db), model);
}

#[test]
fn a_flush_that_fails_leaves_no_tables() {
    let (fs, faults, db) = faulty(alone());
    let other = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    let mut model = Model::new();
    for round in 0..3 {
        fill(&db, &mut model, round * 50, 50).1.unwrap();
        other.put(round.to_be_bytes(), "a value").unwrap();
        // The first keyspace's table is written, the second's is not.
        faults.inject(no_tables().nth(2));
        let error = db.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        faults.reset();
        assert_eq!(tables(&fs), 0, "{:?}", fs.files());
    }
    db.flush().unwrap();
    assert_eq!(contents(&db), model);
    assert_eq!(contents(&other).len(), 3);
}

/// What a crash left of two keyspaces that are in the journal only.
fn to_recover() -> MemFs {
    let fs = MemFs::new();
    let db = on(&fs, alone());
    let other = db
        .create_keyspace("other", KeyspaceOptions::default())
        .unwrap();
    for number in 0..100u32 {
        let value = vec![1; 2_000];
        db.put(number.to_be_bytes(), &value).unwrap();
        other.put(number.to_be_bytes(), &value).unwrap();
    }
    db.persist().unwrap();
    fs.crash(1, CrashMode::KeepAll)
}

fn names(fs: &MemFs) -> Vec<std::path::PathBuf> {
    let is_manifest = |path: &std::path::PathBuf| path.to_string_lossy().contains("MANIFEST");
    let mut files = fs.files();
    files.retain(|path| !is_manifest(path));
    files
}

#[test]
fn an_opening_that_fails_leaves_nothing_behind() {
    let second_table = no_tables().nth(2);
    let writes = Rule::every(Fault::NoSpace).of(Operation::Write);
    // Of the manifest's writes the first two make a new one of it.
    let last_edit = writes.on("MANIFEST").nth(3);
    let new_journal = Rule::every(Fault::NoSpace).of(Operation::Create).on(".seg");
    for rule in [second_table, last_edit, new_journal] {
        let fs = to_recover();
        let before = names(&fs);
        for _ in 0..5 {
            let faults = FaultFs::over_mem(&fs);
            faults.inject(rule.clone());
            let error = try_on(Arc::new(faults), alone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            assert_eq!(names(&fs), before, "{error}");
        }
        let db = on(&fs, alone());
        assert_eq!(contents(&db).len(), 100);
        assert_eq!(contents(&db.keyspace("other").unwrap()).len(), 100);
        db.close().unwrap();
    }
}

#[test]
fn an_opening_finds_the_room_that_one_which_was_cut_off_left_taken() {
    let fs = to_recover();
    let left = (1_000..1_010).map(|file| format!("/db/{file:06}.sst"));
    for path in left {
        fs.write_file(path.as_ref(), &[7; 50_000]).unwrap();
    }
    fs.set_space_max(Some(fs.space_used() + 150_000));
    let db = on(&fs, alone());
    assert_eq!(contents(&db).len(), 100);
    db.close().unwrap();
    assert!(tables(&fs) < 10);
}
