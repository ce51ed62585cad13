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
