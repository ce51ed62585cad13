//! The process stays near its one memory budget while much more than that passes through it.
//!
//! A test binary of its own: it looks at the resident memory of the whole process.

#![cfg(target_os = "linux")]

use velella::Db;

const BUDGET: u64 = 64 << 20;

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
fn memory_stays_within_its_budget() {
    let dir = tempfile::tempdir().unwrap();
    let before = resident();
    let db = Db::builder().memory(BUDGET).open(dir.path()).unwrap();
    let mut most = 0;
    for turn in 0..1_000_000u64 {
        let key = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        db.put(key, [7; 100]).unwrap();
        if turn % 10_000 == 0 {
            most = most.max(resident() - before);
            db.get(key).unwrap();
        }
    }
    for pair in db.iter().unwrap() {
        pair.unwrap();
    }
    most = most.max(resident() - before);
    // Memtables alone would be four times the budget if they stayed.
    assert!(
        most <= BUDGET + BUDGET / 5,
        "{} MiB of {}",
        most >> 20,
        BUDGET >> 20
    );
    db.close().unwrap();
}
