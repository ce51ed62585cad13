//! The benchmarks, named as in `db_bench`.
//!
//! Tests: `super::measure`.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What one thread does again and again.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub(super) enum Benchmark {
    /// Put ascending keys into an empty database
    FillSeq,
    /// Put random keys into an empty database
    FillRandom,
    /// Put random keys
    Overwrite,
    /// Get random keys
    ReadRandom,
    /// Step through all pairs, ascending
    ReadSeq,
    /// Step through all pairs, descending
    ReadReverse,
    /// Seek random keys, and step on from each
    SeekRandom,
    /// Delete random keys
    DeleteRandom,
    /// Read random keys and put new values, each as one atomic step
    UpdateRandom,
}

impl Benchmark {
    /// Whether it begins with an empty database.
    pub(super) fn wants_empty(self) -> bool {
        matches!(self, Benchmark::FillSeq | Benchmark::FillRandom)
    }

    /// Whether it writes.
    pub(super) fn writes(self) -> bool {
        use Benchmark::{DeleteRandom, FillRandom, FillSeq, Overwrite, UpdateRandom};
        matches!(
            self,
            FillSeq | FillRandom | Overwrite | DeleteRandom | UpdateRandom
        )
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
