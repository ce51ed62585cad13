//! What happens between levels: tombstones above a level that holds the key, trivial moves, picks
//! that run side by side.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use std::sync::Arc;
use velella_base::{Order, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_tree::contract::{Bench, Run};
use velella_tree::{Edit, Wanted};
use velella_vfs::MemFs;

fn at(frontier: u64) -> Retention {
    Retention::new(Stamp(frontier), Stamp(frontier), Vec::new())
}

fn bench() -> Bench {
    let vfs = Arc::new(MemFs::new());
    Bench::create(vfs, Order::Bytewise, velella_lsm::open).unwrap()
}

fn put(key: &str, stamp: u64) -> (Vec<u8>, u64, ValueKind, Vec<u8>) {
    (key.into(), stamp, ValueKind::Put, vec![b'v'; 30])
}

/// Brings `run` straight to `level`, as compactions would have in time.
fn install_at(bench: Bench, level: u32, run: Run) -> Bench {
    let mut built = bench.build(run, &at(0)).unwrap();
    let tables = built.keep();
    bench
        .env
        .manifest
        .commit(&[Edit::AddTables {
            keyspace: 1,
            level,
            tables,
        }])
        .unwrap();
    drop(built);
    bench.restart().unwrap()
}

/// Four runs over one key are due for level 1, while `key` has an older value at level 2.
fn over_level_2(newest: (Vec<u8>, u64, ValueKind, Vec<u8>), rule: &Retention) -> Bench {
    let bench = install_at(bench(), 2, vec![put("k", 1), put("z", 1)]);
    bench.flush(vec![newest], rule).unwrap();
    for stamp in 3..6 {
        bench
            .flush(vec![put("k0", stamp), put("a", stamp)], rule)
            .unwrap();
    }
    bench
}

#[test]
fn a_tombstone_stays_while_a_deeper_level_holds_the_key() {
    let delete = (b"k".to_vec(), 2, ValueKind::Delete, Vec::new());
    let bench = over_level_2(delete, &at(9));
    assert!(bench.work(Wanted::Due, &at(9)).unwrap());
    assert_eq!(bench.tree.levels()[0].tables, 0);
    let found = bench.get(b"k", 99).unwrap().unwrap();
    assert_eq!((found.0, found.1), (2, ValueKind::Delete));
    bench.work_all(Wanted::Everything, &at(9)).unwrap();
    assert_eq!(bench.get(b"k", 99).unwrap(), None);
    assert_eq!(
        bench.tree.levels().len(),
        3,
        "and the last level is still the last"
    );
}

#[test]
fn a6_an_expired_value_above_an_older_one_becomes_a_tombstone() {
    let mut payload = 1_000u64.to_le_bytes().to_vec();
    payload.extend_from_slice(b"new");
    let expiring = (b"k".to_vec(), 2, ValueKind::PutExpiring, payload);
    let rule = at(9).at_wall(5_000);
    let bench = over_level_2(expiring, &at(9));
    assert_eq!(
        bench.get(b"k", 99).unwrap().unwrap().1,
        ValueKind::PutExpiring
    );
    assert!(bench.work(Wanted::Due, &rule).unwrap());
    let found = bench.get(b"k", 99).unwrap().unwrap();
    assert_eq!((found.0, found.1), (2, ValueKind::Delete));
    bench.work_all(Wanted::Everything, &rule).unwrap();
    assert_eq!(bench.get(b"k", 99).unwrap(), None);
}

#[test]
fn a_run_that_meets_nothing_moves_without_being_rewritten() {
    let bench = bench();
    for (stamp, key) in (1..).zip(["a", "b", "c", "d"]) {
        bench.flush(vec![put(key, stamp)], &at(stamp)).unwrap();
    }
    let before = bench.files().unwrap();
    let job = bench.tree.next_job(Wanted::Due, &at(0)).unwrap();
    assert!(
        job.describe().starts_with("move table"),
        "{}",
        job.describe()
    );
    let report = job.run(&|| at(9), &|| Ok(true)).unwrap();
    assert_eq!(report.bytes_written, 0);
    assert_eq!(bench.files().unwrap(), before);
    assert_eq!(bench.tree.levels()[1].tables, 1);
    let bench = bench.restart().unwrap();
    assert_eq!(bench.all().unwrap().len(), 4);
}

#[test]
fn disjoint_jobs_run_side_by_side_and_overlapping_ones_wait() {
    let bench = bench();
    for (stamp, key) in (1..).zip(["a", "b", "a", "b", "c", "c"]) {
        bench
            .flush(
                vec![put(key, stamp), put(&format!("{key}9"), stamp)],
                &at(stamp),
            )
            .unwrap();
    }
    let first = bench.tree.next_job(Wanted::Due, &at(0)).unwrap();
    let second = bench.tree.next_job(Wanted::Due, &at(0)).unwrap();
    assert!(
        bench.tree.next_job(Wanted::Due, &at(0)).is_none(),
        "two tables of level 0 are not due"
    );
    // A newer run over the first job's keys must not overtake it.
    for stamp in 10..14 {
        bench.flush(vec![put("a", stamp)], &at(stamp)).unwrap();
    }
    let third = bench
        .tree
        .next_job(Wanted::Due, &at(0))
        .map(|job| job.describe());
    assert_eq!(
        third.as_deref(),
        Some("compact 2 tables of level 0 with 0 of level 1 (0 MiB)")
    );
    second.run(&|| at(20), &|| Ok(true)).unwrap();
    first.run(&|| at(20), &|| Ok(true)).unwrap();
    bench.work_all(Wanted::Due, &at(20)).unwrap();
    let newest = bench.get(b"a", 99).unwrap().unwrap();
    assert_eq!(newest.0, 13);
    bench.tree.verify(&mut |_| ()).unwrap();
}

#[test]
fn expired_values_leave_by_themselves() {
    let bench = bench();
    let expiring = |key: &str, stamp: u64| {
        let mut payload = 1_000u64.to_le_bytes().to_vec();
        payload.extend_from_slice(b"session");
        (key.into(), stamp, ValueKind::PutExpiring, payload)
    };
    for stamp in 1..5 {
        bench
            .flush(vec![expiring("a", stamp), expiring("b", stamp)], &at(stamp))
            .unwrap();
    }
    bench.work_all(Wanted::Due, &at(9)).unwrap();
    assert_eq!(bench.all().unwrap().len(), 2);
    // Though nothing is written any more.
    bench.work_all(Wanted::Due, &at(9).at_wall(5_000)).unwrap();
    assert_eq!(bench.all().unwrap(), []);
    assert!(shape_of(&bench).is_empty(), "and their space with them");
}

/// How many tables each level has.
fn shape_of(bench: &Bench) -> Vec<usize> {
    let levels = bench.tree.levels();
    levels.iter().map(|level| level.tables).collect()
}

#[test]
fn tombstones_leave_that_met_nothing_on_their_way_down() {
    let deleted = |bench, key: &str, stamp| {
        let run = vec![(key.into(), stamp, ValueKind::Delete, Vec::new())];
        install_at(bench, 1, run)
    };
    let bench = deleted(deleted(bench(), "a", 1), "b", 3);
    let snapshot = Retention::new(Stamp(9), Stamp(9), vec![Stamp(2)]);
    bench.work_all(Wanted::Due, &snapshot).unwrap();
    assert_eq!(shape_of(&bench), [0, 1], "of one, something may be read");
    bench.work_all(Wanted::Due, &at(9)).unwrap();
    assert!(shape_of(&bench).is_empty());
}

#[test]
fn a_full_compaction_that_was_given_up_leaves_nothing_to_the_next() {
    let bench = bench();
    let flush = |stamp| bench.flush(vec![put("k", stamp)], &at(0)).unwrap();
    (1..4).for_each(flush);
    assert!(bench.work(Wanted::Everything, &at(0)).unwrap());
    // Whoever asked for it met an error and went away. These came later.
    (4..7).for_each(flush);
    bench.work_all(Wanted::Everything, &at(9)).unwrap();
    let stamps: Vec<u64> = bench.all().unwrap().iter().map(|v| v.1).collect();
    assert_eq!(stamps, [6]);
}

#[test]
fn a_view_is_given_no_table_of_level_0_that_was_written_after_it() {
    let bench = bench();
    for stamp in [3, 5] {
        bench.flush(vec![put("a", stamp)], &at(0)).unwrap();
    }
    let given = |stamp| {
        let mut sources = Vec::new();
        bench.tree.sources(true, Stamp(stamp), &mut sources);
        sources.len()
    };
    assert_eq!([2, 3, 4, 5].map(given), [0, 1, 1, 2]);
}

#[test]
fn passing_versions_goes_on_from_table_to_table() {
    let key = |number: usize| format!("key{number:04}");
    let versions = |number| (1..4).rev().map(move |stamp| put(&key(number), stamp));
    let tables = [0..1, 1..30, 30..50].map(|numbers| numbers.flat_map(versions).collect());
    let bench = tables
        .into_iter()
        .fold(bench(), |bench, run: Run| install_at(bench, 1, run));
    assert_eq!(bench.tree.levels()[1].tables, 3);
    let mut cursor = bench.tree.cursor(true);
    cursor.seek_first().unwrap();
    for number in 0..50 {
        let entry = cursor.entry().expect("as many keys were put");
        assert_eq!((entry.key, entry.stamp), (key(number).as_bytes(), Stamp(3)));
        let down_to = number as u64 % 3;
        cursor.pass(key(number).as_bytes(), Stamp(down_to)).unwrap();
        if down_to > 0 {
            let entry = cursor.entry().expect("an older version");
            assert_eq!(
                (entry.key, entry.stamp),
                (key(number).as_bytes(), Stamp(down_to))
            );
            cursor.pass(key(number).as_bytes(), Stamp::ZERO).unwrap();
        }
    }
    assert!(cursor.entry().is_none());
}

/// Bytes in the cache after a compaction of four runs of so many pairs of a kilobyte, and its
/// capacity.
fn cached_after_compaction(pairs: u32) -> (u64, u64) {
    let mut bench = bench();
    for stamp in 1..5 {
        let pair = |key: u32| {
            let value = (0..1000).map(|at| (at * key) as u8).collect();
            (key.to_be_bytes().to_vec(), stamp, ValueKind::Put, value)
        };
        bench.flush((0..pairs).map(pair).collect(), &at(9)).unwrap();
    }
    bench = bench.restart().unwrap();
    assert_eq!(bench.env.cache.bytes(), 0);
    assert!(bench.work(Wanted::Due, &at(9)).unwrap());
    (bench.env.cache.bytes(), bench.env.cache.capacity())
}

#[test]
fn what_is_written_enters_the_cache_only_if_the_tree_fits() {
    let (few, capacity) = cached_after_compaction(100);
    assert!(few >= 100 * 1000, "{few} of {capacity}");
    let pairs = u32::try_from(capacity / 1000 / 3).unwrap();
    assert_eq!(cached_after_compaction(pairs).0, 0, "of {capacity}");
}

#[test]
fn an_overtaken_table_is_left_out_from_its_stamp_on_and_others_never() {
    let bench = bench();
    bench.flush(vec![put("a", 1)], &at(1)).unwrap();
    let given = |stamp: Stamp| {
        let mut sources = Vec::new();
        bench.tree.sources(true, stamp, &mut sources);
        sources.len()
    };
    assert_eq!((given(Stamp(1)), given(Stamp::MAX)), (1, 1));
    assert!(bench.tree.few_tables(0).is_empty());
    bench.tree.few_tables(1)[0].overtake(Stamp(5));
    assert_eq!(
        (given(Stamp(4)), given(Stamp(5)), given(Stamp::MAX)),
        (1, 0, 0)
    );
    assert_eq!(
        bench.get(b"a", 9).unwrap().unwrap().0,
        1,
        "a get looks everywhere"
    );
}

/// As one whose levels were made larger by other settings.
#[test]
fn debt_that_a_tree_was_opened_with_brakes_nobody() {
    let run = (0..20_000).map(|n| put(&format!("k{n:06}"), 1)).collect();
    let bench = install_at(bench(), 1, run);
    let opened = bench.tree.pressure();
    // Levels of 6 KiB: who brought that about by writing would wait.
    assert!(opened.debt_bytes > 64 * (6 << 10), "{opened:?}");
    assert!(opened.brake <= 0.0, "{opened:?}");
    bench.work_all(Wanted::Due, &at(99)).unwrap();
    assert_eq!(bench.tree.pressure().debt_bytes, 0);
    // What comes from now on is its writers', though it is less than that was.
    for stamp in 2..7 {
        let run = (0..1_000).map(|n| put(&format!("k{n:06}"), stamp));
        bench.flush(run.collect(), &at(0)).unwrap();
    }
    let pressure = bench.tree.pressure();
    assert!(pressure.debt_bytes < opened.debt_bytes, "{pressure:?}");
    assert!(pressure.brake > 0.0, "{pressure:?}");
}

/// A backup read while a range was written again, and nobody writes there any more.
#[test]
fn what_snapshots_saw_of_overwritten_keys_leaves_once_they_are_gone() {
    let keys = || (0..10).map(|key| format!("k{key}"));
    for snapshots in 1..=3 {
        let versions = keys().flat_map(|key| (1..=snapshots).rev().map(move |at| put(&key, at)));
        let bench = install_at(bench(), 1, versions.collect());
        let seen = (1..=snapshots).map(Stamp).collect();
        let held = Retention::new(Stamp(99), Stamp(99), seen);
        bench
            .flush(keys().map(|key| put(&key, 11)).collect(), &held)
            .unwrap();
        bench.work_all(Wanted::Everything, &held).unwrap();
        bench.work_all(Wanted::Due, &held).unwrap();
        assert_eq!(bench.all().unwrap().len() as u64, 10 * (snapshots + 1));
        bench.work_all(Wanted::Due, &at(99)).unwrap();
        assert_eq!(bench.all().unwrap().len(), 10, "{snapshots} snapshots");
    }
}

/// A backup read while a range was deleted: its keys came to the last level with both versions.
#[test]
fn what_snapshots_saw_of_deleted_keys_leaves_once_they_are_gone() {
    let keys = || (0..10).map(|key| format!("k{key}"));
    for snapshots in 1..=3 {
        let versions = keys().flat_map(|key| (1..=snapshots).rev().map(move |at| put(&key, at)));
        let bench = install_at(bench(), 1, versions.collect());
        let delete = |key: String| (key.into_bytes(), 11, ValueKind::Delete, Vec::new());
        let seen = (1..=snapshots).map(Stamp).collect();
        let held = Retention::new(Stamp(99), Stamp(99), seen);
        bench.flush(keys().map(delete).collect(), &held).unwrap();
        bench.work_all(Wanted::Everything, &held).unwrap();
        assert_eq!(bench.all().unwrap().len() as u64, 10 * (snapshots + 1));
        bench.work_all(Wanted::Due, &held).unwrap();
        assert_eq!(bench.all().unwrap().len() as u64, 10 * (snapshots + 1));
        bench.work_all(Wanted::Due, &at(99)).unwrap();
        assert_eq!(bench.all().unwrap().len(), 0, "{snapshots} snapshots");
    }
}
