//! The format does not change by accident: files written once are read for ever, and today's
//! journal writes the same bytes.
//!
//! The files in `tests/golden` lack their trailing zeros. After a deliberate change of the format
//! (a new version number), write new ones beside them, in a directory of that version:
//! `VELELLA_GOLDEN=write cargo test --test suite golden::`, and have the old ones read in
//! `files_of_older_versions_are_still_read`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Stamp, ValueKind};
use velella_journal::batch::{self, Operation};
use velella_journal::{Last, Rule};
use velella_vfs::fault::{Fault, Rule as FaultRule};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, Identity, MemFs, Operation as Call, Vfs};

const SEGMENT_BYTES: usize = 128 << 10;
/// The directory of files that a failed sync left.
const FAILED: &str = "version_3_failed";
const NAMES: [&str; 3] = ["010000.seal", "010001.seg", "010002.large"];
/// Where a seal holds the wall clock, from the seal's beginning.
const WALL: std::ops::Range<usize> = 24..32;
/// Where a seal of one lane has its checksum.
const CRC: std::ops::Range<usize> = 72..76;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// One lane: a record of two operations, a round and so a skip record, a large record, a round.
fn write() -> (MemFs, Last) {
    let fs = MemFs::new();
    let mut config = config(Arc::new(fs.clone()), 1, 1);
    config.segment_bytes = SEGMENT_BYTES as u64;
    let mut bench = Bench::start(config).unwrap();
    bench.write(0, &operations()).unwrap();
    bench.round().unwrap();
    bench.write(0, &[0xaa; 20_000]).unwrap();
    bench.clock = 500;
    bench.write(0, b"").unwrap();
    bench.round().unwrap();
    (fs, bench.last())
}

/// One lane: a record and a round, a record and a round whose sync failed, which a third record was
/// under way beside.
fn write_and_fail() -> (MemFs, Last) {
    let fs = MemFs::new();
    let faults = FaultFs::new(Arc::new(fs.clone()));
    let mut config = config(Arc::new(faults.clone()), 1, 1);
    config.segment_bytes = SEGMENT_BYTES as u64;
    let mut bench = Bench::start(config).unwrap();
    bench.write(0, b"one").unwrap();
    bench.round().unwrap();
    bench.write(0, b"two").unwrap();
    bench.lanes[0].reserve(&[b"three"]).unwrap();
    faults.inject(FaultRule::every(Fault::Io).of(Call::SyncMap));
    bench.round().unwrap_err();
    bench.lanes[0].commit(Stamp(3)).unwrap();
    (fs, bench.last())
}

fn operations() -> Vec<u8> {
    let mut payload = Vec::new();
    for (kind, key, value) in [
        (ValueKind::Put, &b"key"[..], &b"value"[..]),
        (ValueKind::Delete, b"gone", b""),
    ] {
        let operation = Operation {
            keyspace: 300,
            kind,
            key,
            value,
        };
        batch::encode_into(&mut payload, &operation);
    }
    payload
}

fn written(fs: &MemFs, name: &str) -> Vec<u8> {
    let mut bytes = fs.read_file(&dir().join("journal").join(name)).unwrap();
    let end = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

#[test]
fn the_bytes_written_today_are_those_of_version_3() {
    check_bytes(&write().0, "version_3", &NAMES);
    check_bytes(&write_and_fail().0, FAILED, &NAMES[..2]);
}

fn check_bytes(fs: &MemFs, directory: &str, names: &[&str]) {
    for name in names {
        let path = golden(&format!("{directory}/{name}"));
        let mut today = written(fs, name);
        if std::env::var("VELELLA_GOLDEN").is_ok_and(|mode| mode == "write") {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &today).unwrap();
        }
        let mut then = std::fs::read(&path).unwrap();
        // The wall clock of a seal, and so its checksum, is another each time.
        for bytes in [&mut today, &mut then] {
            // That is a file's last field; one in 256 ends with a zero, which `written` cuts off.
            bytes.resize(bytes.len().next_multiple_of(CRC.len()), 0);
            for at in (0..bytes.len()).step_by(512) {
                if bytes[at..].starts_with(b"SEAL") {
                    bytes[at + WALL.start..at + WALL.end].fill(0);
                    bytes[at + CRC.start..at + CRC.end].fill(0);
                }
            }
        }
        assert_eq!(today.len(), then.len(), "{name}");
        let differs = today.iter().zip(&then).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{name} differs at this offset");
    }
}

/// A directory of `tests/golden`, and how long its seal file and its first segment were: version 1
/// began with a whole segment, later with one of one extent, and version 2 has a strip behind it;
/// version 3 spreads its seals over pages, and has its done markers on others.
const OLDER: [(&str, usize, usize); 4] = [
    (".", 4096 + 256 * 1024, SEGMENT_BYTES),
    ("small", 4096 + 256 * 1024, 64 << 10),
    ("version_2", 4096 + 258 * 1024, (64 << 10) + 16 * 1024),
    (
        "version_3",
        4096 + 256 * 1024 + 3 * 4096,
        (64 << 10) + 2 * 4096,
    ),
];

#[test]
fn files_of_older_versions_are_still_read() {
    for (directory, seal_bytes, segment_bytes) in OLDER {
        read_older(directory, seal_bytes, segment_bytes);
    }
}

/// The file system that holds the golden files of a directory, and how to open it.
fn placed(directory: &str, names: &[&str], lengths: [usize; 3]) -> (MemFs, Last) {
    let fs = MemFs::new();
    let journal = dir().join("journal");
    fs.create_dir_all(&journal).unwrap();
    for (name, len) in names.iter().zip(lengths) {
        let mut bytes = std::fs::read(golden(&format!("{directory}/{name}"))).unwrap();
        bytes.resize(len.max(bytes.len()), 0);
        fs.write_file(&journal.join(name), &bytes).unwrap();
    }
    let last = Last {
        incarnation: 1,
        start: velella_journal::Start {
            seal_file: 10_000,
            token: Identity::default(),
        },
        durable: Stamp::ZERO,
        assume_power_loss: false,
        accept_loss: false,
    };
    (fs, last)
}

fn read_older(directory: &str, seal_bytes: usize, segment_bytes: usize) {
    let (fs, last) = placed(directory, &NAMES, [seal_bytes, segment_bytes, 0]);
    let recovered = recover(&fs, &last).unwrap_or_else(|error| panic!("{directory}: {error}"));
    assert_eq!(recovered.report.rule, Rule::Cut);
    assert_eq!(recovered.report.cut, Stamp(501));
    let expected = vec![
        (1, operations()),
        (2, vec![0xaa; 20_000]),
        (501, Vec::new()),
    ];
    assert!(recovered.records == expected);
    // What today's journal leaves is read alike.
    let (today, last) = write();
    let recovered = recover(&today.image(1, CrashMode::Strict), &last).unwrap();
    assert!(recovered.records == expected);
}

/// The third record is whole, and yet not believed: a sync failed before it was.
#[test]
fn a_failed_sync_is_still_read_as_one() {
    for (directory, seal_bytes, segment_bytes) in &OLDER[2..] {
        let lengths = [*seal_bytes, *segment_bytes, 0];
        let (fs, last) = placed(&format!("{directory}_failed"), &NAMES[..2], lengths);
        let recovered = recover(&fs, &last).unwrap();
        assert_eq!(recovered.stamps(), [1, 2], "{directory}");
    }
    let (today, last) = write_and_fail();
    let image = today.image(1, CrashMode::KeepAll);
    assert_eq!(recover(&image, &last).unwrap().stamps(), [1, 2]);
}
