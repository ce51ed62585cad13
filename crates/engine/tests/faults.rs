//! Every call to the file system fails once: an error that says so, and nothing promised is lost.
//!
//! One run fails the k-th call of an operation, for k = 1, 2, … until a run ends before its fault
//! came; with each fault that the operation can meet, under each journal. A sync that fails loses
//! pages. The workload begins with a new database: faults in recovery, and of other workloads, are
//! the campaign `faults` of velella-reliability.
//! Claims: docs/consistency.md, "When something fails".

use crate::common::log::{Stores, Written, assert_kept, assert_prefix, is_fault};
use crate::common::{on, tiny, try_on};
use std::sync::Arc;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::{FaultFs, MemFs, Operation};
use velella::{ErrorKind, JournalMode, Result, Stamp, WriteOptions};
use velella_testkit::Watchdog;

/// Calls that each fault met at least, far fewer than there are: a sweep that stops early is none.
const FAILED_MIN: usize = 50;

/// A little of everything; every acknowledged write is noted.
fn work(stores: &Stores, writes: &mut Vec<Written>) -> Result<()> {
    let [one, two] = &stores.keyspaces;
    let mut note = |stamp, number: u8, key: &str, value: Option<&[u8]>| {
        let place = (number, key.as_bytes().to_vec());
        writes.push(Written {
            stamp,
            changes: vec![(place, value.map(<[u8]>::to_vec))],
        });
    };
    note(one.put("a", "1")?, 0, "a", Some(b"1"));
    note(
        two.put_with("b", "2", WriteOptions::sync())?,
        1,
        "b",
        Some(b"2"),
    );
    let large = vec![7; (1 << 20) + 1];
    note(one.put("large", &large)?, 0, "large", Some(&large));
    one.flush()?;
    note(one.delete("a")?, 0, "a", None);
    note(two.put("c", "3")?, 1, "c", Some(b"3"));
    stores.db.compact()?;
    note(one.put("large", "small")?, 0, "large", Some(b"small"));
    stores
        .db
        .create_keyspace("short", Default::default())?
        .put("x", "y")?;
    stores.db.drop_keyspace("short")?;
    note(one.put("d", "4")?, 0, "d", Some(b"4"));
    stores.db.compact()?;
    stores.db.verify()?;
    stores.db.close()
}

/// One run; whether the fault came.
fn run(mode: JournalMode, rule: impl Fn(u64) -> Rule, k: u64) -> bool {
    let mem = MemFs::new();
    let faulty = FaultFs::over_mem(&mem);
    faulty.inject(rule(k));
    let mut writes = Vec::new();
    let what = format!("{mode:?}, {:?}", rule(k));
    let opened = try_on(Arc::new(faulty.clone()), tiny().journal(mode)).and_then(Stores::of);
    let (outcome, durable) = match opened {
        Err(error) => (Err(error), Stamp::ZERO),
        Ok(stores) => {
            let outcome = work(&stores, &mut writes);
            // Reads go on whatever happened, unless it was closed.
            if let Err(error) = stores.keyspaces[0].get("a") {
                assert!(
                    matches!(error.kind(), ErrorKind::Closed) || is_typed(&error),
                    "{what}: {error}"
                );
            }
            (outcome, stores.db.durable())
        }
    };
    if let Err(error) = &outcome {
        assert!(is_typed(error), "{what}: {:?} {error}", error.kind());
    }
    let fired = faulty.fired() > 0;
    faulty.heal();
    let sync = what.contains("Sync");
    let stores = Stores::of(on(&mem, tiny())).unwrap();
    let what = format!("{what}, {outcome:?}, {:?}", stores.db.recovery());
    if sync && lost_external(&stores, &writes, durable) {
        return fired;
    }
    let state = stores.state();
    if mode == JournalMode::Off || sync {
        assert_prefix(
            &uncertain(&writes, &outcome, durable),
            &state,
            durable,
            &what,
        );
    } else {
        assert_kept(
            &uncertain(&writes, &outcome, durable),
            writes.len(),
            &state,
            &what,
        );
    }
    stores.db.put("afterwards", "1").unwrap();
    stores.db.verify().unwrap();
    fired
}

/// Whether the device lost a large value that was not durable yet: after a failed sync it may, and
/// then reading the value says so.
fn lost_external(stores: &Stores, writes: &[Written], durable: Stamp) -> bool {
    let Err(error) = stores.keyspaces[0].get("large") else {
        return false;
    };
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(
        error
            .file()
            .is_some_and(|file| file.extension().is_some_and(|ext| ext == "ext"))
    );
    let large = writes
        .iter()
        .find(|written| written.changes[0].0.1 == b"large");
    assert!(
        large.is_none_or(|large| large.stamp > durable),
        "it was durable: {error}"
    );
    true
}

fn is_typed(error: &velella::Error) -> bool {
    is_fault(error) || matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound)
}

/// The writes, and the one that failed, which may have happened or not.
fn uncertain(writes: &[Written], outcome: &Result<()>, durable: Stamp) -> Vec<Written> {
    let mut all = writes.to_vec();
    if outcome.is_err() {
        let large = vec![7; (1 << 20) + 1];
        let next: [(u8, &str, Option<&[u8]>); 7] = [
            (0, "a", Some(b"1")),
            (1, "b", Some(b"2")),
            (0, "large", Some(&large)),
            (0, "a", None),
            (1, "c", Some(b"3")),
            (0, "large", Some(b"small")),
            (0, "d", Some(b"4")),
        ];
        if let Some((number, key, value)) = next.get(writes.len()) {
            let last = writes.last().map_or(Stamp::ZERO, |last| last.stamp);
            let stamp = last.max(durable).next();
            let place = (*number, key.as_bytes().to_vec());
            all.push(Written {
                stamp,
                changes: vec![(place, value.map(<[u8]>::to_vec))],
            });
        }
    }
    all
}

/// Whether a call can meet a fault; one that it cannot meet would be an I/O error again.
fn can_meet(operation: Operation, fault: Fault) -> bool {
    use Operation::{
        Allocate, Append, Create, CreateDir, HardLink, Lock, Map, OpenRead, OpenWrite,
    };
    use Operation::{Read, ReadDir, Rename, Write};
    match fault {
        Fault::NoSpace => {
            let needs_room = [Allocate, Append, Create, CreateDir, HardLink, Rename, Write];
            operation.is_sync() || needs_room.contains(&operation)
        }
        Fault::TooManyFiles => {
            [Create, OpenRead, OpenWrite, ReadDir, Lock, Map].contains(&operation)
        }
        Fault::Short => [Read, Write, Append].contains(&operation),
        _ => true,
    }
}

/// Fails every call that can meet `fault`, one in each run, under each journal.
fn sweep(name: &'static str, fault: Fault) {
    let _watchdog = Watchdog::new(name, 500);
    let all = Operation::ALL.into_iter();
    let mut failed = 0;
    for operation in all.filter(|operation| can_meet(*operation, fault)) {
        for mode in [JournalMode::Auto, JournalMode::Write, JournalMode::Off] {
            let rule = |k| Rule::every(fault).of(operation).nth(k);
            failed += (1..).take_while(|k| run(mode, rule, *k)).count();
        }
    }
    println!("{fault:?}: {failed} calls failed");
    assert!(failed > FAILED_MIN, "{fault:?}: of only {failed} calls");
}

/// Of a sync too: then pages are lost as well.
#[test]
fn any_call_may_fail_with_an_io_error() {
    sweep("any_call_may_fail_with_an_io_error", Fault::Io);
}

#[test]
fn any_call_may_find_the_device_full() {
    sweep("any_call_may_find_the_device_full", Fault::NoSpace);
}

#[test]
fn any_call_may_be_interrupted() {
    sweep("any_call_may_be_interrupted", Fault::Interrupted);
}

#[test]
fn any_transfer_may_be_cut_short() {
    sweep("any_transfer_may_be_cut_short", Fault::Short);
}

#[test]
fn any_opening_may_lack_a_descriptor() {
    sweep("any_opening_may_lack_a_descriptor", Fault::TooManyFiles);
}

#[test]
fn a_full_disk_says_so_and_lets_go_once_there_is_room() {
    let _watchdog = Watchdog::new("a_full_disk", 200);
    let mem = MemFs::new();
    let db = on(&mem, tiny());
    // More than the segments that the journal prepares ahead, which may come first.
    mem.set_space_max(Some(mem.space_used() + (8 << 20)));
    let mut acknowledged = 0u32;
    let error = loop {
        match db.put(acknowledged.to_be_bytes(), vec![3; 20_000]) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::ReadOnly),
        "{error}"
    );
    assert!(acknowledged > 20, "{acknowledged}");
    for number in 0..acknowledged {
        assert!(db.contains(number.to_be_bytes()).unwrap());
    }
    drop(db);
    mem.set_space_max(None);
    let db = on(&mem, tiny());
    for number in 0..acknowledged {
        assert!(
            db.contains(number.to_be_bytes()).unwrap(),
            "{number} of {acknowledged}"
        );
    }
    db.put("room", "again").unwrap();
}
