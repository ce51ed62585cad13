//! The memory component: sorted, concurrent, multi-version, and freed as a whole.
//!
//! Source: JellyFish (Middleware '20) for a skip list of distinct keys with a list of versions per
//! key; S3 (VLDB '19) for the default kind, which keeps such keys in entries of eight; the
//! append-only kind is the baseline they are measured against. All keep the write protocol of
//! `docs/concurrency.md`: a version is installed *pending*, and becomes visible by one store of its
//! word.
//!
//! M1. Per key at most one version is undecided, and it is the newest.
//! M2. Stamps strictly decrease from a key's newest version to its oldest (aborted ones ignored).
//! M3. Nothing is ever inserted below a key's newest version; nothing visible to a reading point
//!     of a `velella_mvcc::Retention` is ever dropped.
//! M4. A key's node lives until the memtable is freed; a pruned version's bytes are reused only
//!     when every thread pinned at the time has unpinned. So no reference into a memtable
//!     outlives its guard.
//! M5. `install` may allocate and spin on a CAS; publish, abort and get never allocate, lock or
//!     make a system call.
//!
//! Threads: all methods from any thread. Tests: `contract::run`, on every kind; models in
//! `tests/models`, run by `tests/loom.rs` and `tests/shuttle.rs`; what only the list has, in
//! `jellyfish/tests.rs`.

mod ordering;
mod counters;
mod spare;
mod arena;
mod record;
mod cell;
mod identity;
mod interface;
mod probe;
mod visibility;
mod cursor;
mod heights;
pub mod guards;
mod chains;
mod jellyfish;
mod s3;
mod append_only;
#[cfg(any(test, feature = "contract", loom, shuttle))]
pub mod contract;

pub use cell::BatchCell;
pub use counters::Counters;
pub use guards::GuardOptions;
pub use identity::Identity;
pub use interface::{
    CursorMode, Head, Hint, Install, Intent, Memtable, Newest, OnPending, Owner, ReadAt, Version,
};
#[cfg(any(loom, shuttle))]
pub use ordering::{Site, weaken};
pub use record::{Pending, Undecided};
pub use spare::Spare;

use append_only::{AppendOnly, RESEEK_AFTER};
use jellyfish::Jellyfish;
use s3::S3;
use spare::Supply;
use std::sync::Arc;
use velella_base::Order;
use velella_mvcc::Slots;

/// Which structure holds a keyspace's newest writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemtableKind {
    /// A skip list of distinct keys, each with its own list of versions.
    Jellyfish,
    /// One tower per version: what most stores do; kept as the baseline.
    AppendOnly,
    /// Distinct keys in unsorted entries of eight, the entries in order; each key with its own list
    /// of versions, as in `Jellyfish`.
    #[default]
    S3,
}

impl MemtableKind {
    /// Every kind.
    pub const ALL: [MemtableKind; 3] = [
        MemtableKind::Jellyfish,
        MemtableKind::AppendOnly,
        MemtableKind::S3,
    ];

    /// Its name, as the manifest stores it: never change one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemtableKind::Jellyfish => "jellyfish",
            MemtableKind::AppendOnly => "append-only",
            MemtableKind::S3 => "s3",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<MemtableKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How to make a memtable.
#[derive(Debug, Clone)]
pub struct MemtableOptions {
    /// The structure.
    pub kind: MemtableKind,
    /// The order of keys.
    pub order: Order,
    /// The windows through which a resolving reader learns of an owner's stamp.
    pub slots: Arc<Slots>,
    /// What the memtables of a database count together.
    pub counters: Arc<Counters>,
    /// What freed memtables leave to the next one.
    pub spare: Arc<Spare>,
    /// The guard directory.
    pub guards: GuardOptions,
    /// Keys to expect, as far as one knows: as many as the memtable before had. More may come, and
    /// fewer: a memtable that gets more than some five thousand takes up to 30 bytes for each that
    /// was expected.
    pub keys: usize,
}

impl MemtableOptions {
    fn supply(&self) -> Supply {
        Supply {
            counters: Arc::clone(&self.counters),
            spare: Arc::clone(&self.spare),
        }
    }
}

/// Bytes of a guard directory by default: S3's budget, though not for its reason, half of a cache
/// that was smaller there (S3-8); `docs/decisions/0008-guard-directory.md` has what was measured.
pub const GUARD_BYTES: usize = 2 << 20;

/// Makes an empty memtable.
#[must_use]
pub fn new(options: &MemtableOptions) -> Arc<dyn Memtable> {
    let order = options.order.clone();
    let slots = Arc::clone(&options.slots);
    let supply = &options.supply();
    let (guards, keys) = (options.guards.clone(), options.keys);
    match options.kind {
        MemtableKind::Jellyfish => {
            Arc::new(Jellyfish::new(order, slots, supply, guards).expecting(keys))
        }
        MemtableKind::S3 => Arc::new(S3::new(order, slots, supply, guards).expecting(keys)),
        MemtableKind::AppendOnly => {
            Arc::new(AppendOnly::new(order, slots, supply, Some(RESEEK_AFTER)))
        }
    }
}

/// Makes an empty append-only memtable whose cursors step over every obsolete version, as
/// LevelDB's do, instead of seeking after a few: a baseline for measurements, no kind of its own.
#[must_use]
pub fn append_only_stepping(options: &MemtableOptions) -> Arc<dyn Memtable> {
    let order = options.order.clone();
    let slots = Arc::clone(&options.slots);
    Arc::new(AppendOnly::new(order, slots, &options.supply(), None))
}
