//! Scanning keys that have many versions: how much do old ones cost who wants others?
//!
//! Source: JellyFish (Middleware '20) 2.2, whose figure 5 is this effect with Zipf updates; here
//! the number of versions is exact. Keys are put once, a view is taken, they are put again and
//! again; then they are scanned as they are, and in the view.
//!
//! V1. What is shown is checked: the newest, or the oldest, of every key.
//!
//! Threads: one. Tests: `tests/run.rs`.

use crate::failure::{Failure, Outcome};
use crate::message::{Task, remove};
use crate::result::{Latencies, Measurement, float};
use crate::spec::Spec;
use crate::store::{Peer, Store, Visit};
use crate::values::Values;
use std::collections::BTreeMap;
use std::time::Instant;

/// Scans of each kind.
const SCANS: u64 = 200;

/// Measures `peer` with each number of versions, each in a fresh store.
pub(crate) fn measure(
    peer: &dyn Peer,
    task: &Task,
    spec: &Spec,
    keys: u64,
    versions: &[u64],
) -> Outcome<Measurement> {
    let start = Instant::now();
    let mut figures = BTreeMap::new();
    for &count in versions {
        remove(&task.dir)?;
        std::fs::create_dir_all(&task.dir)
            .map_err(|error| Failure::file("create", &task.dir, error))?;
        let store = peer.open(&task.dir, &spec.settings)?;
        let (newest, oldest) = scans(store.as_ref(), peer.name(), spec, keys, count)?;
        figures.insert(format!("newest_ns_of_{count}"), newest);
        figures.insert(format!("oldest_ns_of_{count}"), oldest);
        store.close()?;
    }
    remove(&task.dir)?;
    for kind in ["newest", "oldest"] {
        let of = |count: Option<&u64>| {
            let name = format!("{kind}_ns_of_{}", count.copied().unwrap_or(0));
            figures.get(&name).copied()
        };
        if let (Some(one), Some(many)) = (of(versions.first()), of(versions.last())) {
            figures.insert(format!("{kind}_many_to_one"), many / one.max(1.0));
        }
    }
    let scans = SCANS * 2 * versions.len() as u64;
    Ok(Measurement {
        benchmark: spec.name.clone(),
        store: peer.name().to_owned(),
        threads: 1,
        round: task.round,
        operations: scans,
        seconds: start.elapsed().as_secs_f64(),
        bytes_put: 0,
        found: scans * keys,
        missed: 0,
        checked: scans,
        latencies: Latencies::default(),
        latencies_by_operation: BTreeMap::new(),
        meters: BTreeMap::new(),
        counters: BTreeMap::new(),
        figures,
    })
}

/// Nanoseconds of a scan over all keys: as they are, and in the oldest view.
fn scans(store: &dyn Store, name: &str, spec: &Spec, all: u64, count: u64) -> Outcome<(f64, f64)> {
    let values = Values::new(usize::try_from(spec.value_bytes).unwrap_or(0), spec.seed);
    let mut keys = spec.key_maker();
    let mut value = Vec::new();
    let mut put = |version: u64| -> Outcome<()> {
        for n in 0..all {
            let key = keys.key(n);
            values.fill(key, version, &mut value);
            store.put(key, &value)?;
        }
        Ok(())
    };
    put(1)?;
    let view = store.view()?;
    for version in 2..=count {
        put(version)?;
    }
    let limit = usize::try_from(all).unwrap_or(usize::MAX);
    let newest = timed(name, &values, (all, count), |visit| {
        store.scan(&[0], limit, visit)
    })?;
    let oldest = timed(name, &values, (all, 1), |visit| {
        view.scan(&[0], limit, visit)
    })?;
    Ok((newest, oldest))
}

/// Median nanoseconds of `scan`, which must show `expected.0` keys at version `expected.1`.
fn timed(
    name: &str,
    values: &Values,
    expected: (u64, u64),
    scan: impl Fn(Visit<'_>) -> Outcome<usize>,
) -> Outcome<f64> {
    let mut times = Vec::new();
    for _ in 0..SCANS {
        let mut right = 0;
        let start = Instant::now();
        scan(&mut |key, value| right += u64::from(values.check(key, value) == Some(expected.1)))?;
        times.push(start.elapsed().as_nanos());
        if right != expected.0 {
            return Err(Failure::WrongAnswer {
                store: name.to_owned(),
                found: format!(
                    "a scan showed {right} of {} keys at version {}",
                    expected.0, expected.1
                ),
            });
        }
    }
    times.sort_unstable();
    let median = u64::try_from(times[times.len() / 2]).unwrap_or(u64::MAX);
    Ok(float(median))
}
