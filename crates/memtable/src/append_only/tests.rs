//! The contract, run on this kind, with seeks after few steps and without.

use super::{AppendOnly, RESEEK_AFTER};
use crate::spare::Supply;
use std::sync::Arc;

#[test]
fn append_only_keeps_the_contract() {
    for reseek_after in [Some(RESEEK_AFTER), Some(1), None] {
        crate::contract::run(&|order, slots| {
            Arc::new(AppendOnly::new(
                order,
                slots,
                &Supply::default(),
                reseek_after,
            ))
        });
    }
}
