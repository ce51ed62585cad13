//! Memtables as the engine uses them, of every kind and setting: what they hold, count and take,
//! whom a reader waits for, and what is a mistake of the caller.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use velella_base::{Cursor, Order, Stamp, ValueKind};
use velella_memtable::guards::Mixed;
use velella_memtable::{
    BatchCell, Counters, CursorMode, GUARD_BYTES, GuardOptions, Head, Install, Intent, Memtable,
    MemtableKind, MemtableOptions, Newest, OnPending, Owner, Pending, ReadAt, append_only_stepping,
    new,
};
use velella_mvcc::{Clock, Retention, Slots};
use velella_sync::rng::Rng;
use velella_sync::{Guard, epoch};

struct World {
    kind: MemtableKind,
    table: Arc<dyn Memtable>,
    clock: Clock,
    slots: Arc<Slots>,
    counters: Arc<Counters>,
}

const NEWEST: ReadAt = ReadAt {
    stamp: Stamp::MAX,
    pending: OnPending::Skip,
};

fn options(kind: MemtableKind, order: &Order, guards: impl Into<GuardOptions>) -> MemtableOptions {
    MemtableOptions {
        kind,
        order: order.clone(),
        slots: Arc::new(Slots::new(3)),
        counters: Arc::default(),
        guards: guards.into(),
        keys: 0,
        spare: Arc::default(),
    }
}

fn intent<'a>(key: &'a [u8], value: &'a [u8]) -> Intent<'a> {
    Intent {
        key,
        kind: ValueKind::Put,
        payload: [value, b""],
    }
}

impl World {
    fn of(
        options: &MemtableOptions,
        make: impl Fn(&MemtableOptions) -> Arc<dyn Memtable>,
    ) -> World {
        World {
            kind: options.kind,
            table: make(options),
            clock: Clock::new(Stamp::ZERO, Stamp::MAX),
            slots: Arc::clone(&options.slots),
            counters: Arc::clone(&options.counters),
        }
    }

    fn new(kind: MemtableKind) -> World {
        World::of(&options(kind, &Order::Bytewise, GUARD_BYTES), new)
    }

    fn each() -> impl Iterator<Item = World> {
        MemtableKind::ALL.into_iter().map(World::new)
    }

    fn install<'g>(
        &'g self,
        key: &[u8],
        value: &[u8],
        slot: usize,
        guard: &'g Guard,
    ) -> Pending<'g> {
        match self
            .table
            .install(&intent(key, value), Owner::Slot(slot), None, guard)
        {
            Install::Installed(pending) => pending,
            other => panic!("nobody else writes: {other:?}"),
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> (Stamp, bool) {
        let guard = epoch::pin();
        let pending = self.install(key, value, 0, &guard);
        self.slots.announce(0, self.clock.lower_bound());
        let stamp = self.clock.draw();
        let is_long = pending.publish(stamp);
        self.slots.idle(0);
        (stamp, is_long)
    }

    fn value(&self, key: &[u8], stamp: Stamp, pending: OnPending) -> Option<Vec<u8>> {
        let guard = epoch::pin();
        let version = self.table.get(key, ReadAt { stamp, pending }, &guard)?;
        Some(version.value.to_vec())
    }

    fn head<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Head<'g> {
        match self.table.newest(key, guard) {
            Newest::Decided(head, _) => head,
            Newest::Busy(busy) => panic!("nobody else writes: {busy:?}"),
        }
    }
}

#[test]
fn a_kind_is_known_by_the_name_that_the_manifest_has() {
    let names = MemtableKind::ALL.map(MemtableKind::name);
    assert_eq!(
        names,
        ["jellyfish", "append-only", "s3"],
        "they stand in manifests"
    );
    for kind in MemtableKind::ALL {
        assert_eq!(MemtableKind::from_name(kind.name()), Some(kind));
    }
    for name in ["", "Jellyfish", "jellyfish ", "skiplist"] {
        assert_eq!(MemtableKind::from_name(name), None, "{name}");
    }
    assert_eq!(MemtableKind::default(), MemtableKind::S3);
}

/// Keys as they come: at random, ascending, descending, and all alike but for their end.
fn key(pattern: u64, number: u64) -> Vec<u8> {
    match pattern {
        0 => Rng::new(number).next_u64().to_be_bytes().to_vec(),
        1 => number.to_be_bytes().to_vec(),
        2 => (u64::MAX - number).to_be_bytes().to_vec(),
        _ => format!("customers/europe/{number}").into_bytes(),
    }
}

#[test]
#[cfg_attr(miri, ignore = "ten thousand keys")]
fn what_is_expected_takes_memory_once_many_keys_come_and_only_in_kinds_with_an_index() {
    const EXPECTED: usize = 1 << 20;
    for kind in MemtableKind::ALL {
        let bytes = |keys: usize, expected: usize| {
            let options = MemtableOptions {
                keys: expected,
                ..options(kind, &Order::Bytewise, GUARD_BYTES)
            };
            let world = World::of(&options, new);
            for number in 0..keys as u64 {
                world.put(&key(0, number), b"");
            }
            world.table.bytes()
        };
        assert_eq!(bytes(100, EXPECTED), bytes(100, 0), "{kind:?}");
        // Towers are of drawn heights: without an index it may also be a chunk less.
        let more = bytes(10_000, EXPECTED).saturating_sub(bytes(10_000, 0));
        let is_indexed = kind != MemtableKind::AppendOnly;
        assert_eq!(more > 8 * EXPECTED, is_indexed, "{kind:?}: {more}");
    }
}

#[test]
fn every_kind_with_every_setting_holds_what_an_ordered_map_holds() {
    let keys = if cfg!(miri) { 40 } else { 1_500 };
    let reversed = Order::custom("reversed", |a, b| b.cmp(a));
    for order in [Order::Bytewise, reversed] {
        for kind in MemtableKind::ALL {
            // No directory, one too small for anything, a few guards, as usual, and a few chosen.
            let sizes = [0, 1, 600, GUARD_BYTES].map(GuardOptions::from);
            let chosen = GuardOptions::from(600).chosen_by(Mixed);
            for guards in sizes.into_iter().chain([chosen]) {
                for stepping in [false, true] {
                    if stepping && kind != MemtableKind::AppendOnly {
                        continue;
                    }
                    let make = if stepping { append_only_stepping } else { new };
                    let pattern = guards.bytes as u64 % 4;
                    let is_chosen = guards.selector.is_some();
                    let keys = if is_chosen && !cfg!(miri) {
                        8_000
                    } else {
                        keys
                    };
                    let options = options(kind, &order, guards.clone());
                    let world = World::of(&options, make);
                    // Chosen guards may be fewer than those before.
                    let less = if is_chosen { guards.bytes } else { 0 };
                    check_against_map(&world, &order, pattern, keys, less);
                    let is_guided = order.is_bytewise() && kind != MemtableKind::AppendOnly;
                    let directories = options.counters.directories.sum();
                    assert!(
                        cfg!(miri) || !(is_chosen && is_guided) || directories > 0,
                        "{kind:?}"
                    );
                }
            }
        }
    }
}

fn check_against_map(world: &World, order: &Order, pattern: u64, keys: u64, less: usize) {
    let mut map = BTreeMap::new();
    let mut bytes = world.table.bytes();
    assert!(world.table.is_empty());
    for number in 0..keys {
        let key = key(pattern, number % (keys * 2 / 3));
        world.put(&key, &number.to_le_bytes());
        map.insert(key, number.to_le_bytes().to_vec());
        let now = world.table.bytes();
        assert!(now + less >= bytes, "memory is given back as a whole only");
        bytes = now;
    }
    let mut expected: Vec<_> = map.into_iter().collect();
    expected.sort_by(|a, b| order.compare(&a.0, &b.0));
    let at = CursorMode::Visible {
        at: NEWEST,
        keys_only: false,
    };
    let mut cursor = Arc::clone(&world.table).cursor(at);
    cursor.seek_first().unwrap();
    for (key, value) in &expected {
        let entry = cursor.entry().unwrap();
        assert_eq!((entry.key, entry.value), (&key[..], &value[..]));
        // What a Visible cursor stands on is the newest that its reader sees (U6).
        assert!(cursor.is_newest());
        assert_eq!(
            world.value(key, Stamp::MAX, OnPending::Skip).as_ref(),
            Some(value)
        );
        cursor.next().unwrap();
    }
    assert!(cursor.entry().is_none());
    cursor.seek_last().unwrap();
    for (key, _) in expected.iter().rev() {
        assert_eq!(cursor.entry().unwrap().key, key);
        cursor.prev().unwrap();
    }
    assert!(
        !Arc::clone(&world.table).cursor(CursorMode::All).is_newest(),
        "U6"
    );
}

#[test]
fn what_is_counted_is_what_was_done() {
    for world in World::each() {
        let counters = &world.counters;
        for number in 0..100u8 {
            world.put(&[number % 10], &[number]);
        }
        assert_eq!(counters.versions.sum(), 100);
        // A node for each version, or for each key.
        let nodes = match world.kind {
            MemtableKind::AppendOnly => 100,
            _ => 10,
        };
        assert_eq!(world.table.nodes(), nodes);
        assert!(counters.cas_attempts.sum() >= 100);
        assert_eq!(counters.cas_failures.sum(), 0, "nobody was in the way");
        assert!(counters.bytes.sum() >= 100, "memory was taken");
        let guard = epoch::pin();
        world.install(&[3], b"", 0, &guard).abort();
        assert_eq!(
            counters.versions.sum(),
            101,
            "an aborted one was installed too"
        );
    }
}

#[test]
fn a_list_is_called_long_when_it_has_grown_and_short_when_it_was_pruned() {
    for world in World::each() {
        let mut longs = Vec::new();
        for number in 0..400u64 {
            let (_, is_long) = world.put(b"hot", &number.to_le_bytes());
            if is_long {
                longs.push(number);
                let guard = epoch::pin();
                world.table.prune(b"hot", &Retention::newest_only(), &guard);
            }
        }
        let pruned = world.counters.pruned.sum();
        if world.kind == MemtableKind::AppendOnly {
            // Nothing is ever pruned, so nobody is asked to.
            assert_eq!((longs.len(), pruned), (0, 0));
            continue;
        }
        assert!((6..20).contains(&longs.len()), "{longs:?}");
        assert!(
            longs.windows(2).all(|pair| pair[1] - pair[0] >= 30),
            "{longs:?}"
        );
        assert!(pruned > 300, "{pruned}");
        let newest = world.value(b"hot", Stamp::MAX, OnPending::Skip);
        assert_eq!(newest, Some(399u64.to_le_bytes().to_vec()));
    }
}

#[test]
fn a_reader_passes_windows_that_cannot_concern_it() {
    for world in World::each() {
        let (old, _) = world.put(b"k", b"old");
        let guard = epoch::pin();
        let pending = world.install(b"k", b"new", 1, &guard);
        let read = |stamp| world.value(b"k", stamp, OnPending::Resolve);
        // Not announced: its stamp will be above whatever was read from the clock by now.
        assert_eq!(read(world.clock.observe()).unwrap(), b"old");
        let bound = world.clock.lower_bound();
        world.slots.announce(1, bound);
        assert_eq!(
            read(bound).unwrap(),
            b"old",
            "its stamp will be above the bound"
        );
        assert_eq!(read(old).unwrap(), b"old");
        // Whoever skips never waits, whatever is announced.
        assert_eq!(
            world.value(b"k", Stamp::MAX, OnPending::Skip).unwrap(),
            b"old"
        );
        let stamp = world.clock.draw();
        pending.publish(stamp);
        world.slots.idle(1);
        assert_eq!(read(bound).unwrap(), b"old");
        assert_eq!(read(stamp).unwrap(), b"new");
    }
}

#[test]
fn a_snapshot_waits_for_the_window_that_may_be_in_it() {
    for world in World::each() {
        world.put(b"k", b"old");
        for commits in [true, false] {
            let before = world.value(b"k", Stamp::MAX, OnPending::Skip);
            let guard = epoch::pin();
            let pending = world.install(b"k", b"new", 1, &guard);
            world.slots.announce(1, world.clock.lower_bound());
            let stamp = world.clock.draw();
            let snapshot = world.clock.observe();
            let world = &world;
            std::thread::scope(|scope| {
                let readers: Vec<_> = (0..2)
                    .map(|_| scope.spawn(|| world.value(b"k", snapshot, OnPending::Resolve)))
                    .collect();
                velella_sync::thread::yield_now();
                match commits {
                    true => drop(pending.publish(stamp)),
                    false => pending.abort(),
                }
                world.slots.idle(1);
                // They began before it was decided, and have its outcome.
                let expected = if commits {
                    Some(b"new".to_vec())
                } else {
                    before
                };
                for reader in readers {
                    assert_eq!(reader.join().unwrap(), expected);
                }
            });
        }
    }
}

#[test]
fn a_batch_commits_or_aborts_in_one_step() {
    for world in World::each() {
        let guard = epoch::pin();
        let batch = |value: &[u8]| {
            let cell = BatchCell::new(2);
            let install = |key: &[u8]| {
                let installed =
                    world
                        .table
                        .install(&intent(key, value), Owner::Batch(&cell), None, &guard);
                match installed {
                    Install::Installed(pending) => pending,
                    other => panic!("nobody else writes: {other:?}"),
                }
            };
            let pendings = [install(b"a"), install(b"b")];
            (format!("{cell:?} {:?}", pendings[0]), cell, pendings)
        };
        let (said, cell, pendings) = batch(b"1");
        assert!(
            said.starts_with("BatchCell { installed: 2, decision: None } Pending(Cell("),
            "{said}"
        );
        cell.commit(world.clock.draw(), pendings, &guard);
        let (_, cell, pendings) = batch(b"2");
        let busy = world.table.undecided(b"b", &guard).unwrap();
        assert_eq!(format!("{busy:?}"), "Undecided(Pending(2))");
        cell.abort(pendings, &guard);
        assert!(busy.is_decided());
        for key in [b"a", b"b"] {
            assert_eq!(
                world.value(key, Stamp::MAX, OnPending::Resolve).unwrap(),
                b"1"
            );
        }
        // An empty batch is no batch, and harms nobody.
        drop(BatchCell::new(0));
        BatchCell::new(0).commit(world.clock.draw(), [], &guard);
    }
}

/// The message of the panic that `mistake` is answered with.
fn panics(mistake: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(mistake)).expect_err("a mistake goes unnoticed");
    match panic.downcast::<String>() {
        Ok(said) => *said,
        Err(panic) => (*panic.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
#[cfg(debug_assertions)]
fn mistakes_of_the_caller_are_named() {
    for world in World::each() {
        let other = World::new(MemtableKind::Jellyfish);
        world.put(b"k", b"v");
        let guard = epoch::pin();
        let said = panics(|| {
            let (head, intent) = (other.head(b"k", &guard), intent(b"k", b"x"));
            let _ = world
                .table
                .install(&intent, Owner::Slot(0), Some(&head), &guard);
        });
        assert_eq!(said, "the expected head is another memtable's");
        let said = panics(|| drop(world.install(b"dropped", b"", 0, &guard)));
        assert!(
            said.contains("dropped undecided: Pending(Pending(0))"),
            "{said}"
        );
        let said = panics(|| {
            let cell = BatchCell::new(0);
            cell.decide(None);
            cell.decide(Some(Stamp(1)));
        });
        assert_eq!(said, "B2: decided twice");
        let said = panics(|| BatchCell::new(0).settle([], &guard));
        assert_eq!(said, "a batch is settled after it was decided");
        let (cell, intent) = (BatchCell::new(0), intent(b"batched", b""));
        let installed = world
            .table
            .install(&intent, Owner::Batch(&cell), None, &guard);
        let Install::Installed(pending) = installed else {
            panic!("nobody else writes: {installed:?}");
        };
        let said = panics(|| drop(cell));
        assert!(
            said.contains("before 1 of its versions were settled"),
            "{said}"
        );
        std::mem::forget(pending);
        // None of it blocks anybody else.
        world.put(b"k", b"still");
        assert_eq!(
            world.value(b"k", Stamp::MAX, OnPending::Resolve).unwrap(),
            b"still"
        );
    }
}
