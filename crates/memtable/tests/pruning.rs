//! A key that is overwritten for ever takes no more memory than its first few hundred versions.
//!
//! Alone in its process: another test's pinned thread would keep pruned versions from reuse.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use velella_base::{Order, Stamp, ValueKind};
use velella_memtable::{
    Counters, GUARD_BYTES, Install, Intent, MemtableKind, MemtableOptions, Owner, new,
};
use velella_mvcc::{Clock, Retention, Slots};
use velella_sync::epoch;

#[test]
fn overwrites_stay_bounded() {
    for kind in [MemtableKind::Jellyfish, MemtableKind::S3] {
        overwrites_of(kind);
    }
}

fn overwrites_of(kind: MemtableKind) {
    let counters = Arc::new(Counters::default());
    let table = new(&MemtableOptions {
        kind,
        order: Order::Bytewise,
        slots: Arc::new(Slots::new(1)),
        counters: Arc::clone(&counters),
        guard_bytes: GUARD_BYTES,
        keys: 0,
        spare: Arc::default(),
    });
    let clock = Clock::new(Stamp::ZERO, Stamp::MAX);
    let (warm, rounds) = if cfg!(miri) {
        (300, 900)
    } else {
        (5_000, 200_000)
    };
    let mut bytes = 0;
    for round in 0..rounds {
        {
            let guard = epoch::pin();
            // Lengths of one size class find each other's blocks again.
            let value = vec![7; 97 + round % 7];
            let intent = Intent {
                key: b"hot",
                kind: ValueKind::Put,
                payload: [&value, b""],
            };
            let is_long = match table.install(&intent, Owner::Slot(0), None, &guard) {
                Install::Installed(pending) => pending.publish(clock.draw()),
                other => panic!("nobody else writes: {other:?}"),
            };
            if is_long {
                table.prune(b"hot", &Retention::newest_only(), &guard);
                epoch::flush();
            }
        }
        if round == warm {
            bytes = table.bytes();
        }
    }
    let pruned = counters.pruned.sum();
    assert!(pruned + 200 > rounds as u64, "{kind:?}: {pruned} pruned");
    assert_eq!(table.bytes(), bytes, "pruned versions are not reused");
}
