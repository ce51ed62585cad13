//! Switches of memtables under writers: nothing is left behind, overtaken or met twice.
//!
//! Claims: `view.rs` V1-V4; `switch.rs` S1, S2.

use crate::common::{fresh, number, on, race, tiny, while_writing};
use std::sync::atomic::{AtomicBool, Ordering};
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{JournalMode, Stamp, WriteBatch};
use velella_testkit::Watchdog;

#[test]
fn a_write_between_two_views_of_a_switch_is_not_left_behind() {
    // Without a journal: a keyspace that is empty when its turn comes in a switch, and is written
    // to before W is drawn, belongs to the same cut as what was written after it.
    let _watchdog = Watchdog::new("between_two_views", 200);
    let fs = MemFs::new();
    let db = on(&fs, tiny().journal(JournalMode::Off));
    let first = db.create_keyspace("a", Default::default()).unwrap();
    let last = db.create_keyspace("z", Default::default()).unwrap();
    let between: Vec<_> = (0..40)
        .map(|name| {
            db.create_keyspace(&format!("k{name}"), Default::default())
                .unwrap()
        })
        .collect();
    let write = |turn: u64| {
        between.iter().for_each(|keyspace| {
            keyspace.put("k", "v").unwrap();
        });
        for step in 0..20 {
            let value = (turn * 20 + step).to_le_bytes();
            first.put("cause", value).unwrap();
            last.put("effect", value).unwrap();
        }
    };
    while_writing(150, write, || {
        db.flush().unwrap();
        let after = on(
            &fs.image(1, CrashMode::Strict),
            tiny().journal(JournalMode::Off),
        );
        let read =
            |name: &str, key: &str| after.keyspace(name).unwrap().get_with(key, number).unwrap();
        let (cause, effect) = (read("a", "cause"), read("z", "effect"));
        assert!(
            cause >= effect,
            "effect {effect:?} without its cause, which is {cause:?}"
        );
    });
}

#[test]
fn switch_storm() {
    // A switch every few writes, from several threads at once; nothing is lost or comes twice.
    let _watchdog = Watchdog::new("switch_storm", 200);
    let db = fresh();
    race(4, |thread| {
        for turn in 0..400u32 {
            db.put([thread, turn].map(u32::to_be_bytes).concat(), "v")
                .unwrap();
            db.increment("sum", 1).unwrap();
            if turn % 5 == thread {
                db.flush().unwrap();
            }
        }
    });
    assert_eq!(db.iter().unwrap().count(), 1_601);
    assert_eq!(db.get("sum").unwrap().unwrap(), "1600");
}

#[test]
fn batch_overtaken_by_put() {
    // A put in the new memtable does not overtake a batch that is undecided in the old one.
    let _watchdog = Watchdog::new("batch_overtaken_by_put", 200);
    let db = fresh();
    let stop = AtomicBool::new(false);
    race(3, |thread| match thread {
        0 => {
            for turn in 1..3_000u64 {
                let mut batch = WriteBatch::new();
                batch
                    .put(&db, "a", turn.to_le_bytes())
                    .put(&db, "b", turn.to_le_bytes());
                db.write(&batch).unwrap();
            }
            stop.store(true, Ordering::Release);
        }
        1 => {
            while !stop.load(Ordering::Acquire) {
                db.flush().unwrap();
            }
        }
        _ => {
            while !stop.load(Ordering::Acquire) {
                let before = db
                    .get_entry("b")
                    .unwrap()
                    .map_or(Stamp::ZERO, |entry| entry.stamp);
                let put = db.put("a", u64::MAX.to_le_bytes()).unwrap();
                assert!(put > before);
                // What the put was written over is a whole batch: its other half is there by now.
                let snapshot = db.snapshot();
                let a = snapshot.get_entry(&db, "a").unwrap().unwrap();
                let b = snapshot
                    .get_entry(&db, "b")
                    .unwrap()
                    .map_or(Stamp::ZERO, |entry| entry.stamp);
                assert!(number(&a.value) == u64::MAX || a.stamp == b);
            }
        }
    });
}
