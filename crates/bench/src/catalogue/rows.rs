//! The twelve rows that stores are compared by: loading, overwriting, getting, seeking, YCSB A-F.
//!
//! Source: YCSB (Cooper et al., SoCC '10) core workloads, Zipf 0.99; RocksDB's `db_bench` for
//! `overwrite`, `readrandom`, `readmissing`, `seekrandom`.
//!
//! Tests: `catalogue`.

use super::{Benchmark, plain, usual};
use crate::choice::Choice;
use crate::spec::{Operation, Start};

const GROUPS: &[&str] = &["rows"];
const YCSB: &[&str] = &["rows", "ycsb"];
const ZIPF: Choice = Choice::Zipf(0.99);
const CORE: &str = "YCSB (SoCC '10), core workload";
const DB_BENCH: &str = "RocksDB's db_bench";

pub(super) const ALL: &[Benchmark] = &[
    plain(
        "ycsb.load",
        YCSB,
        CORE,
        "insert every record once, in random order, into an empty store",
        || {
            let mut spec = usual(&[(Operation::Insert, 1.0)], Choice::Uniform);
            spec.start = Start::Empty;
            spec
        },
    ),
    plain(
        "overwrite.uniform",
        GROUPS,
        DB_BENCH,
        "put keys that are there, each as often as any other",
        || usual(&[(Operation::Update, 1.0)], Choice::Uniform),
    ),
    plain(
        "overwrite.zipf",
        GROUPS,
        DB_BENCH,
        "put keys that are there, Zipf 0.99",
        || usual(&[(Operation::Update, 1.0)], ZIPF),
    ),
    plain(
        "get",
        GROUPS,
        DB_BENCH,
        "get keys that are there, each as often as any other",
        || usual(&[(Operation::Get, 1.0)], Choice::Uniform),
    ),
    plain(
        "get.missing",
        GROUPS,
        DB_BENCH,
        "get keys that were never put, between those that were",
        || usual(&[(Operation::GetMissing, 1.0)], Choice::Uniform),
    ),
    plain(
        "seek10",
        GROUPS,
        DB_BENCH,
        "seek a key with a new iterator, and read ten pairs from there on",
        || {
            usual(
                &[(Operation::Scan { from: 10, to: 10 }, 1.0)],
                Choice::Uniform,
            )
        },
    ),
    plain(
        "ycsb.a",
        YCSB,
        CORE,
        "half gets, half puts; Zipf 0.99",
        || usual(&[(Operation::Get, 0.5), (Operation::Update, 0.5)], ZIPF),
    ),
    plain(
        "ycsb.b",
        YCSB,
        CORE,
        "95 % gets, 5 % puts; Zipf 0.99",
        || usual(&[(Operation::Get, 0.95), (Operation::Update, 0.05)], ZIPF),
    ),
    plain("ycsb.c", YCSB, CORE, "gets; Zipf 0.99", || {
        usual(&[(Operation::Get, 1.0)], ZIPF)
    }),
    plain(
        "ycsb.d",
        YCSB,
        CORE,
        "95 % gets, the newest keys the most, 5 % inserts",
        || {
            usual(
                &[(Operation::Get, 0.95), (Operation::Insert, 0.05)],
                Choice::Latest,
            )
        },
    ),
    plain(
        "ycsb.e",
        YCSB,
        CORE,
        "95 % scans of 1 to 100 pairs, 5 % inserts; Zipf 0.99",
        || {
            let scan = Operation::Scan { from: 1, to: 100 };
            usual(&[(scan, 0.95), (Operation::Insert, 0.05)], ZIPF)
        },
    ),
    plain(
        "ycsb.f",
        YCSB,
        CORE,
        "half gets, half gets followed by a put of the same key; Zipf 0.99",
        || {
            let mix = [(Operation::Get, 0.5), (Operation::ReadThenWrite, 0.5)];
            usual(&mix, ZIPF)
        },
    ),
];
