//! The same models, and larger ones, under random schedules and PCT; orderings are loom's business.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p velella-journal --test shuttle --profile models`.
#![cfg(shuttle)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod models;

use models::{Model, Spoilt};
use velella_journal::Site;
use velella_sync::model;

const SCHEDULES: usize = 1_000;

fn holds(this: Model, schedules: usize) {
    let run = move || this.run(usize::MAX, Spoilt::Nothing);
    model::holds(this.name, schedules, run);
}

fn fails_with(this: Model, spoilt: Spoilt) {
    let name = format!("{}, {spoilt}", this.name);
    model::fails(&name, SCHEDULES, move || this.run(usize::MAX, spoilt));
}

fn fails(this: Model, site: Site) {
    fails_with(this, Spoilt::Site(site));
}

#[test]
fn lanes_rounds_retention_and_waiters_together() {
    holds(models::ALL_TOGETHER, 500);
    fails(models::ALL_TOGETHER, Site::SyncFirst);
    fails(models::ALL_TOGETHER, Site::EndsLast);
    fails(models::ALL_TOGETHER, Site::Wake);
}

#[test]
fn the_small_models_as_well() {
    for (model, site) in [
        (models::LANE_ROUND, Site::SyncFirst),
        (models::LANE_ROUNDS, Site::EndsLast),
        (models::LANES_ROUND, Site::EndsLast),
        (models::STALE_BOUND, Site::SealFrontier),
        (models::CLOSE_ROUND, Site::ExcludedEnd),
        (models::RETENTION_CUT, Site::ExcludeLast),
        (models::LARGE_ROUND, Site::LargeSynced),
        (models::WAITER, Site::Wake),
    ] {
        holds(model, SCHEDULES);
        fails(model, site);
    }
}

#[test]
fn whoever_waits_is_told_that_the_sync_failed() {
    for (model, site) in [
        (models::FAILED_SYNC, Site::Stop),
        (models::FAILED_SYNC_WRITER, Site::Stop),
        (models::FAILED_TURNS, Site::Turn),
    ] {
        holds(model, SCHEDULES);
        fails(model, site);
        fails(model, Site::SyncFirst);
        fails_with(model, Spoilt::Fault("a-failed-sync-is-forgotten"));
    }
}

#[test]
fn whoever_waits_for_its_turn_gets_it_however_the_round_before_ends() {
    for model in [models::TURN, models::TURN_AFTER_PANIC] {
        holds(model, SCHEDULES);
        fails(model, Site::Turn);
    }
}
