//! Lanes against rounds and retention, in every interleaving and reordering up to a bound, on the
//! code as it is.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p velella-journal --test loom --release`.
//!
//! Each model runs with its roles placed in every way (see `velella_sync::model`) and has controls
//! that must fail.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod models;

use models::{Model, Spoilt};
use velella_journal::Site;
use velella_mvcc::ordering;
use velella_sync::model;

/// The model with each of its roles in the main thread, and with none there.
fn placements(this: Model, spoilt: Spoilt) -> Vec<model::Placement> {
    (0..=this.roles.len())
        .map(|main| Box::new(move || this.run(main, spoilt)) as _)
        .collect()
}

fn holds(this: Model, bound: usize) {
    model::holds_all(this.name, bound, placements(this, Spoilt::Nothing));
}

fn fails_with(this: Model, bound: usize, spoilt: Spoilt) {
    let name = format!("{}, {spoilt}", this.name);
    model::fails(&name, bound, placements(this, spoilt));
}

fn fails(this: Model, bound: usize, site: Site) {
    fails_with(this, bound, Spoilt::Site(site));
}

#[test]
fn a_round_covers_what_its_frontier_says_wherever_the_power_goes() {
    holds(models::LANE_ROUND, 3);
    fails(models::LANE_ROUND, 2, Site::SyncFirst);
    fails(models::LANE_ROUND, 2, Site::EndsLast);
    fails(models::LANE_ROUND, 2, Site::Tail);
    for window in [
        ordering::Site::Announce,
        ordering::Site::Idle,
        ordering::Site::Draw,
        ordering::Site::Now,
        ordering::Site::Announced,
    ] {
        fails_with(models::LANE_ROUND, 2, Spoilt::Window(window));
    }
}

#[test]
fn a_second_round_goes_on_where_the_first_ended() {
    holds(models::LANE_ROUNDS, 3);
    fails(models::LANE_ROUNDS, 3, Site::EndsLast);
}

#[test]
fn no_stamp_survives_without_a_lower_one_in_another_lane() {
    // Three roles at three preemptions: 204,562 executions in 62 s, and not through.
    holds(models::LANES_ROUND, 2);
    fails(models::LANES_ROUND, 2, Site::EndsLast);
}

#[test]
fn an_old_bound_does_not_lower_the_cut() {
    holds(models::STALE_BOUND, 3);
    fails(models::STALE_BOUND, 3, Site::SealFrontier);
}

#[test]
fn a_seal_excludes_only_what_it_could_have_covered() {
    holds(models::CLOSE_ROUND, 3);
    fails(models::CLOSE_ROUND, 3, Site::ExcludedEnd);
}

#[test]
fn a_lane_appends_while_its_past_is_given_back() {
    holds(models::RETENTION_APPEND, 3);
    fails(models::RETENTION_APPEND, 3, Site::EndsLast);
}

#[test]
fn nothing_is_let_go_of_before_its_round_completed() {
    holds(models::RETENTION_CUT, 3);
    fails(models::RETENTION_CUT, 3, Site::ExcludeLast);
}

#[test]
fn a_large_payload_is_synced_with_the_record_that_refers_to_it() {
    holds(models::LARGE_ROUND, 3);
    fails(models::LARGE_ROUND, 3, Site::LargeSynced);
}

#[test]
fn whoever_waits_for_d_wakes() {
    holds(models::WAITER, 3);
    fails(models::WAITER, 3, Site::Wake);
}

#[test]
fn whoever_waits_is_told_that_the_sync_failed() {
    let forgotten = Spoilt::Fault("a-failed-sync-is-forgotten");
    // Three roles at three preemptions: 335,444 executions, 82 s.
    for (model, bound) in [(models::FAILED_SYNC, 2), (models::FAILED_SYNC_WRITER, 3)] {
        holds(model, bound);
        fails(model, bound, Site::Stop);
        fails(model, bound, Site::SyncFirst);
        fails_with(model, bound, forgotten);
    }
    holds(models::FAILED_TURNS, 3);
    fails(models::FAILED_TURNS, 3, Site::Turn);
    fails(models::FAILED_TURNS, 3, Site::SyncFirst);
    fails_with(models::FAILED_TURNS, 3, forgotten);
}

#[test]
fn whoever_waits_for_its_turn_gets_it() {
    holds(models::TURN, 3);
    fails(models::TURN, 3, Site::Turn);
}
