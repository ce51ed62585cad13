//! The protocol's parts that live in a memtable, as models of the code as it is, for both tools.
//!
//! A model is what was before, two to four roles that run at once, and what must hold afterwards.
//! Each has a control: the same with one ordering or check spoiled (a [`Site`]), or with one step
//! of a role displaced, that must fail: a model that cannot fail proves nothing.
#![allow(dead_code, reason = "each tool explores a part of them")]

pub(crate) mod entries;
#[cfg(shuttle)]
pub(crate) mod histories;
pub(crate) mod roles;

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use velella_base::{Cursor, Order, Stamp, ValueKind};
use velella_memtable::contract::World;
use velella_memtable::contract::world::{NEWEST, Row, at, put, rest, rest_back, row};
use velella_memtable::{
    CursorMode, Memtable, MemtableKind, MemtableOptions, Newest, Owner, Pending, Site, weaken,
};
use velella_mvcc::{Retention, Snapshots};
use velella_sync::{epoch, thread};

pub(crate) const KINDS: [MemtableKind; 3] = MemtableKind::ALL;

/// Those with a list of versions per key.
pub(crate) const CHAINED: [MemtableKind; 2] = [MemtableKind::Jellyfish, MemtableKind::S3];

/// A memtable with clock and slots, and what only some models need beside them.
pub(crate) struct Scene {
    world: World,
    pub(crate) snapshots: Arc<Snapshots>,
    /// What roles tell `after`; the standard library's mutex: to look at it is no step.
    pub(crate) notes: Mutex<Vec<roles::Note>>,
}

impl Scene {
    fn new(kind: MemtableKind) -> Scene {
        let make = |order, slots| -> Arc<dyn Memtable> {
            velella_memtable::new(&MemtableOptions {
                kind,
                order,
                slots,
                counters: Arc::default(),
                guards: 96.into(),
                keys: 0,
                spare: Arc::default(),
            })
        };
        Scene {
            world: World::new(&make, &Order::Bytewise),
            snapshots: Snapshots::new(),
            notes: Mutex::default(),
        }
    }
}

impl Deref for Scene {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

pub(crate) type Role = fn(&Scene);

/// What was before, the roles, and what must hold afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) before: Role,
    pub(crate) roles: &'static [Role],
    pub(crate) after: Role,
}

impl Model {
    /// One execution, with role `main` in the main thread (none, if there is no such role).
    pub(crate) fn run(self, kind: MemtableKind, main: usize, spoiled: Option<Site>) {
        weaken(spoiled);
        let scene = Arc::new(Scene::new(kind));
        (self.before)(&scene);
        let others: Vec<_> = (0..self.roles.len())
            .filter(|role| *role != main)
            .map(|role| {
                let (scene, role) = (Arc::clone(&scene), self.roles[role]);
                thread::spawn("role", move || role(&scene)).unwrap()
            })
            .collect();
        if let Some(role) = self.roles.get(main) {
            role(&scene);
        }
        for other in others {
            other.join().expect("a role failed");
        }
        (self.after)(&scene);
    }
}

pub(crate) fn nothing(_: &Scene) {}

pub(crate) fn all(world: &Scene) -> Vec<(Stamp, Vec<u8>)> {
    let mut cursor = world.cursor(CursorMode::All);
    cursor.seek_first().unwrap();
    rest(&mut *cursor)
        .into_iter()
        .map(|row| (row.1, row.3))
        .collect()
}

/// A put and a read-modify-write of one key: stamps fall along the list, nothing is lost.
pub(crate) const PUT_RMW: Model = Model {
    before: |world| {
        world.put(0, b"k", b"0");
    },
    roles: &[
        |world| {
            world.put(0, b"k", b"p");
        },
        |world| {
            world.update(1, b"k", |base| [base.unwrap(), b"u"].concat());
        },
    ],
    after: |world| {
        let versions = all(world);
        assert!(versions.is_sorted_by(|a, b| a.0 > b.0), "M2: {versions:?}");
        let values: Vec<&[u8]> = versions.iter().map(|version| &version.1[..]).collect();
        let expected: [&[&[u8]]; 2] = [&[b"pu", b"p", b"0"], &[b"p", b"0u", b"0"]];
        assert!(expected.contains(&&values[..]), "cl1: {versions:?}");
    },
};

/// A put, and two inserters who saw that the key was absent: one of these comes first, or none.
pub(crate) const ABSENCE: Model = Model {
    before: nothing,
    roles: &[
        |world| {
            world.put(0, b"k", b"p");
        },
        |world| roles::insert_absent(world, 1, b"a"),
        |world| roles::insert_absent(world, 2, b"b"),
    ],
    after: |world| {
        let values: Vec<_> = all(world).into_iter().map(|version| version.1).collect();
        let expected: [&[&[u8]]; 3] = [&[b"p"], &[b"p", b"a"], &[b"p", b"b"]];
        assert!(
            expected.iter().any(|expected| values == *expected),
            "{values:?}"
        );
    },
};

/// The same by inserters who do not say what they saw.
pub(crate) const ABSENCE_UNSAID: Model = Model {
    roles: &[
        |world| {
            world.put(0, b"k", b"p");
        },
        |world| {
            world.put(1, b"k", b"a");
        },
    ],
    ..ABSENCE
};

/// Two threads insert the same new key: one node, both versions.
pub(crate) const SAME_NEW_KEY: Model = Model {
    before: nothing,
    roles: &[
        |world| {
            world.put(0, b"k", b"a");
        },
        |world| {
            world.put(1, b"k", b"b");
        },
    ],
    after: |world| {
        assert_eq!(all(world).len(), 2, "a version was lost");
        let mut cursor = world.visible(NEWEST);
        cursor.seek_first().unwrap();
        assert_eq!(row(&*cursor).unwrap().1, Stamp(2));
        cursor.next().unwrap();
        assert!(cursor.entry().is_none(), "jf7: two nodes for one key");
    },
};

/// A snapshot read twice is the same, and is exactly the stamps at or below its time.
pub(crate) fn check_snapshot(world: &Scene, keys: &[&[u8]]) {
    let stamp = world.clock.observe();
    let look = || {
        keys.iter()
            .map(|key| world.get(key, at(stamp)))
            .collect::<Vec<_>>()
    };
    let first = look();
    assert_eq!(first, look(), "the snapshot at {stamp} moved");
    let newest = first.iter().flatten().map(|seen| seen.0).max();
    assert_eq!(
        newest.unwrap_or_default(),
        stamp,
        "the snapshot misses a write"
    );
}

/// One writer puts twice through one slot while a snapshot is taken.
pub(crate) const TWO_PUTS: Model = Model {
    before: nothing,
    roles: &[
        |world| {
            world.put(0, b"k", b"1");
            world.put(0, b"k", b"2");
        },
        |world| check_snapshot(world, &[b"k"]),
    ],
    after: nothing,
};

/// The same, announced only after the stamp was drawn (variant R2 of the protocol).
pub(crate) const TWO_PUTS_LATE: Model = Model {
    roles: &[
        |world| {
            let guard = epoch::pin();
            let intent = put(b"k", b"1");
            let pending = world
                .install(&intent, Owner::Slot(0), None, &guard)
                .unwrap();
            let bound = world.clock.lower_bound();
            let stamp = world.clock.draw();
            world.slots.announce(0, bound);
            pending.publish(stamp);
            world.slots.idle(0);
        },
        |world| check_snapshot(world, &[b"k"]),
    ],
    ..TWO_PUTS
};

/// Two writers use one slot in turn.
pub(crate) const SLOT_REUSE: Model = Model {
    before: nothing,
    roles: &[
        |world| {
            world.put(0, b"a", b"1");
            world.slots.announce(1, Stamp(0));
        },
        |world| {
            // The hand-over of the pair, as the pool does it: Release by the first, Acquire here.
            if world.slots.announced(1).is_some() {
                world.put(0, b"b", b"2");
            }
        },
        |world| check_snapshot(world, &[b"a", b"b"]),
    ],
    after: nothing,
};

/// Who sees one half of a batch sees the other, before and after the words are rewritten.
pub(crate) const BATCH_TWO_GETS: Model = Model {
    before: nothing,
    roles: &[
        |world| {
            world.batch(0, &[put(b"a", b"1"), put(b"b", b"1")]);
        },
        |world| {
            let [a, b, again] = [&b"a"[..], b"b", b"a"].map(|key| world.get(key, NEWEST));
            assert!(a.is_none() || b.is_some(), "a without b");
            assert!(b.is_none() || again.is_some(), "b without a");
        },
    ],
    after: |world| assert_eq!(all(world).len(), 2),
};

/// A writer installs above a batch while its words are rewritten and its cell given up.
pub(crate) const CELL_REWRITE: Model = Model {
    before: |world| {
        world.put(0, b"a", b"0");
    },
    roles: &[
        |world| {
            world.batch(0, &[put(b"a", b"1"), put(b"b", b"1")]);
        },
        |world| {
            world.update(1, b"a", |base| [base.unwrap(), b"u"].concat());
            let first = world.get(b"b", NEWEST).map(|seen| seen.0);
            let second = world.get(b"a", NEWEST).map(|seen| seen.0);
            assert!(second >= first, "half a batch");
        },
    ],
    after: |world| {
        let values: Vec<_> = all(world).into_iter().map(|version| version.1).collect();
        let expected: [&[&[u8]]; 2] = [&[b"1u", b"1", b"0", b"1"], &[b"1", b"0u", b"0", b"1"]];
        assert!(
            expected.iter().any(|expected| values == *expected),
            "{values:?}"
        );
    },
};

/// A version aborts and is unlinked by the next installation under a reader's feet.
pub(crate) const ABORT_UNLINK: Model = Model {
    before: |world| {
        world.put(0, b"k", b"0");
    },
    roles: &[
        |world| {
            let guard = epoch::pin();
            let intent = put(b"k", b"x");
            world
                .install(&intent, Owner::Slot(0), None, &guard)
                .unwrap()
                .abort();
            world.put(0, b"k", b"1");
        },
        |world| {
            let seen = world.value(b"k", NEWEST).expect("the key vanished");
            assert!(seen == b"0" || seen == b"1", "an aborted version was read");
        },
    ],
    after: |world| assert_eq!(all(world).len(), 2),
};

/// A writer that meets an undecided version goes on once its owner has decided, as ever that is.
pub(crate) const WAITER: Model = Model {
    before: nothing,
    roles: &[
        |world| {
            roles::install_and(world, |pending, _| pending.abort());
            roles::install_and(world, |pending, stamp| {
                pending.publish(stamp);
            });
        },
        |world| {
            world.put(1, b"k", b"1");
        },
    ],
    after: |world| assert_eq!(all(world).len(), 2, "a version was lost"),
};

/// The same with an owner that never decides.
pub(crate) const WAITER_FORGOTTEN: Model = Model {
    roles: &[
        |world| roles::install_and(world, |pending, _| std::mem::forget(pending)),
        WAITER.roles[1],
    ],
    ..WAITER
};

/// A get passes a pending version over while that is committed and pruned below.
pub(crate) const SKIP_VS_PRUNE: Model = Model {
    before: |world| {
        world.put(0, b"k", b"1");
    },
    roles: &[
        |world| {
            world.put(0, b"k", b"2");
            world.put(0, b"k", b"3");
            // Two readers' points keep 3 and 2; 1 is dropped.
            let retention = Retention::new(Stamp(3), Stamp(2), Vec::new());
            assert_eq!(world.table.prune(b"k", &retention, &epoch::pin()), 1);
        },
        |world| {
            let seen = world.get(b"k", NEWEST);
            assert!(
                matches!(seen, Some((_, ValueKind::Put, _))),
                "the key vanished"
            );
        },
    ],
    after: |world| assert_eq!(all(world).len(), 2),
};

/// Two puts of one key: the version that is installed above has the higher stamp, because both
/// are installed before they are stamped.
pub(crate) const TWO_WRITERS: Model = Model {
    before: |world| {
        world.put(0, b"k", b"0");
    },
    roles: &[
        |world| {
            world.put(0, b"k", b"a");
        },
        |world| {
            world.put(1, b"k", b"b");
        },
        |world| check_snapshot(world, &[b"k"]),
    ],
    after: |world| {
        let versions = all(world);
        assert!(versions.is_sorted_by(|a, b| a.0 > b.0), "M2: {versions:?}");
        assert_eq!(versions.len(), 3, "a version was lost");
    },
};

/// The same, stamped first and installed then (variant R3 of the protocol).
pub(crate) const TWO_WRITERS_STAMP_FIRST: Model = Model {
    roles: &[
        |world| roles::stamp_first(world, 0, b"a"),
        |world| roles::stamp_first(world, 1, b"b"),
        |world| check_snapshot(world, &[b"k"]),
    ],
    ..TWO_WRITERS
};

/// Two read-modify-writes of one key: the second builds on the first.
pub(crate) const TWO_UPDATES: Model = Model {
    before: nothing,
    roles: &[
        |world| roles::append(world, 0, b"a"),
        |world| roles::append(world, 1, b"b"),
    ],
    after: |world| {
        let last = world.value(b"k", NEWEST).expect("the key vanished");
        assert!(last == b"ab" || last == b"ba", "lost update: {last:?}");
    },
};

/// The same, installed above whatever is there by then (variant R7: no lost race is noticed).
pub(crate) const TWO_UPDATES_BLIND: Model = Model {
    roles: &[
        |world| roles::append_blind(world, 0, b"a"),
        |world| roles::append_blind(world, 1, b"b"),
    ],
    ..TWO_UPDATES
};

/// A cursor at a snapshot goes forward and back while keys are inserted before, between and after
/// what it has seen.
pub(crate) const ITERATOR: Model = Model {
    before: |world| {
        world.put(2, b"b", b"0");
        world.put(2, b"d", b"0");
    },
    roles: &[
        |world| {
            world.put(0, b"a", b"1");
            world.put(0, b"c", b"1");
        },
        |world| {
            let stamp = world.clock.observe();
            roles::both_ways(world, world.visible(at(stamp)), Some(stamp));
        },
    ],
    after: |world| assert_eq!(all(world).len(), 4, "a key was lost"),
};

/// The same at no time in particular, which is no snapshot.
pub(crate) const ITERATOR_NEWEST: Model = Model {
    roles: &[ITERATOR.roles[0], |world| {
        roles::both_ways(world, world.visible(NEWEST), None);
    }],
    ..ITERATOR
};

/// With a second thread that inserts beside the first.
pub(crate) const ITERATOR_TWO_INSERTERS: Model = Model {
    roles: &[
        ITERATOR.roles[0],
        |world| {
            world.put(1, b"c1", b"1");
            world.put(1, b"e", b"1");
        },
        ITERATOR.roles[1],
    ],
    after: |world| {
        let rows = roles::both_ways(world, world.visible(at(world.clock.observe())), None);
        assert_eq!(rows.len(), 6, "a key was lost: {rows:?}");
    },
    ..ITERATOR
};

/// A registered snapshot keeps what it reads from a pruner that asks the registry.
pub(crate) const SNAPSHOT_VS_PRUNER: Model = Model {
    before: |world| {
        world.put(0, b"k", b"1");
    },
    roles: &[
        |world| {
            world.put(0, b"k", b"2");
            roles::prune(world, b"k");
        },
        |world| {
            let snapshot = world.snapshots.take(&world.clock, 0, || 0);
            let look = || world.get(b"k", at(snapshot.at()));
            let first = look();
            assert_eq!(first.as_ref().map(|seen| seen.0), Some(snapshot.at()));
            assert_eq!(first, look(), "pruned under a snapshot");
        },
    ],
    after: nothing,
};

/// The same with the registry read before the frontier (N2 turned round).
pub(crate) const SNAPSHOT_VS_PRUNER_EARLY: Model = Model {
    roles: &[
        |world| {
            let registered = world.snapshots.stamps();
            world.put(0, b"k", b"2");
            let frontier = world.slots.frontier(&world.clock);
            let rule = Retention::new(frontier, Stamp::MAX, registered);
            world.table.prune(b"k", &rule, &epoch::pin());
        },
        SNAPSHOT_VS_PRUNER.roles[1],
    ],
    ..SNAPSHOT_VS_PRUNER
};

/// A version is not reused while a thread that found it is pinned.
pub(crate) const RECLAMATION: Model = Model {
    before: |world| {
        world.put(0, b"k", b"first");
    },
    roles: &[
        |world| {
            for value in [b"again", b"third", b"forth"] {
                world.put(0, b"k", value);
                let guard = epoch::pin();
                world.table.prune(b"k", &Retention::newest_only(), &guard);
            }
        },
        |world| {
            let guard = epoch::pin();
            let found = world.table.get(b"k", NEWEST, &guard).expect("never absent");
            let copy = found.value.to_vec();
            for _ in 0..3 {
                thread::yield_now();
                assert_eq!(found.value, copy, "reused under a reader");
            }
        },
    ],
    after: nothing,
};

/// A cursor over whole lists keeps pruners out, since it holds references without a pin.
pub(crate) const FLUSH_VS_PRUNER: Model = Model {
    before: |world| {
        world.put(0, b"k", b"1");
        world.put(0, b"k", b"2");
    },
    roles: &[RECLAMATION.roles[0], |world| {
        let mut cursor = world.cursor(CursorMode::All);
        cursor.seek_first().unwrap();
        let mut seen = Vec::new();
        while let Some((_, stamp, _, value)) = row(&*cursor) {
            seen.push((stamp, value));
            thread::yield_now();
            cursor.next().unwrap();
        }
        let stamps = seen.iter().map(|(stamp, _)| *stamp);
        assert!(stamps.is_sorted_by(|a, b| a > b), "M2: {seen:?}");
        for (stamp, value) in seen {
            let expected: &[u8] = match stamp.0 {
                1 => b"1",
                2 => b"2",
                3 => b"again",
                4 => b"third",
                _ => b"forth",
            };
            assert_eq!(value, expected, "reused under a flush");
        }
    }],
    after: nothing,
};
