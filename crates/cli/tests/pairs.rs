//! get, put, delete and scan, by running the binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::Place;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn fruit() -> Place {
    let place = Place::new();
    for (key, value) in [
        ("apple", "1"),
        ("banana", "2"),
        ("berry", "3"),
        ("cherry", "4"),
    ] {
        place.ok(&["put", key, value]);
    }
    place
}

fn keys(place: &Place, arguments: &[&str]) -> Vec<String> {
    let all = [&["scan", "--keys-only"], arguments].concat();
    place.ok(&all).text().lines().map(str::to_owned).collect()
}

#[test]
fn what_was_put_is_got_and_deleted() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    assert_eq!(place.ok(&["get", "a"]).text(), "1\n");
    place.ok(&["put", "a", "2"]);
    assert_eq!(place.ok(&["get", "a"]).text(), "2\n");
    let found = place.ok(&["get", "a", "--json"]).json();
    assert_eq!((&found["key"], &found["value"]), (&"a".into(), &"2".into()));
    place.ok(&["delete", "a"]);
    place
        .run(&["get", "a"])
        .failed(1, &["no key `a` in keyspace `default`"]);
    place.run(&["delete", "a"]).failed(1, &["no key `a`"]);
}

#[test]
fn bytes_of_any_kind_go_in_and_come_out() {
    let place = Place::new();
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(place.run_with(&["put", "bytes"], &all).code, Some(0));
    assert_eq!(place.ok(&["get", "bytes", "--raw"]).out, all);
    let escaped = place.ok(&["get", "bytes"]).text().to_owned();
    assert!(escaped.starts_with("\\x00\\x01"), "{escaped}");
    place.ok(&[
        "put",
        "-e",
        "copy\\x00\\xff",
        escaped.trim_end_matches('\n'),
    ]);
    assert_eq!(place.ok(&["get", "-e", "copy\\x00\\xff", "--raw"]).out, all);
    place.write("file", &all);
    let raw_key = OsStr::from_bytes(b"k\xff");
    place.ok(&[
        OsStr::new("put"),
        raw_key,
        OsStr::new("--file"),
        OsStr::new("file"),
    ]);
    assert_eq!(
        place
            .ok(&[OsStr::new("get"), raw_key, OsStr::new("--raw")])
            .out,
        all
    );
    let found = place.ok(&["get", "-e", "k\\xff", "--json"]).json();
    assert_eq!(found["key"]["base64"], "a/8=");
    place
        .run(&["get", "-e", "k\\q"])
        .failed(2, &["`\\q` at byte 2 is no escape"]);
}

/// Wherever `--json` stands: what conflicts is not seen by the parser across commands.
#[test]
fn bytes_alone_are_no_json() {
    let place = Place::new();
    place.ok(&["put", "key", "value"]);
    for arguments in [
        ["--json", "get", "--raw", "key"],
        ["get", "--raw", "key", "--json"],
        ["get", "--json", "key", "--raw"],
    ] {
        let said = place.run(&arguments);
        said.failed(2, &["--raw", "--json", "cannot be used with"]);
        assert_eq!(said.text(), "", "{arguments:?}");
    }
}

#[test]
fn the_empty_key_and_the_empty_value_are_legal() {
    let place = Place::new();
    place.ok(&["put", "", ""]);
    assert_eq!(place.ok(&["get", ""]).text(), "\n");
    assert_eq!(keys(&place, &[]), [""]);
}

#[test]
fn an_expired_key_is_absent() {
    let place = Place::new();
    place.ok(&["put", "later", "x", "--expires-in", "1h"]);
    place.ok(&["put", "gone", "x", "--expires-in", "1ms"]);
    assert!(place.ok(&["get", "later", "--json"]).json()["expires_at_ms"].is_u64());
    place.run(&["get", "gone"]).failed(1, &["no key `gone`"]);
    place
        .run(&["put", "k", "v", "--expires-in", "soon"])
        .failed(2, &["no time"]);
}

/// Keys expire by the database's clock, which does not go back with the machine's.
#[test]
fn a_key_lives_as_long_as_asked_where_the_clock_was_set_back() {
    let place = Place::with_the_clock_set_back();
    place.ok(&["put", "k", "v", "--expires-in", "10m"]);
    assert_eq!(place.ok(&["get", "k"]).text(), "v\n");
}

#[test]
fn a_scan_keeps_to_its_bounds_prefix_direction_and_limit() {
    let place = fruit();
    assert_eq!(keys(&place, &[]), ["apple", "banana", "berry", "cherry"]);
    assert_eq!(
        keys(&place, &["--from", "banana"]),
        ["banana", "berry", "cherry"]
    );
    assert_eq!(keys(&place, &["--after", "banana"]), ["berry", "cherry"]);
    assert_eq!(keys(&place, &["--to", "berry"]), ["apple", "banana"]);
    assert_eq!(
        keys(&place, &["--through", "berry"]),
        ["apple", "banana", "berry"]
    );
    assert_eq!(keys(&place, &["--prefix", "b"]), ["banana", "berry"]);
    assert_eq!(
        keys(&place, &["--prefix", "b", "--reverse"]),
        ["berry", "banana"]
    );
    assert_eq!(
        keys(&place, &["--prefix", "b", "--after", "banana"]),
        ["berry"]
    );
    assert_eq!(keys(&place, &["--reverse", "--limit", "1"]), ["cherry"]);
    assert_eq!(
        keys(&place, &["--reverse", "--from", "b", "--to", "c"]),
        ["berry", "banana"]
    );
    assert_eq!(keys(&place, &["--limit", "0"]), [""; 0]);
    assert_eq!(keys(&place, &["--from", "z"]), [""; 0]);
    place
        .run(&["scan", "--from", "a", "--after", "a"])
        .failed(2, &["cannot be used"]);
}

#[test]
fn every_format_of_a_scan_prints_its_pairs() {
    let place = fruit();
    let scan = |format| {
        place
            .ok(&["scan", "--limit", "2", "--format", format])
            .text()
            .to_owned()
    };
    assert_eq!(scan("text"), "apple   1\nbanana  2\n");
    assert_eq!(scan("tsv"), "apple\t1\nbanana\t2\n");
    assert_eq!(scan("csv"), "apple,1\nbanana,2\n");
    assert_eq!(scan("hex"), "6170706c65  31\n62616e616e61  32\n");
    let jsonl = "{\"key\":\"apple\",\"value\":\"1\"}\n{\"key\":\"banana\",\"value\":\"2\"}\n";
    assert_eq!(scan("jsonl"), jsonl);
    assert_eq!(place.ok(&["scan", "--limit", "2", "--json"]).text(), jsonl);
}

#[test]
fn what_scan_prints_is_a_key_that_get_takes() {
    let place = Place::new();
    for key in ["a", "a ", " ", "a\u{3000}", "'a'", "\"a\"", "\\", " a\t"] {
        place.ok(&["put", key, ""]);
        for flags in [&[][..], &["--keys-only"]] {
            let scan = place.ok(&[&["scan"], flags].concat());
            let printed = scan.text().trim_end();
            assert_eq!(scan.text(), format!("{printed}\n"), "{key:?}");
            assert_eq!(place.ok(&["get", "-e", printed]).text(), "\n", "{key:?}");
        }
        place.ok(&["delete", key]);
    }
    place.ok(&["put", "a ", "1"]);
    place.ok(&["put", "a", "2 "]);
    assert_eq!(place.ok(&["scan"]).text(), "a      2\\x20\na\\x20  1\n");
    assert_eq!(
        place.ok(&["scan", "--format", "tsv"]).text(),
        "a\t2 \na \t1\n"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let lines: String = (0..50_000).map(|n| format!("key{n:08}\n")).collect();
    place.write("keys.tsv", lines);
    place.ok(&["import", "keys.tsv"]);
    let mut scan = place.command(&["scan"]).spawn().unwrap();
    drop(scan.stdout.take());
    let output = scan.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn a_reader_that_has_gone_hides_no_failure() {
    let place = fruit();
    place.write("x.tsv", "a\t1\nb\\q\t2\nc\t3\n");
    for (arguments, code) in [
        (&["delete", "apple", "nothing"][..], 1),
        (&["delete", "banana"], 0),
        (&["import", "x.tsv"], 1),
        (&["import", "x.tsv", "--on-error", "skip"], 3),
        (&["import", "x.tsv", "--on-error", "skip", "--json"], 3),
        (&["get", "nothing"], 1),
        (&["scan"], 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = place.command(arguments).stdout(writer).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {ended:?}");
    }
    assert_eq!(keys(&place, &[]), ["a", "berry", "c", "cherry"]);
}

#[test]
fn a_key_that_makes_no_sense_deletes_none() {
    let place = fruit();
    place
        .run(&["delete", "-e", "apple", "ban\\qana"])
        .failed(2, &["`\\qan` at byte 4 is no escape"]);
    let long = "x".repeat(70_000);
    place
        .run(&["delete", "apple", &long])
        .failed(1, &["70000 bytes"]);
    assert_eq!(keys(&place, &[]), ["apple", "banana", "berry", "cherry"]);
}

#[test]
fn reading_creates_nothing() {
    let place = Place::new();
    for arguments in [
        &["get", "a"][..],
        &["scan"],
        &["delete", "a"],
        &["stats"],
        &["verify"],
        &["compact"],
        &["export", "x.tsv"],
        &["keyspaces", "list"],
    ] {
        place
            .run(arguments)
            .failed(1, &["velella: cannot", "velella-data"]);
        assert!(!place.data().exists(), "{arguments:?}");
    }
    assert!(!place.path("x.tsv").exists());
}

#[test]
fn keys_alone_are_printed_in_each_format_as_keys_of_pairs_are() {
    let place = Place::new();
    for key in ["", "a,b", "say \"hi\"", "plain"] {
        place.ok(&["put", key, "value"]);
    }
    place.ok(&["put", "-e", "two\\nlines", "value"]);
    for (format, expected) in [
        ("text", "\na,b\nplain\nsay \"hi\"\ntwo\\nlines\n"),
        ("tsv", "\na,b\nplain\nsay \"hi\"\ntwo\\nlines\n"),
        (
            "csv",
            "\"\"\n\"a,b\"\nplain\n\"say \"\"hi\"\"\"\n\"two\nlines\"\n",
        ),
        (
            "jsonl",
            "{\"key\":\"\"}\n{\"key\":\"a,b\"}\n{\"key\":\"plain\"}\n\
             {\"key\":\"say \\\"hi\\\"\"}\n{\"key\":\"two\\nlines\"}\n",
        ),
        (
            "hex",
            "\n612c62\n706c61696e\n7361792022686922\n74776f0a6c696e6573\n",
        ),
    ] {
        let said = place.ok(&["scan", "--keys-only", "--format", format]);
        assert_eq!(said.text(), expected, "{format}");
    }
    let keys = place.ok(&["scan", "--keys-only", "--format", "csv"]);
    place.write("keys.csv", &keys.out);
    place.ok(&["import", "keys.csv", "-k", "keys"]);
    let of = |keyspace| place.ok(&["scan", "--keys-only", "-k", keyspace]).out;
    assert_eq!(of("keys"), of("default"));
    place.ok(&["put", "-e", "\\xff", ""]);
    for flags in [&[][..], &["--keys-only"]] {
        let said = place.run(&[&["scan", "--format", "csv"], flags].concat());
        let advice = "use --format tsv, jsonl or hex";
        said.failed(1, &["\\xff", "csv carries text", advice]);
        assert!(!said.err.contains("--bytes"), "{}", said.err);
    }
}

#[test]
fn a_value_that_is_too_long_creates_no_database() {
    let place = Place::new();
    let file = std::fs::File::create(place.path("long")).unwrap();
    file.set_len((512 << 20) + 1).unwrap();
    place
        .run(&["put", "key", "--file", "long"])
        .failed(1, &["536870913 bytes"]);
    assert!(!place.data().exists());
}
