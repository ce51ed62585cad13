//! How many versions the keys of a memtable have: JellyFish's premise is that a few have many.
//!
//! Source: JellyFish (Middleware '20) 3, whose simulation tells how skewed the updates are.
//!
//! H1. Of a store that is a memtable alone, every key counts once, with the versions that a flush
//!     would meet; other stores have no such figures.
//!
//! Threads: one. Tests: below.

use crate::failure::Outcome;
use crate::result::float;
use crate::store::Store;

/// Versions of the key that 99 of a hundred keys have no more than, and of the one with the most.
///
/// # Errors
/// What the store met on its walk.
pub(crate) fn figures(store: &dyn Store) -> Outcome<Vec<(String, f64)>> {
    let mut lengths = Lengths::default();
    store.entries(&mut |entry| {
        lengths.meet(entry.key);
        Ok(())
    })?;
    Ok(lengths.figures())
}

/// How many keys have how many versions.
#[derive(Debug, Default)]
struct Lengths {
    key: Vec<u8>,
    /// Versions met of each key so far, the one at hand last.
    versions: Vec<u64>,
}

impl Lengths {
    /// The next version, in order of keys, is of `key`.
    fn meet(&mut self, key: &[u8]) {
        match self.versions.last_mut() {
            Some(versions) if self.key == key => *versions += 1,
            _ => {
                self.versions.push(1);
                self.key.clear();
                self.key.extend_from_slice(key);
            }
        }
    }

    fn figures(mut self) -> Vec<(String, f64)> {
        self.versions.sort_unstable();
        let Some(&longest) = self.versions.last() else {
            return Vec::new();
        };
        let p99 = self.versions[(self.versions.len() * 99).div_ceil(100) - 1];
        [("chain_versions_p99", p99), ("chain_versions_max", longest)]
            .map(|(name, versions)| (name.to_owned(), float(versions)))
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(versions: impl IntoIterator<Item = u64>) -> Vec<(String, f64)> {
        let mut lengths = Lengths::default();
        for (key, versions) in versions.into_iter().enumerate() {
            (0..versions).for_each(|_| lengths.meet(&key.to_be_bytes()));
        }
        lengths.figures()
    }

    #[test]
    fn ninety_nine_keys_of_a_hundred_have_no_more_versions() {
        let p99_and_most = |p99, most| {
            vec![
                ("chain_versions_p99".to_owned(), p99),
                ("chain_versions_max".to_owned(), most),
            ]
        };
        assert_eq!(of([]), []);
        assert_eq!(of([3]), p99_and_most(3.0, 3.0));
        // The hundredth may have more; the second of a hundred may not.
        let one_has = |most: u64| (0..100).map(move |key| if key == 7 { most } else { 2 });
        assert_eq!(of(one_has(900)), p99_and_most(2.0, 900.0));
        assert_eq!(of(one_has(900).chain([800])), p99_and_most(800.0, 900.0));
    }
}
