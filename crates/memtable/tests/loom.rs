//! The protocol's parts that live in a memtable, in every interleaving and every reordering that
//! the language allows (up to the preemption bound), on the code as it is.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p velella-memtable --test loom --release`.
//!
//! Each model runs with its roles placed three ways, because loom explores the main thread and
//! spawned ones differently; and each has a control, the same model with one ordering weakened or
//! one step displaced, that must fail: a model that cannot fail proves nothing.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use loom::sync::Arc;
use std::panic::{AssertUnwindSafe, catch_unwind};
use velella_base::{Order, Stamp, ValueKind};
use velella_memtable::contract::World;
use velella_memtable::contract::world::{NEWEST, at, put, rest, row};
use velella_memtable::{CursorMode, Memtable, MemtableKind, MemtableOptions, Owner, Site, weaken};
use velella_mvcc::Retention;
use velella_sync::epoch;

const KINDS: [MemtableKind; 2] = [MemtableKind::Jellyfish, MemtableKind::AppendOnly];

fn world(kind: MemtableKind) -> World {
    let make = |order, slots| -> std::sync::Arc<dyn Memtable> {
        velella_memtable::new(&MemtableOptions {
            kind,
            order,
            slots,
            counters: std::sync::Arc::default(),
        })
    };
    World::new(&make, &Order::Bytewise)
}

type Role = fn(&World);

/// A model: what was before, two or three roles, and what must hold afterwards.
#[derive(Clone, Copy)]
struct Model {
    before: Role,
    roles: &'static [Role],
    after: Role,
}

impl Model {
    /// Explores the model with role `main` in the main thread; with none of them there if there
    /// is no such role.
    fn explore(self, kind: MemtableKind, main: usize) {
        let mut builder = loom::model::Builder::new();
        // Two preemptions find every control; a third role at three takes a minute.
        builder.preemption_bound = Some(if self.roles.len() > 2 { 2 } else { 3 });
        builder.check(move || {
            let world = Arc::new(world(kind));
            (self.before)(&world);
            let others: Vec<_> = (0..self.roles.len())
                .filter(|role| *role != main)
                .map(|role| {
                    let (world, role) = (Arc::clone(&world), self.roles[role]);
                    loom::thread::spawn(move || role(&world))
                })
                .collect();
            if let Some(role) = self.roles.get(main) {
                role(&world);
            }
            for other in others {
                other.join().expect("a role failed");
            }
            (self.after)(&world);
        });
    }

    /// The model holds, for each kind and each placement.
    fn holds(self, kinds: &[MemtableKind]) {
        for kind in kinds {
            for main in 0..=self.roles.len() {
                self.explore(*kind, main);
            }
        }
    }

    /// With `site` weakened, some placement fails.
    fn fails(self, kind: MemtableKind, site: Option<Site>) {
        weaken(site);
        let failed = (0..=self.roles.len())
            .any(|main| catch_unwind(AssertUnwindSafe(|| self.explore(kind, main))).is_err());
        weaken(None);
        assert!(failed, "the control with {site:?} weakened was not noticed");
    }
}

fn nothing(_: &World) {}

fn all(world: &World) -> Vec<(Stamp, Vec<u8>)> {
    let mut cursor = world.cursor(CursorMode::All);
    cursor.seek_first().unwrap();
    rest(&mut *cursor)
        .into_iter()
        .map(|row| (row.1, row.3))
        .collect()
}

/// A put and a read-modify-write of one key: stamps fall along the list, nothing is lost.
const PUT_RMW: Model = Model {
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

#[test]
fn chain_put_rmw_monotone() {
    PUT_RMW.holds(&KINDS);
    PUT_RMW.fails(MemtableKind::Jellyfish, Some(Site::HeadCas));
    PUT_RMW.fails(MemtableKind::AppendOnly, Some(Site::NodeLink));
}

/// Two threads insert the same new key: one node, both versions.
const SAME_NEW_KEY: Model = Model {
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

#[test]
fn chain_same_new_key_two_inserters() {
    SAME_NEW_KEY.holds(&KINDS);
    SAME_NEW_KEY.fails(MemtableKind::Jellyfish, Some(Site::NodeLink));
}

/// A snapshot read twice is the same, and is exactly the stamps at or below its time.
fn check_snapshot(world: &World, keys: &[&[u8]]) {
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
const TWO_PUTS: Model = Model {
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
const TWO_PUTS_LATE: Model = Model {
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

#[test]
fn lazy_snapshot_two_puts_one_writer() {
    TWO_PUTS.holds(&KINDS);
    TWO_PUTS.fails(MemtableKind::Jellyfish, Some(Site::SecondLook));
    TWO_PUTS_LATE.fails(MemtableKind::Jellyfish, None);
}

/// Two writers use one slot in turn.
const SLOT_REUSE: Model = Model {
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

#[test]
fn lazy_snapshot_slot_reuse_by_other_thread() {
    SLOT_REUSE.holds(&[MemtableKind::Jellyfish]);
    SLOT_REUSE.fails(MemtableKind::Jellyfish, Some(Site::SecondLook));
}

/// Who sees one half of a batch sees the other, before and after the words are rewritten.
const BATCH_TWO_GETS: Model = Model {
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

#[test]
fn batch_two_gets() {
    BATCH_TWO_GETS.holds(&KINDS);
    BATCH_TWO_GETS.fails(MemtableKind::Jellyfish, Some(Site::Cell));
}

/// A writer installs above a batch while its words are rewritten and its cell given up.
const CELL_REWRITE: Model = Model {
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
            assert!(second > first, "half a batch");
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

#[test]
fn batch_cell_rewrite_and_free() {
    CELL_REWRITE.holds(&[MemtableKind::Jellyfish]);
    CELL_REWRITE.fails(MemtableKind::Jellyfish, Some(Site::HeadCas));
    BATCH_TWO_GETS.fails(MemtableKind::Jellyfish, Some(Site::Word));
}

/// A version aborts and is unlinked by the next installation under a reader's feet.
const ABORT_UNLINK: Model = Model {
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

#[test]
fn abort_unlink_under_reader() {
    ABORT_UNLINK.holds(&KINDS);
    ABORT_UNLINK.fails(MemtableKind::Jellyfish, Some(Site::HeadCas));
}

/// A get passes a pending version over while that is committed and pruned below.
const SKIP_VS_PRUNE: Model = Model {
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

#[test]
fn skipping_get_vs_pruner() {
    SKIP_VS_PRUNE.holds(&[MemtableKind::Jellyfish]);
    SKIP_VS_PRUNE.fails(MemtableKind::Jellyfish, Some(Site::SecondLook));
}
