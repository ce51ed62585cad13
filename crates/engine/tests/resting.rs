//! Many short scans while tables come and go: each sees all that was written before it, and what
//! they leave behind keeps no file.
//!
//! Claims: `resting.rs` R1, R2.

use crate::common::{DIR, counter, on, tiny, until};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella::vfs::{MemFs, Vfs};
use velella_sync::epoch;
use velella_testkit::Watchdog;

const KEYS: u64 = 200;
const ROUNDS: u64 = 150;

/// The least value that a scan of all pairs finds; there must be all of them.
fn least(db: &velella::Db) -> u64 {
    let mut iter = db.iter().unwrap();
    let (mut count, mut least) = (0, u64::MAX);
    while iter.step().unwrap() {
        let value = iter.value().unwrap().try_into().expect("eight bytes");
        least = least.min(u64::from_be_bytes(value));
        count += 1;
    }
    assert_eq!(count, KEYS);
    least
}

#[test]
fn scans_see_what_was_written_before_them_while_tables_come_and_go() {
    let _watchdog = Watchdog::new("scans_see_what_was_written", 120);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let put_all = |round: u64| {
        for key in 0..KEYS {
            db.put(key.to_be_bytes(), round.to_be_bytes()).unwrap();
        }
    };
    put_all(0);
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let before = written.load(Ordering::Acquire);
                    let seen = least(&db);
                    assert!(seen >= before, "{seen} was found after {before}");
                }
            });
        }
        for round in 1..=ROUNDS {
            put_all(round);
            written.store(round, Ordering::Release);
            match round % 10 {
                0 => db.compact().unwrap(),
                5 => {}
                _ => db.flush().unwrap(),
            }
        }
        done.store(true, Ordering::Release);
    });
    assert!(counter(&db, "cursors_taken_over") > 0);
    let tables = || {
        let files = fs.read_dir(Path::new(DIR)).unwrap();
        let is_table = |path: &&PathBuf| path.extension().is_some_and(|end| end == "sst");
        files.iter().filter(is_table).count()
    };
    // As a thread of another test does that reads: what goes meanwhile has gone a little later.
    let reads = epoch::pin();
    db.compact().unwrap();
    drop(reads);
    until(|| {
        db.compact().unwrap();
        tables() == 1
    });
    db.close().unwrap();
    assert_eq!(tables(), 1);
}
