//! Sizes that users cannot choose, because what they may choose decides them; campaigns choose
//! smaller ones (`simulation.rs`).
//!
//! Z1. Sizes change nothing but how soon something happens: formats and protocols are the same.

/// Sizes that users cannot choose.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Lanes of the journal: how many writes may be between their first and last step at once.
    pub lanes: usize,
    /// Bytes of a journal segment: a multiple of `extent_bytes`.
    pub segment_bytes: u64,
    /// Bytes of a lane's share of a segment, from 8 KiB.
    pub extent_bytes: u64,
    /// Longer values get a file of their own.
    pub inline_value_bytes: usize,
    /// A manifest may be rewritten once it is longer; `None`: as usual.
    pub manifest_bytes: Option<u64>,
}

impl Sizes {
    /// So small that a few kilobytes come by all that there is; of tests.
    pub const SMALL: Sizes = Sizes {
        lanes: 2,
        segment_bytes: 32 << 10,
        extent_bytes: 8 << 10,
        inline_value_bytes: 3_000,
        manifest_bytes: None,
    };
}
