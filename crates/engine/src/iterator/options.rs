//! What an iterator covers: bounds, a prefix, a view.
//!
//! Threads: plain data. Tests: `tests/iterators.rs`.

use crate::keyspace_core::Core;
use crate::snapshot::Snapshot;
use std::ops::{Bound, RangeBounds};
use velella_base::order::prefix_end;
use velella_base::{Error, Result};

/// What an iterator covers: keys that are within both bounds and have the prefix. Bounds the wrong
/// way round cover nothing.
#[derive(Debug, Clone)]
pub struct IterOptions {
    /// Where it begins.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
    /// Only keys with this prefix (bytewise order only). Empty: all.
    pub prefix: Vec<u8>,
    /// Values stay empty and are not read. Default false.
    pub keys_only: bool,
    /// Whether the blocks it reads enter the cache. Default true; say no for a full scan.
    pub fill_cache: bool,
    /// The view; `None`: a snapshot taken now, which lives as long as the iterator.
    pub snapshot: Option<Snapshot>,
}

impl IterOptions {
    /// The pairs within `bounds`.
    pub fn within<K: AsRef<[u8]>>(bounds: &impl RangeBounds<K>) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        IterOptions {
            lower: owned(bounds.start_bound()),
            upper: owned(bounds.end_bound()),
            ..IterOptions::default()
        }
    }
}

impl Default for IterOptions {
    fn default() -> Self {
        IterOptions {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
            prefix: Vec::new(),
            keys_only: false,
            fill_cache: true,
            snapshot: None,
        }
    }
}

/// Turns the prefix into bounds.
///
/// # Errors
/// `InvalidInput`: the order is not bytewise.
pub(super) fn narrow_to_prefix(core: &Core, options: &mut IterOptions) -> Result<()> {
    if !core.order.is_bytewise() {
        let found = format!(
            "keyspace `{}` is ordered by `{}`",
            core.name,
            core.order.name()
        );
        return Err(Error::invalid("iterate over a prefix", found).remedy("use bounds instead"));
    }
    let prefix = std::mem::take(&mut options.prefix);
    if !above(
        core,
        &Bound::Excluded(prefix.clone()),
        lower_key(&options.lower),
    ) {
        options.lower = Bound::Included(prefix.clone());
    }
    if let Some(end) = prefix_end(&prefix) {
        let narrower = match &options.upper {
            Bound::Unbounded => true,
            Bound::Included(key) | Bound::Excluded(key) => *key >= end,
        };
        if narrower {
            options.upper = Bound::Excluded(end);
        }
    }
    Ok(())
}

fn lower_key(bound: &Bound<Vec<u8>>) -> &[u8] {
    match bound {
        Bound::Unbounded => &[],
        Bound::Included(key) | Bound::Excluded(key) => key,
    }
}

/// Whether `key` lies above the upper bound.
#[inline]
pub(super) fn above(core: &Core, upper: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    // Most scans have none, and are not to make a call for it.
    !matches!(upper, Bound::Unbounded) && is_above(core, upper, key)
}

fn is_above(core: &Core, upper: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match upper {
        Bound::Unbounded => false,
        Bound::Included(bound) => core.order.compare(key, bound).is_gt(),
        Bound::Excluded(bound) => core.order.compare(key, bound).is_ge(),
    }
}

/// Whether `key` lies below the lower bound.
#[inline]
pub(super) fn below(core: &Core, lower: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match lower {
        Bound::Unbounded => false,
        Bound::Included(bound) => core.order.compare(key, bound).is_lt(),
        Bound::Excluded(bound) => core.order.compare(key, bound).is_le(),
    }
}
