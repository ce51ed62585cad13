//! Background threads beside each other, and when one of them cannot be started.

use crate::fixture::{fresh, until};
use velella_testkit::Watchdog;

#[test]
fn a_worker_compacts_while_a_flush_is_under_way() {
    let _watchdog = Watchdog::new("a_worker_compacts", 60);
    let (db, engine) = fresh();
    // Enough tables in level 0 for a compaction, which this keeps from the workers.
    let whole = engine.compacting.write();
    for round in 0..8u32 {
        db.put(round.to_be_bytes(), "v").unwrap();
        db.put("again", "v").unwrap();
        db.flush().unwrap();
    }
    // A flush that takes its time, and another that is due.
    let turn = engine.flushes.pause();
    db.put("late", "v").unwrap();
    engine.switch(&engine.cores());
    assert!(!engine.flushes.is_empty());
    drop(whole);
    engine.work.wake_all();
    until(|| engine.counters.compactions.sum() > 0);
    drop(turn);
    until(|| engine.flushes.is_empty());
}
