//! What a freed memtable leaves behind serves the next one, and is never more than was asked for.
#![cfg(not(any(loom, shuttle, miri)))]

use std::sync::{Arc, Barrier};
use velella_base::{Order, Stamp, ValueKind};
use velella_memtable::{
    Counters, GuardOptions, Install, Intent, Memtable, MemtableKind, MemtableOptions, OnPending,
    Owner, ReadAt, Spare, new,
};
use velella_mvcc::{Clock, Retention, Slots};
use velella_sync::epoch;

const MIB: usize = 1 << 20;
const NEWEST: ReadAt = ReadAt {
    stamp: Stamp::MAX,
    pending: OnPending::Skip,
};

/// A memtable of at least `bytes` with values of `value` bytes, and how many keys that took.
fn filled(
    kind: MemtableKind,
    spare: &Arc<Spare>,
    bytes: usize,
    value: usize,
) -> (Arc<dyn Memtable>, u64) {
    let value = vec![7; value];
    let table = new(&MemtableOptions {
        kind,
        order: Order::Bytewise,
        slots: Arc::new(Slots::new(1)),
        counters: Arc::new(Counters::default()),
        guards: GuardOptions::default(),
        keys: 0,
        spare: Arc::clone(spare),
    });
    let clock = Clock::new(Stamp::ZERO, Stamp::MAX);
    let mut number = 0u64;
    while table.bytes() < bytes {
        let guard = epoch::pin();
        let key = number.to_be_bytes();
        table.prefetch(&key, &guard);
        let intent = Intent {
            key: &key,
            kind: ValueKind::Put,
            payload: [&key, &value],
        };
        match table.install(&intent, Owner::Slot(0), None, &guard) {
            Install::Installed(pending) => pending.publish(clock.draw()),
            other => panic!("nobody else writes: {other:?}"),
        };
        number += 1;
    }
    (table, number)
}

#[test]
fn a_freed_memtable_leaves_its_chunks_to_the_next_which_reads_what_it_wrote() {
    for kind in MemtableKind::ALL {
        let spare = Arc::new(Spare::new(4 * MIB));
        let (table, _) = filled(kind, &spare, 24 * MIB, 400);
        assert_eq!(spare.bytes(), 0, "{kind:?}: all of it is in use");
        drop(table);
        let kept = spare.bytes();
        assert!(
            (2 * MIB + 1..=4 * MIB).contains(&kept),
            "{kind:?}: {kept}, no more than was asked for, and no chunk less"
        );
        let (table, keys) = filled(kind, &spare, 24 * MIB, 400);
        assert_eq!(spare.bytes(), 0, "{kind:?}: it serves the next");
        let guard = epoch::pin();
        for number in 0..keys {
            let key = number.to_be_bytes();
            let found = table.get(&key, NEWEST, &guard);
            let expected = [&key[..], &[7; 400]].concat();
            assert_eq!(
                found.map(|found| found.value),
                Some(&expected[..]),
                "{kind:?}"
            );
        }
    }
}

#[test]
fn what_a_quiet_thread_pruned_keeps_no_memory() {
    for kind in MemtableKind::ALL {
        let spare = Arc::new(Spare::new(64 * MIB));
        let (table, _) = filled(kind, &spare, 24 * MIB, 400);
        let (pruned, quiet) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            let shared = Arc::clone(&table);
            let (pruned, quiet) = (&pruned, &quiet);
            let thread = scope.spawn(move || {
                let dropped = overwrite_and_prune(&*shared);
                drop(shared);
                pruned.wait();
                quiet.wait();
                dropped
            });
            pruned.wait();
            let used = spare.bytes();
            drop(table);
            let kept = spare.bytes();
            quiet.wait();
            let dropped = thread.join().unwrap();
            assert_eq!(used, 0, "{kind:?}: all of it is in use");
            assert_eq!(dropped > 0, kind != MemtableKind::AppendOnly, "{kind:?}");
            assert!(kept > 20 * MIB, "{kind:?}: {kept}");
        });
    }
}

/// Overwrites a key until a pruning is due, and says how many versions that drops.
fn overwrite_and_prune(table: &dyn Memtable) -> usize {
    let clock = Clock::new(Stamp(1 << 40), Stamp::MAX);
    let key = 0u64.to_be_bytes();
    for round in 0..100u64 {
        let guard = epoch::pin();
        let intent = Intent {
            key: &key,
            kind: ValueKind::Put,
            payload: [&round.to_be_bytes(), b""],
        };
        match table.install(&intent, Owner::Slot(0), None, &guard) {
            Install::Installed(pending) => pending.publish(clock.draw()),
            other => panic!("nobody else writes: {other:?}"),
        };
    }
    table.prune(&key, &Retention::newest_only(), &epoch::pin())
}

#[test]
fn the_index_of_a_freed_memtable_leaves_its_large_tables_cleared() {
    let spare = Arc::new(Spare::new(64 * MIB));
    let (table, keys) = filled(MemtableKind::Jellyfish, &spare, 40 * MIB, 8);
    drop(table);
    let kept = spare.bytes();
    assert!(
        !kept.is_multiple_of(2 * MIB),
        "tables are a little larger than chunks"
    );
    let (table, again) = filled(MemtableKind::Jellyfish, &spare, 40 * MIB, 8);
    assert_eq!(keys, again);
    assert!(
        spare.bytes() < 2 * MIB,
        "{} of {kept} are left",
        spare.bytes()
    );
    let guard = epoch::pin();
    let found = |number: u64| table.get(&number.to_be_bytes(), NEWEST, &guard).is_some();
    assert!((0..keys).all(found));
    assert!(
        !(keys..2 * keys).any(found),
        "what the last one left is gone"
    );
}
