//! cLSM (EuroSys '15): writes, reads, mixes, memtable sizes, read-modify-writes, production logs.
//!
//! The paper has 150 GB of data on 16 hardware threads and a RAID; here keys are 4 M (1 GB), and
//! `--scale` makes them more. 8 B keys, 256 B values, memtables of 128 MB, as there.
//!
//! Tests: `catalogue`.

use super::{Benchmark, plain, usual};
use crate::choice::Choice;
use crate::keys::KeyShape;
use crate::spec::{Operation, Spec, Start};

const GROUPS: &[&str] = &["clsm"];
const MEMSIZE: &[&str] = &["clsm", "clsm.memsize"];
const CONSOL: &[&str] = &["clsm", "clsm.consol"];
const COMPACT: &[&str] = &["clsm", "clsm.compact"];
const RMW: &[&str] = &["clsm", "rmw"];
/// Not of `clsm`, which may be asked of peers that have no such step.
const RMW_IN_TABLES: &[&str] = &["rmw.tables"];
const RMW_IN_MEMORY: &[&str] = &["rmw.memory"];
/// What cLSM is compared with, as far as it is one part of Velella.
const LOCKED: &[&str] = &["rwlock-writers"];
const STRIPED: &[&str] = &["lock-striped-rmw"];
const MIB: u64 = 1 << 20;

fn spec(mix: &[(Operation, f64)], choice: Choice) -> Spec {
    let mut spec = usual(mix, choice);
    spec.keys = KeyShape::Binary8;
    spec.value_bytes = 256;
    spec.records = 4_000_000;
    spec.operations = 2_000_000;
    spec.settings.write_buffer = 128 * MIB;
    spec
}

fn mixed(write_buffer: u64) -> Spec {
    let mix = [(Operation::Get, 0.5), (Operation::Update, 0.5)];
    let mut spec = spec(&mix, Choice::Uniform);
    spec.settings.write_buffer = write_buffer;
    spec.settings.memory = spec.settings.memory.max(8 * write_buffer);
    spec
}

const fn memsize(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        threads: &[2],
        ..plain(
            name,
            MEMSIZE,
            "cLSM (EuroSys '15), figure 8, its 8 threads as 2",
            about,
            spec,
        )
    }
}

fn rmw_spec(operation: Operation) -> Spec {
    let mut spec = spec(&[(operation, 1.0)], Choice::Uniform);
    spec.start = Start::Empty;
    spec.records = 1_000_000;
    spec.operations = 1_000_000;
    spec
}

/// What makes a store compact all the time: it ends once all of that is done, and that is timed.
fn compact(operation: Operation, start: Start) -> Spec {
    let mut spec = spec(&[(operation, 1.0)], Choice::Uniform);
    spec.keys = KeyShape::Ordered8;
    spec.value_bytes = 400;
    spec.records = 10_000_000;
    spec.operations = 10_000_000;
    spec.start = start;
    spec.drained = true;
    spec.drain_timed = true;
    spec
}

/// Less than a memtable's worth of operations on keys that were all in tables: those drawn again,
/// some 9 %, are in the memtable by then.
fn in_tables(operation: Operation) -> Spec {
    let mut spec = spec(&[(operation, 1.0)], Choice::Uniform);
    spec.records = 1_000_000;
    spec.operations = 200_000;
    spec.settled = true;
    spec
}

const fn rmw_in_tables(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    let source = "ours; cLSM (EuroSys '15), 3.3, leaves tables out";
    Benchmark {
        baselines: STRIPED,
        peers: false,
        ..plain(name, RMW_IN_TABLES, source, about, spec)
    }
}

/// All keys are in the memtable, which has room for every version that is put: nothing is flushed,
/// and each operation writes, where put-if-absent soon only reads. Each begins with the same store,
/// since they are held against each other.
fn in_memory(operation: Operation) -> Spec {
    let mut spec = rmw_spec(operation);
    spec.start = Start::Anew;
    spec.settings.write_buffer = 2 << 30;
    // Velella's write buffer may be three sixteenths of the memory.
    spec.settings.memory = 12 << 30;
    spec
}

const fn rmw_in_memory(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        baselines: STRIPED,
        peers: false,
        ..plain(
            name,
            RMW_IN_MEMORY,
            "ours; cLSM (EuroSys '15), 3.3",
            about,
            spec,
        )
    }
}

fn production(keys: KeyShape) -> Spec {
    let mix = [(Operation::Get, 0.9), (Operation::Update, 0.1)];
    let mut spec = spec(&mix, Choice::Production);
    spec.keys = keys;
    spec.value_bytes = 1024;
    spec.records = 1_000_000;
    spec
}

const fn consol(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    let source = "cLSM (EuroSys '15), figure 1, synthesized as clsm.prod";
    Benchmark {
        threads: &[4, 8],
        ..plain(name, CONSOL, source, about, spec)
    }
}

pub(super) const ALL: &[Benchmark] = &[
    Benchmark {
        baselines: LOCKED,
        ..plain(
            "clsm.write",
            GROUPS,
            "cLSM (EuroSys '15), figure 5",
            "puts, uniform",
            || spec(&[(Operation::Update, 1.0)], Choice::Uniform),
        )
    },
    Benchmark {
        baselines: LOCKED,
        ..plain(
            "clsm.read",
            GROUPS,
            "cLSM (EuroSys '15), figure 6",
            "gets, nine in ten from the blocks that hold a tenth of the keys",
            || {
                let mut spec = spec(&[(Operation::Get, 1.0)], Choice::HotBlocks);
                spec.keys = KeyShape::Ordered8;
                spec
            },
        )
    },
    Benchmark {
        baselines: LOCKED,
        ..plain(
            "clsm.mix",
            GROUPS,
            "cLSM (EuroSys '15), figure 7a",
            "as many gets as puts, uniform",
            || mixed(128 * MIB),
        )
    },
    Benchmark {
        baselines: LOCKED,
        ..plain(
            "clsm.scanmix",
            GROUPS,
            "cLSM (EuroSys '15), figure 7b",
            "scans of 10 to 20 pairs and puts, as many pairs scanned as put",
            || {
                let scan = Operation::Scan { from: 10, to: 20 };
                spec(
                    &[(scan, 1.0 / 16.0), (Operation::Update, 15.0 / 16.0)],
                    Choice::Uniform,
                )
            },
        )
    },
    memsize("clsm.memsize.16", "as clsm.mix, memtables of 16 MB", || {
        mixed(16 * MIB)
    }),
    memsize("clsm.memsize.32", "as clsm.mix, memtables of 32 MB", || {
        mixed(32 * MIB)
    }),
    memsize("clsm.memsize.64", "as clsm.mix, memtables of 64 MB", || {
        mixed(64 * MIB)
    }),
    memsize(
        "clsm.memsize.128",
        "as clsm.mix, memtables of 128 MB",
        || mixed(128 * MIB),
    ),
    memsize(
        "clsm.memsize.256",
        "as clsm.mix, memtables of 256 MB",
        || mixed(256 * MIB),
    ),
    memsize(
        "clsm.memsize.512",
        "as clsm.mix, memtables of 512 MB",
        || mixed(512 * MIB),
    ),
    Benchmark {
        baselines: STRIPED,
        ..plain(
            "clsm.rmw",
            RMW,
            "cLSM (EuroSys '15), figure 9",
            "put-if-absent of drawn keys, as one atomic step; stores that have none get striped \
             locks",
            || rmw_spec(Operation::PutIfAbsent),
        )
    },
    Benchmark {
        baselines: STRIPED,
        ..plain(
            "clsm.rmw.put",
            RMW,
            "cLSM (EuroSys '15), figure 9",
            "plain puts of the same keys: what clsm.rmw is held against",
            || rmw_spec(Operation::Update),
        )
    },
    rmw_in_memory(
        "clsm.rmw.memory.put",
        "put keys that are all in the memtable, nothing flushed",
        || in_memory(Operation::Update),
    ),
    rmw_in_memory(
        "clsm.rmw.memory",
        "read and put the same keys, as one atomic step: hold it against the puts",
        || in_memory(Operation::Replace),
    ),
    Benchmark {
        threads: &[1, 8],
        ..rmw_in_memory(
            "clsm.rmw.hot",
            "read and put one key by all threads, as one atomic step: hold 8 threads against 1",
            || {
                let mut spec = in_memory(Operation::Replace);
                spec.records = 1;
                spec
            },
        )
    },
    rmw_in_tables(
        "clsm.rmw.tables.get",
        "get keys that are all in tables",
        || in_tables(Operation::Get),
    ),
    rmw_in_tables(
        "clsm.rmw.tables.put",
        "put keys that are all in tables",
        || in_tables(Operation::Update),
    ),
    rmw_in_tables(
        "clsm.rmw.tables",
        "read and put keys that are all in tables, as one atomic step: hold it against the sum of \
         both times",
        || in_tables(Operation::Replace),
    ),
    plain(
        "clsm.compact.load",
        COMPACT,
        "cLSM (EuroSys '15), figure 11, at a hundredth",
        "insert 400 B values in the order of their keys, until all is compacted",
        || compact(Operation::Insert, Start::Empty),
    ),
    Benchmark {
        after: Some("clsm.compact.load"),
        ..plain(
            "clsm.compact.update",
            COMPACT,
            "cLSM (EuroSys '15), figure 11, at a hundredth",
            "put as many of them again, uniform, until all is compacted",
            || compact(Operation::Update, Start::AsIs),
        )
    },
    plain(
        "clsm.prod",
        GROUPS,
        "cLSM (EuroSys '15), figure 10, synthesized from the statistics it gives",
        "90 % gets, 40 B keys, 1 KB values; 10 % of the keys get 81 % of the requests",
        || production(KeyShape::Prefixed40),
    ),
    consol(
        "clsm.consol.one",
        "four logs as clsm.prod, a quarter of its keys each: one store with all, for all threads",
        || production(KeyShape::Tables40),
    ),
    consol(
        "clsm.consol.four",
        "the same: four stores with a log each, for a quarter of the threads, which share the \
         memory",
        || {
            let mut spec = production(KeyShape::Tables40);
            spec.store_for_each = true;
            spec
        },
    ),
];
