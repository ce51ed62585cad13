//! More tables than files that may be open.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{counter, tiny};
use std::path::Path;
use std::sync::Arc;
use velella::vfs::OsFs;
use velella::{Builder, Db};

const MOST: usize = 16;
/// What a background thread may read or write at this moment.
const BESIDE: usize = 4;
const KEYSPACES: u32 = 50;

fn builder() -> Builder {
    tiny().vfs(Arc::new(OsFs::new())).open_files(MOST)
}

/// Files of tables that this process has open.
#[cfg(target_os = "linux")]
fn open_tables(dir: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
    let is_table = |path: &std::path::PathBuf| {
        path.starts_with(dir) && path.extension().is_some_and(|of| of == "sst")
    };
    targets.filter(is_table).count()
}

#[cfg(not(target_os = "linux"))]
fn open_tables(_dir: &Path) -> usize {
    0
}

fn check(db: &Db, dir: &Path) {
    for _ in 0..2 {
        for number in 0..KEYSPACES {
            let keyspace = db.keyspace(&number.to_string()).unwrap();
            assert_eq!(keyspace.get("k").unwrap().unwrap(), number.to_le_bytes());
            assert_eq!(keyspace.iter().unwrap().count(), 1);
            let open = open_tables(dir);
            assert!(open <= MOST + BESIDE, "{open}");
        }
    }
}

#[test]
fn a_database_with_more_tables_than_open_files_is_as_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let db = builder().open(&dir).unwrap();
    for number in 0..KEYSPACES {
        let keyspace = db
            .create_keyspace(&number.to_string(), Default::default())
            .unwrap();
        keyspace.put("k", number.to_le_bytes()).unwrap();
        keyspace.flush().unwrap();
    }
    check(&db, &dir);
    db.close().unwrap();
    drop(db);
    let db = builder().open(&dir).unwrap();
    check(&db, &dir);
    db.verify().unwrap();
    assert!(counter(&db, "table_files_reopened") > 0);
    db.drop_keyspace("0").unwrap();
    db.compact().unwrap();
    assert!(open_tables(&dir) <= MOST + BESIDE);
}

#[test]
fn none_at_all_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = builder().open_files(0).open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("open_files"), "{error}");
}
