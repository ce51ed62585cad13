//! A store of many versions in its simplest form: every version ever written, by stamp.
//!
//! M1. The state at stamp t is, per key, the newest version at or below t.
//! M2. Versions may come in any order of stamps: writers of several threads record them late.

use std::collections::BTreeMap;

/// Every version of every key. `K` names a key; several keyspaces go into it.
#[derive(Debug, Clone)]
pub struct Model<K> {
    versions: BTreeMap<K, BTreeMap<u64, Option<Vec<u8>>>>,
}

impl<K: Ord + Clone> Default for Model<K> {
    fn default() -> Self {
        Model {
            versions: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Model<K> {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records what was written at `stamp` (`None`: deleted). Of two writes to one key at one
    /// stamp (a batch) the last counts.
    pub fn write(&mut self, key: K, stamp: u64, value: Option<Vec<u8>>) {
        self.versions.entry(key).or_default().insert(stamp, value);
    }

    /// The value of `key` at `stamp`.
    #[must_use]
    pub fn get(&self, key: &K, stamp: u64) -> Option<&Vec<u8>> {
        self.version(key, stamp)?.1.as_ref()
    }

    /// Stamp and value of the newest version of `key` at or below `stamp`, a deletion's too.
    #[must_use]
    pub fn version(&self, key: &K, stamp: u64) -> Option<(u64, &Option<Vec<u8>>)> {
        let versions = self.versions.get(key)?;
        versions
            .range(..=stamp)
            .next_back()
            .map(|(stamp, value)| (*stamp, value))
    }

    /// All live pairs at `stamp`, by key.
    #[must_use]
    pub fn at(&self, stamp: u64) -> BTreeMap<K, Vec<u8>> {
        let live = |key: &K| Some((key.clone(), self.get(key, stamp)?.clone()));
        self.versions.keys().filter_map(live).collect()
    }

    /// Every stamp at which something was written, ascending.
    #[must_use]
    pub fn stamps(&self) -> Vec<u64> {
        let mut stamps: Vec<u64> = self
            .versions
            .values()
            .flat_map(|versions| versions.keys().copied())
            .collect();
        stamps.sort_unstable();
        stamps.dedup();
        stamps
    }

    /// Every key ever written.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.versions.keys()
    }

    /// Forgets everything written above `stamp`: a crash took it.
    pub fn cut(&mut self, stamp: u64) {
        for versions in self.versions.values_mut() {
            versions.retain(|at, _| *at <= stamp);
        }
    }

    /// The stamps within `[least, most]`, and `least` itself, at which the model is `state`.
    #[must_use]
    pub fn prefixes_equal_to(
        &self,
        state: &BTreeMap<K, Vec<u8>>,
        least: u64,
        most: u64,
    ) -> Vec<u64> {
        let mut candidates = vec![least];
        candidates.extend(
            self.stamps()
                .into_iter()
                .filter(|at| (least + 1..=most).contains(at)),
        );
        candidates
            .into_iter()
            .filter(|at| self.at(*at) == *state)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_the_newest_versions_at_a_stamp() {
        let mut model = Model::new();
        model.write("b", 5, None);
        model.write("a", 3, Some(vec![3]));
        model.write("b", 2, Some(vec![2]));
        assert_eq!(model.at(2), BTreeMap::from([("b", vec![2])]));
        assert_eq!(
            model.at(4),
            BTreeMap::from([("a", vec![3]), ("b", vec![2])])
        );
        assert_eq!(model.at(9), BTreeMap::from([("a", vec![3])]));
        assert_eq!(model.prefixes_equal_to(&model.at(4), 0, 9), [3]);
        model.cut(2);
        assert_eq!(model.stamps(), [2]);
    }
}
