//! Listings of whole, damaged, foreign and missing files.
//!
//! On real files: `inspect` takes paths, and reads beside an open database.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use velella::{Db, ErrorKind, inspect};

/// A directory with two keyspaces, tables, an external value and a journal; closed.
fn database(dir: &Path) -> Db {
    let db = velella::open(dir).unwrap();
    let orders = db.keyspace_or_create("orders").unwrap();
    for index in 0..200 {
        db.put(format!("key{index:04}"), format!("value{index}"))
            .unwrap();
        orders.put(format!("order{index:04}"), "new").unwrap();
    }
    db.put("large", vec![7; 2 << 20]).unwrap();
    db.flush().unwrap();
    db.put("only-in-the-journal", "1").unwrap();
    db
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn manifest(dir: &Path) -> PathBuf {
    let line = fs::read_to_string(dir.join("CURRENT")).unwrap();
    dir.join(line.split(' ').next().unwrap())
}

/// The listing of a file, and how it ended.
fn listed(path: &Path, entries: bool) -> (String, velella::Result<()>) {
    let mut out = Vec::new();
    let outcome = inspect::file(path, entries, &mut out);
    (String::from_utf8(out).unwrap(), outcome)
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

#[test]
fn every_file_of_a_database_is_listed_while_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    let expect = |path: &Path, words: &[&str]| {
        let (text, outcome) = listed(path, true);
        outcome.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for word in words {
            assert!(text.contains(word), "{word} in {}:\n{text}", path.display());
        }
    };
    let [first, ..] = &files(dir.path(), "sst")[..] else {
        panic!("no table");
    };
    expect(first, &["table", "\"key0000\"", "\"value0\""]);
    expect(
        &files(dir.path(), "ext")[0],
        &["external value", "2097152 bytes"],
    );
    expect(
        &manifest(dir.path()),
        &["create-keyspace", "\"orders\"", "state"],
    );
    expect(&dir.path().join("CURRENT"), &["MANIFEST-", "whole"]);
    expect(&dir.path().join("LOCK"), &["lock"]);
    let journal = dir.path().join("journal");
    expect(&files(&journal, "seal")[0], &["seal 0"]);
    let segments = files(&journal, "seg");
    let texts: Vec<_> = segments.iter().map(|path| listed(path, true).0).collect();
    assert!(
        texts
            .iter()
            .any(|text| text.contains("only-in-the-journal")),
        "{texts:?}"
    );
    db.close().unwrap();
}

#[test]
fn a_flipped_byte_is_named_and_the_rest_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    database(dir.path()).close().unwrap();

    let table = &files(dir.path(), "sst")[0];
    flip(table, 100);
    let (text, outcome) = listed(table, false);
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(table.as_path()));
    assert!(
        text.contains("damaged") && text.contains("properties"),
        "{text}"
    );

    let manifest = manifest(dir.path());
    // The last record but one: its edits go, those before it stay.
    let (whole, _) = listed(&manifest, false);
    let offsets: Vec<usize> = whole
        .lines()
        .filter_map(|line| {
            line.strip_prefix("record at ")?
                .split(',')
                .next()?
                .parse()
                .ok()
        })
        .collect();
    let [first, .., damaged, _] = offsets[..] else {
        panic!("too few records:\n{whole}");
    };
    flip(&manifest, damaged + 20);
    let (text, outcome) = listed(&manifest, false);
    assert_eq!(outcome.unwrap_err().offset(), Some(damaged as u64));
    assert!(text.contains(&format!("record at {first},")), "{text}");
    assert!(!text.contains(&format!("record at {damaged},")), "{text}");
    assert!(text.contains("DAMAGE"), "{text}");

    let external = &files(dir.path(), "ext")[0];
    flip(external, 10);
    assert_eq!(
        listed(external, false).1.unwrap_err().kind(),
        ErrorKind::Corruption
    );
}

#[test]
fn what_is_no_file_of_a_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("notes.txt");
    fs::write(&notes, "not a database").unwrap();
    let error = listed(&notes, false).1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("notes.txt"), "{error}");
    let missing = listed(&dir.path().join("000001.sst"), false).1.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_renamed_file_is_recognised_by_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    database(dir.path()).close().unwrap();
    let copy = dir.path().join("table.bad");
    fs::copy(&files(dir.path(), "sst")[0], &copy).unwrap();
    let (text, outcome) = listed(&copy, false);
    outcome.unwrap();
    assert!(text.contains("properties"), "{text}");
    fs::copy(manifest(dir.path()), &copy).unwrap();
    let error = listed(&copy, false).1.unwrap_err();
    assert!(error.to_string().contains("like MANIFEST-"), "{error}");
}

#[test]
fn an_empty_file_is_damage_and_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["000001.sst", "000002.ext", "MANIFEST-000003"] {
        let path = dir.path().join(name);
        fs::write(&path, "").unwrap();
        let error = listed(&path, true).1.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }
    for name in ["000001.seg", "000002.large", "000003.seal"] {
        let path = dir.path().join(name);
        fs::write(&path, "").unwrap();
        let (text, outcome) = listed(&path, true);
        outcome.unwrap();
        assert!(text.contains("DAMAGE"), "{name}: {text}");
    }
    let nameless = dir.path().join("nameless");
    fs::write(&nameless, "").unwrap();
    assert_eq!(
        listed(&nameless, true).1.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn a_directory_is_listed_in_columns_beside_an_open_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path());
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    fs::write(dir.path().join("099999.sst"), "left over").unwrap();
    let mut out = Vec::new();
    inspect::directory(dir.path(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for word in [
        "keyspaces",
        "default",
        "orders",
        "external values",
        ".seg",
        ".seal",
    ] {
        assert!(text.contains(word), "{word} in:\n{text}");
    }
    for (title, name) in [
        ("unreferenced", "099999.sst"),
        ("not the database's", "notes.txt"),
    ] {
        let (_, below) = text.split_once(title).unwrap();
        assert!(below.contains(name), "{name} below {title} in:\n{text}");
    }
    assert!(!text.contains("torn"), "nothing is torn:\n{text}");
    let (_, tables) = text.split_once("tables\n").unwrap();
    let rows: Vec<&str> = tables.lines().skip(1).take(2).collect();
    let column = |row: &str| row.find(".sst");
    assert!(
        column(rows[0]).is_some() && column(rows[0]) == column(rows[1]),
        "{text}"
    );

    let (listing, damage) = inspect::listing(dir.path()).unwrap();
    assert!(damage.is_none());
    assert_eq!(listing.keyspaces.len(), 2);
    assert_eq!(
        listing
            .tables
            .iter()
            .map(|table| table.entries)
            .sum::<u64>(),
        401
    );
    assert_eq!((listing.externals.len(), listing.damage.len()), (1, 0));
    assert_eq!(listing.foreign, ["notes.txt"]);
    db.close().unwrap();
}

#[test]
fn a_name_in_the_directory_forges_no_line_of_its_listing() {
    let dir = tempfile::tempdir().unwrap();
    database(dir.path()).close().unwrap();
    let forged = "x\nDAMAGE: \u{1b}[31mall is lost";
    fs::write(dir.path().join(forged), b"").unwrap();
    let mut out = Vec::new();
    inspect::directory(dir.path(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        !text.lines().any(|line| line.starts_with("DAMAGE")),
        "{text}"
    );
    assert!(
        !text.contains('\u{1b}') && text.contains("all is lost"),
        "{text}"
    );
}

#[test]
fn a_damaged_directory_is_listed_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    database(dir.path()).close().unwrap();
    let table = files(dir.path(), "sst")[0].clone();
    fs::remove_file(&table).unwrap();
    let (listing, _) = inspect::listing(dir.path()).unwrap();
    let name = table.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(listing.damage, [format!("{name} is missing")]);

    flip(&dir.path().join("CURRENT"), 12);
    let mut out = Vec::new();
    let error = inspect::directory(dir.path(), &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let (listing, damage) = inspect::listing(dir.path()).unwrap();
    assert_eq!(listing.damage, [error.to_string()]);
    assert_eq!(damage.unwrap().kind(), ErrorKind::Corruption);
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("DAMAGE") && text.contains(".ext") && text.contains(".seg"),
        "{text}"
    );
    // It was a database: the files say so.
    fs::remove_file(dir.path().join("CURRENT")).unwrap();
    let error = inspect::directory(dir.path(), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(&*dir.path().join("CURRENT")));
}

#[test]
fn a_directory_without_a_database_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut out = Vec::new();
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    let error = inspect::directory(dir.path(), &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let error = inspect::directory(&dir.path().join("nowhere"), &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(out.is_empty());
    fs::write(dir.path().join("CURRENT"), "MANIFEST-000002\n").unwrap();
    fs::write(dir.path().join("MANIFEST-000002"), "one of LevelDB's").unwrap();
    let error = inspect::directory(dir.path(), &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(out.is_empty(), "nothing there is damaged");
}
