//! What is durable when, told by `durable()` and by crash images; and what a database that cannot
//! make anything durable any more still does.
//!
//! Claims: docs/consistency.md, "Durability" and "When something fails"; `durability.rs`.
//!
//! Most of it runs on databases without threads: nothing is synced but what is asked for, so D can
//! be told exactly.

use crate::common::{INLINE_BYTES, alone, contents, on, try_on, wall_ms};
use std::sync::Arc;
use std::time::Duration;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation, TraceFs};
use velella::{Db, Decision, Durability, ErrorKind, JournalMode, KeyspaceOptions, Result, Stamp};
use velella::{WriteBatch, WriteOptions};
use velella_testkit::{Seed, seeds};

const MODES: [JournalMode; 3] = [JournalMode::Mapped, JournalMode::Write, JournalMode::Off];

type Writer = fn(&Db, WriteOptions) -> Result<Stamp>;

/// Every way to write the key `k`.
const WRITERS: [(&str, Writer); 8] = [
    ("put", |db, options| db.put_with("k", "v", options)),
    ("delete", |db, options| db.delete_with("k", options)),
    ("an expiring put", |db, options| {
        db.put_expiring("k", "v", wall_ms() + 1_000_000, options)
    }),
    ("a large put", |db, options| {
        db.put_with("k", vec![7; 3 * INLINE_BYTES], options)
    }),
    ("a batch", |db, options| {
        let mut batch = WriteBatch::new();
        batch.put(db, "k", "v").put(db, "twin", "v");
        db.write_with(&batch, options)
    }),
    ("a conditional batch", |db, options| {
        let mut batch = WriteBatch::new();
        batch.put(db, "k", vec![7; 2 * INLINE_BYTES]);
        let written = db.write_if_unchanged(&batch, &db.snapshot(), options)?;
        Ok(written.expect("nobody else writes"))
    }),
    ("an update", |db, options| {
        let outcome = db.rmw_entry("k", options, |_| {
            Ok::<_, velella::Error>(Decision::put(vec![1]))
        });
        Ok(outcome?.stamp.expect("it wrote"))
    }),
    ("an update that deletes", |db, options| {
        let outcome = db.rmw_entry("k", options, |_| Ok::<_, velella::Error>(Decision::Delete));
        Ok(outcome?.stamp.expect("it wrote"))
    }),
];

/// Whether a power loss now would keep what is in `db`.
fn survives(fs: &MemFs, db: &Db) -> bool {
    [CrashMode::Strict, CrashMode::Random].iter().all(|mode| {
        let after = on(&fs.image(1, *mode), alone());
        contents(&after) == contents(db)
    })
}

#[test]
fn every_sort_of_write_is_as_durable_as_its_class_says() {
    let classes = [
        Durability::Buffered,
        Durability::Sync,
        Durability::Group(Duration::ZERO),
        Durability::Group(Duration::from_micros(10)),
    ];
    for journal in MODES {
        for class in classes {
            for (what, write) in WRITERS {
                let what = format!("{what}, {class:?}, {journal:?}");
                let fs = MemFs::new();
                let db = on(&fs, alone().journal(journal));
                db.put("k", "before").unwrap();
                db.put("earlier", "of no class").unwrap();
                let before = db.durable();
                let options = WriteOptions {
                    durability: Some(class),
                };
                let stamp = write(&db, options).unwrap();
                if class == Durability::Buffered {
                    assert_eq!(db.durable(), before, "{what}: nobody asked for it");
                    let last = db.persist().unwrap();
                    assert!(last >= stamp && db.durable() == last, "{what}");
                }
                assert!(db.durable() >= stamp, "{what}");
                assert!(survives(&fs, &db), "{what}");
            }
        }
    }
}

#[test]
fn what_is_written_buffered_is_durable_once_it_was_waited_for_and_with_it_all_before() {
    for journal in MODES {
        let fs = MemFs::new();
        let db = on(&fs, alone().journal(journal));
        let other = db
            .create_keyspace("other", KeyspaceOptions::default())
            .unwrap();
        let stamps: Vec<Stamp> = (0..20u8)
            .map(|number| match number % 3 {
                0 => other.put([number], "v").unwrap(),
                _ => db.put([number], "v").unwrap(),
            })
            .collect();
        assert!(db.durable() < stamps[0], "{journal:?}");
        db.wait_durable(stamps[10]).unwrap();
        let durable = db.durable();
        assert!(durable >= stamps[10], "{journal:?}");
        let after = on(&fs.image(1, CrashMode::Strict), alone());
        let other_after = after.keyspace("other").unwrap();
        for (number, stamp) in (0u8..).zip(&stamps).filter(|(_, stamp)| **stamp <= durable) {
            let there = match number % 3 {
                0 => other_after.contains([number]).unwrap(),
                _ => after.contains([number]).unwrap(),
            };
            assert!(there, "{journal:?}: {number} at {stamp}");
        }
        let error = db
            .wait_durable(Stamp(db.snapshot().stamp().0 + 1))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error.to_string().contains("has not been given out"),
            "{error}"
        );
    }
}

#[test]
fn an_empty_batch_that_syncs_makes_durable_what_was_written_before() {
    for journal in MODES {
        let fs = MemFs::new();
        let db = on(&fs, alone().journal(journal));
        db.put("k", "v").unwrap();
        db.write(&WriteBatch::new()).unwrap();
        assert!(!survives(&fs, &db), "{journal:?}");
        let stamp = db
            .write_with(&WriteBatch::new(), WriteOptions::sync())
            .unwrap();
        assert!(survives(&fs, &db), "{journal:?}");
        assert!(db.durable() >= stamp, "{journal:?}");
    }
}

#[test]
fn waiting_for_what_is_durable_already_syncs_nothing() {
    for journal in MODES {
        let trace = TraceFs::counting(Arc::new(MemFs::new()));
        let db = try_on(Arc::new(trace.clone()), alone().journal(journal)).unwrap();
        let stamp = db.put_with("k", "v", WriteOptions::sync()).unwrap();
        let syncs = || -> u64 {
            let syncs = Operation::ALL
                .into_iter()
                .filter(|operation| operation.is_sync());
            syncs.map(|operation| trace.count(operation).calls).sum()
        };
        let before = syncs();
        for durable in [Stamp::ZERO, Stamp(1), stamp, db.durable()] {
            db.wait_durable(durable).unwrap();
        }
        assert!(db.get("k").unwrap().is_some() && db.iter().unwrap().count() == 1);
        drop(db.snapshot());
        assert_eq!(syncs(), before, "{journal:?}");
        // And what is not durable costs a round, however many wait for it.
        let stamp = db.put("l", "v").unwrap();
        db.wait_durable(stamp).unwrap();
        let one = syncs() - before;
        (0..5).for_each(|_| db.wait_durable(stamp).unwrap());
        assert_eq!((one > 0, syncs()), (true, before + one), "{journal:?}");
    }
}

#[test]
fn the_watermark_never_steps_back_nor_passes_what_was_given_out() {
    for number in seeds(6) {
        let mut seed = Seed::new("the_watermark", number);
        let journal = *seed.pick(&MODES);
        let fs = MemFs::new();
        let db = on(&fs, alone().journal(journal));
        let (mut last, mut before) = (db.durable(), db.durable());
        for _ in 0..300 {
            let class = *seed.pick(&[Durability::Buffered, Durability::Buffered, Durability::Sync]);
            let options = WriteOptions {
                durability: Some(class),
            };
            match seed.below(12) {
                0 => db.flush().unwrap(),
                1 => drop(db.persist().unwrap()),
                2 => db.compact().unwrap(),
                3 => {
                    let name = format!("k{}", seed.below(3));
                    match db.drop_keyspace(&name) {
                        Ok(()) => {}
                        Err(_) => drop(db.keyspace_or_create(&name).unwrap()),
                    }
                }
                _ => last = (WRITERS[seed.index(WRITERS.len())].1)(&db, options).unwrap(),
            }
            let durable = db.durable();
            assert!(durable >= before, "{journal:?}: {durable} after {before}");
            let given = db.snapshot().stamp();
            assert!(
                durable <= given && last <= given,
                "{journal:?}: {durable} of {given}"
            );
            before = durable;
        }
    }
}

/// Everything that writes.
fn writes(db: &Db) -> Vec<(&'static str, Result<()>)> {
    let options = || KeyspaceOptions {
        bloom_bits: Some(3),
        ..Default::default()
    };
    let mut outcomes: Vec<(&str, Result<()>)> = WRITERS
        .iter()
        .map(|(what, write)| (*what, write(db, WriteOptions::default()).map(drop)))
        .collect();
    outcomes.extend([
        ("put_if_absent", db.put_if_absent("absent", "v").map(drop)),
        (
            "compare_and_swap",
            db.compare_and_swap("k", None, None).map(drop),
        ),
        ("increment", db.increment("n", 1).map(drop)),
        ("flush", db.flush()),
        ("compact", db.compact()),
        ("persist", db.persist().map(drop)),
        ("wait_durable", db.wait_durable(db.snapshot().stamp())),
        (
            "create_keyspace",
            db.create_keyspace("new", options()).map(drop),
        ),
        ("keyspace_or_create", db.keyspace_or_create("new").map(drop)),
        (
            "open_keyspace",
            db.open_keyspace("own", options()).map(drop),
        ),
        ("drop_keyspace", db.drop_keyspace("own")),
    ]);
    outcomes
}

#[test]
fn after_a_failed_sync_all_that_writes_says_why_and_all_that_reads_goes_on() {
    for journal in [JournalMode::Mapped, JournalMode::Write] {
        let mem = MemFs::new();
        let faulty = FaultFs::over_mem(&mem);
        let db = try_on(Arc::new(faulty.clone()), alone().journal(journal)).unwrap();
        let own = db
            .create_keyspace("own", KeyspaceOptions::default())
            .unwrap();
        own.put("in a table", "1").unwrap();
        db.flush().unwrap();
        let durable = own.put_with("durable", "2", WriteOptions::sync()).unwrap();
        own.put("buffered", "3").unwrap();
        for operation in Operation::ALL
            .into_iter()
            .filter(|operation| operation.is_sync())
        {
            faulty.inject(Rule::every(Fault::Io).of(operation).times(1));
        }
        let error = db.persist().unwrap_err();
        assert!(error.file().is_some(), "it names the file: {error}");
        faulty.heal();
        let watermark = db.durable();
        assert!(watermark >= durable);
        for (what, outcome) in writes(&db) {
            let error = outcome.expect_err(what);
            assert_eq!(
                error.kind(),
                ErrorKind::ReadOnly,
                "{journal:?} {what}: {error}"
            );
            let told = error.to_string();
            for part in ["sync", "open the database again"] {
                assert!(told.contains(part), "{journal:?} {what}: {told}");
            }
        }
        assert_eq!(db.durable(), watermark, "nothing was tried again");
        let expected = contents(&own);
        assert_eq!(expected.len(), 3);
        assert_eq!(db.snapshot().get(&own, "buffered").unwrap().unwrap(), "3");
        assert_eq!(
            own.multi_get(&["durable", "none"])
                .unwrap()
                .iter()
                .flatten()
                .count(),
            1
        );
        assert_eq!(own.prefix("d").unwrap().rev().count(), 1);
        assert_eq!((db.keyspaces().len(), db.stats().last_stamp > 0), (2, true));
        assert_eq!(db.keyspace("own").unwrap().name(), "own");
        db.close().unwrap_err();
        drop((db, own));
        let db = on(&mem, alone());
        let own = db.keyspace("own").unwrap();
        assert!(own.contains("durable").unwrap() && own.contains("in a table").unwrap());
        writes(&db).into_iter().for_each(|(what, outcome)| {
            outcome.unwrap_or_else(|error| panic!("{journal:?} {what}: {error}"));
        });
    }
}

#[test]
fn a_full_disk_stops_writes_and_not_reads_and_they_go_on_once_there_is_room() {
    for journal in MODES {
        let fs = MemFs::new();
        let db = on(&fs, alone().journal(journal));
        let own = db
            .create_keyspace("own", KeyspaceOptions::default())
            .unwrap();
        let mut written = std::collections::BTreeMap::new();
        let mut fill = |db: &Db, turns: u32| -> Result<()> {
            for turn in 0..turns {
                let key = turn.to_be_bytes().to_vec();
                let value = vec![u8::try_from(turn % 251).unwrap(); 900];
                db.keyspace("own")?.put(&key, &value)?;
                written.insert(key, value);
            }
            Ok(())
        };
        fill(&db, 30).unwrap();
        fs.set_space_max(Some(fs.space_used()));
        let error = match fill(&db, 200) {
            Err(error) => error,
            // Nothing of a database without journal is on the disk before it is flushed.
            Ok(()) => db.flush().unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{journal:?}: {error}");
        assert!(
            error.file().is_some(),
            "{journal:?} names the file: {error}"
        );
        let error = db.put("large", vec![1; 3 * INLINE_BYTES]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{journal:?}: {error}");
        assert_eq!(db.get("large").unwrap(), None, "{journal:?}");
        assert_eq!(contents(&own).len(), own.iter().unwrap().rev().count());
        fs.set_space_max(None);
        // Nobody has to open it again.
        fill(&db, 250).unwrap();
        assert_eq!(contents(&own), written, "{journal:?}");
        db.compact().unwrap();
        db.verify().unwrap();
        assert_eq!(contents(&own), written, "{journal:?}");
        let after = on(&fs.image(1, CrashMode::Strict), alone());
        assert_eq!(
            contents(&after.keyspace("own").unwrap()),
            written,
            "{journal:?}"
        );
    }
}
