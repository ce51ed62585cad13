//! Every call to the file system fails once: an error that says so, and nothing promised is lost.
//!
//! One run fails the k-th call, for k = 1, 2, … until a run ends before its fault came.
//! Claims: docs/consistency.md, "When something fails".

mod common;

use common::log::{Stores, Written, assert_kept, assert_prefix, is_fault};
use common::{on, tiny, try_on};
use std::sync::Arc;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::{FaultFs, MemFs, Operation};
use velella::{ErrorKind, JournalMode, Result, Stamp, WriteOptions};
use velella_testkit::Watchdog;

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

fn sweep(mode: JournalMode, step: u64, rule: impl Fn(u64) -> Rule) {
    for k in (1..).step_by(usize::try_from(step).unwrap()) {
        if !run(mode, &rule, k) {
            return;
        }
    }
}

#[test]
fn any_call_may_fail_with_an_io_error() {
    let _watchdog = Watchdog::new("any_call_may_fail_with_an_io_error", 500);
    for operation in Operation::ALL {
        if operation.is_sync() || operation == Operation::Lock {
            continue;
        }
        sweep_if_called(JournalMode::Auto, operation, Fault::Io);
    }
}

#[test]
fn any_call_may_find_the_device_full() {
    let _watchdog = Watchdog::new("any_call_may_find_the_device_full", 500);
    for operation in [
        Operation::Create,
        Operation::Write,
        Operation::Append,
        Operation::Allocate,
    ] {
        sweep_if_called(JournalMode::Auto, operation, Fault::NoSpace);
        sweep_if_called(JournalMode::Write, operation, Fault::Short);
    }
}

#[test]
fn any_sync_may_fail() {
    let _watchdog = Watchdog::new("any_sync_may_fail", 500);
    for operation in Operation::ALL
        .into_iter()
        .filter(|operation| operation.is_sync())
    {
        for mode in [JournalMode::Auto, JournalMode::Write, JournalMode::Off] {
            sweep_if_called(mode, operation, Fault::Io);
        }
    }
}

/// Sweeps over the calls of one operation; fewer of those that are many.
fn sweep_if_called(mode: JournalMode, operation: Operation, fault: Fault) {
    let first = run(mode, |k| Rule::every(fault).of(operation).nth(k), 1);
    if first {
        let step = if operation == Operation::Read { 5 } else { 1 };
        sweep(mode, step, |k| Rule::every(fault).of(operation).nth(k + 1));
    }
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
