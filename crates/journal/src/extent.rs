//! The header of an extent: a lane's piece of a segment.
//!
//! ```text
//!  0  [u8; 8]  magic            8  u128  database
//! 24  u64      incarnation     32  u64   segment's file number
//! 40  u64      ordinal: first extent of the lane 0, next 1, ...
//! 48  u64      lane offset of the first record
//! 56  u32      lane            60  u32   crc, seeded with database, file number and offset
//! ```
//! X1. It is complete before the first record of the extent, and never written again: extents are
//!     found and put in order by themselves. Its first word is written last: while that is zero,
//!     there is no header yet, whatever stands behind it.
//! X2. A header names its segment by number. Recycling gives a segment a new number, so the headers
//!     left in it are nobody's.
//!
//! Tests: below.

use crate::header::PAGE;
use velella_base::DatabaseId;
use velella_base::checksum::{self, Context};
use velella_base::codec::Reader;

/// Bytes of an extent before its first record.
pub(crate) const HEADER: u64 = HEADER_LEN as u64;
/// The same, for arrays.
pub(crate) const HEADER_LEN: usize = 64;
const CRC_AT: usize = 60;
const MAGIC: &[u8; 8] = b"vellEXTN";

/// An extent's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExtentHeader {
    pub(crate) database: DatabaseId,
    pub(crate) incarnation: u64,
    pub(crate) segment: u64,
    pub(crate) ordinal: u64,
    pub(crate) lane_offset: u64,
    pub(crate) lane: u32,
}

/// What stands where an extent may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A word of zero: never used, or being begun (X1).
    Nothing,
    /// A header that validates.
    Header(ExtentHeader),
    /// Something else.
    Damaged,
}

/// Where extent `index` begins in its segment, and how many bytes it has: the first gives a page
/// to the file header.
pub(crate) fn place(index: u64, extent_bytes: u64) -> (u64, u64) {
    if index == 0 {
        (PAGE, extent_bytes - PAGE)
    } else {
        (index * extent_bytes, extent_bytes)
    }
}

impl ExtentHeader {
    /// The bytes of the header that stands at `position` of its segment.
    pub(crate) fn encode(&self, position: u64) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..8].copy_from_slice(MAGIC);
        out[8..24].copy_from_slice(&self.database.to_le_bytes());
        out[24..32].copy_from_slice(&self.incarnation.to_le_bytes());
        out[32..40].copy_from_slice(&self.segment.to_le_bytes());
        out[40..48].copy_from_slice(&self.ordinal.to_le_bytes());
        out[48..56].copy_from_slice(&self.lane_offset.to_le_bytes());
        out[56..60].copy_from_slice(&self.lane.to_le_bytes());
        let crc = self.crc(position, &out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads what stands at `position` of a segment.
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN], position: u64) -> Found {
        if bytes.starts_with(&[0; 4]) {
            return Found::Nothing;
        }
        let mut reader = Reader::new(bytes);
        let decoded = (|| {
            let magic = reader.bytes(8)?;
            let header = ExtentHeader {
                database: reader.u128()?,
                incarnation: reader.u64()?,
                segment: reader.u64()?,
                ordinal: reader.u64()?,
                lane_offset: reader.u64()?,
                lane: reader.u32()?,
            };
            let crc = header.crc(position, &bytes[..CRC_AT]);
            (magic == MAGIC && reader.u32()? == crc).then_some(header)
        })();
        decoded.map_or(Found::Damaged, Found::Header)
    }

    fn crc(&self, position: u64, bytes: &[u8]) -> u32 {
        let context = Context {
            database: self.database,
            file: self.segment,
        };
        checksum::at(context.seed(), position, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_in_their_place_and_every_flipped_bit_is_seen() {
        let header = ExtentHeader {
            database: 1,
            incarnation: 2,
            segment: 3,
            ordinal: 4,
            lane_offset: 5,
            lane: 6,
        };
        let bytes = header.encode(4096);
        assert_eq!(ExtentHeader::decode(&bytes, 4096), Found::Header(header));
        assert_eq!(ExtentHeader::decode(&bytes, 8192), Found::Damaged);
        assert_eq!(ExtentHeader::decode(&[0; 64], 4096), Found::Nothing);
        let mut begun = bytes;
        begun[..4].fill(0);
        assert_eq!(ExtentHeader::decode(&begun, 4096), Found::Nothing);
        for bit in 0..64 * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                ExtentHeader::decode(&bad, 4096),
                Found::Damaged,
                "bit {bit}"
            );
        }
    }

    #[test]
    fn extents_fill_their_segment_behind_the_file_header() {
        assert_eq!(place(0, 65536), (4096, 61440));
        assert_eq!(place(1, 65536), (65536, 65536));
    }
}
