//! The manifest's formats: the bytes that are written, and what manifests of earlier builds say.
//!
//! `VELELLA_WRITE_GOLDEN` writes the files of `golden/` anew, where a format is a new one.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::*;
use std::path::Path;
use velella_base::Stamp;
use velella_sst::Compression;
use velella_tree::{Edit, KeyspaceSettings, Manifest, inspect};
use velella_vfs::{MemFs, Vfs};

const CURRENT: &[u8] = b"MANIFEST-000001 7ed3298a\n";

/// A directory with this manifest in force.
fn database_of(manifest: &[u8]) -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(db()).unwrap();
    fs.write_file(&db().join("MANIFEST-000001"), manifest)
        .unwrap();
    fs.write_file(&db().join("CURRENT"), CURRENT).unwrap();
    fs
}

/// These bytes are those of this file below `golden`, which is written anew where that is asked.
fn assert_golden(bytes: &[u8], file: &str, golden: &[u8]) {
    if std::env::var_os("VELELLA_WRITE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(file);
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(bytes, golden);
}

#[test]
fn the_bytes_of_format_version_1_are_these() {
    let (fs, _manifest) = sample();
    let bytes = fs.read_file(&db().join("MANIFEST-000001")).unwrap();
    assert_golden(&bytes, "MANIFEST-000001", GOLDEN);
    assert_eq!(fs.read_file(&db().join("CURRENT")).unwrap(), CURRENT);
}

#[test]
fn the_golden_manifest_says_what_it_said() {
    let fs = database_of(GOLDEN);
    let (database, state) = Manifest::read(&fs, db()).unwrap();
    assert_eq!(database, DATABASE);
    assert_eq!(state.keyspaces[0].flushed_below, Stamp(18));
    assert_eq!(
        state.tables().map(|table| table.file).collect::<Vec<_>>(),
        [5]
    );
    let listing = inspect::manifest(&fs, db()).unwrap();
    for line in [
        "manifest 000001 of database 00112233445566778899aabbccddeeff",
        "  add-tables keyspace=1 level=0 count=1",
        "    000004 1000 bytes, stamps 5..=17, keys \"apple\"..=\"pear\", 10 put, 2 delete, \
         1 external",
        "  remove-tables keyspace=1 [4]",
        "    level 0: 1 tables, 1000 bytes",
    ] {
        assert!(
            listing.lines().any(|other| other == line),
            "{line} is not in\n{listing}"
        );
    }
}

/// As `sample`, with settings of keyspaces: one set and changed, one with a newer build's.
fn sample_with_settings() -> (MemFs, Manifest) {
    let (fs, manifest) = sample();
    let mut settings = KeyspaceSettings {
        memtable: Some("append-only".into()),
        compression: Some(Compression::Zstd),
        bloom_bits: Some(14),
        unknown: Vec::new(),
    };
    let edit = |keyspace, settings: &KeyspaceSettings| Edit::KeyspaceSettings {
        keyspace,
        settings: settings.clone(),
    };
    manifest
        .commit(&[keyspace(2, "other"), edit(2, &settings)])
        .unwrap();
    settings.compression = Some(Compression::None);
    settings.unknown = vec![(300, vec![1, 2])];
    manifest.commit(&[edit(2, &settings)]).unwrap();
    (fs, manifest)
}

const SETTINGS: &[u8] = include_bytes!("golden/settings/MANIFEST-000001");

#[test]
fn the_bytes_of_settings_in_format_version_1_are_these() {
    let (fs, _manifest) = sample_with_settings();
    let bytes = fs.read_file(&db().join("MANIFEST-000001")).unwrap();
    assert_golden(&bytes, "settings/MANIFEST-000001", SETTINGS);
}

#[test]
fn the_golden_settings_say_what_they_said_and_survive_a_rewriting() {
    let fs = database_of(SETTINGS);
    let (_, state) = Manifest::open(arc(&fs), db()).unwrap();
    assert!(state.keyspaces[0].settings.is_empty());
    let listing = inspect::manifest(&fs, db()).unwrap();
    let line = "settings of its own: memtable=append-only compression=none bloom_bits=14 \
                setting 300=0102";
    assert!(listing.contains(line), "{line} is not in\n{listing}");
    assert!(!fs.exists(&db().join("MANIFEST-000001")).unwrap());
    let (_, again) = Manifest::read(&fs, db()).unwrap();
    assert_eq!(again.keyspaces, state.keyspaces);
}

/// Of a database that a build made which still listed dropped keyspaces (a4be90a3, `velella put`):
/// it begins with the next keyspace 1, and creates keyspace 0 after that.
const OPENED_ONCE: &[u8] = include_bytes!("golden/opened_once/MANIFEST-000001");

#[test]
fn a_manifest_of_before_ids_told_what_was_dropped_is_read() {
    let fs = database_of(OPENED_ONCE);
    // The second time it is one of this build, written anew.
    for _ in 0..2 {
        let (_, state) = Manifest::open(arc(&fs), db()).unwrap();
        let names = state
            .keyspaces
            .iter()
            .map(|keyspace| (keyspace.record.id, &*keyspace.record.name));
        assert_eq!(names.collect::<Vec<_>>(), [(0, "default")]);
        assert_eq!(state.next_keyspace, 1);
    }
    assert!(!fs.exists(&db().join("MANIFEST-000001")).unwrap());
}
