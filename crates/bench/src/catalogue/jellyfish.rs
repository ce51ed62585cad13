//! JellyFish (Middleware '20): its simulation, its db_bench runs, YCSB and LinkBench as key-value
//! operations, memory and write amplification.
//!
//! The paper has 18 cores and up to 16 threads; here every benchmark runs with 1 and 2 threads
//! where none are given. Operations are those of each thread over one key space, as db_bench
//! counts, which is also how the paper's remark on shared keys reads.
//!
//! Tests: `catalogue`.

use super::{Benchmark, plain, usual};
use crate::choice::Choice;
use crate::keys::KeyShape;
use crate::spec::{Operation, Spec, Start};
use crate::store::Durability;

const SIM: &[&str] = &["jf", "jf.sim"];
const DBB: &[&str] = &["jf", "jf.dbb"];
const DBB_1K: &[&str] = &["jf", "jf.dbb.1k"];
const YCSB: &[&str] = &["jf", "jf.ycsb"];
const OTHER: &[&str] = &["jf"];
const WA: &[&str] = &["jf", "jf.wa"];
const SIM_BASELINES: &[&str] = &[
    "memtable:append-only",
    "aoc-noreseek",
    "leveldb1w",
    "inplace",
    "listnode-swap",
    "listnode-vlist",
];
const PAPER_ZIPF: Choice = Choice::ZipfUnbounded(1.2);
const SCAN10: Operation = Operation::Scan { from: 10, to: 10 };
/// The paper's 10 GB, more than any of these writes: nothing is flushed. No store takes of it what
/// it does not use.
const MEMTABLE_BYTES: u64 = 10_000_000_000;
/// Velella's write buffer may be three sixteenths of the memory.
const MEMORY_BYTES: u64 = 8 * MEMTABLE_BYTES;

/// A memtable alone, a million operations.
const fn sim(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        baselines: SIM_BASELINES,
        peers: false,
        ours: "memtable:jellyfish",
        ..plain(
            name,
            SIM,
            "JellyFish (Middleware '20), figures 3 to 5",
            about,
            spec,
        )
    }
}

fn sim_spec(operation: Operation, choice: Choice, start: Start) -> Spec {
    let mut spec = usual(&[(operation, 1.0)], choice);
    spec.keys = KeyShape::Decimal;
    spec.start = start;
    spec.settings.durability = Durability::None;
    spec
}

/// All in memory, through the whole engine, beside the baseline and the peers.
const fn dbb(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        baselines: &["aoc"],
        per_thread: true,
        ..plain(
            name,
            DBB,
            "JellyFish (Middleware '20), figures 6 to 8 and table 2",
            about,
            spec,
        )
    }
}

fn dbb_spec(operation: Operation, start: Start, value_bytes: u64) -> Spec {
    let mut spec = usual(&[(operation, 1.0)], Choice::Uniform);
    spec.keys = KeyShape::DbBench;
    spec.start = start;
    spec.value_bytes = value_bytes;
    spec.settings.write_buffer = MEMTABLE_BYTES;
    spec.settings.memory = MEMORY_BYTES;
    spec
}

/// As `dbb`, begun with what `before` left: db_bench's order.
const fn after(before: &'static str, one: Benchmark) -> Benchmark {
    Benchmark {
        after: Some(before),
        ..one
    }
}

/// As `dbb`, of keys of which some have very many versions: what the paper measures of a memtable.
const fn dbb_zipf(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        source: "ours; JellyFish (Middleware '20), figures 4 and 5, through the whole engine",
        ..dbb(name, about, spec)
    }
}

fn dbb_zipf_spec(operation: Operation) -> Spec {
    let mut spec = dbb_spec(operation, Start::Empty, 100);
    // The paper's ranks, which have no bound.
    spec.keys = KeyShape::Decimal;
    spec.choice = PAPER_ZIPF;
    spec.before = vec![(Operation::Update, 1.0)];
    spec
}

const fn dbb_1k(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        groups: DBB_1K,
        source: "JellyFish (Middleware '20), figure 9",
        ..dbb(name, about, spec)
    }
}

/// YCSB as the key-value operations that a Redis server on the store makes of it.
const fn ycsb(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        baselines: &["aoc"],
        ..plain(
            name,
            YCSB,
            "JellyFish (Middleware '20), figure 10 and table 3",
            about,
            spec,
        )
    }
}

/// Puts, gets and scans in millions, over a million loaded keys.
fn ycsb_spec(puts: f64, gets: f64, scans: f64) -> Spec {
    let all = puts + gets + scans;
    let mix = [
        (Operation::Update, puts / all),
        (Operation::Get, gets / all),
        (SCAN10, scans / all),
    ];
    let mut spec = usual(&mix, Choice::Zipf(0.99));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few millions"
    )]
    {
        spec.operations = (all * 1e6) as u64;
    }
    spec.settings.write_buffer = 256 << 20;
    spec.settings.memory = 2 << 30;
    spec
}

fn wa_spec(disjoint: bool) -> Spec {
    let mut spec = usual(
        &[(Operation::UpdateInOrder { disjoint }, 1.0)],
        Choice::Uniform,
    );
    spec.start = Start::Empty;
    spec.keys = KeyShape::DbBench;
    spec.records = 2_000_000;
    spec.operations = 4_000_000;
    spec
}

pub(super) const ALL: &[Benchmark] = &[
    sim(
        "jf.sim.put.uniform",
        "puts into an empty memtable, uniform",
        || sim_spec(Operation::Update, Choice::Uniform, Start::Empty),
    ),
    sim(
        "jf.sim.put.zipf",
        "puts into an empty memtable, numpy's Zipf 1.2",
        || sim_spec(Operation::Update, PAPER_ZIPF, Start::Empty),
    ),
    sim(
        "jf.sim.get.uniform",
        "gets of a million keys, uniform, after a million updates of them",
        || {
            let mut spec = sim_spec(Operation::Get, Choice::Uniform, Start::Loaded);
            spec.before = vec![(Operation::Update, 1.0)];
            spec
        },
    ),
    sim(
        "jf.sim.get.zipf",
        "gets, numpy's Zipf 1.2, of what jf.sim.put.zipf puts",
        || {
            let mut spec = sim_spec(Operation::Get, PAPER_ZIPF, Start::Empty);
            spec.before = vec![(Operation::Update, 1.0)];
            spec
        },
    ),
    sim(
        "jf.sim.scan.uniform",
        "seek and ten next, uniform, over keys of one version",
        || sim_spec(SCAN10, Choice::Uniform, Start::Loaded),
    ),
    sim(
        "jf.sim.scan.zipf",
        "seek and ten next, after a million Zipf 1.2 puts",
        || {
            let mut spec = sim_spec(SCAN10, PAPER_ZIPF, Start::Empty);
            spec.before = vec![(Operation::Update, 1.0)];
            spec.operations = 100_000;
            spec
        },
    ),
    dbb(
        "jf.dbb.fillrandom",
        "put a random key, from an empty store",
        || dbb_spec(Operation::Update, Start::Empty, 100),
    ),
    after(
        "jf.dbb.fillrandom",
        dbb("jf.dbb.overwrite", "put a random key again", || {
            dbb_spec(Operation::Update, Start::AsIs, 100)
        }),
    ),
    after(
        "jf.dbb.overwrite",
        dbb("jf.dbb.readrandom", "get a random key", || {
            dbb_spec(Operation::Get, Start::AsIs, 100)
        }),
    ),
    after(
        "jf.dbb.overwrite",
        dbb(
            "jf.dbb.seekrandom",
            "seek a random key, and ten next",
            || dbb_spec(SCAN10, Start::AsIs, 100),
        ),
    ),
    dbb_zipf(
        "jf.dbb.zipf.readrandom",
        "gets, numpy's Zipf 1.2, after a million puts of the same",
        || dbb_zipf_spec(Operation::Get),
    ),
    dbb_zipf(
        "jf.dbb.zipf.seekrandom",
        "seek and ten next, numpy's Zipf 1.2, after a million puts of the same",
        || dbb_zipf_spec(SCAN10),
    ),
    dbb_1k(
        "jf.dbb.1k.fillrandom",
        "put a random key, 1 KB values",
        || dbb_spec(Operation::Update, Start::Empty, 1000),
    ),
    after(
        "jf.dbb.1k.fillrandom",
        dbb_1k(
            "jf.dbb.1k.overwrite",
            "put a random key again, 1 KB values",
            || dbb_spec(Operation::Update, Start::AsIs, 1000),
        ),
    ),
    after(
        "jf.dbb.1k.overwrite",
        dbb_1k(
            "jf.dbb.1k.readrandom",
            "get a random key, 1 KB values",
            || dbb_spec(Operation::Get, Start::AsIs, 1000),
        ),
    ),
    after(
        "jf.dbb.1k.overwrite",
        dbb_1k(
            "jf.dbb.1k.seekrandom",
            "seek and ten next, 1 KB values",
            || dbb_spec(SCAN10, Start::AsIs, 1000),
        ),
    ),
    ycsb(
        "jf.ycsb.a",
        "YCSB A as 1 M puts, 1 M gets, 0.5 M scans",
        || ycsb_spec(1.0, 1.0, 0.5),
    ),
    ycsb(
        "jf.ycsb.b",
        "YCSB B as 0.1 M puts, 1 M gets, 0.95 M scans",
        || ycsb_spec(0.1, 1.0, 0.95),
    ),
    ycsb("jf.ycsb.c", "YCSB C as 1 M gets, 1 M scans", || {
        ycsb_spec(0.0, 1.0, 1.0)
    }),
    ycsb(
        "jf.ycsb.d",
        "YCSB D as 0.6 M puts, 1.1 M gets, 0.95 M scans",
        || ycsb_spec(0.6, 1.1, 0.95),
    ),
    ycsb(
        "jf.ycsb.e",
        "YCSB E as 0.6 M puts, 4.9 M gets, 4.9 M scans",
        || ycsb_spec(0.6, 4.9, 4.9),
    ),
    ycsb(
        "jf.ycsb.f",
        "YCSB F as 1 M puts, 1.5 M gets, 1 M scans",
        || ycsb_spec(1.0, 1.5, 1.0),
    ),
    Benchmark {
        baselines: &["aoc"],
        ..plain(
            "jf.linkbench",
            OTHER,
            "JellyFish (Middleware '20), figures 11 and 12, table 4",
            "LinkBench's mix as key-value operations on (node, type, node) keys: 50.7 % scans of a \
             node's links of one type, 18.3 % gets, 27 % puts, 4 % deletes; of each type there are \
             a count and seven links, and where some are deleted a scan reads on",
            || {
                let mix = [
                    (Operation::ScanPrefix { pairs: 8 }, 0.507),
                    (Operation::Get, 0.183),
                    (Operation::Update, 0.27),
                    (Operation::Delete, 0.04),
                ];
                let mut spec = usual(&mix, Choice::Zipf(0.99));
                spec.keys = KeyShape::Link;
                spec
            },
        )
    },
    Benchmark {
        baselines: &["memtable:append-only"],
        peers: false,
        ours: "memtable:jellyfish",
        threads: &[1],
        ..plain(
            "jf.mem",
            OTHER,
            "JellyFish (Middleware '20), table 5",
            "insert a million keys into a memtable: see memtable_bytes_allocated with --counters",
            || sim_spec(Operation::Insert, Choice::Uniform, Start::Empty),
        )
    },
    Benchmark {
        baselines: &["aoc"],
        ..plain(
            "jf.wa.insert",
            WA,
            "JellyFish (Middleware '20), figures 13 and 14, at a hundredth",
            "ascending puts, a range for each thread: see write_amplification with --counters",
            || wa_spec(true),
        )
    },
    Benchmark {
        baselines: &["aoc"],
        ..plain(
            "jf.wa.update",
            WA,
            "JellyFish (Middleware '20), figures 13 and 14, at a hundredth",
            "ascending puts, the same range for all threads",
            || wa_spec(false),
        )
    },
];
