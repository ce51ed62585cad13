//! To come.

use super::Benchmark;

pub(super) const ALL: &[Benchmark] = &[];
