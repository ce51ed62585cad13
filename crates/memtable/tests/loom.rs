//! The models of a memtable in every interleaving and every reordering that the language allows, up
//! to a bound of preemptions.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p velella-memtable --test loom --release`.
//!
//! Each model runs with its roles placed in several ways, because loom explores the main thread and
//! spawned ones differently.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod models;

use models::{CHAINED, KINDS, Model};
use velella_memtable::{MemtableKind, Site};
use velella_sync::model;

/// Two preemptions find every control; a third role at three takes a minute. A cursor of S3 takes
/// many steps: 326,839 executions and 30 s at two.
fn bound(name: &str, model: &Model, kind: MemtableKind) -> usize {
    match (name, kind, model.roles.len()) {
        ("iterator", MemtableKind::S3, _) => 1,
        (_, _, 2) => 3,
        _ => 2,
    }
}

/// The model with each of its roles in the main thread, and with none there.
fn placements(model: Model, kind: MemtableKind, spoiled: Option<Site>) -> Vec<model::Placement> {
    (0..=model.roles.len())
        .map(|main| Box::new(move || model.run(kind, main, spoiled)) as model::Placement)
        .collect()
}

fn holds(name: &str, model: Model, kinds: &[MemtableKind]) {
    for kind in kinds {
        let placed = placements(model, *kind, None);
        let bound = bound(name, &model, *kind);
        model::holds_all(&format!("memtable/{name} {kind:?}"), bound, placed);
    }
}

fn fails(name: &str, model: Model, kind: MemtableKind, spoiled: Option<Site>) {
    let spoiled_as = spoiled.map_or_else(|| "displaced".to_owned(), |site| format!("{site:?}"));
    let bound = bound(name, &model, kind);
    let name = format!("memtable/{name} {spoiled_as}");
    model::fails(&name, bound, placements(model, kind, spoiled));
}

#[test]
fn chain_put_rmw_monotone() {
    holds("put_rmw", models::PUT_RMW, &KINDS);
    fails(
        "put_rmw",
        models::PUT_RMW,
        MemtableKind::Jellyfish,
        Some(Site::HeadCas),
    );
    fails(
        "put_rmw",
        models::PUT_RMW,
        MemtableKind::AppendOnly,
        Some(Site::NodeLink),
    );
}

#[test]
fn chain_same_new_key_two_inserters() {
    holds("same_new_key", models::SAME_NEW_KEY, &KINDS);
    fails(
        "same_new_key",
        models::SAME_NEW_KEY,
        MemtableKind::Jellyfish,
        Some(Site::NodeLink),
    );
}

#[test]
fn chain_absence_expected() {
    holds("absence", models::ABSENCE, &KINDS);
    fails("absence", models::ABSENCE_UNSAID, MemtableKind::S3, None);
    fails(
        "absence",
        models::ABSENCE,
        MemtableKind::Jellyfish,
        Some(Site::NodeLink),
    );
}

#[test]
fn lazy_snapshot_two_puts_one_writer() {
    holds("two_puts", models::TWO_PUTS, &KINDS);
    fails(
        "two_puts",
        models::TWO_PUTS,
        MemtableKind::Jellyfish,
        Some(Site::SecondLook),
    );
    fails(
        "two_puts_late",
        models::TWO_PUTS_LATE,
        MemtableKind::Jellyfish,
        None,
    );
}

#[test]
fn lazy_snapshot_slot_reuse_by_other_thread() {
    holds("slot_reuse", models::SLOT_REUSE, &CHAINED);
    fails(
        "slot_reuse",
        models::SLOT_REUSE,
        MemtableKind::Jellyfish,
        Some(Site::SecondLook),
    );
}

#[test]
fn batch_two_gets() {
    holds("batch_two_gets", models::BATCH_TWO_GETS, &KINDS);
    fails(
        "batch_two_gets",
        models::BATCH_TWO_GETS,
        MemtableKind::Jellyfish,
        Some(Site::Cell),
    );
}

#[test]
fn batch_cell_rewrite_and_free() {
    holds("cell_rewrite", models::CELL_REWRITE, &CHAINED);
    fails(
        "cell_rewrite",
        models::CELL_REWRITE,
        MemtableKind::Jellyfish,
        Some(Site::HeadCas),
    );
    fails(
        "batch_two_gets",
        models::BATCH_TWO_GETS,
        MemtableKind::Jellyfish,
        Some(Site::Word),
    );
}

#[test]
fn abort_unlink_under_reader() {
    holds("abort_unlink", models::ABORT_UNLINK, &KINDS);
    fails(
        "abort_unlink",
        models::ABORT_UNLINK,
        MemtableKind::Jellyfish,
        Some(Site::HeadCas),
    );
}

#[test]
fn whoever_waits_for_an_undecided_version_goes_on() {
    holds("waiter", models::WAITER, &KINDS);
    for kind in KINDS {
        fails("waiter", models::WAITER_FORGOTTEN, kind, None);
    }
}

#[test]
fn skipping_get_vs_pruner() {
    holds("skip_vs_prune", models::SKIP_VS_PRUNE, &CHAINED);
    fails(
        "skip_vs_prune",
        models::SKIP_VS_PRUNE,
        MemtableKind::Jellyfish,
        Some(Site::SecondLook),
    );
}

#[test]
fn two_updates_of_one_key() {
    holds("two_updates", models::TWO_UPDATES, &KINDS);
    fails(
        "two_updates",
        models::TWO_UPDATES_BLIND,
        MemtableKind::Jellyfish,
        None,
    );
}

#[test]
fn a_cursor_at_a_snapshot_among_insertions() {
    holds("iterator", models::ITERATOR, &CHAINED);
    fails(
        "iterator",
        models::ITERATOR_NEWEST,
        MemtableKind::Jellyfish,
        None,
    );
    fails(
        "iterator",
        models::ITERATOR,
        MemtableKind::Jellyfish,
        Some(Site::NodeLink),
    );
}

#[test]
fn a_registered_snapshot_and_a_pruner() {
    holds("snapshot_vs_pruner", models::SNAPSHOT_VS_PRUNER, &CHAINED);
    fails(
        "snapshot_vs_pruner",
        models::SNAPSHOT_VS_PRUNER_EARLY,
        MemtableKind::Jellyfish,
        None,
    );
}

#[test]
fn two_insertions_into_one_entry() {
    holds("one_entry", models::entries::ONE_ENTRY, &KINDS);
    holds("same_new_key", models::SAME_NEW_KEY, &[MemtableKind::S3]);
    fails(
        "same_new_key",
        models::SAME_NEW_KEY,
        MemtableKind::S3,
        Some(Site::NodeLink),
    );
}

#[test]
fn two_splits_of_one_entry() {
    holds("two_splits", models::entries::TWO_SPLITS, &KINDS);
    fails(
        "two_splits",
        models::entries::TWO_SPLITS,
        MemtableKind::S3,
        Some(Site::Beyond),
    );
}

#[test]
fn a_split_under_a_search() {
    holds("split_vs_search", models::entries::SPLIT_VS_SEARCH, &KINDS);
    let s3 = MemtableKind::S3;
    fails(
        "split_vs_search",
        models::entries::SPLIT_VS_SEARCH,
        s3,
        Some(Site::Split),
    );
    fails(
        "split_vs_search",
        models::entries::SPLIT_VS_SEARCH,
        s3,
        Some(Site::Beyond),
    );
}
