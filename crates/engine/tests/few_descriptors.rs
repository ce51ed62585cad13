//! A process that may open few files goes on writing, whatever its journal would like to keep.
//!
//! A test binary of its own: it lowers the limit of the whole process.

#![cfg(target_os = "linux")]

use rustix::process::{Resource, Rlimit, setrlimit};
use std::thread;
use std::time::Duration;
use velella::Db;
use velella_testkit::Watchdog;

const LIMIT: u64 = 120;
const KEYS: u32 = 50;

#[test]
fn overwriting_few_keys_ends_whatever_the_journal_would_keep_open() {
    let _watchdog = Watchdog::new("overwriting_few_keys", 120);
    let limit = Rlimit {
        current: Some(LIMIT),
        maximum: Some(LIMIT),
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().memory(64 << 20).open(dir.path()).unwrap();
    // The memtable never fills: only the journal grows, and each of its segments keeps files open.
    for turn in 0..50_000u32 {
        while let Err(error) = db.put((turn % KEYS).to_be_bytes(), [7; 4_000]) {
            assert!(error.to_string().contains("Too many open files"), "{error}");
            // A flush gives some back, and it needs one itself.
            thread::sleep(Duration::from_millis(10));
        }
    }
    db.compact().unwrap();
    assert_eq!(db.stats().shortage, None);
    db.close().unwrap();
}
