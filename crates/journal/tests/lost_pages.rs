//! A lost page, or a rotten sector, among the seals: named, or nothing above the round in flight is
//! given up.
//!
//! Claims: `seal.rs`, E4; `recovery/seals.rs`, D1 and D2; docs/format/journal.md.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::sync::Arc;
use velella_base::Stamp;
use velella_journal::Last;
use velella_vfs::MemFs;
use velella_vfs::mem::CrashMode;

const PAGE: usize = 4096;

/// A journal whose newest seal is an anchor, which has `before` others before it, and covers the
/// only record.
fn newest_is_an_anchor(before: u64) -> (MemFs, Last) {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    for _ in 0..before {
        // Nothing to sync but a seal.
        bench.clock += 1;
        bench.round().unwrap();
    }
    bench.write(0, b"durable").unwrap();
    bench.round().unwrap();
    bench.journal.sync_done().unwrap();
    (fs.crash(1, CrashMode::Strict), bench.last())
}

/// Of the first file of this kind each page from `first` on, and a copy without it.
fn without_pages(fs: &MemFs, kind: &str, first: usize) -> impl Iterator<Item = (usize, MemFs)> {
    let path = files(fs, kind).remove(0);
    let bytes = fs.read_file(&path).unwrap();
    let fs = fs.clone();
    (first..bytes.len()).step_by(PAGE).map(move |page| {
        let mut without = bytes.clone();
        let end = bytes.len().min(page + PAGE);
        without[page..end].fill(0);
        let copy = fs.image(0, CrashMode::KeepAll);
        copy.write_file(&path, &without).unwrap();
        (page, copy)
    })
}

#[test]
fn what_is_left_of_a_done_marker_tells_of_its_round() {
    let (fs, last) = newest_is_an_anchor(0);
    assert_eq!(recover(&fs, &last).unwrap().stamps(), [1]);
    let path = files(&fs, "seal").remove(0);
    let bytes = fs.read_file(&path).unwrap();
    let sectors = (PAGE..bytes.len()).step_by(512);
    let newest = |tag: &[u8; 4]| sectors.clone().rfind(|&at| bytes[at..].starts_with(tag));
    let (seal, done) = (newest(b"SEAL").unwrap(), newest(b"DONE").unwrap());
    for at in [seal, done] {
        fs.flip_byte(&path, at as u64 + 9, 1).unwrap();
    }
    let error = recover(&fs, &last).err().unwrap();
    assert_eq!(error.file(), Some(&*path), "{error}");
    assert_eq!(error.offset(), Some(seal as u64), "{error}");
}

#[test]
fn no_page_of_the_seal_file_is_all_that_tells_of_a_round() {
    for before in 0..18 {
        let (fs, last) = newest_is_an_anchor(before);
        let expected = recover(&fs, &last).unwrap().stamps();
        assert_eq!(expected, [before + 1]);
        let path = files(&fs, "seal").remove(0);
        for (page, copy) in without_pages(&fs, "seal", PAGE) {
            match recover(&copy, &last) {
                Ok(recovered) => assert_eq!(recovered.stamps(), expected, "{before} {page}"),
                Err(error) => assert_eq!(error.file(), Some(&*path), "{error}"),
            }
        }
    }
}

#[test]
fn no_page_of_a_segment_takes_more_than_the_round_in_flight() {
    for lanes in [2, 64] {
        for rounds in 1..20u8 {
            let fs = MemFs::new();
            let config = config(Arc::new(fs.clone()), lanes, 2);
            let mut bench = Bench::start(config).unwrap();
            for round in 0..rounds {
                bench.write(0, &[round; 50]).unwrap();
                bench.round().unwrap();
            }
            let last = bench.last();
            let fs = fs.crash(1, CrashMode::Strict);
            for (page, copy) in without_pages(&fs, "seg", 0) {
                match recover(&copy, &last) {
                    Ok(recovered) => {
                        let kept = recovered.records.len();
                        let all = usize::from(rounds);
                        assert!(kept + 1 >= all, "{lanes} lanes, {page}: {kept} of {all}");
                    }
                    Err(error) => assert!(error.file().is_some(), "{error}"),
                }
            }
        }
    }
}

#[test]
fn a_done_marker_that_was_never_written_tells_of_no_round() {
    let (fs, last) = newest_is_an_anchor(0);
    let path = files(&fs, "seal").remove(0);
    let bytes = fs.read_file(&path).unwrap();
    let sectors = (PAGE..bytes.len()).step_by(512);
    let mut markers = sectors.filter(|&at| bytes[at..].starts_with(b"DONE"));
    let next = markers.next().unwrap() + 512;
    for at in [next, next + 512] {
        let copy = flipped(&fs, &path, at as u64 + 9, 1);
        assert_eq!(recover(&copy, &last).unwrap().stamps(), [1]);
    }
}

/// Without that knowledge the round may have been in flight.
#[test]
fn a_round_is_not_taken_for_one_in_flight_by_who_knows_that_it_completed() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 2, 2)).unwrap();
    for round in 0..6u8 {
        bench.write(0, &[round; 50]).unwrap();
        bench.round().unwrap();
    }
    let last = bench.last();
    let fs = fs.crash(1, CrashMode::Strict);
    let mut lost = 0;
    for (page, copy) in without_pages(&fs, "seg", PAGE) {
        for durable in [5, 6].map(Stamp) {
            let last = Last {
                durable,
                ..last.clone()
            };
            match recover(&copy, &last) {
                Ok(recovered) => {
                    let kept = recovered.records.len() as u64;
                    assert!(kept >= durable.0, "{page}: {kept} of {durable}");
                    lost += 6 - kept;
                }
                Err(error) => assert!(error.offset().is_some(), "{error}"),
            }
        }
    }
    assert!(lost > 0, "nothing looked like a round in flight");
}
