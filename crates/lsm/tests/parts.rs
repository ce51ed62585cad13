//! A large job hands over part by part (Z4): what readers see meanwhile, what stands on the disk,
//! and what is left when it ends in the middle.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use velella_base::external::ExternalRef;
use velella_base::{Error, ErrorKind, Order, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sync::epoch;
use velella_testkit::patience;
use velella_tree::contract::{Bench, Run};
use velella_tree::{Edit, Wanted};
use velella_vfs::MemFs;

const KEYS: u64 = 8_000;

fn at(frontier: u64) -> Retention {
    Retention::new(Stamp(frontier), Stamp(frontier), Vec::new())
}

fn key(n: u64) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

/// Every `step`-th key, written at stamps from `stamp` on; one in ten deleted.
fn run(step: usize, stamp: u64) -> Run {
    let entry = |n: u64| match n % 10 {
        7 => (key(n), stamp + n, ValueKind::Delete, Vec::new()),
        _ => (key(n), stamp + n, ValueKind::Put, vec![b'v'; 30]),
    };
    (0..KEYS).step_by(step).map(entry).collect()
}

/// All keys in many tables of level 1, a third of them written again in two tables of level 0.
fn bench() -> Bench {
    let vfs = Arc::new(MemFs::new());
    let bench = Bench::create(vfs, Order::Bytewise, velella_lsm::open).unwrap();
    for half in 0..2 {
        let keys = (half..KEYS).step_by(2);
        let puts = keys.map(|n| (key(n), 1 + n, ValueKind::Put, vec![b'o'; 30]));
        bench.flush(puts.collect(), &at(0)).unwrap();
    }
    bench.work_all(Wanted::Gathering, &at(0)).unwrap();
    assert!(bench.tree.levels()[1].tables > 30);
    bench.flush(run(3, 20_000), &at(0)).unwrap();
    bench.flush(run(6, 40_000), &at(0)).unwrap();
    bench
}

/// What is to be read of the key of number `n`.
fn expected(n: u64) -> (u64, ValueKind) {
    let stamp = match (n % 6, n % 3) {
        (0, _) => 40_000 + n,
        (_, 0) => 20_000 + n,
        _ => return (1 + n, ValueKind::Put),
    };
    let kind = if n % 10 == 7 {
        ValueKind::Delete
    } else {
        ValueKind::Put
    };
    (stamp, kind)
}

fn check(bench: &Bench) {
    for n in (0..KEYS).step_by(97) {
        let found = bench.get(&key(n), u64::MAX >> 8).unwrap();
        let found = found.map(|(stamp, kind, _)| (stamp, kind));
        let (stamp, kind) = expected(n);
        // A delete may have left.
        let left = kind == ValueKind::Delete && found.is_none();
        assert!(left || found == Some((stamp, kind)), "{n}: {found:?}");
    }
    let mut last = Vec::new();
    for (key, ..) in bench.all().unwrap() {
        assert!(last <= key);
        last = key;
    }
}

#[test]
fn readers_of_a_job_see_one_state_and_little_of_it_stands_on_the_disk_twice() {
    let bench = bench();
    // What the manifest names: files go once nobody is pinned, in this process full of tests.
    let named = || -> BTreeSet<u64> {
        let state = bench.env.manifest.state();
        state.tables().map(|table| table.file).collect()
    };
    let before = named();
    let job = bench.tree.next_job(Wanted::Gathering, &at(0)).unwrap();
    let said = job.describe();
    assert!(said.starts_with("compact 2 tables of level 0"), "{said}");
    let (most, left) = (Cell::new(0), RefCell::new(BTreeSet::new()));
    let look = || {
        check(&bench);
        let now = named();
        most.set(most.get().max(now.len()));
        left.borrow_mut().insert(before.intersection(&now).count());
        Ok(true)
    };
    let report = job.run(&|| at(90_000), &look).unwrap();
    let written = KEYS / 3 + 1 + KEYS / 6 + 1;
    assert_eq!(report.entries_in, KEYS + written);
    let (most, left, before) = (most.get(), left.into_inner(), before.len());
    assert!(left.len() > 3, "{left:?}: its inputs leave at once");
    assert!(
        most <= before + 12,
        "{most} tables stood beside each other, {before} before"
    );
    assert_eq!(bench.tree.levels()[0].tables, 0);
    check(&bench);
    let bench = bench.restart().unwrap();
    bench.tree.verify(&mut |_| ()).unwrap();
    check(&bench);
}

#[test]
fn a_job_that_ends_between_its_parts_leaves_everything_readable_and_can_be_done_again() {
    for asks in 1..8 {
        let bench = bench();
        cut_off(&bench, asks, &at(90_000));
        assert_eq!(bench.tree.levels()[0].tables, 2, "the upper inputs stay");
        check(&bench);
        let bench = bench.restart().unwrap();
        bench.tree.verify(&mut |_| ()).unwrap();
        check(&bench);
        bench.work_all(Wanted::Everything, &at(90_000)).unwrap();
        check(&bench);
        let deleted = (0..KEYS)
            .filter(|n| expected(*n).1 == ValueKind::Delete)
            .count();
        let left = usize::try_from(KEYS).unwrap() - deleted;
        assert_eq!(bench.all().unwrap().len(), left, "one version of each key");
    }
}

/// Waits for what goes once nobody is pinned, in this process full of tests.
fn until(bench: &Bench, still: &str, is_gone: impl Fn() -> bool) {
    let (begun, limit) = (Instant::now(), patience(Duration::from_secs(20)));
    while begun.elapsed() < limit {
        epoch::flush();
        drop(bench.tree.next_job(Wanted::Due, &at(0)));
        bench.env.externals.reap();
        if is_gone() {
            return;
        }
        // A thread of another test may be pinned, and wait for a processor.
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{still}");
}

/// The job's n-th question is answered by an error.
fn cut_off(bench: &Bench, n: u32, rule: &Retention) {
    let job = bench.tree.next_job(Wanted::Gathering, &at(0)).unwrap();
    let left = Cell::new(n);
    let goes_on = || {
        left.set(left.get() - 1);
        match left.get() {
            0 => Err(Error::new(ErrorKind::NoSpace, "flush", "disk full")),
            _ => Ok(true),
        }
    };
    let error = job.run(&|| rule.clone(), &goes_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
}

fn external(bench: &Bench, n: u64, stamp: u64) -> (Vec<u8>, u64, ValueKind, Vec<u8>) {
    let (reference, file) = bench.env.externals.write(&[7; 5000], 0).unwrap();
    file.sync_all().unwrap();
    let payload = reference.encode().to_vec();
    (key(n), stamp, ValueKind::External, payload)
}

/// The two clocks of a job that is cut off and of the one that does it again, and what an entry
/// that expires at 1,000 is then. Its copy in level 1 is a delete or not, by the first clock; the
/// original above it decides, by the second.
#[test]
fn what_expires_while_a_job_is_cut_off_is_what_the_upper_level_says() {
    for (first, second, expected) in [
        (500, 2_000, ValueKind::Delete),
        (2_000, 500, ValueKind::PutExpiring),
    ] {
        let bench = bench();
        // Something older below, so that a delete stays.
        let oldest = vec![(key(2), 1, ValueKind::Put, b"oldest".to_vec())];
        let mut built = bench.build(oldest, &at(0)).unwrap();
        let edit = Edit::AddTables {
            keyspace: 1,
            level: 2,
            tables: built.keep(),
        };
        bench.env.manifest.commit(&[edit]).unwrap();
        drop(built);
        let bench = bench.restart().unwrap();
        let mut payload = 1_000u64.to_le_bytes().to_vec();
        payload.extend_from_slice(b"new");
        let upper = vec![
            (key(2), 70_000, ValueKind::PutExpiring, payload),
            (key(KEYS - 1), 70_001, ValueKind::Put, b"new".to_vec()),
        ];
        bench.flush(upper, &at(0)).unwrap();
        cut_off(&bench, 5, &at(90_000).at_wall(first));
        let found = bench.get(&key(2), 99_999).unwrap().unwrap();
        assert_eq!((found.0, found.1), (70_000, ValueKind::PutExpiring));
        let bench = bench.restart().unwrap();
        let again = at(90_000).at_wall(second);
        assert!(bench.work(Wanted::Gathering, &again).unwrap());
        bench.tree.verify(&mut |_| ()).unwrap();
        let found = bench.get(&key(2), 99_999).unwrap().unwrap();
        assert_eq!((found.0, found.1), (70_000, expected));
        let all = bench.all().unwrap();
        let of_key = all.iter().filter(|entry| entry.0 == key(2));
        let stamps: Vec<u64> = of_key.map(|entry| entry.1).collect();
        assert_eq!(stamps, [70_000, 1], "once, above the oldest");
    }
}

#[test]
fn external_values_that_a_part_dropped_are_gone_though_the_job_is_cut_off() {
    let bench = bench();
    bench
        .flush(vec![external(&bench, 2, 60_000)], &at(0))
        .unwrap();
    bench.work_all(Wanted::Gathering, &at(0)).unwrap();
    let newer = vec![
        (key(2), 70_000, ValueKind::Put, b"new".to_vec()),
        (key(KEYS - 1), 70_001, ValueKind::Put, b"new".to_vec()),
    ];
    bench.flush(newer, &at(0)).unwrap();
    assert_eq!(bench.env.externals.bytes(), 5000);
    cut_off(&bench, 5, &at(90_000));
    assert_eq!(bench.tree.levels()[0].tables, 1);
    until(&bench, "bytes of it are counted", || {
        bench.env.externals.bytes() == 0
    });
}

#[test]
fn external_values_of_all_parts_stay_or_go_when_the_job_is_done() {
    let bench = bench();
    let store = Arc::clone(&bench.env.externals);
    // Of the upper level one at the beginning, one at the end, and one that is overwritten.
    let older = external(&bench, 1, 60_000);
    let kept = [
        external(&bench, 1, 61_000),
        external(&bench, KEYS - 1, 61_001),
    ];
    bench.flush(vec![older.clone()], &at(0)).unwrap();
    bench.flush(kept.to_vec(), &at(0)).unwrap();
    let job = bench.tree.next_job(Wanted::Gathering, &at(0)).unwrap();
    let gone = ExternalRef::decode(&older.3).unwrap();
    let look = || {
        // Z5: a table of level 0 refers to it until the end.
        store.verify(&gone)?;
        Ok(true)
    };
    job.run(&|| at(90_000), &look).unwrap();
    for (key, stamp, _, payload) in &kept {
        let found = bench.get(key, 99_999).unwrap().unwrap();
        assert_eq!((found.0, found.1), (*stamp, ValueKind::External));
        let reference = ExternalRef::decode(payload).unwrap();
        assert_eq!(store.read(&reference).unwrap(), [7; 5000]);
    }
    until(&bench, "what nobody refers to is there", || {
        store.verify(&gone).is_err()
    });
}

/// Values of that size are a whole part's worth of bytes long before there are as many entries.
#[test]
fn a_job_over_few_large_values_is_asked_whether_it_goes_on_as_well() {
    let vfs = Arc::new(MemFs::new());
    let bench = Bench::create(vfs, Order::Bytewise, velella_lsm::open).unwrap();
    let entry = |n: u64, stamp: u64| (key(n), stamp + n, ValueKind::Put, vec![7; 256 << 10]);
    for stamp in [1, 1000] {
        let run: Run = (0..64).map(|n| entry(n, stamp)).collect();
        bench.flush(run, &at(0)).unwrap();
    }
    let job = bench.tree.next_job(Wanted::Gathering, &at(0)).unwrap();
    let asked = Cell::new(0);
    let ask = || {
        asked.set(asked.get() + 1);
        Ok(true)
    };
    job.run(&|| at(90_000), &ask).unwrap();
    // 32 MiB of values.
    assert!((5..=16).contains(&asked.get()), "{}", asked.get());
}
