//! A freed memtable's memory goes back to the operating system: otherwise a store that stays
//! within its budget by its own count would not by the machine's.
//!
//! Alone in its process, since it looks at the process's resident memory.
#![cfg(all(target_os = "linux", not(any(loom, shuttle)), not(miri)))]

use std::sync::Arc;
use velella_base::{Order, Stamp, ValueKind};
use velella_memtable::{
    Counters, GuardOptions, Install, Intent, Memtable, MemtableKind, MemtableOptions, Owner, new,
};
use velella_mvcc::{Clock, Slots};
use velella_sync::epoch;

const MIB: usize = 1 << 20;

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.expect("Linux reports VmRSS in kB") << 10
}

fn empty(kind: MemtableKind) -> Arc<dyn Memtable> {
    new(&MemtableOptions {
        kind,
        order: Order::Bytewise,
        slots: Arc::new(Slots::new(1)),
        counters: Arc::new(Counters::default()),
        guards: GuardOptions::default(),
        keys: 0,
        spare: Arc::default(),
    })
}

/// Fills the tables in turns until each has taken at least `bytes`.
fn fill(tables: &[Arc<dyn Memtable>], bytes: usize) {
    let clock = Clock::new(Stamp::ZERO, Stamp::MAX);
    for number in 0u64.. {
        let guard = epoch::pin();
        let intent = Intent {
            key: &number.to_be_bytes(),
            kind: ValueKind::Put,
            payload: [&[7; 100], b""],
        };
        for table in tables {
            match table.install(&intent, Owner::Slot(0), None, &guard) {
                Install::Installed(pending) => pending.publish(clock.draw()),
                other => panic!("nobody else writes: {other:?}"),
            };
        }
        if tables.iter().all(|table| table.bytes() >= bytes) {
            return;
        }
    }
}

#[test]
fn a_freed_memtable_gives_its_memory_back() {
    for kind in MemtableKind::ALL {
        // An allocator learns from the first generation that such sizes come again, and keeps
        // them from then on.
        fill(&[empty(kind)], 96 * MIB);
        let before = resident();
        let mut tables = vec![empty(kind), empty(kind)];
        fill(&tables, 96 * MIB);
        let full = resident();
        assert!(full > before + 160 * MIB, "{kind:?}: {before} to {full}");
        tables.truncate(1);
        let freed = full.saturating_sub(resident());
        assert!(
            freed > 80 * MIB,
            "{kind:?}: {} of 96 MiB were freed",
            freed / MIB
        );
    }
}
