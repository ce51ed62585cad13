//! The workloads of `db_bench` by their names there.
//!
//! Source: RocksDB's and LevelDB's `db_bench`, with its defaults: 1 M keys of 16 bytes, which are
//! the number and eight `0`; values of 100 bytes, half compressible; operations are those of each
//! thread, and all threads share the keys. Instead of `--use_existing_db`, what reads, overwrites
//! or deletes finds a store that has every key once, so that every answer can be checked.
//!
//! Tests: `catalogue`, `drive`.

use super::{Benchmark, plain, usual};
use crate::choice::Choice;
use crate::keys::KeyShape;
use crate::spec::{Operation, Spec, Start};

const GROUPS: &[&str] = &["db_bench"];

const fn named(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        per_thread: true,
        ..plain(name, GROUPS, "RocksDB's db_bench", about, spec)
    }
}

fn spec(operation: Operation, start: Start) -> Spec {
    let mut spec = usual(&[(operation, 1.0)], Choice::Uniform);
    spec.keys = KeyShape::DbBench;
    spec.start = start;
    spec
}

pub(super) const ALL: &[Benchmark] = &[
    named(
        "fillseq",
        "put every key in ascending order, from an empty store; each thread all of them",
        || {
            let in_order = Operation::UpdateInOrder { disjoint: false };
            spec(in_order, Start::Empty)
        },
    ),
    named(
        "fillrandom",
        "put random keys, from an empty store: about 63 % of all are there afterwards",
        || spec(Operation::Update, Start::Empty),
    ),
    named("overwrite", "put random keys that are there", || {
        spec(Operation::Update, Start::Loaded)
    }),
    named("readrandom", "get random keys that are there", || {
        spec(Operation::Get, Start::Loaded)
    }),
    named(
        "readmissing",
        "get keys that were never put, each right before one that was",
        || spec(Operation::GetMissing, Start::Loaded),
    ),
    named(
        "readhot",
        "get random keys of the first hundredth of all",
        || {
            let mut spec = spec(Operation::Get, Start::Loaded);
            spec.choice = Choice::FirstHundredth;
            spec
        },
    ),
    named(
        "readseq",
        "read all pairs from the first on by one iterator for each thread; a pair is an operation",
        || spec(Operation::ReadInOrder { backwards: false }, Start::Loaded),
    ),
    named(
        "readreverse",
        "read all pairs from the last one backwards, otherwise as readseq",
        || spec(Operation::ReadInOrder { backwards: true }, Start::Loaded),
    ),
    named(
        "seekrandom",
        "seek a random key with a new iterator and read the pair there; jf.dbb.seekrandom and \
         seek10 read ten",
        || spec(Operation::Scan { from: 1, to: 1 }, Start::Loaded),
    ),
    named(
        "readwhilewriting",
        "get random keys while one more thread puts random keys as fast as it can; its puts are \
         not counted, but told (beside_per_second)",
        || {
            let mut spec = spec(Operation::Get, Start::Loaded);
            spec.beside = Some(Operation::Update);
            spec
        },
    ),
    named("deleterandom", "delete random keys", || {
        spec(Operation::Delete, Start::Loaded)
    }),
];
