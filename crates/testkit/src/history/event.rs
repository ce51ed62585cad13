//! One operation of a history: who, when, what, and what it was told.
//!
//! V1. What an operation was told is kept as it was told; nothing is concluded here.
//!
//! Tests: through the checker and the campaign.

use std::collections::BTreeMap;
use velella_base::Stamp;

/// How many keys a history has: few, so that all clients meet on them.
pub const KEYS: usize = 5;

/// What a key holds; `None` where it is absent. Written values are never written twice.
pub type Value = Option<Vec<u8>>;

/// What a key holds, with the stamp of that version.
pub type Version = Option<(Stamp, Vec<u8>)>;

/// What all keys hold at one moment; absent keys are left out.
pub type State = BTreeMap<usize, Vec<u8>>;

/// An operation with its place in real time.
#[derive(Debug, Clone)]
pub struct Event {
    /// Who did it.
    pub client: usize,
    /// The counter before it began.
    pub begin: u64,
    /// The counter after it ended.
    pub end: u64,
    /// Whether it was to return no sooner than its write was durable.
    pub synced: bool,
    /// What it was.
    pub what: What,
}

/// What an operation did and was told.
#[derive(Debug, Clone)]
pub enum What {
    /// Put, delete or batch: all changes at one stamp.
    Wrote {
        /// Its stamp.
        stamp: Stamp,
        /// What it wrote, by key.
        changes: BTreeMap<usize, Value>,
    },
    /// A read-modify-write, or a batch that asked for unchanged keys: as `Wrote`, and what each
    /// key held before.
    Based {
        /// Its stamp.
        stamp: Stamp,
        /// What it wrote, by key.
        changes: BTreeMap<usize, Value>,
        /// What it found, by key.
        bases: BTreeMap<usize, Version>,
        /// The snapshot it was found in, if it was one: what expires is judged there.
        read_at: Option<Stamp>,
    },
    /// A `compare_and_swap` to a value, or a `put_if_absent`, that was done. Nobody tells its
    /// stamp, but who reads the value is told.
    Swapped {
        /// The key.
        key: usize,
        /// What it was asked to hold, as it was read before.
        base: Version,
        /// What it holds now.
        value: Vec<u8>,
    },
    /// One that was not done: the key did not hold this.
    Refused {
        /// The key.
        key: usize,
        /// What it was asked to hold.
        expected: Value,
    },
    /// A scan of the present, without a snapshot to read it by: one moment of the stamp order.
    Scanned {
        /// The keys it was to cover, in its order.
        asked: Vec<usize>,
        /// What it showed.
        pairs: Vec<(usize, Vec<u8>)>,
    },
    /// A `get`: linearizable for its key, nothing more.
    Got {
        /// The key.
        key: usize,
        /// What it held.
        value: Value,
        /// The stamp of the version, where there was one.
        stamp: Option<Stamp>,
    },
    /// `get_strict`, a `multi_get`, or a read-modify-write that kept what it found: all values at
    /// one moment of the stamp order.
    Strict {
        /// What the keys held.
        values: BTreeMap<usize, Value>,
    },
    /// A snapshot, taken and read whole.
    Saw {
        /// Its stamp.
        at: Stamp,
        /// What it held.
        state: State,
    },
    /// A snapshot that was taken by an earlier event, read again.
    SawAgain {
        /// Its stamp.
        at: Stamp,
        /// What it held.
        state: State,
    },
    /// An increment by one of the one counter.
    Counted {
        /// What it was told.
        sum: i64,
    },
    /// Nobody's: the wall clock passed the time at which values of this history expire.
    Expired,
}

impl What {
    /// The stamp and the changes of a write.
    #[must_use]
    pub fn written(&self) -> Option<(Stamp, &BTreeMap<usize, Value>)> {
        match self {
            What::Wrote { stamp, changes } | What::Based { stamp, changes, .. } => {
                Some((*stamp, changes))
            }
            _ => None,
        }
    }
}
