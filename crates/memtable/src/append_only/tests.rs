//! The contract, run on this kind, with seeks after few steps and without.

use super::{AppendOnly, RESEEK_AFTER};
use crate::counters::Counters;
use std::sync::Arc;

#[test]
fn append_only_keeps_the_contract() {
    for reseek_after in [Some(RESEEK_AFTER), Some(1), None] {
        crate::contract::run(&|order, slots| {
            let counters = Arc::new(Counters::default());
            Arc::new(AppendOnly::new(order, slots, counters, reseek_after))
        });
    }
}
