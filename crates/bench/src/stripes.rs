//! Striped locks: read-modify-write for stores that have none.
//!
//! Source: what cLSM (EuroSys '15) 5.1.4 compares its own read-modify-write with: a granular lock
//! per key, by hash, held over the read and the write.
//!
//! L1. Two steps on one key, both taken through the same stripes, do not overlap.
//!
//! Threads: shared by all. Tests: `tests/stores.rs`.

use crate::failure::Outcome;
use crate::random::mix;
use crate::store::Store;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As many stripes as cores have no trouble with.
const STRIPES: usize = 1024;

/// The locks.
#[derive(Debug)]
pub struct Stripes(Vec<Mutex<()>>);

impl Default for Stripes {
    fn default() -> Self {
        Stripes(
            std::iter::repeat_with(Mutex::default)
                .take(STRIPES)
                .collect(),
        )
    }
}

impl Stripes {
    /// Stores `value` under `key` if it is absent, in two steps with the lock of `key` held;
    /// whether it did.
    ///
    /// # Errors
    /// Those of `store`.
    pub fn put_if_absent(&self, store: &dyn Store, key: &[u8], value: &[u8]) -> Outcome<bool> {
        let held = self.lock(key);
        let absent = !store.get(key, &mut |_| ())?;
        if absent {
            store.put(key, value)?;
        }
        drop(held);
        Ok(absent)
    }

    /// Stores `value` under `key` and shows the old one to `see`, in two steps with the lock of
    /// `key` held; whether there was one.
    ///
    /// # Errors
    /// Those of `store`.
    pub fn replace(
        &self,
        store: &dyn Store,
        key: &[u8],
        value: &[u8],
        see: &mut dyn FnMut(&[u8]),
    ) -> Outcome<bool> {
        let held = self.lock(key);
        let found = store.get(key, see)?;
        store.put(key, value)?;
        drop(held);
        Ok(found)
    }

    /// Does `step` with the lock of `key` held.
    #[inline]
    pub(crate) fn with<R>(&self, key: &[u8], step: impl FnOnce() -> R) -> R {
        let held = self.lock(key);
        let result = step();
        drop(held);
        result
    }

    /// Does `step` with the locks of all `keys` held, taken in order, so that nobody waits in a
    /// circle.
    pub(crate) fn with_all<'a, R>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
        step: impl FnOnce() -> R,
    ) -> R {
        let mut stripes: Vec<usize> = keys.map(stripe).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let held: Vec<_> = stripes
            .into_iter()
            .map(|stripe| self.take(stripe))
            .collect();
        let result = step();
        drop(held);
        result
    }

    fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.take(stripe(key))
    }

    fn take(&self, stripe: usize) -> MutexGuard<'_, ()> {
        self.0[stripe]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which lock is that of `key`.
fn stripe(key: &[u8]) -> usize {
    let hash = key.iter().fold(key.len() as u64, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    usize::try_from(mix(hash) % STRIPES as u64).unwrap_or(0)
}
