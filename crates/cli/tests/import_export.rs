//! import and export, by running the binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::{Place, Said, wall_ms};
use std::process::{Child, Command};
use std::time::Duration;

/// A place with text, with bytes, and with an expiring pair.
fn mixed(with_bytes: bool) -> Place {
    let place = Place::new();
    place.ok(&["put", "plain", "value"]);
    place.ok(&[
        "put",
        "-e",
        "tab\\there",
        "line\\nfeed, \"quoted\" \\\\ back",
    ]);
    place.ok(&["put", "", "of the empty key"]);
    place.ok(&["put", "ключ", ""]);
    if with_bytes {
        place.ok(&["put", "-e", "\\xff\\x00", "\\xfe\\r\\n\\x00"]);
    }
    place
}

fn hex(place: &Place, keyspace: &str) -> String {
    place
        .ok(&["scan", "-k", keyspace, "--format", "hex"])
        .text()
        .to_owned()
}

#[test]
fn every_format_goes_out_and_comes_back() {
    for (file, with_bytes, flags) in [
        ("x.tsv", true, &[][..]),
        ("x.csv", false, &[]),
        ("x.csv", true, &["--bytes"]),
        ("x.csv", false, &["--header", "--delimiter", ";"]),
        ("x.jsonl", true, &[]),
        ("x.raw", true, &[]),
    ] {
        let place = mixed(with_bytes);
        let pairs = if with_bytes { 5 } else { 4 };
        let summary = place
            .ok(&[&["export", file, "--json"], flags].concat())
            .json();
        assert_eq!(summary["pairs"], pairs, "{file}");
        assert_eq!(summary["bytes"], place.read(file).len(), "{file}");
        let summary = place
            .ok(&[&["import", file, "-k", "copy", "--json"], flags].concat())
            .json();
        assert_eq!(
            (&summary["pairs"], &summary["skipped"]),
            (&pairs.into(), &0.into()),
            "{file}"
        );
        assert_eq!(hex(&place, "copy"), hex(&place, "default"), "{file}");
    }
}

#[test]
fn expiry_times_survive_in_jsonl_and_raw_and_are_missed_in_tsv() {
    let place = Place::new();
    place.ok(&["put", "later", "x", "--expires-in", "1h"]);
    let expiry = |keyspace| {
        place.ok(&["get", "later", "-k", keyspace, "--json"]).json()["expires_at_ms"].clone()
    };
    for file in ["x.jsonl", "x.raw"] {
        place.ok(&["export", file]);
        place.ok(&["import", file, "-k", file]);
        assert_eq!(expiry(file), expiry("default"));
    }
    let said = place.ok(&["export", "x.tsv"]);
    assert!(
        said.err.contains("1 pair had an expiry time"),
        "{}",
        said.err
    );
}

#[test]
fn a_pair_that_the_databases_clock_has_passed_is_counted_as_expired() {
    let place = Place::with_the_clock_set_back();
    let soon = wall_ms() + 60_000;
    let line = format!("{{\"key\":\"k\",\"value\":\"v\",\"expires_at_ms\":{soon}}}\n");
    place.write("x.jsonl", line);
    let summary = place.ok(&["import", "x.jsonl", "--json"]).json();
    assert_eq!(summary["expired"], 1);
    place.run(&["get", "k"]).failed(1, &["no key `k`"]);
}

#[test]
fn a_stream_has_its_summary_beside_it_where_json_was_asked_for() {
    let place = Place::new();
    place.ok(&["put", "later", "x", "--expires-in", "1h"]);
    let said = place.ok(&["export", "-", "--json"]);
    assert_eq!(said.text(), "later\tx\n");
    let summary: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(
        (&summary["pairs"], &summary["expiries_lost"]),
        (&1.into(), &1.into())
    );
    // Nothing comes between the pairs.
    let said = place.ok(&["export", "/dev/stderr", "--json"]);
    assert_eq!((said.text(), said.err.as_str()), ("", "later\tx\n"));
}

#[test]
fn standard_input_and_output_are_files_too() {
    let place = Place::new();
    let said = place.run_with(&["import", "-", "--format", "csv"], b"b,2\na,1\n");
    assert!(
        said.text().starts_with("imported 2 pairs"),
        "{}",
        said.text()
    );
    assert_eq!(place.ok(&["export", "-"]).text(), "a\t1\nb\t2\n");
    assert_eq!(
        place
            .ok(&["export", "-", "--reverse", "--limit", "1"])
            .text(),
        "b\t2\n"
    );
}

#[test]
fn columns_are_chosen_by_number() {
    let place = Place::new();
    place.write(
        "people.csv",
        "name,id,town\nAda,1,\"London, UK\"\nBob,2,Rome\n",
    );
    let choose = ["import", "people.csv", "--header", "--key-column", "2"];
    place.ok(&choose);
    assert_eq!(place.ok(&["get", "1"]).text(), "Ada,\"London, UK\"\n");
    place.ok(&[&choose[..], &["--value-column", "3"]].concat());
    assert_eq!(place.ok(&["get", "1"]).text(), "London, UK\n");
    place
        .run(&["import", "people.csv", "--key-column", "0"])
        .failed(2, &["counted from 1"]);
    for column in ["two", "-2", "99999999999999999999"] {
        let column = format!("--value-column={column}");
        place
            .run(&["import", "people.csv", &column])
            .failed(2, &["a column is a number, counted from 1"]);
    }
    for same in [
        &["--value-column", "1"][..],
        &["--key-column", "2", "--value-column", "2"],
    ] {
        let said = place.run(&[&["import", "people.csv", "-k", "new"], same].concat());
        said.failed(2, &["is the key's", "--value-column"]);
    }
    place.run(&["scan", "-k", "new"]).failed(1, &["new"]);
}

#[test]
fn of_two_pairs_with_one_key_the_later_stays() {
    let place = Place::new();
    let lines: String = (0..3000).map(|n| format!("k{}\t{n}\n", n % 7)).collect();
    place.write("x.tsv", lines);
    place.ok(&["import", "x.tsv"]);
    assert_eq!(place.ok(&["get", "k0"]).text(), "2996\n");
    assert_eq!(place.ok(&["scan", "--keys-only"]).text().lines().count(), 7);
}

#[test]
fn a_malformed_line_stops_the_import_and_what_came_before_it_stays() {
    let place = Place::new();
    place.write("x.tsv", b"a\t1\nb\xff\t2\nc\t3\n");
    let said = place.run(&["import", "x.tsv"]);
    said.failed(
        1,
        &["cannot import line 2 of x.tsv: invalid UTF-8 (byte 0xff) at byte 2"],
    );
    assert!(said.text().contains("imported 1 pair"), "{}", said.text());
    assert_eq!(place.ok(&["scan", "--keys-only"]).text(), "a\n");
}

#[test]
fn malformed_lines_are_left_out_when_asked_to_and_counted() {
    let place = Place::new();
    let long = "x".repeat(70_000);
    place.write(
        "x.jsonl",
        format!(
            "{{\"key\":\"a\",\"value\":\"1\"}}\nnonsense\n{{\"key\":\"{long}\",\"value\":\"\"}}\n\
         {{\"key\":\"b\",\"value\":\"2\"}}\n{{\"key\":\"half"
        ),
    );
    let import = ["import", "x.jsonl", "--on-error", "skip"];
    let said = place.run(&import);
    said.failed(
        3,
        &[
            "line 2 of",
            "line 3 of",
            "70000 bytes",
            "line 5 of",
            "ends in the middle",
        ],
    );
    assert!(
        said.text().contains("left out 3 malformed lines"),
        "{}",
        said.text()
    );
    assert_eq!(
        place.ok(&["scan", "--format", "tsv"]).text(),
        "a\t1\nb\t2\n"
    );
    let said = place.run(&[&import[..], &["--json"]].concat());
    let summary = said.json();
    assert_eq!(
        (&summary["pairs"], &summary["skipped"]),
        (&2.into(), &3.into())
    );
    assert_eq!(summary["malformed"][0]["number"], 2);
    assert_eq!(said.code, Some(3));
}

#[test]
fn a_malformed_record_of_several_lines_is_left_out_as_one() {
    let place = Place::new();
    place.ok(&["put", "b", "kept"]);
    place.write("x.csv", b"a,\"one\xff\nb,two\nthree\"\nc,4\n");
    let said = place.run(&["import", "x.csv", "--on-error", "skip"]);
    said.failed(3, &["line 1 of x.csv", "the record ends on line 3"]);
    let pairs = place.ok(&["scan", "--format", "tsv"]);
    assert_eq!(pairs.text(), "b\tkept\nc\t4\n");
}

#[test]
fn an_expiry_of_zero_is_malformed_and_one_in_the_past_makes_its_key_absent() {
    let place = Place::new();
    place.ok(&["put", "c", "old"]);
    let line = |key: &str, expiry: &str| format!("{{\"key\":\"{key}\",\"value\":\"1\"{expiry}}}\n");
    place.write(
        "x.jsonl",
        [
            line("a", ""),
            line("b", ",\"expires_at_ms\":0"),
            line("c", ",\"expires_at_ms\":1"),
            line("d", ",\"expires_at_ms\":9999999999999"),
        ]
        .concat(),
    );
    let said = place.run(&["import", "x.jsonl"]);
    said.failed(1, &["cannot import line 2 of x.jsonl", "expiry is 0"]);
    assert!(said.text().contains("imported 1 pair"), "{}", said.text());
    assert_eq!(place.ok(&["scan", "--keys-only"]).text(), "a\nc\n");
    let said = place.run(&["import", "x.jsonl", "--on-error", "skip"]);
    said.failed(3, &["line 2 of x.jsonl", "note: 1 pair had expired"]);
    assert!(said.text().contains("imported 3 pairs"), "{}", said.text());
    assert_eq!(place.ok(&["scan", "--keys-only"]).text(), "a\nd\n");
    let skip = ["import", "x.jsonl", "--on-error", "skip", "--json"];
    let summary = place.run(&skip).json();
    assert_eq!(
        (&summary["pairs"], &summary["expired"], &summary["skipped"]),
        (&3.into(), &1.into(), &1.into())
    );
}

#[test]
fn half_a_last_line_is_taken_and_pointed_out() {
    let place = Place::new();
    place.write("x.tsv", "a\t1\nb\t2");
    let said = place.ok(&["import", "x.tsv"]);
    assert!(
        said.err
            .contains("the last line does not end in a line feed"),
        "{}",
        said.err
    );
    assert!(said.text().contains("imported 2 pairs"));
}

#[test]
fn a_raw_file_that_was_cut_off_is_noticed() {
    let place = mixed(true);
    place.ok(&["export", "x.raw"]);
    let bytes = place.read("x.raw");
    place.write("cut.raw", &bytes[..bytes.len() - 12]);
    let said = place.run(&["import", "cut.raw", "-k", "copy", "--on-error", "skip"]);
    said.failed(1, &["cannot import pair 6 of cut.raw: the file is cut off"]);
}

#[test]
fn files_that_are_no_sources_or_destinations_are_refused() {
    let place = mixed(true);
    place
        .run(&["import", "nowhere.tsv"])
        .failed(1, &["cannot import nowhere.tsv", "No such file"]);
    place
        .run(&["import", "."])
        .failed(1, &["it is a directory"]);
    place
        .run(&["export", "no/where.tsv"])
        .failed(1, &["cannot export to no/where.tsv"]);
    place.write("there.tsv", "x");
    place
        .run(&["export", "there.tsv"])
        .failed(1, &["the file exists", "--force"]);
    place.ok(&["export", "there.tsv", "--force"]);
    let said = place.run(&["export", "x.csv"]);
    said.failed(
        1,
        &[
            "\\xff\\x00",
            "invalid UTF-8",
            "tsv, jsonl or raw, or --bytes",
        ],
    );
    assert!(!place.path("x.csv").exists() && !place.path("x.csv.partial").exists());
}

#[test]
fn a_partial_file_of_others_is_left_alone_and_in_nobodys_way() {
    let place = mixed(true);
    place.write("x.tsv.partial", "of another export");
    for flags in [&[][..], &["--force"]] {
        place.ok(&[&["export", "x.tsv"], flags].concat());
        assert_eq!(place.read("x.tsv.partial"), b"of another export");
        assert!(!place.path("x.tsv.2.partial").exists());
        assert_eq!(
            place.read("x.tsv").iter().filter(|&&b| b == b'\n').count(),
            5
        );
    }
    std::fs::remove_file(place.path("x.tsv.partial")).unwrap();
    place.ok(&["export", "y.tsv"]);
    assert!(!place.path("y.tsv.partial").exists());
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_what_it_leads_to_is_the_file() {
    let place = mixed(true);
    std::fs::create_dir(place.path("far")).unwrap();
    std::os::unix::fs::symlink("near.tsv", place.path("x.tsv")).unwrap();
    std::os::unix::fs::symlink("far/y.tsv", place.path("near.tsv")).unwrap();
    place.ok(&["export", "x.tsv"]);
    let whole = place.read("far/y.tsv");
    place.write("far/y.tsv", "old");
    place
        .run(&["export", "x.tsv"])
        .failed(1, &["far/y.tsv", "the file exists", "--force"]);
    place.ok(&["export", "x.tsv", "--force"]);
    assert_eq!(place.read("far/y.tsv"), whole);
    assert!(place.path("x.tsv").is_symlink() && place.path("near.tsv").is_symlink());
    std::os::unix::fs::symlink("loop.tsv", place.path("loop.tsv")).unwrap();
    for flags in [&[][..], &["--force"]] {
        let said = place.run(&[&["export", "loop.tsv"], flags].concat());
        said.failed(1, &["cannot export to loop.tsv"]);
    }
    assert!(place.path("loop.tsv").is_symlink());
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_leaves_its_mode_and_owner() {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let place = mixed(true);
    let file = place.path("x.tsv");
    for mode in [0o600, 0o644, 0o660] {
        place.write("x.tsv", "old");
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        // Only a superuser can give it away.
        let _ = chown(&file, Some(7), Some(7));
        let before = file.metadata().unwrap();
        place.ok(&["export", "x.tsv", "--force"]);
        let after = file.metadata().unwrap();
        assert!(after.len() > 3);
        assert_eq!(after.mode() & 0o7777, mode, "{mode:o}");
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    }
}

/// A pipe stands for devices too: a wrong turn would replace those of the machine.
#[cfg(target_os = "linux")]
#[test]
fn what_is_no_file_is_written_to_and_stays() {
    use std::io::Read;
    use std::os::unix::fs::FileTypeExt;
    let place = mixed(true);
    let pipe = place.path("pipe.tsv");
    Command::new("mkfifo").arg(&pipe).status().unwrap();
    std::os::unix::fs::symlink("pipe.tsv", place.path("link.tsv")).unwrap();
    place.ok(&["export", "x.tsv"]);
    // Open for both, so that neither side waits for the other.
    let mut ends = std::fs::File::options();
    let mut ends = ends.read(true).write(true).open(&pipe).unwrap();
    for (file, flags) in [
        ("pipe.tsv", &[][..]),
        ("pipe.tsv", &["--force"]),
        ("link.tsv", &[]),
    ] {
        place.ok(&[&["export", file], flags].concat());
        let mut bytes = [0; 4096];
        let len = ends.read(&mut bytes).unwrap();
        assert_eq!(bytes[..len], place.read("x.tsv"), "no summary behind it");
        assert!(pipe.metadata().unwrap().file_type().is_fifo());
    }
    // Results go there, too: only the data may.
    let out = place.ok(&["export", "/dev/stdout"]).out;
    assert_eq!(out, place.read("x.tsv"));
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    let said = place.run(&["export", "socket"]);
    said.failed(1, &["cannot export to socket"]);
    assert!(!said.err.contains("--force"), "{}", said.err);
}

/// The shell opened it, and knows better than its name what it is for.
#[cfg(target_os = "linux")]
#[test]
fn what_a_descriptor_leads_to_is_added_to_and_stays() {
    use std::os::unix::fs::MetadataExt;
    let place = mixed(true);
    place.ok(&["export", "x.tsv"]);
    let whole = String::from_utf8(place.read("x.tsv")).unwrap();
    std::os::unix::fs::symlink("/dev/stdout", place.path("link")).unwrap();
    let shell = |line: &str| {
        let line = line.replace("velella", env!("CARGO_BIN_EXE_velella"));
        let mut shell = Command::new("sh");
        Said::of(
            shell
                .args(["-c", &line])
                .current_dir(place.path(""))
                .output()
                .unwrap(),
        )
    };
    for (name, redirected) in [
        ("/dev/stdout", ">>"),
        ("/dev/stderr", "2>>"),
        ("/dev/fd/1", ">>"),
        ("/dev/fd/3", "3>>"),
        ("/proc/self/fd/1", ">>"),
        ("/proc/thread-self/fd/1", ">>"),
        ("/proc/$$/fd/4", "4>>"),
        ("link", ">>"),
    ] {
        for force in ["", "--force"] {
            place.write("log", "before\n");
            let inode = place.path("log").metadata().unwrap().ino();
            let said = shell(&format!(
                "exec 4>>log; velella export {name} {force} {redirected} log; echo after >> log"
            ));
            assert_eq!(
                (said.code, said.err.as_str()),
                (Some(0), ""),
                "{name} {force}"
            );
            let log = String::from_utf8(place.read("log")).unwrap();
            assert_eq!(log, format!("before\n{whole}after\n"), "{name} {force}");
            assert_eq!(
                place.path("log").metadata().unwrap().ino(),
                inode,
                "{name} {force}"
            );
        }
    }
    // One place to write for both, as it is for all that a shell starts.
    let said = shell("{ velella export /dev/stdout; echo after; } > log");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(place.read("log"), format!("{whole}after\n").into_bytes());
    let said = place.run(&["export", "/dev/fd/99", "--force"]);
    said.failed(1, &["cannot export to /dev/fd/99"]);
}

/// Of those numbers the database takes some for its own files, as soon as it is open.
#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_that_nobody_opened_is_none_and_never_a_file_of_the_database() {
    let place = mixed(true);
    place.ok(&["export", "x.tsv"]);
    std::os::unix::fs::symlink("/dev/fd/5", place.path("link")).unwrap();
    // Those that whoever runs the tests left open are there for every child.
    let is_inherited = |number: u32| {
        let name = format!("/proc/self/fd/{number}");
        let mut test = Command::new("test");
        test.args(["-e", &name]).status().unwrap().success()
    };
    for number in (3..40).filter(|number| !is_inherited(*number)) {
        for dir in ["/dev/fd", "/proc/self/fd"] {
            let name = format!("{dir}/{number}");
            let said = place.run(&["export", &name]);
            said.failed(1, &["cannot export to", &name, "No such file"]);
        }
    }
    if !is_inherited(5) {
        place.run(&["export", "link"]).failed(1, &["No such file"]);
    }
    place.ok(&["verify"]);
    assert_eq!(place.ok(&["export", "-"]).out, place.read("x.tsv"));
}

/// The export is held up with a signal while the other's file appears.
#[test]
fn a_file_that_came_meanwhile_is_not_replaced() {
    let place = Place::new();
    let lines: String = (0..200_000).map(|key| format!("{key}\tvalue\n")).collect();
    place.write("many.tsv", lines);
    place.ok(&["import", "many.tsv"]);
    // Where it has ended before it was stopped, once more.
    let export = (0..100).find_map(|_| {
        let _ = std::fs::remove_file(place.path("x.tsv"));
        let mut export = place.command(&["export", "x.tsv"]).spawn().unwrap();
        while !place.path("x.tsv.partial").exists() && export.try_wait().unwrap().is_none() {}
        signal("-STOP", &export);
        std::thread::sleep(Duration::from_millis(1));
        if place.path("x.tsv.partial").exists() {
            return Some(export);
        }
        export.kill().unwrap();
        export.wait().unwrap();
        None
    });
    let export = export.expect("it always ends before it is stopped");
    place.write("x.tsv", "of another");
    signal("-CONT", &export);
    let said = Said::of(export.wait_with_output().unwrap());
    said.failed(1, &["x.tsv", "the file exists", "--force"]);
    assert_eq!(place.read("x.tsv"), b"of another");
    assert!(!place.path("x.tsv.partial").exists());
}

fn signal(name: &str, child: &Child) {
    let pid = child.id().to_string();
    Command::new("kill").args([name, &pid]).status().unwrap();
}

#[test]
fn so_many_partial_files_are_told() {
    let place = mixed(true);
    place.write("x.tsv.partial", "");
    for number in 2..=100 {
        place.write(&format!("x.tsv.{number}.partial"), "");
    }
    place
        .run(&["export", "x.tsv"])
        .failed(1, &["x.tsv.100.partial", "as do 99 before it", "delete"]);
    assert!(!place.path("x.tsv").exists());
}
