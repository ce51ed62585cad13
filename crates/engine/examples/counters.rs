//! Several threads count in one database, while snapshots look on.
//!
//! Run it with `cargo run --release -p velella --example counters`. It checks itself: no increment
//! is lost, and every snapshot is one consistent view.

use std::sync::atomic::{AtomicBool, Ordering};
use velella::{Db, Decision};

const THREADS: usize = 4;
const INCREMENTS: u64 = 20_000;

fn main() -> velella::Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let db = velella::open(dir.path())?;
    db.put("left", "0")?;
    db.put("right", "0")?;

    let running = AtomicBool::new(true);
    let (snapshots, retries) = std::thread::scope(|scope| -> velella::Result<_> {
        let watcher = scope.spawn(|| watch(&db, &running));
        let writers: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| count(&db))).collect();
        let mut retries = 0;
        for writer in writers {
            retries += writer.join().expect("a writer does not panic")?;
        }
        running.store(false, Ordering::Relaxed);
        Ok((
            watcher.join().expect("the watcher does not panic")?,
            retries,
        ))
    })?;

    let total = number(&db.get("right")?.expect("it was written"));
    println!("{THREADS} threads added 1 {INCREMENTS} times each: {total}");
    println!("{snapshots} snapshots were consistent; decisions ran again {retries} times");
    assert_eq!(total, THREADS as u64 * INCREMENTS);
    db.close()
}

/// Adds 1 to both counters, again and again, left first; says how often a decision ran again.
fn count(db: &Db) -> velella::Result<u64> {
    let mut runs = 0;
    for _ in 0..INCREMENTS {
        db.rmw("left", |old| {
            runs += 1;
            let next = old.map_or(0, number) + 1;
            Decision::put(next.to_string())
        })?;
        db.increment("right", 1)?;
    }
    Ok(runs - INCREMENTS)
}

/// Takes snapshots until the writers are done. In each, `left` leads by at most one a thread.
fn watch(db: &Db, running: &AtomicBool) -> velella::Result<u64> {
    let mut taken = 0;
    while running.load(Ordering::Relaxed) {
        let snapshot = db.snapshot();
        let left = number(&snapshot.get(db, "left")?.expect("it was written"));
        let right = number(&snapshot.get(db, "right")?.expect("it was written"));
        assert!(
            right <= left && left <= right + THREADS as u64,
            "{left} and {right}"
        );
        taken += 1;
    }
    Ok(taken)
}

fn number(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).expect("only digits were written");
    text.parse().expect("only digits were written")
}
