//! Damage behind the newest seal, after a kill: cut and told, never a hole.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_journal::{Access, Last, Rule};
use velella_vfs::fault::{self, Fault};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

/// What a killed process wrote after its last round, in two lanes whose stamps alternate: small
/// records, one in a large file, and the next extents.
fn killed(access: Access) -> (MemFs, MemFs, Last) {
    let fs = MemFs::new();
    let mut config = config(Arc::new(fs.clone()), 1, 2);
    config.access = access;
    let mut bench = Bench::start(config).unwrap();
    for lane in [0, 1] {
        bench.write(lane, b"durable").unwrap();
    }
    bench.round().unwrap();
    let before = fs.image(0, CrashMode::KeepAll);
    let lengths = [&[30, 30, 20_000, 30][..], &[15_000; 14], &[9]].concat();
    for lane in lengths.into_iter().flat_map(|len| [(0, len), (1, len)]) {
        bench.write(lane.0, &vec![7; lane.1]).unwrap();
    }
    bench.write(0, b"nothing follows it in its lane").unwrap();
    for turn in 0..5 {
        bench.write(1, &[turn; 20]).unwrap();
    }
    (before, fs, bench.last())
}

#[test]
fn damage_behind_the_newest_seal_leaves_no_hole_and_is_told() {
    for access in [Access::Mapped, Access::Write] {
        let (before, fs, last) = killed(access);
        let whole = recover(&fs, &last).unwrap();
        assert_eq!(whole.report.rule, Rule::PageCache, "{access:?}");
        let all: Vec<u64> = (1..=46).collect();
        assert_eq!(whole.stamps(), all);
        let mut told = [0; 2];
        for (kind, extension) in ["seg", "large"].into_iter().enumerate() {
            for path in files(&fs, extension) {
                let bytes = fs.read_file(&path).unwrap();
                let old = before.read_file(&path).unwrap_or_default();
                let is_new = |at: &usize| old.get(*at).copied().unwrap_or(0) != bytes[*at];
                // Not those of the middle of long payloads.
                let edge = |at: &usize| bytes[*at] != 7 || at.is_multiple_of(499);
                for at in (0..bytes.len()).filter(is_new).filter(edge) {
                    let damaged = flipped(&fs, &path, at as u64, 0x20);
                    let recovered = recover(&damaged, &last).unwrap();
                    let (stamps, report) = (recovered.stamps(), recovered.report);
                    let context = format!("{access:?}, {} at {at}: {report:?}", path.display());
                    if stamps == all {
                        assert!(recovered.records == whole.records, "{context}");
                        continue;
                    }
                    assert_eq!((stamps, report.rule), (vec![1, 2], Rule::Cut), "{context}");
                    let notes = report.notes.join("\n");
                    assert!(notes.contains(path.to_str().unwrap()), "{context}");
                    told[kind] += 1;
                }
            }
        }
        // Of a large file's header nothing depends.
        assert!(told[0] > 500 && told[1] > 50, "{access:?}: {told:?}");
    }
}

#[test]
fn a_file_that_is_cut_short_or_missing_behind_the_newest_seal_leaves_no_hole() {
    let (_, fs, last) = killed(Access::Mapped);
    for path in files(&fs, "large") {
        let damaged = fs.image(0, CrashMode::KeepAll);
        damaged.remove(&path).unwrap();
        let recovered = recover(&damaged, &last).unwrap();
        assert_eq!(recovered.stamps(), [1, 2], "{}", path.display());
        let notes = recovered.report.notes.join("\n");
        assert!(notes.contains("large file it refers to is missing"));
    }
    // The last one was made after the round.
    let last_made = files(&fs, "seg").pop().unwrap();
    let lengths = [1, 50, 99, 100, 4_000].into_iter();
    for cut in lengths.chain((0..60).map(|of| 5_000 + of * 4_000)) {
        let damaged = fs.image(0, CrashMode::KeepAll);
        let file = damaged.open_write(&last_made).unwrap();
        file.set_len(cut).unwrap();
        let recovered = recover(&damaged, &last).unwrap();
        assert_eq!(recovered.stamps(), [1, 2], "{cut}");
        let notes = recovered.report.notes.join("\n");
        assert!(notes.contains(last_made.to_str().unwrap()), "{notes}");
    }
}

/// The header of a segment and that of its first extent: neither the one nor the other is found.
#[test]
fn damage_of_two_headers_behind_the_newest_seal_leaves_no_hole() {
    let (_, fs, last) = killed(Access::Mapped);
    let last_made = files(&fs, "seg").pop().unwrap();
    let damaged = fs.image(0, CrashMode::KeepAll);
    let file = damaged.open_write(&last_made).unwrap();
    file.write_at(0, &[0xaa; 8 << 10]).unwrap();
    let recovered = recover(&damaged, &last).unwrap();
    let report = &recovered.report;
    assert_eq!(
        (recovered.stamps(), report.rule),
        (vec![1, 2], Rule::Cut),
        "{report:?}"
    );
    assert!(
        report
            .notes
            .join("\n")
            .contains(last_made.to_str().unwrap()),
        "{report:?}"
    );
    // A file of which nothing was written yet is none.
    let begun = fs.image(0, CrashMode::KeepAll);
    for (number, zeros) in [(9_000, 0), (9_001, 64 << 10)] {
        let name = FileName::Segment(number).path(&dir());
        begun.write_file(&name, &vec![0; zeros]).unwrap();
    }
    let recovered = recover(&begun, &last).unwrap();
    assert_eq!(recovered.report.rule, Rule::PageCache);
}

/// A process that dies while a lane begins an extent in recycled space leaves a part of its header,
/// but not the first word.
#[test]
fn a_header_that_was_being_written_is_no_damage() {
    let (_, fs, last) = killed(Access::Mapped);
    let whole = recover(&fs, &last).unwrap().stamps();
    let path = files(&fs, "seg").pop().unwrap();
    let mut bytes = fs.read_file(&path).unwrap();
    let extent = usize::try_from(EXTENT_BYTES).unwrap();
    let next = (extent..256 << 10)
        .step_by(extent)
        .find(|&at| bytes[at..at + 64].iter().all(|byte| *byte == 0))
        .unwrap();
    bytes[next + 4..next + 40].fill(0xaa);
    let begun = fs.image(0, CrashMode::KeepAll);
    let inode = begun.open_write(&path).unwrap();
    inode.write_at(0, &bytes).unwrap();
    let recovered = recover(&begun, &last).unwrap();
    assert_eq!(recovered.report.rule, Rule::PageCache);
    assert_eq!(recovered.stamps(), whole);
}

#[test]
fn a_segment_half_made_and_not_removed_at_once_goes_and_is_no_damage() {
    // The last of its writes is its header.
    for nth in 1.. {
        let fs = MemFs::new();
        let faulty = FaultFs::over_mem(&fs);
        let mut bench = Bench::start(config(Arc::new(faulty.clone()), 1, 1)).unwrap();
        bench.write(0, b"before").unwrap();
        let short = fault::Rule::every(Fault::Short).of(Operation::Write);
        faulty.inject(short.on(".seg").nth(nth));
        let removal = fault::Rule::every(Fault::NoSpace).of(Operation::Remove);
        faulty.inject(removal);
        if bench.journal.prepare(|| false).is_ok() {
            assert!(nth > 1);
            break;
        }
        assert!(faulty.fired() >= 2, "{}", faulty.fired());
        let killed = |bench: &Bench, stamps: &[u64]| {
            let image = fs.image(1, CrashMode::KeepAll);
            let recovered = recover(&image, &bench.last()).unwrap();
            let report = &recovered.report;
            assert_eq!(recovered.stamps(), stamps, "{nth}: {report:?}");
            assert_eq!(report.rule, Rule::PageCache, "{nth}: {report:?}");
        };
        killed(&bench, &[1]);
        let half_made = files(&fs, "seg").into_iter().max();
        faulty.heal();
        bench.journal.prepare(|| false).unwrap();
        bench.write(0, b"after").unwrap();
        killed(&bench, &[1, 2]);
        let left = files(&fs, "seg");
        assert!(
            !left.iter().any(|path| Some(path) == half_made.as_ref()),
            "{nth}: {left:?}"
        );
    }
}

#[test]
fn a_record_half_written_is_taken_back_though_the_first_try_fails() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let mut config = config(Arc::new(faulty.clone()), 1, 1);
    config.access = Access::Write;
    let mut bench = Bench::start(config).unwrap();
    bench.write(0, b"before").unwrap();
    let fault = |fault| fault::Rule::every(fault).of(Operation::Write).on(".seg");
    faulty.inject(fault(Fault::Short).times(1));
    faulty.inject(fault(Fault::Io).nth(2));
    bench.write(0, b"half").unwrap_err();
    assert_eq!(faulty.fired(), 2);
    let image = fs.image(1, CrashMode::KeepAll);
    let recovered = recover(&image, &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), [1], "{:?}", recovered.report);
}
