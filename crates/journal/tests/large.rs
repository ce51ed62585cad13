//! Large payloads count as journal, and go with their flush.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use velella_base::{ErrorKind, Stamp};
use velella_journal::Recovery;
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

const SEGMENT: u64 = 256 << 10;

/// Bytes of the segments and large files in the journal's directory.
fn space(fs: &MemFs) -> u64 {
    let all = files(fs, "seg").into_iter().chain(files(fs, "large"));
    all.map(|path| fs.len(&path).unwrap()).sum()
}

/// What the engine does after a flush of everything, and then between writes.
fn flush_all(bench: &mut Bench) {
    bench.journal.release(Stamp(bench.clock + 1)).unwrap();
    for lane in &mut bench.lanes {
        bench.journal.close_idle(lane).unwrap();
    }
    bench.round().unwrap();
    bench.journal.prepare(|| false).unwrap();
}

fn leaves_little_behind(lanes: usize, len: usize, mixed: bool) {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, lanes)).unwrap();
    for turn in 0..12_000_000 / len {
        bench.write(turn % lanes, &vec![1; len]).unwrap();
        if mixed {
            bench.write(turn % lanes, &[2; 100]).unwrap();
        }
        if turn % 16 == 0 {
            bench.round().unwrap();
        }
    }
    let before = space(&fs);
    assert!(before > 11_000_000, "{before}");
    flush_all(&mut bench);
    // Two segments ready, two to reuse, and those with the lanes' open extents.
    let bound = (4 + lanes as u64) * SEGMENT;
    let after = space(&fs);
    let found = format!("{lanes} lanes, {len} bytes, mixed: {mixed}");
    assert!(
        after <= bound,
        "{found}: {after} of {before} bytes are left"
    );
    assert_eq!(files(&fs, "large").len(), 0, "{found}");
    assert_eq!(bench.journal.stats().unflushed_bytes, 0, "{found}");
    assert_eq!(bench.journal.stats().oldest_pinned, None, "{found}");

    bench.write(0, &vec![3; len]).unwrap();
    bench.round().unwrap();
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.records.last().unwrap().1, vec![3; len], "{found}");
}

#[test]
fn after_a_flush_and_a_round_no_large_payload_is_left() {
    for lanes in [1, 3] {
        for len in [64 << 10, 300 << 10, 1 << 20] {
            leaves_little_behind(lanes, len, false);
            leaves_little_behind(lanes, len, true);
        }
    }
}

#[test]
fn unflushed_large_payloads_count_as_journal_and_pin_it() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    for turn in 0..10 {
        bench.write(turn % 2, &vec![1; 300 << 10]).unwrap();
    }
    let stats = bench.journal.stats();
    let least = 10 * (300 << 10);
    assert!(stats.unflushed_bytes >= least, "{}", stats.unflushed_bytes);
    assert!(stats.oldest_pinned.is_some());
}

#[test]
fn a_stream_of_large_payloads_keeps_little_more_than_what_is_not_flushed() {
    const LAG: u64 = 10;
    const LEN: usize = 300 << 10;
    for lanes in [1, 3] {
        let fs = MemFs::new();
        let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, lanes)).unwrap();
        for turn in 0..200 {
            bench.write(turn % lanes, &vec![1; LEN]).unwrap();
            if bench.clock.is_multiple_of(LAG) {
                // What was written up to one lag ago is in tables now.
                bench.journal.release(Stamp(bench.clock - LAG)).unwrap();
                bench.round().unwrap();
                bench.journal.prepare(|| false).unwrap();
            }
            // A file that straddles a flush stays until the next.
            let unflushed = bench.journal.stats().unflushed_bytes;
            let most = 4 * LAG * LEN as u64 + (2 + lanes as u64) * SEGMENT;
            assert!(
                unflushed <= most,
                "{lanes} lanes, {turn}: {unflushed} of {most}"
            );
            let space = space(&fs);
            assert!(
                space <= most + 8 * SEGMENT,
                "{lanes} lanes, {turn}: {space}"
            );
        }
    }
}

/// Notes the longest read.
#[derive(Debug, Default)]
struct Reads(AtomicUsize);

impl Interceptor for Reads {
    fn before(&self, call: &Call<'_>) -> Verdict {
        if call.operation == Operation::Read {
            self.0.fetch_max(call.bytes, Ordering::Relaxed);
        }
        Verdict::Pass
    }

    fn after(&self, _: &Call<'_>, _: bool) {}
}

/// Lanes are checked beside each other, so none of them may hold a large payload whole meanwhile.
#[test]
fn large_payloads_are_checked_in_pieces_and_handed_out_one_at_a_time() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 4)).unwrap();
    let payloads: Vec<_> = (0..4).map(|lane| payload(lane, 1_000_001)).collect();
    for (lane, payload) in payloads.iter().enumerate() {
        bench.write(lane, payload).unwrap();
    }
    bench.round().unwrap();
    for mode in [CrashMode::KeepAll, CrashMode::Strict] {
        let reads = Arc::new(Reads::default());
        let image = Arc::new(fs.image(1, mode));
        let vfs = Arc::new(Intercepted::standing(Arc::clone(&reads), image.clone()));
        let mut recovery = Recovery::open(vfs, &dir(), DATABASE, &bench.last()).unwrap();
        let longest = reads.0.load(Ordering::Relaxed);
        assert!(longest <= 256 << 10, "{mode:?}: {longest}");
        for expected in &payloads {
            let record = recovery.next_record().unwrap().unwrap();
            assert!(record.payload == expected, "{}", record.stamp);
        }
        assert!(recovery.next_record().unwrap().is_none());
    }
    // Damage in any piece is seen.
    let image = fs.image(1, CrashMode::KeepAll);
    let large = files(&image, "large").remove(2);
    for at in [0, 600_000, 1_000_000] {
        let damaged = image.image(1, CrashMode::KeepAll);
        damaged.flip_byte(&large, 4096 + at, 1).unwrap();
        let error = recover(&damaged, &bench.last()).err().unwrap();
        assert_eq!(error.file(), Some(&*large), "{at}: {error}");
    }
}

#[test]
fn a_large_file_that_cannot_be_made_leaves_nothing_behind() {
    let start = || {
        let fs = MemFs::new();
        let faulty = FaultFs::over_mem(&fs);
        let mut bench = Bench::start(config(Arc::new(faulty.clone()), 1, 1)).unwrap();
        bench.write(0, b"before").unwrap();
        (fs, faulty, bench)
    };
    let fault = Rule::every(Fault::NoSpace);
    let (fs, faulty, mut bench) = start();
    faulty.inject(fault.clone().of(Operation::Write).on(".large").times(3));
    for _ in 0..3 {
        let error = bench.write(0, &[1; 100_000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert_eq!(files(&fs, "large").len(), 0);
    }
    // There was nothing to make room with, and so no second try.
    assert_eq!(faulty.fired(), 3);
    bench.write(0, &[1; 100_000]).unwrap();
    bench.round().unwrap();
    assert_eq!(files(&fs, "large").len(), 1);
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), [1, 2]);

    // One whose name could not be synced goes as well; writing has ended then. That the sync met a
    // full disk makes no difference: it is no write refused.
    let (fs, faulty, mut bench) = start();
    faulty.inject(fault.of(Operation::SyncDir).on("journal"));
    let error = bench.write(0, &[1; 100_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert_eq!(files(&fs, "large").len(), 0);
    let recovered = recover(&fs.image(1, CrashMode::KeepAll), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), [1]);
}

/// What was reserved for a write that was refused is written over by the next.
#[test]
fn payloads_that_nothing_came_to_refer_to_take_the_place_of_one() {
    const LEN: usize = 300 << 10;
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, &vec![1; LEN]).unwrap();
    bench.round().unwrap();
    let before = space(&fs);
    for turn in 0..100 {
        // Some longer than a file may grow to.
        let len = if turn % 10 == 9 { 3 << 20 } else { LEN };
        bench.lanes[0].reserve(&[&vec![2; len]]).unwrap();
        if turn % 7 == 0 {
            bench.round().unwrap();
        }
    }
    assert_eq!(files(&fs, "large").len(), 1);
    let more = space(&fs) - before;
    assert!(more <= (3 << 20) + SEGMENT, "{more}");
    // Nor is it kept while the lane has nothing to do, whatever came after it.
    bench.journal.close_idle(&mut bench.lanes[0]).unwrap();
    assert_eq!(space(&fs), before);
    bench.lanes[0].reserve(&[&vec![2; 3 << 20]]).unwrap();
    bench.write(0, &vec![3; LEN]).unwrap();
    bench.journal.close_idle(&mut bench.lanes[0]).unwrap();
    let more = space(&fs) - before;
    assert!(more <= LEN as u64 + SEGMENT, "{more}");
    let unflushed = bench.journal.stats().unflushed_bytes;
    assert!(unflushed <= 2 * LEN as u64 + 2 * SEGMENT, "{unflushed}");
    bench.write(0, &[4; 100]).unwrap();
    bench.round().unwrap();
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    let payloads = recovered.records.iter().map(|record| &record.1[..]);
    let expected: [&[u8]; 3] = [&vec![1; LEN], &vec![3; LEN], &[4; 100]];
    assert!(payloads.eq(expected));
}

/// The file ends where it did when it was synced, and yet it says something else.
#[test]
fn a_payload_in_the_place_of_one_that_was_synced_is_synced_as_well() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    bench.write(0, &vec![1; 300 << 10]).unwrap();
    bench.lanes[0].reserve(&[&vec![2; 300 << 10]]).unwrap();
    bench.write(1, b"else").unwrap();
    bench.round().unwrap();
    bench.write(0, &vec![3; 300 << 10]).unwrap();
    bench.round().unwrap();
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), [1, 2, 3]);
    assert!(recovered.records[2].1 == vec![3; 300 << 10]);
}

/// Two segments' worth of large payloads that nobody needs, no room, and nothing to write with.
fn full_of_what_nobody_needs(fs: &MemFs, faulty: &FaultFs) -> Bench {
    let mut bench = Bench::start(config(Arc::new(faulty.clone()), 1, 1)).unwrap();
    // Its small records leave no segment to be reused.
    for _ in 0..4 {
        bench.write(0, &vec![1; 1 << 20]).unwrap();
    }
    bench.journal.release(Stamp(bench.clock + 1)).unwrap();
    bench.journal.close_idle(&mut bench.lanes[0]).unwrap();
    bench.round().unwrap();
    assert!(!files(fs, "large").is_empty());
    fs.set_space_max(Some(fs.space_used()));
    bench
}

#[test]
fn what_nobody_needs_makes_room_where_there_is_none() {
    let fs = MemFs::new();
    let mut bench = full_of_what_nobody_needs(&fs, &FaultFs::over_mem(&fs));
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(files(&fs, "large").len(), 0);
    bench.write(0, b"after").unwrap();
    bench.round().unwrap();

    // For a writer as well, whatever it writes.
    for len in [100, 300 << 10] {
        let fs = MemFs::new();
        let mut bench = full_of_what_nobody_needs(&fs, &FaultFs::over_mem(&fs));
        let before = bench.clock;
        bench.write(0, &vec![2; len]).unwrap();
        bench.round().unwrap();
        let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
        assert_eq!(recovered.stamps().last(), Some(&(before + 1)));
    }
}

#[test]
fn what_cannot_be_removed_ends_nothing_and_goes_once_it_can() {
    for (fault, ends) in [
        (Fault::Permission, false),
        (Fault::NoSpace, false),
        (Fault::Io, true),
    ] {
        let fs = MemFs::new();
        let faulty = FaultFs::over_mem(&fs);
        let bench = full_of_what_nobody_needs(&fs, &faulty);
        faulty.inject(Rule::every(fault).of(Operation::Remove).on(".large"));
        // The lack of room does not hide what ails the device.
        let full = bench.journal.prepare(|| false).unwrap_err();
        assert_eq!(full.kind() == ErrorKind::Io, ends, "{fault:?}: {full}");
        fs.set_space_max(None);
        assert_eq!(bench.journal.prepare(|| false).is_err(), ends, "{fault:?}");
        let released = bench.journal.release(Stamp(bench.clock + 1));
        assert_eq!(released.is_err(), ends, "{fault:?}");
        assert!(faulty.fired() > 0 && !files(&fs, "large").is_empty());
        faulty.heal();
        bench.journal.prepare(|| false).unwrap();
        assert_eq!(files(&fs, "large").len(), 0, "{fault:?}");
    }
}

/// After a flush as well, when nothing that was written is in the file.
#[test]
fn an_idle_lane_keeps_its_file_until_something_refers_to_it() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, &vec![1; 300 << 10]).unwrap();
    flush_all(&mut bench);
    assert_eq!(files(&fs, "large").len(), 0);
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        bench.lanes[0].reserve(&[&vec![2; 300 << 10]]).unwrap();
        bench.journal.close_idle(&mut bench.lanes[0]).unwrap();
        bench.round().unwrap();
        seen.extend(files(&fs, "large"));
    }
    assert_eq!(seen.len(), 1);
    bench.write(0, &vec![3; 300 << 10]).unwrap();
    bench.round().unwrap();
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps().last(), Some(&2));
}

#[test]
fn a_payload_for_which_there_is_no_room_takes_none() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let mut bench = Bench::start(config(Arc::new(faulty.clone()), 1, 1)).unwrap();
    bench.write(0, &vec![1; 300 << 10]).unwrap();
    let before = space(&fs);
    // Half of it is written.
    let short = Rule::every(Fault::Short).of(Operation::Write).on(".large");
    faulty.inject(short);
    let refused = bench.write(0, &vec![2; 1 << 20]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert_eq!(space(&fs), before);
    faulty.heal();
    bench.write(0, &vec![3; 300 << 10]).unwrap();
    bench.round().unwrap();
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), [1, 2]);
}

/// They are kept to be used again, which is worth less than a write.
#[test]
fn segments_kept_to_be_used_again_make_room_too() {
    for forgoes in [false, true] {
        let fs = MemFs::new();
        let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
        for _ in 0..200 {
            bench.write(0, &[1; 9_000]).unwrap();
            bench.journal.prepare(|| false).unwrap();
        }
        flush_all(&mut bench);
        // The lane's, those ready, and those that are retired.
        let kept = files(&fs, "seg").len();
        assert!(kept > 5, "{kept}");
        fs.set_space_max(Some(fs.space_used()));
        if forgoes {
            bench.journal.forgo().unwrap();
            assert!(files(&fs, "seg").len() <= 1);
        } else {
            bench.write(0, &vec![2; 300 << 10]).unwrap();
            assert!(files(&fs, "seg").len() <= 3);
        }
        // Looks in which nothing is retired, and nothing is needed.
        for _ in 0..200 {
            let _ = bench.journal.prepare(|| false);
        }
    }
}

#[test]
fn a_file_that_is_left_keeps_nothing_that_was_refused() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, &vec![1; 300 << 10]).unwrap();
    let left = files(&fs, "large").pop().unwrap();
    bench.lanes[0].reserve(&[&vec![2; 3 << 20]]).unwrap();
    assert!(fs.len(&left).unwrap() > 3 << 20);
    // Some of it is in tables.
    bench.journal.release(Stamp(bench.clock + 1)).unwrap();
    bench.write(0, &vec![3; 300 << 10]).unwrap();
    assert!(files(&fs, "large").len() > 1);
    assert!(fs.len(&left).unwrap() < 400 << 10);
}

#[test]
fn room_that_a_failed_try_gives_back_is_tried_again() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let bench = Bench::start(config(Arc::new(faulty.clone()), 1, 1)).unwrap();
    let once = Rule::every(Fault::NoSpace).of(Operation::Write).on(".seg");
    faulty.inject(once.times(1));
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(faulty.fired(), 1);
}
