//! Stretches: where a scan walks in one, and what ends it (I6).

use super::Iter;
use crate::db::Db;
use crate::fixture::{ALONE, fresh, open, tiny};
use std::sync::Arc;
use velella_vfs::MemFs;

/// Pairs of one table, `key(0)` to `key(99)`.
fn database(key: impl Fn(u8) -> Vec<u8>) -> Db {
    let (db, _engine) = fresh();
    for number in 0..100 {
        db.put(key(number), [number]).unwrap();
    }
    db.compact().unwrap();
    db
}

/// Whether each of a hundred steps left the iterator in a stretch.
fn stretches(iter: &mut Iter) -> Vec<bool> {
    let step = |_| {
        assert!(iter.step().unwrap());
        iter.stretch.is_some()
    };
    (0..100).map(step).collect()
}

fn long(number: u8) -> Vec<u8> {
    format!("a-long-prefix-{number:03}").into_bytes()
}

#[test]
fn a_scan_of_one_level_walks_in_stretches() {
    let db = database(long);
    let walked = stretches(&mut db.iter().unwrap());
    // The first step seeks; those at the ends of blocks land.
    assert!(
        walked.iter().filter(|&&walked| walked).count() > 90,
        "{walked:?}"
    );
    assert!(!walked[0]);
}

#[test]
fn of_several_streams_one_is_walked_as_far_as_the_others_have_nothing() {
    let short = |number| vec![number];
    for key in [long, short] {
        let db = database(key);
        db.put(key(50), [50]).unwrap();
        let walked = stretches(&mut db.iter().unwrap());
        let before = walked[5..49].iter().filter(|&&walked| walked).count();
        assert!(before > 30, "{walked:?}");
        assert!(!walked[50], "it stands in memory");
        assert!(!walked[51], "it has only just come back");
        assert!(walked[55..].iter().any(|&walked| walked), "{walked:?}");
    }
}

#[test]
fn nothing_is_lent_where_it_would_lead_nowhere() {
    // They take turns.
    let db = database(|number| vec![number]);
    for number in (0..100).step_by(2) {
        db.put([number], [number]).unwrap();
    }
    assert_eq!(stretches(&mut db.iter().unwrap()), [false; 100]);

    // One stands on the older versions of what another one shows.
    let alone = || open(Arc::new(MemFs::new()), tiny().simulated(ALONE)).0;
    let db = alone();
    for range in [0..100u8, 40..60] {
        for number in range {
            db.put([number], [number]).unwrap();
        }
        db.flush().unwrap();
    }
    let walked = stretches(&mut db.iter().unwrap());
    assert_eq!(walked[40..60], [false; 20]);
    assert!(walked[5..35].contains(&true) && walked[65..].contains(&true));

    // Of more streams than eight the next key is not looked for.
    let db = alone();
    for table in 0..9u8 {
        for key in (0..90).filter(|key| key / 10 == table) {
            db.put([key], [table]).unwrap();
        }
        // Over all of them, so that none goes down a level by itself.
        db.put([200], [table]).unwrap();
        db.put([0], [table]).unwrap();
        db.flush().unwrap();
    }
    let mut iter = db.iter().unwrap();
    assert!(iter.seek_first().unwrap());
    assert!(!(0..80).any(|_| iter.step().unwrap() && iter.stretch.is_some()));
}

#[test]
fn whatever_else_is_done_in_a_stretch_begins_where_that_stands() {
    let at = |iter: &mut Iter| {
        let (key, value) = iter.pair().unwrap().expect("a pair");
        assert_eq!(key, long(value[0]));
        value[0]
    };
    for what in 0..7 {
        let db = database(long);
        let mut iter = db.iter().unwrap();
        (0..20).for_each(|_| assert!(iter.step().unwrap()));
        assert!(iter.stretch.is_some() && at(&mut iter) == 19);
        let next = match what {
            0 => {
                // What it stands on is gone in the new view.
                db.delete(long(19)).unwrap();
                iter.refresh_to_now().unwrap();
                assert_eq!(at(&mut iter), 20);
                20
            }
            1 => {
                iter.refresh_to_now().unwrap();
                assert_eq!(at(&mut iter), 19);
                20
            }
            2 => {
                iter.refresh().unwrap();
                assert_eq!(at(&mut iter), 19);
                20
            }
            3 => {
                assert!(iter.step_back().unwrap());
                assert_eq!(at(&mut iter), 18);
                19
            }
            4 => {
                assert!(iter.seek_before(long(19)).unwrap());
                19
            }
            5 => {
                // Its cursors go on to the next iterator.
                drop(iter);
                iter = db.iter().unwrap();
                0
            }
            _ => {
                db.compact().unwrap();
                20
            }
        };
        assert!(iter.step().unwrap());
        assert_eq!(at(&mut iter), next, "{what}");
    }
}

#[test]
fn a_scan_in_a_stretch_hears_that_the_database_was_closed() {
    for what in ["step", "step back", "refresh", "seek"] {
        let db = database(long);
        let mut iter = db.iter().unwrap();
        (0..20).for_each(|_| assert!(iter.step().unwrap()));
        assert!(iter.stretch.is_some());
        db.close().unwrap();
        let failed = match what {
            "step" => iter.step().map(drop),
            "step back" => iter.step_back().map(drop),
            "refresh" => iter.refresh(),
            _ => iter.seek("a").map(drop),
        };
        assert!(failed.is_err() && iter.stretch.is_none(), "{what}");
        assert!(iter.key().is_none() && iter.pair().is_err(), "{what}");
    }
}
