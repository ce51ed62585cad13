//! What is asked of every store, and with which settings it is opened.
//!
//! One trait for peers and for what of Velella is measured beside them, so that all do the same
//! work. Calls go through a table of functions for all of them alike.
//!
//! S1. A get, a scan and a put-if-absent see every write that was acknowledged before they began.
//! S2. A scan sees one state of the store, and is opened anew for each call.
//! S3. A store offers a durability only if an acknowledged write survives exactly what its name
//!     says; `Peer::open` gets no other.
//!
//! Threads: a store is used by many. Tests: `contract` in `tests/stores.rs`, on every store built.

pub use crate::durability::Durability;
use crate::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// How a store is opened. What it does not say is the store's own default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Bytes of cache; of Velella, of everything.
    pub memory: u64,
    /// Bytes at which a memtable is flushed; peers have memtables on top of `memory`.
    pub write_buffer: u64,
    /// Bits per key of the filters, where there are filters.
    pub bloom_bits: u32,
    /// Most bytes the data can take: what a store that maps one file maps.
    pub data_bytes_max: u64,
    /// Whether a store counts, too, that only counts when told to, and is slower then.
    pub counters: bool,
}

/// One write of a batch; without a value it deletes.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value, if it is a put.
    pub value: Option<&'a [u8]>,
}

/// Sees each pair of a scan.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// Takes each entry of a memtable.
pub type SeeEntry<'a> = &'a mut dyn FnMut(velella_base::Entry<'_>) -> velella_base::Result<()>;

/// What writers waited, by a store's own account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_us: u64,
    /// The longest since it was opened.
    pub max_us: u64,
}

/// A view of a store as it was.
pub trait View {
    /// Shows up to `count` pairs from `from` on to `visit`; how many there were.
    ///
    /// # Errors
    /// What the store said.
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize>;
}

/// An open store.
pub trait Store: Send + Sync {
    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// What the store said; so for all methods.
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()>;

    /// Makes `key` absent.
    ///
    /// # Errors
    /// As `put`.
    fn delete(&self, key: &[u8]) -> Outcome<()>;

    /// Shows the value of `key` to `see`, if it has one; says whether.
    ///
    /// # Errors
    /// As `put`.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Shows up to `count` pairs from the first at or above `from` on; how many there were.
    ///
    /// # Errors
    /// As `put`.
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize>;

    /// Shows up to `count` pairs from the last one backwards; how many there were.
    ///
    /// # Errors
    /// As `put`.
    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize>;

    /// Applies all changes as one.
    ///
    /// # Errors
    /// As `put`.
    fn write(&self, batch: &[Change<'_>]) -> Outcome<()>;

    /// Stores `value` if `key` is absent, as one atomic step; says whether it did.
    ///
    /// # Errors
    /// As `put`; `Unfit` where there is no such step.
    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool>;

    /// Puts `value` as one atomic step that shows the old value to `see`, if there is one; says
    /// whether there was. `None` where there is no such step. `see` may be called more than once.
    ///
    /// # Errors
    /// As `put`.
    fn replace(
        &self,
        _key: &[u8],
        _value: &[u8],
        _see: &mut dyn FnMut(&[u8]),
    ) -> Outcome<Option<bool>> {
        Ok(None)
    }

    /// A view that stays as it is now.
    ///
    /// # Errors
    /// `Unfit` where there is none.
    fn view(&self) -> Outcome<Box<dyn View + '_>>;

    /// Shows every entry in order to `see`, as a flush meets them, if it is a memtable alone; says
    /// whether it is.
    ///
    /// # Errors
    /// What `see` said.
    fn entries(&self, _see: SeeEntry<'_>) -> Outcome<bool> {
        Ok(false)
    }

    /// Writes out and compacts what it has; returns when that is done. Here for stores that do
    /// nothing in the background.
    ///
    /// # Errors
    /// As `put`.
    fn settle(&self) -> Outcome<()> {
        Ok(())
    }

    /// What the store counts of itself, growing numbers all; if it counts anything.
    fn counters(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// What its writers waited for until now, by cause, if it tells.
    fn waits(&self) -> Option<BTreeMap<String, Waits>> {
        None
    }

    /// Closes it, as orderly as it can, if being dropped is not all it needs.
    ///
    /// # Errors
    /// As `put`.
    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

/// A kind of store.
pub trait Peer: Sync {
    /// Its name, as it is asked for.
    fn name(&self) -> &'static str;

    /// What it is, in half a line.
    fn about(&self) -> &'static str;

    /// What it can promise (S3).
    fn offers(&self) -> &'static [Durability];

    /// Opens it in `dir`, creating it if there is nothing.
    ///
    /// # Errors
    /// What the store said.
    fn open(&self, dir: &Path, settings: &Settings) -> Outcome<Box<dyn Store>>;

    /// Refuses a durability that it cannot keep.
    ///
    /// # Errors
    /// `UnequalDurability`.
    fn check(&self, asked: Durability) -> Outcome<()> {
        if self.offers().contains(&asked) {
            return Ok(());
        }
        Err(Failure::UnequalDurability {
            store: self.name().to_owned(),
            asked,
            offers: self.offers().to_vec(),
        })
    }
}
