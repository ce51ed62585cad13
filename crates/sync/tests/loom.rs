//! The door's own parts in every interleaving and reordering.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p velella-sync --test loom --release`.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod models;

use velella_sync::model::{fails, holds};

#[test]
fn no_wake_up_is_lost() {
    holds("sync/wake_up", 3, || models::wake_up(false));
    fails(
        "sync/wake_up",
        3,
        vec![Box::new(|| models::wake_up(true)) as _],
    );
}

#[test]
fn an_entry_has_one_holder() {
    holds("sync/check_out", 3, || models::check_out(false));
    fails(
        "sync/check_out",
        3,
        vec![Box::new(|| models::check_out(true)) as _],
    );
}
