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

/// Opens a directory in which `CURRENT` is LevelDB's or RocksDB's, beside these files.
fn open_anothers(create: bool, files: &[(&str, &[u8])]) -> velella::Error {
    let disk = MemFs::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    for (name, bytes) in files {
        let path = Path::new("/db").join(name);
        disk.write_file(&path, bytes).unwrap();
    }
    let opened = Db::builder()
        .vfs(Arc::new(disk.clone()))
        .memory(velella::MEMORY_MIN)
        .create(create)
        .open("/db");
    let error = opened.unwrap_err();
    assert_eq!(disk.read_dir(Path::new("/db")).unwrap().len(), files.len());
    for (name, bytes) in files {
        let path = Path::new("/db").join(name);
        assert_eq!(disk.read_file(&path).unwrap(), *bytes, "{name}");
    }
    error
}

#[test]
fn a_database_of_another_library_is_said_to_be_that_and_left_alone() {
    let (current, manifest) = (
        b"MANIFEST-000005\n",
        b"\x56\xf9\xb8\xf8\x1c\0\x01\x01\x1aleveldb",
    );
    let lock = ("LOCK", &b""[..]);
    let whole = [
        ("CURRENT", &current[..]),
        lock,
        ("MANIFEST-000005", &manifest[..]),
        ("000004.log", b"a log"),
        ("000007.sst", &[7; 100]),
    ];
    let long = [
        ("CURRENT", &b"MANIFEST-1000005\n"[..]),
        lock,
        ("MANIFEST-1000005", &manifest[..]),
    ];
    let without_manifest = [("CURRENT", &current[..]), lock];
    let torn = [("CURRENT", &current[..]), lock, ("MANIFEST-000005", b"x")];
    for create in [true, false] {
        for files in [&whole[..], &long, &without_manifest, &torn] {
            let error = open_anothers(create, files);
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
            let told = error.to_string();
            assert!(told.contains("LevelDB or RocksDB"), "{told}");
            assert!(!told.contains("restore"), "that would destroy it: {told}");
        }
    }
}

#[test]
fn a_current_of_ours_that_lost_its_checksum_is_damaged() {
    let disk = MemFs::new();
    open(&disk, "/db").unwrap().close().unwrap();
    let path = Path::new("/db/CURRENT");
    let line = disk.read_file(path).unwrap();
    let name = line.split(|byte| *byte == b' ').next().unwrap();
    let manifest = Path::new("/db").join(std::str::from_utf8(name).unwrap());
    let whole = disk.read_file(&manifest).unwrap();
    disk.write_file(path, &[name, b"\n"].concat()).unwrap();
    // The manifest's beginning tells, and the journal beside it.
    let zeroed = [&[0; 8], &whole[8..]].concat();
    for start in [&whole, &zeroed] {
        disk.write_file(&manifest, start).unwrap();
        let error = open(&disk, "/db").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("no checksum"), "{error}");
    }
    disk.write_file(&manifest, &whole).unwrap();
    disk.write_file(path, &line).unwrap();
    open(&disk, "/db").unwrap();
}

#[test]
fn without_a_journal_the_manifest_alone_tells_whose_a_current_is() {
    let disk = MemFs::new();
    let open = || {
        Db::builder()
            .vfs(Arc::new(disk.clone()))
            .journal(JournalMode::Off)
            .memory(velella::MEMORY_MIN)
            .open("/db")
    };
    open().unwrap().close().unwrap();
    assert!(!disk.exists(Path::new("/db/journal")).unwrap());
    let path = Path::new("/db/CURRENT");
    let line = disk.read_file(path).unwrap();
    let name = line.split(|byte| *byte == b' ').next().unwrap();
    disk.write_file(path, &[name, b"\n"].concat()).unwrap();
    assert_eq!(open().unwrap_err().kind(), ErrorKind::Corruption);
}
