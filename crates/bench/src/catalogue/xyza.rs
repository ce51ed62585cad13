//! Xyza (HotStorage '18): one instance and several, clients that come and go, journals.
//!
//! The paper drives servers over a network, from 1 to 35 clients that insert 50 M records of
//! 100 B into disjoint ranges with the weakest consistency; here clients are threads, the records
//! are 2 M (`--scale 25` makes them 50 M), and writes survive `kill -9`, so that a journal is
//! written as in the paper. What takes parts that Velella does not have is in `NOT_THERE`.
//!
//! Tests: `catalogue`, `drive`.

use super::{Benchmark, plain, usual};
use crate::choice::Choice;
use crate::keys::KeyShape;
use crate::spec::{Operation, Spec, Start};
use crate::store::Durability;

const GROUPS: &[&str] = &["xyza"];
/// One mapped lane for each thread is Velella; one call for each record, and one lock for all, are
/// what Xyza starts from.
const JOURNALS: &[&str] = &["journal-write", "journal-one-lock"];
const CLIENTS: &[u64] = &[1, 2, 4, 16, 35];
/// Operations between two connections of a client.
const RECONNECT_EVERY: u64 = 100;

/// Inserts into a range for each client.
fn inserts() -> Spec {
    let in_order = Operation::UpdateInOrder { disjoint: true };
    let mut spec = usual(&[(in_order, 1.0)], Choice::Uniform);
    spec.keys = KeyShape::DbBench;
    spec.start = Start::Empty;
    spec.records = 2_000_000;
    spec.operations = 2_000_000;
    spec
}

/// Puts, with what each of them survives.
pub(super) fn journal(durability: Durability, operations: u64) -> Spec {
    let mut spec = usual(&[(Operation::Update, 1.0)], Choice::Uniform);
    spec.settings.durability = durability;
    spec.operations = operations;
    spec.latency_every = 4;
    if durability == Durability::Device {
        // They are put one by one before the measurement, each as durable.
        spec.records = 1_000;
    }
    spec
}

const fn clients(name: &'static str, about: &'static str, spec: fn() -> Spec) -> Benchmark {
    Benchmark {
        threads: CLIENTS,
        ..plain(
            name,
            GROUPS,
            "Xyza (HotStorage '18), figure 1, at a 25th and without the network",
            about,
            spec,
        )
    }
}

pub(super) const ALL: &[Benchmark] = &[
    clients(
        "xyza.single",
        "inserts into an empty store, a range of keys for each client",
        inserts,
    ),
    clients(
        "xyza.multi",
        "as xyza.single, with a store of its own for each client, which share the memory",
        || {
            let mut spec = inserts();
            spec.store_for_each = true;
            spec
        },
    ),
    Benchmark {
        baselines: JOURNALS,
        source: "ours; Xyza (HotStorage '18) has a journal for each connection",
        ..clients(
            "xyza.churn",
            "as xyza.single, each client another thread after every 100 operations",
            || {
                let mut spec = inserts();
                spec.reconnect_every = RECONNECT_EVERY;
                spec
            },
        )
    },
    Benchmark {
        baselines: JOURNALS,
        threads: &[1, 2, 16],
        ..plain(
            "xyza.journal.buffered",
            GROUPS,
            "Xyza (HotStorage '18), figures 1 and 2, without the network",
            "puts that survive kill -9: a lane for each thread, one write(2) each, one lock",
            || journal(Durability::Process, 1_000_000),
        )
    },
    Benchmark {
        baselines: JOURNALS,
        threads: &[1, 2, 16],
        ..plain(
            "xyza.journal.sync",
            GROUPS,
            "Xyza (HotStorage '18), j:true",
            "puts that survive a power loss: see journal_syncs with --counters",
            || journal(Durability::Device, 20_000),
        )
    },
];
