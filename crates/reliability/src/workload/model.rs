//! The map that says what every answer must be.
//!
//! M1. A snapshot is a copy of the maps; an iterator a copy of one, and a place in it.
//!
//! Threads: none.

use super::operation::{HELD, KEYSPACES, Move, Operation, Scope, Write};
use super::{Answer, Bytes, Pair};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A keyspace: by key, value and expiry, and when it was written.
type Map = BTreeMap<Vec<u8>, (Bytes, Option<u64>)>;
/// When a key was written or deleted last.
type Written = BTreeMap<(usize, Vec<u8>), u64>;

/// The maps, and what is held.
#[derive(Debug, Clone, Default)]
pub struct Model {
    maps: [Map; KEYSPACES],
    written: Written,
    clock: u64,
    snapshots: [Option<([Map; KEYSPACES], u64)>; HELD],
    iterators: [Option<Walker>; HELD],
}

/// Where an iterator stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Fresh,
    At(Vec<u8>),
    BeyondFirst,
    BeyondLast,
}

#[derive(Debug, Clone)]
struct Walker {
    scope: Scope,
    map: Map,
    place: Place,
    /// A refresh moved it there, since its key was gone.
    is_moved: bool,
}

impl Model {
    /// What `operation` must be answered with.
    pub fn answer(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Put(..)
            | Operation::Delete(..)
            | Operation::Batch(..)
            | Operation::Append(..)
            | Operation::Increment(..)
            | Operation::PutIfAbsent(..)
            | Operation::Swap(..) => self.write(operation),
            Operation::Get(keyspace, key) | Operation::GetStrict(keyspace, key) => {
                Answer::Value(self.maps[*keyspace].get(key).cloned())
            }
            Operation::Contains(keyspace, key) => {
                Answer::Is(self.maps[*keyspace].contains_key(key))
            }
            Operation::MultiGet(keyspace, keys) => {
                let map = &self.maps[*keyspace];
                let value = |key| map.get(key).map(|(value, _)| value.clone());
                Answer::Values(keys.iter().map(value).collect())
            }
            Operation::Snapshot(place) => {
                self.snapshots[*place] = Some((self.maps.clone(), self.clock));
                Answer::Done
            }
            Operation::SnapshotGet(place, keyspace, key) => {
                let maps = self.snapshots[*place].as_ref();
                Answer::Value(maps.and_then(|(maps, _)| maps[*keyspace].get(key).cloned()))
            }
            Operation::Scan(scope, moves) => Answer::Walk(self.open(scope).walk(moves)),
            Operation::Hold(place, scope) => {
                self.iterators[*place] = Some(self.open(scope));
                Answer::Done
            }
            Operation::Walk(place, refresh, moves) => {
                let now = &self.maps;
                let Some(walker) = &mut self.iterators[*place] else {
                    return Answer::Done;
                };
                if *refresh {
                    walker.map = now[walker.scope.keyspace].clone();
                    if let Place::At(key) = walker.place.clone() {
                        let was_moved = walker.is_moved;
                        let found = walker.go(&Move::Seek(key.clone()));
                        walker.is_moved = match found {
                            Some((there, ..)) if there == key => was_moved,
                            found => found.is_some(),
                        };
                    }
                }
                Answer::Walk(walker.walk(moves))
            }
            Operation::Release(place) => {
                (self.snapshots[*place], self.iterators[*place]) = (None, None);
                Answer::Done
            }
            Operation::Recreate => {
                self.maps[1].clear();
                // Iterators and snapshots are let go of: reading a dropped keyspace is refused.
                self.let_go();
                Answer::Done
            }
            Operation::Reopen { .. } => {
                self.let_go();
                Answer::Done
            }
            Operation::Flush | Operation::Compact | Operation::Verify => Answer::Done,
        }
    }

    fn let_go(&mut self) {
        (self.snapshots, self.iterators) = Default::default();
    }

    fn write(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Put(keyspace, key, value, expiry) => {
                self.put(*keyspace, key, Some((value.clone(), *expiry)));
                Answer::Done
            }
            Operation::Delete(keyspace, key) => {
                self.put(*keyspace, key, None);
                Answer::Done
            }
            Operation::Batch(writes, since) => self.batch(writes, *since),
            Operation::Append(keyspace, key, byte) => {
                let old = self.maps[*keyspace].get(key).map(|(old, _)| old.to_vec());
                let mut new = old.clone().unwrap_or_default();
                new.push(*byte);
                let new = (new.len() <= 64).then(|| (new.into(), None));
                self.put(*keyspace, key, new);
                Answer::Value(old.map(|old| (old.into(), None)))
            }
            Operation::Increment(keyspace, key, by) => self.increment(*keyspace, key, *by),
            Operation::PutIfAbsent(keyspace, key, value) => {
                let absent = !self.maps[*keyspace].contains_key(key);
                if absent {
                    self.put(*keyspace, key, Some((value.clone(), None)));
                }
                Answer::Is(absent)
            }
            Operation::Swap(keyspace, key, expected, new) => {
                let found = self.maps[*keyspace].get(key).map(|(value, _)| value);
                let as_expected = found == expected.as_ref();
                if as_expected {
                    self.put(*keyspace, key, new.clone().map(|new| (new, None)));
                }
                Answer::Is(as_expected)
            }
            _ => Answer::Done,
        }
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: Option<(Bytes, Option<u64>)>) {
        self.clock += 1;
        self.written.insert((keyspace, key.to_vec()), self.clock);
        match value {
            Some(value) => drop(self.maps[keyspace].insert(key.to_vec(), value)),
            None => drop(self.maps[keyspace].remove(key)),
        }
    }

    fn batch(&mut self, writes: &[Write], since: Option<usize>) -> Answer {
        if let Some((_, since)) = since.and_then(|place| self.snapshots[place].as_ref()) {
            let changed = |(keyspace, key, _): &Write| {
                let written = self.written.get(&(*keyspace, key.clone()));
                written.is_some_and(|at| at > since)
            };
            if writes.iter().any(changed) {
                return Answer::Is(false);
            }
        }
        for (keyspace, key, value) in writes {
            self.put(*keyspace, key, value.clone().map(|value| (value, None)));
        }
        Answer::Is(true)
    }

    fn increment(&mut self, keyspace: usize, key: &[u8], by: i64) -> Answer {
        let (before, expiry) = match self.maps[keyspace].get(key) {
            None => (Some(0), None),
            Some((value, expiry)) => (integer(value), *expiry),
        };
        let Some(sum) = before.and_then(|before| before.checked_add(by)) else {
            return Answer::Refused;
        };
        let text = sum.to_string().into_bytes();
        self.put(keyspace, key, Some((text.into(), expiry)));
        Answer::Number(sum)
    }

    fn open(&self, scope: &Scope) -> Walker {
        let maps = match scope
            .snapshot
            .and_then(|place| self.snapshots[place].as_ref())
        {
            Some((maps, _)) => maps,
            None => &self.maps,
        };
        Walker {
            scope: scope.clone(),
            map: maps[scope.keyspace].clone(),
            place: Place::Fresh,
            is_moved: false,
        }
    }
}

/// A decimal number.
fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Walker {
    fn walk(&mut self, moves: &[Move]) -> Vec<Option<Pair>> {
        moves.iter().map(|to| self.go(to)).collect()
    }

    fn go(&mut self, to: &Move) -> Option<Pair> {
        let stays = std::mem::take(&mut self.is_moved);
        let (found, forward) = match (to, self.place.clone()) {
            (Move::First, _) | (Move::Step, Place::Fresh | Place::BeyondFirst) => {
                (self.first(|_| true), true)
            }
            (Move::Last, _) | (Move::StepBack, Place::Fresh | Place::BeyondLast) => {
                (self.last(|_| true), false)
            }
            (Move::Step, Place::BeyondLast) => (None, true),
            (Move::StepBack, Place::BeyondFirst) => (None, false),
            (Move::Step, Place::At(at)) if stays => (self.first(|key| *key == *at), true),
            (Move::Step, Place::At(at)) => (self.first(|key| *key > *at), true),
            (Move::StepBack, Place::At(at)) => (self.last(|key| *key < *at), false),
            (Move::Seek(wanted), _) => (self.first(|key| *key >= **wanted), true),
            (Move::SeekBefore(limit), _) => (self.last(|key| *key < **limit), false),
        };
        self.place = match (&found, forward) {
            (Some((key, ..)), _) => Place::At(key.clone()),
            (None, true) => Place::BeyondLast,
            (None, false) => Place::BeyondFirst,
        };
        found
    }

    fn first(&self, fits: impl Fn(&[u8]) -> bool) -> Option<Pair> {
        let mut keys = self.map.keys();
        self.pair(keys.find(|key| self.covers(key) && fits(key))?)
    }

    fn last(&self, fits: impl Fn(&[u8]) -> bool) -> Option<Pair> {
        let mut keys = self.map.keys().rev();
        self.pair(keys.find(|key| self.covers(key) && fits(key))?)
    }

    fn pair(&self, key: &[u8]) -> Option<Pair> {
        let (value, expiry) = self.map.get(key)?;
        Some((key.to_vec(), value.clone(), *expiry))
    }

    fn covers(&self, key: &[u8]) -> bool {
        let above = match &self.scope.lower {
            Bound::Included(bound) => key >= &bound[..],
            Bound::Excluded(bound) => key > &bound[..],
            Bound::Unbounded => true,
        };
        let below = match &self.scope.upper {
            Bound::Included(bound) => key <= &bound[..],
            Bound::Excluded(bound) => key < &bound[..],
            Bound::Unbounded => true,
        };
        above && below && key.starts_with(&self.scope.prefix)
    }
}
