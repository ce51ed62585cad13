//! Values over 1 MiB: stored once, in files of their own, for as long as a version needs them.
//!
//! Claims: `change.rs` C1; the "values over 1 MiB are stored once as external values".

use crate::common::{INLINE_BYTES, alone, counter, fresh, on, tiny, try_on, until};
use std::path::PathBuf;
use std::sync::Arc;
use velella::limits::INLINE_VALUE_BYTES_MAX;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation, OsFs, lacks_descriptors};
use velella::{Db, Decision, ErrorKind, JournalMode, RecoveryMode, WriteBatch, WriteOptions};
use velella_testkit::Watchdog;

/// Files of the database that are as long as an external value of `len` bytes at least.
fn files_of(fs: &MemFs, len: usize) -> Vec<PathBuf> {
    let long = |path: &PathBuf| {
        let in_journal = path.components().any(|part| part.as_os_str() == "journal");
        // A background thread may remove a file between its listing and its reading.
        !in_journal && fs.read_file(path).is_ok_and(|bytes| bytes.len() >= len)
    };
    fs.files().into_iter().filter(long).collect()
}

/// Flushes until only `left` files are there: memory and files go when their last reader does,
/// which some later step finds out.
fn gone(db: &Db, fs: &MemFs, left: usize) {
    let _watchdog = Watchdog::new("external files go", 60);
    until(|| {
        db.put("step", "x").unwrap();
        db.compact().unwrap();
        files_of(fs, 2 << 20).len() == left
    });
}

fn patterned(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| u8::try_from(at * 7 % 251).unwrap())
        .collect()
}

#[test]
fn values_of_every_size_around_the_border_come_back_from_everywhere() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let border = INLINE_VALUE_BYTES_MAX;
    let sizes = [border - 1, border, border + 1, 3 << 20, 20 << 20];
    for size in sizes {
        db.put(size.to_be_bytes(), patterned(size)).unwrap();
    }
    for round in 0..4 {
        for size in sizes {
            assert_eq!(
                db.get(size.to_be_bytes()).unwrap().unwrap(),
                patterned(size),
                "{round}"
            );
            assert!(db.contains(size.to_be_bytes()).unwrap());
        }
        let mut iter = db.iter().unwrap();
        for size in sizes {
            assert!(iter.step().unwrap());
            assert_eq!(iter.value().unwrap(), patterned(size));
            assert_eq!(iter.value().unwrap().len(), size, "asked again");
        }
        let mut back = db.iter().unwrap().rev();
        assert_eq!(back.next().unwrap().unwrap().1.len(), 20 << 20);
        if round == 1 {
            db.compact().unwrap();
        } else {
            db.flush().unwrap();
        }
    }
    assert_eq!(files_of(&fs, border + 1).len(), 3);
}

#[test]
fn a_large_value_is_written_once_and_never_into_tables() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    db.put("large", patterned(8 << 20)).unwrap();
    for round in 0..5u8 {
        db.put([round], "x").unwrap();
        db.compact().unwrap();
    }
    assert!(counter(&db, "flush_bytes") < 1 << 20);
    assert!(counter(&db, "compaction_bytes_written") < 1 << 20);
    assert_eq!(files_of(&fs, 8 << 20).len(), 1);
    assert_eq!(db.stats().external_bytes, 8 << 20);
    assert!(db.stats().memory.memtables < 4 << 20);
}

#[test]
fn its_file_goes_with_the_last_version_that_needs_it() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    db.put("k", patterned(2 << 20)).unwrap();
    let snapshot = db.snapshot();
    db.put("k", "small").unwrap();
    db.compact().unwrap();
    assert_eq!(snapshot.get(&db, "k").unwrap().unwrap(), patterned(2 << 20));
    assert_eq!(files_of(&fs, 2 << 20).len(), 1);
    drop(snapshot);
    gone(&db, &fs, 0);
    assert_eq!(db.stats().external_bytes, 0);
    for key in ["a", "b", "c"] {
        db.put(key, patterned(2 << 20)).unwrap();
    }
    db.delete("a").unwrap();
    gone(&db, &fs, 2);
    db.close().unwrap();
    drop(db);
    let db = on(&fs, tiny());
    assert_eq!(files_of(&fs, 2 << 20).len(), 2);
    db.delete("b").unwrap();
    gone(&db, &fs, 1);
    assert_eq!(db.get("c").unwrap().unwrap().len(), 2 << 20);
}

#[test]
fn a_dropped_keyspace_takes_its_files_along() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let other = db.create_keyspace("other", Default::default()).unwrap();
    other.put("flushed", patterned(2 << 20)).unwrap();
    other.flush().unwrap();
    other.put("in memory", patterned(2 << 20)).unwrap();
    db.drop_keyspace("other").unwrap();
    db.close().unwrap();
    drop((db, other));
    let db = on(&fs, tiny());
    assert_eq!(files_of(&fs, 2 << 20).len(), 0);
    db.verify().unwrap();
}

#[test]
fn they_survive_a_kill_at_once_and_a_power_loss_once_durable() {
    for mode in [CrashMode::KeepAll, CrashMode::Strict, CrashMode::Random] {
        let fs = MemFs::new();
        let db = on(&fs, tiny());
        let mut batch = WriteBatch::new();
        batch
            .put(&db, "in a batch", patterned(3 << 20))
            .put(&db, "small", "x");
        db.write(&batch).unwrap();
        db.rmw("by rmw", |_| Decision::put(patterned(2 << 20)))
            .unwrap();
        db.put_with("single", patterned(1_500_000), WriteOptions::sync())
            .unwrap();
        let mut fs = fs;
        for round in 0..3 {
            fs = fs.crash(round, mode);
            let db = on(&fs, tiny());
            assert_eq!(
                db.get("in a batch").unwrap().unwrap(),
                patterned(3 << 20),
                "{mode:?}"
            );
            assert_eq!(db.get("by rmw").unwrap().unwrap(), patterned(2 << 20));
            assert_eq!(db.get("single").unwrap().unwrap(), patterned(1_500_000));
            db.verify().unwrap();
        }
    }
}

#[test]
fn a_round_in_flight_promises_no_value_whose_file_is_not_durable() {
    let fs = MemFs::new();
    let faulty = FaultFs::new(Arc::new(fs.clone()));
    let db = try_on(Arc::new(faulty.clone()), tiny()).unwrap();
    db.put_with("before", "x", WriteOptions::sync()).unwrap();
    // Everything of the round becomes durable but the file of the value: as when the power goes
    // before the last of several syncs.
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncData).on(".ext"));
    db.put("large", patterned(2 << 20)).unwrap();
    assert!(db.persist().is_err());
    let fs = fs.crash(1, CrashMode::Strict);
    let db = on(&fs, tiny());
    assert_eq!(db.get("before").unwrap().unwrap(), "x");
    assert_eq!(db.get("large").unwrap(), None);
    db.verify().unwrap();
}

#[test]
fn what_a_kill_left_is_durable_once_the_database_is_open_again() {
    // Nobody works beside: a round in the background might sync the value by itself.
    let fs = MemFs::new();
    let db = on(&fs, alone());
    db.put_with("before", "x", WriteOptions::sync()).unwrap();
    db.put("large", patterned(2 << 20)).unwrap();
    let fs = fs.crash(1, CrashMode::KeepAll);
    let db = on(&fs, alone());
    assert!(db.durable().0 > 0);
    let fs = fs.crash(2, CrashMode::Strict);
    let db = on(&fs, tiny());
    assert_eq!(db.get("large").unwrap().unwrap(), patterned(2 << 20));
    db.verify().unwrap();
}

#[test]
fn a_write_that_fails_leaves_no_file() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let key = vec![0; velella::limits::KEY_BYTES_MAX + 1];
    assert_eq!(
        db.put(&key, patterned(2 << 20)).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let snapshot = db.snapshot();
    db.put("k", "x").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&db, "k", patterned(2 << 20));
    let refused = db
        .write_if_unchanged(&batch, &snapshot, WriteOptions::default())
        .unwrap();
    assert!(refused.is_none());
    // The aborted version stays in the memtable, and is never read.
    assert_eq!(files_of(&fs, 2 << 20).len(), 0);
    db.close().unwrap();
    assert_eq!(
        db.put("k", patterned(2 << 20)).unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(files_of(&fs, 2 << 20).len(), 0);
}

#[test]
fn refused_values_fill_no_memtable() {
    let fs = MemFs::new();
    // Sixteen MiB of such values fill a memtable.
    let db = on(&fs, tiny().memory(64 << 20).write_buffer(4 << 20));
    db.put("k", patterned(3 << 20)).unwrap();
    let snapshot = db.snapshot();
    db.put("k", patterned(2 << 20)).unwrap();
    let flushes = counter(&db, "flushes");
    let mut batch = WriteBatch::new();
    batch.put(&db, "k", patterned(2 << 20));
    for _ in 0..20 {
        let written = db.write_if_unchanged(&batch, &snapshot, WriteOptions::default());
        assert!(written.unwrap().is_none());
    }
    assert_eq!(counter(&db, "flushes"), flushes);
    assert_eq!(files_of(&fs, 2 << 20).len(), 2);
    assert_eq!(db.get("k").unwrap().unwrap(), patterned(2 << 20));
    assert_eq!(snapshot.get(&db, "k").unwrap().unwrap().len(), 3 << 20);
    db.close().unwrap();
}

#[test]
fn a_damaged_or_missing_file_is_named() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    db.put("k", patterned(2 << 20)).unwrap();
    db.flush().unwrap();
    let [path] = &files_of(&fs, 2 << 20)[..] else {
        panic!("one file")
    };
    fs.flip_byte(path, 1_000_000, 1).unwrap();
    let error = db.get("k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.file().unwrap().ends_with(path.file_name().unwrap()) && error.offset().is_some());
    assert!(db.iter().unwrap().any(|pair| pair.is_err()));
    let verified = db.verify().unwrap_err();
    assert_eq!(
        verified.kind(),
        ErrorKind::Corruption,
        "verify reads externals too: {verified}"
    );
    db.put("k", "mended").unwrap();
    assert_eq!(fresh().get("k").unwrap(), None);
    assert_eq!(db.get("k").unwrap().unwrap(), "mended");
}

/// A writer that died left its value in the page cache only; the tables that recovery makes durable
/// refer to it. Found by `reliability power-loss`.
#[test]
fn a_value_recovered_from_a_dead_process_survives_a_power_loss_after_that() {
    let value = patterned(INLINE_VALUE_BYTES_MAX + 1);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    db.put("k", &value).unwrap();
    let fs = fs.crash(1, CrashMode::KeepAll);
    drop(db);
    let db = on(&fs, tiny());
    assert_eq!(db.get("k").unwrap().unwrap(), value);
    let fs = fs.crash(1, CrashMode::Strict);
    drop(db);
    assert_eq!(on(&fs, tiny()).get("k").unwrap().unwrap(), value);
}

/// Seal and records of a round reached the device, the value they refer to did not: such a round
/// must not count. Found by `reliability every-crash-point`.
#[test]
fn a_round_torn_before_its_values_were_synced_does_not_count() {
    let _watchdog = Watchdog::new("a_round_torn", 120);
    let value = patterned(INLINE_VALUE_BYTES_MAX + 1);
    let mem = MemFs::new();
    let faulty = FaultFs::new(Arc::new(mem.clone()));
    let db = try_on(Arc::new(faulty.clone()), tiny()).unwrap();
    db.put("k", "old").unwrap();
    db.persist().unwrap();
    // From the round on the machine stands still as far as values are concerned.
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncData).on(".ext"));
    db.put("k", &value).unwrap();
    db.persist().unwrap_err();
    for seed in 0..60 {
        let image = mem.image(seed, CrashMode::Random);
        let found = on(&image, tiny()).get("k").unwrap().unwrap();
        assert!(
            found == "old" || found == value,
            "seed {seed}: {} bytes",
            found.len()
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn large_values_between_two_rounds_keep_few_files_open() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing runs a round but what asks for one.
    let db = alone().vfs(Arc::new(OsFs::new())).open(dir.path()).unwrap();
    let open = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let named = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
        let own = named.filter(|file| file.starts_with(dir.path()));
        own.filter(|file| file.extension().is_some_and(|ext| ext == "ext"))
            .count()
    };
    let value = patterned(INLINE_BYTES + 1);
    for round in 1..=2 {
        for turn in 0..160u32 {
            db.put((turn % 4).to_be_bytes(), &value).unwrap();
            // They wait for the round, until there are enough: the writer sees to the next.
            let waiting = usize::try_from(turn + 1).unwrap().min(48);
            assert_eq!(open(), waiting, "after {turn} in round {round}");
        }
        db.persist().unwrap();
        assert_eq!(open(), 0, "round {round} let go of them");
    }
    assert_eq!(db.get(0u32.to_be_bytes()).unwrap().unwrap(), value);
}

#[test]
fn a_failed_sync_of_their_directory_ends_writing() {
    let faulty = FaultFs::over_mem(&MemFs::new());
    // Nobody else syncs the directory.
    let db = try_on(Arc::new(faulty.clone()), alone()).unwrap();
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncDir).times(1));
    let error = db.put("large", patterned(2 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    // A table's name may have been lost by it, which the next sync would call durable.
    let refused = db.put("small", "x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    assert_eq!(db.get("large").unwrap(), None);
}

#[test]
fn a_failed_sync_of_one_that_no_round_syncs_ends_writing() {
    let faulty = FaultFs::over_mem(&MemFs::new());
    let builder = alone().journal(JournalMode::Off);
    let db = try_on(Arc::new(faulty.clone()), builder).unwrap();
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncAll).on(".ext"));
    let error = db.put("large", patterned(2 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let refused = db.put("small", "x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    assert_eq!(db.get("large").unwrap(), None);
}

#[test]
fn an_opening_that_fails_takes_none_of_them_from_the_next() {
    let fs = MemFs::new();
    let db = on(&fs, alone());
    // In the page cache alone: nobody syncs here.
    db.put("large", patterned(2 << 20)).unwrap();
    let after = fs.crash(0, CrashMode::KeepAll);
    let faulty = FaultFs::over_mem(&after);
    faulty.inject(
        Rule::every(Fault::NoSpace)
            .of(Operation::Create)
            .on("journal"),
    );
    let builder = alone().recovery(RecoveryMode::AssumePowerLoss);
    let error = try_on(Arc::new(faulty.clone()), builder).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    faulty.heal();
    let db = try_on(Arc::new(faulty), alone()).unwrap();
    assert_eq!(db.get("large").unwrap().unwrap(), patterned(2 << 20));
}

/// What a later opening finds, and after a power loss the next one: the file of the value may have
/// lost any part of it, and no later sync of it says so.
fn assert_not_believed(fs: &MemFs, seed: u64) {
    let db = on(fs, alone());
    assert_eq!(db.get("k").unwrap().unwrap(), "durable", "{seed}");
    db.put("other", "1").unwrap();
    db.close().unwrap();
    let db = on(&fs.crash(seed, CrashMode::Strict), alone());
    assert_eq!(db.get("k").unwrap().unwrap(), "durable", "{seed}");
    assert_eq!(db.get("other").unwrap().unwrap(), "1", "{seed}");
}

/// A durable value, and one in a file of its own over it that is in the page cache alone.
fn large_over_durable(fs: FaultFs) -> Db {
    let db = try_on(Arc::new(fs), alone()).unwrap();
    db.put_with("k", "durable", WriteOptions::sync()).unwrap();
    db.put("k", patterned(2 << 20)).unwrap();
    db
}

fn failing_sync() -> Rule {
    Rule::every(Fault::Io)
        .of(Operation::SyncData)
        .on(".ext")
        .times(1)
}

#[test]
fn one_whose_sync_failed_in_a_round_is_believed_by_no_later_opening() {
    for seed in 0..8 {
        let fs = MemFs::new();
        let faulty = FaultFs::over_device(&fs, seed);
        let db = large_over_durable(faulty.clone());
        faulty.inject(failing_sync());
        assert_eq!(db.persist().unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(faulty.fired(), 1);
        drop(db);
        assert_not_believed(&fs, seed);
    }
}

#[test]
fn one_whose_sync_failed_in_an_opening_is_believed_by_no_later_one() {
    for seed in 0..8 {
        let fs = MemFs::new();
        let db = large_over_durable(FaultFs::over_mem(&fs));
        let killed = fs.crash(seed, CrashMode::KeepAll);
        drop(db);
        let faulty = FaultFs::over_device(&killed, seed);
        faulty.inject(failing_sync());
        let error = try_on(Arc::new(faulty.clone()), alone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_not_believed(&killed, seed);
    }
}

#[test]
fn a_value_finds_a_descriptor_as_long_as_tables_have_some() {
    let fs = MemFs::new();
    let faults = FaultFs::over_mem(&fs);
    let db = try_on(Arc::new(faults.clone()), alone()).unwrap();
    let value = patterned(INLINE_BYTES + 1);
    let open_table = || {
        db.put("table", "1").unwrap();
        db.flush().unwrap();
    };
    open_table();
    let few = |of| Rule::every(Fault::TooManyFiles).of(of).on(".ext").nth(1);
    faults.inject(few(Operation::Create));
    db.put("k", &value).unwrap();
    open_table();
    faults.inject(few(Operation::OpenRead));
    assert_eq!(db.get("k").unwrap().unwrap(), value);
    // None left that is open, so this is an error, and no more than that.
    faults.inject(
        Rule::every(Fault::TooManyFiles)
            .of(Operation::OpenRead)
            .times(2),
    );
    let error = db.get("k").unwrap_err();
    assert!(lacks_descriptors(&error), "{error}");
    assert_eq!(db.get("k").unwrap().unwrap(), value);
    db.verify().unwrap();
    assert!(counter(&db, "table_files_reopened") > 0);
}
