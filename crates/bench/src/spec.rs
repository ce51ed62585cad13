//! What a benchmark does, as plain data: everything that a store's process has to know.
//!
//! P1. A specification is complete: two stores given the same one do the same work, draw by draw.
//!
//! Threads: plain data. Tests: below; `catalogue`, `drive`.

use crate::choice::Choice;
use crate::keys::{KeyShape, Keys};
use crate::store::Settings;
use serde::{Deserialize, Serialize};

/// One kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Put the next new key; each key once.
    Insert,
    /// Put a drawn key.
    Update,
    /// Put keys in ascending order, over again where they end; with `disjoint`, each thread has a
    /// range of its own, else all have the same.
    UpdateInOrder {
        /// Whether each thread has a range of its own.
        disjoint: bool,
    },
    /// Get a drawn key.
    Get,
    /// Get a key that was never written.
    GetMissing,
    /// Seek a drawn key and read so many pairs from there on.
    Scan {
        /// Fewest pairs.
        from: u64,
        /// Most pairs.
        to: u64,
    },
    /// Seek what a drawn key and its neighbours begin with (`KeyShape::Link`), and read so many
    /// pairs from there on.
    ScanPrefix {
        /// Pairs.
        pairs: u64,
    },
    /// Read the next pair in order, or in the opposite one: so many operations are one scan, over
    /// again where it ends. Its latency is not measured.
    ReadInOrder {
        /// From the last key to the first.
        backwards: bool,
    },
    /// Get a drawn key, then put it: two steps, as YCSB does.
    ReadThenWrite,
    /// Put a drawn key if it is absent, as one atomic step.
    PutIfAbsent,
    /// Put a drawn key as one atomic step that reads what it held.
    Replace,
    /// Delete a drawn key.
    Delete,
}

impl Operation {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Update => "update",
            Operation::UpdateInOrder { .. } => "update-in-order",
            Operation::Get => "get",
            Operation::GetMissing => "get-missing",
            Operation::Scan { .. } => "scan",
            Operation::ScanPrefix { .. } => "scan-prefix",
            Operation::ReadInOrder { backwards: false } => "read-in-order",
            Operation::ReadInOrder { backwards: true } => "read-backwards",
            Operation::ReadThenWrite => "read-then-write",
            Operation::PutIfAbsent => "put-if-absent",
            Operation::Replace => "replace",
            Operation::Delete => "delete",
        }
    }

    /// The most pairs that it seeks and reads, if it does.
    #[must_use]
    pub fn pairs_most(self) -> Option<u64> {
        match self {
            Operation::Scan { to, .. } => Some(to),
            Operation::ScanPrefix { pairs } => Some(pairs),
            _ => None,
        }
    }

    /// Whether it may change what is stored.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(
            self,
            Operation::Get
                | Operation::GetMissing
                | Operation::Scan { .. }
                | Operation::ScanPrefix { .. }
                | Operation::ReadInOrder { .. }
        )
    }

    /// Whether it reads keys that must be there once all were loaded.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(
            self,
            Operation::Get
                | Operation::Scan { .. }
                | Operation::ScanPrefix { .. }
                | Operation::ReadInOrder { .. }
                | Operation::ReadThenWrite
                | Operation::Replace
        )
    }
}

/// With what a benchmark begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// An empty store.
    Empty,
    /// A store with all records; what an earlier benchmark left will do.
    Loaded,
    /// A store with all records, put once each: what an earlier benchmark left will not do, since
    /// its writes have scattered the newest values, and made it larger.
    Anew,
    /// What the one before left; where none before would do, that one is run first, unmeasured.
    AsIs,
}

impl Start {
    /// Whether the store has all records before.
    #[must_use]
    pub fn is_loaded(self) -> bool {
        matches!(self, Start::Loaded | Start::Anew)
    }
}

/// When operations begin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Each as soon as the one before has ended.
    Closed,
    /// At intended times, this share of the rate that a closed loop of `measure_seconds` reached,
    /// or so many a second as are given; latency counts from the intended time.
    Open {
        /// Operations per second of all threads, whatever the closed loop would reach.
        rate: Option<u64>,
        /// Share of saturation, from 0 to 1.
        share: f64,
        /// Seconds of the closed loop before.
        measure_seconds: f64,
        /// Seconds of the open loop.
        seconds: f64,
    },
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// A mix of operations, each with its share.
    Mix(Vec<(Operation, f64)>),
    /// Scan a few keys that have so many versions each, by a new view and by the oldest.
    Versions {
        /// Keys.
        keys: u64,
        /// Numbers of versions.
        versions: Vec<u64>,
    },
    /// Write out as a table what a memtable holds, beside an array of the same.
    WriteOut {
        /// How often; the median counts.
        times: u64,
    },
    /// Kill the process under full load, and open.
    OpenAfterKill {
        /// Seconds of load before the kill.
        seconds: f64,
        /// Insertions after which it is killed, if that is sooner.
        insertions: u64,
    },
}

/// A benchmark with all its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// The store that the others are compared with.
    pub ours: String,
    /// How numbers become keys.
    pub keys: KeyShape,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Keys in the key space.
    pub records: u64,
    /// With what it begins.
    pub start: Start,
    /// Operations of all threads together, of the measured part.
    pub operations: u64,
    /// What is done before, as often as there are records, and is not measured.
    pub before: Vec<(Operation, f64)>,
    /// Whether the store writes out and compacts what it has before.
    pub settled: bool,
    /// Whether writing out and compacting what it then has is counted, though not timed.
    pub drained: bool,
    /// Whether that is timed, too: the end is when all is compacted.
    pub drain_timed: bool,
    /// Operations before that, of the same kinds, which warm up and are not measured.
    pub warm_up: u64,
    /// What is done.
    pub body: Body,
    /// Whether each thread has a store of its own, with its range of the keys; where keys are of
    /// tables, each table has one, and each thread has its tables.
    pub store_for_each: bool,
    /// What one more thread does all the while, unmeasured.
    pub beside: Option<Operation>,
    /// After so many operations a client is another thread; 0: never.
    pub reconnect_every: u64,
    /// Which keys are drawn.
    pub choice: Choice,
    /// When operations begin.
    pub pace: Pace,
    /// How the store is opened.
    pub settings: Settings,
    /// The latency of every so many operations is measured; 0: of none.
    pub latency_every: u64,
    /// Where random numbers begin.
    pub seed: u64,
    /// Whether it is run only for what it leaves.
    #[serde(default)]
    pub unmeasured: bool,
}

impl Spec {
    /// Whether a store that `self` left can be used for `next` as it is.
    #[must_use]
    pub fn leaves_for(&self, next: &Spec) -> bool {
        let wanted = Settings {
            data_bytes_max: self.settings.data_bytes_max,
            ..next.settings.clone()
        };
        self.keys == next.keys
            && self.value_bytes == next.value_bytes
            && self.records == next.records
            && self.settings == wanted
            && self.settings.data_bytes_max >= next.settings.data_bytes_max
            && self.store_for_each == next.store_for_each
            && self.seed == next.seed
    }

    /// Whether `next`, right after it, finds what it left.
    #[must_use]
    pub fn is_followed_by(&self, next: &Spec) -> bool {
        let mut roomy = self.clone();
        // A store is opened with room for all that come after it.
        roomy.settings.data_bytes_max = u64::MAX;
        matches!(self.body, Body::Mix(_)) && roomy.leaves_for(next)
    }

    /// What makes its keys.
    #[must_use]
    pub fn key_maker(&self) -> Keys {
        Keys::new(self.keys, self.records)
    }

    /// Whether any of its operations writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.mix().iter().any(|(operation, _)| operation.writes())
    }

    /// Operations that it is made of; none where it is no mix.
    #[must_use]
    pub fn mix(&self) -> &[(Operation, f64)] {
        match &self.body {
            Body::Mix(mix) => mix,
            Body::Versions { .. } | Body::WriteOut { .. } | Body::OpenAfterKill { .. } => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::{Changes, named};

    #[test]
    fn a_store_with_more_room_will_do_and_one_with_less_will_not() {
        let of = |name: &str| named(name).unwrap()[0].with(&Changes::default(), 1);
        let load = of("larger-than-memory.load");
        let overwrite = of("larger-than-memory.overwrite");
        assert!(load.settings.data_bytes_max > overwrite.settings.data_bytes_max);
        assert!(load.leaves_for(&overwrite) && !overwrite.leaves_for(&load));
        let mut other = overwrite;
        other.settings.memory += 1;
        assert!(!load.leaves_for(&other));
    }
}
