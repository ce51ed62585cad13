//! What the papers do not measure, or not so: versions, hot keys, syncs, tails, memory, opening.
//!
//! Tests: `catalogue`; `tests/run.rs` runs the ones that are no mix.

use super::xyza::journal;
use super::{Benchmark, plain, usual};
use crate::choice::Choice;
use crate::spec::{Body, Operation, Pace, Spec, Start};
use crate::store::Durability;

const OWN: &[&str] = &["own"];
const LARGE: &[&str] = &["own", "larger-than-memory"];

fn large(operation: Operation) -> Spec {
    let mut spec = usual(&[(operation, 1.0)], Choice::Uniform);
    spec.records = 20_000_000;
    spec.operations = 5_000_000;
    if operation == Operation::Insert {
        spec.start = Start::Empty;
    }
    spec.settings.memory = 256 << 20;
    spec.settings.write_buffer = 32 << 20;
    spec
}

pub(super) const ALL: &[Benchmark] = &[
    Benchmark {
        baselines: &["aoc"],
        // Trees that copy pages on write would need a hundred gigabytes while a view is held.
        peers: false,
        threads: &[1],
        ..plain(
            "versions.scan",
            OWN,
            "JellyFish (Middleware '20), 2.2, made exact",
            "scan 100 keys of 1 to 100,000 versions each, as they are and by the oldest view; name \
             peers with --peers, but none that copies pages on write",
            || {
                let mut spec = usual(&[], Choice::Uniform);
                spec.records = 100;
                spec.body = Body::Versions {
                    keys: 100,
                    versions: vec![1, 10, 100, 1_000, 10_000, 100_000],
                };
                spec
            },
        )
    },
    Benchmark {
        baselines: &["aoc"],
        ..plain(
            "hot.overwrite",
            OWN,
            "ours; JellyFish (Middleware '20) 3 says why",
            "overwrite 1,000 keys ten million times: see flushes with --counters",
            || {
                let mut spec = usual(&[(Operation::Update, 1.0)], Choice::Uniform);
                spec.records = 1_000;
                spec.operations = 10_000_000;
                spec
            },
        )
    },
    Benchmark {
        threads: &[1, 2, 16],
        ..plain(
            "sync.writes",
            OWN,
            "ours",
            "puts that survive a power loss: see journal_syncs and write_calls with --counters",
            || {
                let mut spec = journal(Durability::Device, 10_000);
                spec.latency_every = 1;
                spec
            },
        )
    },
    Benchmark {
        threads: &[1],
        ..plain(
            "tail",
            OWN,
            "ours; cLSM (EuroSys '15), figure 5b, in an open loop",
            "puts at 70 % of saturation, latency from intended times, beside an idle timer; a fifth of \
             the time before, a loop without a store",
            || {
                let mut spec = usual(&[(Operation::Update, 1.0)], Choice::Uniform);
                // Each is measured in the open loop, so also where its saturation is found.
                spec.latency_every = 1;
                spec.pace = Pace::Open {
                    rate: None,
                    share: 0.7,
                    measure_seconds: 10.0,
                    seconds: 300.0,
                };
                spec
            },
        )
    },
    plain(
        "larger-than-memory.load",
        LARGE,
        "ours",
        "insert 20 M records with 256 MiB of memory",
        || large(Operation::Insert),
    ),
    plain(
        "larger-than-memory.overwrite",
        LARGE,
        "ours",
        "put them again, uniform",
        || large(Operation::Update),
    ),
    plain(
        "larger-than-memory.get",
        LARGE,
        "ours",
        "get them, uniform",
        || large(Operation::Get),
    ),
    Benchmark {
        threads: &[2],
        ..plain(
            "open-after-kill",
            OWN,
            "ours",
            "insert for ten seconds, kill -9, open: its rate is openings per second",
            || {
                let mut spec = usual(&[], Choice::Uniform);
                spec.body = Body::OpenAfterKill {
                    seconds: 10.0,
                    insertions: u64::MAX,
                };
                spec.settings.data_bytes_max = 16 << 30;
                spec
            },
        )
    },
    Benchmark {
        threads: &[2],
        ..plain(
            "open-after-kill.same",
            OWN,
            "ours",
            "as open-after-kill, after some million and a half insertions: about as many for each \
             store, see inserted_before_kill",
            || {
                let mut spec = usual(&[], Choice::Uniform);
                spec.body = Body::OpenAfterKill {
                    seconds: 600.0,
                    insertions: 1_500_000,
                };
                spec.settings.data_bytes_max = 16 << 30;
                spec
            },
        )
    },
];
