//! Random operations of several threads, checked afterwards against the one order that their stamps
//! give: too long for loom.

use super::roles::{Note, both_ways, prune};
use super::*;
use velella_memtable::{OnPending, ReadAt};
use velella_sync::rng::local_u64;

const KEYS: u64 = 3;
const OPERATIONS: u64 = 5;

/// Three threads.
pub(crate) const HISTORIES: Model = Model {
    before: nothing,
    roles: &[
        |scene| work(scene, 0),
        |scene| work(scene, 1),
        |scene| work(scene, 2),
    ],
    after: check,
};

fn below(bound: u64) -> u64 {
    local_u64() % bound
}

fn key(number: u8) -> [u8; 1] {
    [b'a' + number]
}

fn draw_key() -> u8 {
    u8::try_from(below(KEYS)).unwrap()
}

fn note(scene: &Scene, note: Note) {
    scene.notes.lock().unwrap().push(note);
}

fn work(scene: &Scene, slot: usize) {
    for turn in 0..OPERATIONS {
        let own = [u8::try_from(slot).unwrap(), u8::try_from(turn).unwrap()];
        match below(8) {
            0 | 1 => write(scene, slot, Some(&own)),
            2 => write(scene, slot, None),
            3 => update(scene, slot, own),
            4 => batch(scene, slot, own),
            5 => get(scene),
            6 => snapshot(scene),
            _ => prune(scene, &key(draw_key())),
        }
    }
}

fn write(scene: &Scene, slot: usize, value: Option<&[u8]>) {
    let number = draw_key();
    let stamp = match value {
        Some(value) => scene.put(slot, &key(number), value),
        None => scene.delete(slot, &key(number)),
    };
    wrote(scene, number, stamp, value, None);
}

fn wrote(
    scene: &Scene,
    key: u8,
    stamp: Stamp,
    value: Option<&[u8]>,
    base: Option<Option<Vec<u8>>>,
) {
    let value = value.map(<[u8]>::to_vec);
    note(
        scene,
        Note::Wrote {
            key,
            stamp,
            value,
            base,
        },
    );
}

fn update(scene: &Scene, slot: usize, own: [u8; 2]) {
    let number = draw_key();
    let seen = std::cell::RefCell::new(None);
    let appended = |base: Option<&[u8]>| [base.unwrap_or_default(), &own].concat();
    let stamp = scene.update(slot, &key(number), |base| {
        seen.replace(base.map(<[u8]>::to_vec));
        appended(base)
    });
    let base = seen.into_inner();
    let value = appended(base.as_deref());
    wrote(scene, number, stamp, Some(&value), Some(base));
}

fn batch(scene: &Scene, slot: usize, own: [u8; 2]) {
    let keys = [key(0), key(1)];
    let stamp = scene.batch(slot, &[put(&keys[0], &own), put(&keys[1], &own)]);
    wrote(scene, 0, stamp, Some(&own), None);
    wrote(scene, 1, stamp, Some(&own), None);
}

fn get(scene: &Scene) {
    let number = draw_key();
    let newest = |notes: &[Note]| {
        let stamps = notes.iter().filter_map(|note| match note {
            Note::Wrote { key, stamp, .. } if *key == number => Some(*stamp),
            _ => None,
        });
        stamps.max().unwrap_or_default()
    };
    let floor = newest(&scene.notes.lock().unwrap());
    let pending = match below(2) {
        0 => OnPending::Skip,
        _ => OnPending::Resolve,
    };
    let stamp = Stamp::MAX;
    let seen = scene.get(&key(number), ReadAt { stamp, pending });
    let seen = seen.map(|(stamp, kind, value)| (stamp, (kind == ValueKind::Put).then_some(value)));
    note(
        scene,
        Note::Got {
            key: number,
            floor,
            seen,
        },
    );
}

fn snapshot(scene: &Scene) {
    let snapshot = scene.snapshots.take(&scene.clock, 0, || 0);
    let stamp = snapshot.at();
    let rows = both_ways(scene, scene.visible(at(stamp)), None);
    for row in &rows {
        let got = scene.get(&row.0, at(stamp));
        assert_eq!(got, Some((row.1, row.2, row.3.clone())), "at {stamp}");
    }
    note(scene, Note::Saw { at: stamp, rows });
}

type Write = (Stamp, Option<Vec<u8>>);

/// What was written to each key, in the order of stamps.
fn writes(notes: &[Note]) -> Vec<Vec<Write>> {
    let of = |wanted: u8| {
        let own = notes.iter().filter_map(|note| match note {
            Note::Wrote {
                key, stamp, value, ..
            } if *key == wanted => Some((*stamp, value.clone())),
            _ => None,
        });
        let mut own: Vec<Write> = own.collect();
        own.sort();
        own
    };
    (0..u8::try_from(KEYS).unwrap()).map(of).collect()
}

fn newest(writes: &[Write], stamp: Stamp) -> Option<&Write> {
    writes.iter().rev().find(|write| write.0 <= stamp)
}

fn check(scene: &Scene) {
    let notes = scene.notes.lock().unwrap();
    let writes = writes(&notes);
    for note in notes.iter() {
        match note {
            Note::Wrote {
                key, stamp, base, ..
            } => {
                let Some(base) = base else { continue };
                let before = newest(&writes[usize::from(*key)], Stamp(stamp.0 - 1));
                let expected = before.and_then(|write| write.1.clone());
                assert_eq!(*base, expected, "lost update at {stamp}");
            }
            Note::Saw { at, rows } => {
                let expected = (0..u8::try_from(KEYS).unwrap()).filter_map(|number| {
                    let (stamp, value) = newest(&writes[usize::from(number)], *at)?;
                    let kind = match value {
                        Some(_) => ValueKind::Put,
                        None => ValueKind::Delete,
                    };
                    let value = value.clone().unwrap_or_default();
                    Some((key(number).to_vec(), *stamp, kind, value))
                });
                assert_eq!(*rows, expected.collect::<Vec<_>>(), "the snapshot at {at}");
            }
            Note::Got { key, floor, seen } => {
                let stamp = seen.as_ref().map(|seen| seen.0).unwrap_or_default();
                assert!(stamp >= *floor, "read {stamp} when {floor} was there");
                if let Some(seen) = seen {
                    let known = writes[usize::from(*key)].contains(seen);
                    assert!(known, "nobody wrote {seen:?}");
                }
            }
        }
    }
}
