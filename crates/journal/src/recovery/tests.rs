//! Payloads that are made to look like records of the very place they lie in. Whoever writes one
//! knows the database id; nobody is promised that this is impossible.

use super::{Last, Recovery, Rule};
use crate::record::{self, Kind, LaneSeed};
use crate::{Config, Journal, Lane, Start};
use std::path::Path;
use std::sync::Arc;
use velella_base::Stamp;
use velella_vfs::mem::CrashMode;
use velella_vfs::{MemFs, Vfs};

const DATABASE: u128 = 5;

fn start(fs: &MemFs) -> (Arc<Journal>, Vec<Lane>, Start) {
    fs.create_dir_all(Path::new("/db")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    let config = Config {
        database: DATABASE,
        segment_bytes: 128 << 10,
        extent_bytes: 64 << 10,
        ..Config::small(fs)
    };
    Journal::create(config, Stamp::ZERO).unwrap()
}

fn recover(fs: &MemFs, start: &Start) -> (Rule, Vec<u64>) {
    let last = Last {
        incarnation: 1,
        start: start.clone(),
        durable: Stamp::ZERO,
        assume_power_loss: false,
        accept_loss: false,
    };
    let vfs = Arc::new(fs.clone());
    let mut recovery = Recovery::open(vfs, Path::new("/db"), DATABASE, &last).unwrap();
    let mut stamps = Vec::new();
    while let Some(record) = recovery.next_record().unwrap() {
        stamps.push(record.stamp.0);
    }
    (recovery.report().rule, stamps)
}

/// A payload for the record at `lane_offset`, full of records that are valid where they lie.
fn crafted(lane_offset: u64, stamp: Stamp) -> Vec<u8> {
    let seed = LaneSeed::new(DATABASE, 1, 0);
    let first = lane_offset + record::HEADER;
    let mut payload = Vec::new();
    for turn in 0..20 {
        let offset = first + payload.len() as u64;
        let fake = record::encode(
            seed.at(offset),
            Kind::Data,
            Stamp(stamp.0 + turn),
            b"forged!!",
        );
        payload.extend(fake);
    }
    payload
}

#[test]
fn a_payload_that_looks_like_records_is_a_payload() {
    let fs = MemFs::new();
    let (journal, mut lanes, start) = start(&fs);
    lanes[0].reserve(&[&crafted(0, Stamp(2))]).unwrap();
    lanes[0].commit(Stamp(1)).unwrap();
    assert_eq!(recover(&fs, &start), (Rule::PageCache, vec![1]));
    journal.round(|| Stamp(1)).unwrap();
    let after = fs.image(1, CrashMode::Strict);
    assert_eq!(recover(&after, &start), (Rule::Cut, vec![1]));
}

#[test]
fn a_forged_record_in_an_uncommitted_payload_is_never_taken() {
    let fs = MemFs::new();
    let (journal, mut lanes, start) = start(&fs);
    lanes[0].reserve(&[b"12345678"]).unwrap();
    lanes[0].commit(Stamp(1)).unwrap();
    journal.round(|| Stamp(1)).unwrap();
    // The record goes to the next page, behind a skip record.
    let next = 4096 - 64 + record::SKIP;
    lanes[0].reserve(&[&crafted(next, Stamp(2))]).unwrap();
    // It looks like a hole, so the page cache is not believed, and nothing durable is lost.
    assert_eq!(recover(&fs, &start), (Rule::Cut, vec![1]));
    for seed in 0..50 {
        let after = fs.image(seed, CrashMode::Random);
        assert_eq!(recover(&after, &start), (Rule::Cut, vec![1]));
    }
}

#[test]
fn a_record_that_is_not_later_than_the_last_follows_nothing() {
    let fs = MemFs::new();
    let (_journal, mut lanes, start) = start(&fs);
    lanes[0].reserve(&[b"12345678"]).unwrap();
    lanes[0].commit(Stamp(1_000)).unwrap();
    // As a stale record that fits its place by chance: nothing that the lane wrote after the last.
    let next = record::HEADER + 8;
    lanes[0].reserve(&[&crafted(next, Stamp(900))]).unwrap();
    assert_eq!(recover(&fs, &start), (Rule::PageCache, vec![1_000]));
    lanes[0].reserve(&[&crafted(next, Stamp(1_000))]).unwrap();
    assert_eq!(recover(&fs, &start).0, Rule::Cut, "it looks like a hole");
}
