//! `velella crash-test`, by running the binary: it passes, and finds each fault that is put in.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::{Place, Said};

/// In memory where there is such: a test should not wait for a disk.
fn crash_test(place: &Place, arguments: &[&str]) -> Said {
    let mut all = vec!["crash-test", "--seed", "1"];
    let here = place.path("");
    match std::path::Path::new("/dev/shm").is_dir() {
        true => all.push("--memory-backed"),
        false => all.extend(["--dir", here.to_str().unwrap()]),
    }
    all.extend(arguments);
    place.run(&all)
}

/// A campaign that loses a write and keeps the database of it in `dir`.
fn losing<'a>(dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let losing = ["crash-test", "--seed", "1", "--kills", "100", "--jobs", "1"];
    let kept = ["--sabotage", "lose", "--keep", "--dir", dir];
    [&losing[..], &kept, more].concat()
}

#[test]
fn a_short_campaign_finds_nothing_lost() {
    let place = Place::new();
    let said = crash_test(
        &place,
        &["--kills", "60", "--json", "--ledger", "ledger.tsv"],
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    let report = said.json();
    assert!(report["kills"].as_u64() >= Some(60), "{report}");
    for class in ["buffered", "group", "sync"] {
        assert!(report["acknowledged"][class].is_u64(), "{report}");
    }
    assert_eq!((&report["lost"], &report["wrong"]), (&0.into(), &0.into()));
    let ledger = String::from_utf8(place.read("ledger.tsv")).unwrap();
    let line: Vec<&str> = ledger.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!(
        (line[2], line[4], line[8], line[9]),
        ("G1", "1", "0", "held")
    );
}

#[test]
#[cfg(target_os = "linux")]
fn the_ledger_has_memory_for_memory_however_it_was_named() {
    let memory = std::path::Path::new("/dev/shm");
    if !memory.is_dir() {
        println!("SKIPPED: there is no /dev/shm");
        return;
    }
    let place = Place::new();
    let said = place.run(&[
        "crash-test",
        "--seed",
        "1",
        "--kills",
        "2",
        "--jobs",
        "1",
        "--dir",
        "/dev/shm",
        "--ledger",
        "ledger.tsv",
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let ledger = String::from_utf8(place.read("ledger.tsv")).unwrap();
    assert!(ledger.contains("\tkill -9, in memory\t"), "{ledger}");
    assert!(said.err.contains("/dev/shm is memory"), "{}", said.err);
}

#[test]
fn a_directory_that_is_not_there_is_refused_and_not_made() {
    let place = Place::new();
    let said = place.run(&["crash-test", "--kills", "1", "--dir", "nowhere"]);
    said.failed(1, &["cannot make a directory in nowhere", "No such file"]);
    assert!(!place.path("nowhere").exists());
}

#[test]
fn people_are_told_the_kills_by_phase_and_the_writes_by_class() {
    let place = Place::new();
    let said = crash_test(&place, &["--kills", "20"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in [
        "kills        2",
        "during",
        "checked",
        "buffered",
        "openings",
        "lost         0",
    ] {
        assert!(
            said.text().contains(words),
            "no `{words}` in: {}",
            said.text()
        );
    }
    assert!(said.err.starts_with("seed 1\n"), "{}", said.err);
}

/// Puts a fault in, and wants it found and called by its name.
#[track_caller]
fn finds(sabotage: &str, fault: &str, words: &str) {
    let place = Place::new();
    let said = crash_test(
        &place,
        &["--kills", "100", "--jobs", "1", "--sabotage", sabotage],
    );
    let broken = format!("a promise was broken ({fault})");
    said.failed(
        1,
        &[&broken, words, "repeat with\n  velella crash-test --seed"],
    );
}

#[test]
fn an_acknowledged_write_that_disappears_is_found() {
    finds("lose", "lost", "is gone; found nothing");
}

#[test]
fn a_value_that_nobody_announced_is_found() {
    finds("forge", "wrong", "which was never announced");
}

#[test]
fn a_write_that_was_made_twice_is_found() {
    finds("repeat", "wrong", "holds");
}

#[test]
fn a_counter_that_is_off_by_one_is_found() {
    finds("count", "sum", "which is no sum of what was added");
}

#[test]
fn an_opening_that_panics_is_found() {
    let place = Place::new();
    let said = crash_test(
        &place,
        &["--kills", "100", "--jobs", "1", "--sabotage", "panic"],
    );
    assert_eq!(said.code, Some(1), "{}", said.err);
    for words in [
        "a promise was broken (child)",
        "exit status: 4",
        "as was asked for",
    ] {
        assert!(said.err.contains(words), "no `{words}` in: {}", said.err);
    }
}

#[test]
fn a_child_that_somebody_else_killed_while_it_opened_is_found() {
    let place = Place::new();
    let said = crash_test(
        &place,
        &["--kills", "100", "--jobs", "1", "--sabotage", "die"],
    );
    said.failed(
        1,
        &[
            "a promise was broken (child)",
            "somebody else killed the child",
        ],
    );
    // Not only by the last opening, which no plan kills.
    let (_, rest) = said.err.split_once("opening ").unwrap();
    let (opening, _) = rest.split_once(':').unwrap();
    assert!(opening.parse::<u32>().unwrap() < 8, "{}", said.err);
}

#[test]
fn a_broken_promise_is_told_and_kept_where_neither_ledger_nor_report_can_be_written() {
    let place = Place::new();
    std::fs::create_dir(place.path("here")).unwrap();
    let mut command = place.command(&losing("here", &["--ledger", "."]));
    let mut told = vec![
        "a promise was broken (lost)",
        "repeat with",
        "cannot append to .",
    ];
    if let Ok(full) = std::fs::File::options().write(true).open("/dev/full") {
        command.stdout(full);
        told.push("cannot write to standard output");
    }
    let said = Said::of(command.output().unwrap());
    said.failed(1, &told);
    let kept = std::fs::read_dir(place.path("here")).unwrap();
    assert_eq!(kept.count(), 1, "{}", said.err);
}

#[test]
#[cfg(unix)]
fn a_ledger_line_is_written_whatever_the_bytes_of_the_command_line() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let dir = OsStr::from_bytes(b"d\xff");
    std::fs::create_dir(place.path("").join(dir)).unwrap();
    let mut arguments: Vec<&OsStr> = ["crash-test", "--seed", "1", "--kills", "2", "--jobs", "1"]
        .map(OsStr::new)
        .to_vec();
    arguments.extend(["--ledger", "ledger.tsv", "--dir"].map(OsStr::new));
    arguments.push(dir);
    let said = place.run(&arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let ledger = String::from_utf8(place.read("ledger.tsv")).unwrap();
    assert!(ledger.contains("--dir d\u{fffd}"), "{ledger}");
}

#[test]
fn what_fails_is_kept_on_demand_as_it_was_left_and_as_it_was_opened() {
    let place = Place::new();
    let here = place.path("");
    let said = place.run(&losing(here.to_str().unwrap(), &["--json"]));
    assert_eq!(said.code, Some(1), "{}", said.err);
    let line = said.err.lines().last().unwrap();
    let error: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(error["error"]["kind"], "lost");
    let dir = std::path::PathBuf::from(error["error"]["dir"].as_str().unwrap());
    for kept in ["db", "db-before"] {
        assert!(dir.join(kept).join("journal").is_dir(), "{kept} of {dir:?}");
    }
}

#[test]
fn without_a_rig_power_cuts_are_skipped_loudly_and_with_one_they_lose_what_was_only_buffered() {
    let place = Place::new();
    let here = place.path("");
    let arguments = |more: &[&'static str]| {
        let mut all = vec!["crash-test", "--power-cut", "--seed", "1", "--kills", "8"];
        match std::path::Path::new("/dev/shm").is_dir() {
            true => all.push("--memory-backed"),
            false => all.extend(["--dir", here.to_str().unwrap()]),
        }
        all.extend(more);
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let said = place.run(&arguments(&[]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    if said.err.contains("SKIPPED") {
        eprintln!("{}", said.err);
        return;
    }
    assert!(said.text().contains("power cuts   8"), "{}", said.text());
    // The control: were everything promised that was acknowledged, cuts would break it.
    place
        .run(&arguments(&["--sabotage", "promise-all"]))
        .failed(1, &["a promise was broken (lost)"]);
}
