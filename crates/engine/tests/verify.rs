//! What `verify` reads, and that it finds what was damaged beneath an open database.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella::vfs::MemFs;
use velella::{Db, Durability, ErrorKind};

fn sole(dir: &Path, extension: &str) -> PathBuf {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files = entries.filter(|path| path.extension().is_some_and(|found| found == extension));
    let file = files.next().expect("there is one");
    assert_eq!(files.next(), None, "only one");
    file
}

/// Flips a bit in place, as a device would: whoever has the file open or mapped sees it.
fn flip(path: &Path, offset: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}

fn with_external(dir: &Path) -> Db {
    let db = velella::open(dir).unwrap();
    db.put("large", vec![7; 2 << 20]).unwrap();
    db.put("small", "1").unwrap();
    db.flush().unwrap();
    db
}

/// Header, filter, index, properties and footer are read when a table is opened, and then again.
#[test]
fn all_of_a_table_is_read_again_beneath_an_open_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = velella::open(dir.path()).unwrap();
    for key in 0..1000u32 {
        db.put(key.to_be_bytes(), "value").unwrap();
    }
    db.flush().unwrap();
    let table = sole(dir.path(), "sst");
    let bytes = fs::metadata(&table).unwrap().len();
    for offset in (0..8).chain(bytes - 3000..bytes) {
        flip(&table, offset);
        let error = db.verify().expect_err("a damaged byte");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{offset}: {error}");
        assert_eq!(error.file(), Some(&*table), "{offset}");
        flip(&table, offset);
    }
    db.verify().unwrap();
}

#[test]
fn everything_is_read_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let db = with_external(dir.path());
    db.put("later", "2").unwrap();
    db.persist().unwrap();
    for name in [
        "notes.txt",
        "journal/notes.txt",
        "journal/900001.sst",
        "900002.seg",
    ] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let (mut last, mut total) = (0, 0);
    let report = db
        .verify_with(&mut |read, all| {
            assert!(last <= read && read <= all, "{last} {read} {all}");
            (last, total) = (read, all);
        })
        .unwrap();
    assert_eq!((report.tables, report.entries, report.externals), (1, 2, 1));
    assert_eq!((report.bytes, report.bytes), (last, total));
    assert!(
        report.bytes > 2 << 20 && report.manifest_edits > 0,
        "{report:?}"
    );
    assert!(report.journal_records.unwrap() >= 1, "{report:?}");
    assert_eq!(
        report.foreign_files,
        [
            "900002.seg",
            "notes.txt",
            "journal/900001.sst",
            "journal/notes.txt"
        ]
    );
}

#[test]
fn a_damaged_external_value_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let db = with_external(dir.path());
    let external = sole(dir.path(), "ext");
    flip(&external, 1 << 20);
    let error = db.verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(external.as_path()));
    flip(&external, 1 << 20);
    db.verify().unwrap();
}

#[test]
fn a_missing_or_short_external_value_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let db = with_external(dir.path());
    let external = sole(dir.path(), "ext");
    let file = OpenOptions::new().write(true).open(&external).unwrap();
    file.set_len(1000).unwrap();
    assert_eq!(db.verify().unwrap_err().kind(), ErrorKind::Corruption);
    fs::remove_file(&external).unwrap();
    for error in [db.verify().unwrap_err(), db.get("large").unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(error.file(), Some(external.as_path()));
    }
}

#[test]
fn a_damaged_durable_record_of_the_running_journal_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder()
        .durability(Durability::Sync)
        .open(dir.path())
        .unwrap();
    for index in 0..100 {
        db.put(format!("key{index}"), "a-value-to-be-found")
            .unwrap();
    }
    assert_eq!(db.verify().unwrap().journal_records, Some(100));
    let segments = fs::read_dir(dir.path().join("journal")).unwrap();
    let (segment, at) = segments
        .map(|entry| entry.unwrap().path())
        .find_map(|path| {
            let bytes = fs::read(&path).unwrap();
            let at = bytes
                .windows(19)
                .position(|found| found == b"a-value-to-be-found")?;
            Some((path, at as u64))
        })
        .expect("some segment has it");
    flip(&segment, at);
    let error = db.verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    flip(&segment, at);
    assert_eq!(db.verify().unwrap().journal_records, Some(100));
}

#[test]
fn a_journal_that_goes_on_is_not_taken_for_damage() {
    let db = Db::builder()
        .vfs(Arc::new(MemFs::new()))
        .write_buffer(64 << 10)
        .memory(velella::MEMORY_MIN)
        .open("db")
        .unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for index in 0..2000 {
                db.put(format!("key{index}"), vec![3; 500]).unwrap();
                if index % 20 == 0 {
                    db.persist().unwrap();
                }
            }
        });
        while !writer.is_finished() {
            db.verify().unwrap();
        }
    });
}

#[test]
fn a_database_without_a_journal_is_verified_too() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder()
        .journal(velella::JournalMode::Off)
        .open(dir.path())
        .unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    assert_eq!(db.verify().unwrap().journal_records, None);
}
