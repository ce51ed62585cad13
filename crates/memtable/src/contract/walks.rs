//! Cursors at many stamps, moved to and fro while keys are written and pruned, compared with what
//! was committed when their snapshots were taken.
//!
//! Keys share prefixes around eight bytes, end in noughts and highest bytes, and come in spellings
//! that a user's order may take for the same.

use super::world::{World, at, put};
use crate::{CursorMode, Install, Intent, Newest, Owner};
use velella_base::{Cursor, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sync::epoch;
use velella_sync::rng::Rng;

pub(super) fn run(world: &dyn Fn() -> World) {
    let (seeds, rounds) = if cfg!(miri) { (1, 2) } else { (6, 60) };
    for seed in 0..seeds {
        Walk::new(world(), seed).run(rounds);
    }
    spellings_of_one_key_are_one_key(&world());
}

/// A committed version; its key as it was spelled.
#[derive(Debug, Clone, PartialEq)]
struct Written {
    key: Vec<u8>,
    stamp: Stamp,
    kind: ValueKind,
    value: Vec<u8>,
}

/// A cursor at a snapshot, what it must yield, and where it should stand.
struct Reader {
    cursor: Box<dyn Cursor>,
    rows: Vec<Written>,
    place: Option<usize>,
}

struct Walk {
    world: World,
    rng: Rng,
    seed: u64,
    prefix: Vec<u8>,
    /// Everything committed, in the order of a memtable.
    all: Vec<Written>,
    /// What was read at, and may be again.
    snapshots: Vec<Stamp>,
}

impl Walk {
    fn new(world: World, seed: u64) -> Walk {
        let mut rng = Rng::new(seed);
        let lens = [0, 3, 7, 8, 9, 17];
        let prefix = vec![b'P'; lens[usize::try_from(rng.below(6)).unwrap()]];
        Walk {
            world,
            rng,
            seed,
            prefix,
            all: Vec::new(),
            snapshots: vec![Stamp::ZERO],
        }
    }

    fn pick(&mut self, below: usize) -> usize {
        usize::try_from(self.rng.below(below as u64)).unwrap()
    }

    fn snapshot(&mut self) -> Stamp {
        let at = self.pick(self.snapshots.len());
        self.snapshots[at]
    }

    fn key(&mut self) -> Vec<u8> {
        // Sometimes shorter than the prefix of most.
        let mut key = self.prefix.clone();
        if self.pick(12) == 0 {
            key.truncate(self.pick(9));
        }
        let letters = b"aAbB\0\xff";
        (0..self.pick(4)).for_each(|_| key.push(letters[self.pick(6)]));
        key
    }

    fn run(&mut self, rounds: usize) {
        let mut readers = Vec::new();
        for _ in 0..rounds {
            (0..25).for_each(|_| self.write());
            self.snapshots.push(self.world.clock.now());
            let stamp = self.snapshot();
            readers.push(self.reader(stamp));
            for _ in 0..60 {
                let reader = self.pick(readers.len());
                self.step(&mut readers[reader]);
            }
            self.prune();
            if readers.len() > 5 {
                drop(readers.swap_remove(self.pick(5)));
            }
        }
        drop(readers);
        self.check_all();
    }

    fn write(&mut self) {
        let (key, len) = (self.key(), self.pick(40));
        let kinds = [
            ValueKind::Put,
            ValueKind::Put,
            ValueKind::Put,
            ValueKind::Delete,
        ];
        let kind = match self.pick(4) {
            0 => ValueKind::ALL[self.pick(6)],
            _ => kinds[self.pick(4)],
        };
        let value = vec![u8::try_from(len).unwrap(); len];
        let intent = Intent {
            key: &key,
            kind,
            payload: [&value[..len / 2], &value[len / 2..]],
        };
        if self.pick(8) == 0 {
            let guard = epoch::pin();
            let pending = self.world.install(&intent, Owner::Slot(0), None, &guard);
            pending.unwrap().abort();
            return;
        }
        let (stamp, _) = self.world.write(0, &intent);
        let order = &self.world.order;
        let at = self.all.partition_point(|row| {
            order
                .compare(&row.key, &key)
                .then(stamp.cmp(&row.stamp))
                .is_lt()
        });
        self.all.insert(
            at,
            Written {
                key,
                stamp,
                kind,
                value,
            },
        );
    }

    fn reader(&self, stamp: Stamp) -> Reader {
        let mut rows: Vec<_> = self.all.clone();
        rows.retain(|row| row.stamp <= stamp);
        rows.dedup_by(|later, kept| self.is_same(&later.key, &kept.key));
        let cursor = self.world.visible(at(stamp));
        assert!(cursor.entry().is_none(), "U2");
        Reader {
            cursor,
            rows,
            place: None,
        }
    }

    fn is_same(&self, a: &[u8], b: &[u8]) -> bool {
        self.world.order.compare(a, b).is_eq()
    }

    /// Moves a cursor somehow, and its place in the rows likewise.
    fn step(&mut self, reader: &mut Reader) {
        let Reader {
            cursor,
            rows,
            place,
        } = reader;
        let (target, stamp) = (
            self.key(),
            Stamp(self.rng.below(self.world.clock.now().0 + 2)),
        );
        let order = self.world.order.clone();
        *place = match (self.pick(10), *place) {
            (0, _) => {
                cursor.seek_first().unwrap();
                Some(0)
            }
            (1, _) => {
                cursor.seek_last().unwrap();
                rows.len().checked_sub(1)
            }
            (2, _) | (_, None) => {
                cursor.seek(&target, stamp).unwrap();
                Some(rows.partition_point(|row| {
                    order
                        .compare(&row.key, &target)
                        .then(stamp.cmp(&row.stamp))
                        .is_lt()
                }))
            }
            (3, _) => {
                cursor.seek_before(&target).unwrap();
                let before = rows.partition_point(|row| order.compare(&row.key, &target).is_lt());
                before.checked_sub(1)
            }
            (4..6, Some(place)) => {
                cursor.next().unwrap();
                Some(place + 1)
            }
            (6, Some(place)) => {
                let key = &rows[place].key;
                cursor.pass(key, Stamp::ZERO).unwrap();
                let versions = rows[place..].iter();
                let versions = versions.take_while(|row| order.compare(&row.key, key).is_eq());
                Some(place + versions.count())
            }
            (_, Some(place)) => {
                cursor.prev().unwrap();
                place.checked_sub(1)
            }
        };
        *place = place.filter(|place| *place < rows.len());
        let expected = place.map(|place| &rows[place]);
        self.compare(&**cursor, expected);
    }

    fn compare(&self, cursor: &dyn Cursor, expected: Option<&Written>) {
        let seed = self.seed;
        let found = cursor.entry();
        let (Some(found), Some(expected)) = (&found, expected) else {
            assert!(
                found.is_none() && expected.is_none(),
                "seed {seed}: {found:?}, {expected:?}"
            );
            return;
        };
        assert!(
            self.is_same(found.key, &expected.key),
            "seed {seed}: {found:?}, {expected:?}"
        );
        let (kind, stamp) = (expected.kind, expected.stamp);
        assert_eq!((found.stamp, found.kind), (stamp, kind), "seed {seed}");
        assert_eq!(found.value, expected.value, "seed {seed}");
    }

    /// Every version that the memtable still has.
    fn rows(&self) -> Vec<(Vec<u8>, Stamp)> {
        let mut cursor = self.world.cursor(CursorMode::All);
        let mut rows = Vec::new();
        cursor.seek_first().unwrap();
        while let Some(entry) = cursor.entry() {
            rows.push((entry.key.to_vec(), entry.stamp));
            cursor.next().unwrap();
        }
        rows
    }

    /// Prunes some keys by what the snapshots need; says of each how many versions went.
    fn prune(&mut self) {
        let (now, before) = (self.world.clock.now(), self.rows().len());
        let durable = self.snapshot();
        let retention = Retention::new(now, durable, self.snapshots.clone());
        let mut dropped = 0;
        for _ in 0..20 {
            let key = self.key();
            dropped += self.world.table.prune(&key, &retention, &epoch::pin());
        }
        assert_eq!(self.rows().len() + dropped, before, "seed {}", self.seed);
    }

    /// What a flush would see: all that is needed, nothing that was not written, both ways alike.
    fn check_all(&mut self) {
        let left = self.rows();
        let is_left = |row: &Written| left.iter().any(|(_, stamp)| *stamp == row.stamp);
        let mut points = self.snapshots.clone();
        points.push(self.world.clock.now());
        // Of a key's versions the next older one that says something about it.
        let below = |row: &Written| {
            let of_key = self
                .all
                .iter()
                .filter(|one| self.is_same(&one.key, &row.key));
            let mut older = of_key.filter(|one| one.stamp < row.stamp);
            older.find(|one| one.kind != ValueKind::RangeDelete)
        };
        for point in points {
            for row in self.reader(point).rows {
                let seen_through = below(&row).filter(|_| row.kind == ValueKind::RangeDelete);
                for row in [Some(&row), seen_through].into_iter().flatten() {
                    let seed = self.seed;
                    assert!(is_left(row), "seed {seed}: {row:?} is read at {point}");
                }
            }
        }
        let stays = |kind| {
            matches!(
                kind,
                ValueKind::External | ValueKind::RangeDelete | ValueKind::Merge
            )
        };
        for row in &self.all {
            assert!(!stays(row.kind) || is_left(row), "P3: {row:?}");
        }
        for row in self.all.iter().filter(|row| row.kind == ValueKind::Merge) {
            if let Some(older) = below(row) {
                assert!(is_left(older), "P3: {row:?} builds on {older:?}");
            }
        }
        let rows: Vec<_> = self
            .all
            .iter()
            .filter(|row| is_left(row))
            .cloned()
            .collect();
        assert_eq!(
            rows.len(),
            left.len(),
            "seed {}: versions nobody wrote",
            self.seed
        );
        let cursor = self.world.cursor(CursorMode::All);
        let mut reader = Reader {
            cursor,
            rows,
            place: None,
        };
        for _ in 0..if cfg!(miri) { 60 } else { 400 } {
            self.step(&mut reader);
        }
    }
}

/// Under an order that knows no case (or any other: then they are two keys, and nobody minds).
fn spellings_of_one_key_are_one_key(world: &World) {
    if !world.order.compare(b"key", b"KEY").is_eq() {
        return;
    }
    let first = world.put(0, b"key", b"1");
    let second = world.put(0, b"KEY", b"2");
    for spelling in [&b"key"[..], b"Key", b"KEY"] {
        assert_eq!(world.value(spelling, at(first)).unwrap(), b"1");
        assert_eq!(world.value(spelling, at(second)).unwrap(), b"2");
        let mut cursor = world.visible(at(second));
        cursor.seek(spelling, Stamp::MAX).unwrap();
        assert_eq!(cursor.entry().unwrap().value, b"2");
        cursor.next().unwrap();
        assert!(cursor.entry().is_none(), "one entry a key");
        cursor.seek_before(spelling).unwrap();
        assert!(cursor.entry().is_none());
    }
    let guard = epoch::pin();
    let Newest::Decided(head, _) = world.table.newest(b"kEy", &guard) else {
        panic!("nobody is writing");
    };
    let pending = world.install(&put(b"keY", b"3"), Owner::Slot(0), Some(&head), &guard);
    assert!(world.table.undecided(b"key", &guard).is_some());
    let other = world
        .table
        .install(&put(b"KEY", b"x"), Owner::Slot(1), None, &guard);
    assert!(matches!(other, Install::Busy(_)), "M1: {other:?}");
    let (third, _) = world.window(0, |stamp| pending.unwrap().publish(stamp));
    assert_eq!(world.value(b"KEY", at(third)).unwrap(), b"3");
    let mut all = world.cursor(CursorMode::All);
    all.seek(b"Key", second).unwrap();
    assert_eq!(all.entry().unwrap().stamp, second);
    drop(all);
    let retention = Retention::new(third, third, vec![]);
    let dropped = world.table.prune(b"kEY", &retention, &guard);
    assert!(dropped == 0 || dropped == 2, "{dropped}");
    assert_eq!(world.value(b"key", at(third)).unwrap(), b"3");
}
