//! Mixes on small stores, honest ones and liars.

use super::*;
use crate::catalogue::{self, Changes};
use crate::random::mix;
use crate::store::{Change, Peer, View, Visit, Waits};
use crate::stores;
use std::sync::atomic::AtomicU64;

/// How a store lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    None,
    /// Drops every 500th put.
    LosesWrites,
    /// Shows another key's value.
    MixesUp,
    /// Ends scans one pair early.
    CutsScans,
    /// Leaves every so many-th key out of its scans, and goes on with the next.
    SkipsPairs,
    /// Shows nothing in scans.
    ShowsNothing,
    /// Ends the sixth scan one pair early, and no other.
    CutsOne,
    /// Leaves a pair out of all scans from the 4001st on.
    SkipsLater,
    /// Stores what it should only store if absent, and says that it was.
    AlwaysAbsent,
    /// Finds what was never put.
    Invents,
    /// Every 300th put takes 50 ms, which it names.
    Waits,
    /// The same, and it names nothing.
    WaitsInSilence,
}

/// What a compaction takes at least.
const SETTLING: Duration = Duration::from_millis(40);
/// What such a put takes.
const WAIT: Duration = Duration::from_millis(50);

/// An honest store with a lie around it.
struct Liar {
    inner: Box<dyn Store>,
    lie: Lie,
    puts: AtomicU64,
    waited: AtomicU64,
    scans: AtomicU64,
    other: Vec<u8>,
}

impl Store for Liar {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let nth = self.puts.fetch_add(1, Ordering::Relaxed);
        // A third of the keys is followed: of eighty lost some are seen, whoever lost them.
        if self.lie == Lie::LosesWrites && nth % 100 == 99 {
            return Ok(());
        }
        if matches!(self.lie, Lie::Waits | Lie::WaitsInSilence) && nth % 300 == 299 {
            std::thread::sleep(WAIT);
            self.waited.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.inner.delete(key)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        match self.lie {
            Lie::MixesUp => self.inner.get(&self.other, see),
            Lie::Invents => {
                see(b"something");
                Ok(true)
            }
            _ => self.inner.get(key, see),
        }
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let nth = self.scans.fetch_add(1, Ordering::Relaxed);
        match self.lie {
            Lie::CutsScans => self.inner.scan(from, count - 1, visit),
            Lie::CutsOne if nth == 5 => self.inner.scan(from, count - 1, visit),
            Lie::SkipsLater if nth >= 4000 => {
                let mut nth = 0;
                let mut shown = |key: &[u8], value: &[u8]| {
                    nth += 1;
                    if nth != 2 {
                        visit(key, value);
                    }
                };
                let seen = self.inner.scan(from, count + 1, &mut shown)?;
                Ok(seen - usize::from(seen > 1))
            }
            Lie::ShowsNothing => Ok(0),
            Lie::SkipsPairs => {
                let mut left = count;
                let mut shown = |key: &[u8], value: &[u8]| {
                    let hash = key
                        .iter()
                        .fold(7_u64, |hash, byte| mix(hash ^ u64::from(*byte)));
                    if left > 0 && hash % 50 != 0 {
                        left -= 1;
                        visit(key, value);
                    }
                };
                self.inner.scan(from, 2 * count + 10, &mut shown)?;
                Ok(count - left)
            }
            _ => self.inner.scan(from, count, visit),
        }
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let short = usize::from(self.lie == Lie::CutsScans);
        self.inner.scan_back(count - short, visit)
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        self.inner.write(batch)
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        if self.lie == Lie::AlwaysAbsent {
            return self.inner.put(key, value).map(|()| true);
        }
        self.inner.put_if_absent(key, value)
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        self.inner.view()
    }

    fn settle(&self) -> Outcome<()> {
        std::thread::sleep(SETTLING);
        self.inner.settle()
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        self.inner.counters()
    }

    fn waits(&self) -> Option<BTreeMap<String, Waits>> {
        let waited = self.waited.load(Ordering::Relaxed);
        let count = if self.lie == Lie::Waits { waited } else { 0 };
        let max_us = u64::try_from(WAIT.as_micros()).unwrap();
        let waits = Waits {
            count,
            total_us: count * max_us,
            max_us,
        };
        Some(BTreeMap::from([("patience".to_owned(), waits)]))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.inner.close()
    }
}

/// Loads a store that lies, unless it is `Lie::None`, and runs `names` on it.
fn run(lie: Lie, names: &[&str], threads: u64) -> Outcome<Vec<Measurement>> {
    let changes = Changes {
        records: Some(4000),
        ..Changes::default()
    };
    run_with(lie, names, &changes, threads)
}

/// As `run`, with those changes.
fn run_with(
    lie: Lie,
    names: &[&str],
    changes: &Changes,
    threads: u64,
) -> Outcome<Vec<Measurement>> {
    let dir = tempfile::tempdir().unwrap();
    let peer: &dyn Peer = stores::named("memtable:jellyfish").unwrap();
    let spec = |name: &str| catalogue::named(name).unwrap()[0].with(changes, threads);
    let first = spec(names[0]);
    let mut keys = first.key_maker();
    let liar = Liar {
        inner: peer.open(dir.path(), &first.settings).unwrap(),
        lie,
        puts: AtomicU64::new(0),
        waited: AtomicU64::new(0),
        scans: AtomicU64::new(0),
        other: keys.key(7).to_vec(),
    };
    let mut known = Known::empty();
    let mut bench = Bench {
        store: &liar,
        name: "liar",
        threads,
        known: &mut known,
        meters: &mut Meters::new(),
        part: &mut 0,
        progress: &Progress::default(),
    };
    if first.start.is_loaded() {
        bench.load(&first)?;
    }
    names.iter().map(|name| bench.mix(&spec(name), 0)).collect()
}

fn caught(lie: Lie, name: &str) -> bool {
    matches!(run(lie, &[name], 2), Err(Failure::WrongAnswer { .. }))
}

#[test]
fn an_honest_store_is_believed_in_every_row() {
    let names: Vec<&str> = catalogue::named("rows")
        .unwrap()
        .iter()
        .map(|one| one.name)
        .collect();
    for threads in [1, 2] {
        let all = run(Lie::None, &names, threads).unwrap();
        for one in all {
            assert_eq!(one.operations, 4000, "{}", one.benchmark);
            assert!(one.checked > 100, "{}", one.benchmark);
            assert!(one.rate() > 0.0);
        }
    }
}

#[test]
fn an_honest_store_is_believed_in_db_bench() {
    let names: Vec<&str> = catalogue::named("db_bench")
        .unwrap()
        .iter()
        .map(|one| one.name)
        .collect();
    for threads in [1, 2] {
        for name in &names {
            let one = run(Lie::None, &[name], threads).unwrap().remove(0);
            assert_eq!(one.operations, 4000 * threads, "{name}");
            let beside = one.figures.get("beside_per_second");
            assert_eq!(beside.is_some(), *name == "readwhilewriting");
        }
    }
}

#[test]
fn a_store_that_skips_pairs_in_order_or_backwards_is_caught() {
    assert!(caught(Lie::CutsScans, "readseq"));
    assert!(caught(Lie::CutsScans, "readreverse"));
}

#[test]
fn what_another_thread_writes_beside_is_checked_too() {
    assert!(caught(Lie::LosesWrites, "readwhilewriting"));
}

#[test]
fn a_client_that_reconnects_does_the_same_as_one_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    let peer = stores::named("memtable:jellyfish").unwrap();
    let changes = Changes {
        records: Some(1000),
        ..Changes::default()
    };
    let done = |every| {
        let mut spec = catalogue::named("ycsb.f").unwrap()[0].with(&changes, 1);
        spec.reconnect_every = every;
        let store = peer.open(dir.path(), &spec.settings).unwrap();
        let mut bench = Bench {
            store: store.as_ref(),
            name: "memtable",
            threads: 1,
            known: &mut Known::empty(),
            meters: &mut Meters::new(),
            part: &mut 0,
            progress: &Progress::default(),
        };
        bench.load(&spec).unwrap();
        let one = bench.mix(&spec, 0).unwrap();
        (one.operations, one.bytes_put, one.found, one.checked)
    };
    assert_eq!(done(0), done(7));
}

#[test]
fn stores_of_their_own_hold_a_range_each_and_are_read_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let peer = stores::named("memtable:jellyfish").unwrap();
    let changes = Changes {
        records: Some(1000),
        ..Changes::default()
    };
    let mut spec = catalogue::named("xyza.multi").unwrap()[0].with(&changes, 4);
    let store = crate::several::open(peer, dir.path(), &spec, 4).unwrap();
    let mut bench = Bench {
        store: store.as_ref(),
        name: "several",
        threads: 4,
        known: &mut Known::empty(),
        meters: &mut Meters::new(),
        part: &mut 0,
        progress: &Progress::default(),
    };
    assert_eq!(bench.mix(&spec, 0).unwrap().operations, 1000);
    let mut numbers = Vec::new();
    let mut note = |key: &[u8], _: &[u8]| {
        numbers.push(u64::from_be_bytes(key[..8].try_into().unwrap()));
    };
    assert_eq!(store.scan(b"", usize::MAX, &mut note).unwrap(), 1000);
    assert_eq!(store.scan_back(600, &mut note).unwrap(), 600);
    assert!(numbers[..1000].iter().copied().eq(0..1000));
    assert!(numbers[1000..].iter().copied().eq((400..1000).rev()));
    assert_eq!(store.counters()["memtable_versions"], 1000);
    spec.keys = crate::keys::KeyShape::Hex;
    assert!(crate::several::open(peer, dir.path(), &spec, 4).is_err());
}

#[test]
fn a_store_that_loses_writes_is_caught() {
    assert!(caught(Lie::LosesWrites, "ycsb.load"));
    assert!(caught(Lie::LosesWrites, "overwrite.uniform"));
    assert!(caught(Lie::LosesWrites, "ycsb.f"));
}

#[test]
fn a_store_that_returns_another_keys_value_is_caught() {
    assert!(caught(Lie::MixesUp, "get"));
}

#[test]
fn a_store_whose_scans_end_early_is_caught() {
    assert!(caught(Lie::CutsScans, "seek10"));
    assert!(caught(Lie::CutsScans, "ycsb.e"));
}

/// Benchmarks with scans, each after what it needs: all keys, random ones, ranks without bound,
/// some deleted.
const SCANS: [&[&str]; 6] = [
    &["seek10"],
    &["s3.range.4"],
    &["jf.dbb.fillrandom", "jf.dbb.seekrandom"],
    &["jf.sim.scan.zipf"],
    &["jf.dbb.zipf.seekrandom"],
    &["jf.linkbench"],
];

#[test]
fn a_store_whose_scans_leave_pairs_out_is_caught_whatever_is_there() {
    for names in SCANS {
        run(Lie::None, names, 2).unwrap();
        for lie in [Lie::CutsScans, Lie::SkipsPairs, Lie::ShowsNothing] {
            let told = run(lie, names, 2);
            let caught = matches!(told, Err(Failure::WrongAnswer { .. }));
            assert!(caught, "{lie:?} in {names:?}");
        }
    }
}

#[test]
fn every_scan_is_counted_and_the_audit_scans_too() {
    for names in [SCANS[0], SCANS[2]] {
        for lie in [Lie::CutsOne, Lie::SkipsLater] {
            // One thread: which scans are kept is known, and these are not among them.
            let told = run(lie, names, 1);
            let caught = matches!(told, Err(Failure::WrongAnswer { .. }));
            assert!(caught, "{lie:?} in {names:?}");
        }
    }
}

#[test]
fn a_store_that_finds_what_was_never_put_is_caught() {
    assert!(caught(Lie::Invents, "get.missing"));
}

#[test]
fn a_store_that_stores_twice_what_was_absent_once_is_caught() {
    assert!(caught(Lie::AlwaysAbsent, "clsm.rmw"));
}

#[test]
fn with_one_thread_the_same_seed_does_the_same_work() {
    let counts = || {
        let all = run(Lie::None, &["ycsb.load", "ycsb.a", "ycsb.e"], 1).unwrap();
        let count = |one: &Measurement| (one.found, one.bytes_put, one.checked);
        all.iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(counts(), counts());
}

#[test]
fn put_if_absent_stores_each_key_once() {
    let all = run(Lie::None, &["clsm.rmw"], 2).unwrap();
    let pair = 8 + 256;
    assert_eq!(all[0].bytes_put, all[0].missed * pair);
    assert!(all[0].missed < all[0].operations);
}

/// Runs `name` on Velella, loaded if it begins so.
fn run_on_velella(name: &str, changes: &Changes, threads: u64) -> Measurement {
    let dir = tempfile::tempdir().unwrap();
    let peer = stores::named("velella").unwrap();
    let spec = catalogue::named(name).unwrap()[0].with(changes, threads);
    let store = peer.open(dir.path(), &spec.settings).unwrap();
    let mut bench = Bench {
        store: store.as_ref(),
        name: "velella",
        threads,
        known: &mut Known::empty(),
        meters: &mut Meters::new(),
        part: &mut 0,
        progress: &Progress::default(),
    };
    if spec.start.is_loaded() {
        bench.load(&spec).unwrap();
    }
    let measured = bench.mix(&spec, 0).unwrap();
    store.close().unwrap();
    measured
}

#[test]
fn read_modify_writes_of_the_hot_key_and_in_memory_write_each_time() {
    let few = Changes {
        operations: Some(3000),
        ..Changes::default()
    };
    let small = Changes {
        records: Some(1000),
        ..few
    };
    for threads in [1, 8] {
        for (name, changes) in [("clsm.rmw.hot", &few), ("clsm.rmw.memory", &small)] {
            let one = run_on_velella(name, changes, threads);
            assert_eq!((one.operations, one.found), (3000, 3000), "{name}");
            assert_eq!(one.counters["journal_records"], 3000, "{name}");
            assert_eq!(one.counters["flushes"], 0, "{name}");
        }
    }
}

#[test]
fn an_open_loop_keeps_its_pace_and_measures_every_operation() {
    let dir = tempfile::tempdir().unwrap();
    let peer = stores::named("memtable:jellyfish").unwrap();
    let changes = Changes {
        records: Some(1000),
        ..Changes::default()
    };
    let mut spec = catalogue::named("tail").unwrap()[0].with(&changes, 1);
    spec.pace = Pace::Open {
        rate: None,
        share: 0.01,
        measure_seconds: 0.05,
        seconds: 0.3,
    };
    let store = peer.open(dir.path(), &spec.settings).unwrap();
    let mut known = Known::empty();
    let mut bench = Bench {
        store: store.as_ref(),
        name: "memtable",
        threads: 1,
        known: &mut known,
        meters: &mut Meters::new(),
        part: &mut 0,
        progress: &Progress::default(),
    };
    bench.load(&spec).unwrap();
    let measured = bench.mix(&spec, 0).unwrap();
    let intended = measured.figures["intended_per_second"] * 0.3;
    assert!(measured.operations as f64 <= intended);
    assert!(measured.operations as f64 > intended - 2.0);
    assert_eq!(measured.latencies.count, measured.operations);
    assert!(measured.figures.contains_key("idle_p999_ns"));
    // Whether the processor was slow, or taken away, is the machine's to say.
    assert!((0.0..=100.0).contains(&measured.figures["slow_percent"]));
    if let Some(steady) = measured.figures.get("steady_max_ns") {
        assert!(*steady <= measured.latencies.max_ns as f64);
    }
    // The loop that found the rate is in no count of an operation, and all puts are in this.
    assert_eq!(measured.counters["memtable_versions"], measured.operations);
    let (mut keys, puts) = (spec.key_maker(), store.counters()["memtable_versions"]);
    let pair = keys.key(0).len() as u64 + spec.value_bytes;
    assert_eq!(known.bytes_put, puts * pair);
}

#[test]
fn an_open_loop_at_a_given_rate_tells_which_waits_the_store_does_not_name() {
    let changes = Changes {
        records: Some(400),
        rate: Some(2000),
        seconds: Some(0.4),
        ..Changes::default()
    };
    for (lie, unnamed) in [(Lie::Waits, 0.0), (Lie::WaitsInSilence, 3.0)] {
        let one = run_with(lie, &["tail"], &changes, 1).unwrap().remove(0);
        assert_eq!(one.operations, 800, "three of which are a 300th put");
        let figures = &one.figures;
        assert!(!figures.contains_key("saturation_per_second"));
        assert!(
            !figures.contains_key("slow_percent"),
            "nothing to hold it against"
        );
        assert_eq!(figures["intended_per_second"], 2000.0);
        // Whoever is behind a slow one is late, but was not slow: unless the machine made it so.
        assert!(figures["took_over_20ms"] >= 3.0, "{figures:?}");
        assert!(
            figures["late_over_20ms"] > figures["took_over_20ms"],
            "{figures:?}"
        );
        assert!(figures["took_max_ns"] >= 50e6, "{figures:?}");
        // What the host took away has a name as well.
        let robbed = figures.get("stolen_ms").is_some_and(|ms| *ms > 0.0);
        assert!(
            robbed || figures["unnamed_over_20ms"] >= unnamed,
            "{figures:?}"
        );
        let named = figures.get("stall_max_us_patience");
        assert_eq!(named.is_some(), lie == Lie::Waits, "{figures:?}");
        if figures["took_over_20ms"] <= 3.0 && !robbed {
            assert_eq!(figures["unnamed_over_20ms"], unnamed, "{figures:?}");
        }
    }
}

#[test]
fn what_ends_when_all_is_compacted_is_timed_until_then() {
    let settling = SETTLING.as_secs_f64();
    let names = ["clsm.compact.load", "clsm.compact.update"];
    for one in run(Lie::None, &names, 2).unwrap() {
        let (before, compaction) = (
            one.figures["before_compaction_seconds"],
            one.figures["compaction_seconds"],
        );
        assert!(compaction >= settling, "{}", one.benchmark);
        assert!((one.seconds - before - compaction).abs() < 1e-9);
    }
    let other = run(Lie::None, &["clsm.write"], 2).unwrap().remove(0);
    assert!(!other.figures.contains_key("compaction_seconds"));
}

#[test]
fn four_stores_of_a_table_each_do_the_work_of_one() {
    let changes = Changes {
        records: Some(4800),
        ..Changes::default()
    };
    for name in ["clsm.consol.one", "clsm.consol.four"] {
        // A thread has several tables, one, or shares it.
        for threads in [1, 3, 4, 8] {
            let dir = tempfile::tempdir().unwrap();
            let peer = stores::named("memtable:jellyfish").unwrap();
            let spec = catalogue::named(name).unwrap()[0].with(&changes, threads);
            assert_eq!(spec.store_for_each, name == "clsm.consol.four");
            let store = match spec.store_for_each {
                true => crate::several::open(peer, dir.path(), &spec, threads).unwrap(),
                false => peer.open(dir.path(), &spec.settings).unwrap(),
            };
            let mut bench = Bench {
                store: store.as_ref(),
                name,
                threads,
                known: &mut Known::empty(),
                meters: &mut Meters::new(),
                part: &mut 0,
                progress: &Progress::default(),
            };
            bench.load(&spec).unwrap();
            let one = bench.mix(&spec, 0).unwrap();
            let gets = one.latencies_by_operation["get"].count;
            assert_eq!((one.operations, one.missed), (9600, 0), "{name}");
            assert!(gets > 0 && one.found > 8400 && one.found < 8900, "{name}");
            let mut tables = [0; 4];
            let mut count = |key: &[u8], _: &[u8]| {
                tables[usize::try_from(crate::keys::table(key)).unwrap()] += 1;
            };
            assert_eq!(store.scan(b"", usize::MAX, &mut count).unwrap(), 4800);
            assert_eq!(tables, [1200; 4]);
        }
    }
}
