//! Every benchmark there is, by name: the papers' experiments with their parameters, and our own.
//!
//! B1. Names are unique; a group's name is no benchmark's. A group runs in the order of the list.
//! B2. `spec` is what the source says, on one machine; what was changed, `about` says.
//!
//! Tests: below.

mod rows;
mod dbbench;
mod jellyfish;
mod clsm;
mod s3;
mod xyza;
mod yodb;
mod own;

use crate::choice::Choice;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyShape;
use crate::spec::{Body, Operation, Pace, Spec, Start};
use crate::store::{Durability, Settings};

/// A benchmark that can be asked for.
#[derive(Debug, Clone, Copy)]
pub struct Benchmark {
    /// Its name.
    pub name: &'static str,
    /// Groups it belongs to.
    pub groups: &'static [&'static str],
    /// Paper and figure, or tool.
    pub source: &'static str,
    /// What it does, and what of the source was changed.
    pub about: &'static str,
    /// The store that the others are compared with.
    pub ours: &'static str,
    /// Stores that it compares with where none are named, beside the peers.
    pub baselines: &'static [&'static str],
    /// Whether peers are measured too where none are named.
    pub peers: bool,
    /// Whether the operations are those of each thread, as in `db_bench`.
    pub per_thread: bool,
    /// The numbers of threads it is for, where none are given.
    pub threads: &'static [u64],
    /// Where it begins with what another left: which one.
    pub after: Option<&'static str>,
    /// Its parameters at scale 1.
    pub spec: fn() -> Spec,
}

const ALL: &[&[Benchmark]] = &[
    rows::ALL,
    dbbench::ALL,
    jellyfish::ALL,
    clsm::ALL,
    s3::ALL,
    xyza::ALL,
    yodb::ALL,
    own::ALL,
];

/// Experiments of the papers that take parts which Velella does not have, and which parts. What
/// only looked like them would measure something else.
pub const NOT_THERE: &[(&str, &str)] = &[
    (
        "xyza.conflict, xyza.opt",
        "ranges of keys that one operation at a time may enter, and a scheduler that holds back, \
         joins or drops operations which want the same one: Velella lets all writers in",
    ),
    (
        "xyza.journal.* with single-slots",
        "one log in which writers join their records in slots before one of them writes: Velella's \
         journal has lanes, so it would be another journal",
    ),
    (
        "xyza.journal.* with lanes and no cut",
        "lanes whose ends nobody compares: recovery stands on the seals, and they are written by \
         the rounds that sync, in which no write takes part unless it waits for the device: see \
         journal_rounds with --counters",
    ),
    (
        "s3.multi",
        "one directory of guards over several lists: each of Velella's memtables has its own, and \
         seldom do more than two wait for their flush",
    ),
    (
        "yodb.e* with logs of 2 MB and of 256 KB",
        "chunks with a log each, of which figure 2 compares two sizes: Velella's tables are an LSM \
         tree. The scans themselves are there",
    ),
];

/// What may be changed about benchmarks.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Records and operations are multiplied by it.
    pub scale: Option<f64>,
    /// Keys in the key space.
    pub records: Option<u64>,
    /// Operations, of all threads together or of each, as the benchmark has it.
    pub operations: Option<u64>,
    /// How numbers become keys.
    pub keys: Option<KeyShape>,
    /// Bytes of a value.
    pub value_bytes: Option<u64>,
    /// Cache; of Velella, everything.
    pub memory: Option<u64>,
    /// Bytes at which memtables are flushed.
    pub write_buffer: Option<u64>,
    /// What acknowledged writes survive.
    pub durability: Option<Durability>,
    /// Bits per key of filters.
    pub bloom_bits: Option<u32>,
    /// Operations before those that are measured.
    pub warm_up: Option<u64>,
    /// Whether stores write out and compact what they have before each benchmark.
    pub settled: bool,
    /// Whether doing so afterwards is counted too.
    pub drained: bool,
    /// Seconds of what is measured in seconds.
    pub seconds: Option<f64>,
    /// Operations per second of open loops.
    pub rate: Option<u64>,
    /// Whether stores count, too, that are slower when they do.
    pub counters: bool,
    /// The latency of every so many operations is measured.
    pub latency_every: Option<u64>,
    /// Where random numbers begin.
    pub seed: Option<u64>,
}

/// All benchmarks.
pub fn all() -> impl Iterator<Item = &'static Benchmark> {
    ALL.iter().flat_map(|part| part.iter())
}

/// The names of all groups.
#[must_use]
pub fn groups() -> Vec<&'static str> {
    let mut groups = Vec::new();
    for group in all().flat_map(|one| one.groups) {
        if !groups.contains(group) {
            groups.push(*group);
        }
    }
    groups
}

/// The benchmarks called `name`: one, or a group.
///
/// # Errors
/// `Unknown`.
pub fn named(name: &str) -> Outcome<Vec<&'static Benchmark>> {
    let found: Vec<_> = all()
        .filter(|one| one.name == name || one.groups.contains(&name))
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names = groups().into_iter().chain(all().map(|one| one.name));
    Err(Failure::Unknown {
        what: "benchmark or group".to_owned(),
        name: name.to_owned(),
        known: names.map(str::to_owned).collect(),
    })
}

impl Benchmark {
    /// Its parameters for `threads` threads, with `changes`.
    #[must_use]
    pub fn with(&self, changes: &Changes, threads: u64) -> Spec {
        let mut spec = (self.spec)();
        self.name.clone_into(&mut spec.name);
        self.ours.clone_into(&mut spec.ours);
        if let Some(scale) = changes.scale {
            spec.records = scaled(spec.records, scale);
            spec.operations = scaled(spec.operations, scale);
            if let Body::OpenAfterKill { insertions, .. } = &mut spec.body {
                *insertions = scaled(*insertions, scale);
            }
        }
        set(&mut spec.records, changes.records);
        if spec.start == Start::Empty && is_load(&spec) {
            spec.operations = spec.records;
        } else {
            // A key space that was made smaller or larger changes how much there is to do.
            if let Some(records) = changes.records {
                let before = scaled((self.spec)().records, changes.scale.unwrap_or(1.0)).max(1);
                let share = crate::result::float(records) / crate::result::float(before);
                spec.operations = scaled(spec.operations, share);
            }
            set(&mut spec.operations, changes.operations);
            if self.per_thread {
                spec.operations = spec.operations.saturating_mul(threads);
            }
        }
        set(&mut spec.keys, changes.keys);
        set(&mut spec.value_bytes, changes.value_bytes);
        set(&mut spec.warm_up, changes.warm_up);
        spec.settled |= changes.settled;
        spec.drained |= changes.drained && spec.writes();
        set(&mut spec.latency_every, changes.latency_every);
        set(&mut spec.seed, changes.seed);
        set(&mut spec.settings.memory, changes.memory);
        set(&mut spec.settings.write_buffer, changes.write_buffer);
        set(&mut spec.settings.durability, changes.durability);
        set(&mut spec.settings.bloom_bits, changes.bloom_bits);
        spec.settings.counters |= changes.counters;
        if let Some(time) = changes.seconds {
            match (&mut spec.body, &mut spec.pace) {
                (Body::OpenAfterKill { seconds, .. }, _) | (_, Pace::Open { seconds, .. }) => {
                    *seconds = time;
                }
                _ => {}
            }
        }
        if let Pace::Open { rate, .. } = &mut spec.pace {
            *rate = changes.rate;
        }
        let pair = spec.key_maker().bytes() + spec.value_bytes + PAIR_EXTRA_BYTES;
        let pairs = spec.records.saturating_add(spec.operations);
        let bytes = pairs.saturating_mul(pair);
        spec.settings.data_bytes_max = spec.settings.data_bytes_max.max(bytes);
        spec
    }
}

/// What a pair costs beside key and value, at most.
const PAIR_EXTRA_BYTES: u64 = 32;

fn set<T>(target: &mut T, changed: Option<T>) {
    if let Some(changed) = changed {
        *target = changed;
    }
}

fn is_load(spec: &Spec) -> bool {
    matches!(spec.mix(), [(Operation::Insert, _)])
}

fn scaled(n: u64, scale: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float saturates when cast, and a scale is not negative"
    )]
    {
        (crate::result::float(n) * scale).round() as u64
    }
}

/// The usual parameters: those of the table of rows.
fn usual(mix: &[(Operation, f64)], choice: Choice) -> Spec {
    Spec {
        name: String::new(),
        ours: String::new(),
        keys: KeyShape::Hex,
        value_bytes: 100,
        records: 1_000_000,
        start: Start::Loaded,
        operations: 1_000_000,
        before: Vec::new(),
        settled: false,
        drained: false,
        drain_timed: false,
        warm_up: 0,
        body: Body::Mix(mix.to_vec()),
        store_for_each: false,
        beside: None,
        reconnect_every: 0,
        choice,
        pace: Pace::Closed,
        settings: Settings {
            durability: Durability::Process,
            memory: 1 << 30,
            write_buffer: 64 << 20,
            bloom_bits: 10,
            data_bytes_max: 0,
            counters: false,
        },
        latency_every: 16,
        seed: 1,
        unmeasured: false,
    }
}

/// A benchmark that compares with the peers, with one and two threads.
const fn plain(
    name: &'static str,
    groups: &'static [&'static str],
    source: &'static str,
    about: &'static str,
    spec: fn() -> Spec,
) -> Benchmark {
    Benchmark {
        name,
        groups,
        source,
        about,
        ours: crate::stores::OURS,
        baselines: &[],
        peers: true,
        per_thread: false,
        threads: &[1, 2],
        after: None,
        spec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_shares_add_up() {
        let mut names = HashSet::new();
        for one in all() {
            assert!(names.insert(one.name), "{}", one.name);
            assert!(!groups().contains(&one.name), "{}", one.name);
            let spec = one.with(&Changes::default(), 2);
            let shares: f64 = spec.mix().iter().map(|(_, share)| share).sum();
            assert!(
                spec.mix().is_empty() || (shares - 1.0).abs() < 1e-9,
                "{}",
                one.name
            );
            for store in one.baselines.iter().chain([&one.ours]) {
                let store = crate::stores::named(store).unwrap();
                let kept = store.check(spec.settings.durability);
                assert!(kept.is_ok(), "{}: {kept:?}", one.name);
            }
        }
    }

    #[test]
    fn what_begins_with_another_s_store_says_whose_and_gets_it() {
        for one in all() {
            let spec = one.with(&Changes::default(), 2);
            assert_eq!(
                spec.start == Start::AsIs,
                one.after.is_some(),
                "{}",
                one.name
            );
            let Some(after) = one.after else { continue };
            let before = named(after).unwrap();
            assert_eq!(before.len(), 1, "{}", one.name);
            let before = before[0].with(&Changes::default(), 2);
            assert!(before.is_followed_by(&spec), "{}", one.name);
        }
    }

    #[test]
    fn s3_s_keys_have_the_paper_s_four_bytes_where_nothing_else_is_said() {
        for one in all().filter(|one| one.name.starts_with("s3.")) {
            let ours = one.source.starts_with("ours") || one.name == "s3.db";
            let bytes = one.with(&Changes::default(), 1).key_maker().bytes();
            assert_eq!(bytes == 4, !ours, "{}", one.name);
        }
    }

    #[test]
    fn rows_are_those_of_the_table_with_its_parameters() {
        let rows = named("rows").unwrap();
        let names: Vec<&str> = rows.iter().map(|one| one.name).collect();
        let expected = [
            "ycsb.load",
            "overwrite.uniform",
            "overwrite.zipf",
            "get",
            "get.missing",
            "seek10",
            "ycsb.a",
            "ycsb.b",
            "ycsb.c",
            "ycsb.d",
            "ycsb.e",
            "ycsb.f",
        ];
        assert_eq!(names, expected);
        for row in rows {
            let spec = row.with(&Changes::default(), 1);
            assert_eq!((spec.records, spec.value_bytes), (1_000_000, 100));
            assert_eq!(spec.settings.memory, 1 << 30);
            assert_eq!(spec.settings.write_buffer, 64 << 20);
            assert_eq!(spec.settings.durability, Durability::Process);
        }
    }

    #[test]
    fn stores_count_only_when_asked_to() {
        let counts = |counters| {
            let changes = Changes {
                counters,
                ..Changes::default()
            };
            let spec = named("sync.writes").unwrap()[0].with(&changes, 1);
            spec.settings.counters
        };
        assert!(!counts(false) && counts(true));
    }

    #[test]
    fn a_smaller_key_space_takes_fewer_operations() {
        let changes = Changes {
            records: Some(1000),
            ..Changes::default()
        };
        let spec = named("ycsb.a").unwrap()[0].with(&changes, 1);
        assert_eq!((spec.records, spec.operations), (1000, 1000));
    }
}
