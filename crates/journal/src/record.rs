//! The framing of one record in a lane.
//!
//! ```text
//!  0  u32  word: bytes of header and payload; 0 = not committed; written last
//!  4  u8   kind: 1 data, 2 large, 3 skip, 4 end        5..8 zero
//!  8  u32  crc of the payload
//! 12  u32  crc of bytes 0..12 and 16..24
//! 16  u64  stamp (0 for skip)
//! 24  payload, then zeros to a multiple of 8
//! ```
//! R1. Both checksums start from (database, incarnation, lane, lane offset), and a lane offset is
//!     used once: stale bytes of recycled or abandoned space do not validate, wherever they lie.
//! R2. The word after a record is zero before the record's own word is written, so a committed
//!     record is followed by a committed record or by zero.
//! R3. Records stand at multiples of 8, so a word is never torn.
//!
//! Tests: below.

use velella_base::checksum::crc32c;
use velella_base::{DatabaseId, Stamp, seeded};
use velella_sync::crc::crc32c_append;

/// Bytes of a record before its payload.
pub(crate) const HEADER: u64 = HEADER_LEN as u64;
/// The same, for arrays.
pub(crate) const HEADER_LEN: usize = 24;
/// Bytes of a whole skip record.
pub(crate) const SKIP: u64 = HEADER + 8;
/// Bytes of a reference to a large payload.
pub(crate) const REFERENCE: usize = 32;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The payload is the caller's.
    Data = 1,
    /// The payload is a [`Reference`] to the caller's payload in a large file.
    Large = 2,
    /// Stands at the start of a page: the lane left the page before at the offset in the payload.
    Skip = 3,
    /// The extent is full, or was closed: the lane goes on in another.
    End = 4,
}

impl Kind {
    fn from_u8(number: u8) -> Option<Kind> {
        [Kind::Data, Kind::Large, Kind::Skip, Kind::End]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// The seed of one lane's checksums, short of the lane offset (R1).
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneSeed(u32);

impl LaneSeed {
    pub(crate) fn new(database: DatabaseId, incarnation: u64, lane: u32) -> LaneSeed {
        let seed = crc32c(&database.to_le_bytes());
        let seed = crc32c_append(seed, &incarnation.to_le_bytes());
        LaneSeed(crc32c_append(seed, &lane.to_le_bytes()))
    }

    /// The seed of the record at `offset` of the lane.
    #[inline]
    pub(crate) fn at(self, offset: u64) -> u32 {
        crc32c_append(self.0, &offset.to_le_bytes())
    }
}

/// The next place where a record may stand (R3).
pub(crate) fn align(position: u64) -> u64 {
    position.next_multiple_of(8)
}

/// A record whose payload is in place and whose stamp is not known yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draft {
    header: [u8; HEADER_LEN],
    /// Checksum of everything before the stamp, so that stamping costs eight bytes.
    prefix: u32,
}

impl Draft {
    /// `seed` is [`LaneSeed::at`] the record's offset, `len` counts header and payload.
    #[inline]
    pub(crate) fn new(seed: u32, kind: Kind, len: u32, payload_crc: u32) -> Draft {
        let mut header = [0; HEADER_LEN];
        header[0..4].copy_from_slice(&len.to_le_bytes());
        header[4] = kind as u8;
        header[8..12].copy_from_slice(&payload_crc.to_le_bytes());
        Draft {
            prefix: crc32c_append(seed, &header[..12]),
            header,
        }
    }

    /// The finished header. Its first four bytes are the word that commits the record.
    #[inline]
    pub(crate) fn stamped(mut self, stamp: Stamp) -> [u8; HEADER_LEN] {
        let stamp = stamp.0.to_le_bytes();
        let crc = crc32c_append(self.prefix, &stamp);
        self.header[12..16].copy_from_slice(&crc.to_le_bytes());
        self.header[16..24].copy_from_slice(&stamp);
        self.header
    }
}

/// A whole small record, for skip and end.
pub(crate) fn encode(seed: u32, kind: Kind, stamp: Stamp, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER_LEN + payload.len()).expect("skip and end are small");
    let draft = Draft::new(seed, kind, len, crc32c_append(seed, payload));
    let mut bytes = draft.stamped(stamp).to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A header that validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) stamp: Stamp,
    /// Bytes of the payload.
    pub(crate) payload: u64,
    pub(crate) payload_crc: u32,
}

impl Header {
    /// Bytes of the record in its lane, with the zeros behind it.
    pub(crate) fn footprint(&self) -> u64 {
        align(HEADER + self.payload)
    }
}

/// What stands where a record may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// The word is zero: nothing was committed here.
    Nothing,
    /// A header that validates.
    Header(Header),
    /// Bytes that are no header of this place.
    Invalid(&'static str),
}

/// Reads the header at the place of `seed`; `room` is what is left of the extent.
pub(crate) fn decode(seed: u32, bytes: &[u8; HEADER_LEN], room: u64) -> Decoded {
    let word = u32_at(bytes, 0);
    if word == 0 {
        return Decoded::Nothing;
    }
    let stamp = u64::from_le_bytes(array(bytes, 16));
    let crc = crc32c_append(crc32c_append(seed, &bytes[..12]), &stamp.to_le_bytes());
    if crc != u32_at(bytes, 12) && !seeded("a-record-header's-checksum-is-ignored") {
        return Decoded::Invalid("the record header's checksum does not match");
    }
    let len = u64::from(word);
    if len < HEADER || align(len) > room {
        return Decoded::Invalid("the record is longer than its extent");
    }
    let Some(kind) = Kind::from_u8(bytes[4]) else {
        return Decoded::Invalid("the record's kind is unknown to this build");
    };
    if stamp > Stamp::MAX.0 {
        return Decoded::Invalid("the record's stamp is out of range");
    }
    Decoded::Header(Header {
        kind,
        stamp: Stamp(stamp),
        payload: len - HEADER,
        payload_crc: u32_at(bytes, 8),
    })
}

/// Where a large payload lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Number of the large file.
    pub(crate) file: u64,
    /// Where the payload begins in it.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) len: u64,
    /// Its checksum, seeded with the record's place (R1).
    pub(crate) crc: u32,
}

impl Reference {
    pub(crate) fn encode(&self) -> [u8; REFERENCE] {
        let mut bytes = [0; REFERENCE];
        bytes[0..8].copy_from_slice(&self.file.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Reference> {
        let bytes: &[u8; REFERENCE] = payload.try_into().ok()?;
        Some(Reference {
            file: u64::from_le_bytes(array(bytes, 0)),
            offset: u64::from_le_bytes(array(bytes, 8)),
            len: u64::from_le_bytes(array(bytes, 16)),
            crc: u32_at(bytes, 24),
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_of(bytes: &[u8]) -> [u8; 24] {
        bytes[..24].try_into().unwrap()
    }

    #[test]
    fn a_record_validates_only_in_its_own_place() {
        let seed = LaneSeed::new(1, 2, 3);
        let bytes = encode(seed.at(64), Kind::Data, Stamp(9), b"payload");
        let Decoded::Header(header) = decode(seed.at(64), &header_of(&bytes), 1000) else {
            panic!("its own place");
        };
        assert_eq!((header.kind, header.stamp), (Kind::Data, Stamp(9)));
        assert_eq!((header.payload, header.footprint()), (7, 32));
        assert_eq!(header.payload_crc, crc32c_append(seed.at(64), b"payload"));
        for elsewhere in [
            seed.at(72),
            LaneSeed::new(1, 2, 4).at(64),
            LaneSeed::new(1, 3, 3).at(64),
            LaneSeed::new(2, 2, 3).at(64),
        ] {
            let decoded = decode(elsewhere, &header_of(&bytes), 1000);
            assert!(matches!(decoded, Decoded::Invalid(_)), "{decoded:?}");
        }
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_seen() {
        let seed = LaneSeed::new(1, 2, 3).at(64);
        let bytes = header_of(&encode(seed, Kind::Data, Stamp(9), b""));
        for bit in 0..24 * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            // Bytes 5..8 are part of the checksum although they say nothing.
            assert!(
                matches!(decode(seed, &bad, 1000), Decoded::Invalid(_)),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_zero_word_is_nothing_and_a_record_beyond_its_extent_is_invalid() {
        let seed = LaneSeed::new(1, 2, 3).at(0);
        assert_eq!(decode(seed, &[0; 24], 1000), Decoded::Nothing);
        let bytes = encode(seed, Kind::Data, Stamp(9), &[0; 100]);
        assert!(matches!(
            decode(seed, &header_of(&bytes), 120),
            Decoded::Invalid(_)
        ));
    }

    #[test]
    fn references_round_trip_and_other_lengths_are_refused() {
        let reference = Reference {
            file: 1,
            offset: 2,
            len: 3,
            crc: 4,
        };
        assert_eq!(Reference::decode(&reference.encode()), Some(reference));
        assert_eq!(Reference::decode(&reference.encode()[1..]), None);
    }
}
