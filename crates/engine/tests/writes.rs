//! Single writes: stamps, durability classes, and every way to keep the journal.
//!
//! Claims: `Keyspace`'s writes; docs/consistency.md, "Durability".

use crate::common::{INLINE_BYTES, alone, contents, counter, fresh, on, tiny, try_on, until};
use std::sync::Arc;
use std::time::{Duration, Instant};
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation};
use velella::{Durability, ErrorKind, JournalMode, Stamp, WriteBatch, WriteOptions};
use velella_testkit::{Watchdog, patience};

#[test]
fn stamps_rise_with_every_write_and_across_openings() {
    let fs = MemFs::new();
    let mut last = Stamp::ZERO;
    for _ in 0..3 {
        let db = on(&fs, tiny());
        for number in 0..50u8 {
            let stamp = if number % 3 == 0 {
                db.delete([number])
            } else {
                db.put([number], "v")
            };
            let stamp = stamp.unwrap();
            assert!(stamp > last, "{stamp} after {last}");
            last = stamp;
        }
        db.close().unwrap();
    }
}

#[test]
fn a_sync_write_is_durable_when_it_returns_and_covers_all_before_it() {
    let db = fresh();
    let buffered = db.put("a", "1").unwrap();
    let sync = db.put_with("b", "2", WriteOptions::sync()).unwrap();
    assert!(db.durable() >= sync && sync > buffered);
    let group = WriteOptions {
        durability: Some(Durability::Group(Duration::from_millis(1))),
    };
    let grouped = db.delete_with("a", group).unwrap();
    assert!(db.durable() >= grouped);
    let last = db.put("c", "3").unwrap();
    assert!(db.persist().unwrap() >= last);
    let waited = db.put("d", "4").unwrap();
    db.wait_durable(waited).unwrap();
    assert!(db.durable() >= waited);
}

#[test]
fn the_default_durability_is_the_databases() {
    let db = on(&MemFs::new(), tiny().durability(Durability::Sync));
    let stamp = db.put("a", "1").unwrap();
    assert!(db.durable() >= stamp);
}

#[test]
fn waiting_for_a_stamp_nobody_has_is_refused() {
    let db = fresh();
    let stamp = db.put("a", "1").unwrap();
    let error = db.wait_durable(Stamp(stamp.0 + 1_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// How many rounds 160 writes of eight threads take.
fn rounds_of_shared_writes() -> u64 {
    let mem = MemFs::new();
    let slow = FaultFs::over_mem(&mem);
    let db = try_on(Arc::new(slow.clone()), tiny()).unwrap();
    slow.inject(Rule::every(Fault::Delay(Duration::from_millis(2))).of(Operation::SyncMap));
    let before = db.stats().journal.rounds;
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let db = &db;
            scope.spawn(move || {
                for number in 0..20u8 {
                    let stamp = db
                        .put_with([thread, number], "v", WriteOptions::sync())
                        .unwrap();
                    assert!(db.durable() >= stamp);
                }
            });
        }
    });
    db.stats().journal.rounds - before
}

#[test]
fn threads_that_go_on_writing_share_every_round_and_not_every_other() {
    let _watchdog = Watchdog::new("threads_that_go_on_writing", 120);
    // A busy machine may keep threads from coming in time; twenty are the least, forty every other.
    let limit = patience(Duration::from_secs(100));
    let (started, mut tries) = (Instant::now(), Vec::new());
    while tries.last().is_none_or(|rounds| *rounds > 30) {
        assert!(started.elapsed() < limit, "{tries:?}");
        tries.push(rounds_of_shared_writes());
    }
}

#[test]
fn flushes_have_no_threads_started_to_sync_for_them() {
    let _watchdog = Watchdog::new("flushes_sync_alone", 120);
    let db = fresh();
    for number in 0..3_000u32 {
        db.put(number.to_be_bytes(), vec![1; 1_000]).unwrap();
    }
    until(|| counter(&db, "flushes") > 3);
    let journal = db.stats().journal;
    assert!(
        journal.syncs > journal.rounds,
        "each has one file: {journal:?}"
    );
    assert_eq!(journal.sync_threads, 0, "{journal:?}");
}

#[test]
fn every_journal_mode_keeps_what_was_closed() {
    for mode in [
        JournalMode::Auto,
        JournalMode::Mapped,
        JournalMode::Write,
        JournalMode::Off,
    ] {
        let fs = MemFs::new();
        let db = on(&fs, tiny().journal(mode));
        for number in 0..500u32 {
            db.put(number.to_be_bytes(), vec![1; 300]).unwrap();
        }
        db.close().unwrap();
        assert_eq!(db.put("late", "").unwrap_err().kind(), ErrorKind::Closed);
        drop(db);
        let db = on(&fs, tiny());
        assert_eq!(contents(&db).len(), 500, "{mode:?}");
        db.verify().unwrap();
    }
}

#[test]
fn a_file_system_unfit_for_mapping_gets_the_write_journal() {
    let fs = MemFs::new();
    fs.set_maps_well(false);
    let db = on(&fs, tiny());
    assert_eq!(db.stats().journal.access, "write");
    let stamp = db.put_with("a", "1", WriteOptions::sync()).unwrap();
    assert!(db.durable() >= stamp);
    let mapped = on(&MemFs::new(), tiny());
    assert_eq!(mapped.stats().journal.access, "mapped");
}

#[test]
fn without_a_journal_a_sync_write_is_in_tables() {
    let fs = MemFs::new();
    let db = on(&fs, tiny().journal(JournalMode::Off));
    let other = db.create_keyspace("other", Default::default()).unwrap();
    other.put("b", "2").unwrap();
    let stamp = db.put_with("a", "1", WriteOptions::sync()).unwrap();
    assert!(db.durable() >= stamp);
    let after = fs.crash(1, CrashMode::Strict);
    let db = on(&after, tiny().journal(JournalMode::Off));
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    assert_eq!(
        db.keyspace("other").unwrap().get("b").unwrap().unwrap(),
        "2"
    );
}

#[test]
fn without_a_journal_the_watermark_reaches_what_was_seen() {
    let fs = MemFs::new();
    let db = on(&fs, tiny().journal(JournalMode::Off));
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    assert!(db.durable() >= db.snapshot().stamp());
    // A creation takes a stamp and leaves nothing to flush.
    db.create_keyspace("other", Default::default()).unwrap();
    assert!(db.persist().unwrap() >= db.snapshot().stamp());
}

#[test]
fn without_a_journal_the_cut_tells_what_was_lost() {
    let fs = MemFs::new();
    let db = on(&fs, alone().journal(JournalMode::Off));
    assert_eq!(db.recovery().cut, Stamp::MAX, "it is new");
    let kept = db.put("a", "1").unwrap();
    db.flush().unwrap();
    let lost = db.put("b", "2").unwrap();
    let off = alone().journal(JournalMode::Off);
    let db = on(&fs.crash(1, CrashMode::KeepAll), off);
    let cut = db.recovery().cut;
    assert!(kept <= cut && cut < lost, "{kept} <= {cut} < {lost}");
    assert_eq!(db.get("b").unwrap(), None);
}

#[test]
fn a_failed_sync_poisons_and_reads_go_on() {
    let mem = MemFs::new();
    let faulty = FaultFs::over_mem(&mem);
    let db = try_on(Arc::new(faulty.clone()), tiny()).unwrap();
    db.put("a", "1").unwrap();
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncMap));
    let error = db.put_with("b", "2", WriteOptions::sync()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(db.get("b").unwrap().unwrap(), "2", "it can be read already");
    faulty.heal();
    let error = db.put("c", "3").unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::ReadOnly,
        "it is never tried again: {error}"
    );
    assert!(
        error.to_string().contains("open"),
        "says what to do: {error}"
    );
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
    assert_eq!(db.iter().unwrap().count(), 2);
}

#[test]
fn only_the_write_that_failed_has_an_unknown_outcome() {
    let mem = MemFs::new();
    let faulty = FaultFs::over_mem(&mem);
    let written = alone().journal(JournalMode::Write);
    let db = try_on(Arc::new(faulty.clone()), written).unwrap();
    db.put("a", "1").unwrap();
    let files = mem.files();
    faulty.inject(Rule::every(Fault::Io).of(Operation::Write));
    let error = db.put("b", "2").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    faulty.heal();
    let error = db.put("c", [7; INLINE_BYTES + 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    let mut batch = WriteBatch::new();
    batch.put(&db, "d", "4");
    batch.put(&db, "e", [7; INLINE_BYTES + 1]);
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert_eq!(mem.files(), files, "nothing is left of what was refused");
}
