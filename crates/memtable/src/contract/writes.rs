//! Single keys: installation, decision, reading points, read-modify-write, batches, pruning.

use super::world::{NEWEST, World, at, put};
use crate::{BatchCell, Hint, Install, Intent, Newest, Owner};
use velella_base::{Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sync::epoch;

pub(super) fn run(world: &dyn Fn() -> World) {
    pending_is_unseen_and_blocks_its_key(&world());
    every_stamp_sees_its_version(&world());
    aborted_versions_leave_no_trace(&world());
    an_expected_head_admits_nobody_between(&world());
    a_hint_leads_to_the_newest_version_again(&world(), &world());
    a_batch_appears_at_once(&world());
    an_aborted_batch_never_appears(&world());
    keys_and_values_of_extreme_sizes(&world());
    pruning_keeps_what_readers_need(&world());
    lists_are_pruned_sooner_where_old_versions_are_read(&world());
    pruning_keeps_what_lies_under_a_range_delete(&world());
    kinds_round_trip(&world());
    an_empty_memtable_has_nothing(&world());
}

fn pending_is_unseen_and_blocks_its_key(world: &World) {
    let old = world.put(0, b"k", b"old");
    let guard = epoch::pin();
    let pending = world
        .install(&put(b"k", b"new"), Owner::Slot(1), None, &guard)
        .unwrap();
    assert_eq!(world.get(b"k", NEWEST).unwrap().2, b"old");
    assert_eq!(world.get(b"k", at(old)).unwrap().2, b"old");
    let busy = match world
        .table
        .install(&put(b"k", b"third"), Owner::Slot(2), None, &guard)
    {
        Install::Busy(busy) => busy,
        other => panic!("M1: {other:?}"),
    };
    assert!(matches!(world.table.newest(b"k", &guard), Newest::Busy(_)));
    assert!(world.table.undecided(b"k", &guard).is_some());
    assert!(world.table.undecided(b"other", &guard).is_none());
    assert!(!busy.is_decided());
    let (new, _) = world.window(1, |stamp| pending.publish(stamp));
    assert!(busy.is_decided());
    assert!(world.table.undecided(b"k", &guard).is_none());
    assert_eq!(
        world.get(b"k", NEWEST),
        Some((new, ValueKind::Put, b"new".to_vec()))
    );
    assert_eq!(world.get(b"k", at(old)).unwrap().2, b"old");
}

fn every_stamp_sees_its_version(world: &World) {
    let mut written = Vec::new();
    for turn in 0..20u8 {
        written.push((world.put(0, b"a", &[turn]), Some(turn)));
        world.put(0, b"b", &[turn]);
        if turn % 5 == 4 {
            written.push((world.delete(0, b"a"), None));
        }
    }
    assert_eq!(world.get(b"a", at(Stamp::ZERO)), None);
    for stamp in 0..=world.clock.now().0 {
        let expected = written.iter().rev().find(|(at, _)| at.0 <= stamp);
        let seen = world.get(b"a", at(Stamp(stamp)));
        assert_eq!(seen.as_ref().map(|seen| seen.0), expected.map(|e| e.0));
        let value = expected.and_then(|(_, value)| value.map(|value| vec![value]));
        assert_eq!(world.value(b"a", at(Stamp(stamp))), value);
    }
}

fn aborted_versions_leave_no_trace(world: &World) {
    let guard = epoch::pin();
    for round in 0..3 {
        for _ in 0..3 {
            world
                .install(&put(b"k", b"aborted"), Owner::Slot(0), None, &guard)
                .unwrap()
                .abort();
        }
        let value = [round];
        world.put(0, b"k", &value);
        assert_eq!(world.value(b"k", NEWEST).unwrap(), value);
    }
    world
        .install(&put(b"never", b"aborted"), Owner::Slot(0), None, &guard)
        .unwrap()
        .abort();
    assert_eq!(world.get(b"never", NEWEST), None);
    match world.table.newest(b"never", &guard) {
        Newest::Decided(_, None) => {}
        other => panic!("{other:?}"),
    }
}

fn an_expected_head_admits_nobody_between(world: &World) {
    let guard = epoch::pin();
    let head = |key: &[u8]| match world.table.newest(key, &guard) {
        Newest::Decided(head, version) => (head, version.map(|version| version.value)),
        Newest::Busy(busy) => panic!("{busy:?}"),
    };
    let install = |value: &[u8], head| {
        let intent = put(b"k", value);
        world.install(&intent, Owner::Slot(0), Some(head), &guard)
    };
    // Put-if-absent: the absence is expected, seen now or before.
    let (absent, none) = head(b"k");
    assert_eq!(none, None);
    let before = world.table.absent(&guard);
    let first = install(b"1", &absent).unwrap();
    assert!(install(b"x", &absent).is_none());
    world.window(0, |stamp| first.publish(stamp));
    assert!(install(b"x", &absent).is_none());
    assert!(install(b"x", &before).is_none());
    // A version, then another above it.
    let (one, value) = head(b"k");
    assert_eq!(value, Some(&b"1"[..]));
    world.put(0, b"k", b"2");
    assert!(install(b"x", &one).is_none());
    // An aborted version moves the head too.
    let (two, value) = head(b"k");
    assert_eq!(value, Some(&b"2"[..]));
    install(b"x", &two).unwrap().abort();
    assert!(install(b"x", &two).is_none());
    let (aborted, value) = head(b"k");
    assert_eq!(value, Some(&b"2"[..]));
    let last = install(b"3", &aborted).unwrap();
    world.window(0, |stamp| last.publish(stamp));
    assert_eq!(world.value(b"k", NEWEST).unwrap(), b"3");
}

fn a_hint_leads_to_the_newest_version_again(world: &World, other: &World) {
    let guard = epoch::pin();
    let newest = |world: &World, key: &[u8], hint| match world.table.newest_near(key, hint, &guard)
    {
        Newest::Decided(head, version) => {
            (head.hint(), version.map(|version| version.value.to_vec()))
        }
        Newest::Busy(busy) => panic!("{busy:?}"),
    };
    let (nowhere, none) = newest(world, b"k", Hint::NONE);
    assert_eq!(none, None);
    world.put(0, b"k", b"1");
    world.put(0, b"neighbour", b"other");
    let (there, one) = newest(world, b"k", nowhere);
    assert_eq!(one.unwrap(), b"1");
    // Whatever is installed above it, published or not.
    world.put(0, b"k", b"2");
    assert_eq!(newest(world, b"k", there).1.unwrap(), b"2");
    let pending = world.install(&put(b"k", b"3"), Owner::Slot(0), None, &guard);
    let busy = world.table.newest_near(b"k", there, &guard);
    assert!(matches!(busy, Newest::Busy(_)), "{busy:?}");
    pending.unwrap().abort();
    assert_eq!(newest(world, b"k", there).1.unwrap(), b"2");
    // Another memtable's says nothing, whether the key is there or not.
    assert_eq!(newest(other, b"k", there).1, None);
    other.put(0, b"k", b"elsewhere");
    assert_eq!(newest(other, b"k", there).1.unwrap(), b"elsewhere");
}

fn a_batch_appears_at_once(world: &World) {
    let before = world.put(0, b"b", b"old");
    let guard = epoch::pin();
    let cell = BatchCell::new(1);
    let keys = [&b"a"[..], b"b", b"c"];
    let pendings: Vec<_> = keys
        .iter()
        .map(|key| {
            world
                .install(&put(key, b"new"), Owner::Batch(&cell), None, &guard)
                .unwrap()
        })
        .collect();
    assert_eq!(world.get(b"a", NEWEST), None);
    assert_eq!(world.value(b"b", NEWEST).unwrap(), b"old");
    let busy = world.table.undecided(b"c", &guard).unwrap();
    let (stamp, ()) = world.window(1, |stamp| cell.decide(Some(stamp)));
    // Decided by one store, before any version's own word is touched.
    assert!(busy.is_decided());
    for key in keys {
        assert_eq!(world.get(key, NEWEST).unwrap().0, stamp);
        assert_eq!(world.get(key, at(stamp)).unwrap().0, stamp);
    }
    cell.settle(pendings, &guard);
    for key in keys {
        assert_eq!(world.get(key, NEWEST).unwrap().0, stamp);
    }
    assert_eq!(world.value(b"b", at(before)).unwrap(), b"old");
}

fn an_aborted_batch_never_appears(world: &World) {
    let guard = epoch::pin();
    let cell = BatchCell::new(1);
    let pendings: Vec<_> = [b"a", b"b"]
        .iter()
        .map(|key| {
            world
                .install(&put(*key, b"x"), Owner::Batch(&cell), None, &guard)
                .unwrap()
        })
        .collect();
    cell.abort(pendings, &guard);
    assert_eq!(world.get(b"a", NEWEST), None);
    let stamp = world.batch(0, &[put(b"a", b"1"), put(b"b", b"2")]);
    assert_eq!(
        world.get(b"b", NEWEST).unwrap(),
        (stamp, ValueKind::Put, b"2".to_vec())
    );
}

fn keys_and_values_of_extreme_sizes(world: &World) {
    let long = vec![7; if cfg!(miri) { 3 << 10 } else { 64 << 10 }];
    let large = vec![9; if cfg!(miri) { 17 << 10 } else { 1 << 20 }];
    let keys = [&b""[..], b"\0", b"\0\0", b"12345678", b"12345678\0", &long];
    for (turn, key) in keys.iter().enumerate() {
        world.put(0, key, &[u8::try_from(turn).unwrap()]);
    }
    for (turn, key) in keys.iter().enumerate() {
        assert_eq!(
            world.value(key, NEWEST).unwrap(),
            [u8::try_from(turn).unwrap()]
        );
    }
    assert_eq!(world.table.nodes(), keys.len());
    let before = world.table.bytes();
    world.put(0, b"large", &large);
    world.put(0, b"", &large);
    assert_eq!(world.value(b"large", NEWEST).unwrap(), large);
    assert_eq!(world.value(b"", NEWEST).unwrap(), large);
    assert!(world.table.bytes() >= before + 2 * large.len());
}

fn pruning_keeps_what_readers_need(world: &World) {
    let stamps: Vec<_> = (0..200u8).map(|i| world.put(0, b"k", &[i])).collect();
    let points = vec![stamps[10], stamps[100]];
    let retention = Retention::new(stamps[190], stamps[150], points);
    let guard = epoch::pin();
    let dropped = world.table.prune(b"k", &retention, &guard);
    assert_eq!(world.table.prune(b"other", &retention, &guard), 0);
    for i in [10, 100, 150].into_iter().chain(190..200) {
        let (stamp, _, value) = world.get(b"k", at(stamps[i])).unwrap();
        assert_eq!(
            (stamp, &value[..]),
            (stamps[i], &[u8::try_from(i).unwrap()][..])
        );
    }
    assert!(dropped == 0 || dropped == 200 - 13, "{dropped}");
}

/// Whoever reads an old version walks the list to it.
fn lists_are_pruned_sooner_where_old_versions_are_read(world: &World) {
    let prunings = |key: &[u8], is_read: bool| {
        let oldest = world.put(0, key, b"oldest");
        let mut prunings = 0;
        for _ in 0..640 {
            let payload = [&b"newer"[..], b""];
            let kind = ValueKind::Put;
            let (_, is_long) = world.write(0, &Intent { key, kind, payload });
            if is_long {
                let now = world.clock.now();
                let points = if is_read { vec![oldest] } else { Vec::new() };
                let retention = Retention::new(now, now, points);
                world.table.prune(key, &retention, &epoch::pin());
                prunings += 1;
            }
        }
        prunings
    };
    let (unread, read) = (prunings(b"k", false), prunings(b"l", true));
    assert!(unread <= 640 / 30, "{unread}");
    assert!(read > 3 * unread || unread == 0, "{read}, and {unread}");
}

/// It says nothing of its own first key's versions: readers look on below it.
fn pruning_keeps_what_lies_under_a_range_delete(world: &World) {
    let write = |kind, value: &[u8]| {
        let payload = [value, b""];
        let key = b"k";
        world.write(0, &Intent { key, kind, payload }).0
    };
    write(ValueKind::Put, b"0");
    let read = write(ValueKind::Put, b"1");
    let range = write(ValueKind::RangeDelete, b"l");
    let prune = || {
        let retention = Retention::new(world.clock.now(), world.clock.now(), Vec::new());
        world.table.prune(b"k", &retention, &epoch::pin())
    };
    prune();
    let value = |stamp| world.value(b"k", at(stamp));
    assert_eq!(value(Stamp(range.0 - 1)).unwrap(), b"1");
    write(ValueKind::Merge, b"operand");
    write(ValueKind::RangeDelete, b"l");
    write(ValueKind::Merge, b"another");
    let dropped = prune();
    assert_eq!(value(read).unwrap(), b"1", "an operand builds on it");
    assert!(dropped == 0, "{dropped}: nothing is left to go");
}

fn kinds_round_trip(world: &World) {
    for kind in ValueKind::ALL {
        let intent = Intent {
            key: b"k",
            kind,
            payload: [b"two ", b"parts"],
        };
        let (stamp, _) = world.write(0, &intent);
        let seen = world.get(b"k", NEWEST).unwrap();
        assert_eq!(seen, (stamp, kind, b"two parts".to_vec()));
    }
}

fn an_empty_memtable_has_nothing(world: &World) {
    assert!(world.table.is_empty());
    assert_eq!(world.table.nodes(), 0);
    assert_eq!(world.get(b"k", NEWEST), None);
    world.put(0, b"k", b"");
    assert!(!world.table.is_empty());
    assert_eq!(world.table.nodes(), 1);
}
