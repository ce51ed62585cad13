//! What an acknowledged write survives: the first thing that stores must have in common.
//!
//! Threads: plain data. Tests: `tests/refusals.rs`.

use serde::{Deserialize, Serialize};

/// What an acknowledged write survives.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing: it may be lost with the process.
    None,
    /// The death of the process, `kill -9` included, but not a power loss.
    Process,
    /// A power loss.
    Device,
}

impl Durability {
    /// Its name, as it is asked for.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Process => "process",
            Durability::Device => "device",
        }
    }
}
