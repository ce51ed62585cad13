//! Sectors that cannot be read: the caller's error, and for who accepts loss what a damaged sector
//! is, and told.
//!
//! Claims: `source.rs` U1 to U4.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Stamp};
use velella_journal::{Last, Rule, evidence, newest_incarnation};
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_vfs::fault::{Fault, Rule as FaultRule};
use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs, is_unreadable};

const SECTOR: u64 = 512;

/// A device with one sector that cannot be read after so many reads of anything.
#[derive(Debug)]
struct BadSector {
    path: PathBuf,
    offset: u64,
    sound_reads: u64,
    reads: AtomicU64,
}

impl Interceptor for BadSector {
    fn before(&self, call: &Call<'_>) -> Verdict {
        if call.operation != Operation::Read {
            return Verdict::Pass;
        }
        let begin = call.offset.unwrap_or(0);
        let end = begin + call.bytes as u64;
        // Relaxed: a count.
        let is_bad = self.reads.fetch_add(1, Ordering::Relaxed) >= self.sound_reads
            && call.path == self.path
            && begin < self.offset + SECTOR
            && self.offset < end;
        match is_bad {
            true => Verdict::Fail(Error::io(
                "read",
                call.path,
                std::io::Error::from_raw_os_error(5),
            )),
            false => Verdict::Pass,
        }
    }

    fn after(&self, _: &Call<'_>, _: bool) {}
}

/// A journal with skips, full extents, a large record and several rounds; the last writes are in
/// no round. After the death of the process, or a loss of power.
fn scene(mode: CrashMode) -> (MemFs, Last) {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    for turn in 0..60_usize {
        let len = match turn {
            20 => 90_000,
            25 => 15_000,
            _ => 200 + turn % 9,
        };
        bench.write(turn % 2, &payload(turn as u64, len)).unwrap();
        if turn % 11 == 10 {
            bench.round().unwrap();
        }
    }
    (fs.image(1, mode), bench.last())
}

fn journal_files(fs: &MemFs) -> Vec<PathBuf> {
    let kinds = ["seal", "seg", "large"];
    kinds.iter().flat_map(|kind| files(fs, kind)).collect()
}

type Device = Intercepted<BadSector>;

/// The same machine, its journal on a device that loses the sector after so many reads.
fn losing(fs: &MemFs, path: &Path, offset: u64, sound_reads: u64) -> (Device, Arc<BadSector>) {
    let sector = Arc::new(BadSector {
        path: path.to_path_buf(),
        offset,
        sound_reads,
        reads: AtomicU64::new(0),
    });
    let copy = fs.image(0, CrashMode::KeepAll);
    let device = Intercepted::standing(Arc::clone(&sector), Arc::new(copy));
    (device, sector)
}

/// The same, the sector being lost already.
fn on_device(fs: &MemFs, path: &Path, offset: u64) -> Arc<dyn Vfs> {
    Arc::new(losing(fs, path, offset, 0).0)
}

#[test]
fn who_accepts_loss_loses_with_an_unreadable_sector_what_a_damaged_one_costs() {
    let mut noticed = 0;
    // Of every two sectors one after a kill, the other after a loss of power.
    for (mode, first) in [(CrashMode::KeepAll, 0), (CrashMode::Strict, SECTOR)] {
        let (fs, strict) = scene(mode);
        let lossy = Last {
            accept_loss: true,
            ..strict.clone()
        };
        for path in journal_files(&fs) {
            let length = fs.read_file(&path).unwrap().len() as u64;
            for offset in (first..length).step_by(2 * SECTOR as usize) {
                let context = format!("{} at {offset}, {mode:?}", path.display());
                let device = on_device(&fs, &path, offset);
                let found = recover_dyn(Arc::clone(&device), &lossy).unwrap();
                let told = found.report.notes.join("\n");
                let normal = recover_dyn(device, &strict);
                let damaged = fs.image(0, CrashMode::KeepAll);
                let sector = vec![0xA5; SECTOR.min(length - offset) as usize];
                let file = damaged.open_write(&path).unwrap();
                file.write_at(offset, &sector).unwrap();
                let last = Last {
                    durable: Stamp::ZERO,
                    assume_power_loss: normal.is_err(),
                    ..lossy.clone()
                };
                let expected = recover(&damaged, &last).unwrap();
                assert_eq!(found.stamps(), expected.stamps(), "{context}");
                let prefix: Vec<u64> = (1..=found.records.len() as u64).collect();
                assert_eq!(found.stamps(), prefix, "{context}: a hole");
                let (rule, cut) = (found.report.rule, found.report.cut);
                assert_eq!((rule, cut), (expected.report.rule, expected.report.cut));
                match normal {
                    Ok(_) => assert!(!told.contains("unreadable"), "{context}: {told}"),
                    Err(error) => {
                        noticed += 1;
                        assert_eq!(error.kind(), ErrorKind::Io, "{context}: {error}");
                        let name = path.to_str().unwrap();
                        assert!(told.contains("unreadable"), "{context}: {told}");
                        assert!(told.contains(name), "{context}: {told}");
                    }
                }
            }
        }
    }
    assert!(noticed > 300, "{noticed}");
}

#[test]
fn what_contradicts_the_manifest_is_looked_for_in_what_can_be_read() {
    let (fs, strict) = scene(CrashMode::KeepAll);
    let lossy = Last {
        accept_loss: true,
        ..strict.clone()
    };
    for path in journal_files(&fs) {
        let device = on_device(&fs, &path, 0);
        evidence(&*device, &dir(), DATABASE, &lossy).unwrap();
        let newest = newest_incarnation(&*device, &dir(), DATABASE, 7_000, true).unwrap();
        assert!(newest > 8_000, "it may have been of any run: {newest}");
        let error = newest_incarnation(&*device, &dir(), DATABASE, 1, false).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Io, Some(&*path)));
        let refused = evidence(&*device, &dir(), DATABASE, &strict).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.file()),
            (ErrorKind::Io, Some(&*path))
        );
    }
}

#[test]
fn what_passes_is_no_loss_to_accept() {
    let (fs, mut last) = scene(CrashMode::KeepAll);
    last.accept_loss = true;
    let whole = recover(&fs, &last).unwrap();
    assert_eq!(whole.report.rule, Rule::PageCache);
    let passing = [Fault::TooManyFiles, Fault::Permission];
    for (fault, operation) in [
        (passing[0], Operation::OpenRead),
        (passing[0], Operation::Read),
        (passing[1], Operation::Read),
    ] {
        let faulty = FaultFs::new(Arc::new(fs.image(0, CrashMode::KeepAll)));
        faulty.inject(FaultRule::every(fault).of(operation).nth(3));
        let error = recover(&faulty, &last).err().unwrap();
        assert!(!is_unreadable(&error), "{error}");
        // Who tries again has all.
        assert_eq!(recover(&faulty, &last).unwrap().stamps(), whole.stamps());
    }
}

#[test]
fn a_read_that_fails_once_costs_nothing() {
    let (fs, mut last) = scene(CrashMode::KeepAll);
    last.accept_loss = true;
    let whole = recover(&fs, &last).unwrap();
    for nth in 1.. {
        let faulty = FaultFs::new(Arc::new(fs.image(0, CrashMode::KeepAll)));
        faulty.inject(FaultRule::every(Fault::Io).of(Operation::Read).nth(nth));
        let found = recover(&faulty, &last).unwrap();
        assert_eq!(found.stamps(), whole.stamps(), "{nth}");
        assert_eq!(found.report.notes, whole.report.notes, "{nth}");
        if faulty.fired() == 0 {
            break;
        }
    }
}

/// A sector at the beginning of a page, where lanes go on after a round, goes between two reads.
#[test]
fn what_goes_while_it_is_handed_out_is_told() {
    let (fs, mut last) = scene(CrashMode::KeepAll);
    last.accept_loss = true;
    let (device, sector) = losing(&fs, Path::new("none"), 0, 0);
    assert_eq!(recover(&device, &last).unwrap().stamps().len(), 60);
    let reads = sector.reads.load(Ordering::Relaxed);
    let mut refused = 0;
    for path in files(&fs, "seg") {
        let bytes = fs.read_file(&path).unwrap();
        let is_used = |page: &usize| bytes[*page..*page + 512].iter().any(|byte| *byte != 0);
        for page in (0..bytes.len()).step_by(4096).filter(is_used) {
            // What is handed out is read last.
            for sound_reads in reads - 40..reads {
                let (device, _) = losing(&fs, &path, page as u64, sound_reads);
                let context = format!("{} at {page}, {sound_reads}", path.display());
                match recover(&device, &last) {
                    Err(error) => {
                        refused += 1;
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{context}: {error}");
                    }
                    Ok(found) => {
                        let prefix: Vec<u64> = (1..=found.records.len() as u64).collect();
                        assert_eq!(found.stamps(), prefix, "{context}: a hole");
                    }
                }
            }
        }
    }
    assert!(refused > 0);
}

/// U4, by the reads that a large, dead value costs.
#[test]
fn a_dead_file_is_not_asked_for_each_sector_again_and_again() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, b"small").unwrap();
    bench.write(0, &payload(1, 8 << 20)).unwrap();
    bench.round().unwrap();
    let mut last = bench.last();
    last.accept_loss = true;
    let faulty = FaultFs::new(Arc::new(fs.image(0, CrashMode::KeepAll)));
    faulty.inject(FaultRule::every(Fault::Io).of(Operation::Read).on("large"));
    assert_eq!(recover(&faulty, &last).unwrap().stamps(), [1]);
    // 16384 sectors, in pieces of 256 KiB.
    assert!((1024..4000).contains(&faulty.fired()), "{}", faulty.fired());
}
