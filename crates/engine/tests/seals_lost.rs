//! What tables hold was durable, whatever is left of the journal's seals.
//!
//! Claims: `agreement.rs`, G4; docs/format/journal.md, "Recovery".

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{alone, contents, on, try_on};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{Db, Error, ErrorKind, WriteBatch};
use velella_testkit::Watchdog;

const PAGE: usize = 4096;

/// A copy of `fs` for each page of each journal file, without it.
fn without_pages(fs: &MemFs) -> Vec<(PathBuf, usize, MemFs)> {
    let mut copies = Vec::new();
    for path in fs.files() {
        let name = path.to_string_lossy().into_owned();
        if !name.contains("journal") {
            continue;
        }
        let bytes = fs.read_file(&path).unwrap();
        for page in (0..bytes.len()).step_by(PAGE) {
            let end = bytes.len().min(page + PAGE);
            if bytes[page..end].iter().all(|&byte| byte == 0) {
                continue;
            }
            let mut without = bytes.clone();
            without[page..end].fill(0);
            let copy = fs.image(0, CrashMode::KeepAll);
            copy.write_file(&path, &without).unwrap();
            copies.push((path.clone(), page, copy));
        }
    }
    copies
}

/// What waits for a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Flush,
    Creation,
    Drop,
}

/// The last seal is lost that covers a batch over two keyspaces; one was flushed or dropped after
/// it, or a third created.
#[test]
fn what_a_flush_a_creation_or_a_drop_waited_for_is_not_given_up() {
    let _watchdog = Watchdog::new("seals lost", 200);
    for waits in [Waits::Flush, Waits::Creation, Waits::Drop] {
        for rounds in 0..20 {
            let fs = written(waits, rounds);
            let mut refused = 0;
            for (path, page, copy) in without_pages(&fs) {
                let place = format!("{waits:?}, {} page at {page} of {rounds}", path.display());
                match try_on(Arc::new(copy), alone()) {
                    Ok(db) => assert_whole(&db, waits, rounds, &place),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{place}: {error}");
                        assert_placed(&error, &path, page);
                        refused += 1;
                    }
                }
            }
            assert!(refused > 0);
        }
    }
}

/// `rounds` rounds, a batch over two keyspaces, and what waits for it.
fn written(waits: Waits, rounds: u8) -> MemFs {
    let fs = MemFs::new();
    let db = on(&fs, alone());
    let one = db.default_keyspace();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    for round in 0..rounds {
        other.put([round], "before").unwrap();
        db.persist().unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.put(&one, "key", "a").put(&other, "key", "b");
    db.write(&batch).unwrap();
    match waits {
        Waits::Flush => other.flush().unwrap(),
        Waits::Creation => drop(db.create_keyspace("third", Default::default()).unwrap()),
        Waits::Drop => db.drop_keyspace("other").unwrap(),
    }
    fs.crash(0, CrashMode::Strict)
}

fn assert_whole(db: &Db, waits: Waits, rounds: u8, place: &str) {
    assert_eq!(contents(&db.default_keyspace()).len(), 1, "{place}");
    match db.keyspace("other") {
        Ok(other) => assert_eq!(contents(&other).len(), usize::from(rounds) + 1, "{place}"),
        Err(error) => assert!(waits == Waits::Drop, "{place}: {error}"),
    }
    assert_eq!(
        db.keyspace("third").is_ok(),
        waits == Waits::Creation,
        "{place}"
    );
}

/// Where a lost seal is missed, the error names its page, or in its words the other file that it
/// may have stood in.
fn assert_placed(error: &Error, path: &Path, page: usize) {
    let at = error.offset().expect("a place");
    let text = error.to_string();
    if text.contains("the next is lost") {
        let here = error.file() == Some(path) && at / PAGE as u64 == (page / PAGE) as u64;
        let there = path.extension().is_some_and(|kind| kind == "seal");
        assert!(
            here || there && text.contains(&*path.to_string_lossy()),
            "{page}: {text}"
        );
    }
}
