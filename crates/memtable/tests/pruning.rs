//! A key that is overwritten for ever takes no more memory than its first few hundred versions.
//!
//! Alone in its process: another test's pinned thread would keep pruned versions from reuse.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use velella_base::{Order, Stamp, ValueKind};
use velella_memtable::{
    Counters, GuardOptions, Install, Intent, MemtableKind, MemtableOptions, Owner, new,
};
use velella_mvcc::{Clock, Retention, Slots};
use velella_sync::epoch;

#[test]
fn overwrites_stay_bounded() {
    for kind in [MemtableKind::Jellyfish, MemtableKind::S3] {
        if cfg!(miri) {
            overwrites_of(kind, 100, 900, 80 << 10);
        } else {
            overwrites_of(kind, 100, 200_000, 2 << 20);
            // Of these, what one thread defers before others see it would be 80 MiB.
            overwrites_of(kind, 40 << 10, 4_000, 16 << 20);
        }
    }
}

/// Overwrites one key so often with values of about `len` bytes, in a memtable of at most `most`.
fn overwrites_of(kind: MemtableKind, len: usize, rounds: usize, most: usize) {
    let counters = Arc::new(Counters::default());
    let table = new(&MemtableOptions {
        kind,
        order: Order::Bytewise,
        slots: Arc::new(Slots::new(1)),
        counters: Arc::clone(&counters),
        guards: GuardOptions::default(),
        keys: 0,
        spare: Arc::default(),
    });
    let clock = Clock::new(Stamp::ZERO, Stamp::MAX);
    for round in 0..rounds {
        {
            let guard = epoch::pin();
            // Lengths of one size class find each other's blocks again.
            let value = vec![7; len - round % 7];
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
                if cfg!(miri) {
                    // So few would all wait for more of them.
                    epoch::flush();
                }
            }
        }
    }
    let pruned = counters.pruned.sum();
    assert!(pruned + 200 > rounds as u64, "{kind:?}: {pruned} pruned");
    let bytes = table.bytes();
    assert!(bytes < most, "{kind:?}: {bytes} bytes of values of {len}");
}
