//! Checksums over payload and context.
//!
//! Every checksum on disk also covers where the bytes belong (database, file, offset), so that a
//! block read from the wrong place, or a file exchanged with another, does not validate.

use crate::DatabaseId;

/// CRC-32C (Castagnoli) of `bytes`.
#[must_use]
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Continues `crc` over `bytes`.
#[must_use]
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Where checksummed bytes belong. Its seed starts every checksum of that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The database.
    pub database: DatabaseId,
    /// The file's number.
    pub file: u64,
}

impl Context {
    /// The seed of this file's checksums; compute it once per file.
    #[must_use]
    pub fn seed(&self) -> u32 {
        crc32c_append(
            crc32c(&self.database.to_le_bytes()),
            &self.file.to_le_bytes(),
        )
    }
}

/// Checksum of `bytes` that stand at `offset` of the file whose [`Context::seed`] is `seed`.
#[must_use]
#[inline]
pub fn at(seed: u32, offset: u64, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c_append(seed, &offset.to_le_bytes()), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_polynomial_is_castagnoli() {
        // The check value of CRC-32C as catalogued (iSCSI, RFC 3720 B.4 uses the same polynomial).
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn the_same_bytes_elsewhere_do_not_validate() {
        let here = Context {
            database: 1,
            file: 2,
        };
        let sum = at(here.seed(), 64, b"block");
        assert_ne!(sum, at(here.seed(), 128, b"block"));
        assert_ne!(sum, at(Context { file: 3, ..here }.seed(), 64, b"block"));
        assert_ne!(
            sum,
            at(
                Context {
                    database: 9,
                    ..here
                }
                .seed(),
                64,
                b"block"
            )
        );
    }
}
