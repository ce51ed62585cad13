//! Scanning keys that have many versions: how much do old ones cost who wants others?
//!
//! Source: JellyFish (Middleware '20) 2.2, whose figure 5 is this effect with Zipf updates; here
//! the number of versions is exact. Keys are put once, a view is taken, they are put again and
//! again; then they are scanned as they are, and in the view.
//!
//! V1. What is shown is checked: the newest, or the oldest, of every key; before the scans that are
//!     timed and after them, since checking takes a part of a scan's time.
//! V2. Keys of many versions are scanned in turn with keys of one version, which another store of
//!     the same kind holds: a machine that runs slower for a while slows both, and their ratio
//!     tells of versions only. Where both have one version it tells how far such ratios stray.
//!
//! Threads: one. Tests: `tests/run.rs`.

use crate::failure::{Failure, Outcome};
use crate::message::{Task, remove};
use crate::result::{Latencies, Measurement, float};
use crate::spec::Spec;
use crate::store::{Peer, Store, View, Visit};
use crate::values::Values;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// Scans of each kind, of either store.
const SCANS: u64 = 400;

/// Measures `peer` with each number of versions, each in a fresh store.
pub(crate) fn measure(
    peer: &dyn Peer,
    task: &Task,
    spec: &Spec,
    keys: u64,
    versions: &[u64],
) -> Outcome<Measurement> {
    remove(&task.dir)?;
    let (one_dir, many_dir) = (task.dir.join("one"), task.dir.join("many"));
    let one = opened(peer, &one_dir, spec)?;
    let one_side = Side::filled(one.as_ref(), peer.name(), spec, keys, 1)?;
    let mut figures = BTreeMap::new();
    let (mut seconds, mut checked) = (0.0, 0);
    for &count in versions {
        let many = opened(peer, &many_dir, spec)?;
        let many_side = Side::filled(many.as_ref(), peer.name(), spec, keys, count)?;
        for side in [&one_side, &many_side] {
            checked += side.check()?;
        }
        seconds += in_turn(&one_side, &many_side, &mut figures)?;
        for side in [&one_side, &many_side] {
            checked += side.check()?;
        }
        drop(many_side);
        many.close()?;
        remove(&many_dir)?;
    }
    drop(one_side);
    one.close()?;
    remove(&task.dir)?;
    for kind in ["newest", "oldest"] {
        let ratios = versions
            .iter()
            .filter_map(|count| figures.get(&format!("{kind}_to_one_of_{count}")));
        let most = ratios.copied().fold(0.0, f64::max);
        figures.insert(format!("{kind}_to_one_most"), most);
    }
    let scans = SCANS * 4 * versions.len() as u64;
    Ok(Measurement {
        benchmark: spec.name.clone(),
        store: peer.name().to_owned(),
        threads: 1,
        round: task.round,
        operations: scans,
        seconds,
        bytes_put: 0,
        found: scans * keys,
        missed: 0,
        checked,
        latencies: Latencies::default(),
        latencies_by_operation: BTreeMap::new(),
        meters: BTreeMap::new(),
        counters: BTreeMap::new(),
        figures,
    })
}

/// An empty store in a directory of its own.
fn opened(peer: &dyn Peer, dir: &Path, spec: &Spec) -> Outcome<Box<dyn Store>> {
    std::fs::create_dir_all(dir).map_err(|error| Failure::file("create", dir, error))?;
    peer.open(dir, &spec.settings)
}

/// A store whose keys have so many versions each, and the view that sees the first of each.
struct Side<'a> {
    store: &'a dyn Store,
    name: &'a str,
    view: Box<dyn View + 'a>,
    values: Values,
    keys: u64,
    versions: u64,
}

impl<'a> Side<'a> {
    fn filled(
        store: &'a dyn Store,
        name: &'a str,
        spec: &Spec,
        keys: u64,
        versions: u64,
    ) -> Outcome<Self> {
        let values = Values::new(usize::try_from(spec.value_bytes).unwrap_or(0), spec.seed);
        let mut maker = spec.key_maker();
        let mut value = Vec::new();
        let mut put = |version: u64| -> Outcome<()> {
            for n in 0..keys {
                let key = maker.key(n);
                values.fill(key, version, &mut value);
                store.put(key, &value)?;
            }
            Ok(())
        };
        put(1)?;
        let view = store.view()?;
        for version in 2..=versions {
            put(version)?;
        }
        Ok(Side {
            store,
            name,
            view,
            values,
            keys,
            versions,
        })
    }

    /// Scans all keys as they are.
    fn newest(&self, visit: Visit<'_>) -> Outcome<usize> {
        self.store.scan(&[0], self.limit(), visit)
    }

    /// Scans all keys in the view.
    fn oldest(&self, visit: Visit<'_>) -> Outcome<usize> {
        self.view.scan(&[0], self.limit(), visit)
    }

    fn limit(&self) -> usize {
        usize::try_from(self.keys).unwrap_or(usize::MAX)
    }

    /// Both scans show what they must (V1).
    fn check(&self) -> Outcome<u64> {
        for (is_newest, version) in [(true, self.versions), (false, 1)] {
            let mut right = 0;
            let visit: Visit<'_> = &mut |key, value| {
                right += u64::from(self.values.check(key, value) == Some(version));
            };
            match is_newest {
                true => self.newest(visit)?,
                false => self.oldest(visit)?,
            };
            self.expect(right, &format!("at version {version}"))?;
        }
        Ok(2 * self.keys)
    }

    fn expect(&self, right: u64, what: &str) -> Outcome<()> {
        if right == self.keys {
            return Ok(());
        }
        Err(Failure::WrongAnswer {
            store: self.name.to_owned(),
            found: format!("a scan showed {right} of {} keys {what}", self.keys),
        })
    }

    /// Nanoseconds of `scan`.
    fn timed(&self, scan: impl FnOnce(Visit<'_>) -> Outcome<usize>) -> Outcome<u64> {
        let start = Instant::now();
        let shown = scan(&mut |key, value| {
            black_box((key, value));
        })?;
        let took = start.elapsed();
        self.expect(shown as u64, "in all")?;
        Ok(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Scans `one` and `many` in turn (V2): medians of `many`, and their ratio to those of `one`; the
/// seconds of all scans.
fn in_turn(one: &Side<'_>, many: &Side<'_>, figures: &mut BTreeMap<String, f64>) -> Outcome<f64> {
    let mut times: [Vec<u64>; 4] = Default::default();
    for _ in 0..SCANS {
        let took = [
            one.timed(|visit| one.newest(visit))?,
            many.timed(|visit| many.newest(visit))?,
            one.timed(|visit| one.oldest(visit))?,
            many.timed(|visit| many.oldest(visit))?,
        ];
        for (times, took) in times.iter_mut().zip(took) {
            times.push(took);
        }
    }
    let ns: u64 = times.iter().flatten().sum();
    let [one_newest, many_newest, one_oldest, many_oldest] = times.map(median);
    let count = many.versions;
    for (kind, one, many) in [
        ("newest", one_newest, many_newest),
        ("oldest", one_oldest, many_oldest),
    ] {
        figures.insert(format!("{kind}_ns_of_{count}"), many);
        figures.insert(format!("{kind}_to_one_of_{count}"), many / one.max(1.0));
    }
    Ok(float(ns) / 1e9)
}

fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    float(times[times.len() / 2])
}
