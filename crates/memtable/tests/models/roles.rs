//! What roles have in common, sound and spoiled.

use super::*;

/// What a role tells about what it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// Wrote `key`: `value`, or a tombstone. An update tells also what it built on.
    Wrote {
        key: u8,
        stamp: Stamp,
        value: Option<Vec<u8>>,
        base: Option<Option<Vec<u8>>>,
    },
    /// Read at a snapshot all that is there, both ways.
    Saw { at: Stamp, rows: Vec<Row> },
    /// Read the newest of `key` when that of `floor` was written already.
    Got {
        key: u8,
        floor: Stamp,
        seen: Option<(Stamp, Option<Vec<u8>>)>,
    },
}

/// A put that draws its stamp before it installs.
pub(crate) fn stamp_first(world: &World, slot: usize, value: &[u8]) {
    world.slots.announce(slot, world.clock.lower_bound());
    let stamp = world.clock.draw();
    let guard = epoch::pin();
    let pending = world
        .install(&put(b"k", value), Owner::Slot(slot), None, &guard)
        .unwrap();
    pending.publish(stamp);
    world.slots.idle(slot);
}

/// Installs a version of `k` and lets `decide` have it within its window.
pub(crate) fn install_and(world: &World, decide: fn(Pending<'_>, Stamp)) {
    let guard = epoch::pin();
    let pending = world
        .install(&put(b"k", b"x"), Owner::Slot(0), None, &guard)
        .unwrap();
    world.window(0, |stamp| decide(pending, stamp));
}

/// Puts `k` if it has no version, as somebody does who saw before that it has none.
pub(crate) fn insert_absent(world: &World, slot: usize, value: &[u8]) {
    let guard = epoch::pin();
    let absent = world.table.absent(&guard);
    let installed = world.install(&put(b"k", value), Owner::Slot(slot), Some(&absent), &guard);
    if let Some(pending) = installed {
        world.window(slot, |stamp| pending.publish(stamp));
    }
}

/// Appends to `k`.
pub(crate) fn append(world: &World, slot: usize, value: &[u8]) {
    world.update(slot, b"k", |base| {
        [base.unwrap_or_default(), value].concat()
    });
}

/// Appends to what `k` was, whatever it is by the time of the installation.
pub(crate) fn append_blind(world: &World, slot: usize, value: &[u8]) {
    let guard = epoch::pin();
    let base = loop {
        match world.table.newest(b"k", &guard) {
            Newest::Decided(_, base) => break base.map(|base| base.value.to_vec()),
            Newest::Busy(_) => thread::yield_now(),
        }
    };
    world.put(
        slot,
        b"k",
        &[base.unwrap_or_default(), value.to_vec()].concat(),
    );
}

/// Everything, forwards and then backwards: the same, and, at a stamp, nothing but what was written
/// up to it, the newest included.
pub(crate) fn both_ways(
    world: &World,
    mut cursor: Box<dyn Cursor>,
    stamp: Option<Stamp>,
) -> Vec<Row> {
    cursor.seek_first().unwrap();
    let forward = rest(&mut *cursor);
    cursor.seek_last().unwrap();
    let mut back = rest_back(&mut *cursor);
    back.reverse();
    assert_eq!(forward, back, "the two ways differ");
    let order = |a: &Row, b: &Row| world.order.compare(&a.0, &b.0).is_lt();
    assert!(forward.is_sorted_by(order), "unsorted: {forward:?}");
    if let Some(stamp) = stamp {
        let newest = forward.iter().map(|row| row.1).max();
        assert_eq!(newest, Some(stamp), "a write is missing, or one too many");
    }
    forward
}

/// Prunes `key` as the engine does.
pub(crate) fn prune(scene: &Scene, key: &[u8]) {
    let retention = scene
        .snapshots
        .retention(&scene.clock, &scene.slots, || Stamp::MAX, 0);
    scene.table.prune(key, &retention, &epoch::pin());
}
