//! S3 (VLDB '19): a memtable alone, by its size, skew, mix and kind of key.
//!
//! 4-byte keys as there, scattered over all there are, but for those of `s3.guardsel.*`, of which
//! most are in order. Where they are skewed they crowd around sixteen centres, and what is drawn
//! crowds around sixteen others. The kinds of memtable are stores here, so what is compared is
//! chosen with `--peers`. The paper's 4 M to 64 M keys are 4 M; `--scale 16` makes them 64 M.
//!
//! Tests: `catalogue`.

use super::{Benchmark, plain, usual};
use crate::choice::Choice;
use crate::keys::KeyShape;
use crate::spec::{Body, Operation, Spec, Start};
use crate::store::Durability;

const BASELINES: &[&str] = &["memtable:jellyfish", "memtable:append-only"];
/// The paper does not say how many centres.
const CENTRES: Choice = Choice::Centres(16);

const fn s3(
    name: &'static str,
    groups: &'static [&'static str],
    source: &'static str,
    about: &'static str,
    spec: fn() -> Spec,
) -> Benchmark {
    Benchmark {
        baselines: BASELINES,
        peers: false,
        ours: "memtable:s3",
        ..plain(name, groups, source, about, spec)
    }
}

const SIZE: &[&str] = &["s3", "s3.size"];
const SKEW: &[&str] = &["s3", "s3.skew"];
const MIX: &[&str] = &["s3", "s3.mix"];
const RANGE: &[&str] = &["s3", "s3.range"];
const GUARDS: &[&str] = &["s3", "s3.guards"];
/// The default is 2 MiB.
const GUARD_SIZES: &[&str] = &["guards:0", "guards:256K", "guards:8M", "guards:32M"];
/// Those of the JellyFish kind.
const GUARD_SIZES_OF_OURS: &[&str] = &[
    "jellyfish-guards:0",
    "jellyfish-guards:256K",
    "jellyfish-guards:8M",
    "jellyfish-guards:32M",
];
const SELECT: &[&str] = &["s3", "s3.guardsel"];
/// `select:neural` besides, where the feature `neural` is built.
const SELECTORS: &[&str] = &[
    "select:random",
    "select:equal-width",
    "select:data-quantiles",
    "select:access-quantiles",
    "select:mixed",
    "memtable:s3",
];
/// Those of the JellyFish kind.
const SELECTORS_OF_OURS: &[&str] = &[
    "jellyfish-select:random",
    "jellyfish-select:equal-width",
    "jellyfish-select:data-quantiles",
    "jellyfish-select:access-quantiles",
    "jellyfish-select:mixed",
    "memtable:jellyfish",
];
const BYTES: &[&str] = &["s3", "s3.bytes"];

fn spec(operation: Operation, choice: Choice, records: u64) -> Spec {
    let mut spec = usual(&[(operation, 1.0)], choice);
    spec.keys = KeyShape::Scattered4;
    spec.value_bytes = 16;
    spec.records = records;
    spec.settings.durability = Durability::None;
    if operation == Operation::Insert {
        spec.start = Start::Empty;
    }
    spec
}

fn skewed(operation: Operation) -> Spec {
    let mut spec = spec(operation, CENTRES, 4_000_000);
    spec.keys = KeyShape::Centred4;
    spec
}

fn mix(writes: f64) -> Spec {
    let mut spec = spec(Operation::Get, Choice::Uniform, 4_000_000);
    spec.body = Body::Mix(vec![
        (Operation::Update, writes),
        (Operation::Get, 1.0 - writes),
    ]);
    spec
}

/// Scans of so many pairs.
fn range(pairs: u64, records: u64, operations: u64) -> Spec {
    let scan = Operation::Scan {
        from: pairs,
        to: pairs,
    };
    let mut spec = spec(scan, Choice::Uniform, records);
    spec.operations = operations;
    spec
}

fn bytes(operation: Operation, keys: KeyShape) -> Spec {
    let mut spec = spec(operation, Choice::Uniform, 1_000_000);
    spec.keys = keys;
    spec.value_bytes = 100;
    spec
}

const fn guardsel(
    name: &'static str,
    source: &'static str,
    about: &'static str,
    spec: fn() -> Spec,
) -> Benchmark {
    Benchmark {
        baselines: SELECTORS,
        ours: "guards:128K",
        ..s3(name, SELECT, source, about, spec)
    }
}

/// Searches: gets of single keys would be none, for they go by hashes. One operation in ten
/// writes, as where memtables are in use, and makes the directories.
fn searches(keys: KeyShape, choice: Choice) -> Spec {
    let mut spec = spec(Operation::Get, choice, 1_000_000);
    spec.keys = keys;
    spec.operations = 2_000_000;
    spec.body = Body::Mix(vec![
        (Operation::Scan { from: 1, to: 1 }, 0.9),
        (Operation::Update, 0.1),
    ]);
    spec
}

pub(super) const ALL: &[Benchmark] = &[
    s3(
        "s3.size.insert",
        SIZE,
        "S3 (VLDB '19), figures 3 to 5",
        "insert 4 M keys",
        || spec(Operation::Insert, Choice::Uniform, 4_000_000),
    ),
    s3(
        "s3.size.get",
        SIZE,
        "S3 (VLDB '19), figures 3 to 5",
        "get, 4 M keys, uniform",
        || spec(Operation::Get, Choice::Uniform, 4_000_000),
    ),
    s3(
        "s3.skew.put",
        SKEW,
        "S3 (VLDB '19), figures 8 to 10",
        "puts around 16 centres, Zipf 0.99, of keys that crowd around 16 others, from an empty one",
        || {
            let mut spec = skewed(Operation::Update);
            spec.start = Start::Empty;
            spec
        },
    ),
    s3(
        "s3.skew.get",
        SKEW,
        "S3 (VLDB '19), figures 8 to 10",
        "gets around 16 centres, Zipf 0.99, of 4 M keys that crowd around 16 others",
        || skewed(Operation::Get),
    ),
    s3(
        "s3.skew.normal",
        SKEW,
        "S3 (VLDB '19), 6: its normal distribution, by itself",
        "gets around the middle, deviation 1/400 of the key space, of 4 M evenly spaced keys",
        || {
            let mut spec = spec(Operation::Get, Choice::Normal(0.0025), 4_000_000);
            spec.keys = KeyShape::Word4;
            spec
        },
    ),
    s3(
        "s3.mix.20",
        MIX,
        "S3 (VLDB '19), figure 11",
        "20 % puts of keys that are there, 80 % gets; the paper inserts",
        || mix(0.2),
    ),
    s3(
        "s3.mix.40",
        MIX,
        "S3 (VLDB '19), figure 11",
        "40 % puts of keys that are there, 60 % gets; the paper inserts",
        || mix(0.4),
    ),
    s3(
        "s3.mix.60",
        MIX,
        "S3 (VLDB '19), figure 11",
        "60 % puts of keys that are there, 40 % gets; the paper inserts",
        || mix(0.6),
    ),
    s3(
        "s3.mix.80",
        MIX,
        "S3 (VLDB '19), figure 11",
        "80 % puts of keys that are there, 20 % gets; the paper inserts",
        || mix(0.8),
    ),
    s3(
        "s3.range.4",
        RANGE,
        "S3 (VLDB '19), figure 15",
        "scans of 4 of 4 M keys",
        || range(4, 4_000_000, 1_000_000),
    ),
    s3(
        "s3.range.40",
        RANGE,
        "S3 (VLDB '19), figure 15",
        "scans of 40 of 4 M keys",
        || range(40, 4_000_000, 1_000_000),
    ),
    s3(
        "s3.range.400",
        RANGE,
        "S3 (VLDB '19), figure 15",
        "scans of 400 of 4 M keys",
        || range(400, 4_000_000, 100_000),
    ),
    s3(
        "s3.range.4000",
        RANGE,
        "S3 (VLDB '19), figure 15",
        "scans of 4,000 of 4 M keys, a thousandth, as the longest of the paper's",
        || range(4_000, 4_000_000, 10_000),
    ),
    s3(
        "s3.range.size.4m",
        RANGE,
        "S3 (VLDB '19), figure 16",
        "scans of 0.0005 %: 20 of 4 M keys",
        || range(20, 4_000_000, 1_000_000),
    ),
    s3(
        "s3.range.size.16m",
        RANGE,
        "S3 (VLDB '19), figure 16",
        "scans of 0.0005 %: 80 of 16 M keys; the paper goes on to 64 M",
        || range(80, 16_000_000, 500_000),
    ),
    Benchmark {
        baselines: GUARD_SIZES,
        ..s3(
            "s3.guards.insert",
            GUARDS,
            "S3 (VLDB '19), figure 12: how many guards",
            "insert 4 M keys, by the size of the guard directory",
            || spec(Operation::Insert, Choice::Uniform, 4_000_000),
        )
    },
    Benchmark {
        baselines: GUARD_SIZES,
        ..s3(
            "s3.guards.scan",
            GUARDS,
            "S3 (VLDB '19), figure 12: how many guards",
            "scans of 4 of 4 M keys, by the size of the guard directory",
            || {
                let scan = Operation::Scan { from: 4, to: 4 };
                spec(scan, Choice::Uniform, 4_000_000)
            },
        )
    },
    Benchmark {
        baselines: GUARD_SIZES_OF_OURS,
        ours: "memtable:jellyfish",
        ..s3(
            "s3.guards.jellyfish.insert",
            GUARDS,
            "S3 (VLDB '19), figure 12, in the JellyFish kind",
            "insert 4 M keys, by the size of the guard directory",
            || spec(Operation::Insert, Choice::Uniform, 4_000_000),
        )
    },
    Benchmark {
        baselines: GUARD_SIZES_OF_OURS,
        ours: "memtable:jellyfish",
        ..s3(
            "s3.guards.jellyfish.scan",
            GUARDS,
            "S3 (VLDB '19), figure 12, in the JellyFish kind",
            "scans of 4 of 4 M keys, by the size of the guard directory",
            || {
                let scan = Operation::Scan { from: 4, to: 4 };
                spec(scan, Choice::Uniform, 4_000_000)
            },
        )
    },
    guardsel(
        "s3.guardsel.uniform",
        "S3 (VLDB '19), figure 13: which guards",
        "seeks of 1 M keys, uniform, by who chooses the guards",
        || searches(KeyShape::Word4, Choice::Uniform),
    ),
    guardsel(
        "s3.guardsel.normal",
        "S3 (VLDB '19), figure 13: which guards",
        "seeks around the middle, deviation 1/400 of the key space",
        || searches(KeyShape::Word4, Choice::Normal(0.0025)),
    ),
    guardsel(
        "s3.guardsel.zipf",
        "S3 (VLDB '19), figure 13: which guards",
        "seeks, Zipf 0.5",
        || searches(KeyShape::Word4, Choice::Zipf(0.5)),
    ),
    guardsel(
        "s3.guardsel.centres",
        "S3 (VLDB '19), figure 13, with its skewed data: which guards",
        "seeks around 16 centres, Zipf 0.99, of keys that crowd around 16 others",
        || searches(KeyShape::Centred4, CENTRES),
    ),
    Benchmark {
        baselines: SELECTORS_OF_OURS,
        ours: "jellyfish-guards:128K",
        ..guardsel(
            "s3.guardsel.jellyfish",
            "S3 (VLDB '19), figure 13, in the JellyFish kind: which guards",
            "seeks around 16 centres, Zipf 0.99, of keys that crowd around 16 others",
            || searches(KeyShape::Centred4, CENTRES),
        )
    },
    guardsel(
        "s3.guardsel.prefixed",
        "ours: a case that S3 (VLDB '19) leaves out",
        "seeks, uniform, of 40 B keys that share their first 32 bytes",
        || searches(KeyShape::Prefixed40, Choice::Uniform),
    ),
    guardsel(
        "s3.guardsel.monotonic",
        "ours: a case that S3 (VLDB '19) leaves out",
        "seeks of the newest of ascending keys, Zipf 0.99",
        || searches(KeyShape::DbBench, Choice::Latest),
    ),
    Benchmark {
        threads: &[1],
        ..s3(
            "s3.flush",
            // Not of `s3`, which may be asked of stores that are no memtable.
            &[],
            "S3 (VLDB '19), figure 17",
            "write 4 M keys out as a table; in the figures also a sorted array of the same entries",
            || {
                let mut spec = spec(Operation::Get, Choice::Uniform, 4_000_000);
                spec.body = Body::WriteOut { times: 5 };
                spec
            },
        )
    },
    s3(
        "s3.bytes.prefixed.insert",
        BYTES,
        "ours: a case that S3 (VLDB '19) leaves out",
        "insert 40 B keys that share their first 32 bytes",
        || bytes(Operation::Insert, KeyShape::Prefixed40),
    ),
    s3(
        "s3.bytes.prefixed.get",
        BYTES,
        "ours: a case that S3 (VLDB '19) leaves out",
        "get 40 B keys that share their first 32 bytes",
        || bytes(Operation::Get, KeyShape::Prefixed40),
    ),
    s3(
        "s3.bytes.monotonic",
        BYTES,
        "ours: a case that S3 (VLDB '19) leaves out",
        "insert ascending keys",
        || bytes(Operation::Insert, KeyShape::DbBench),
    ),
    Benchmark {
        baselines: &["aoc"],
        ..plain(
            "s3.db",
            &["s3"],
            "S3 (VLDB '19), figure 19, at a hundredth",
            "get a random key after filling a database in random order",
            || usual(&[(Operation::Get, 1.0)], Choice::Uniform),
        )
    },
];
