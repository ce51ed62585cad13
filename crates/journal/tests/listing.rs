//! The listing shows what is there, and goes on behind damage.

mod common;

use common::*;
use std::sync::Arc;
use velella_base::ValueKind;
use velella_journal::batch::{self, Operation};
use velella_journal::inspect::{self, Detail};
use velella_vfs::MemFs;

#[test]
fn a_listing_names_extents_records_operations_and_seals() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    let mut payload = Vec::new();
    let operation = Operation {
        keyspace: 4,
        kind: ValueKind::Put,
        key: b"k\xff",
        value: b"value",
    };
    batch::encode_into(&mut payload, &operation);
    bench.write(0, &payload).unwrap();
    bench.write(1, &[0; 70_000]).unwrap();
    bench.round().unwrap();
    bench.write(0, &payload).unwrap();
    let mut out = String::new();
    inspect::journal(&fs, &dir(), Detail::Operations, &mut out).unwrap();
    for expected in [
        "extent at 4096: segment 10001 incarnation 1 lane 0 ordinal 0",
        "stamp 1 11 bytes",
        "put keyspace 4 key \"k\\xff\" value of 5 bytes",
        "stamp 2 70000 bytes in large file",
        "stamp 3 11 bytes",
        "2 records",
        "seal 1 at",
        "F 2",
        "lane 1: [0, ",
        "done 1 at",
    ] {
        assert!(out.contains(expected), "{expected} is missing in\n{out}");
    }
    assert!(!out.contains("DAMAGE"), "{out}");
}

#[test]
fn a_listing_goes_on_behind_damage() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    for turn in 0..200 {
        bench.write(turn % 2, &[7; 1000]).unwrap();
    }
    bench.round().unwrap();
    // The first whole one: the first of all is one extent.
    let segment = files(&fs, "seg").remove(1);
    // A payload in the first extent, the second's header, and a seal.
    fs.flip_byte(&segment, 4096 + 64 + 100, 1).unwrap();
    fs.flip_byte(&segment, 65_536 + 20, 1).unwrap();
    fs.flip_byte(&files(&fs, "seal")[0], 4096 + 20, 1).unwrap();
    let mut out = String::new();
    inspect::journal(&fs, &dir(), Detail::Records, &mut out).unwrap();
    for expected in [
        "DAMAGE at 4160: stamp 2: the payload's checksum",
        "stamp 4 1000 bytes",
        "DAMAGE at 65536: neither an extent nor empty",
        "extent at 131072",
        "DAMAGE or torn at 4096: no seal",
        "seal 1 at",
    ] {
        assert!(out.contains(expected), "{expected} is missing in\n{out}");
    }
    // Random bytes everywhere: the listing still ends.
    let bytes = payload(1, 200_000);
    fs.write_file(&segment, &bytes).unwrap();
    inspect::journal(&fs, &dir(), Detail::Operations, &mut out).unwrap();
}
