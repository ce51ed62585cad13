//! What rests, for whom, and until when.

use crate::core::Engine;
use crate::db::Db;
use crate::fixture::{ALONE, open, tiny, until};
use crate::iterator::{Iter, IterOptions};
use crate::keyspace::Keyspace;
use crate::options::KeyspaceOptions;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{ErrorKind, Order};
use velella_sync::atomic::{AtomicBool, Ordering};
use velella_sync::epoch;
use velella_sync::rng::Rng;
use velella_testkit::Watchdog;
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

fn database() -> (Db, Arc<Engine>, MemFs) {
    let fs = MemFs::new();
    let (db, engine) = open(Arc::new(fs.clone()), tiny().simulated(ALONE));
    (db, engine, fs)
}

/// A table of ten pairs.
fn flush(keyspace: &Keyspace, value: &str) {
    for key in 0..10u8 {
        keyspace.put([key], value).unwrap();
    }
    keyspace.flush().unwrap();
}

/// The value of the last pair, as somebody sees it who reads all of them.
fn last(mut iter: Iter) -> Option<String> {
    let mut last = None;
    while iter.step().unwrap() {
        last = Some(String::from_utf8(iter.value().unwrap().to_vec()).unwrap());
    }
    last
}

/// How many files of tables there are.
fn tables(fs: &MemFs) -> usize {
    let files = fs.read_dir(Path::new("/db")).unwrap();
    let is_table = |path: &&PathBuf| path.extension().is_some_and(|end| end == "sst");
    files.iter().filter(is_table).count()
}

fn taken_over(engine: &Engine) -> u64 {
    engine.resting.taken_over.sum()
}

#[test]
fn an_iterator_goes_on_with_the_cursors_of_another_wherever_these_stood() {
    let (db, engine, _) = database();
    flush(&db, "a");
    db.put([20], "in memory").unwrap();
    assert_eq!(last(db.iter().unwrap()).unwrap(), "in memory");
    assert_eq!(engine.resting.len(), 1, "a memtable's cursor does not rest");
    let mut iter = db.iter().unwrap();
    assert_eq!((engine.resting.len(), taken_over(&engine)), (0, 1));
    for (key, there) in [(3u8, 3u8), (9, 9), (0, 0)] {
        assert!(iter.seek([key]).unwrap());
        assert_eq!(iter.key().unwrap(), [there]);
    }
    let beside = db.iter().unwrap();
    assert_eq!(taken_over(&engine), 1, "one cursor is not two iterators'");
    drop(iter);
    assert_eq!(last(beside).unwrap(), "in memory");
    assert_eq!(engine.resting.len(), 1);
    assert_eq!(db.iter().unwrap().rev().count(), 11);
    db.delete([20]).unwrap();
    assert_eq!(last(db.iter().unwrap()).unwrap(), "a");
}

#[test]
fn nothing_rests_beyond_its_version() {
    let _watchdog = Watchdog::new("nothing_rests_beyond_its_version", 60);
    let (db, engine, fs) = database();
    flush(&db, "a");
    let outlives = db.iter().unwrap();
    assert_eq!(last(db.iter().unwrap()).unwrap(), "a");
    assert_eq!(engine.resting.len(), 1);
    flush(&db, "b");
    assert_eq!(engine.resting.len(), 0, "a flush sweeps");
    drop(outlives);
    assert_eq!(
        engine.resting.len(),
        0,
        "what is of an older version is not left"
    );
    assert_eq!(last(db.iter().unwrap()).unwrap(), "b");
    assert_eq!(engine.resting.len(), 2);
    // As another test of this process does that reads, of whatever database.
    let reads = epoch::pin();
    db.compact().unwrap();
    assert_eq!(engine.resting.len(), 0, "a compaction sweeps");
    assert_eq!(tables(&fs), 3, "files stay while somebody reads");
    drop(reads);
    until(|| {
        db.core.tree.clean();
        tables(&fs) == 1
    });
    assert_eq!(last(db.iter().unwrap()).unwrap(), "b");
    assert_eq!(taken_over(&engine), 0);
}

#[test]
fn cursors_of_one_keyspace_are_no_other_s_and_go_with_it() {
    let _watchdog = Watchdog::new("cursors_of_one_keyspace", 60);
    let (db, engine, fs) = database();
    let options = KeyspaceOptions::default;
    let [one, other] = ["one", "other"].map(|name| db.create_keyspace(name, options()).unwrap());
    flush(&one, "one");
    flush(&other, "other");
    for _ in 0..2 {
        assert_eq!(last(one.iter().unwrap()).unwrap(), "one");
        assert_eq!(last(other.iter().unwrap()).unwrap(), "other");
    }
    assert_eq!((engine.resting.len(), taken_over(&engine)), (1, 0));
    let outlives = one.iter().unwrap();
    drop(other.iter().unwrap());
    db.drop_keyspace("one").unwrap();
    assert_eq!((engine.resting.len(), tables(&fs)), (1, 2), "the other's");
    drop(outlives);
    assert_eq!(last(other.iter().unwrap()).unwrap(), "other");
    db.drop_keyspace("other").unwrap();
    assert_eq!(engine.resting.len(), 0);
    until(|| {
        other.core.tree.clean();
        tables(&fs) == 0
    });
}

#[test]
fn after_closing_nothing_rests() {
    let (db, engine, _) = database();
    flush(&db, "a");
    let outlives = db.iter().unwrap();
    assert_eq!(last(db.iter().unwrap()).unwrap(), "a");
    assert_eq!(engine.resting.len(), 1);
    db.close().unwrap();
    assert_eq!(engine.resting.len(), 0);
    drop(outlives);
    assert_eq!(engine.resting.len(), 0);
}

#[test]
fn who_reads_what_was_before_a_table_neither_takes_nor_leaves_cursors() {
    let (db, engine, _) = database();
    flush(&db, "a");
    let before = db.snapshot();
    flush(&db, "b");
    let old = || {
        let options = IterOptions {
            snapshot: Some(before.clone()),
            ..IterOptions::default()
        };
        db.iter_with(options).unwrap()
    };
    assert_eq!(last(old()).unwrap(), "a");
    assert_eq!(engine.resting.len(), 0, "one table was left out");
    assert_eq!(last(db.iter().unwrap()).unwrap(), "b");
    assert_eq!(last(old()).unwrap(), "a");
    assert_eq!((engine.resting.len(), taken_over(&engine)), (2, 0));
    assert_eq!(last(db.iter().unwrap()).unwrap(), "b");
    assert_eq!(taken_over(&engine), 1);
}

#[test]
fn who_leaves_the_cache_alone_has_cursors_of_its_own() {
    let (db, engine, _) = database();
    flush(&db, "a");
    let apart = || {
        let options = IterOptions {
            fill_cache: false,
            ..IterOptions::default()
        };
        db.iter_with(options).unwrap()
    };
    assert_eq!(last(apart()).unwrap(), "a");
    assert_eq!(engine.resting.len(), 0);
    drop(db.iter().unwrap());
    assert_eq!(last(apart()).unwrap(), "a");
    assert_eq!((engine.resting.len(), taken_over(&engine)), (1, 0));
}

#[test]
fn many_cursors_do_not_rest() {
    let (db, engine, _) = database();
    (0..super::RUNS_MAX).for_each(|_| flush(&db, "a"));
    drop(db.iter().unwrap());
    assert_eq!(engine.resting.len(), super::RUNS_MAX);
    flush(&db, "b");
    assert_eq!(last(db.iter().unwrap()).unwrap(), "b");
    assert_eq!(engine.resting.len(), 0);
}

#[test]
fn what_an_error_stopped_does_not_rest() {
    let mem = MemFs::new();
    let (db, _) = open(Arc::new(mem.clone()), tiny().simulated(ALONE));
    flush(&db, "a");
    db.close().unwrap();
    let faulty = FaultFs::over_mem(&mem);
    let (db, engine) = open(Arc::new(faulty.clone()), tiny().simulated(ALONE));
    let mut iter = db.iter().unwrap();
    faulty.inject(Rule::every(Fault::Io).of(Operation::Read).times(1));
    assert_eq!(iter.step().unwrap_err().kind(), ErrorKind::Io);
    drop(iter);
    assert_eq!(engine.resting.len(), 0);
    assert_eq!(last(db.iter().unwrap()).unwrap(), "a");
    assert_eq!(engine.resting.len(), 1);
    let mut iter = db.iter().unwrap();
    faulty.inject(Rule::every(Fault::Io).of(Operation::Read).times(1));
    while iter.step().is_ok_and(|there| there) {}
    assert!(iter.seek([5]).unwrap());
    drop(iter);
    assert_eq!(engine.resting.len(), 1, "it was positioned again");
}

#[test]
fn what_a_panic_stopped_does_not_rest() {
    let (db, engine, _) = database();
    let panics = Arc::new(AtomicBool::new(false));
    let fuse = Arc::clone(&panics);
    let order = Order::custom("fused", move |a, b| {
        if fuse.load(Ordering::Relaxed) {
            resume_unwind(Box::new("a user's mistake"));
        }
        a.cmp(b)
    });
    let options = KeyspaceOptions {
        order: Some(order),
        ..KeyspaceOptions::default()
    };
    let keyspace = db.create_keyspace("fused", options).unwrap();
    flush(&keyspace, "a");
    let mut iter = keyspace.iter().unwrap();
    assert!(iter.step().unwrap());
    panics.store(true, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(|| iter.step())).unwrap_err();
    drop(iter);
    panics.store(false, Ordering::Relaxed);
    assert_eq!(engine.resting.len(), 0);
    assert_eq!(last(keyspace.iter().unwrap()).unwrap(), "a");
    assert_eq!(engine.resting.len(), 1);
}

#[test]
fn cursors_go_on_in_any_table_of_a_level_and_in_any_direction() {
    let (db, engine, fs) = database();
    let value = |number: u32| format!("{number:08}").repeat(20);
    for number in 0..40_000u32 {
        db.put(number.to_be_bytes(), value(number)).unwrap();
    }
    db.compact().unwrap();
    assert!(tables(&fs) > 2);
    let mut rng = Rng::new(7);
    for round in 0..300 {
        let number = u32::try_from(rng.below(40_000)).unwrap();
        let mut iter = db.iter().unwrap();
        let expected = match round % 4 {
            0 => iter.seek(number.to_be_bytes()).map(|_| number),
            1 => iter
                .seek_before(number.to_be_bytes())
                .map(|_| number.saturating_sub(1)),
            2 => iter.seek_last().map(|_| 39_999),
            _ => iter.seek_first().map(|_| 0),
        };
        let expected = expected.unwrap();
        if let Some(key) = iter.key() {
            assert_eq!(key, expected.to_be_bytes());
            assert_eq!(iter.value().unwrap(), value(expected).as_bytes());
        }
        let _ = if round % 2 == 0 {
            iter.step()
        } else {
            iter.step_back()
        }
        .unwrap();
    }
    assert_eq!(taken_over(&engine), 299);
}

#[test]
fn who_moves_to_the_present_keeps_its_cursors_if_they_are_of_it() {
    let (db, engine, _) = database();
    flush(&db, "a");
    let mut iter = db.iter().unwrap();
    assert!(iter.seek([4]).unwrap());
    iter.refresh_to_now().unwrap();
    assert_eq!((iter.key().unwrap(), taken_over(&engine)), (&[4][..], 1));
    db.put([4], "b").unwrap();
    iter.refresh_to_now().unwrap();
    assert_eq!((iter.value().unwrap(), taken_over(&engine)), (&b"b"[..], 2));
    flush(&db, "c");
    iter.refresh_to_now().unwrap();
    assert_eq!((iter.value().unwrap(), taken_over(&engine)), (&b"c"[..], 2));
}

#[test]
fn an_iterator_may_end_on_another_thread() {
    let (db, engine, _) = database();
    flush(&db, "a");
    let iter = db.iter().unwrap();
    std::thread::scope(|scope| scope.spawn(move || drop(iter)).join().unwrap());
    assert_eq!(engine.resting.len(), 1);
    assert_eq!(last(db.iter().unwrap()).unwrap(), "a");
}
