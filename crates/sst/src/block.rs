//! Data blocks: about 4 KiB of entries, found by tag, by binary search, or walked both ways.
//!
//! ```text
//! block   := entries:u32 key_bytes:u32 tagged:u8 tags restarts keys values
//! tags    := u8 * entries                       if tagged = 1: low byte of each key's hash
//! restarts:= (key_offset:u32 value_offset:u32) * ceil(entries / 16)
//! keys    := item * entries
//! item    := shared:varint unshared:varint value_bytes:varint word:u64 suffix
//! word    := stamp << 8 | kind
//! values  := the payloads, one after another
//! ```
//! Tags and restarts stand in front, and keys apart from values, so that a search touches few
//! cache lines: the first one or two, those of one interval of keys, and the value's. The tags are
//! a hash index in the order of the entries (as in F14 and Swiss tables): eight are compared at a
//! time, one in 256 lies, and nothing collides.
//!
//! K1. Every 16th item is a restart: it shares nothing with its predecessor, and the restart table
//!     says where it and its value are.
//! K2. No reader panics, reads outside the block, or allocates more than an interval's keys, for
//!     any bytes: what does not parse is [`Malformed`].
//!
//! Threads: blocks are immutable. Tests: `block/tests.rs`.

pub(crate) mod builder;
pub(crate) mod view;
pub(crate) mod cursor;

#[cfg(test)]
mod tests;

use velella_base::ValueKind;

/// Entries from one restart to the next.
pub(crate) const INTERVAL: usize = 16;
/// Bytes in front of the tags.
pub(crate) const HEAD_BYTES: usize = 9;
/// Bytes of one entry of the restart table.
pub(crate) const RESTART_BYTES: usize = 8;

/// What is wrong with a block whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Its parts do not fit together.
    Shape(&'static str),
    /// An entry is of a kind unknown to this build.
    Kind(u8),
}

/// The kind with this number.
#[inline]
pub(crate) fn kind(number: u8) -> Result<ValueKind, Malformed> {
    // Kinds are numbered from 1 in the order of `ALL`.
    match ValueKind::ALL.get(usize::from(number).wrapping_sub(1)) {
        Some(&kind) => Ok(kind),
        None => Err(Malformed::Kind(number)),
    }
}
