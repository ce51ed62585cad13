//! What is given back leaves the process: arrays when they are dropped, and what is free between
//! small allocations, when that is asked for.
//!
//! Alone in its process, since it looks at the process's resident memory.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    not(any(loom, shuttle)),
    not(miri)
))]

use velella_sync::array::{Array, MAPPED_FROM};
use velella_sync::memory::give_back_free_pages;

const ALL: usize = 64 << 20;
/// What the process may hold besides; kernels count by processor, and add up late.
const SLACK: usize = ALL / 8;

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.expect("Linux reports VmRSS in kB") << 10
}

#[test]
fn what_is_given_back_leaves_the_process() {
    let before = resident();
    let taken = || resident().saturating_sub(before);

    let mut arrays: Vec<_> = (0..ALL / MAPPED_FROM)
        .map(|_| Array::filled(7_u8, MAPPED_FROM))
        .collect();
    assert!(taken() > ALL - SLACK, "{}", taken());
    // Every other one first: it is not the end of a heap that goes.
    let mut number = 0;
    arrays.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    assert!(taken() < ALL / 2 + SLACK, "{}", taken());
    drop(arrays);
    assert!(taken() < SLACK, "{}", taken());

    const SMALL: usize = 4 << 10;
    let mut small: Vec<_> = (0..ALL / SMALL).map(|_| Some(vec![7_u8; SMALL])).collect();
    for (number, allocation) in small.iter_mut().enumerate() {
        if number % 1000 != 999 {
            *allocation = None;
        }
    }
    assert!(taken() > ALL / 2, "they leave holes: {}", taken());
    give_back_free_pages();
    assert!(taken() < SLACK, "{}", taken());
    assert!(
        small
            .iter()
            .flatten()
            .all(|kept| kept.iter().all(|byte| *byte == 7))
    );
}
