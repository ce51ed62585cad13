//! Writers are held back before memory runs away, and every wait has a cause.
//!
//! Claims: `backpressure.rs` A1, A2; `budget.rs` B1.

mod common;

use common::{tiny, try_on};
use std::sync::Arc;
use std::time::Duration;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::{FaultFs, MemFs};
use velella_testkit::Watchdog;

#[test]
fn a_stalled_flush_stops_writers_and_says_so() {
    let _watchdog = Watchdog::new("a_stalled_flush", 200);
    let slow = FaultFs::over_mem(&MemFs::new());
    let db = try_on(Arc::new(slow.clone()), tiny()).unwrap();
    slow.inject(Rule::every(Fault::Delay(Duration::from_millis(10))).on(".sst"));
    let limit = 16 << 20;
    for turn in 0..1_200u32 {
        db.put(turn.to_be_bytes(), vec![1; 3_000]).unwrap();
        assert!(db.stats().memory.memtables < limit / 2 + (1 << 20));
    }
    let stalls = db.stats().stalls;
    let flush = stalls.iter().find(|stall| stall.cause == "flush").unwrap();
    assert!(flush.count > 0 && flush.total_us > 0, "{stalls:?}");
}

#[test]
fn memory_stays_within_its_budget() {
    let _watchdog = Watchdog::new("memory_stays_within_its_budget", 200);
    let db = try_on(Arc::new(MemFs::new()), tiny()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let db = &db;
            scope.spawn(move || {
                for turn in 0..1_500u32 {
                    let key = [thread, turn % 300].map(u32::to_be_bytes).concat();
                    db.put(&key, vec![1; 4_000]).unwrap();
                    assert!(db.contains(&key).unwrap());
                    if turn % 50 == 0 {
                        let memory = db.stats().memory;
                        let taken = memory.memtables + memory.block_cache + memory.journal_mappings;
                        assert!(taken <= memory.budget + memory.budget / 5, "{memory:?}");
                    }
                }
            });
        }
    });
}
