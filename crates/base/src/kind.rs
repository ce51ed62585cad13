//! What a version says about its key.
//!
//! K1. The numbers are part of every on-disk format: never change one, never reuse one.
//! K2. A kind this build does not know is refused by its number, never skipped.

use crate::{Error, Result};

/// The kind of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ValueKind {
    /// The payload is the value.
    Put = 1,
    /// The key is absent from here on; the payload is empty. Also called a tombstone.
    Delete = 2,
    /// Payload: expiry in milliseconds since 1970 (`u64` little-endian), then the value. Once
    /// expired it counts as a [`ValueKind::Delete`].
    PutExpiring = 3,
    /// All keys from this one up to the payload (exclusive) are absent from here on.
    RangeDelete = 4,
    /// The payload is an operand for the keyspace's merge operator.
    Merge = 5,
    /// The payload is an [`ExternalRef`](crate::external::ExternalRef): the value has a file of
    /// its own.
    External = 6,
}

impl ValueKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [ValueKind; 6] = [
        ValueKind::Put,
        ValueKind::Delete,
        ValueKind::PutExpiring,
        ValueKind::RangeDelete,
        ValueKind::Merge,
        ValueKind::External,
    ];

    /// The kind with this number.
    ///
    /// # Errors
    /// `Unsupported`: no kind of this build has it.
    pub fn from_u8(number: u8) -> Result<ValueKind> {
        ValueKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == number)
            .ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::Unsupported,
                    "decode a version",
                    format!("kind {number} is unknown to this build"),
                )
                .remedy(
                    "open the database with the version of Velella that wrote it, or a newer one",
                )
            })
    }

    /// The kind's name in `inspect` and error messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ValueKind::Put => "put",
            ValueKind::Delete => "delete",
            ValueKind::PutExpiring => "put-expiring",
            ValueKind::RangeDelete => "range-delete",
            ValueKind::Merge => "merge",
            ValueKind::External => "external",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_and_unknown_ones_are_refused_by_number() {
        for kind in ValueKind::ALL {
            assert_eq!(ValueKind::from_u8(kind as u8).unwrap(), kind);
        }
        let error = ValueKind::from_u8(99).unwrap_err();
        assert!(error.to_string().contains("kind 99"), "{error}");
    }
}
