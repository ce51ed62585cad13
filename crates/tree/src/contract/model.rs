//! What a tree must answer: every version ever flushed, and who may still read.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

use super::bench::{Bench, Run};
use std::collections::BTreeMap;
use velella_base::{Order, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sync::rng::Rng;

/// The versions of one key by stamp.
type OfKey = BTreeMap<u64, (ValueKind, Vec<u8>)>;

/// Every version ever written, none dropped.
#[derive(Debug, Default, Clone)]
pub struct Model {
    versions: BTreeMap<Vec<u8>, OfKey>,
    /// The newest stamp drawn.
    pub clock: u64,
    /// Stamps that live snapshots read at.
    pub snapshots: Vec<u64>,
}

impl Model {
    /// What a collector must keep now.
    #[must_use]
    pub fn retention(&self) -> Retention {
        let snapshots = self.snapshots.iter().copied().map(Stamp).collect();
        Retention::new(Stamp(self.clock), Stamp(self.clock), snapshots)
    }

    /// Draws `count` random writes over `keys` keys and notes them.
    pub fn write(&mut self, rng: &mut Rng, count: u64, keys: u64) -> Run {
        let mut run = Run::new();
        for _ in 0..count {
            self.clock += 1 + rng.below(2);
            let key = format!("key{:04}", rng.below(keys)).into_bytes();
            let (kind, value) = match rng.below(4) {
                0 => (ValueKind::Delete, Vec::new()),
                _ => {
                    let length = rng.below(60) as usize;
                    (ValueKind::Put, vec![b'a' + rng.below(26) as u8; length])
                }
            };
            self.note(&key, self.clock, kind, &value);
            run.push((key, self.clock, kind, value));
        }
        run
    }

    /// Notes a version.
    pub fn note(&mut self, key: &[u8], stamp: u64, kind: ValueKind, value: &[u8]) {
        let of_key = self.versions.entry(key.to_vec()).or_default();
        of_key.insert(stamp, (kind, value.to_vec()));
    }

    /// The value a reader of `key` at `at` sees, with its stamp; `None` for absent or deleted.
    #[must_use]
    pub fn get(&self, key: &[u8], at: u64) -> Option<(u64, Vec<u8>)> {
        let (stamp, (kind, value)) = self.versions.get(key)?.range(..=at).next_back()?;
        (*kind != ValueKind::Delete).then(|| (*stamp, value.clone()))
    }

    /// The newest stamp noted.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        let of_keys = self.versions.values();
        of_keys
            .filter_map(|of_key| of_key.keys().next_back())
            .max()
            .copied()
    }

    /// Every reading point: the live snapshots and now.
    fn points(&self) -> impl Iterator<Item = u64> {
        self.snapshots
            .iter()
            .copied()
            .chain([self.clock, self.clock + 5])
    }

    /// Compares gets of every key at every reading point, and a walk of the cursor each way.
    ///
    /// # Panics
    /// Where the tree differs.
    pub fn check(&self, bench: &Bench) {
        for at in self.points() {
            for key in self.versions.keys() {
                let found = bench.get(key, at).expect("the tree answers");
                let value = found
                    .filter(|(_, kind, _)| *kind != ValueKind::Delete)
                    .map(|(stamp, _, value)| (stamp, value));
                let name = String::from_utf8_lossy(key);
                assert_eq!(value, self.get(key, at), "{name} at {at}");
            }
        }
        self.check_cursor(bench);
    }

    fn check_cursor(&self, bench: &Bench) {
        let run = bench.all().expect("the cursor walks");
        let order = &bench.options.table.order;
        for pair in run.windows(2) {
            let keys = order.compare(&pair[0].0, &pair[1].0);
            let ordering = keys.then(pair[1].1.cmp(&pair[0].1));
            assert!(ordering.is_lt(), "U1: {pair:?}");
        }
        for (key, stamp, kind, value) in &run {
            let written = self.versions.get(key).and_then(|of_key| of_key.get(stamp));
            assert_eq!(
                written,
                Some(&(*kind, value.clone())),
                "a version nobody wrote"
            );
        }
        for at in self.points() {
            let expected = self.visible(order, at);
            let mut seen: Vec<(Vec<u8>, u64)> = Vec::new();
            let mut last: Option<&[u8]> = None;
            for (key, stamp, kind, _) in run.iter().filter(|version| version.1 <= at) {
                if last.is_some_and(|last| order.compare(last, key).is_eq()) {
                    continue;
                }
                last = Some(key);
                if *kind != ValueKind::Delete {
                    seen.push((key.clone(), *stamp));
                }
            }
            assert_eq!(seen, expected, "scan at {at}");
        }
        let mut back = Run::new();
        let mut cursor = bench.tree.cursor(false);
        cursor.seek_last().expect("the cursor seeks");
        while let Some(entry) = cursor.entry() {
            back.push(super::bench::owned(entry));
            cursor.prev().expect("the cursor walks");
        }
        back.reverse();
        assert_eq!(back, run, "backwards");
    }

    fn visible(&self, order: &Order, at: u64) -> Vec<(Vec<u8>, u64)> {
        let mut all: Vec<(Vec<u8>, u64)> = self
            .versions
            .keys()
            .filter_map(|key| Some((key.clone(), self.get(key, at)?.0)))
            .collect();
        all.sort_by(|a, b| order.compare(&a.0, &b.0));
        all
    }
}
