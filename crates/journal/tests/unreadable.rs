//! Sectors that cannot be read: the caller's error, and for who accepts loss what a damaged sector
//! is, and told.
//!
//! Claims: `source.rs` U1 to U3.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Error, ErrorKind};
use velella_journal::{Last, Rule, evidence, newest_incarnation};
use velella_vfs::fault::{Fault, Rule as FaultRule};
use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs, lacks_descriptors};

const SECTOR: u64 = 512;

/// A device with one sector that cannot be read.
#[derive(Debug)]
struct BadSector {
    path: PathBuf,
    offset: u64,
}

impl Interceptor for BadSector {
    fn before(&self, call: &Call<'_>) -> Verdict {
        let begin = call.offset.unwrap_or(0);
        let end = begin + call.bytes as u64;
        let is_bad = call.operation == Operation::Read
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

/// The same machine, its journal on the device.
fn on_device(fs: &MemFs, path: &Path, offset: u64) -> Arc<dyn Vfs> {
    let sector = Arc::new(BadSector {
        path: path.to_path_buf(),
        offset,
    });
    let copy = fs.image(0, CrashMode::KeepAll);
    Arc::new(Intercepted::standing(sector, Arc::new(copy)))
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
                let damaged = fs.image(0, CrashMode::KeepAll);
                let sector = vec![0xA5; SECTOR.min(length - offset) as usize];
                let file = damaged.open_write(&path).unwrap();
                file.write_at(offset, &sector).unwrap();
                let expected = recover(&damaged, &lossy).unwrap();
                let found = recover_dyn(Arc::clone(&device), &lossy).unwrap();
                assert_eq!(found.stamps(), expected.stamps(), "{context}");
                let (rule, cut) = (found.report.rule, found.report.cut);
                assert_eq!((rule, cut), (expected.report.rule, expected.report.cut));
                let told = found.report.notes.join("\n");
                match recover_dyn(device, &strict) {
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
        let newest = newest_incarnation(&*device, &dir(), DATABASE, true).unwrap();
        assert_eq!(newest, 1, "of the other files");
        let error = newest_incarnation(&*device, &dir(), DATABASE, false).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Io, Some(&*path)));
        let refused = evidence(&*device, &dir(), DATABASE, &strict).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.file()),
            (ErrorKind::Io, Some(&*path))
        );
    }
}

#[test]
fn too_many_open_files_are_no_loss_to_accept() {
    let (fs, mut last) = scene(CrashMode::KeepAll);
    last.accept_loss = true;
    let whole = recover(&fs, &last).unwrap();
    assert_eq!(whole.report.rule, Rule::PageCache);
    for operation in [Operation::OpenRead, Operation::Read] {
        let faulty = FaultFs::new(Arc::new(fs.image(0, CrashMode::KeepAll)));
        faulty.inject(FaultRule::every(Fault::TooManyFiles).of(operation).nth(3));
        let error = recover(&faulty, &last).err().unwrap();
        assert!(lacks_descriptors(&error), "{error}");
        // Who tries again has all.
        assert_eq!(recover(&faulty, &last).unwrap().stamps(), whole.stamps());
    }
}
