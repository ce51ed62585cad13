//! What compactions do for writers who wait, when the database closes under them, and when names
//! may be lost.

use super::RELIEVING_JOBS;
use crate::fixture::{fresh, open, tiny, until};
use crate::keyspace::Keyspace;
use crate::shortage::Shortages;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use velella_base::ErrorKind;
use velella_sync::atomic::Ordering;
use velella_testkit::Watchdog;
use velella_tree::Wanted;
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

/// Flushes tables into level 0, each over the same keys, until writers are braked.
fn brake(keyspace: &Keyspace) {
    for round in 0..26u32 {
        for key in 0..100u32 {
            keyspace
                .put(key.to_be_bytes(), round.to_le_bytes())
                .unwrap();
        }
        keyspace.flush().unwrap();
    }
    assert!(keyspace.core.tree.pressure().brake > 0.0);
}

#[test]
fn relieving_writers_ends_when_the_database_closes() {
    let _watchdog = Watchdog::new("relieving_writers_ends", 60);
    let (db, engine) = fresh();
    let _whole = engine.compacting.write();
    brake(&db.default_keyspace());
    engine.halt_as_closed();
    engine.stopping.store(true, Ordering::Release);
    assert_eq!(
        engine.relieve(&mut 99).unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[test]
fn writers_of_another_keyspace_are_relieved_as_well() {
    let _watchdog = Watchdog::new("writers_of_another_keyspace", 60);
    let (db, engine) = fresh();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    let _whole = engine.compacting.write();
    brake(&other);
    engine.relieve(&mut 99).unwrap();
    assert!(other.core.tree.pressure().brake <= 0.0);
    assert_eq!(other.iter().unwrap().count(), 100);
}

/// Each table of level 0 is a job of its own; as many come anew while somebody writes on.
#[test]
fn writers_are_relieved_by_a_few_jobs_at_a_time() {
    let _watchdog = Watchdog::new("writers_are_relieved_by_a_few_jobs", 60);
    let (db, engine) = fresh();
    let _whole = engine.compacting.write();
    let tables = || db.core.tree.levels()[0].tables;
    for round in 0..34u32 {
        db.put(round.to_be_bytes(), "v").unwrap();
        db.flush().unwrap();
    }
    let before = tables();
    engine.relieve(&mut 99).unwrap();
    let after = 34 - RELIEVING_JOBS;
    assert_eq!((before, tables()), (34, after));
    assert!(db.core.tree.pressure().brake > 0.0);
    let mut left = 1;
    engine.relieve(&mut left).unwrap();
    engine.relieve(&mut left).unwrap();
    assert_eq!((left, tables()), (0, after - 1));
}

#[test]
fn of_a_dropped_keyspace_only_what_the_device_says_is_heard() {
    for is_gone in [false, true] {
        assert_eq!(fails_while_dropped(Fault::Io, is_gone), Some(ErrorKind::Io));
    }
    for harmless in [Fault::NoSpace, Fault::TooManyFiles] {
        assert_eq!(fails_while_dropped(harmless, true), None, "{harmless:?}");
    }
}

/// It may be there again, and the worker that is not told would try without a pause.
#[test]
fn what_a_keyspace_lacks_whose_drop_is_undecided_is_told() {
    for short in [Fault::NoSpace, Fault::TooManyFiles] {
        assert!(fails_while_dropped(short, false).is_some(), "{short:?}");
    }
}

/// What a compaction says that meets `fault` after its keyspace was marked as dropped, and maybe
/// is.
fn fails_while_dropped(fault: Fault, is_gone: bool) -> Option<ErrorKind> {
    let faulty = FaultFs::over_mem(&MemFs::new());
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    let _whole = engine.compacting.write();
    for round in 0..3u32 {
        keyspace.put("k", round.to_le_bytes()).unwrap();
        keyspace.flush().unwrap();
    }
    let core = &keyspace.core;
    let job = core
        .tree
        .next_job(Wanted::Everything, &engine.retention())
        .unwrap();
    assert!(core.mark_dropped());
    let no_table = Rule::every(fault).of(Operation::Create).on(".sst");
    faulty.inject(no_table);
    if is_gone {
        core.give_up();
    }
    let told = engine.run_job(core, job).err();
    let halts = told.as_ref().is_some_and(|error| !Shortages::is_one(error));
    assert_eq!(engine.check().is_err(), halts);
    told.map(|error| error.kind())
}

#[test]
fn a_job_that_begins_after_the_close_changes_nothing() {
    let fs = MemFs::new();
    let (db, engine) = open(Arc::new(fs.clone()), tiny());
    let whole = engine.compacting.write();
    for round in 0..3u32 {
        db.put("k", round.to_le_bytes()).unwrap();
        db.flush().unwrap();
    }
    let core = Arc::clone(&db.core);
    let job = core
        .tree
        .next_job(Wanted::Everything, &engine.retention())
        .unwrap();
    drop(whole);
    db.close().unwrap();
    let files = || {
        let names = fs.read_dir(Path::new("/db")).unwrap();
        let names = names.iter().map(|name| name.to_str().unwrap().to_owned());
        names.collect::<BTreeSet<_>>()
    };
    let before = files();
    // It is short, so nobody asks it whether to go on.
    assert_eq!(
        job.run(&|| engine.retention(), &|| Ok(true))
            .unwrap_err()
            .kind(),
        ErrorKind::Closed
    );
    // Nothing is taken from an opening that may have files of the same names. What the job wrote
    // goes with the next one.
    let after = files();
    assert!(
        after.is_superset(&before) && after.len() > before.len(),
        "{before:?}, {after:?}"
    );
    drop((db, engine, core));
    assert!(files().is_superset(&before));
    let (again, _) = open(Arc::new(fs.clone()), tiny());
    assert!(
        after
            .difference(&before)
            .all(|name| !files().contains(name))
    );
    assert_eq!(again.get("k").unwrap().unwrap(), 2u32.to_le_bytes());
    again.verify().unwrap();
}

#[test]
fn what_is_flushed_after_the_close_deletes_no_journal() {
    let _watchdog = Watchdog::new("what_is_flushed_after_the_close", 30);
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    db.handle.workers.lock().stop(&engine);
    let files = || fs.read_dir(Path::new("/db/journal")).unwrap().len();
    // In a file of the journal's own.
    db.put("k", vec![7; 200_000]).unwrap();
    db.persist().unwrap();
    engine.switch(&engine.cores());
    engine.flush_next().unwrap();
    engine.close_idle_lanes().unwrap();
    engine.exclude_flushed().unwrap();
    // What could be deleted is still there.
    let fault = Rule::every(Fault::Permission).of(Operation::Remove);
    faulty.inject(fault.on("/journal/"));
    engine.release_journal().unwrap();
    assert!(faulty.fired() > 0);
    faulty.heal();
    let before = files();
    let shut = db.clone();
    shut.close().unwrap();
    engine.release_journal().unwrap();
    assert_eq!(files(), before);
    // As it would have.
    let (again, other) = open(Arc::new(fs.clone()), tiny());
    other.release_journal().unwrap();
    assert!(files() < before, "{before}");
    again.close().unwrap();
}

/// The file system tells one caller, and has perhaps lost the names of tables that others made.
#[test]
fn after_a_failed_sync_of_names_no_table_is_taken_in() {
    let mem = MemFs::new();
    let faulty = FaultFs::over_mem(&mem);
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    db.handle.workers.lock().stop(&engine);
    db.put("k", "1").unwrap();
    // So that the second flush asks the journal for nothing: writing has ended there, too.
    db.persist().unwrap();
    let once = Rule::every(Fault::Io).of(Operation::SyncDir).on("/db");
    faulty.inject(once.times(1));
    let error = db.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    // As who was flushing already would, when it halted.
    let error = engine.flush_next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert!(error.to_string().contains("may have lost names"), "{error}");
    assert_eq!(db.get("k").unwrap().unwrap(), "1");
    let _ = db.close();
    let (db, _) = open(Arc::new(mem), tiny());
    assert_eq!(db.get("k").unwrap().unwrap(), "1");
}

#[test]
fn an_error_of_the_device_ends_writing_whoever_met_it() {
    for compacts in [false, true] {
        let faulty = FaultFs::over_mem(&MemFs::new());
        let (db, engine) = open(Arc::new(faulty.clone()), tiny());
        db.handle.workers.lock().stop(&engine);
        engine.stopping.store(false, Ordering::Release);
        for round in 0..3u32 {
            db.put("k", round.to_le_bytes()).unwrap();
            if compacts || round < 2 {
                db.flush().unwrap();
            }
        }
        let fault = Rule::every(Fault::Io).of(Operation::SyncAll).on(".sst");
        faulty.inject(fault.times(1));
        let outcome = if compacts { db.compact() } else { db.flush() };
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(faulty.fired(), 1);
        let error = db.put("k", "4").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert_eq!(db.get("k").unwrap().unwrap(), 2u32.to_le_bytes());
    }
}

/// As where a worker meets it, though all that was to be flushed is in tables.
#[test]
fn a_journal_file_that_cannot_be_deleted_ends_writing_whose_flush_it_was() {
    let faulty = FaultFs::over_mem(&MemFs::new());
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    db.handle.workers.lock().stop(&engine);
    engine.stopping.store(false, Ordering::Release);
    faulty.inject(Rule::every(Fault::Io).of(Operation::Remove).on(".seg"));
    let failed = (0..100u32).find_map(|round| {
        for key in 0..50u32 {
            db.put(key.to_be_bytes(), [round.to_be_bytes()[3]; 4000])
                .unwrap();
        }
        db.flush().err()
    });
    assert_eq!(failed.expect("one was given up").kind(), ErrorKind::Io);
    assert_eq!(db.put("k", "4").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(db.get(7u32.to_be_bytes()).unwrap().unwrap().len(), 4000);
}

#[test]
fn the_bytes_of_a_flush_that_is_tried_again_count_once() {
    let faulty = FaultFs::over_mem(&MemFs::new());
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    db.handle.workers.lock().stop(&engine);
    engine.stopping.store(false, Ordering::Release);
    db.put("k", "1").unwrap();
    faulty.inject(
        Rule::every(Fault::NoSpace)
            .of(Operation::Write)
            .on("MANIFEST")
            .times(1),
    );
    db.flush().unwrap_err();
    assert_eq!(faulty.fired(), 1);
    db.flush().unwrap();
    let bytes: u64 = db.core.tree.levels().iter().map(|level| level.bytes).sum();
    assert_eq!(db.stats().counters["flush_bytes"], bytes);
}

#[test]
fn too_many_open_files_end_nothing() {
    let faulty = FaultFs::over_mem(&MemFs::new());
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    db.handle.workers.lock().stop(&engine);
    engine.stopping.store(false, Ordering::Release);
    db.put("k", "1").unwrap();
    let fault = || Rule::every(Fault::TooManyFiles).times(1);
    for call in [Operation::Create, Operation::SyncDir] {
        faulty.inject(fault().of(call));
        assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Io);
        faulty.inject(fault().of(call));
        let large = db.put("large", vec![7; 2 << 20]);
        assert_eq!(large.unwrap_err().kind(), ErrorKind::Io);
        db.put("k", "2").unwrap();
    }
    assert_eq!(faulty.fired(), 4);
    db.flush().unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), "2");
}

#[test]
fn the_keyspace_that_brakes_all_writers_is_compacted_first() {
    let _watchdog = Watchdog::new("the_keyspace_that_brakes", 60);
    let (db, engine) = fresh();
    db.handle.workers.lock().stop(&engine);
    engine.stopping.store(false, Ordering::Release);
    let [calm, braking] =
        ["a", "z"].map(|name| db.create_keyspace(name, Default::default()).unwrap());
    brake(&braking);
    calm.put("k", "v").unwrap();
    calm.flush().unwrap();
    let is_due = |keyspace: &Keyspace| {
        let job = keyspace
            .core
            .tree
            .next_job(Wanted::Due, &engine.retention());
        job.is_some()
    };
    assert!(is_due(&calm) && is_due(&braking));
    assert!(engine.compact_once().unwrap());
    assert!(is_due(&calm), "it can wait");
    assert!(braking.core.tree.pressure().brake <= 0.0);
}

#[test]
fn a_shortage_of_compactions_is_over_once_there_is_none_to_run() {
    let _watchdog = Watchdog::new("a_shortage_of_compactions", 60);
    let faulty = FaultFs::over_mem(&MemFs::new());
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    db.handle.workers.lock().stop(&engine);
    engine.stopping.store(false, Ordering::Release);
    let is_due = || {
        let job = db.core.tree.next_job(Wanted::Due, &engine.retention());
        job.is_some()
    };
    // So little that it is merged by itself with what is below.
    db.put("k", "v").unwrap();
    db.compact().unwrap();
    db.put("k", "w").unwrap();
    db.flush().unwrap();
    assert!(is_due());
    let tables = Rule::every(Fault::NoSpace).of(Operation::Create);
    faulty.inject(tables.on(".sst"));
    assert!(!engine.compact_unless_short().unwrap());
    assert!(engine.shortages.compactions.is_on());
    faulty.heal();
    // Much more that it would meet, before it is tried again.
    for key in 0..200u32 {
        db.put(
            ["a".into(), key.to_string()].concat(),
            [key.to_le_bytes()[0]; 1000],
        )
        .unwrap();
    }
    db.put("z", "v").unwrap();
    db.flush().unwrap();
    assert!(!is_due());
    until(|| engine.shortages.compactions.may_try());
    let running = engine.compacting.read();
    assert!(!engine.compact_unless_short().unwrap());
    assert!(engine.shortages.compactions.is_on(), "another may meet it");
    drop(running);
    assert!(!engine.compact_unless_short().unwrap());
    assert!(!engine.shortages.compactions.is_on());
}
