//! The cases.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

use super::bench::{Bench, KEYSPACE, OpenTree, Run};
use super::model::Model;
use crate::{Edit, Wanted};
use std::sync::Arc;
use velella_base::external::ExternalRef;
use velella_base::{ErrorKind, Order, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sync::epoch;
use velella_sync::rng::Rng;
use velella_vfs::MemFs;

type Case = fn(OpenTree);

fn any_sort(rng: &mut Rng) -> Wanted {
    match rng.below(5) {
        0 => Wanted::Everything,
        1 => Wanted::Rest,
        2 => Wanted::Gathering,
        _ => Wanted::Due,
    }
}

pub(super) const ALL: &[(&str, Case)] = &[
    ("an empty tree answers", an_empty_tree_answers),
    (
        "random histories match the model",
        random_histories_match_the_model,
    ),
    ("user orders are obeyed", user_orders_are_obeyed),
    (
        "cl11_a_snapshot_taken_during_a_job_keeps_its_versions",
        cl11_snapshot_during_a_job,
    ),
    (
        "x2_a_built_run_is_nothing_until_its_edit_is_durable",
        x2_built_is_nothing,
    ),
    (
        "a6_an_expired_value_hides_the_older_one",
        a6_expired_hides_older,
    ),
    (
        "an old cursor keeps its files, and they go after it",
        an_old_cursor_keeps_its_files,
    ),
    (
        "a cancelled job changes nothing",
        a_cancelled_job_changes_nothing,
    ),
    (
        "a full compaction leaves one version of each key",
        a_full_compaction_leaves_one_version,
    ),
    (
        "external values go with their last version",
        external_values_go,
    ),
    (
        "a dropped keyspace gives its files up",
        a_dropped_keyspace_gives_its_files_up,
    ),
    ("doubles are read once", doubles_are_read),
];

fn bench(open: OpenTree) -> Bench {
    bench_in(Order::Bytewise, open)
}

fn bench_in(order: Order, open: OpenTree) -> Bench {
    Bench::create(Arc::new(MemFs::new()), order, open).expect("an empty directory")
}

fn put(key: &str, stamp: u64, value: &str) -> (Vec<u8>, u64, ValueKind, Vec<u8>) {
    (key.into(), stamp, ValueKind::Put, value.into())
}

fn everything_at(frontier: u64) -> Retention {
    Retention::new(Stamp(frontier), Stamp(frontier), Vec::new())
}

fn an_empty_tree_answers(open: OpenTree) {
    let bench = bench(open);
    assert_eq!(bench.get(b"a", 9).expect("answers"), None);
    assert!(bench.all().expect("walks").is_empty());
    assert!(
        bench
            .tree
            .next_job(Wanted::Due, &everything_at(0))
            .is_none()
    );
    assert!(
        bench
            .tree
            .next_job(Wanted::Everything, &everything_at(0))
            .is_none()
    );
    bench
        .flush(Run::new(), &everything_at(1))
        .expect("an empty run is no error");
    assert!(bench.files().expect("lists").is_empty());
    bench.tree.verify(&mut |_| ()).expect("nothing is damaged");
}

fn random_histories_match_the_model(open: OpenTree) {
    for seed in 0..12 {
        history(bench(open), &mut Rng::new(seed));
    }
}

fn user_orders_are_obeyed(open: OpenTree) {
    let reversed = Order::custom("reversed", |a, b| b.cmp(a));
    history(bench_in(reversed, open), &mut Rng::new(77));
}

/// Random flushes, jobs, snapshots and restarts, compared with the model all along.
fn history(mut bench: Bench, rng: &mut Rng) {
    let mut model = Model::default();
    for _ in 0..40 {
        match rng.below(10) {
            0..4 => {
                let count = 1 + rng.below(80);
                let run = model.write(rng, count, 120);
                bench.flush(run, &model.retention()).expect("flushes");
            }
            4..7 => {
                bench
                    .work(any_sort(rng), &model.retention())
                    .expect("works");
            }
            7 => model.snapshots.push(model.clock),
            8 if !model.snapshots.is_empty() => {
                let at = rng.below(model.snapshots.len() as u64) as usize;
                model.snapshots.swap_remove(at);
            }
            8 => bench = bench.restart().expect("opens again"),
            _ => {
                bench
                    .work_all(any_sort(rng), &model.retention())
                    .expect("works");
            }
        }
        model.check(&bench);
    }
    bench.tree.verify(&mut |_| ()).expect("nothing is damaged");
    bench = bench.restart().expect("opens again");
    model.check(&bench);
}

/// The collector asks for the readers when it starts to read, and not before; a snapshot taken
/// after that has a time at or above the frontier it was told.
fn cl11_snapshot_during_a_job(open: OpenTree) {
    let bench = bench(open);
    for stamp in 1..=6 {
        let keep = Retention::new(Stamp(stamp), Stamp(stamp), (1..stamp).map(Stamp).collect());
        bench
            .flush(vec![put("k", stamp, &stamp.to_string())], &keep)
            .expect("flushes");
    }
    let job = bench
        .tree
        .next_job(Wanted::Everything, &everything_at(0))
        .expect("six runs are work");
    // Chosen, not started: the snapshot at 3 must count, though it came after the choice.
    let asked = std::cell::Cell::new(0);
    let readers = || {
        asked.set(asked.get() + 1);
        Retention::new(Stamp(6), Stamp(6), vec![Stamp(3)])
    };
    job.run(&readers, &|| Ok(true)).expect("runs");
    assert!(asked.get() <= 1, "one answer for the whole job");
    let mut left = Some(());
    while left.is_some() {
        left = bench.tree.next_job(Wanted::Rest, &readers()).map(|job| {
            job.run(&readers, &|| Ok(true)).expect("runs");
        });
    }
    let seen = |at| bench.get(b"k", at).expect("answers").map(|found| found.0);
    assert_eq!(seen(3), Some(3), "the snapshot lost its version");
    assert_eq!(seen(6), Some(6));
    let stamps: Vec<u64> = bench.all().expect("walks").iter().map(|v| v.1).collect();
    assert_eq!(stamps, [6, 3], "what nobody reads is gone");
}

fn x2_built_is_nothing(open: OpenTree) {
    let bench = bench(open);
    bench
        .flush(vec![put("a", 1, "old")], &everything_at(1))
        .expect("flushes");
    let built = bench
        .build(vec![put("a", 2, "new")], &everything_at(2))
        .expect("builds");
    assert_eq!(
        bench.get(b"a", 9).expect("answers").map(|found| found.0),
        Some(1)
    );
    assert_eq!(bench.files().expect("lists").len(), 2);
    // The power fails before the round that makes stamp 2 durable, so nothing was committed.
    drop(built);
    let bench = bench.restart().expect("opens again");
    assert_eq!(
        bench.get(b"a", 9).expect("answers").map(|found| found.0),
        Some(1)
    );
    assert_eq!(
        bench.files().expect("lists").len(),
        1,
        "the orphan is recognised"
    );
}

fn a6_expired_hides_older(open: OpenTree) {
    let bench = bench(open);
    bench
        .flush(vec![put("k", 1, "old")], &everything_at(1))
        .expect("flushes");
    bench
        .work_all(Wanted::Everything, &everything_at(1))
        .expect("the old value goes down");
    let mut payload = 1_000u64.to_le_bytes().to_vec();
    payload.extend_from_slice(b"new");
    let expiring = (b"k".to_vec(), 2, ValueKind::PutExpiring, payload);
    bench
        .flush(vec![expiring], &everything_at(2))
        .expect("flushes");
    // Neighbours bring level 0 to its limit; only the upper level is compacted.
    for stamp in 3..12 {
        let rule = everything_at(stamp).at_wall(5_000);
        bench
            .flush(vec![put("k0", stamp, "x")], &rule)
            .expect("flushes");
        bench.work(Wanted::Due, &rule).expect("works");
        let found = bench.get(b"k", 99).expect("answers").map(|found| found.0);
        assert_ne!(found, Some(1), "the older value came back");
    }
    bench
        .work_all(Wanted::Everything, &everything_at(12).at_wall(5_000))
        .expect("works");
    assert_eq!(
        bench.get(b"k", 99).expect("answers"),
        None,
        "gone with all beneath it"
    );
}

fn an_old_cursor_keeps_its_files(open: OpenTree) {
    let bench = bench(open);
    for stamp in 1..=4 {
        bench
            .flush(vec![put("k", stamp, "v")], &everything_at(stamp))
            .expect("flushes");
    }
    let before = bench.tree.generation();
    let mut cursor = bench.tree.cursor(true);
    bench
        .work_all(Wanted::Everything, &everything_at(4))
        .expect("works");
    assert!(bench.tree.generation() > before);
    let files = bench.files().expect("lists").len();
    assert!(
        files > 4,
        "L2: {files} files, and the cursor stands on four"
    );
    cursor.seek_first().expect("its files are there");
    let mut stamps = Vec::new();
    while let Some(entry) = cursor.entry() {
        stamps.push(entry.stamp.0);
        cursor.next().expect("its files are there");
    }
    assert_eq!(stamps, [4, 3, 2, 1]);
    drop(cursor);
    settle(&bench, 1);
}

/// Lets epochs pass until `count` files are left.
fn settle(bench: &Bench, count: usize) {
    for _ in 0..10_000 {
        epoch::flush();
        drop(bench.tree.next_job(Wanted::Due, &everything_at(0)));
        if bench.files().expect("lists").len() == count {
            return;
        }
        // A thread of another test may be pinned, and wait for a processor.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("files stay: {:?}, {count} expected", bench.files());
}

fn a_cancelled_job_changes_nothing(open: OpenTree) {
    let bench = bench(open);
    let mut model = Model::default();
    let mut rng = Rng::new(4);
    for _ in 0..3 {
        let run = model.write(&mut rng, 900, 5000);
        bench.flush(run, &model.retention()).expect("flushes");
    }
    let files = bench.files().expect("lists");
    let job = bench
        .tree
        .next_job(Wanted::Everything, &everything_at(0))
        .expect("three runs are work");
    let error = job
        .run(&|| model.retention(), &|| Ok(false))
        .expect_err("it was cancelled");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(bench.files().expect("lists"), files);
    model.check(&bench);
    let again = bench
        .tree
        .next_job(Wanted::Everything, &everything_at(0))
        .expect("its inputs are free again");
    let refused = || {
        Err(velella_base::Error::new(
            ErrorKind::NoSpace,
            "flush",
            "disk full",
        ))
    };
    let error = again
        .run(&|| model.retention(), &refused)
        .expect_err("what it let in between failed");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(bench.files().expect("lists"), files);
    bench
        .work_all(Wanted::Everything, &model.retention())
        .expect("its inputs are free again");
    model.check(&bench);
}

fn a_full_compaction_leaves_one_version(open: OpenTree) {
    let bench = bench(open);
    let mut model = Model::default();
    let mut rng = Rng::new(8);
    for _ in 0..20 {
        let run = model.write(&mut rng, 200, 300);
        let keep_all = Retention::new(
            Stamp(model.clock),
            Stamp(model.clock),
            (0..model.clock).map(Stamp).collect(),
        );
        bench.flush(run, &keep_all).expect("flushes");
        bench.work(Wanted::Due, &keep_all).expect("works");
    }
    bench
        .work_all(Wanted::Everything, &model.retention())
        .expect("works");
    model.check(&bench);
    let run = bench.all().expect("walks");
    assert!(
        run.iter().all(|version| version.2 == ValueKind::Put),
        "a tombstone is left"
    );
    assert!(
        run.windows(2).all(|pair| pair[0].0 != pair[1].0),
        "two versions of a key are left"
    );
}

fn external_values_go(open: OpenTree) {
    let bench = bench(open);
    let store = Arc::clone(&bench.env.externals);
    let external = |stamp: u64, expires_at_ms: u64| {
        let (reference, file) = store.write(&[7; 5000], expires_at_ms).expect("writes");
        file.sync_all().expect("syncs");
        let payload = reference.encode().to_vec();
        (b"k".to_vec(), stamp, ValueKind::External, payload)
    };
    let count = |bench: &Bench| {
        let files = bench.files().expect("lists");
        files.iter().filter(|name| name.contains(".ext")).count()
    };
    let run = vec![external(2, 0), external(1, 0)];
    let newest = ExternalRef::decode(&run[0].3).expect("a reference");
    bench.flush(run, &everything_at(2)).expect("flushes");
    assert_eq!(count(&bench), 1, "the shadowed value went with the flush");
    assert_eq!(store.read(&newest).expect("reads"), [7; 5000]);
    bench
        .flush(vec![external(3, 1_000)], &everything_at(3))
        .expect("flushes");
    bench
        .work_all(Wanted::Everything, &everything_at(3))
        .expect("works");
    settle(&bench, 2);
    assert_eq!(count(&bench), 1);
    bench
        .work_all(Wanted::Everything, &everything_at(3).at_wall(2_000))
        .expect("works");
    settle(&bench, 0);
    assert_eq!(bench.get(b"k", 9).expect("answers"), None);
    assert_eq!(store.bytes(), 0);
}

fn a_dropped_keyspace_gives_its_files_up(open: OpenTree) {
    let bench = bench(open);
    for stamp in 1..=5 {
        bench
            .flush(vec![put("k", stamp, "v")], &everything_at(stamp))
            .expect("flushes");
    }
    let running = bench
        .tree
        .next_job(Wanted::Everything, &everything_at(0))
        .expect("five runs are work");
    let drop_edit = Edit::DropKeyspace {
        id: KEYSPACE,
        stamp: Stamp(6),
    };
    bench.env.manifest.commit(&[drop_edit]).expect("commits");
    bench.tree.drop_files();
    let outcome = running.run(&|| everything_at(6), &|| Ok(true));
    assert!(
        outcome.is_err(),
        "a job of a dropped keyspace cannot commit"
    );
    bench.env.manifest.commit(&[]).expect("and harms nobody");
    settle(&bench, 0);
}

/// A recovery may install several runs at once that overlap in stamps, and write versions again
/// that a table has already.
fn doubles_are_read(open: OpenTree) {
    let bench = bench(open);
    let runs = [
        vec![put("a", 1, "a1"), put("b", 9, "b9")],
        vec![put("a", 7, "a7"), put("b", 2, "b2")],
        vec![put("a", 7, "a7"), put("c", 5, "c5")],
    ];
    let mut edits = Vec::new();
    let mut built = Vec::new();
    for run in runs {
        let mut part = bench.build(run, &everything_at(0)).expect("builds");
        edits.extend(part.edits(KEYSPACE));
        built.push(part);
    }
    bench.env.manifest.commit(&edits).expect("commits");
    built.into_iter().for_each(|part| bench.tree.apply(part));
    let check = |bench: &Bench| {
        for (key, at, stamp) in [
            (b"a", 9, Some(7)),
            (b"a", 6, Some(1)),
            (b"b", 9, Some(9)),
            (b"b", 8, Some(2)),
            (b"b", 1, None),
            (b"c", 9, Some(5)),
        ] {
            let found = bench.get(key, at).expect("answers").map(|found| found.0);
            assert_eq!(found, stamp, "{key:?} at {at}");
        }
    };
    check(&bench);
    bench
        .work_all(Wanted::Everything, &everything_at(0))
        .expect("works");
    check(&bench);
    assert_eq!(
        bench.all().expect("walks").len(),
        5,
        "the double was kept once"
    );
}
