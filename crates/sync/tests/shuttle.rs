//! The door's own parts under random schedules; reclamation only here, since loom frees nothing.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p velella-sync --test shuttle --profile models`.
#![cfg(shuttle)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod models;

use velella_sync::model::{fails, holds};

#[test]
fn no_wake_up_is_lost() {
    holds("sync/wake_up", 2_000, || models::wake_up(false));
    fails("sync/wake_up", 2_000, || models::wake_up(true));
}

#[test]
fn an_entry_has_one_holder() {
    holds("sync/check_out", 2_000, || models::check_out(false));
    fails("sync/check_out", 2_000, || models::check_out(true));
}

#[test]
fn a_replaced_object_outlives_its_readers() {
    holds("sync/replace", 2_000, || models::replace(false));
    fails("sync/replace", 2_000, || models::replace(true));
}
