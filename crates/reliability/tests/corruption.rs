//! The campaign `corruption`, small: a share of its first pass.

mod common;

use velella_reliability::campaigns::corruption::Corruption;
use velella_sync::allocations::{Counting, peak_bytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_damage_gives_a_wrong_answer() {
    common::holds(Corruption::default(), 1, 12);
}

#[test]
fn accepting_losses_is_noticed() {
    common::is_reported(Corruption::accepting_loss(), 400);
}

/// Control: what an opening that believed a length would take is counted.
#[test]
fn memory_is_counted_while_it_is_held() {
    let (len, bytes) = peak_bytes(|| {
        drop(vec![0u8; 30 << 20]);
        vec![0u8; 40 << 20].len()
    });
    assert_eq!(len, 40 << 20);
    assert!((40 << 20..41 << 20).contains(&bytes), "{bytes}");
}
