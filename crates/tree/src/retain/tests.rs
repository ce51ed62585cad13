//! What survives, case by case and against a reader at every stamp.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use super::*;
use velella_base::ValueKind::{self, Delete, External, Merge, Put, PutExpiring, RangeDelete};
use velella_sync::rng::Rng;

type Version = (&'static str, u64, ValueKind, Vec<u8>);

fn put(key: &'static str, stamp: u64) -> Version {
    (key, stamp, Put, format!("v{stamp}").into_bytes())
}

fn of(key: &'static str, stamp: u64, kind: ValueKind) -> Version {
    (key, stamp, kind, Vec::new())
}

fn expiring(key: &'static str, stamp: u64, expiry: u64) -> Version {
    (key, stamp, PutExpiring, expiry.to_le_bytes().to_vec())
}

fn external(key: &'static str, stamp: u64, file: u64, expires_at_ms: u64) -> Version {
    let reference = ExternalRef {
        file,
        length: 9,
        crc: 1,
        expires_at_ms,
    };
    (key, stamp, External, reference.encode().to_vec())
}

fn retained(
    run: &[Version],
    retention: &Retention,
    bottom: impl Fn(&[u8]) -> bool,
) -> (Vec<(String, u64, ValueKind)>, Retained) {
    let mut out = Vec::new();
    let mut last = String::new();
    let mut sink = |entry: Entry<'_>, first: bool| {
        let key = String::from_utf8(entry.key.to_vec()).unwrap();
        assert_eq!(first, out.is_empty() || key != last, "first of {key}");
        last.clone_from(&key);
        out.push((key, entry.stamp.0, entry.kind));
        Ok(())
    };
    let mut retain = Retain::new(retention, Order::Bytewise);
    for (key, stamp, kind, value) in run {
        let entry = Entry {
            key: key.as_bytes(),
            stamp: Stamp(*stamp),
            kind: *kind,
            value,
        };
        retain.offer(entry, &bottom, &mut sink).unwrap();
    }
    let done = retain.finish();
    assert_eq!(done.entries_in, run.len() as u64);
    assert_eq!(done.entries_out, out.len() as u64);
    (out, done)
}

fn stamps(run: &[Version], retention: &Retention, is_bottom: bool) -> Vec<u64> {
    let (out, _) = retained(run, retention, |_| is_bottom);
    out.into_iter().map(|(_, stamp, _)| stamp).collect()
}

fn at(frontier: u64, snapshots: &[u64]) -> Retention {
    let snapshots = snapshots.iter().copied().map(Stamp).collect();
    Retention::new(Stamp(frontier), Stamp(frontier), snapshots)
}

#[test]
fn shadowed_versions_leave_and_what_a_snapshot_reads_stays() {
    let run = [
        put("a", 9),
        put("a", 5),
        put("a", 3),
        put("b", 4),
        put("b", 2),
    ];
    assert_eq!(stamps(&run, &at(10, &[]), false), [9, 4]);
    assert_eq!(stamps(&run, &at(10, &[5]), false), [9, 5, 4]);
    assert_eq!(stamps(&run, &at(10, &[3, 2]), false), [9, 3, 4, 2]);
    assert_eq!(
        stamps(&run, &at(4, &[]), false),
        [9, 5, 3, 4],
        "above the frontier all stay"
    );
}

#[test]
fn a_tombstone_leaves_only_at_the_bottom() {
    let run = [of("a", 9, Delete), put("a", 5), put("b", 4)];
    assert_eq!(stamps(&run, &at(10, &[]), false), [9, 4]);
    assert_eq!(stamps(&run, &at(10, &[]), true), [4]);
}

#[test]
fn a_tombstone_above_a_kept_version_stays() {
    let run = [of("a", 9, Delete), of("a", 7, Delete), put("a", 5)];
    assert_eq!(stamps(&run, &at(10, &[6]), true), [9, 5]);
    assert_eq!(stamps(&run, &at(10, &[6, 8]), true), [9, 7, 5]);
}

#[test]
fn a_tombstone_not_in_every_readers_past_stays() {
    let run = [of("a", 9, Delete), put("a", 8)];
    // The reader at 6 sees neither, but learns from the tombstone that the key changed after 6.
    assert_eq!(stamps(&run, &at(10, &[6]), true), [9]);
}

#[test]
fn an_expired_value_is_a_tombstone_and_not_nothing() {
    let run = [expiring("a", 9, 1000), expiring("b", 8, 2000)];
    let rule = at(10, &[]).at_wall(1500);
    let (out, _) = retained(&run, &rule, |_| false);
    assert_eq!(out, [("a".into(), 9, Delete), ("b".into(), 8, PutExpiring)]);
    let (out, _) = retained(&run, &rule, |_| true);
    assert_eq!(out, [("b".into(), 8, PutExpiring)]);
    let (out, _) = retained(&run, &at(10, &[]), |_| true);
    assert_eq!(out.len(), 2, "without a wall clock nothing expires");
}

#[test]
fn what_expires_at_0_never_does_as_readers_have_it() {
    let run = [expiring("a", 9, 0), external("b", 8, 80, 0)];
    let (out, _) = retained(&run, &at(10, &[]).at_wall(1500), |_| true);
    assert_eq!(
        out,
        [("a".into(), 9, PutExpiring), ("b".into(), 8, External)]
    );
}

#[test]
fn dropped_and_expired_external_values_are_collected() {
    let run = [
        external("a", 9, 70, 0),
        external("a", 5, 50, 0),
        external("b", 8, 80, 1000),
        external("c", 8, 81, 2000),
        external("c", 8, 81, 2000),
    ];
    let (out, done) = retained(&run, &at(10, &[]).at_wall(1500), |_| false);
    let kinds = [
        ("a".into(), 9, External),
        ("b".into(), 8, Delete),
        ("c".into(), 8, External),
    ];
    assert_eq!(out, kinds);
    assert_eq!(done.dropped_externals, [50, 80], "a double is not a drop");
}

#[test]
fn merge_operands_and_what_they_apply_to_are_carried() {
    let run = [
        put("a", 9),
        of("a", 8, Merge),
        of("a", 7, Merge),
        put("a", 6),
        put("a", 5),
        of("b", 8, Merge),
        of("b", 6, Delete),
        put("b", 5),
    ];
    assert_eq!(stamps(&run, &at(10, &[]), true), [9, 8, 7, 6, 8, 6]);
}

#[test]
fn a_tombstone_above_a_carried_operand_stays() {
    let run = [of("a", 9, Delete), of("a", 8, Merge)];
    assert_eq!(stamps(&run, &at(10, &[]), true), [9, 8]);
    let range = ("b", 8, RangeDelete, b"k".to_vec());
    let run = [of("b", 9, Delete), range];
    assert_eq!(stamps(&run, &at(10, &[]), true), [9, 8]);
}

#[test]
fn range_deletes_are_carried_and_shadow_nothing_yet() {
    let range = |stamp, end: &str| ("a", stamp, RangeDelete, end.as_bytes().to_vec());
    let run = [
        range(9, "k"),
        range(9, "m"),
        range(9, "m"),
        put("a", 9),
        put("a", 5),
        range(4, "z"),
    ];
    assert_eq!(stamps(&run, &at(10, &[]), true), [9, 9, 9, 4]);
}

#[test]
fn the_same_version_twice_is_kept_once() {
    let run = [
        put("a", 9),
        put("a", 9),
        of("a", 8, Merge),
        of("a", 8, Merge),
        put("b", 9),
    ];
    assert_eq!(stamps(&run, &at(10, &[8]), false), [9, 8, 9]);
}

#[test]
fn keys_are_the_same_where_the_order_says_so() {
    let folding = Order::custom("folding", |a, b| {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    });
    let rule = at(10, &[]);
    let mut retain = Retain::new(&rule, folding);
    let mut kept = Vec::new();
    for (key, stamp) in [(b"a", 9), (b"A", 5)] {
        let entry = Entry {
            key,
            stamp: Stamp(stamp),
            kind: Put,
            value: &[],
        };
        let mut sink = |entry: Entry<'_>, _| {
            kept.push(entry.stamp.0);
            Ok(())
        };
        retain.offer(entry, &|_| false, &mut sink).unwrap();
    }
    assert_eq!(kept, [9]);
}

/// What a reader at `point` and wall clock `now` sees: the stamp of a living value, or nothing.
fn seen(run: &[(String, u64, ValueKind)], key: &str, point: u64) -> Option<u64> {
    run.iter()
        .find(|(other, stamp, _)| other == key && *stamp <= point)
        .filter(|(_, _, kind)| *kind != Delete)
        .map(|(_, stamp, _)| *stamp)
}

#[test]
fn no_reader_sees_a_difference() {
    let mut rng = Rng::new(3);
    for _ in 0..3000 {
        let mut run: Vec<Version> = Vec::new();
        for key in ["a", "b", "c"] {
            let mut stamp = 46;
            while stamp > 6 {
                stamp -= 1 + rng.below(6);
                run.push(match rng.below(3) {
                    0 => of(key, stamp, Delete),
                    _ => put(key, stamp),
                });
            }
        }
        let frontier = 20 + rng.below(20);
        let points: Vec<u64> = (0..rng.below(4)).map(|_| rng.below(frontier)).collect();
        let before: Vec<_> = run.iter().map(|v| (v.0.to_owned(), v.1, v.2)).collect();
        let (after, _) = retained(&run, &at(frontier, &points), |_| frontier.is_multiple_of(2));
        for key in ["a", "b", "c"] {
            for point in points.iter().copied().chain(frontier..45) {
                let expected = seen(&before, key, point);
                assert_eq!(
                    seen(&after, key, point),
                    expected,
                    "{key} at {point}: {before:?}"
                );
            }
        }
    }
}
