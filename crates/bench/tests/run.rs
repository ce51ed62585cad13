//! Tiny runs of the program: its tables, its JSON, its page.

use std::path::Path;
use std::process::Command;
use velella_bench::result::Results;

/// Runs the program; what it printed, its results, its page.
fn run(dir: &Path, arguments: &[&str]) -> (String, Results, String) {
    let (json, html) = (dir.join("results.json"), dir.join("results.html"));
    let output = Command::new(env!("CARGO_BIN_EXE_velella-bench"))
        .arg("run")
        .args(arguments)
        .args(["--dir".as_ref(), dir.as_os_str()])
        .args(["--json".as_ref(), json.as_os_str()])
        .args(["--html".as_ref(), html.as_os_str()])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let results = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let page = std::fs::read_to_string(&html).unwrap();
    (String::from_utf8(output.stdout).unwrap(), results, page)
}

#[test]
fn rows_of_velella_beside_another_become_tables_json_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let built = velella_bench::stores::peers();
    let others: Vec<&str> = built
        .iter()
        .map(|peer| peer.name())
        .chain(["aoc"])
        .collect();
    let peers = others.join(",");
    let arguments = [
        "rows",
        "--records",
        "400",
        "--threads",
        "1,2",
        "--rounds",
        "2",
        "--peers",
        &peers,
        "--latencies",
        "--counters",
        "--latency-every",
        "1",
    ];
    let (text, results, page) = run(dir.path(), &arguments);
    assert_eq!(results.measurements.len(), 12 * 2 * 2 * (1 + others.len()));
    for one in &results.measurements {
        assert!(
            one.operations == 400 && one.rate() > 0.0,
            "{}",
            one.benchmark
        );
        assert_eq!(one.latencies.count, 400, "{}", one.benchmark);
        let l = &one.latencies;
        let counted: u64 = l.buckets.iter().map(|(_, count)| count).sum();
        assert_eq!(counted, 400, "{}", one.benchmark);
        assert!(l.p50_ns <= l.p90_ns && l.p99_ns <= l.p999_ns && l.p999_ns <= l.max_ns);
        assert!(one.checked > 0);
    }
    let ratio = results.ratio("get", "aoc", 2).unwrap();
    assert!(ratio.least <= ratio.median && ratio.median <= ratio.greatest);
    assert!(results.ratio("get", "velella", 2).is_none());
    for name in [
        "ycsb.load",
        "seek10",
        "ycsb.f",
        "velella",
        "aoc",
        "p99.9",
        "memtable_comparisons",
    ] {
        assert!(text.contains(name), "{name} in\n{text}");
    }
    // Side by side.
    let counted = text
        .lines()
        .find(|line| line.contains("memtable_comparisons"));
    let columns = counted.unwrap().split_whitespace().count();
    assert_eq!(columns, 5, "{counted:?}");
    for part in ["<svg", "ycsb.e", "aoc", "memtable_comparisons", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["http:", "https:", "<script", "<link", "<img", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Nothing is left but what was asked for.
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 2);
}

#[test]
fn a_benchmark_alone_finds_what_the_one_before_it_leaves() {
    let found = |names: &str| {
        let dir = tempfile::tempdir().unwrap();
        let arguments = [names, "--records", "300", "--threads", "1", "--alone"];
        let (_, results, _) = run(dir.path(), &arguments);
        assert_eq!(results.specs.len(), names.split(',').count());
        assert_eq!(results.measurements.len(), results.specs.len());
        let last = results.measurements.last().unwrap();
        (last.found, last.missed)
    };
    let alone = found("jf.dbb.readrandom");
    assert!(alone.0 > 200 && alone.0 + alone.1 == 300, "{alone:?}");
    let all = "jf.dbb.fillrandom,jf.dbb.overwrite,jf.dbb.readrandom";
    assert_eq!(found(all), alone);
    // Nor what is left out.
    assert_eq!(found("jf.dbb.fillrandom,jf.dbb.readrandom"), alone);
    // What lies between them must not matter.
    let between = "jf.dbb.fillrandom,jf.dbb.1k.overwrite,jf.dbb.readrandom";
    assert!(found(between).0 > 200);
    assert!(found("jf.dbb.1k.seekrandom").0 > 2000);
}

#[test]
fn versions_are_scanned_by_the_newest_and_by_the_oldest_view() {
    let begun = std::time::Instant::now();
    let dir = tempfile::tempdir().unwrap();
    let mut spec = velella_bench::catalogue::named("versions.scan").unwrap()[0]
        .with(&velella_bench::catalogue::Changes::default(), 1);
    spec.body = velella_bench::spec::Body::Versions {
        keys: 20,
        versions: vec![1, 20_000],
    };
    let task = velella_bench::task::Task {
        store: "velella".to_owned(),
        threads: 1,
        round: 0,
        dir: dir.path().join("store"),
        specs: vec![spec],
    };
    let peer = velella_bench::stores::named("velella").unwrap();
    let measured = std::sync::Mutex::new(Vec::new());
    velella_bench::task::perform(peer, &task, &|told| {
        if let velella_bench::task::Told::Measured(one) = told {
            measured.lock().unwrap().push(one);
        }
    })
    .unwrap();
    let measured = measured.into_inner().unwrap();
    let figures = &measured[0].figures;
    // The time is that of the scans, not of 400,000 puts before them.
    let (scans, all) = (measured[0].seconds, begun.elapsed().as_secs_f64());
    assert!(scans > 0.0 && scans < all / 2.0, "{scans} of {all}");
    // Twenty keys, in two views, of two stores, before and after, for each number of versions.
    assert_eq!(measured[0].checked, 20 * 2 * 2 * 2 * 2);
    for name in [
        "newest_ns_of_1",
        "oldest_ns_of_20000",
        "newest_to_one_most",
        "oldest_to_one_most",
    ] {
        assert!(figures[name] > 0.0, "{figures:?}");
    }
}

#[test]
fn the_tail_runs_at_a_given_rate_and_tells_the_slowest() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "tail",
        "--alone",
        "--records",
        "1000",
        "--rate",
        "5000",
        "--seconds",
        "0.2",
    ];
    let (text, results, _) = run(dir.path(), &arguments);
    let one = &results.measurements[0];
    assert_eq!((one.operations, one.latencies.count), (1000, 1000));
    for name in [
        "took_max_ns",
        "unnamed_over_20ms",
        "late_over_20ms",
        "bare_p999_ns",
        "bare_idle_p999_ns",
    ] {
        assert!(
            one.figures.contains_key(name) && text.contains(name),
            "{text}"
        );
    }
}

#[test]
fn a_killed_store_opens_with_everything_that_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "open-after-kill",
        "--alone",
        "--seconds",
        "0.3",
        "--threads",
        "2",
    ];
    let (text, results, _) = run(dir.path(), &arguments);
    let figures = &results.measurements[0].figures;
    assert!(figures["open_seconds"] > 0.0 && figures["inserted_before_kill"] > 0.0);
    assert!(text.contains("open_seconds"), "{text}");
}

#[test]
fn a_store_may_be_killed_after_so_many_insertions() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["open-after-kill.same", "--alone", "--scale", "0.002"];
    let (_, results, _) = run(dir.path(), &arguments);
    // It would go on for ten minutes.
    let figures = &results.measurements[0].figures;
    assert!(figures["inserted_before_kill"] >= 3000.0, "{figures:?}");
}

#[test]
fn the_papers_benchmarks_run_small() {
    let dir = tempfile::tempdir().unwrap();
    let names = "jf.sim,jf.dbb,jf.wa,jf.mem,jf.linkbench,clsm,rmw.tables,rmw.memory,s3,s3.flush,xyza,db_bench,\
         hot.overwrite,sync.writes";
    let arguments = [
        names,
        "--records",
        "300",
        "--operations",
        "300",
        "--threads",
        "2",
        "--write-buffer",
        "1MiB",
        "--memory",
        "64MiB",
    ];
    let (text, results, page) = run(dir.path(), &arguments);
    let of = |name: &str, store: &str| results.of(name, store, 2).count();
    assert!(results.ours_of_all().is_none());
    assert!(text.contains("the store in the second column as many times as fast as each"));
    let has_row = |name: &str, ours: &str| {
        let mut rows = text.lines().map(str::trim_start);
        rows.any(|line| line.starts_with(name) && line.contains(ours))
    };
    for (name, ours) in [
        ("jf.sim.get.zipf ", "memtable:jellyfish"),
        ("jf.dbb.overwrite ", "velella"),
        ("s3.range.40 ", "memtable:s3"),
    ] {
        let title = format!("{}: {ours} beside others", name.trim());
        assert!(has_row(name, ours) && page.contains(&title), "{text}");
    }
    assert_eq!(of("jf.sim.scan.zipf", "memtable:jellyfish"), 1);
    assert_eq!(of("jf.sim.scan.zipf", "aoc-noreseek"), 1);
    assert_eq!(of("jf.dbb.seekrandom", "aoc"), 1);
    assert_eq!(of("clsm.rmw", "lock-striped-rmw"), 1);
    assert_eq!(of("clsm.rmw.tables", "velella"), 1);
    assert_eq!(of("clsm.rmw.memory", "lock-striped-rmw"), 1);
    assert_eq!(of("clsm.write", "rwlock-writers"), 1);
    assert_eq!(of("xyza.journal.sync", "journal-one-lock"), 1);
    let flush = results.of("s3.flush", "memtable:s3", 2).next().unwrap();
    for name in [
        "walk_ns_an_entry",
        "write_ns_an_entry",
        "array_write_ns_an_entry",
        "table_bytes",
    ] {
        assert!(flush.figures[name] > 0.0, "{name}");
    }
    assert_eq!(of("xyza.journal.sync", "journal-write"), 1);
    assert_eq!(of("xyza.churn", "journal-write"), 1);
    assert_eq!(of("xyza.multi", "velella"), 1);
    assert_eq!(of("jf.sim.scan.zipf", "listnode-vlist"), 1);
    assert_eq!(of("readwhilewriting", "velella"), 1);
    assert!(page.contains("jf.sim.put.zipf"));
    let drawn = results.of("jf.sim.get.zipf", "memtable:jellyfish", 2);
    let hottest = drawn.last().unwrap().figures["drawn_hottest_percent"];
    assert!((5.0..40.0).contains(&hottest), "{hottest}");
    assert!(page.contains("drawn_distinct_percent"));
}

#[test]
fn memtables_alone_tell_how_many_versions_their_keys_have_where_they_count() {
    let dir = tempfile::tempdir().unwrap();
    let peers = "memtable:append-only,velella,jellyfish-guards:0,jellyfish-select:mixed";
    let arguments = [
        "jf.sim.put.zipf",
        "--peers",
        peers,
        "--durability",
        "none",
        "--records",
        "100",
        "--operations",
        "3000",
        "--threads",
        "2",
        "--counters",
    ];
    let (text, results, _) = run(dir.path(), &arguments);
    let figures = |store: &str| {
        let mut all = results.of("jf.sim.put.zipf", store, 2);
        all.next().unwrap().figures.clone()
    };
    let ours = figures("memtable:jellyfish");
    let (p99, most) = (ours["chain_versions_p99"], ours["chain_versions_max"]);
    // A sixth of the draws are of one key.
    assert!(1.0 < p99 && p99 < most && most > 300.0, "{p99} {most}");
    for other in peers.split(',').filter(|other| *other != "velella") {
        assert_eq!(figures(other)["chain_versions_max"], most, "{other}");
    }
    assert!(!figures("velella").contains_key("chain_versions_max"));
    assert!(text.contains("chain_versions_p99"), "{text}");
}
