//! Cursors: both directions, both modes, and what concurrent writes may change.

use super::world::{NEWEST, Row, World, at, put, rest, rest_back, row};
use crate::{CursorMode, Intent, OnPending, Owner, ReadAt};
use velella_base::{Cursor, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sync::epoch;

pub(super) fn run(world: &dyn Fn() -> World) {
    an_empty_memtable_has_no_place(&world());
    visible_yields_each_key_once(&world());
    all_yields_every_committed_version(&world());
    seeking_obeys_key_and_stamp(&world());
    stepping_to_and_fro_returns(&world());
    a_snapshot_cursor_ignores_later_writes(&world());
    keys_only_omits_the_values_of_puts(&world());
    a_cursor_outlives_the_callers_handle(world());
    pruning_under_a_cursor_changes_nothing(&world());
    values_of_all_sizes_are_shown_whole(&world());
    keys_only_is_of_puts_only_on_a_walk_too(&world());
    a_walk_does_not_wait_for_a_key_that_it_does_not_come_to(&world());
}

fn key(i: usize) -> Vec<u8> {
    format!("key{i:05}").into_bytes()
}

/// `count` keys with `versions` versions each, every third key deleted last; pending and aborted
/// versions strewn in by `strew`.
fn fill(world: &World, count: usize, versions: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for version in 0..versions {
        for i in 0..count {
            let value = format!("{i}.{version}").into_bytes();
            if i % 3 == 0 && version + 1 == versions {
                let stamp = world.delete(0, &key(i));
                rows.push((key(i), stamp, ValueKind::Delete, Vec::new()));
            } else {
                let stamp = world.put(0, &key(i), &value);
                rows.push((key(i), stamp, ValueKind::Put, value));
            }
        }
    }
    let guard = epoch::pin();
    for i in (0..count).step_by(4) {
        let aborted = world
            .install(&put(&key(i), b"aborted"), Owner::Slot(0), None, &guard)
            .unwrap();
        aborted.abort();
    }
    rows.sort_by(|a, b| world.order.compare(&a.0, &b.0).then(b.1.cmp(&a.1)));
    rows
}

/// The rows that a reader at `stamp` sees.
fn visible(rows: &[Row], stamp: Stamp) -> Vec<Row> {
    let mut seen: Vec<Row> = rows.iter().filter(|r| r.1 <= stamp).cloned().collect();
    seen.dedup_by(|later, kept| later.0 == kept.0);
    seen
}

fn both_ways(cursor: &mut dyn Cursor, expected: &[Row]) {
    assert!(cursor.entry().is_none(), "U2: a cursor starts unpositioned");
    cursor.seek_first().unwrap();
    assert_eq!(rest(cursor), expected);
    cursor.seek_last().unwrap();
    let mut back = rest_back(cursor);
    back.reverse();
    assert_eq!(back, expected);
    assert!(
        cursor.entry().is_none(),
        "U2: past the end there is nothing"
    );
}

fn an_empty_memtable_has_no_place(world: &World) {
    for mode in [
        CursorMode::All,
        CursorMode::Visible {
            at: NEWEST,
            keys_only: false,
        },
    ] {
        let mut cursor = world.cursor(mode);
        both_ways(&mut *cursor, &[]);
        cursor.seek(b"", Stamp::MAX).unwrap();
        assert!(cursor.entry().is_none());
        cursor.seek_before(b"z").unwrap();
        assert!(cursor.entry().is_none());
    }
}

fn visible_yields_each_key_once(world: &World) {
    let (count, versions) = if cfg!(miri) { (12, 3) } else { (700, 12) };
    let rows = fill(world, count, versions);
    let last = world.clock.now();
    let guard = epoch::pin();
    let pending = world
        .install(&put(&key(5), b"pending"), Owner::Slot(3), None, &guard)
        .unwrap();
    for stamp in [0, 1, last.0 / 2, last.0] {
        both_ways(
            &mut *world.visible(at(Stamp(stamp))),
            &visible(&rows, Stamp(stamp)),
        );
    }
    both_ways(&mut *world.visible(NEWEST), &visible(&rows, last));
    pending.abort();
}

fn all_yields_every_committed_version(world: &World) {
    let (count, versions) = if cfg!(miri) { (9, 3) } else { (300, 6) };
    let rows = fill(world, count, versions);
    let guard = epoch::pin();
    let pending = world
        .install(&put(&key(5), b"pending"), Owner::Slot(3), None, &guard)
        .unwrap();
    both_ways(&mut *world.cursor(CursorMode::All), &rows);
    pending.abort();
}

fn seeking_obeys_key_and_stamp(world: &World) {
    let count = if cfg!(miri) { 8 } else { 30 };
    let rows = fill(world, count, 3);
    let last = world.clock.now();
    let mut all = world.cursor(CursorMode::All);
    let mut newest = world.visible(NEWEST);
    let seen = visible(&rows, last);
    let before = |row: &&Row, target: &[u8]| world.order.compare(&row.0, target).is_lt();
    let mut targets: Vec<Vec<u8>> = (0..=count).map(key).collect();
    targets.extend([b"".to_vec(), b"key00007x".to_vec(), b"zzz".to_vec()]);
    for target in &targets {
        for stamp in [0, 1, 20, 45, 80, last.0].map(Stamp) {
            let at_or_after = |row: &&Row| {
                let by_key = world.order.compare(&row.0, target);
                by_key.then(stamp.cmp(&row.1)).is_ge()
            };
            all.seek(target, stamp).unwrap();
            assert_eq!(row(&*all).as_ref(), rows.iter().find(at_or_after));
            newest.seek(target, stamp).unwrap();
            assert_eq!(row(&*newest).as_ref(), seen.iter().find(at_or_after));
        }
        all.seek_before(target).unwrap();
        let expected = rows.iter().rfind(|row| before(row, target));
        assert_eq!(row(&*all).as_ref(), expected);
        newest.seek_before(target).unwrap();
        let expected = seen.iter().rfind(|row| before(row, target));
        assert_eq!(row(&*newest).as_ref(), expected);
    }
}

fn stepping_to_and_fro_returns(world: &World) {
    let rows = fill(world, if cfg!(miri) { 10 } else { 200 }, 2);
    let seen = visible(&rows, world.clock.now());
    for (mut cursor, rows) in [
        (world.visible(NEWEST), &seen),
        (world.cursor(CursorMode::All), &rows),
    ] {
        cursor.seek_first().unwrap();
        let mut place = 0usize;
        let mut steps = velella_sync::rng::Rng::new(7);
        for _ in 0..if cfg!(miri) { 60 } else { 4000 } {
            assert_eq!(row(&*cursor).as_ref(), Some(&rows[place]));
            let forward = steps.below(16) < 8 + (place as u64 * 7 % 3) - 1;
            let down_to = Stamp(steps.below(rows[place].1.0));
            let passed = |other: &&Row| other.0 == rows[place].0 && other.1 > down_to;
            let to = place + rows[place..].iter().take_while(passed).count();
            if forward && to < rows.len() && steps.below(3) == 0 {
                cursor.pass(&rows[place].0, down_to).unwrap();
                place = to;
            } else if forward && place + 1 < rows.len() {
                cursor.next().unwrap();
                place += 1;
            } else if !forward && place > 0 {
                cursor.prev().unwrap();
                place -= 1;
            }
        }
    }
}

fn a_snapshot_cursor_ignores_later_writes(world: &World) {
    let rows = fill(world, if cfg!(miri) { 9 } else { 100 }, 2);
    let stamp = world.clock.now();
    let seen = visible(&rows, stamp);
    let mut cursor = world.visible(at(stamp));
    cursor.seek_first().unwrap();
    let mut forward = Vec::new();
    while let Some(here) = row(&*cursor) {
        world.put(0, &here.0, b"later");
        let between = [&here.0[..], b"+"].concat();
        world.put(0, &between, b"later");
        forward.push(here);
        cursor.next().unwrap();
    }
    assert_eq!(forward, seen);
    cursor.seek_last().unwrap();
    let mut backward = Vec::new();
    while let Some(here) = row(&*cursor) {
        world.put(0, &[&here.0[..], b"-"].concat(), b"later");
        backward.push(here);
        cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(backward, seen);
}

fn keys_only_omits_the_values_of_puts(world: &World) {
    world.put(0, b"a", b"value");
    let intent = Intent {
        key: b"b",
        kind: ValueKind::Merge,
        payload: [b"operand", b""],
    };
    world.write(0, &intent);
    let mut cursor = world.cursor(CursorMode::Visible {
        at: NEWEST,
        keys_only: true,
    });
    cursor.seek(b"a", Stamp::MAX).unwrap();
    assert_eq!(cursor.entry().unwrap().value, b"");
    cursor.seek(b"b", Stamp::MAX).unwrap();
    assert_eq!(cursor.entry().unwrap().value, b"operand");
}

fn a_cursor_outlives_the_callers_handle(world: World) {
    let rows = fill(&world, 20, 2);
    let seen = visible(&rows, world.clock.now());
    let mut visible = world.visible(NEWEST);
    let mut all = world.cursor(CursorMode::All);
    drop(world);
    both_ways(&mut *visible, &seen);
    both_ways(&mut *all, &rows);
}

fn pruning_under_a_cursor_changes_nothing(world: &World) {
    let stamp = world.put(0, b"k", b"seen");
    let snapshot = ReadAt {
        stamp,
        pending: OnPending::Resolve,
    };
    let mut visible = world.visible(snapshot);
    visible.seek_first().unwrap();
    let guard = epoch::pin();
    let retention = |world: &World| Retention::new(world.clock.now(), Stamp(0), vec![stamp]);
    let writes = if cfg!(miri) { 20 } else { 100u8 };
    for i in 0..writes {
        world.put(0, b"k", &[i; 4]);
        world.table.prune(b"k", &retention(world), &guard);
    }
    assert_eq!(visible.entry().unwrap().value, b"seen");
    visible.seek_first().unwrap();
    assert_eq!(visible.entry().unwrap().value, b"seen");
    let mut all = world.cursor(CursorMode::All);
    all.seek_first().unwrap();
    let held = row(&*all);
    for i in 0..writes {
        world.put(0, b"k", &[i; 4]);
        let dropped = world.table.prune(b"k", &Retention::newest_only(), &guard);
        assert_eq!(dropped, 0, "a cursor over all versions keeps them");
    }
    assert_eq!(row(&*all), held);
    let expected: Vec<Row> = rest(&mut *all);
    assert_eq!(expected.last().unwrap().3, b"seen");
}

/// Of a walk's values some lie beside each other in the cursor, some have no room there.
fn values_of_all_sizes_are_shown_whole(world: &World) {
    let mut lens = velella_sync::rng::Rng::new(11);
    let mut rows: Vec<Row> = Vec::new();
    for i in 0..if cfg!(miri) { 12 } else { 300 } {
        let most = [2, 100, 700, 3000][i / 3 % 4];
        let len = usize::try_from(lens.below(most)).unwrap();
        let value = vec![u8::try_from(i % 251).unwrap(); len];
        let stamp = world.put(0, &key(i), &value);
        rows.push((key(i), stamp, ValueKind::Put, value));
    }
    rows.sort_by(|a, b| world.order.compare(&a.0, &b.0));
    let mut cursor = world.visible(NEWEST);
    both_ways(&mut *cursor, &rows);
    cursor.seek_first().unwrap();
    let mut place = 0;
    for _ in 0..if cfg!(miri) { 40 } else { 3000 } {
        // Long ways forward, short ones back.
        let is_back = place + 1 == rows.len() || place > 0 && lens.below(12) == 0;
        for _ in 0..if is_back { 1 + lens.below(8) } else { 1 } {
            match is_back {
                true if place == 0 => break,
                true => (place -= 1, cursor.prev().unwrap()),
                false => (place += 1, cursor.next().unwrap()),
            };
            assert_eq!(row(&*cursor).as_ref(), Some(&rows[place]));
        }
    }
}

fn a_walk_does_not_wait_for_a_key_that_it_does_not_come_to(world: &World) {
    for i in 0..60 {
        world.put(0, &key(i), b"old");
    }
    let mut sorted: Vec<Vec<u8>> = (0..60).map(key).collect();
    sorted.sort_by(|a, b| world.order.compare(a, b));
    let walk = |at: ReadAt| {
        let mut cursor = world.visible(at);
        cursor.seek_first().unwrap();
        (0..39).for_each(|_| cursor.next().unwrap());
        cursor
    };
    for ahead in if cfg!(miri) { 1..3 } else { 1..10 } {
        let guard = epoch::pin();
        let stalled = &sorted[39 + ahead];
        let pending = world
            .install(&put(stalled, b"new"), Owner::Slot(1), None, &guard)
            .unwrap();
        world.slots.announce(1, world.clock.lower_bound());
        let stamp = world.clock.draw();
        let snapshot = at(world.clock.now());
        let (said, heard) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let walk = &walk;
            scope.spawn(move || said.send(walk(snapshot)));
            let walked = heard.recv_timeout(std::time::Duration::from_secs(20));
            pending.publish(stamp);
            world.slots.idle(1);
            let mut cursor = walked.expect("the walk waits for a key that it does not show");
            let rest = rest(&mut *cursor);
            assert_eq!(rest[ahead].0, *stalled);
            assert_eq!((rest[ahead].1, &*rest[ahead].3), (stamp, &b"new"[..]));
        });
    }
}

fn keys_only_is_of_puts_only_on_a_walk_too(world: &World) {
    let mut rows = Vec::new();
    for i in 0..40 {
        let (kind, value) = match i % 3 {
            0 => (ValueKind::Merge, &b"operand"[..]),
            _ => (ValueKind::Put, &b""[..]),
        };
        let intent = Intent {
            key: &key(i),
            kind,
            payload: [
                if kind == ValueKind::Put {
                    b"value"
                } else {
                    value
                },
                b"",
            ],
        };
        let (stamp, _) = world.write(0, &intent);
        rows.push((key(i), stamp, kind, value.to_vec()));
    }
    rows.sort_by(|a, b| world.order.compare(&a.0, &b.0));
    let mut cursor = world.cursor(CursorMode::Visible {
        at: NEWEST,
        keys_only: true,
    });
    both_ways(&mut *cursor, &rows);
}
