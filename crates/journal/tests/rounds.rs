//! Rounds: what they sync, when they do nothing, and how they fail.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use velella_base::{Error, ErrorKind, Stamp};
use velella_journal::{Access, Lane, Rule};
use velella_vfs::fault::{Fault, Rule as FaultRule};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

#[test]
fn a_failed_sync_poisons_the_journal_and_is_not_repeated() {
    sync_fails(Operation::SyncMap);
    sync_fails(Operation::SyncData);
}

fn sync_fails(operation: Operation) {
    let memory = MemFs::new();
    let faults = FaultFs::over_mem(&memory);
    let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 2)).unwrap();
    bench.write(0, b"durable").unwrap();
    bench.round().unwrap();
    bench.write(1, b"not").unwrap();
    faults.inject(FaultRule::every(Fault::Io).of(operation).times(1));
    let error = bench.round().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(faults.fired(), 1);
    // The device is well again, but what the sync lost is lost.
    let calls = faults.calls();
    let again = bench.round().unwrap_err();
    assert_eq!(again.kind(), ErrorKind::ReadOnly);
    assert_eq!(
        bench.write(0, b"x").unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(
        bench.journal.sync_done().unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(
        bench.journal.prepare(|| false).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(
        faults.calls(),
        calls,
        "nothing touches the file system any more"
    );
    assert_eq!(bench.journal.poisoned().unwrap().kind(), ErrorKind::Io);
    assert_eq!(bench.journal.durable(), Stamp(1));
    let waited = bench.journal.wait_durable(Stamp(2), None);
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::ReadOnly);
    let recovered = recover(&memory.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert!(recovered.stamps().starts_with(&[1]));
}

#[test]
fn a_failed_write_of_the_fallback_has_an_unknown_outcome() {
    let memory = MemFs::new();
    let faults = FaultFs::over_mem(&memory);
    let mut config = config(Arc::new(faults.clone()), 1, 1);
    config.access = velella_journal::Access::Write;
    let mut bench = Bench::start(config).unwrap();
    bench.write(0, b"before").unwrap();
    faults.inject(FaultRule::every(Fault::Short).times(1));
    let error = bench.write(0, &[5; 3000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(bench.journal.poisoned().is_some());
    // Half a record at the end of a lane is its end, not a hole.
    let recovered = recover(&memory.image(1, CrashMode::KeepAll), &bench.last()).unwrap();
    assert_eq!(
        recovered.report.rule,
        Rule::PageCache,
        "{:?}",
        recovered.report
    );
    assert_eq!(recovered.stamps(), [1]);
}

#[test]
fn an_idle_journal_does_nothing() {
    let memory = MemFs::new();
    let faults = FaultFs::over_mem(&memory);
    let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 2)).unwrap();
    bench.write(0, b"x").unwrap();
    bench.round().unwrap();
    let calls = faults.calls();
    assert_eq!(bench.round().unwrap(), Stamp(1));
    assert_eq!(faults.calls(), calls);
    // An aborted stamp moves the clock but no lane: D follows by a seal alone.
    bench.clock += 1;
    assert_eq!(bench.round().unwrap(), Stamp(2));
    let recovered = recover(&memory.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), [1]);
    assert_eq!(recovered.report.cut, Stamp(2));
}

#[test]
fn a_frontier_that_steps_back_does_not_lower_the_cut() {
    // A slot announces the clock it read long ago: the second frontier is below the first.
    let memory = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(memory.clone()), 1, 1)).unwrap();
    for _ in 0..100 {
        bench.write(0, &[1; 1000]).unwrap();
    }
    assert_eq!(bench.round().unwrap(), Stamp(100));
    assert_eq!(bench.journal.round(|| Stamp(4)).unwrap(), Stamp(100));
    // This round has something to do although its frontier is old: it excludes an extent.
    bench.journal.release(Stamp(90)).unwrap();
    assert_eq!(bench.journal.round(|| Stamp(4)).unwrap(), Stamp(100));
    let recovered = recover(&memory.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.report.cut, Stamp(100));
    assert_eq!(recovered.stamps().last(), Some(&100));
    assert!(recovered.stamps()[0] > 4, "an extent was excluded");
}

/// CL-13: a record may be in its lane, and durable, before an earlier stamp's is; the cut leaves no
/// hole.
#[test]
fn cl13_log_order() {
    let memory = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(memory.clone()), 1, 2)).unwrap();
    bench.write(0, b"one").unwrap();
    // Stamp 2 is drawn, announced with lower bound 1, and its record not complete yet.
    bench.lanes[0].reserve(&[b"two"]).unwrap();
    bench.lanes[1].reserve(&[b"three"]).unwrap();
    bench.lanes[1].commit(Stamp(3)).unwrap();
    assert_eq!(bench.journal.round(|| Stamp(1)).unwrap(), Stamp(1));
    for mode in CrashMode::POWER_LOSSES {
        let recovered = recover(&memory.image(1, mode), &bench.last()).unwrap();
        assert_eq!(recovered.stamps(), [1]);
        assert_eq!(recovered.report.discarded_records, 1, "stamp 3 is durable");
        assert_eq!(recovered.report.discarded_bytes, 5);
    }
    bench.lanes[0].commit(Stamp(2)).unwrap();
    bench.clock = 3;
    bench.round().unwrap();
    let recovered = recover(&memory.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), [1, 2, 3]);
}

/// XY-1: client X's acknowledged put lies in one lane, client Y's later put in another that
/// reached the device first. Y's put must not survive without X's.
#[test]
fn xy1_hole() {
    let mut later_reached_the_device = 0;
    for seed in 0..200 {
        let memory = MemFs::new();
        let mut bench = Bench::start(config(Arc::new(memory.clone()), 1, 2)).unwrap();
        bench.write(0, b"durable").unwrap();
        bench.round().unwrap();
        bench.write(0, b"X: the cause").unwrap();
        bench.write(1, b"Y: the effect").unwrap();
        let recovered = recover(&memory.image(seed, CrashMode::Random), &bench.last()).unwrap();
        assert_eq!(recovered.stamps(), [1], "seed {seed}");
        later_reached_the_device += u64::from(recovered.report.discarded_records == 1);
    }
    assert!(
        later_reached_the_device > 0,
        "no crash kept one lane and lost the other"
    );
}

#[test]
fn a_round_in_flight_is_given_up_and_named() {
    let memory = MemFs::new();
    let faults = FaultFs::new(Arc::new(memory.clone()));
    let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 1)).unwrap();
    bench.write(0, b"one").unwrap();
    bench.round().unwrap();
    bench.write(0, &[2; 9000]).unwrap();
    faults.inject(FaultRule::every(Fault::Io).of(Operation::SyncMap));
    bench.round().unwrap_err();
    let mut fallbacks = 0;
    for seed in 0..200 {
        let image = memory.image(seed, CrashMode::Random);
        let recovered = recover(&image, &bench.last()).unwrap();
        assert!(recovered.stamps() == [1] || recovered.stamps() == [1, 2]);
        if recovered.report.notes.iter().any(|n| n.contains("(1, 2]")) {
            assert_eq!(recovered.report.cut, Stamp(1));
            fallbacks += 1;
        }
    }
    assert!(fallbacks > 0, "no crash kept the seal and lost the records");
}

/// Seals stand in the segments they vouch for: without a trace elsewhere, a sync that failed could
/// take a seal and one lane's records, and what the other lane kept would be no prefix.
#[test]
fn a_failed_sync_hides_no_round_from_recovery() {
    let mut taken = [0; 5];
    for seed in 0..200 {
        let memory = MemFs::new();
        let faults = FaultFs::new(Arc::new(memory.clone()));
        let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 2)).unwrap();
        // Until both lanes are in the second segment, which is the home then.
        for turn in 0..12 {
            bench.write(turn % 2, &[1; 15_000]).unwrap();
            bench.round().unwrap();
        }
        let before = bench.clock;
        for lane in [0, 1, 0, 1] {
            bench.write(lane, &[2; 100]).unwrap();
        }
        faults.inject(FaultRule::every(Fault::Io).of(Operation::SyncMap));
        bench.round().unwrap_err();
        for segment in files(&memory, "seg") {
            memory.fail_sync(&segment, seed).unwrap();
        }
        let recovered = recover(&memory.image(seed, CrashMode::KeepAll), &bench.last()).unwrap();
        let stamps = recovered.stamps();
        assert_eq!(
            stamps,
            (1..=stamps.len() as u64).collect::<Vec<_>>(),
            "seed {seed}"
        );
        taken[stamps.len() - usize::try_from(before).unwrap()] += 1;
    }
    assert!(taken[0] > 0, "no round was given up: {taken:?}");
}

/// All syncs fail, as on a device that is gone, and the seal goes with the records: what was
/// written of it after the failure is what tells.
#[test]
fn a_device_that_is_gone_hides_no_round_from_recovery() {
    let mut taken = [0; 5];
    for turns in 0..400 {
        let memory = MemFs::new();
        let faults = FaultFs::over_device(&memory, turns as u64);
        let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 2)).unwrap();
        // Some so that the next round writes an anchor, some so that it writes into a strip.
        let before = 8 + turns % 16;
        for turn in 0..before {
            bench.write(turn % 2, &[1; 15_000]).unwrap();
            bench.round().unwrap();
        }
        for lane in [0, 1, 0, 1] {
            bench.write(lane, &[2; 100]).unwrap();
        }
        for operation in [Operation::SyncData, Operation::SyncMap] {
            faults.inject(FaultRule::every(Fault::Io).of(operation));
        }
        bench.round().unwrap_err();
        let recovered = recover(&memory.image(1, CrashMode::KeepAll), &bench.last()).unwrap();
        let stamps = recovered.stamps();
        let prefix: Vec<_> = (1..=stamps.len() as u64).collect();
        assert_eq!(stamps, prefix, "{turns}");
        taken[stamps.len() - before] += 1;
    }
    assert!(taken[0] > 0, "no round was given up: {taken:?}");
}

/// After D has risen the seal is what vouches for it: a done marker that cannot be written must not
/// have it written again, with ends that are not durable yet.
#[test]
fn a_done_marker_that_cannot_be_written_takes_nothing_back() {
    let memory = MemFs::new();
    let faults = FaultFs::over_mem(&memory);
    let mut config = config(Arc::new(faults.clone()), 1, 1);
    let lane: Arc<Mutex<Option<Lane>>> = Arc::default();
    let writer = Arc::clone(&lane);
    // Asked for after the ends were read: what is written here, the round does not cover.
    config.note = Some(Arc::new(move || {
        if let Some(lane) = &mut *writer.lock().unwrap() {
            // As far as into the next segment, which this round does not sync.
            for stamp in 3..9 {
                lane.reserve(&[&[3; 15_000]]).unwrap();
                lane.commit(Stamp(stamp)).unwrap();
            }
        }
        0
    }));
    let mut bench = Bench::start(config).unwrap();
    for _ in 0..2 {
        bench.write(0, b"x").unwrap();
        if bench.clock == 1 {
            bench.round().unwrap();
        }
    }
    *lane.lock().unwrap() = bench.lanes.pop();
    // The shadow is written first, then the done marker.
    let second = FaultRule::every(Fault::Io).of(Operation::Write).on(".seal");
    faults.inject(second.nth(2));
    bench.round().unwrap_err();
    assert_eq!(bench.journal.durable(), Stamp(2));
    for seed in 0..50 {
        let image = memory.image(seed, CrashMode::Random);
        let stamps = recover(&image, &bench.last()).unwrap().stamps();
        assert!(stamps.starts_with(&[1, 2]), "seed {seed}: {stamps:?}");
    }
}

/// What is synced alone, between rounds, is the seal file: were it a segment, a failure could take
/// records that no seal tells of yet.
#[test]
fn a_failed_sync_of_the_done_marker_takes_no_records() {
    for access in [Access::Mapped, Access::Write] {
        for seed in 0..50 {
            let memory = MemFs::new();
            let faults = FaultFs::over_mem(&memory);
            let mut config = config(Arc::new(faults.clone()), 1, 2);
            config.access = access;
            let mut bench = Bench::start(config).unwrap();
            for turn in 0..12 {
                bench.write(turn % 2, &[1; 15_000]).unwrap();
                bench.round().unwrap();
            }
            for lane in [1, 0] {
                bench.write(lane, &[2; 100]).unwrap();
            }
            for operation in [Operation::SyncData, Operation::SyncMap] {
                faults.inject(FaultRule::every(Fault::Io).of(operation));
            }
            bench.journal.sync_done().unwrap_err();
            let image = memory.image(seed, CrashMode::KeepAll);
            let recovered = recover(&image, &bench.last()).unwrap();
            assert_eq!(recovered.stamps(), (1..=14).collect::<Vec<_>>(), "{seed}");
        }
    }
}

/// A round that fails, or panics, leaves nobody waiting for a turn that does not come.
#[test]
fn all_who_wait_return_when_a_round_fails() {
    let memory = MemFs::new();
    let faults = FaultFs::over_mem(&memory);
    let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 1)).unwrap();
    let stamp = bench.write(0, b"x").unwrap();
    faults.inject(FaultRule::every(Fault::Io).of(Operation::SyncMap));
    let journal = &bench.journal;
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..8)
            .map(|_| scope.spawn(move || journal.round_for(stamp, || stamp)))
            .collect();
        for waiter in waiters {
            waiter.join().unwrap().unwrap_err();
        }
    });
    let mut bench = Bench::start(config(Arc::new(MemFs::new()), 1, 1)).unwrap();
    let stamp = bench.write(0, b"x").unwrap();
    let journal = &bench.journal;
    std::thread::scope(|scope| {
        let panics = scope.spawn(move || journal.round_for(stamp, || panic!("a frontier")));
        assert!(panics.join().is_err());
        let waiters: Vec<_> = (0..4)
            .map(|_| scope.spawn(move || journal.round_for(stamp, || stamp)))
            .collect();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap().unwrap(), stamp);
        }
    });
}

/// Two segments to sync and the seal file.
fn three_files(faults: &FaultFs) -> (Bench, Stamp) {
    let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 1)).unwrap();
    let payload = vec![1; 40_000];
    let stamps = (0..6).map(|_| bench.write(0, &payload).unwrap());
    let stamp = stamps.last().unwrap();
    (bench, stamp)
}

#[test]
fn what_nobody_waits_for_is_synced_by_one_thread() {
    let faults = FaultFs::over_mem(&MemFs::new());
    for (is_awaited, threads) in [(false, 0), (true, 2)] {
        let (bench, stamp) = three_files(&faults);
        let before = bench.journal.stats();
        let durable = match is_awaited {
            true => bench.journal.round_for(stamp, || stamp),
            false => bench.journal.unhurried_round_for(stamp, || stamp),
        };
        assert_eq!(durable.unwrap(), stamp);
        let after = bench.journal.stats();
        assert_eq!(after.syncs - before.syncs, 3);
        assert_eq!(after.sync_threads, threads, "awaited: {is_awaited}");
    }
}

#[test]
fn who_comes_to_wait_for_a_background_round_has_the_rest_synced_at_once() {
    // A busy machine may let the waiter come too late.
    let came_in_time = (0..20).any(|_| {
        let faults = FaultFs::over_mem(&MemFs::new());
        let (bench, stamp) = three_files(&faults);
        let slow = Fault::Delay(Duration::from_millis(400));
        // The full segment comes first.
        faults.inject(FaultRule::every(slow).of(Operation::SyncData).times(1));
        let journal = &bench.journal;
        std::thread::scope(|scope| {
            let background = scope.spawn(|| journal.unhurried_round_for(stamp, || stamp));
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(journal.round_for(stamp, || stamp).unwrap(), stamp);
            assert_eq!(background.join().unwrap().unwrap(), stamp);
        });
        // One of the two that were left; three files at once would have taken two.
        assert!(journal.stats().sync_threads <= 2);
        journal.stats().sync_threads == 1
    });
    assert!(came_in_time);
}

#[test]
fn waiters_return_when_d_reaches_them() {
    let memory = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(memory), 1, 1)).unwrap();
    let stamp = bench.write(0, b"x").unwrap();
    let limit = Some(Duration::from_millis(1));
    assert!(!bench.journal.wait_durable(stamp, limit).unwrap());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| bench.journal.wait_durable(stamp, None));
        bench.round().unwrap();
        assert!(waiter.join().unwrap().unwrap());
    });
    let waiting = Arc::clone(&bench.journal);
    let waiter = std::thread::spawn(move || waiting.wait_durable(Stamp(99), None));
    bench
        .journal
        .poison(Error::new(ErrorKind::Io, "test", "broken"));
    assert!(waiter.join().unwrap().is_err());
}

#[test]
fn an_external_file_is_synced_with_the_next_round() {
    let memory = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(memory.clone()), 1, 1)).unwrap();
    let path = dir().join("000099.ext");
    let mut file = memory.create(&path).unwrap();
    memory.sync_dir(&dir()).unwrap();
    file.append(b"external").unwrap();
    bench.journal.sync_with_next_round(file);
    bench.write(0, b"refers to it").unwrap();
    bench.round().unwrap();
    let after = memory.image(1, CrashMode::Strict);
    assert_eq!(after.read_file(&path).unwrap(), b"external");
}

#[test]
fn the_ring_of_seals_goes_round() {
    let memory = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(memory.clone()), 1, 2)).unwrap();
    for turn in 0..700 {
        bench.write(turn % 2, b"x").unwrap();
        bench.round().unwrap();
        if turn % 50 == 0 || turn % 256 < 3 {
            let image = memory.image(turn as u64, CrashMode::Random);
            let recovered = recover(&image, &bench.last()).unwrap();
            assert_eq!(
                recovered.stamps(),
                (1..=turn as u64 + 1).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_round_during_a_large_write_does_not_move_its_record() {
    let memory = MemFs::new();
    let faults = FaultFs::over_mem(&memory);
    let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 1)).unwrap();
    bench.write(0, b"makes the page one to hand over").unwrap();
    // Long enough for a round; if none comes in between, the test only proves less.
    let delay = Fault::Delay(Duration::from_millis(20));
    faults.inject(
        FaultRule::every(delay)
            .of(Operation::Write)
            .on(".large")
            .times(2),
    );
    let journal = Arc::clone(&bench.journal);
    let lane = &mut bench.lanes[0];
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || lane.reserve(&[&[5; 50_000]]));
        while faults.fired() == 0 {
            std::thread::yield_now();
        }
        journal.round(|| Stamp(1)).unwrap();
        writer.join().unwrap().unwrap();
    });
    bench.lanes[0].commit(Stamp(2)).unwrap();
    bench.clock = 2;
    bench.round().unwrap();
    let recovered = recover(&memory.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), [1, 2]);
    assert_eq!(recovered.records[1].1, [5; 50_000]);
}

#[test]
fn concurrent_lanes_and_rounds_lose_nothing() {
    let memory = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(memory.clone()), 1, 3)).unwrap();
    let clock = velella_sync::atomic::AtomicU64::new(0);
    let running = velella_sync::atomic::AtomicU64::new(3);
    use velella_sync::atomic::Ordering;
    let lanes = std::mem::take(&mut bench.lanes);
    std::thread::scope(|scope| {
        for mut lane in lanes {
            let (clock, running) = (&clock, &running);
            scope.spawn(move || {
                for turn in 0..400u64 {
                    let len = if turn % 10 == 0 { 40_000 } else { 100 };
                    let payload = payload(turn, len);
                    lane.reserve(&[&payload]).unwrap();
                    let stamp = clock.fetch_add(1, Ordering::AcqRel) + 1;
                    lane.commit(Stamp(stamp)).unwrap();
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            // D is not checked here: nothing announces windows.
            bench
                .journal
                .round(|| Stamp(clock.load(Ordering::Acquire)))
                .unwrap();
        }
    });
    let recovered = recover(&memory.image(1, CrashMode::KeepAll), &bench.last()).unwrap();
    assert_eq!(
        recovered.report.rule,
        Rule::PageCache,
        "{:?}",
        recovered.report
    );
    assert_eq!(recovered.stamps(), (1..=1200).collect::<Vec<_>>());
    bench.journal.close(|| Stamp(1200)).unwrap();
    let recovered = recover(&memory.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), (1..=1200).collect::<Vec<_>>());
}
