//! Data blocks: about 4 KiB of entries, found by tag, by binary search, or walked both ways.
//!
//! ```text
//! block   := entries:u32 key_bytes:u32 flags:u8 common tags restarts keys values
//! flags   := 1: it has tags; 2: it has `common`, as all blocks since format version 2; 4: its
//!            values are of one length
//! common  := kind:u8 stamp_bytes:u8 base:u64 value_bytes:u32
//! tags    := u8 * entries                       low byte of each key's hash
//! restarts:= (key_offset:u32 value_offset:u32) * ceil(entries / 16)
//! keys    := item * entries
//! item    := shared:varint unshared:varint length own_kind above_base suffix
//! length  := value_bytes:varint                 nothing if the values are of one length
//! own_kind:= kind:u8                            nothing if `common` names a kind
//! above_base := stamp_bytes bytes               the stamp, less `base`
//! values  := the payloads, one after another
//! ```
//! What entries of a block have in common is written once, since each byte of it would be read in
//! every search and compressed in every merge (docs/decisions/0027). Without `common` each entry
//! has its own kind and length, and seven bytes of stamp.
//!
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
/// The block has tags.
const TAGGED: u8 = 1;
/// It has `common`.
const COMMON: u8 = 2;
/// Its values are of one length.
const ONE_LENGTH: u8 = 4;
/// Bytes in front of the tags, with `common`.
const HEAD_BYTES: usize = PLAIN_HEAD_BYTES + 14;
/// The same without it.
const PLAIN_HEAD_BYTES: usize = 9;
/// Bytes of any stamp.
const STAMP_BYTES_MAX: usize = 7;
/// Bytes of one entry of the restart table.
const RESTART_BYTES: usize = 8;

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
