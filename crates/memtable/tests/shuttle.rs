//! The models of a memtable under random schedules: with towers, with the index, with reclamation
//! at the first moment at which it is allowed, and with executions too long for loom.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p velella-memtable --test shuttle --profile models`.
//! `VELELLA_SCALE=n` explores n times as many schedules; `VELELLA_SEED=n` repeats one batch.
#![cfg(shuttle)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod models;

use models::{CHAINED, KINDS, Model};
use velella_memtable::{MemtableKind, Site};
use velella_sync::model;

/// Schedules of a small model, and of one of histories.
const SMALL: usize = 5_000;
const LARGE: usize = 20_000;

fn holds(name: &str, schedules: usize, model: Model, kinds: &[MemtableKind]) {
    for kind in kinds.iter().copied() {
        let name = format!("memtable/{name} {kind:?}");
        model::holds(&name, schedules, move || {
            model.run(kind, model.roles.len(), None);
        });
    }
}

fn fails(name: &str, schedules: usize, model: Model, spoiled: Option<Site>) {
    fails_in(MemtableKind::Jellyfish, name, schedules, model, spoiled);
}

fn fails_in(kind: MemtableKind, name: &str, schedules: usize, model: Model, spoiled: Option<Site>) {
    let spoiled_as = spoiled.map_or_else(|| "displaced".to_owned(), |site| format!("{site:?}"));
    let name = format!("memtable/{name} {spoiled_as}");
    model::fails(&name, schedules, move || {
        model.run(kind, model.roles.len(), spoiled);
    });
}

#[test]
fn same_key_puts() {
    holds("two_writers", SMALL, models::TWO_WRITERS, &KINDS);
    fails("two_writers", SMALL, models::TWO_WRITERS_STAMP_FIRST, None);
    fails(
        "two_writers",
        SMALL,
        models::TWO_WRITERS,
        Some(Site::HeadCas),
    );
    holds("same_new_key", SMALL, models::SAME_NEW_KEY, &KINDS);
    fails(
        "same_new_key",
        SMALL,
        models::SAME_NEW_KEY,
        Some(Site::NodeLink),
    );
}

#[test]
fn updates_conflict() {
    holds("put_rmw", SMALL, models::PUT_RMW, &KINDS);
    fails("put_rmw", SMALL, models::PUT_RMW, Some(Site::HeadCas));
    fails("put_rmw", SMALL, models::PUT_RMW, Some(Site::Undecided));
    holds("absence", SMALL, models::ABSENCE, &KINDS);
    fails("absence", SMALL, models::ABSENCE_UNSAID, None);
    holds("two_updates", SMALL, models::TWO_UPDATES, &KINDS);
    fails("two_updates", SMALL, models::TWO_UPDATES_BLIND, None);
    // The second updates in vain until the first has entered its node into the index.
    fails("two_updates", SMALL, models::TWO_UPDATES, Some(Site::Help));
}

#[test]
fn snapshots_against_writers() {
    holds("two_puts", SMALL, models::TWO_PUTS, &KINDS);
    fails("two_puts", SMALL, models::TWO_PUTS_LATE, None);
    fails("two_puts", SMALL, models::TWO_PUTS, Some(Site::SecondLook));
    holds("slot_reuse", SMALL, models::SLOT_REUSE, &KINDS);
    fails(
        "slot_reuse",
        LARGE,
        models::SLOT_REUSE,
        Some(Site::SecondLook),
    );
}

#[test]
fn batches_against_gets() {
    holds("batch_two_gets", SMALL, models::BATCH_TWO_GETS, &KINDS);
    holds("cell_rewrite", SMALL, models::CELL_REWRITE, &KINDS);
    holds("abort_unlink", SMALL, models::ABORT_UNLINK, &KINDS);
}

#[test]
fn pruning_against_readers() {
    let kinds = &CHAINED;
    holds("skip_vs_prune", SMALL, models::SKIP_VS_PRUNE, kinds);
    fails(
        "skip_vs_prune",
        LARGE,
        models::SKIP_VS_PRUNE,
        Some(Site::SecondLook),
    );
    holds(
        "snapshot_vs_pruner",
        SMALL,
        models::SNAPSHOT_VS_PRUNER,
        kinds,
    );
    fails(
        "snapshot_vs_pruner",
        SMALL,
        models::SNAPSHOT_VS_PRUNER_EARLY,
        None,
    );
    holds("flush_vs_pruner", SMALL, models::FLUSH_VS_PRUNER, kinds);
    fails(
        "flush_vs_pruner",
        SMALL,
        models::FLUSH_VS_PRUNER,
        Some(Site::Gate),
    );
}

#[test]
fn reclamation_waits_for_readers() {
    holds("reclamation", SMALL, models::RECLAMATION, &CHAINED);
    fails(
        "reclamation",
        SMALL,
        models::RECLAMATION,
        Some(Site::Retire),
    );
}

#[test]
fn cursors_against_insertions() {
    holds("iterator", SMALL, models::ITERATOR_TWO_INSERTERS, &KINDS);
    fails("iterator", SMALL, models::ITERATOR_NEWEST, None);
    fails(
        "iterator",
        SMALL,
        models::ITERATOR_TWO_INSERTERS,
        Some(Site::NodeLink),
    );
}

#[test]
fn insertions_behind_guards() {
    holds("guarded", SMALL, models::entries::GUARDED, &KINDS);
    for site in [Site::Guard, Site::NodeLink] {
        fails("guarded", SMALL, models::entries::GUARDED, Some(site));
    }
}

#[test]
fn random_histories_are_those_of_one_thread() {
    let model = models::histories::HISTORIES;
    holds("histories", LARGE, model, &KINDS);
    for site in [
        Site::HeadCas,
        Site::NodeLink,
        Site::SecondLook,
        Site::Retire,
        Site::Undecided,
    ] {
        fails("histories", LARGE, model, Some(site));
    }
}

#[test]
fn splits_of_entries() {
    for (name, model) in [
        ("one_entry", models::entries::ONE_ENTRY),
        ("two_splits", models::entries::TWO_SPLITS),
        ("split_vs_search", models::entries::SPLIT_VS_SEARCH),
    ] {
        holds(name, SMALL, model, &KINDS);
    }
    let s3 = MemtableKind::S3;
    for site in [Site::Split, Site::Beyond, Site::Guard] {
        fails_in(
            s3,
            "guarded s3",
            SMALL,
            models::entries::GUARDED,
            Some(site),
        );
    }
    for site in [Site::HeadCas, Site::NodeLink] {
        fails_in(
            s3,
            "histories s3",
            LARGE,
            models::histories::HISTORIES,
            Some(site),
        );
    }
}
