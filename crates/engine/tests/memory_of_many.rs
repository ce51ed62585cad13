//! The process stays near its one memory budget, also with many keyspaces and several writers.
//!
//! A test binary of its own: it looks at the resident memory of the whole process.

#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicU64, Ordering};
use velella::{Db, Keyspace};

const BUDGET: u64 = 64 << 20;
const KEYSPACES: u64 = 16;
const WRITERS: u64 = 2;

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn memory_stays_within_its_budget_over_many_keyspaces() {
    let dir = tempfile::tempdir().unwrap();
    let before = resident();
    let db = Db::builder().memory(BUDGET).open(dir.path()).unwrap();
    let keyspaces: Vec<Keyspace> = (0..KEYSPACES)
        .map(|name| db.keyspace_or_create(&name.to_string()).unwrap())
        .collect();
    let most = AtomicU64::new(0);
    let write = |writer: u64| {
        for turn in 0..400_000u64 {
            let number = turn * WRITERS + writer;
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let keyspace = &keyspaces[usize::try_from(turn % KEYSPACES).unwrap()];
            keyspace.put(key, [7; 100]).unwrap();
            if turn % 5_000 == 0 {
                most.fetch_max(resident().saturating_sub(before), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let write = &write;
        for writer in 0..WRITERS {
            scope.spawn(move || write(writer));
        }
    });
    let most = most.into_inner();
    // Memtables alone would be over twice the budget if they stayed.
    assert!(
        most <= BUDGET + BUDGET / 5,
        "{} MiB of {}",
        most >> 20,
        BUDGET >> 20
    );
    db.close().unwrap();
}
