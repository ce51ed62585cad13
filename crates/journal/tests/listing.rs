//! The listing shows what is there, and goes on behind damage.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use velella_base::ValueKind;
use velella_base::checksum::{self, Context};
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

/// Puts `words` at `at` of what stands at `from` of the file, and its checksum right, which is at
/// `crc_at` and seeded with the file's number.
fn forge(bytes: &mut [u8], number: u64, from: usize, at: usize, crc_at: usize, words: &[u64]) {
    for (index, word) in words.iter().enumerate() {
        let to = from + at + 8 * index;
        bytes[to..to + 8].copy_from_slice(&word.to_le_bytes());
    }
    let context = Context {
        database: DATABASE,
        file: number,
    };
    let crc = checksum::at(context.seed(), from as u64, &bytes[from..from + crc_at]);
    bytes[from + crc_at..from + crc_at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The listing of one file.
fn listed(fs: &MemFs, path: &Path) -> String {
    let mut out = String::new();
    match path.extension().and_then(|kind| kind.to_str()) {
        Some("seg") => inspect::segment(fs, path, Detail::Operations, &mut out).unwrap(),
        Some("seal") => inspect::seals(fs, path, &mut out).unwrap(),
        _ => inspect::large(fs, path, &mut out).unwrap(),
    }
    out
}

/// Counts and lengths of headers, with right checksums: those of no file are said to be damage, and
/// none is added to or multiplied until it overflows, or believed to need memory.
#[test]
fn forged_numbers_of_headers_are_listed_or_damage_and_never_overflow() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    bench.write(0, &[0; 70_000]).unwrap();
    for turn in 0..20 {
        bench.write(turn % 2, &[7; 1000]).unwrap();
        bench.round().unwrap();
    }
    let max = u64::MAX;
    let numbers = [
        0,
        1,
        16,
        4096,
        65_536,
        1 << 32,
        1 << 53,
        1 << 63,
        max - 4095,
        max,
    ];
    for extension in ["seg", "large", "seal"] {
        let path = files(&fs, extension).remove(0);
        let number = name(&path)[..6].parse().unwrap();
        let sound = fs.read_file(&path).unwrap();
        let right = sound[64..96].as_chunks::<8>().0;
        let right: Vec<u64> = right.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut said = 0;
        for version in [1, 2] {
            for forged in 0..4 * numbers.len() * numbers.len() {
                // Two of the four parameters, one beside the other.
                let mut words = right.clone();
                let (which, values) = (forged % 4, forged / 4);
                words[which] = numbers[values % numbers.len()];
                words[(which + 1) % 4] = numbers[values / numbers.len()];
                let mut bytes = sound.clone();
                bytes[8] = version;
                forge(&mut bytes, number, 0, 64, 96, &words);
                fs.write_file(&path, &bytes).unwrap();
                said += u64::from(listed(&fs, &path).contains("out of range"));
            }
        }
        if extension == "seg" {
            let mut bytes = sound.clone();
            forge(&mut bytes, number, 0, 64 + 8, 96, &[(1 << 20) + 1]);
            fs.write_file(&path, &bytes).unwrap();
            let out = listed(&fs, &path);
            assert!(out.contains("numbers are out of range\n"), "{out}");
        }
        assert_eq!(said > 100, extension != "large", "{said} of {extension}");
        fs.write_file(&path, &sound).unwrap();
    }
}

/// The same for the headers of extents: ordinal and lane offset at the end of 64 bits.
#[test]
fn forged_offsets_of_extents_are_listed_and_never_overflow() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    for _ in 0..3 {
        bench.write(0, &[7; 1000]).unwrap();
        bench.round().unwrap();
    }
    let path = files(&fs, "seg").remove(0);
    let number = name(&path)[..6].parse().unwrap();
    let sound = fs.read_file(&path).unwrap();
    for offset in [u64::MAX, u64::MAX - 8, u64::MAX - 1000, u64::MAX - 5000] {
        let mut bytes = sound.clone();
        forge(&mut bytes, number, 4096, 40, 60, &[u64::MAX, offset]);
        // Nothing stands at the beginning, so that a skip is looked for on the next page.
        bytes[4096 + 64..4096 + 68].fill(0);
        fs.write_file(&path, &bytes).unwrap();
        let out = listed(&fs, &path);
        assert!(out.contains(&format!("from lane offset {offset}")), "{out}");
    }
}
