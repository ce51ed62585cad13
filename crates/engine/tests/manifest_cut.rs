//! A manifest that lost whole edits at its end reads without a flaw: the journal contradicts it.

use crate::common::{ALONE, DIR, alone, contents, on, tiny, try_on, until};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use velella::simulation::Sizes;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation, Vfs, lacks_descriptors};
use velella::{Builder, Db, Error, ErrorKind, JournalMode, RecoveryMode};
use velella_testkit::Watchdog;
use velella_tree::manifest::Manifest;

type Contents = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// Writes what flushes, compacts, and leaves segments behind that the journal lets go.
fn work(db: &Db, turn: u64) {
    let other = db.keyspace_or_create("other").unwrap();
    for key in 0..1200u64 {
        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(key, [turn as u8; 1000]).unwrap();
        other.put(key, [turn as u8; 10]).unwrap();
    }
    db.flush().unwrap();
    let rounds = db.stats().journal.rounds;
    db.put("after the flush", turn.to_string()).unwrap();
    db.persist().unwrap();
    assert!(db.stats().journal.rounds > rounds);
}

fn all(db: &Db) -> Contents {
    let names = db.keyspaces();
    let one = |name: &String| contents(&db.keyspace(name).unwrap());
    names.iter().map(one).collect()
}

/// The manifest in force, and where its records end.
fn boundaries(fs: &MemFs) -> (PathBuf, Vec<u64>) {
    let replay = Manifest::replay(fs, Path::new(DIR)).unwrap();
    let path = Path::new(DIR).join(format!("MANIFEST-{:06}", replay.file));
    let ends = replay.records.iter().map(|r| r.offset + r.bytes);
    (path, ends.collect())
}

/// Opens `fs` with its manifest cut at each boundary: the whole content, or a refusal that names
/// the place and says the same the second time. How many were refused.
fn cut_everywhere(fs: &MemFs, builder: &dyn Fn() -> Builder) -> usize {
    let copy = || fs.image(1, CrashMode::KeepAll);
    let whole = {
        let db = on(&copy(), builder());
        all(&db)
    };
    let (path, ends) = boundaries(fs);
    let mut refused = 0;
    for end in &ends[..ends.len() - 1] {
        let fs = copy();
        let bytes = fs.read_file(&path).unwrap();
        fs.write_file(&path, &bytes[..usize::try_from(*end).unwrap()])
            .unwrap();
        match try_on(Arc::new(fs.clone()), builder()) {
            Ok(db) => assert_eq!(all(&db), whole, "silently another state, cut at {end}"),
            Err(error) => {
                // Also where a table that it names was merged away since.
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(
                    error.file().is_some() && error.offset().is_some(),
                    "{error}"
                );
                refused += 1;
                let again = try_on(Arc::new(fs.clone()), builder()).map(drop);
                assert_eq!(again.unwrap_err().to_string(), error.to_string());
                let lossy = builder().recovery(RecoveryMode::AcceptLoss);
                // It may find tables missing, but nothing worse than an error.
                drop(try_on(Arc::new(fs), lossy));
            }
        }
    }
    refused
}

#[test]
fn a_manifest_cut_between_its_edits_is_refused_or_makes_no_difference() {
    let _watchdog = Watchdog::new("manifest_cut", 100);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    for turn in 0..4 {
        work(&db, turn);
    }
    let running = fs.image(1, CrashMode::KeepAll);
    let power_lost = fs.image(1, CrashMode::Strict);
    db.close().unwrap();
    for fs in [running, power_lost, fs] {
        let refused = cut_everywhere(&fs, &tiny);
        assert!(refused > 4, "{refused}");
    }
}

#[test]
fn a_reopened_database_refuses_it_as_well() {
    let _watchdog = Watchdog::new("manifest_cut", 100);
    let fs = MemFs::new();
    for turn in 0..3 {
        let db = on(&fs, tiny());
        work(&db, turn);
        db.close().unwrap();
    }
    assert!(cut_everywhere(&fs, &tiny) > 2);
}

/// Where no round followed, the journal's records are what contradicts it.
#[test]
fn a_record_of_a_keyspace_that_the_manifest_forgot_says_where_it_stands() {
    let _watchdog = Watchdog::new("manifest_cut", 100);
    let fs = MemFs::new();
    let db = on(&fs, alone());
    let forgotten = db.keyspace_or_create("forgotten").unwrap();
    forgotten.put("a", "b").unwrap();
    let fs = fs.image(1, CrashMode::KeepAll);
    let (path, ends) = boundaries(&fs);
    let bytes = fs.read_file(&path).unwrap();
    let end = usize::try_from(ends[ends.len() - 2]).unwrap();
    fs.write_file(&path, &bytes[..end]).unwrap();
    let error = try_on(Arc::new(fs), alone()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let extension = error.file().and_then(Path::extension);
    assert_eq!(extension.unwrap_or_default(), "seg", "{error}");
    assert!(error.offset().is_some(), "{error}");
}

fn tables(fs: &MemFs) -> Vec<PathBuf> {
    let is_table = |path: &PathBuf| path.extension().is_some_and(|it| it == "sst");
    let mut tables: Vec<_> = fs.files().into_iter().filter(is_table).collect();
    tables.sort();
    tables
}

/// What a normal opening refuses stays refused, and whole, until one that accepts the loss is
/// through; and that one loses the same, however often others were cut off before.
#[test]
fn an_interrupted_opening_that_accepts_loss_hides_none() {
    let _watchdog = Watchdog::new("manifest_cut", 100);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    (0..3).for_each(|turn| work(&db, turn));
    // Nothing is left that the next sync of the directory would do: what merges have removed, say.
    let fs = fs.image(1, CrashMode::Strict);
    let lossy = || tiny().recovery(RecoveryMode::AcceptLoss);
    let (path, ends) = boundaries(&fs);
    let bytes = fs.read_file(&path).unwrap();
    let mut interrupted = 0;
    for end in &ends[..ends.len() - 1] {
        let cut = fs.image(1, CrashMode::KeepAll);
        cut.write_file(&path, &bytes[..usize::try_from(*end).unwrap()])
            .unwrap();
        let copy = || cut.image(1, CrashMode::KeepAll);
        if try_on(Arc::new(copy()), tiny()).is_ok() {
            continue;
        }
        let Ok(db) = try_on(Arc::new(copy()), lossy()) else {
            continue;
        };
        let (expected, there) = (all(&db), tables(&cut));
        drop(db);
        for operation in [Operation::Create, Operation::SyncDir, Operation::SyncData] {
            for nth in 1.. {
                let copy = copy();
                let faulty = FaultFs::over_mem(&copy);
                faulty.inject(Rule::every(Fault::Io).of(operation).from_nth(nth));
                let opened = try_on(Arc::new(faulty), lossy());
                if opened.is_ok() {
                    break;
                }
                interrupted += 1;
                for mode in [CrashMode::KeepAll, CrashMode::Strict] {
                    let after = copy.image(nth, mode);
                    match try_on(Arc::new(after.image(1, CrashMode::KeepAll)), tiny()) {
                        // All but the last steps were done.
                        Ok(db) => assert_eq!(all(&db), expected, "{end}: {operation:?} {nth}"),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                            let left = tables(&after);
                            let gone: Vec<_> =
                                there.iter().filter(|it| !left.contains(it)).collect();
                            assert!(gone.is_empty(), "{end}: {operation:?} {nth}: {gone:?}");
                            let db = on(&after, lossy());
                            assert_eq!(all(&db), expected, "{end}: {operation:?} {nth}");
                        }
                    }
                }
            }
        }
    }
    assert!(interrupted > 10, "{interrupted}");
}

/// A crash in the middle of an opening leaves files of an incarnation the manifest does not name.
#[test]
fn an_interrupted_opening_is_no_evidence() {
    let _watchdog = Watchdog::new("manifest_cut", 100);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    for key in 0..50 {
        db.put(format!("{key}"), "x").unwrap();
    }
    db.put("large", vec![1; 100_000]).unwrap();
    db.persist().unwrap();
    let before = all(&db);
    let fs = fs.image(1, CrashMode::KeepAll);
    let mut interrupted = 0;
    for operation in [
        Operation::Create,
        Operation::SyncDir,
        Operation::Remove,
        Operation::SyncData,
    ] {
        for nth in 1.. {
            let copy = fs.image(1, CrashMode::KeepAll);
            let faulty = FaultFs::over_mem(&copy);
            faulty.inject(Rule::every(Fault::Io).of(operation).from_nth(nth));
            let opened = try_on(Arc::new(faulty), tiny());
            for mode in [CrashMode::KeepAll, CrashMode::Strict] {
                let after = all(&on(&copy.image(nth, mode), tiny()));
                assert_eq!(after, before, "{operation:?} {nth}");
            }
            if opened.is_ok() {
                break;
            }
            interrupted += 1;
        }
    }
    assert!(interrupted > 10, "{interrupted}");
}

/// The records of a run that the manifest forgot are still there: they must fit in no other.
#[test]
fn a_run_that_the_manifest_forgot_keeps_its_number() {
    let _watchdog = Watchdog::new("manifest_cut", 100);
    let fs = MemFs::new();
    drop(on(&fs, tiny()));
    let db = on(&fs, tiny());
    db.put("a", "b").unwrap();
    db.persist().unwrap();
    let fs = fs.image(1, CrashMode::KeepAll);
    let incarnation = |fs: &MemFs| {
        let replay = Manifest::replay(fs, Path::new(DIR)).unwrap();
        replay.state.incarnation
    };
    let forgotten = incarnation(&fs);
    let (path, ends) = boundaries(&fs);
    let bytes = fs.read_file(&path).unwrap();
    let mut older = 0;
    for end in ends.into_iter().rev() {
        let fs = fs.image(1, CrashMode::KeepAll);
        fs.write_file(&path, &bytes[..usize::try_from(end).unwrap()])
            .unwrap();
        older += u64::from(incarnation(&fs) < forgotten);
        drop(on(&fs, tiny().recovery(RecoveryMode::AcceptLoss)));
        assert!(incarnation(&fs) > forgotten, "cut at {end}");
    }
    assert!(older > 0);
}

#[test]
fn stamps_of_a_run_that_the_manifest_forgot_do_not_come_back() {
    let fs = MemFs::new();
    on(&fs, alone()).close().unwrap();
    let db = on(&fs, alone());
    let mut lost = db.put("a", "1").unwrap();
    db.persist().unwrap();
    // No round tells of it.
    lost = lost.max(db.put("b", "1").unwrap());
    let fs = fs.image(1, CrashMode::KeepAll);
    let (path, ends) = boundaries(&fs);
    let bytes = fs.read_file(&path).unwrap();
    fs.write_file(&path, &bytes[..usize::try_from(ends[0]).unwrap()])
        .unwrap();
    let refused = try_on(Arc::new(fs.clone()), alone()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    let db = on(&fs, alone().recovery(RecoveryMode::AcceptLoss));
    assert_eq!(contents(&db).len(), 0);
    let next = db.put("c", "1").unwrap();
    assert!(next > lost, "{next} after {lost}");
}

fn journal(fs: &MemFs) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join("journal");
    let names = fs.read_dir(&dir).unwrap();
    names.into_iter().map(|name| dir.join(name)).collect()
}

#[test]
fn an_opening_without_a_journal_removes_the_old_one_once_it_is_in_tables() {
    let _watchdog = Watchdog::new("manifest_cut", 100);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    db.put("a", "old").unwrap();
    db.put("b", vec![1; 100_000]).unwrap();
    drop(db);
    let fs = fs.crash(1, CrashMode::KeepAll);
    assert!(!journal(&fs).is_empty());
    let db = on(&fs, tiny().journal(JournalMode::Off));
    assert_eq!(journal(&fs), Vec::<PathBuf>::new());
    assert_eq!(db.get("a").unwrap().unwrap(), "old");
    db.put("a", "new").unwrap();
    db.close().unwrap();
    for mode in [JournalMode::Auto, JournalMode::Off, JournalMode::Auto] {
        let db = on(&fs, tiny().journal(mode));
        assert_eq!(db.get("a").unwrap().unwrap(), "new");
        assert_eq!(db.get("b").unwrap().unwrap(), vec![1; 100_000]);
        until(|| db.stats().journal.access == "off" || !journal(&fs).is_empty());
    }
}

/// Fails the sync that was to make a swap of CURRENT durable.
#[derive(Debug, Default)]
struct Unsettled {
    is_armed: AtomicBool,
    is_swapped: AtomicBool,
    failed: AtomicBool,
}

impl Interceptor for Unsettled {
    fn before(&self, call: &Call<'_>) -> Verdict {
        let is_settling = call.operation == Operation::SyncDir && call.path == Path::new(DIR);
        // Relaxed: one thread.
        if !is_settling || !self.is_swapped.load(Ordering::Relaxed) {
            return Verdict::Pass;
        }
        self.failed.store(true, Ordering::Relaxed);
        let too_many_files = std::io::Error::from_raw_os_error(24);
        Verdict::Fail(Error::io("sync", call.path, too_many_files))
    }

    fn after(&self, call: &Call<'_>, failed: bool) {
        let is_swap = call.to.is_some_and(|to| to.ends_with("CURRENT"));
        if is_swap && !failed && self.is_armed.load(Ordering::Relaxed) {
            self.is_swapped.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn the_journal_takes_note_of_no_manifest_that_a_loss_of_power_takes_out_of_force() {
    let fs = MemFs::new();
    let by = Arc::new(Unsettled::default());
    let device = Intercepted::standing(Arc::clone(&by), Arc::new(fs.clone()));
    let sizes = Sizes {
        manifest_bytes: Some(1),
        ..ALONE
    };
    let db = try_on(Arc::new(device), tiny().simulated(sizes)).unwrap();
    by.is_armed.store(true, Ordering::Relaxed);
    let mut made = 0;
    while !by.failed.load(Ordering::Relaxed) {
        made += 1;
        db.keyspace_or_create(&made.to_string()).unwrap();
    }
    db.put("later", "1").unwrap();
    db.persist().unwrap();
    for mode in CrashMode::POWER_LOSSES {
        for seed in 0..30 {
            let db = on(&fs.image(seed, mode), alone());
            assert!(db.contains("later").unwrap(), "{mode:?} {seed}");
            assert_eq!(db.keyspaces().len(), made + 1, "{mode:?} {seed}");
        }
    }
    // Nothing more can be changed until the swap is durable; then everything can.
    let refused = db.keyspace_or_create("refused").unwrap_err();
    assert!(lacks_descriptors(&refused), "{refused}");
    by.is_swapped.store(false, Ordering::Relaxed);
    db.keyspace_or_create("refused").unwrap();
    db.close().unwrap();
    assert_eq!(on(&fs, alone()).keyspaces().len(), made + 2);
}
