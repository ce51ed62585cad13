//! The limits a user can meet, in one place.
//!
//! They are checked at the border of the public API; below it they hold, and are asserted.

use crate::{Error, Result};

/// Longest key: 64 KiB. The empty key is legal.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value: 512 MiB.
pub const VALUE_BYTES_MAX: usize = 512 << 20;
/// Values longer than this are stored once, each in a file of its own: 1 MiB.
pub const INLINE_VALUE_BYTES_MAX: usize = 1 << 20;
/// Most operations in one batch.
pub const BATCH_OPERATIONS_MAX: usize = 1 << 16;
/// Most payload bytes in one batch (external values not counted): 16 MiB.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Checks a key's length.
///
/// # Errors
/// `InvalidInput`, with the length and the limit.
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(
        "use a key",
        format!("it has {} bytes, the limit is {KEY_BYTES_MAX}", key.len()),
    )
    .remedy("hash or shorten it"))
}

/// Checks a value's length.
///
/// # Errors
/// `InvalidInput`, with the length and the limit.
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(
        "write a value",
        format!(
            "it has {} bytes, the limit is {VALUE_BYTES_MAX}",
            value.len()
        ),
    )
    .remedy("split it over several keys"))
}
