//! bench, by running the binary with few operations; no test looks at a time.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::Place;
use std::fs;

const ALL: &str = "fillseq,readseq,readreverse,fillrandom,overwrite,readrandom,seekrandom,\
                   updaterandom,deleterandom";

fn leftovers(place: &Place) -> usize {
    fs::read_dir(place.path(".")).unwrap().count()
}

#[test]
fn every_benchmark_does_what_db_bench_does() {
    let place = Place::new();
    let bench = ["bench", ALL, "--num", "2000", "--threads", "1,2", "--json"];
    let rows = place.ok(&bench).json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 18);
    for row in rows {
        let (threads, operations) = (
            row["threads"].as_u64().unwrap(),
            row["operations"].as_u64().unwrap(),
        );
        assert_eq!(operations, 2000 * threads, "{row}");
    }
    let found = |index: usize| {
        let row: &serde_json::Value = &rows[index];
        row["found"].as_f64().unwrap() / row["operations"].as_f64().unwrap()
    };
    // After fillrandom and overwrite with one thread: 1 - e^-2 of the keys; with two: 1 - e^-4.
    for (index, expected) in [(5, 0.865), (6, 0.865), (14, 0.982), (15, 0.982)] {
        assert!((found(index) - expected).abs() < 0.04, "{}", rows[index]);
    }
    assert_eq!(leftovers(&place), 0);
}

#[test]
fn in_memory_nothing_is_flushed() {
    let place = Place::new();
    let bench = [
        "bench",
        "--num",
        "20000",
        "--value-size",
        "1000",
        "--in-memory",
        "--json",
    ];
    let rows = place.ok(&bench).json();
    for row in rows.as_array().unwrap() {
        assert!(row["counters"].get("flushes").is_none(), "{row}");
    }
}

#[test]
fn the_table_has_a_line_for_each_benchmark_and_number_of_threads() {
    let place = Place::new();
    let bench = [
        "bench",
        "fillrandom,readrandom",
        "--num",
        "1000",
        "--counters",
    ];
    let text = place.ok(&bench).text().to_owned();
    assert!(
        text.starts_with("1,000 x 16 B keys, 100 B values"),
        "{text}"
    );
    assert!(
        text.contains("fillrandom") && text.contains(" %\n") || text.contains("hits"),
        "{text}"
    );
    assert!(text.contains("memtable_comparisons"), "{text}");
}

#[test]
fn a_comparison_without_db_bench_says_what_to_install() {
    let place = Place::new();
    let mut bench = place.command(&["bench", "--compare-rocksdb"]);
    let output = bench.env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("apt-get install rocksdb-tools"), "{said}");
    assert_eq!(leftovers(&place), 0);
}

#[test]
#[cfg(unix)]
fn what_db_bench_says_is_told_where_it_made_no_directory() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let program = place.path("bin/db_bench");
    fs::create_dir(place.path("bin")).unwrap();
    let script = "#!/bin/sh\ntest \"$1\" = --version && exit\necho no such option >&2\nexit 3\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let bench = ["bench", "fillrandom", "--num", "100", "--compare-rocksdb"];
    let mut bench = place.command(&bench);
    let output = bench.env("PATH", place.path("bin")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("exit status: 3: no such option"), "{said}");
    assert_eq!(leftovers(&place), 1);
}

#[test]
fn what_a_comparison_would_ignore_is_refused() {
    let place = Place::new();
    for ignored in [&["--counters"][..], &["--latency-every", "0"]] {
        let bench = [&["bench", "--compare-rocksdb"], ignored].concat();
        let words = ["cannot be used with", "--compare-rocksdb", ignored[0]];
        place.run(&bench).failed(2, &words);
    }
}
