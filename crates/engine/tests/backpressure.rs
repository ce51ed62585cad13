//! Writers are held back before memory runs away, and every wait has a cause.
//!
//! Claims: `backpressure.rs` A1, A2; `budget.rs` B1.

use crate::common::{alone, counter, tiny, try_on};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use velella::simulation::{self, Step};
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::{FaultFs, MemFs, Operation};
use velella::{Db, ErrorKind};
use velella_testkit::Watchdog;

/// How often writers waited for `cause`, and for how many microseconds in all.
fn stalled(db: &Db, cause: &str) -> (u64, u64) {
    let stalls = db.stats().stalls;
    let stall = stalls.iter().find(|stall| stall.cause == cause).unwrap();
    (stall.count, stall.total_us)
}

#[test]
fn a_wait_for_a_segment_is_told_as_one_for_the_journal() {
    let slow = FaultFs::over_mem(&MemFs::new());
    // Without threads: the writer makes its segments itself.
    let db = try_on(Arc::new(slow.clone()), alone()).unwrap();
    let delay = Fault::Delay(Duration::from_millis(5));
    slow.inject(Rule::every(delay).of(Operation::Create).on(".seg"));
    for turn in 0..100u32 {
        db.put(turn.to_be_bytes(), vec![1; 1_000]).unwrap();
    }
    assert!(slow.fired() > 0);
    let (count, micros) = stalled(&db, "journal");
    assert!(count >= 1 && micros >= 5_000, "{count} waits, {micros} us");
}

#[test]
fn a_stalled_flush_stops_writers_and_says_so() {
    let _watchdog = Watchdog::new("a_stalled_flush", 200);
    let slow = FaultFs::over_mem(&MemFs::new());
    let db = try_on(Arc::new(slow.clone()), tiny()).unwrap();
    slow.inject(Rule::every(Fault::Delay(Duration::from_millis(10))).on(".sst"));
    let limit = 16 << 20;
    let stalled = || stalled(&db, "flush");
    let mut turn = 0u32;
    // More than the limit; and however slowly a busy machine lets this thread write.
    while u64::from(turn) * 3_000 < limit || stalled().1 == 0 {
        db.put((turn % 1_200).to_be_bytes(), vec![1; 3_000])
            .unwrap();
        assert!(db.stats().memory.memtables < limit / 2 + (1 << 20));
        turn += 1;
    }
    assert!(stalled().0 > 0, "{:?}", stalled());
}

#[test]
fn writers_stay_within_the_budget_whatever_they_write() {
    let _watchdog = Watchdog::new("writers_stay_within_the_budget", 200);
    let db = try_on(Arc::new(MemFs::new()), tiny()).unwrap();
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let (db, written) = (&db, &written);
            scope.spawn(move || {
                for turn in 0..7_000u32 {
                    let key = [thread, turn].map(u32::to_be_bytes).concat();
                    db.put(&key, vec![1; 4_000]).unwrap();
                    // Relaxed: a sum.
                    written.fetch_add(4_000, Ordering::Relaxed);
                    if turn % 50 == 0 {
                        let memory = db.stats().memory;
                        let taken = memory.memtables
                            + memory.spare
                            + memory.block_cache
                            + memory.journal_mappings;
                        assert!(taken <= memory.budget + memory.budget / 5, "{memory:?}");
                        assert!(db.contains(&key).unwrap());
                    }
                }
            });
        }
    });
    assert!(written.into_inner() >= 5 * db.stats().memory.budget);
}

#[test]
fn what_freed_memtables_leave_is_counted_bounded_and_part_of_the_budget() {
    const BUFFER: u64 = 8 << 20;
    let _watchdog = Watchdog::new("what_freed_memtables_leave", 100);
    let settings = velella::Db::builder().memory(64 << 20).write_buffer(BUFFER);
    let db = try_on(Arc::new(MemFs::new()), settings).unwrap();
    let mut most = 0;
    for turn in 0..20_000u64 {
        db.put(turn.to_be_bytes(), [1; 1_000]).unwrap();
        if turn % 100 == 0 {
            let memory = db.stats().memory;
            most = most.max(memory.spare);
            assert!(memory.spare <= BUFFER, "{memory:?}");
        }
    }
    db.flush().unwrap();
    while most == 0 {
        // The last reader of a memtable may be an epoch that has not passed.
        db.put("k", "v").unwrap();
        most = db.stats().memory.spare;
    }
}

/// Bytes of keys and values that so many threads, in step, put until the memtable is full.
fn held(db: &velella::Db, threads: u32) -> u64 {
    let step = Barrier::new(threads as usize);
    let (full, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    let is_full = || {
        let memtables = db.stats().keyspaces[0].immutable_memtables;
        memtables > 0 || counter(db, "flushes") > 0
    };
    let write = |thread: u32| {
        for round in 0u32.. {
            step.wait();
            if full.load(Ordering::Acquire) {
                return;
            }
            let key = round * threads + thread;
            db.put(key.to_be_bytes(), [7; 100]).unwrap();
            puts.fetch_add(1, Ordering::Relaxed);
            if step.wait().is_leader() {
                full.store(is_full(), Ordering::Release);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let write = &write;
            scope.spawn(move || write(thread));
        }
    });
    104 * puts.into_inner()
}

#[test]
fn a_small_write_buffer_holds_a_good_part_of_what_it_says() {
    for asked in [64 << 10, 256 << 10, 512 << 10, 2 << 20] {
        // One thread leaves hardly anything of a chunk unused.
        let alone = if asked < 2 << 20 { 33 } else { 45 };
        for (threads, percent) in [(1, alone), (8, 12)] {
            let db = try_on(Arc::new(MemFs::new()), tiny().write_buffer(asked)).unwrap();
            let buffer = db.options().write_buffer;
            assert_eq!(buffer, asked.max(256 << 10));
            let held = held(&db, threads);
            let what = format!("{held} bytes by {threads} threads filled {buffer}");
            assert!(100 * held >= percent * buffer, "{what}");
        }
    }
}

#[test]
fn a_compaction_flushes_in_between() {
    let db = try_on(Arc::new(MemFs::new()), alone()).unwrap();
    let write = |turn: u32| {
        for key in 0..400u32 {
            db.put(key.to_be_bytes(), [turn.to_le_bytes(); 25].as_flattened())
                .unwrap();
        }
    };
    for turn in 0..4 {
        write(turn);
        db.flush().unwrap();
    }
    let (flushes, compactions) = (counter(&db, "flushes"), counter(&db, "compactions"));
    // Until a memtable is full: nothing flushes it, since there are no threads.
    let mut turn = 4;
    while db.stats().keyspaces[0].immutable_memtables == 0 {
        write(turn);
        turn += 1;
    }
    assert_eq!(counter(&db, "flushes"), flushes);
    simulation::step(&db, Step::Compact).unwrap();
    assert_eq!(counter(&db, "compactions"), compactions + 1);
    assert_eq!(counter(&db, "flushes"), flushes + 1);
    let last = [(turn - 1).to_le_bytes(); 25];
    for key in 0..400u32 {
        let value = db.get(key.to_be_bytes()).unwrap().unwrap();
        assert_eq!(value.to_vec(), last.as_flattened());
    }
}

#[test]
fn a_flush_that_fails_in_a_compaction_fails_it_and_loses_nothing() {
    compact_while_a_flush_meets(Fault::Io, |compacted, db| {
        let error = compacted.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(counter(db, "compactions"), 0);
    });
}

#[test]
fn a_flush_that_finds_no_room_in_a_compaction_leaves_it_alone() {
    compact_while_a_flush_meets(Fault::NoSpace, |compacted, db| {
        compacted.unwrap();
        assert_eq!(counter(db, "compactions"), 1);
        assert_eq!(db.stats().keyspaces[0].immutable_memtables, 1);
        assert!(db.stats().shortage.is_some());
    });
}

/// Compacts a database without threads in which the flush in between meets `fault`, looks what
/// became of it by `judge`, and whether all is there after another opening.
fn compact_while_a_flush_meets(fault: Fault, judge: impl Fn(velella::Result<()>, &velella::Db)) {
    let faults = FaultFs::over_mem(&MemFs::new());
    let db = try_on(Arc::new(faults.clone()), alone()).unwrap();
    let write = |turn: u32| {
        for key in 0..400u32 {
            let value = [turn.to_le_bytes(); 25];
            db.put(key.to_be_bytes(), value.as_flattened()).unwrap();
        }
    };
    for turn in 0..4 {
        write(turn);
        db.flush().unwrap();
    }
    let mut turn = 4;
    while db.stats().keyspaces[0].immutable_memtables == 0 {
        write(turn);
        turn += 1;
    }
    // The first table begun is the compaction's, the second the flush's.
    faults.inject(Rule::every(fault).nth(2).of(Operation::Create).on(".sst"));
    judge(simulation::step(&db, Step::Compact), &db);
    drop(db);
    faults.reset();
    let db = try_on(Arc::new(faults), alone()).unwrap();
    let last = [(turn - 1).to_le_bytes(); 25];
    for key in 0..400u32 {
        let value = db.get(key.to_be_bytes()).unwrap().unwrap();
        assert_eq!(value.to_vec(), last.as_flattened());
    }
}
