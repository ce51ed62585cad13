//! The contract, run on this kind, with seeks after few steps and without.

use super::{AppendOnly, RESEEK_AFTER};
use crate::spare::Supply;
use std::sync::Arc;

#[test]
fn append_only_keeps_the_contract() {
    // An interpreter gets the one that seeks most.
    let all = [Some(1), Some(RESEEK_AFTER), None];
    for reseek_after in &all[..if cfg!(miri) { 1 } else { 3 }] {
        crate::contract::run(&|order, slots| {
            Arc::new(AppendOnly::new(
                order,
                slots,
                &Supply::default(),
                *reseek_after,
            ))
        });
    }
}
