//! What lanes take and recovery gives back, without a power loss.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::cmp::Ordering::{Equal, Less};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use velella_base::{Error, ErrorKind, Stamp};
use velella_journal::{Access, Last, Rule};
use velella_vfs::fault::{Fault, Rule as FaultRule};
use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella_vfs::{FaultFs, MemFs, Operation};

/// Writes records of all sizes over three lanes, kills the process, and compares.
fn everything_survives_the_process(access: Access) {
    let fs = MemFs::new();
    let mut config = config(Arc::new(fs.clone()), 1, 3);
    config.access = access;
    let mut bench = Bench::start(config).unwrap();
    let mut expected = Vec::new();
    for turn in 0..3000u64 {
        let len = match turn % 100 {
            0 => 16 << 10,
            1 => 0,
            2 => 200_000,
            _ => 100 + turn % 50,
        };
        let payload = payload(turn, usize::try_from(len).unwrap());
        let lane = usize::try_from(turn % 3).unwrap();
        let stamp = bench.write(lane, &payload).unwrap();
        expected.push((stamp.0, payload));
        if turn % 500 == 250 {
            assert_eq!(bench.round().unwrap(), stamp);
        }
    }
    let last = bench.last();
    let after = fs.crash(1, velella_vfs::mem::CrashMode::KeepAll);
    let recovered = recover(&after, &last).unwrap();
    assert_eq!(
        recovered.report.rule,
        Rule::PageCache,
        "{:?}",
        recovered.report
    );
    assert!(recovered.records == expected, "{:?}", recovered.report);
    assert_eq!(recovered.report.records, 3000);
    assert_eq!(recovered.report.cut, Stamp::MAX);
}

#[test]
fn every_committed_record_survives_the_process_mapped() {
    everything_survives_the_process(Access::Mapped);
}

#[test]
fn every_committed_record_survives_the_process_written() {
    everything_survives_the_process(Access::Write);
}

#[test]
fn a_power_loss_keeps_what_the_last_round_covered_and_only_that() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    for turn in 0..100 {
        bench.write(turn % 2, &[7; 140]).unwrap();
    }
    let durable = bench.round().unwrap();
    assert_eq!(durable, Stamp(100));
    for turn in 0..100 {
        bench.write(turn % 2, &[7; 140]).unwrap();
    }
    let last = bench.last();
    let after = fs.crash(1, velella_vfs::mem::CrashMode::Strict);
    let recovered = recover(&after, &last).unwrap();
    assert_eq!(recovered.report.rule, Rule::Cut);
    assert_eq!(recovered.stamps(), (1..=100).collect::<Vec<_>>());
}

#[test]
fn a_reservation_that_is_not_committed_is_nothing() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, b"one").unwrap();
    bench.lanes[0].reserve(&[&[9; 500]]).unwrap();
    bench.lanes[0].reserve(&[&[9; 100_000]]).unwrap();
    bench.write(0, b"two").unwrap();
    bench.lanes[0].reserve(&[&[9; 5000]]).unwrap();
    let after = fs.crash(1, velella_vfs::mem::CrashMode::KeepAll);
    let recovered = recover(&after, &bench.last()).unwrap();
    let expected = vec![(1, b"one".to_vec()), (2, b"two".to_vec())];
    assert_eq!(recovered.records, expected);
}

#[test]
fn a_payload_in_parts_is_one_payload() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    let big = [3; 40_000];
    for parts in [vec![&b"a"[..], b"", b"bc"], vec![&big[..], &big[..], b"x"]] {
        bench.lanes[0].reserve(&parts).unwrap();
        bench.clock += 1;
        bench.lanes[0].commit(Stamp(bench.clock)).unwrap();
    }
    let after = fs.crash(1, velella_vfs::mem::CrashMode::KeepAll);
    let recovered = recover(&after, &bench.last()).unwrap();
    assert_eq!(recovered.records[0].1, b"abc");
    assert_eq!(recovered.records[1].1.len(), 80_001);
}

#[test]
fn a_clean_close_is_recognised_and_loses_nothing() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    for turn in 0..50 {
        bench.write(turn % 2, b"value").unwrap();
    }
    bench.journal.close(|| Stamp(bench.clock)).unwrap();
    let refused = bench.write(0, b"late").unwrap_err();
    assert_eq!(refused.kind(), velella_base::ErrorKind::Closed);
    assert!(bench.journal.poisoned().is_none());
    let last = bench.last();
    for mode in velella_vfs::mem::CrashMode::POWER_LOSSES {
        let recovered = recover(&fs.image(1, mode), &last).unwrap();
        assert_eq!(recovered.report.rule, Rule::CleanClose);
        assert_eq!(recovered.report.cut, Stamp::MAX);
        assert_eq!(recovered.stamps(), (1..=50).collect::<Vec<_>>());
    }
}

/// J4, and more: not even the page is written again.
#[test]
fn a_page_that_a_round_handed_over_is_left_alone() {
    for access in [Access::Mapped, Access::Write] {
        let fs = MemFs::new();
        let mut config = config(Arc::new(fs.clone()), 1, 1);
        config.access = access;
        let mut bench = Bench::start(config).unwrap();
        let mut handed: Vec<(usize, Vec<u8>)> = Vec::new();
        for turn in 0..200usize {
            for _ in 0..=turn % 5 {
                bench
                    .write(0, &payload(turn as u64, 50 + turn * 7))
                    .unwrap();
            }
            bench.round().unwrap();
            let segments = files(&fs, "seg");
            for (segment, page, then) in handed.iter().map(|(at, then)| (at >> 32, at, then)) {
                let bytes = fs.read_file(&segments[segment]).unwrap();
                let from = (page & 0xffff_ffff) * 4096;
                assert!(
                    bytes[from..from + 4096] == **then,
                    "{access:?} turn {turn} at {from}"
                );
            }
            if turn % 20 == 0 {
                handed = segments
                    .iter()
                    .enumerate()
                    .flat_map(|(segment, path)| {
                        let bytes = fs.read_file(path).unwrap();
                        // Not the strip of seals behind the extents: its sectors are on their own.
                        let extents = bytes.len() as u64 / EXTENT_BYTES * EXTENT_BYTES;
                        let extents = usize::try_from(extents).unwrap();
                        let pages = bytes[..extents]
                            .chunks(4096)
                            .map(<[u8]>::to_vec)
                            .enumerate();
                        pages
                            .filter(|(_, page)| page.iter().any(|&byte| byte != 0))
                            .map(move |(page, bytes)| (segment << 32 | page, bytes))
                            .collect::<Vec<_>>()
                    })
                    .collect();
            }
        }
        let recovered = recover(
            &fs.image(1, velella_vfs::mem::CrashMode::Strict),
            &bench.last(),
        );
        assert_eq!(
            recovered.unwrap().stamps(),
            (1..=bench.clock).collect::<Vec<_>>()
        );
    }
}

/// Ends the `nth` write to a segment between two of its pages, or where it begins, and the process
/// with it.
#[derive(Debug)]
struct Killer {
    nth: u64,
    writes: AtomicU64,
}

impl Interceptor for Killer {
    fn before(&self, call: &Call<'_>) -> Verdict {
        let is_ours = call.path.extension().is_some_and(|kind| kind == "seg");
        if !is_ours || call.operation != Operation::Write {
            return Verdict::Pass;
        }
        let killed = || Error::io("write", call.path, std::io::Error::from_raw_os_error(4));
        let room = 4096 - call.offset.unwrap() % 4096;
        match self.writes.fetch_add(1, Ordering::Relaxed).cmp(&self.nth) {
            Less => Verdict::Pass,
            Equal if (call.bytes as u64) > room => {
                Verdict::Cut(usize::try_from(room).unwrap(), killed())
            }
            _ => Verdict::Fail(killed()),
        }
    }

    fn after(&self, _: &Call<'_>, _: bool) {}
}

/// Writes until a write to a segment fails; what was acknowledged.
fn write_until_it_fails(config: velella_journal::Config) -> (Vec<u64>, Option<Last>) {
    let Ok(mut bench) = Bench::start(config) else {
        return (Vec::new(), None);
    };
    let mut acknowledged = Vec::new();
    for turn in 0..60u64 {
        let len = usize::try_from(turn % 7 * 2_001 + 40).unwrap();
        match bench.write(usize::from(turn % 2 == 0), &vec![9; len]) {
            Ok(stamp) => acknowledged.push(stamp.0),
            Err(_) => break,
        }
    }
    (acknowledged, Some(bench.last()))
}

#[test]
fn a_write_that_ends_half_way_loses_nothing_before_it() {
    let mut cut = 0;
    for nth in 0..400 {
        let fs = MemFs::new();
        let killer = Arc::new(Killer {
            nth,
            writes: AtomicU64::new(0),
        });
        let killed = Intercepted::standing(Arc::clone(&killer), Arc::new(fs.clone()));
        let mut config = config(Arc::new(killed), 1, 2);
        config.access = Access::Write;
        let (acknowledged, last) = write_until_it_fails(config);
        if acknowledged.len() == 60 {
            break;
        }
        let Some(last) = last else { continue };
        cut += 1;
        let recovered = recover(&fs, &last).unwrap();
        let (stamps, report) = (recovered.stamps(), recovered.report);
        assert_eq!(report.rule, Rule::PageCache, "{nth}: {report:?}");
        assert_eq!(stamps, acknowledged, "{nth}");
    }
    assert!(cut > 60, "{cut}");
}

#[test]
fn a_write_that_fails_half_way_loses_nothing_before_it() {
    for nth in 1..400 {
        let fs = MemFs::new();
        let faulty = FaultFs::over_mem(&fs);
        let short = FaultRule::every(Fault::Short).of(Operation::Write);
        faulty.inject(short.on(".seg").nth(nth));
        let mut config = config(Arc::new(faulty), 1, 2);
        config.access = Access::Write;
        let (acknowledged, last) = write_until_it_fails(config);
        if acknowledged.len() == 60 {
            break;
        }
        let Some(last) = last else { continue };
        let recovered = recover(&fs, &last).unwrap();
        let (stamps, report) = (recovered.stamps(), recovered.report);
        assert_eq!(report.rule, Rule::PageCache, "{nth}: {report:?}");
        assert_eq!(stamps, acknowledged, "{nth}");
    }
}

#[test]
fn what_a_writer_waits_for_is_noted() {
    let nap = Duration::from_millis(5);
    // Each write, and a segment that nobody had made ready.
    for (access, slow) in [
        (Access::Write, Operation::Write),
        (Access::Mapped, Operation::Create),
    ] {
        let fs = FaultFs::over_mem(&MemFs::new());
        let mut config = config(Arc::new(fs.clone()), 1, 1);
        config.access = access;
        let segment = usize::try_from(config.segment_bytes).unwrap();
        let mut bench = Bench::start(config).unwrap();
        bench.write(0, b"begins an extent").unwrap();
        fs.inject(FaultRule::every(Fault::Delay(nap)).of(slow).on(".seg"));
        let before = bench.journal.stats().waits;
        let mut writes = 0;
        while fs.fired() == 0 || writes < 3 {
            assert!(writes * 1_000 < 2 * segment, "{access:?}: nothing was slow");
            bench.write(0, &[1; 1_000]).unwrap();
            writes += 1;
        }
        let waits = bench.journal.stats().waits;
        let (noted, total) = (waits.count - before.count, waits.total - before.total);
        let least = u32::try_from(if access == Access::Write { writes } else { 1 }).unwrap();
        assert!(noted >= u64::from(least), "{access:?}: {waits:?}");
        assert!(
            total >= least * nap && waits.max >= nap,
            "{access:?}: {waits:?}"
        );
    }
}

#[test]
fn a_record_for_which_there_is_no_room_leaves_room_for_smaller_ones() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, b"before").unwrap();
    bench.journal.forgo().unwrap();
    fs.set_space_max(Some(fs.space_used()));
    // Four fill an extent but for a little.
    let large = vec![1; 16_000];
    let refused = loop {
        assert!(bench.clock < 20, "the lane has one segment");
        if let Err(error) = bench.write(0, &large) {
            break error;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    for _ in 0..5 {
        bench.write(0, &[2; 100]).unwrap();
        let refused = bench.write(0, &large).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    }
    bench.round().unwrap();
    let recovered = recover(&fs, &bench.last()).unwrap();
    let (stamp, payload) = recovered.records.last().unwrap();
    assert_eq!((*stamp, payload.len()), (bench.clock, 100));
}
