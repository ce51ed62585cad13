//! The merge against a sorted vector.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use super::*;
use velella_base::ValueKind;
use velella_sync::rng::Rng;

type Item = (Vec<u8>, Stamp, usize);

/// A sorted vector as a cursor; `fail` makes every move fail.
struct VecCursor {
    items: Vec<Item>,
    at: Option<usize>,
    fail: bool,
}

impl VecCursor {
    fn stand(&mut self, at: Option<usize>) -> Result<()> {
        self.at = None;
        if self.fail {
            return Err(velella_base::Error::invalid("move", "injected"));
        }
        self.at = at.filter(|at| *at < self.items.len());
        Ok(())
    }
}

impl Cursor for VecCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.stand(Some(0))
    }
    fn seek_last(&mut self) -> Result<()> {
        self.stand(self.items.len().checked_sub(1))
    }
    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let target = (key, std::cmp::Reverse(stamp));
        let before = |item: &Item| (&*item.0, std::cmp::Reverse(item.1)) < target;
        self.stand(Some(self.items.partition_point(before)))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let below = self.items.partition_point(|item| &*item.0 < key);
        self.stand(below.checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        let at = self.at.expect("positioned");
        self.stand(Some(at + 1))
    }
    fn prev(&mut self) -> Result<()> {
        let at = self.at.expect("positioned");
        self.stand(at.checked_sub(1))
    }
    /// It always gets ahead (U7): at a spelling that sorts behind `key` the seek does not.
    fn pass(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let before = self.at.expect("positioned");
        self.seek(key, stamp)?;
        match self.at {
            Some(at) if at <= before => self.stand(Some(before + 1)),
            _ => Ok(()),
        }
    }
    fn entry(&self) -> Option<Entry<'_>> {
        let (key, stamp, _) = self.items.get(self.at?)?;
        Some(Entry {
            key,
            stamp: *stamp,
            kind: ValueKind::Put,
            value: &[],
        })
    }
}

/// What keys begin with: nothing, what a word holds, or the greatest word there is (M4, M5).
const STEMS: [&[u8]; 4] = [b"", b"seven..", b"and eight", &[0xff; 8]];

/// One of few keys, all with this stem; with the empty one, sometimes with another.
fn key(rng: &mut Rng, stem: &[u8]) -> Vec<u8> {
    let mut key = stem.to_vec();
    if stem.is_empty() && rng.below(3) == 0 {
        key.extend_from_slice(STEMS[rng.below(STEMS.len() as u64) as usize]);
    }
    key.push(b'a' + rng.below(7) as u8);
    key
}

/// Random sources, and their union in the merge's order (M1).
fn random(rng: &mut Rng, sources: usize, stem: &[u8]) -> (MergeCursor<VecCursor>, Vec<Item>) {
    let mut all = Vec::new();
    let mut cursors = Vec::new();
    for source in 0..sources {
        let count = rng.below(12);
        let mut items: Vec<Item> = (0..count)
            .map(|_| (key(rng, stem), Stamp(1 + rng.below(5)), source))
            .collect();
        items.sort_by(|a, b| (&a.0, b.1).cmp(&(&b.0, a.1)));
        items.dedup();
        all.extend(items.iter().cloned());
        cursors.push(VecCursor {
            items,
            at: None,
            fail: false,
        });
    }
    all.sort_by(|a, b| (&a.0, b.1, a.2).cmp(&(&b.0, a.1, b.2)));
    (MergeCursor::new(cursors, Order::Bytewise), all)
}

fn standing(cursor: &MergeCursor<VecCursor>) -> Option<Item> {
    let entry = cursor.entry()?;
    Some((entry.key.to_vec(), entry.stamp, cursor.source()?))
}

#[test]
fn random_walks_in_both_directions_match_a_sorted_vector() {
    let mut rng = Rng::new(1);
    for round in 0..2000 {
        let stem = STEMS[round / 8 % STEMS.len()];
        let (mut cursor, all) = random(&mut rng, round % 8, stem);
        assert_eq!(standing(&cursor), None, "U2");
        let mut at: Option<usize> = None;
        for _ in 0..40 {
            let key = key(&mut rng, stem);
            let stamp = Stamp(rng.below(7));
            match rng.below(if at.is_some() { 14 } else { 4 }) {
                0 => {
                    cursor.seek_first().unwrap();
                    at = Some(0);
                }
                1 => {
                    cursor.seek_last().unwrap();
                    at = all.len().checked_sub(1);
                }
                2 => {
                    cursor.seek(&key, stamp).unwrap();
                    let target = (&key[..], std::cmp::Reverse(stamp));
                    let first = |item: &Item| (&*item.0, std::cmp::Reverse(item.1)) < target;
                    at = Some(all.partition_point(first));
                }
                3 => {
                    cursor.seek_before(&key).unwrap();
                    at = all
                        .partition_point(|item| item.0[..] < key[..])
                        .checked_sub(1);
                }
                4..8 => {
                    cursor.next().unwrap();
                    at = at.map(|at| at + 1);
                }
                8..10 => {
                    let (key, from, _) = all[at.unwrap()].clone();
                    let down_to = Stamp(rng.below(from.0));
                    cursor.pass(&key, down_to).unwrap();
                    let passed = |item: &Item| item.0 == key && item.1 > down_to;
                    at = at.map(|at| at + all[at..].iter().take_while(|i| passed(i)).count());
                }
                _ => {
                    cursor.prev().unwrap();
                    at = at.and_then(|at| at.checked_sub(1));
                }
            }
            at = at.filter(|at| *at < all.len());
            assert_eq!(
                standing(&cursor),
                at.map(|at| all[at].clone()),
                "round {round}"
            );
        }
    }
}

#[test]
fn a_failed_move_leaves_the_cursor_unpositioned() {
    let mut rng = Rng::new(5);
    let (mut cursor, _) = random(&mut rng, 5, b"");
    cursor.seek_first().unwrap();
    cursor.sources[2].fail = true;
    assert!(cursor.seek(b"b", Stamp::MAX).is_err());
    assert_eq!(standing(&cursor), None, "U4");
    cursor.sources[2].fail = false;
    cursor.seek_first().unwrap();
    assert!(standing(&cursor).is_some());
}

#[test]
fn a_source_alone_that_fails_to_pass_leaves_the_cursor_unpositioned() {
    let mut rng = Rng::new(6);
    let (mut cursor, _) = random(&mut rng, 1, b"");
    cursor.seek_first().unwrap();
    let (key, ..) = standing(&cursor).expect("no source is empty");
    cursor.sources[0].fail = true;
    assert!(cursor.pass(&key, Stamp::ZERO).is_err());
    // What the source stands on by now says nothing.
    cursor.sources[0].fail = false;
    cursor.sources[0].at = Some(0);
    assert_eq!(standing(&cursor), None, "U4");
}

/// A source may stop early where a key goes on in another spelling (U7); a merge does not.
#[test]
fn a_source_alone_passes_a_key_in_all_its_spellings() {
    let fold = |key: &[u8]| key.to_ascii_lowercase();
    let order = Order::custom("fold-case", move |a, b| fold(a).cmp(&fold(b)));
    // By the order of bytes, in which this source seeks, the upper case comes first.
    let items = [(&b"KEY"[..], 3), (b"key", 2), (b"other", 1)];
    let items = items.map(|(key, stamp)| (key.to_vec(), Stamp(stamp), 0));
    let source = VecCursor {
        items: items.to_vec(),
        at: None,
        fail: false,
    };
    let mut cursor = MergeCursor::new(vec![source], order);
    cursor.seek_first().unwrap();
    cursor.pass(b"KEY", Stamp::ZERO).unwrap();
    assert_eq!(cursor.key(), Some(&b"other"[..]));
}

/// A source that gains entries behind and before the current one between steps (M3).
#[test]
fn entries_that_arrive_meanwhile_do_not_break_the_order() {
    let mut rng = Rng::new(9);
    for _ in 0..500 {
        let (mut cursor, _) = random(&mut rng, 4, b"");
        cursor.seek_first().unwrap();
        while let Some(here) = standing(&cursor) {
            let source = &mut cursor.sources[rng.below(4) as usize];
            let item = (
                vec![b'a' + rng.below(6) as u8],
                Stamp(10 + rng.below(90)),
                0,
            );
            let order = |item: &Item| (item.0.clone(), std::cmp::Reverse(item.1));
            let place = source
                .items
                .partition_point(|other| order(other) < order(&item));
            if source
                .items
                .get(place)
                .is_none_or(|other| order(other) != order(&item))
            {
                // Like a memtable's node, the entry stood on keeps its identity.
                source.at = source.at.map(|at| at + usize::from(place <= at));
                source.items.insert(place, item);
            }
            let back = rng.below(3) == 0;
            if back {
                cursor.prev().unwrap();
            } else {
                cursor.next().unwrap();
            }
            if let Some(there) = standing(&cursor) {
                let ordering = (&here.0, std::cmp::Reverse(here.1), here.2).cmp(&(
                    &there.0,
                    std::cmp::Reverse(there.1),
                    there.2,
                ));
                assert_eq!(ordering.is_gt(), back, "{here:?} {there:?}");
            }
        }
    }
}

#[test]
fn a_step_costs_at_most_the_height_of_the_tournament() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering as Memory};
    let count = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&count);
    let order = Order::custom("counting", move |a, b| {
        counting.fetch_add(1, Memory::Relaxed);
        a.cmp(b)
    });
    let sources = (0..8u32).map(|source| VecCursor {
        items: (0..1000u32)
            .map(|n| ((n * 8 + source).to_be_bytes().to_vec(), Stamp(1), 0))
            .collect(),
        at: None,
        fail: false,
    });
    let mut cursor = MergeCursor::new(sources.collect(), order);
    cursor.seek_first().unwrap();
    count.store(0, Memory::Relaxed);
    let mut steps = 0;
    while cursor.entry().is_some() {
        cursor.next().unwrap();
        steps += 1;
    }
    assert_eq!(steps, 8000);
    assert!(count.load(Memory::Relaxed) <= 3 * steps, "{count:?}");
}

/// As a scan goes: keys and nothing but keys, from sources few enough for a rival, and more (M5).
#[test]
fn passing_key_after_key_meets_each_once() {
    let mut rng = Rng::new(5);
    for round in 0..3000 {
        let stem = STEMS[round % STEMS.len()];
        let (mut cursor, all) = random(&mut rng, 1 + round / STEMS.len() % (RIVALS + 2), stem);
        let mut expected: Vec<&Vec<u8>> = all.iter().map(|(key, ..)| key).collect();
        expected.dedup();
        cursor.seek_first().unwrap();
        let mut found = Vec::new();
        while let Some((key, ..)) = standing(&cursor) {
            cursor.pass(&key, Stamp::ZERO).unwrap();
            found.push(key);
        }
        assert!(found.iter().eq(expected), "round {round}: {found:?}");
    }
}
