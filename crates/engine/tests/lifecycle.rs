//! A database's life: opening, closing, locking, and everything between in its simplest form.
//!
//! On real files, with the default settings.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use velella::{Db, Error, ErrorKind, JournalMode, WriteOptions};
use velella_testkit::Watchdog;

#[test]
fn what_was_written_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let db = velella::open(dir.path()).unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    db.put("a", "3").unwrap();
    db.delete("b").unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "3");
    assert_eq!(db.get("b").unwrap(), None);
    db.close().unwrap();
    assert_eq!(db.put("c", "4").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.get("a").unwrap_err().kind(), ErrorKind::Closed);
    drop(db);

    let db = velella::open(dir.path()).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "3");
    assert_eq!(db.get("b").unwrap(), None);
    db.flush().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "3");
    db.compact().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "3");
    assert_eq!(db.verify().unwrap().entries, 1);
}

#[test]
fn a_second_opening_is_refused_while_the_first_lasts() {
    let dir = tempfile::tempdir().unwrap();
    let db = velella::open(dir.path()).unwrap();
    assert_eq!(
        velella::open(dir.path()).unwrap_err().kind(),
        ErrorKind::Locked
    );
    db.close().unwrap();
    drop(db);
    velella::open(dir.path()).unwrap();
}

#[test]
fn a_missing_database_is_created_only_if_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    let refused = Db::builder().create(false).open(&nowhere).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(refused.to_string().contains("nowhere"), "{refused}");
    Db::builder().open(&nowhere).unwrap();
}

#[test]
fn close_gives_up_the_lock_though_handles_live_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = velella::open(dir.path()).unwrap();
    db.put("k", "1").unwrap();
    let (snapshot, mut iter) = (db.snapshot(), db.iter().unwrap());
    db.close().unwrap();
    db.close().unwrap();
    let again = velella::open(dir.path()).unwrap();
    assert_eq!(again.get("k").unwrap().unwrap(), "1");
    assert_eq!(
        snapshot.get(&db, "k").unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(iter.seek_first().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(iter.step().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.iter().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.compact().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.persist().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.verify().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(
        db.keyspace("default").unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(
        db.keyspace_or_create("new").unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(db.increment("n", 1).unwrap_err().kind(), ErrorKind::Closed);
    let batch = velella::WriteBatch::new();
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::Closed);
    // What would do nothing is no exception.
    let none: [&str; 0] = [];
    let snapshot_again = db.snapshot();
    for refused in [
        db.transact(Default::default(), |_, _| -> Result<(), Error> {
            panic!("nobody asks")
        })
        .unwrap_err(),
        db.multi_get(&none).unwrap_err(),
        snapshot_again.multi_get(&db, &none).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::Closed);
    }
    drop(snapshot_again);
    // A dead handle that drops late harms nobody.
    drop((db, snapshot, iter));
    again.put("k", "2").unwrap();
}

#[test]
fn an_iterator_lends_nothing_beyond_the_close() {
    let dir = tempfile::tempdir().unwrap();
    let db = velella::open(dir.path()).unwrap();
    db.put("in memory", "1").unwrap();
    db.put("of its own file", vec![1; 2 << 20]).unwrap();
    let mut iters = ["in memory", "of its own file"].map(|key| {
        let mut iter = db.iter().unwrap();
        assert!(iter.seek(key).unwrap());
        iter
    });
    db.close().unwrap();
    for iter in &mut iters {
        assert_eq!(iter.value().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(iter.pair().unwrap_err().kind(), ErrorKind::Closed);
        let next = iter.next().unwrap();
        assert_eq!(next.unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn what_an_iterator_held_beyond_the_close_is_left_to_the_next_opening() {
    let _watchdog = Watchdog::new("held_beyond_the_close", 60);
    let dir = tempfile::tempdir().unwrap();
    let db = velella::open(dir.path()).unwrap();
    let tables = || -> Vec<_> {
        let files = std::fs::read_dir(dir.path()).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let is_table = |path: &PathBuf| path.extension().is_some_and(|of| of == "sst");
        let mut tables: Vec<_> = paths.filter(is_table).collect();
        tables.sort();
        tables
    };
    let write = |round: u32| {
        db.put("k", round.to_le_bytes()).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
    };
    write(0);
    write(1);
    // What the workers make and remove meanwhile is none of the iterator's.
    while tables().len() > 1 {
        std::thread::yield_now();
    }
    let held = tables();
    let mut iter = db.iter().unwrap();
    assert!(iter.next().is_some());
    write(2);
    db.close().unwrap();
    let after = tables();
    assert!(after.len() > 1 && after.contains(&held[0]), "{after:?}");
    // By now the directory may be another database's, with files of the same names.
    drop((iter, db));
    assert_eq!(tables(), after);
    let db = velella::open(dir.path()).unwrap();
    assert_eq!(tables().len(), 1);
    assert_eq!(db.get("k").unwrap().unwrap(), 2u32.to_le_bytes());
}

#[test]
fn what_was_acknowledged_while_closing_is_there_afterwards() {
    let _watchdog = Watchdog::new("acknowledged_while_closing", 120);
    for journal in [JournalMode::Auto, JournalMode::Off] {
        for round in 0..4u32 {
            let dir = tempfile::tempdir().unwrap();
            let db = Db::builder()
                .memory(16 << 20)
                .write_buffer(192 << 10)
                .journal(journal)
                .open(dir.path())
                .unwrap();
            let acknowledged = acknowledged_until_closed(&db, 50 * round);
            drop(db);
            let db = velella::open(dir.path()).unwrap();
            for (thread, end) in (0u8..).zip(acknowledged) {
                for number in 0..end {
                    let key = [&[thread][..], &number.to_be_bytes()].concat();
                    let what = format!("{journal:?}: {number} of {end} of thread {thread}");
                    assert!(db.contains(&key).unwrap(), "{what}");
                }
            }
        }
    }
}

/// Closes `db` under three writers once one of them has come as far as `begun`; how many writes of
/// each were acknowledged.
fn acknowledged_until_closed(db: &Db, begun: u32) -> Vec<u32> {
    let started = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let write = |thread: u8| {
            let started = &started;
            scope.spawn(move || {
                for number in 0..u32::MAX {
                    let options = if thread == 0 {
                        WriteOptions::sync()
                    } else {
                        WriteOptions::default()
                    };
                    let key = [&[thread][..], &number.to_be_bytes()].concat();
                    if let Err(error) = db.put_with(key, [0; 200], options) {
                        // Without a journal it waits for a flush, and has been written by then.
                        let is_unsure = thread == 0 && error.kind() == ErrorKind::OutcomeUnknown;
                        let is_off = db.stats().journal.access == "off";
                        let is_closed = error.kind() == ErrorKind::Closed;
                        assert!(is_closed || (is_off && is_unsure), "{error}");
                        return number;
                    }
                    if number == begun {
                        started.store(true, Ordering::Release);
                    }
                }
                unreachable!("the database is closed before")
            })
        };
        let writers: Vec<_> = (0..3).map(write).collect();
        while !started.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        db.close().unwrap();
        let join = |writer: std::thread::ScopedJoinHandle<'_, _>| writer.join().unwrap();
        writers.into_iter().map(join).collect()
    })
}

#[test]
fn a_database_may_be_a_whole_volume() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("lost+found")).unwrap();
    for value in ["a", "b"] {
        let db = velella::open(dir.path()).unwrap();
        db.put("k", value).unwrap();
        assert!(db.verify().unwrap().foreign_files.is_empty());
    }
    assert!(dir.path().join("lost+found").is_dir());
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = velella::open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let names = || std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names(), 1, "a lock file was left there");
    // Strangers may come to live beside a database; verify names them.
    let (letter, away) = (
        dir.path().join("letter.txt"),
        dir.path().with_extension("t"),
    );
    std::fs::rename(&letter, &away).unwrap();
    let db = velella::open(dir.path()).unwrap();
    std::fs::rename(&away, &letter).unwrap();
    assert_eq!(db.verify().unwrap().foreign_files, ["letter.txt"]);
    db.close().unwrap();
    velella::open(dir.path()).unwrap();
    assert_eq!(
        std::fs::read_to_string(dir.path().join("letter.txt")).unwrap(),
        "dear"
    );

    let file = dir.path().join("letter.txt");
    let error = velella::open(&file).unwrap_err();
    assert!(error.to_string().contains("letter.txt"), "{error}");
}

#[test]
fn a_current_file_of_something_else_is_no_empty_database() {
    let name_alone = ("MANIFEST-999999\n", ErrorKind::AlreadyExists);
    for (content, kind) in [
        ("", ErrorKind::Corruption),
        ("hello", ErrorKind::Corruption),
        name_alone,
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("CURRENT"), content).unwrap();
        let error = velella::open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), kind, "{content:?}: {error}");
        assert_eq!(
            std::fs::read_to_string(dir.path().join("CURRENT")).unwrap(),
            content
        );
    }
}

#[test]
fn a_database_that_lost_its_current_file_is_damaged_whoever_opens_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = velella::open(dir.path()).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let current = dir.path().join("CURRENT");
    let content = std::fs::read(&current).unwrap();
    std::fs::remove_file(&current).unwrap();
    let names = || std::fs::read_dir(dir.path()).unwrap().count();
    let before = names();
    for create in [true, false] {
        let error = Db::builder().create(create).open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(error.file(), Some(&*current));
        assert_eq!(names(), before);
    }
    std::fs::write(&current, content).unwrap();
    let db = velella::open(dir.path()).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
}

#[test]
fn a_directory_without_permission_says_so() {
    if std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Uid:\t0\t"))
    {
        eprintln!("SKIPPED: a_directory_without_permission_says_so: root may do everything");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
    let error = velella::open(closed.join("db")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
    assert!(error.to_string().contains("closed"), "{error}");
}

#[test]
fn the_last_handle_closes() {
    let dir = tempfile::tempdir().unwrap();
    let db = velella::open(dir.path()).unwrap();
    let keyspace = db.create_keyspace("other", Default::default()).unwrap();
    drop(db);
    keyspace.put("k", "1").unwrap();
    assert_eq!(
        velella::open(dir.path()).unwrap_err().kind(),
        ErrorKind::Locked
    );
    drop(keyspace);
    let db = velella::open(dir.path()).unwrap();
    assert_eq!(
        db.keyspace("other").unwrap().get("k").unwrap().unwrap(),
        "1"
    );
}

#[test]
fn a_snapshot_or_an_iterator_that_is_the_last_handle_closes() {
    let dir = tempfile::tempdir().unwrap();
    let is_locked = || {
        let error = velella::open(dir.path()).unwrap_err();
        error.kind() == ErrorKind::Locked
    };
    let db = velella::open(dir.path()).unwrap();
    db.put("k", "1").unwrap();
    let (snapshot, mut iter) = (db.snapshot(), db.iter().unwrap());
    drop(db);
    assert!(iter.step().unwrap() && is_locked());
    drop(iter);
    assert!(is_locked());
    drop(snapshot);
    let db = velella::open(dir.path()).unwrap();
    let mut iter = db.iter().unwrap();
    drop(db);
    assert!(iter.step().unwrap() && is_locked());
    drop(iter);
    assert_eq!(
        velella::open(dir.path())
            .unwrap()
            .get("k")
            .unwrap()
            .unwrap(),
        "1"
    );
}

/// Bytes written and syncs of an opening, a get and a close.
fn price_of_a_get(fs: &velella::vfs::MemFs) -> (u64, u64) {
    use velella::vfs::{Operation, TraceFs};
    let trace = TraceFs::counting(std::sync::Arc::new(fs.clone()));
    let vfs = std::sync::Arc::new(trace.clone());
    let db = Db::builder().vfs(vfs).open("/db").unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    db.close().unwrap();
    let syncs = [Operation::SyncData, Operation::SyncAll, Operation::SyncDir];
    (
        trace.count(Operation::Write).bytes,
        syncs.iter().map(|sync| trace.count(*sync).calls).sum(),
    )
}

#[test]
fn to_open_look_and_close_costs_no_whole_segment_and_a_dozen_syncs() {
    let fs = velella::vfs::MemFs::new();
    let db = Db::builder()
        .vfs(std::sync::Arc::new(fs.clone()))
        .open("/db")
        .unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    // On a machine that stands still in between, whole segments are begun: the best of some.
    let prices = (0..20).map(|_| price_of_a_get(&fs));
    let (bytes, syncs) = prices.min().unwrap();
    assert!(bytes < 2 << 20, "{bytes} bytes");
    assert!(syncs <= 12, "{syncs} syncs");
}
