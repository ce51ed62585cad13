//! References to values that have a file of their own.
//!
//! ```text
//! reference := file:u64 length:u64 crc32c:u32 expires_at_ms:u64        little-endian, 28 bytes
//! ```
//! `expires_at_ms` is 0 for a value that does not expire.

use crate::codec::Reader;

/// Bytes of an encoded reference.
pub const EXTERNAL_REF_BYTES: usize = 28;

/// The payload of a version of kind [`External`](crate::ValueKind::External).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalRef {
    /// Number of the file that holds the value, and nothing else.
    pub file: u64,
    /// The value's length in bytes.
    pub length: u64,
    /// CRC-32C of the value.
    pub crc: u32,
    /// Milliseconds since 1970 after which the key counts as deleted; 0: never.
    pub expires_at_ms: u64,
}

impl ExternalRef {
    /// The reference as it stands in journal and tables.
    #[must_use]
    pub fn encode(&self) -> [u8; EXTERNAL_REF_BYTES] {
        let mut bytes = [0; EXTERNAL_REF_BYTES];
        bytes[..8].copy_from_slice(&self.file.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.crc.to_le_bytes());
        bytes[20..].copy_from_slice(&self.expires_at_ms.to_le_bytes());
        bytes
    }

    /// Reads a reference; `None` when the payload has not exactly its length.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<ExternalRef> {
        let mut reader = Reader::new(payload);
        let reference = ExternalRef {
            file: reader.u64()?,
            length: reader.u64()?,
            crc: reader.u32()?,
            expires_at_ms: reader.u64()?,
        };
        reader.is_empty().then_some(reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_round_trips_and_other_lengths_are_refused() {
        let reference = ExternalRef {
            file: 7,
            length: 1 << 30,
            crc: 5,
            expires_at_ms: 9,
        };
        assert_eq!(ExternalRef::decode(&reference.encode()), Some(reference));
        assert_eq!(ExternalRef::decode(&reference.encode()[1..]), None);
        assert_eq!(ExternalRef::decode(&[0; 29]), None);
    }
}
