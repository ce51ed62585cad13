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
