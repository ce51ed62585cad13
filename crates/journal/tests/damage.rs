//! Damage to what is durable: found and named, or harmless; never a panic, never a silent loss.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{ErrorKind, Stamp};
use velella_journal::{Last, Rule};
use velella_sync::rng::Rng;
use velella_vfs::mem::CrashMode;
use velella_vfs::{MemFs, Vfs};

/// A journal after a power loss: several rounds, skips, a full extent, a large record; the last
/// round is noted as done.
fn scene() -> (MemFs, Last, Vec<(u64, Vec<u8>)>) {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    let mut expected = Vec::new();
    for turn in 0..120u64 {
        let len = match turn % 40 {
            5 => 90_000,
            7 => 15_000,
            _ => 200 + turn % 9,
        };
        let payload = payload(turn, usize::try_from(len).unwrap());
        let stamp = bench
            .write(usize::try_from(turn % 2).unwrap(), &payload)
            .unwrap();
        expected.push((stamp.0, payload));
        if turn % 17 == 16 {
            bench.round().unwrap();
        }
    }
    bench.round().unwrap();
    bench.journal.sync_done().unwrap();
    (fs.crash(1, CrashMode::Strict), bench.last(), expected)
}

/// How far before a damaged byte the error may point: at the beginning of the record.
const RECORD_MAX: u64 = 100_000;

fn check_flip(
    scene: &(MemFs, Last, Vec<(u64, Vec<u8>)>),
    path: &Path,
    offset: u64,
    mask: u8,
) -> bool {
    let (fs, last, expected) = scene;
    match recover(&flipped(fs, path, offset, mask), last) {
        Ok(recovered) => {
            let context = format!("{} at {offset} mask {mask:#x}", path.display());
            assert!(
                recovered.records == *expected,
                "{context}: {:?}",
                recovered.report
            );
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(error.file(), Some(path), "{error}");
            let at = error.offset().unwrap();
            assert!(
                at <= offset && offset - at < RECORD_MAX,
                "{offset}: {error}"
            );
            true
        }
    }
}

#[test]
fn a_flipped_byte_below_the_cut_is_named_or_harmless() {
    let scene = scene();
    let seed = 7;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut found = [0; 3];
    for (kind, extension) in ["seg", "large", "seal"].into_iter().enumerate() {
        for path in files(&scene.0, extension) {
            let bytes = scene.0.read_file(&path).unwrap();
            // Every byte that was ever written, thinned out in long payloads.
            let used = (0..bytes.len()).filter(|&at| bytes[at] != 0);
            for at in used.filter(|at| *at % 4096 < 200 || at % 97 == 0) {
                let mask = 1 << rng.below(8);
                found[kind] += u64::from(check_flip(&scene, &path, at as u64, mask));
            }
        }
    }
    // The seal file has the anchors only; the other seals stand in the segments.
    assert!(found.iter().all(|&count| count > 30), "{found:?}");
}

#[test]
fn a_file_that_is_cut_short_or_missing_is_named() {
    let (fs, last, _) = scene();
    for extension in ["seg", "large", "seal"] {
        let path = files(&fs, extension).remove(0);
        let bytes = fs.read_file(&path).unwrap();
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap();
        for keep in [0, 50, 4096, 5000, used] {
            let copy = fs.image(0, CrashMode::KeepAll);
            let keep = keep.min(bytes.len() - 1);
            copy.write_file(&path, &bytes[..keep]).unwrap();
            let error = recover(&copy, &last).err();
            let error = error.unwrap_or_else(|| panic!("{} of {keep}", path.display()));
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(error.file(), Some(&*path), "{keep}: {error}");
        }
        let copy = fs.image(0, CrashMode::KeepAll);
        copy.remove(&path).unwrap();
        let error = recover(&copy, &last).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.file().is_some(), "{error}");
    }
}

#[test]
fn a_lost_done_marker_is_no_evidence_and_a_lost_seal_is() {
    let (fs, last, expected) = scene();
    let path = files(&fs, "seal").remove(0);
    let bytes = fs.read_file(&path).unwrap();
    let markers = |tag: &[u8; 4]| -> Vec<usize> {
        (4096..bytes.len())
            .step_by(512)
            .filter(|&at| &bytes[at..at + 4] == tag)
            .collect()
    };
    for at in markers(b"DONE") {
        let mut without = bytes.clone();
        without[at..at + 512].fill(0);
        let copy = fs.image(0, CrashMode::KeepAll);
        copy.write_file(&path, &without).unwrap();
        assert!(recover(&copy, &last).unwrap().records == expected);
    }
    // Anchors; a shadow is only needed where its seal is lost.
    let is_anchor = |at: &usize| *at < 4096 + 256 * 512;
    for at in markers(b"SEAL").into_iter().filter(is_anchor) {
        let mut without = bytes.clone();
        without[at..at + 512].fill(0);
        let copy = fs.image(0, CrashMode::KeepAll);
        copy.write_file(&path, &without).unwrap();
        let error = recover(&copy, &last).err().unwrap();
        assert_eq!(error.file(), Some(&*path), "{error}");
        assert_eq!(error.offset(), Some(at as u64), "{error}");
    }
}

#[test]
fn accepted_loss_takes_what_is_below_the_damage_and_says_so() {
    let (fs, mut last, expected) = scene();
    last.accept_loss = true;
    let undamaged = recover(&fs, &last).unwrap();
    assert!(undamaged.records == expected);
    assert!(
        undamaged
            .report
            .notes
            .iter()
            .all(|note| !note.contains("loss accepted"))
    );
    let large = files(&fs, "large").remove(0);
    let recovered = recover(&flipped(&fs, &large, 5000, 1), &last).unwrap();
    assert_eq!(recovered.report.rule, Rule::Cut);
    // Stamp 6 is the first large record; round 0 is the only one without it.
    assert_eq!(recovered.report.cut, Stamp(5));
    assert!(recovered.records == expected[..5]);
    let notes = recovered.report.notes.join("\n");
    assert!(notes.contains(large.to_str().unwrap()), "{notes}");
    // A seal file without a header leaves nothing to decide by.
    let seal = files(&fs, "seal").remove(0);
    let recovered = recover(&flipped(&fs, &seal, 3, 1), &last).unwrap();
    assert_eq!(recovered.report.rule, Rule::Nothing);
    assert!(recovered.records.is_empty() && !recovered.report.notes.is_empty());
}

#[test]
fn a_copied_directory_is_a_power_loss() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, b"durable").unwrap();
    bench.round().unwrap();
    bench.write(0, b"in the page cache").unwrap();
    let last = bench.last();
    assert_eq!(recover(&fs, &last).unwrap().report.rule, Rule::PageCache);
    // Same boot, same content, other inodes.
    let paths: Vec<PathBuf> = fs.files();
    for path in paths {
        let bytes = fs.read_file(&path).unwrap();
        velella_vfs::Vfs::remove(&fs, &path).unwrap();
        fs.write_file(&path, &bytes).unwrap();
    }
    let recovered = recover(&fs, &last).unwrap();
    assert_eq!(recovered.report.rule, Rule::Cut);
    assert_eq!(recovered.stamps(), [1]);
    assert_eq!(recovered.report.discarded_records, 1);
}

#[test]
fn a_hole_under_an_equal_token_is_a_power_loss() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, b"durable").unwrap();
    bench.round().unwrap();
    for turn in 0..40 {
        bench.write(0, &[turn; 600]).unwrap();
    }
    let path = files(&fs, "seg").remove(0);
    let mut bytes = fs.read_file(&path).unwrap();
    bytes[12_288..12_800].fill(0);
    fs.write_file(&path, &bytes).unwrap();
    let recovered = recover(&fs, &bench.last()).unwrap();
    assert_eq!(recovered.report.rule, Rule::Cut, "{:?}", recovered.report);
    assert_eq!(recovered.stamps(), [1]);
}

#[test]
fn assume_power_loss_overrides_the_token() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, b"x").unwrap();
    let mut last = bench.last();
    last.assume_power_loss = true;
    assert_eq!(recover(&fs, &last).unwrap().report.rule, Rule::Cut);
}

#[test]
fn random_bytes_in_place_of_any_file_never_panic() {
    let (fs, last, _) = scene();
    let seed = 3;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    for turn in 0..300 {
        let copy = fs.image(0, CrashMode::KeepAll);
        let all: Vec<_> = ["seg", "large", "seal"]
            .into_iter()
            .flat_map(|extension| files(&copy, extension))
            .collect();
        let path = &all[usize::try_from(rng.below(all.len() as u64)).unwrap()];
        let mut bytes = copy.read_file(path).unwrap();
        let from = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
        let len = usize::try_from(rng.below(5000))
            .unwrap()
            .min(bytes.len() - from);
        for byte in &mut bytes[from..from + len] {
            *byte = rng.next_u64().to_le_bytes()[0];
        }
        copy.write_file(path, &bytes).unwrap();
        let accept_loss = turn % 2 == 0;
        let last = Last {
            accept_loss,
            ..last.clone()
        };
        let recovered = recover(&copy, &last);
        assert!(!accept_loss || recovered.is_ok());
    }
}

/// The one gap of the cut rule, and what closes it: without `done` the damaged last round cannot
/// be told from a round in flight, but the report names the stamps that went.
#[test]
fn damage_in_the_last_round_is_seen_once_its_done_marker_is_durable() {
    for ack_after_done in [false, true] {
        let fs = MemFs::new();
        let mut config = config(Arc::new(fs.clone()), 1, 1);
        config.ack_after_done = ack_after_done;
        let mut bench = Bench::start(config).unwrap();
        bench.write(0, b"one").unwrap();
        bench.round().unwrap();
        bench.write(0, &[2; 100]).unwrap();
        bench.round().unwrap();
        let after = fs.image(1, CrashMode::Strict);
        let path = files(&after, "seg").remove(0);
        let two = after.read_file(&path).unwrap();
        let two = two.windows(50).position(|bytes| bytes == [2; 50]).unwrap();
        let recovered = recover(&flipped(&after, &path, two as u64, 1), &bench.last());
        if ack_after_done {
            let error = recovered.err().unwrap();
            assert_eq!(error.file(), Some(&*path), "{error}");
        } else {
            let recovered = recovered.unwrap();
            assert_eq!(recovered.stamps(), [1]);
            let notes = recovered.report.notes.join("\n");
            assert!(notes.contains("stamps in (1, 2] were given up"), "{notes}");
        }
    }
}

#[test]
fn damage_where_a_lane_goes_on_is_not_damage_where_it_left() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    // The first segment has one extent; no round comes before its end record.
    for turn in 0..10_u8 {
        bench.write(0, &[turn; 9_000]).unwrap();
    }
    bench.round().unwrap();
    bench.journal.sync_done().unwrap();
    let mut last = bench.last();
    let second = files(&fs, "seg").remove(1);
    for mode in [CrashMode::KeepAll, CrashMode::Strict] {
        let damaged = flipped(&fs.image(1, mode), &second, 40, 1);
        last.accept_loss = false;
        let error = recover(&damaged, &last).err().unwrap();
        assert_eq!(error.file(), Some(&*second), "{error}");
        last.accept_loss = true;
        let recovered = recover(&damaged, &last).unwrap();
        assert_eq!(recovered.stamps(), (1..=6).collect::<Vec<_>>(), "{mode:?}");
        let notes = recovered.report.notes.join("\n");
        assert!(notes.contains(second.to_str().unwrap()), "{notes}");
    }
}

/// Fourteen rounds of one lane: the first writes an anchor, the others into the strip of its
/// segment. No done marker is durable.
fn strip() -> (MemFs, Last) {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    for turn in 0..14u64 {
        bench.write(0, &payload(turn, 100)).unwrap();
        bench.round().unwrap();
    }
    (fs.crash(1, CrashMode::Strict), bench.last())
}

/// Where the seals of `rounds` stand in the file at `path`.
fn seals_at(fs: &MemFs, path: &Path, rounds: std::ops::Range<u64>) -> Vec<u64> {
    let bytes = fs.read_file(path).unwrap();
    let found = (0..bytes.len()).step_by(512).filter(|&at| {
        bytes[at..].starts_with(b"SEAL")
            && rounds.contains(&u64::from_le_bytes(
                bytes[at + 8..at + 16].try_into().unwrap(),
            ))
    });
    found.map(|at| at as u64).collect()
}

#[test]
fn rounds_of_one_segment_have_their_seals_in_it() {
    let (fs, last) = strip();
    let (seal, segment) = (files(&fs, "seal").remove(0), files(&fs, "seg").remove(0));
    assert_eq!(seals_at(&fs, &seal, 0..99).len(), 2, "seal 0 and an anchor");
    assert_eq!(
        seals_at(&fs, &segment, 0..99).len(),
        13,
        "all but the first"
    );
    let recovered = recover(&fs, &last).unwrap();
    assert_eq!(recovered.stamps(), (1..=14).collect::<Vec<_>>());
}

#[test]
fn a_lost_seal_of_a_strip_is_named_once_another_follows() {
    let (fs, last) = strip();
    let segment = files(&fs, "seg").remove(0);
    for at in seals_at(&fs, &segment, 2..14) {
        let error = recover(&flipped(&fs, &segment, at + 20, 1), &last).err();
        let error = error.unwrap_or_else(|| panic!("the seal at {at}"));
        assert_eq!(
            (error.file(), error.offset()),
            (Some(&*segment), Some(at)),
            "{error}"
        );
    }
    // The last one cannot be told from a round in flight; what it covered is given up, and said.
    let newest = seals_at(&fs, &segment, 14..15)[0];
    let recovered = recover(&flipped(&fs, &segment, newest + 20, 1), &last).unwrap();
    assert_eq!(recovered.stamps(), (1..=13).collect::<Vec<_>>());
    let notes = recovered.report.notes.join("\n");
    assert!(notes.contains("seal 14 is torn"), "{notes}");
}

#[test]
fn a_lost_anchor_is_named_while_a_seal_of_its_home_is_there() {
    let (fs, last) = strip();
    let seal = files(&fs, "seal").remove(0);
    let anchor = seals_at(&fs, &seal, 1..99)[0];
    let error = recover(&flipped(&fs, &seal, anchor + 20, 1), &last)
        .err()
        .unwrap();
    assert_eq!(
        (error.file(), error.offset()),
        (Some(&*seal), Some(anchor)),
        "{error}"
    );
}

#[test]
fn a_home_that_is_missing_cut_or_foreign_is_named() {
    let (fs, last) = strip();
    let segment = files(&fs, "seg").remove(0);
    let bytes = fs.read_file(&segment).unwrap();
    let spoil: [&dyn Fn(&MemFs); 3] = [
        &|fs| fs.remove(&segment).unwrap(),
        &|fs| {
            fs.write_file(&segment, &bytes[..bytes.len() - 512])
                .unwrap()
        },
        &|fs| fs.flip_byte(&segment, 30, 1).unwrap(),
    ];
    for spoil in spoil {
        let copy = fs.image(0, CrashMode::KeepAll);
        spoil(&copy);
        let error = recover(&copy, &last).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(error.file(), Some(&*segment), "{error}");
    }
}

#[test]
fn who_accepts_a_loss_loses_no_more_than_the_strips_remember() {
    let (fs, mut last) = strip();
    last.accept_loss = true;
    let segment = files(&fs, "seg").remove(0);
    // A lane leaves its page after each round: the record of round 12 is the twelfth page's.
    let recovered = recover(&flipped(&fs, &segment, 4096 * 12 + 60, 1), &last).unwrap();
    assert_eq!(recovered.stamps(), (1..=11).collect::<Vec<_>>());
    // Within a round it is what stands before the damage that is left, in every lane.
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 3)).unwrap();
    bench.write(0, &payload(0, 100)).unwrap();
    bench.round().unwrap();
    for turn in 1..40 {
        bench
            .write(turn % 3, &[u8::try_from(turn).unwrap(); 100])
            .unwrap();
    }
    bench.round().unwrap();
    bench.journal.sync_done().unwrap();
    let segments = files(&fs, "seg");
    // The byte is one less than the stamp: its header is intact and says which is missing.
    for damaged in 2..40_u8 {
        let found = |path: &PathBuf| {
            let bytes = fs.read_file(path).unwrap();
            let at = bytes.windows(50).position(|bytes| bytes == [damaged; 50]);
            at.map(|at| (path.clone(), at as u64))
        };
        let (path, at) = segments.iter().find_map(found).unwrap();
        let strict = bench.last();
        assert!(recover(&flipped(&fs, &path, at, 1), &strict).is_err());
        let last = Last {
            accept_loss: true,
            ..strict
        };
        let recovered = recover(&flipped(&fs, &path, at, 1), &last).unwrap();
        let expected: Vec<_> = (1..=u64::from(damaged)).collect();
        assert_eq!(recovered.stamps(), expected, "{damaged}");
    }
}

#[test]
fn who_accepts_a_loss_of_a_segment_has_what_older_ones_hold() {
    let (fs, mut last) = strip();
    last.accept_loss = true;
    let segment = files(&fs, "seg").remove(0);
    // Without the segment only the anchor is left, of which nothing is valid either.
    let copy = fs.image(0, CrashMode::KeepAll);
    copy.remove(&segment).unwrap();
    assert_eq!(recover(&copy, &last).unwrap().stamps(), [0; 0]);
}

#[test]
fn a_stranger_with_number_0_is_nobodys_home() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, b"x").unwrap();
    bench.journal.close(|| Stamp(1)).unwrap();
    let stranger = dir().join("journal").join("000000.seg");
    fs.write_file(&stranger, b"not a segment").unwrap();
    // The closing seal is an anchor without a home.
    assert_eq!(recover(&fs, &bench.last()).unwrap().stamps(), [1]);
}

#[test]
fn who_accepts_a_loss_loses_nothing_older_than_the_damaged_record_of_a_quiet_lane() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    bench.write(1, &[1; 100]).unwrap();
    for turn in 2..=30_u8 {
        bench.write(0, &[turn; 100]).unwrap();
    }
    bench.write(1, &[31; 100]).unwrap();
    bench.round().unwrap();
    bench.journal.sync_done().unwrap();
    let found = |path: &PathBuf| {
        let bytes = fs.read_file(path).unwrap();
        let at = bytes.windows(50).position(|bytes| bytes == [31; 50]);
        at.map(|at| (path.clone(), at as u64))
    };
    let (path, at) = files(&fs, "seg").iter().find_map(found).unwrap();
    let last = Last {
        accept_loss: true,
        ..bench.last()
    };
    let recovered = recover(&flipped(&fs, &path, at, 1), &last).unwrap();
    assert_eq!(recovered.stamps(), (1..=30).collect::<Vec<_>>());
}
