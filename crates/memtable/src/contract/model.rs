//! Random operations, compared with an ordered map of everything ever written.

use super::world::{NEWEST, Row, World, at, put, rest, rest_back};
use crate::{CursorMode, Intent, Owner};
use std::collections::BTreeMap;
use velella_base::{Cursor, Order, Stamp, ValueKind};
use velella_sync::epoch;
use velella_sync::rng::Rng;

pub(super) fn run(world: &dyn Fn() -> World) {
    let (seeds, operations) = if cfg!(miri) { (1, 60) } else { (3, 2500) };
    for seed in 0..seeds {
        random_operations_agree_with_an_ordered_map(&world(), seed, operations);
    }
}

/// Everything ever committed, in the order of a memtable's `All` cursor.
#[derive(Default)]
struct Model {
    rows: BTreeMap<(Rank, Stamp), Written>,
}

/// Key, kind and value.
type Written = (Vec<u8>, ValueKind, Vec<u8>);

/// A key's place in the order, ascending; then stamps descending, kept as `Stamp::MAX - stamp`.
type Rank = usize;

fn universe(order: &Order, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = (0..90)
        .map(|_| {
            let len = rng.below(13);
            (0..len)
                .map(|_| b'a' + u8::try_from(rng.below(3)).unwrap())
                .collect()
        })
        .collect();
    keys.sort_by(|a, b| order.compare(a, b));
    keys.dedup_by(|a, b| order.compare(a, b).is_eq());
    keys
}

impl Model {
    fn add(&mut self, rank: Rank, key: &[u8], stamp: Stamp, kind: ValueKind, value: &[u8]) {
        let at = (rank, Stamp(Stamp::MAX.0 - stamp.0));
        self.rows.insert(at, (key.to_vec(), kind, value.to_vec()));
    }

    fn all(&self) -> Vec<Row> {
        self.rows
            .iter()
            .map(|((_, inverted), (key, kind, value))| {
                let stamp = Stamp(Stamp::MAX.0 - inverted.0);
                (key.clone(), stamp, *kind, value.clone())
            })
            .collect()
    }

    fn visible(&self, stamp: Stamp) -> Vec<Row> {
        let mut rows = self.all();
        rows.retain(|row| row.1 <= stamp);
        rows.dedup_by(|later, kept| later.0 == kept.0);
        rows
    }

    fn newest(&self, rank: Rank, stamp: Stamp) -> Option<(Stamp, ValueKind, Vec<u8>)> {
        let not_after = (rank, Stamp(Stamp::MAX.0 - stamp.0));
        let mut versions = self.rows.range(not_after..=(rank, Stamp::MAX));
        let ((_, inverted), (_, kind, value)) = versions.next()?;
        Some((Stamp(Stamp::MAX.0 - inverted.0), *kind, value.clone()))
    }
}

fn random_operations_agree_with_an_ordered_map(world: &World, seed: u64, operations: u64) {
    let mut rng = Rng::new(seed);
    let keys = universe(&world.order, &mut rng);
    let mut model = Model::default();
    for turn in 0..operations {
        let rank = usize::try_from(rng.below(keys.len() as u64)).unwrap();
        let key = &keys[rank];
        let value = turn.to_le_bytes();
        match rng.below(20) {
            0..8 => {
                let stamp = world.put(0, key, &value);
                model.add(rank, key, stamp, ValueKind::Put, &value);
            }
            8..10 => {
                let stamp = world.delete(0, key);
                model.add(rank, key, stamp, ValueKind::Delete, b"");
            }
            10 => {
                let base = model.newest(rank, Stamp::MAX);
                let base = base.filter(|base| base.1 != ValueKind::Delete);
                let value = [&base.map_or(Vec::new(), |base| base.2)[..], b"+"].concat();
                let stamp = world.update(0, key, |base| [base.unwrap_or(b""), b"+"].concat());
                model.add(rank, key, stamp, ValueKind::Put, &value);
            }
            11 => batch(world, &keys, rank, &mut model, &value),
            12 => {
                let guard = epoch::pin();
                let intent = put(key, b"aborted");
                let pending = world.install(&intent, Owner::Slot(0), None, &guard);
                pending.unwrap().abort();
            }
            13..18 => {
                let stamp = Stamp(rng.below(world.clock.now().0 + 2));
                assert_eq!(world.get(key, at(stamp)), model.newest(rank, stamp));
                assert_eq!(world.get(key, NEWEST), model.newest(rank, Stamp::MAX));
            }
            _ if turn % 8 == 0 => {
                let stamp = Stamp(rng.below(world.clock.now().0 + 2));
                compare(&mut *world.visible(at(stamp)), &model.visible(stamp));
            }
            _ => {}
        }
    }
    compare(&mut *world.cursor(CursorMode::All), &model.all());
}

fn batch(world: &World, keys: &[Vec<u8>], rank: usize, model: &mut Model, value: &[u8]) {
    let members: Vec<usize> = (rank..keys.len()).step_by(7).collect();
    let intents: Vec<Intent<'_>> = members.iter().map(|i| put(&keys[*i], value)).collect();
    let stamp = world.batch(0, &intents);
    for member in members {
        model.add(member, &keys[member], stamp, ValueKind::Put, value);
    }
}

fn compare(cursor: &mut dyn Cursor, expected: &[Row]) {
    cursor.seek_first().unwrap();
    assert_eq!(rest(cursor), expected);
    cursor.seek_last().unwrap();
    let mut back = rest_back(cursor);
    back.reverse();
    assert_eq!(back, expected);
}
