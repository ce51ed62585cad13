//! What tables hold was durable, whatever is left of the journal's seals.
//!
//! Claims: `agreement.rs`, G4; docs/format/journal.md, "Recovery".

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{alone, contents, on, try_on};
use std::path::PathBuf;
use std::sync::Arc;
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{ErrorKind, WriteBatch};
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

/// The last seal is lost that covers a batch over two keyspaces, one of which was flushed.
#[test]
fn a_batch_half_of_which_is_in_tables_is_not_half_given_up() {
    let _watchdog = Watchdog::new("a batch half in tables", 200);
    for rounds in 0..20 {
        let fs = MemFs::new();
        let db = on(&fs, alone());
        let (one, other) = (
            db.default_keyspace(),
            db.create_keyspace("other", Default::default()).unwrap(),
        );
        for round in 0..rounds {
            other.put([round], "before").unwrap();
            db.persist().unwrap();
        }
        let mut batch = WriteBatch::new();
        batch.put(&one, "key", "in the journal");
        batch.put(&other, "key", "in a table");
        db.write(&batch).unwrap();
        other.flush().unwrap();
        let fs = fs.crash(0, CrashMode::Strict);
        drop(db);
        let mut refused = 0;
        for (path, page, copy) in without_pages(&fs) {
            let place = format!("{} page at {page} of {rounds}", path.display());
            match try_on(Arc::new(copy), alone()) {
                Ok(db) => {
                    let (one, other) = (db.default_keyspace(), db.keyspace("other").unwrap());
                    assert_eq!(contents(&one).len(), 1, "{place}");
                    assert_eq!(contents(&other).len(), usize::from(rounds) + 1, "{place}");
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{place}: {error}");
                    assert!(
                        error.file().is_some() && error.offset().is_some(),
                        "{error}"
                    );
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
    }
}
