//! The directory of a new database is as durable as what is in it.

use std::path::Path;
use std::sync::Arc;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation, Vfs};
use velella::{Db, ErrorKind, JournalMode};

fn open(vfs: &MemFs, dir: &str) -> velella::Result<Db> {
    Db::builder()
        .vfs(Arc::new(vfs.clone()))
        .memory(velella::MEMORY_MIN)
        .open(dir)
}

#[test]
fn the_directory_and_those_it_lies_in_survive_a_power_loss_once_open_returned() {
    for dir in ["/db", "/var/lib/app/db", "db", "var/db"] {
        let disk = MemFs::new();
        let db = open(&disk, dir).unwrap();
        let after = disk.crash(1, CrashMode::Strict);
        drop(db);
        assert!(
            after.exists(&Path::new(dir).join("CURRENT")).unwrap(),
            "{dir}"
        );
        let again = Db::builder()
            .vfs(Arc::new(after))
            .memory(velella::MEMORY_MIN)
            .create(false)
            .open(dir)
            .unwrap();
        assert_eq!(again.keyspaces(), ["default"]);
    }
}

#[test]
fn directories_that_an_interrupted_creation_left_are_made_durable_by_the_next() {
    let disk = MemFs::new();
    disk.create_dir_all(Path::new("/var/lib/app/db")).unwrap();
    let db = open(&disk, "/var/lib/app/db").unwrap();
    let after = disk.crash(1, CrashMode::Strict);
    drop(db);
    assert!(after.exists(Path::new("/var/lib/app/db/CURRENT")).unwrap());
}

#[test]
fn a_parent_that_may_not_be_opened_is_left_to_who_made_it() {
    let attempt = |kind: Fault| {
        let disk = FaultFs::new(Arc::new(MemFs::new()));
        disk.inject(Rule::every(kind).of(Operation::SyncDir).times(2));
        Db::builder()
            .vfs(Arc::new(disk))
            .journal(JournalMode::Write)
            .memory(velella::MEMORY_MIN)
            .open("/db")
    };
    attempt(Fault::Permission).unwrap();
    assert_eq!(attempt(Fault::Io).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn a_creation_that_is_interrupted_anywhere_is_completed_by_the_next_opening() {
    // Each mode takes every third call, together they take all.
    for (first, mode) in (1..).zip(CrashMode::POWER_LOSSES) {
        for call in (first..).step_by(3) {
            let disk = MemFs::new();
            let faulty = FaultFs::over_mem(&disk);
            faulty.inject(Rule::every(Fault::Io).from_nth(call));
            let outcome = Db::builder()
                .vfs(Arc::new(faulty.clone()))
                .memory(velella::MEMORY_MIN)
                .open("/db");
            drop(outcome);
            let db = open(&disk.crash(call, mode), "/db")
                .unwrap_or_else(|error| panic!("call {call}, {mode:?}: {error}"));
            assert_eq!(db.keyspaces(), ["default"]);
            if faulty.fired() == 0 {
                break;
            }
        }
    }
}

/// What LevelDB and RocksDB leave: files that are called as ours are.
fn of_another(disk: &MemFs) -> Vec<(&'static str, Vec<u8>)> {
    let files = vec![
        ("CURRENT", b"MANIFEST-000005\n".to_vec()),
        ("LOCK", Vec::new()),
        (
            "MANIFEST-000005",
            b"\x56\xf9\xb8\xf8\x1c\0\x01\x01\x1aleveldb.BytewiseComparator".to_vec(),
        ),
        ("000004.log", b"a log".to_vec()),
        ("000007.sst", vec![7; 100]),
    ];
    disk.create_dir_all(Path::new("/db")).unwrap();
    for (name, bytes) in &files {
        disk.write_file(&Path::new("/db").join(name), bytes)
            .unwrap();
    }
    files
}

#[test]
fn a_database_of_another_library_is_said_to_be_that_and_left_alone() {
    for create in [true, false] {
        let disk = MemFs::new();
        let files = of_another(&disk);
        let opened = Db::builder()
            .vfs(Arc::new(disk.clone()))
            .memory(velella::MEMORY_MIN)
            .create(create)
            .open("/db");
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let told = error.to_string();
        assert!(told.contains("LevelDB or RocksDB"), "{told}");
        assert!(!told.contains("restore"), "that would destroy it: {told}");
        assert_eq!(disk.read_dir(Path::new("/db")).unwrap().len(), files.len());
        for (name, bytes) in files {
            let path = Path::new("/db").join(name);
            assert_eq!(disk.read_file(&path).unwrap(), bytes, "{name}");
        }
    }
}

#[test]
fn a_current_without_its_checksum_is_damaged_where_the_manifest_is_ours() {
    let disk = MemFs::new();
    open(&disk, "/db").unwrap().close().unwrap();
    let path = Path::new("/db/CURRENT");
    let line = disk.read_file(path).unwrap();
    let name = line.split(|byte| *byte == b' ').next().unwrap();
    let cut = [name, b"\n"].concat();
    disk.write_file(path, &cut).unwrap();
    assert_eq!(
        open(&disk, "/db").unwrap_err().kind(),
        ErrorKind::Corruption
    );
    disk.write_file(path, &line).unwrap();
    open(&disk, "/db").unwrap();
}
