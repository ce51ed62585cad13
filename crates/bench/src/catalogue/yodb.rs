//! YoDB (EvenDB's supplement): gets and scans over keys of one and of two components.
//!
//! The paper compares with RocksDB over data of several sizes (`--scale`). Of keys and values it
//! says nothing, and of scans no more than the names (E10, E100, E1000): so 100 B of value, 1,000
//! keys to a first component, and scans of exactly so many pairs are ours. Its logs of two sizes
//! are in `NOT_THERE`.
//!
//! Tests: `catalogue`.

use super::{Benchmark, plain, usual};
use crate::choice::Choice;
use crate::keys::KeyShape;
use crate::spec::{Operation, Spec};

const GROUPS: &[&str] = &["yodb"];
const FIGURE_1A: &str = "YoDB (EvenDB's supplement), figure 1a";
const FIGURE_2: &str = "YoDB (EvenDB's supplement), figure 2";
/// Keys that share their first component.
const EACH: u64 = 1_000;

/// 95 % of one, 5 % puts; the popular keys lie anywhere.
fn simple(operation: Operation, operations: u64) -> Spec {
    let mix = [(operation, 0.95), (Operation::Update, 0.05)];
    let mut spec = usual(&mix, Choice::Zipf(0.99));
    spec.operations = operations;
    spec
}

/// The same; popular are first components, whose keys are neighbours.
fn composite(operation: Operation, operations: u64) -> Spec {
    let mut spec = simple(operation, operations);
    spec.keys = KeyShape::Ordered8;
    spec.choice = Choice::Composite(EACH);
    spec
}

fn scan(pairs: u64) -> Operation {
    Operation::Scan {
        from: pairs,
        to: pairs,
    }
}

const fn yodb(
    name: &'static str,
    source: &'static str,
    about: &'static str,
    spec: fn() -> Spec,
) -> Benchmark {
    plain(name, GROUPS, source, about, spec)
}

pub(super) const ALL: &[Benchmark] = &[
    yodb(
        "yodb.b.simple",
        FIGURE_1A,
        "95 % gets, 5 % puts; Zipf 0.99 over scattered keys",
        || simple(Operation::Get, 1_000_000),
    ),
    yodb(
        "yodb.b.composite",
        FIGURE_1A,
        "as yodb.b.simple; Zipf 0.99 over first components, uniform over 1,000 second ones",
        || composite(Operation::Get, 1_000_000),
    ),
    yodb(
        "yodb.d",
        "YoDB (EvenDB's supplement), figure 1b",
        "95 % gets, the newest keys the most, 5 % inserts in ascending order",
        || {
            let mix = [(Operation::Get, 0.95), (Operation::Insert, 0.05)];
            let mut spec = usual(&mix, Choice::Latest);
            spec.keys = KeyShape::Ordered8;
            spec
        },
    ),
    yodb(
        "yodb.e10.simple",
        FIGURE_2,
        "95 % scans of 10 pairs, 5 % puts; Zipf 0.99 over scattered keys",
        || simple(scan(10), 500_000),
    ),
    yodb(
        "yodb.e10.composite",
        FIGURE_2,
        "as yodb.e10.simple, keys as in yodb.b.composite",
        || composite(scan(10), 500_000),
    ),
    yodb(
        "yodb.e100.simple",
        FIGURE_2,
        "95 % scans of 100 pairs, 5 % puts; Zipf 0.99 over scattered keys",
        || simple(scan(100), 100_000),
    ),
    yodb(
        "yodb.e100.composite",
        FIGURE_2,
        "as yodb.e100.simple, keys as in yodb.b.composite",
        || composite(scan(100), 100_000),
    ),
    yodb(
        "yodb.e1000.simple",
        FIGURE_2,
        "95 % scans of 1,000 pairs, 5 % puts; Zipf 0.99 over scattered keys",
        || simple(scan(1_000), 20_000),
    ),
    yodb(
        "yodb.e1000.composite",
        FIGURE_2,
        "as yodb.e1000.simple, keys as in yodb.b.composite",
        || composite(scan(1_000), 20_000),
    ),
];
