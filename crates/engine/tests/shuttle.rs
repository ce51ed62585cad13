//! The whole engine under random schedules and PCT: switches, flushes, compactions, snapshots,
//! iterators and rounds beside writers, on the code as it is; random programs of all of it, with a
//! crash at any step; and who waits for a thread that stands still.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p velella --test shuttle --profile models`.
//! `VELELLA_SCALE=n` explores n times as many schedules; `VELELLA_SEED=n` repeats one batch.
//!
//! Each model has controls: the same with one of the faults of `cargo xtask seeded` put in.
#![cfg(shuttle)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod models;

use models::Model;
use models::stalled::{self, KEY, Row, Stalled};
use velella::{Db, Decision, JournalMode, MemtableKind};
use velella_sync::model;

/// Schedules of each scheduler.
const SCHEDULES: usize = 500;
/// Schedules within which a control fails.
const CONTROL: usize = 5_000;

fn holds(this: Model) {
    holds_in(SCHEDULES, this);
}

fn holds_in(schedules: usize, this: Model) {
    let name = format!("engine/{}", this.name);
    model::holds(&name, schedules, move || this.run(None));
}

fn fails(this: Model, fault: &'static str) {
    fails_in(CONTROL, this, fault);
}

fn fails_in(schedules: usize, this: Model, fault: &'static str) {
    let name = format!("engine/{}, {fault}", this.name);
    model::fails(&name, schedules, move || this.run(Some(fault)));
}

#[test]
fn a_switch_loses_no_write_and_no_update() {
    // The last of its controls is a thousandth schedule's.
    holds_in(4 * SCHEDULES, models::SWITCH);
    holds(models::SWITCH_WRITTEN);
    fails(models::SWITCH, "a-switch-does-not-wait-for-announced-slots");
    fails(models::SWITCH, "a-write-does-not-look-at-the-view-again");
    fails(models::SWITCH, "an-update-forgets-what-it-was-based-on");
    fails(models::SWITCH, "a-write-does-not-look-below-a-switch");
    holds(models::SPLIT);
    fails(models::SPLIT, "a-switch-draws-before-it-publishes");
}

#[test]
fn a_switch_without_a_journal_loses_none_either() {
    holds(models::SWITCH_WITHOUT_JOURNAL);
    fails(
        models::SWITCH_WITHOUT_JOURNAL,
        "a-switch-does-not-wait-for-announced-slots",
    );
}

#[test]
fn without_a_journal_a_flush_leaves_a_prefix_of_all_keyspaces() {
    holds(models::unjournaled::EMPTY_KEYSPACE);
    fails(
        models::unjournaled::EMPTY_KEYSPACE,
        "a-switch-passes-over-empty-keyspaces",
    );
}

#[test]
fn without_a_journal_what_is_acknowledged_beside_a_close_is_kept() {
    for (name, write) in models::unjournaled::WRITES {
        let name = format!("engine/close beside {name}");
        model::holds(&name, SCHEDULES, move || {
            models::unjournaled::close_beside(write);
        });
    }
}

#[test]
fn a_snapshot_stands_still_over_flushes_and_compactions() {
    holds(models::SNAPSHOT);
    fails(models::SNAPSHOT, "a-snapshot-passes-open-windows");
    fails(models::SNAPSHOT, "collectors-forget-snapshots");
}

#[test]
fn a_get_meets_every_version_on_its_way_down() {
    holds(models::READERS);
    fails(
        models::READERS,
        "a-memtable-leaves-before-its-table-is-there",
    );
}

#[test]
fn an_iterator_goes_on_over_switches_and_compactions() {
    holds(models::ITERATOR);
    fails(
        models::ITERATOR,
        "a-memtable-leaves-before-its-table-is-there",
    );
    holds(models::ITERATOR_FLUSH);
    fails(models::ITERATOR_FLUSH, "an-iterator-takes-the-tree-first");
    holds(models::ITERATORS);
    fails(models::ITERATORS, "cursors-rest-beyond-their-version");
}

#[test]
fn a_batch_is_whole_over_a_switch() {
    holds(models::BATCHES);
    fails(models::BATCHES, "a-write-does-not-look-at-the-view-again");
    holds(models::BATCHES_WRITTEN);
    holds(models::BATCHES_BY_GETS);
    // Every sixth batch of PCT's schedules meets it: by luck more than ten may not.
    fails_in(
        8 * CONTROL,
        models::BATCHES_BY_GETS,
        "a-write-does-not-look-below-a-switch",
    );
}

#[test]
fn batches_that_cross_do_not_wait_for_each_other() {
    holds(models::CROSSED_BATCHES);
    fails(
        models::CROSSED_BATCHES,
        "a-batch-takes-its-keys-as-they-come",
    );
}

#[test]
fn transactions_that_meet_lose_nothing() {
    holds(models::TRANSACTIONS);
    fails(models::TRANSACTIONS, "the-only-writer-leaves-a-pair-out");
    holds(models::TRANSACTIONS_WITHOUT_JOURNAL);
}

#[test]
fn keyspaces_come_and_go_beside_writers() {
    holds(models::KEYSPACES);
    fails(
        models::KEYSPACES,
        "a-drop-does-not-wait-for-what-is-below-it",
    );
}

#[test]
fn whatever_clients_do_a_crash_leaves_what_was_promised() {
    // A program takes a fraction of what the others do, and there are many.
    model::holds("engine/history", 5 * SCHEDULES, || {
        models::history::run(None);
    });
}

#[test]
fn faults_of_windows_updates_and_rounds_show_in_histories() {
    for (fault, within) in [
        ("a-write-does-not-look-at-the-view-again", CONTROL),
        ("a-snapshot-passes-open-windows", CONTROL),
        ("an-update-forgets-what-it-was-based-on", CONTROL),
        ("a-round-does-not-sync-segments", CONTROL),
        ("a-round-does-not-sync-its-seal", CONTROL),
        ("a-sync-write-does-not-wait", CONTROL),
        // Few schedules of PCT show these, and hardly any at random.
        ("a-switch-does-not-wait-for-announced-slots", CONTROL / 2),
        ("a-version-is-published-before-its-record", CONTROL / 2),
    ] {
        let name = format!("engine/history, {fault}");
        let control = move || models::history::run(Some(fault));
        model::fails(&name, within, control);
    }
}

/// What waits for a writer that stands still, in the order of its steps: the table of
/// docs/concurrency.md. What is later has been after a stamp that somebody drew meanwhile.
const WRITER: [Row; 6] = [
    &[],
    &["put", "update", "batch"],
    &[
        "strict get",
        "put",
        "update",
        "batch",
        "later snapshot",
        "later sync",
        "switch",
    ],
    &[
        "strict get",
        "snapshot",
        "scan",
        "put",
        "update",
        "batch",
        "later snapshot",
        "sync",
        "later sync",
        "switch",
    ],
    &["sync", "later sync", "switch"],
    &[],
];

#[test]
fn only_what_the_table_says_waits_for_a_stalled_writer() {
    let put = Stalled::new("put", |db| stalled::put(db, KEY));
    for memtable in MemtableKind::ALL {
        Stalled { memtable, ..put }.stops(&WRITER);
    }
    let journal = JournalMode::Write;
    Stalled { journal, ..put }.stops(&WRITER);
    Stalled::new("update", |db| drop(db.increment(KEY, 1))).stops(&WRITER);
    let rmw = |db: &Db| drop(db.rmw(KEY, |_| Decision::put(b"3")));
    Stalled::new("read-modify-write", rmw).stops(&WRITER);
    let mut rows = WRITER;
    rows[2] = &[
        "strict get",
        "put",
        "update",
        "batch",
        "later snapshot",
        "later sync",
    ];
    put.stops_with("a-switch-does-not-wait-for-announced-slots", &rows);
    rows = WRITER;
    rows[2] = &["put", "update", "batch", "later sync", "switch"];
    rows[3] = &["put", "update", "batch", "sync", "later sync", "switch"];
    put.stops_with("a-snapshot-passes-open-windows", &rows);
}

#[test]
fn without_a_journal_a_sync_waits_as_a_switch_does() {
    let mut rows = WRITER;
    rows[2] = &[
        "strict get",
        "put",
        "update",
        "batch",
        "later snapshot",
        "sync",
        "later sync",
        "switch",
    ];
    let put = Stalled::new("put", |db| stalled::put(db, KEY));
    let journal = JournalMode::Off;
    Stalled { journal, ..put }.stops(&rows);
}

#[test]
fn a_batch_that_installs_stops_writers_of_what_it_holds() {
    let mut rows = WRITER.to_vec();
    rows.insert(1, &["batch"]);
    Stalled::new("batch", |db| stalled::put_both(db, "a", KEY)).stops(&rows);
}

#[test]
fn the_only_writer_stops_writers_everywhere_once_and_gets_never() {
    let writers: Row = &["put elsewhere", "insert elsewhere"];
    let columns = [&["get"], writers].concat().leak();
    let transaction = Stalled::new("only writer", stalled::write_alone);
    transaction.stops_of(columns, &[&[], writers, &[]]);
}

#[test]
fn a_stalled_insertion_stops_nobody_at_other_keys() {
    let rows: [Row; 5] = [
        &[],
        &["later sync", "switch"],
        &["scan", "sync", "later sync", "switch"],
        &["sync", "later sync", "switch"],
        &[],
    ];
    let put = Stalled::new("insertion", |db| stalled::put(db, "kl"));
    for memtable in MemtableKind::ALL {
        Stalled { memtable, ..put }.stops(&rows);
    }
}

#[test]
fn a_stalled_reader_stops_no_write() {
    let get = |db: &Db| drop(db.get(KEY).unwrap());
    Stalled::new("get", get).stops_only(&[]);
    let strict = |db: &Db| drop(db.get_strict(KEY).unwrap());
    Stalled::new("strict get", strict).stops_only(&[]);
    // The list of snapshots has a lock; a flush asks it what it must keep.
    let snapshots = &[
        "snapshot",
        "snapshot elsewhere",
        "later snapshot",
        "scan",
        "switch",
    ];
    Stalled::new("snapshot", |db| stalled::look(db, KEY)).stops_only(snapshots);
}

#[test]
fn a_stalled_round_stops_rounds_and_what_waits_for_one() {
    Stalled::new("sync", stalled::sync).stops_only(&["sync", "later sync", "switch"]);
}

#[test]
fn a_stalled_flush_stops_writers_once_and_gets_never() {
    // While the views of its keyspaces are published, and W is not drawn.
    let writers: Row = &[
        "put",
        "update",
        "batch",
        "put elsewhere",
        "insert elsewhere",
    ];
    let columns = [&["get", "strict get"], writers].concat().leak();
    let flush = Stalled::new("flush", |db| db.flush().unwrap());
    flush.stops_of(columns, &[&[], writers, &[]]);
}
