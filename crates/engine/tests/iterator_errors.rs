//! Iterators over files that cannot be read: a typed error, and no pair is passed over or repeated.
//!
//! Claims: `iterator.rs` I4.

use crate::common::{tiny, try_on};
use std::sync::Arc;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::{FaultFs, MemFs, Operation};
use velella::{Db, ErrorKind, IterOptions};

const PAIRS: u32 = 2_000;

/// Pairs in many blocks, reopened so that none is cached.
fn database() -> (Db, FaultFs) {
    let mem = MemFs::new();
    let faulty = FaultFs::over_mem(&mem);
    let open = || try_on(Arc::new(faulty.clone()), tiny()).unwrap();
    let db = open();
    for number in 0..PAIRS {
        db.put(number.to_be_bytes(), [7; 50]).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    (open(), faulty)
}

#[test]
fn an_iterator_that_failed_stays_failed_until_it_seeks() {
    for fill_cache in [true, false] {
        for back in [false, true] {
            let (db, faulty) = database();
            let options = IterOptions {
                fill_cache,
                ..IterOptions::default()
            };
            let mut iter = db.iter_with(options).unwrap();
            let mut step = || {
                let there = match back {
                    false => iter.step(),
                    true => iter.step_back(),
                };
                there.map(|there| there.then(|| iter.key().unwrap().to_vec()))
            };
            for _ in 0..100 {
                assert!(step().unwrap().is_some());
            }
            faulty.inject(Rule::every(Fault::Io).of(Operation::Read).times(1));
            let kind = loop {
                match step() {
                    Ok(key) => assert!(key.is_some(), "the end is reached without an error"),
                    Err(error) => break error.kind(),
                }
            };
            // The file can be read again, but the iterator does not know where it stood.
            for _ in 0..3 {
                let error = step().expect_err("it stays failed");
                assert_eq!(error.kind(), kind);
            }
            assert_eq!(iter.key(), None);
            assert_eq!(iter.value().unwrap(), b"");
            iter.refresh().unwrap();
            assert!(iter.step().is_err() && iter.step_back().is_err());
            let middle = (PAIRS / 2).to_be_bytes();
            assert!(iter.seek(middle).unwrap());
            assert_eq!(iter.key(), Some(&middle[..]));
            assert!(iter.step().unwrap());
            assert_eq!(iter.key(), Some(&(PAIRS / 2 + 1).to_be_bytes()[..]));
        }
    }
}

#[test]
fn pairs_end_after_the_error_they_yielded() {
    let (db, faulty) = database();
    faulty.inject(Rule::every(Fault::Io).of(Operation::Read).nth(3));
    let mut iter = db.iter().unwrap();
    let pairs: Vec<_> = iter.by_ref().collect();
    assert!(pairs.last().unwrap().is_err());
    assert_eq!(pairs.iter().filter(|pair| pair.is_err()).count(), 1);
    faulty.heal();
    let seen = pairs.len() - 1;
    iter.seek(u32::try_from(seen).unwrap().to_be_bytes())
        .unwrap();
    let rest = iter.filter(Result::is_ok).count();
    assert_eq!(seen + rest, PAIRS as usize, "after a seek it goes on");
}

#[test]
fn a_step_that_stays_hears_that_the_database_was_closed() {
    let (db, _faulty) = database();
    let mut iter = db.iter().unwrap();
    assert!(iter.step().unwrap());
    db.delete(iter.key().unwrap()).unwrap();
    iter.refresh_to_now().unwrap();
    db.close().unwrap();
    assert_eq!(iter.step().unwrap_err().kind(), ErrorKind::Closed);
    assert!(iter.key().is_none(), "I4");
}

#[test]
fn a_scan_in_the_midst_of_a_block_hears_that_the_database_was_closed() {
    for steps in [1, 2, 5] {
        let (db, _faulty) = database();
        let mut iter = db.iter().unwrap();
        for _ in 0..steps {
            assert!(iter.step().unwrap());
        }
        db.close().unwrap();
        assert_eq!(iter.pair().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(iter.step().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(iter.step().unwrap_err().kind(), ErrorKind::Closed);
        assert!(iter.key().is_none(), "I4");
    }
}
