//! What goes wrong around a database, by running the binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::{Place, Server, files};
use std::path::PathBuf;

fn words() -> Place {
    let place = Place::new();
    let lines: String = (0..20_000)
        .map(|n| format!("key{n:06}\tvalue {n}\n"))
        .collect();
    place.write("x.tsv", lines);
    place.ok(&["import", "x.tsv"]);
    place.ok(&["compact"]);
    place
}

#[test]
fn a_database_without_damage_is_verified() {
    let place = words();
    let said = place.ok(&["verify"]);
    assert!(
        said.text().starts_with("no damage: 20,000 entries"),
        "{}",
        said.text()
    );
    let report = place.ok(&["verify", "--json"]).json();
    assert_eq!(
        (&report["ok"], &report["entries"]),
        (&true.into(), &20_000.into())
    );
}

/// The table of `place`, with a bit in its middle flipped.
fn flipped(place: &Place) -> PathBuf {
    let table = files(&place.data(), "sst").pop().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(&table, bytes).unwrap();
    table
}

#[test]
fn a_flipped_byte_is_found_and_named_with_file_and_offset() {
    let place = words();
    let table = flipped(&place);
    let name = table.file_name().unwrap().to_str().unwrap();
    place
        .run(&["verify"])
        .failed(1, &["velella: cannot", name, "at offset"]);
    let said = place.run(&["verify", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(error["error"]["kind"], "corruption");
    assert!(error["error"]["offset"].is_u64(), "{error}");
}

#[test]
fn what_was_deleted_before_a_fault_is_told() {
    let place = words();
    flipped(&place);
    // Some key stands in the damaged block.
    let ends = ["key000000".to_owned(), "key000001".to_owned()];
    let all: Vec<String> = (8_000..12_000).map(|n| format!("key{n:06}")).collect();
    let delete = [&["delete".to_owned()][..], &ends, &all].concat();
    let said = place.run(&delete);
    said.failed(1, &["velella: cannot"]);
    let told = said.text().strip_prefix("deleted ").unwrap();
    let told: usize = told
        .split(' ')
        .next()
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap();
    assert!(told > 2, "{told}");
    let next = &all[told - 2];
    place.run(&["get", &all[told - 3]]).failed(1, &["no key"]);
    place.run(&["get", next]).failed(1, &["velella: cannot"]);
}

#[test]
fn a_truncated_table_is_an_error_not_a_panic() {
    let place = words();
    let table = files(&place.data(), "sst").pop().unwrap();
    let bytes = std::fs::read(&table).unwrap();
    for len in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&table, &bytes[..len]).unwrap();
        place.run(&["verify"]).failed(1, &["velella: cannot"]);
        place.run(&["scan"]).failed(1, &["velella: cannot"]);
    }
}

/// A terminal obeys control characters; what others wrote must not reach it as it is.
#[test]
fn what_others_wrote_is_told_without_control_characters() {
    let place = Place::new();
    place.ok(&["put", "key", "value"]);
    place.write("velella-data/a\u{1b}[31m\u{85}.txt", "");
    place.write("x.tsv", "k\\\u{1b}[\u{1}\tv\n");
    let name = "\\u001b[31m\\u0085".to_owned() + &"long".repeat(10_000);
    place.write("x.jsonl", format!("{{\"{name}\": 1}}\n"));
    let typed = "\\\u{1b}[1";
    for (arguments, code, words) in [
        (&["verify"][..], 0, "not a file of this database: a"),
        (&["import", "x.tsv"], 1, "is no escape"),
        (&["import", "x.jsonl"], 1, "unknown field"),
        (&["get", "-e", typed], 2, "is no escape"),
    ] {
        let said = place.run(arguments);
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        let all = said.text().to_owned() + &said.err;
        assert!(all.contains(words), "{arguments:?}: {all}");
        let obeyed: Vec<char> = all
            .chars()
            .filter(|c| c.is_control() && *c != '\n')
            .collect();
        assert_eq!(obeyed, [], "{arguments:?}: {all:?}");
        assert!(all.len() < 1_000, "{arguments:?}: {} bytes", all.len());
    }
}

#[test]
fn a_second_process_is_refused() {
    let place = Place::new();
    let server = Server::start(&place);
    let told = ["velella: cannot", "velella-data", "stop that process first"];
    for arguments in [
        &["get", "a"][..],
        &["put", "a", "1"],
        &["serve", "--port", "0"],
    ] {
        place.run(arguments).failed(1, &told);
    }
    drop(server);
}

#[test]
fn a_directory_that_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.data()).unwrap();
    std::fs::write(place.data().join("thesis.txt"), "mine").unwrap();
    place
        .run(&["get", "a"])
        .failed(1, &["velella: cannot", "velella-data"]);
    let names: Vec<_> = std::fs::read_dir(place.data()).unwrap().collect();
    assert_eq!(names.len(), 1);
    place.write("file", "");
    place
        .run(&["put", "a", "1", "--dir", "file"])
        .failed(1, &["velella: cannot", "file"]);
}

#[test]
fn keys_and_values_over_their_limits_are_refused() {
    let place = Place::new();
    let long = "k".repeat(65_537);
    place
        .run(&["put", &long, "v"])
        .failed(1, &["65537 bytes", "65536"]);
    place.ok(&["put", &long[1..], "v"]);
    assert_eq!(place.ok(&["get", &long[1..]]).text(), "v\n");
}

#[test]
fn a_value_over_a_mebibyte_goes_in_and_comes_out() {
    let place = Place::new();
    let value: Vec<u8> = (0..3 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    place.write("big", &value);
    place.ok(&["put", "big", "--file", "big"]);
    assert_eq!(place.ok(&["get", "big", "--raw"]).out, value);
    place.ok(&["export", "x.raw"]);
    place.ok(&["import", "x.raw", "-k", "copy"]);
    assert_eq!(place.ok(&["get", "big", "-k", "copy", "--raw"]).out, value);
    place.ok(&["verify"]);
}

#[test]
fn a_scan_shows_what_comes_before_what_cannot_be_read() {
    let place = Place::new();
    place.write("big", vec![7; 3 << 20]);
    place.ok(&["put", "a", "1"]);
    place.ok(&["put", "b", "--file", "big"]);
    place.ok(&["put", "c", "3"]);
    std::fs::remove_file(&files(&place.data(), "ext")[0]).unwrap();
    let said = place.run(&["scan"]);
    said.failed(1, &["velella: cannot"]);
    assert_eq!(said.text(), "a  1\n");
}

#[test]
fn what_is_refused_for_its_arguments_or_its_file_leaves_no_database() {
    let place = Place::new();
    place.write("notes.txt", "no pairs at all");
    for refused in [
        ["scan", "-e", "--from", "\\q"],
        ["export", "-e", "--from=\\q", "x.tsv"],
    ] {
        place.run(&refused).failed(2, &["is no escape"]);
    }
    place
        .run(&["import", "notes.txt", "--format", "raw"])
        .failed(1, &["no raw file", "--format"]);
    let nothing = place.run_with(&["import", "-", "--format", "raw"], b"");
    nothing.failed(1, &["no raw file"]);
    assert!(!place.data().exists());
    // Nor does what is there change.
    place.ok(&["put", "a", "1"]);
    let current = || std::fs::read(place.data().join("CURRENT")).unwrap();
    let before = current();
    place.run(&["scan", "-e", "--from", "\\q"]).failed(2, &[]);
    assert_eq!(current(), before);
}

#[test]
fn a_key_whose_large_value_is_lost_can_be_deleted() {
    let place = Place::new();
    place.write("big", vec![7; 3 << 20]);
    for key in ["lost", "damaged", "whole"] {
        place.ok(&["put", key, "--file", "big"]);
    }
    let values = files(&place.data(), "ext");
    assert_eq!(values.len(), 3);
    std::fs::remove_file(&values[0]).unwrap();
    std::fs::write(&values[1], "of something else").unwrap();
    place.run(&["get", "lost"]).failed(1, &["velella: cannot"]);
    place
        .run(&["get", "damaged"])
        .failed(1, &["velella: cannot"]);
    let said = place.run(&["delete", "lost", "nothing", "damaged", "whole"]);
    said.failed(1, &["no key `nothing`"]);
    assert_eq!(said.text(), "deleted 3 keys\n");
    assert_eq!(place.ok(&["scan"]).text(), "");
    place.ok(&["compact"]);
    place.ok(&["verify"]);
}
