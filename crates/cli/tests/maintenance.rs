//! keyspaces, stats, compact and inspect, by running the binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::{Place, Said, files};

#[test]
fn keyspaces_are_created_listed_and_dropped() {
    let place = Place::new();
    place.ok(&[
        "keyspaces",
        "create",
        "words",
        "--compression",
        "zstd",
        "--bloom-bits",
        "8",
    ]);
    place
        .run(&["keyspaces", "create", "words"])
        .failed(1, &["cannot create keyspace `words`", "keyspaces change"]);
    for arguments in [&["drop", "nope", "--yes"][..], &["change", "nope"]] {
        let said = place.run(&[&["keyspaces"], arguments].concat());
        let attempt = format!("cannot {} keyspace `nope`", arguments[0]);
        said.failed(1, &[&attempt, "keyspaces list"]);
    }
    place.ok(&["put", "a", "1", "-k", "words"]);
    place.run(&["get", "a"]).failed(1, &["keyspace `default`"]);
    let listed = place.ok(&["keyspaces", "list"]).text().to_owned();
    assert!(
        listed.contains("default") && listed.contains("words"),
        "{listed}"
    );
    place
        .run(&["keyspaces", "drop", "words"])
        .failed(2, &["--yes"]);
    place.ok(&["keyspaces", "drop", "words", "--yes"]);
    place
        .run(&["get", "a", "-k", "words"])
        .failed(1, &["velella: cannot", "words"]);
    let listed = place.ok(&["keyspaces", "list", "--json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

#[test]
fn what_is_refused_creates_no_database() {
    let place = Place::new();
    place.write("x.tsv", "a\t1\n");
    let long = "x".repeat(256);
    for (arguments, word) in [
        (&["keyspaces", "create", ""][..], "0 bytes"),
        (&["keyspaces", "create", &long], "256 bytes"),
        (
            &["keyspaces", "create", "x", "--bloom-bits", "99"],
            "at most 32",
        ),
        (&["put", "-k", "", "a", "b"], "0 bytes"),
        (&["put", "-k", "a\nb", "a", "b"], "control characters"),
        (&["import", "x.tsv", "-k", ""], "0 bytes"),
    ] {
        let said = place.run(arguments);
        said.failed(1, &["velella: cannot create keyspace", word]);
        assert!(!place.data().exists(), "{arguments:?}");
    }
}

#[test]
fn settings_of_a_keyspace_are_stored_shown_and_changed() {
    let place = Place::new();
    place.ok(&["keyspaces", "create", "words", "--bloom-bits", "8"]);
    let change = ["keyspaces", "change", "words", "--memtable", "append-only"];
    let told = place.ok(&change).text().to_owned();
    assert!(told.contains("append-only"), "{told}");
    place
        .run(&["keyspaces", "change", "words", "--bloom-bits", "33"])
        .failed(1, &["bloom_bits", "at most 32"]);
    let listed = place.ok(&["keyspaces", "list", "--json"]).json();
    assert_eq!(listed[1]["bloom_bits"], 8);
    assert_eq!(listed[1]["memtable"], "append-only");
    assert_eq!(listed[0]["memtable"], "s3");
    let shown = place.ok(&["inspect", "velella-data"]).text().to_owned();
    assert!(
        shown.contains("memtable=append-only bloom_bits=8"),
        "{shown}"
    );
}

#[test]
fn statistics_tell_levels_memory_and_journal() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    place.ok(&["compact"]);
    let text = place.ok(&["stats"]).text().to_owned();
    for section in ["keyspaces\n", "levels\n", "memory\n", "journal\n", "budget"] {
        assert!(text.contains(section), "no `{section}` in: {text}");
    }
    let stats = place.ok(&["stats", "--json"]).json();
    assert_eq!(stats["keyspaces"][0]["name"], "default");
    assert!(stats["memory"]["budget"].as_u64() > Some(0));
}

#[test]
fn a_compaction_leaves_one_version_of_each_key() {
    let place = Place::new();
    place.write("x.tsv", "a\t1\nb\t2\n");
    place.ok(&["import", "x.tsv"]);
    place.ok(&["import", "x.tsv"]);
    place.ok(&["delete", "b"]);
    let done = place.ok(&["compact", "--json"]).json();
    assert_eq!(done["after"]["entries"], 1, "{done}");
    assert_eq!(place.ok(&["scan", "--format", "tsv"]).text(), "a\t1\n");
    assert!(
        place
            .ok(&["compact"])
            .text()
            .starts_with("before  1 entry in 1 table")
    );
}

#[test]
fn a_compaction_of_one_keyspace_tells_of_it_alone() {
    let place = Place::new();
    place.write("x.tsv", "a\t1\nb\t2\nc\t3\n");
    place.ok(&["import", "x.tsv"]);
    place.ok(&["put", "a", "1", "-k", "words"]);
    for (keyspace, entries) in [(Some("words"), 1), (Some("default"), 3), (None, 4)] {
        let of = keyspace.map_or(vec![], |name| vec!["-k", name]);
        let done = place.ok(&[&["compact", "--json"], &of[..]].concat()).json();
        for size in ["before", "after"] {
            assert_eq!(done[size]["entries"], entries, "{keyspace:?}: {done}");
        }
    }
}

#[test]
fn a_listing_that_nobody_reads_to_its_end_is_no_failure() {
    let place = Place::new();
    let lines: String = (0..10_000).map(|n| format!("key{n}\tvalue\n")).collect();
    place.write("x.tsv", lines);
    place.ok(&["import", "x.tsv"]);
    place.ok(&["compact"]);
    let table = files(&place.data(), "sst").pop().unwrap();
    for arguments in [
        &["inspect", table.to_str().unwrap(), "--entries"][..],
        &["inspect", "velella-data"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = place.command(arguments).stdout(writer).output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.is_empty(), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn files_and_directories_are_listed_for_people() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    place.ok(&["compact"]);
    let listed = place.ok(&["inspect", "velella-data"]).text().to_owned();
    assert!(listed.contains("default"), "{listed}");
    let listed = place.ok(&["inspect", "velella-data", "--json"]).json();
    assert_eq!(listed["keyspaces"][0]["name"], "default");
    let table = files(&place.data(), "sst").pop().unwrap();
    let table = table.to_str().unwrap();
    assert!(!place.ok(&["inspect", table]).out.is_empty());
    let short = place.ok(&["inspect", table, "--json"]).json();
    let long = place.ok(&["inspect", table, "--json", "--entries"]).json();
    let lines = |listing: &serde_json::Value| listing["lines"].as_array().unwrap().len();
    assert!(lines(&long) > lines(&short), "{long}");
    place.write("foreign.txt", "hello");
    place
        .run(&["inspect", "foreign.txt"])
        .failed(1, &["velella: cannot", "foreign.txt"]);
    place
        .run(&["inspect", "nowhere"])
        .failed(1, &["velella: cannot", "nowhere"]);
}

#[test]
fn without_a_path_the_database_is_inspected_that_other_commands_open() {
    let place = Place::new();
    place.ok(&["put", "a", "1"]);
    place.ok(&["put", "b", "2", "--dir", "other"]);
    let of = |arguments: &[&str]| {
        let all = [&["inspect"], arguments].concat();
        place.ok(&all).text().to_owned()
    };
    assert_eq!(of(&[]), of(&["./velella-data"]));
    assert_eq!(of(&["--dir", "other"]), of(&["other"]));
    assert_ne!(of(&["-d", "other"]), of(&[]));
    let json = place.ok(&["inspect", "--json"]).json();
    assert_eq!(json["keyspaces"][0]["name"], "default");
    place
        .run(&["inspect", "velella-data", "--dir", "other"])
        .failed(2, &["--dir", "cannot be used with"]);
}

#[test]
fn what_can_be_read_of_a_damaged_file_is_listed_as_json_too() {
    let place = Place::new();
    let lines: String = (0..20_000).map(|n| format!("key{n}\tvalue\n")).collect();
    place.write("x.tsv", lines);
    place.ok(&["import", "x.tsv"]);
    place.ok(&["compact"]);
    let table = files(&place.data(), "sst").pop().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(&table, bytes).unwrap();
    let inspect = ["inspect", table.to_str().unwrap(), "--entries"];
    let text = place.run(&inspect);
    text.failed(1, &["velella: cannot"]);
    let said = place.run(&[&inspect[..], &["--json"]].concat());
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(
        (said.code, &error["error"]["kind"]),
        (Some(1), &"corruption".into())
    );
    let listed = said.json();
    let lines = listed["lines"].as_array().unwrap();
    assert_eq!(lines.len(), text.text().lines().count());
    assert!(lines.len() > 1000, "{}", lines.len());
    // Of what is no file of a database there is nothing.
    let said = place.run(&["inspect", "x.tsv", "--json"]);
    assert_eq!((said.code, said.text()), (Some(1), ""));
}

#[test]
fn a_damaged_directory_is_listed_and_fails_as_json_too() {
    let place = Place::new();
    place.ok(&["put", "key", "value"]);
    let current = place.data().join("CURRENT");
    let mut bytes = std::fs::read(&current).unwrap();
    bytes[0] ^= 0x10;
    std::fs::write(&current, bytes).unwrap();
    place
        .run(&["inspect", "velella-data"])
        .failed(1, &["velella: cannot", "CURRENT"]);
    let said = place.run(&["inspect", "velella-data", "--json"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(error["error"]["kind"], "corruption");
    let damage = said.json()["damage"].to_string();
    assert!(damage.contains("CURRENT"), "{damage}");
}

#[test]
fn a_key_that_inspect_prints_is_one_that_get_takes() {
    let place = Place::new();
    place.ok(&["put", "-e", "Fellini's \"8½\"\\x00\\t\\\\", "value"]);
    place.ok(&["compact"]);
    let table = files(&place.data(), "sst").pop().unwrap();
    let listed = place.ok(&["inspect", table.to_str().unwrap(), "--entries"]);
    let entry = listed.text().lines().last().unwrap();
    let key = entry.trim_start().strip_prefix('"').unwrap();
    let (key, _) = key.split_once("\" at ").unwrap();
    assert_eq!(place.ok(&["get", "-e", key]).text(), "value\n");
}

#[test]
fn a_file_is_inspected_from_within_its_directory_too() {
    let place = Place::new();
    place.ok(&["put", "k", "v"]);
    let inspect = |file: &str| {
        let mut command = place.command(&["inspect", file]);
        Said::of(command.current_dir(place.data()).output().unwrap())
    };
    for file in ["CURRENT", "./CURRENT"] {
        let said = inspect(file);
        assert_eq!(said.code, Some(0), "{file}: {}", said.err);
        assert!(said.text().contains("whole"), "{file}: {}", said.text());
    }
}
