//! Seek compaction: what seeks look for in many places is gathered, and nobody notices but by time.
//!
//! Claims: `gather.rs` G1, through the public API with the workers at work.

use crate::common::{contents, counter, fresh, until};
use std::sync::Arc;
use velella::Db;
use velella::simulation::{self, Sizes, Step};
use velella::vfs::MemFs;
use velella_testkit::Watchdog;

/// 600 keys, some of them overwritten and some deleted, in tables of level 0 and in memory.
fn scattered() -> Db {
    let db = fresh();
    for round in 0..3 {
        for key in (round..600).step_by(2) {
            db.put(format!("key{key:05}"), format!("{round}")).unwrap();
        }
        if round < 2 {
            db.delete(format!("key{:05}", 7 * round)).unwrap();
            db.flush().unwrap();
        }
    }
    db
}

fn seek_until_gathered(db: &Db) {
    let before = counter(db, "gatherings");
    let mut key = 0;
    until(|| {
        for _ in 0..100 {
            key = (key + 7) % 600;
            let mut iter = db.iter().unwrap();
            assert!(iter.seek(format!("key{key:05}")).unwrap() || key == 599);
        }
        counter(db, "gatherings") > before
    });
}

#[test]
fn seeks_leave_one_place_to_look_in() {
    let _watchdog = Watchdog::new("seeks_leave_one_place", 60);
    let db = scattered();
    seek_until_gathered(&db);
    let stats = db.stats();
    let levels = &stats.keyspaces[0].levels;
    assert_eq!(levels[0].tables, 0, "{levels:?}");
    assert!(levels[1].tables > 0, "{levels:?}");
    assert_eq!(stats.keyspaces[0].immutable_memtables, 0);
}

#[test]
fn gathering_changes_no_answer_and_keeps_what_a_snapshot_sees() {
    let _watchdog = Watchdog::new("gathering_changes_no_answer", 60);
    let db = scattered();
    let keyspace = db.default_keyspace();
    let expected = contents(&keyspace);
    let snapshot = db.snapshot();
    for key in 0..600 {
        db.put(format!("key{key:05}"), "later").unwrap();
    }
    seek_until_gathered(&db);
    assert_eq!(contents(&keyspace).len(), 600);
    for key in 0..600 {
        let key = format!("key{key:05}").into_bytes();
        let old = snapshot
            .get(&keyspace, &key)
            .unwrap()
            .map(|value| value.to_vec());
        assert_eq!(old.as_ref(), expected.get(&key));
        assert_eq!(db.get(&key).unwrap().unwrap().to_vec(), b"later");
    }
}

#[test]
fn a_simulated_database_gathers_when_it_is_told_to() {
    let fs = Arc::new(MemFs::new());
    let db = Db::builder()
        .simulated(Sizes::SMALL)
        .vfs(fs)
        .open("/db")
        .unwrap();
    for value in ["1", "2", "3"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    simulation::step(&db, Step::Gather).unwrap();
    let levels = &db.stats().keyspaces[0].levels;
    assert_eq!(levels[0].tables, 0, "{levels:?}");
    assert_eq!(counter(&db, "gatherings"), 1);
    simulation::step(&db, Step::Gather).unwrap();
    assert_eq!(counter(&db, "gatherings"), 1, "there is one place left");
    assert_eq!(db.get("key").unwrap().unwrap().to_vec(), b"3");
}
