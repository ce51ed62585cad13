//! The directory of an open database, moved away, and another one made in its place: on real files.
//!
//! Claims: `Vfs::hold`; docs/consistency.md, "When something fails".

mod common;

use common::{contents, tiny};
use std::collections::BTreeMap;
use std::fs;
use velella::{Db, JournalMode};

/// Writes into the journal, a file of its own, and tables that replace each other.
fn work(db: &Db, round: u8) {
    for key in 0..50u8 {
        db.put([key], vec![round; 3_000]).unwrap();
    }
    db.put([round, 255], vec![round; 600_000]).unwrap();
    db.flush().unwrap();
    db.put([round, 254], [round]).unwrap();
    db.compact().unwrap();
}

#[test]
fn a_database_whose_directory_is_moved_stays_in_it() {
    for journal in [JournalMode::Auto, JournalMode::Write, JournalMode::Off] {
        let tmp = tempfile::tempdir().unwrap();
        let (here, there) = (tmp.path().join("db"), tmp.path().join("moved"));
        let open = |path| tiny().journal(journal).open(path).unwrap();
        let moved = open(&here);
        work(&moved, 1);
        fs::rename(&here, &there).unwrap();
        let other = open(&here);
        let mut expected = BTreeMap::new();
        for round in 2..6 {
            work(&moved, round);
            work(&other, round + 100);
            expected = contents(&moved);
            moved.verify().unwrap();
            other.verify().unwrap();
        }
        assert_eq!(contents(&other).len(), 50 + 8);
        assert_eq!(expected.len(), 50 + 10);
        moved.close().unwrap();
        other.close().unwrap();
        let (moved, other) = (open(&there), open(&here));
        assert_eq!(contents(&moved), expected);
        assert_eq!(contents(&other).len(), 50 + 8);
        moved.verify().unwrap();
        other.verify().unwrap();
    }
}

#[test]
fn a_relative_path_is_the_one_it_was_at_the_opening() {
    let tmp = tempfile::tempdir().unwrap();
    let (here, there) = (tmp.path().join("here"), tmp.path().join("there"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&there).unwrap();
    // The other test knows absolute paths only.
    std::env::set_current_dir(&here).unwrap();
    let db = tiny().open("db").unwrap();
    work(&db, 1);
    std::env::set_current_dir(&there).unwrap();
    work(&db, 2);
    db.verify().unwrap();
    let expected = contents(&db);
    db.close().unwrap();
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
    std::env::set_current_dir(tmp.path().parent().unwrap()).unwrap();
    let db = tiny().open(here.join("db")).unwrap();
    assert_eq!(contents(&db), expected);
}
