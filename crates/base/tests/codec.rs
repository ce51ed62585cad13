//! The codec reads back what it wrote, and takes any other bytes without harm.
//!
//! Claims: `codec.rs` C1, C2; `external.rs`.

use crate::draws::Draws;
use velella_base::codec::{Reader, put_slice, put_varint};
use velella_base::external::{EXTERNAL_REF_BYTES, ExternalRef};

/// One written value.
#[derive(Debug, Clone, PartialEq)]
enum Item {
    Byte(u8),
    Word(u32),
    Long(u64),
    Wide(u128),
    Varint(u64),
    Slice(Vec<u8>),
    Raw(Vec<u8>),
}

impl Item {
    fn draw(draws: &mut Draws) -> Item {
        let number = draws.number();
        match draws.below(7) {
            0 => Item::Byte(number.to_le_bytes()[0]),
            1 => Item::Word((number & 0xffff_ffff).try_into().unwrap_or_default()),
            2 => Item::Long(number),
            3 => Item::Wide(u128::from(number) << draws.below(65)),
            4 => Item::Varint(number),
            5 => Item::Slice(draws.key(200)),
            _ => Item::Raw(draws.key(9)),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Item::Byte(value) => out.push(*value),
            Item::Word(value) => out.extend_from_slice(&value.to_le_bytes()),
            Item::Long(value) => out.extend_from_slice(&value.to_le_bytes()),
            Item::Wide(value) => out.extend_from_slice(&value.to_le_bytes()),
            Item::Varint(value) => put_varint(out, *value),
            Item::Slice(value) => put_slice(out, value),
            Item::Raw(value) => out.extend_from_slice(value),
        }
    }

    /// Reads a value of the same kind, and for raw bytes of the same length.
    fn read(&self, reader: &mut Reader<'_>) -> Option<Item> {
        Some(match self {
            Item::Byte(_) => Item::Byte(reader.u8()?),
            Item::Word(_) => Item::Word(reader.u32()?),
            Item::Long(_) => Item::Long(reader.u64()?),
            Item::Wide(_) => Item::Wide(reader.u128()?),
            Item::Varint(_) => Item::Varint(reader.varint()?),
            Item::Slice(_) => Item::Slice(reader.slice()?.to_vec()),
            Item::Raw(value) => Item::Raw(reader.bytes(value.len())?.to_vec()),
        })
    }
}

#[test]
fn any_sequence_of_values_is_read_back_and_none_of_it_when_cut() {
    for seed in 0..300 {
        let mut draws = Draws(seed);
        let items: Vec<_> = (0..1 + draws.below(12))
            .map(|_| Item::draw(&mut draws))
            .collect();
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for item in &items {
            item.put(&mut bytes);
            ends.push(bytes.len());
        }
        for len in 0..=bytes.len() {
            let mut reader = Reader::new(&bytes[..len]);
            for (item, end) in items.iter().zip(&ends) {
                let read = item.read(&mut reader);
                if *end > len {
                    assert_eq!(read, None, "seed {seed}: {item:?} of {len} bytes");
                    break;
                }
                assert_eq!(read.as_ref(), Some(item), "seed {seed}");
                assert_eq!(reader.rest(), &bytes[*end..len], "seed {seed}");
                assert_eq!(reader.is_empty(), *end == len, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_reader_of_any_bytes_stays_within_them() {
    for seed in 0..2_000 {
        let mut draws = Draws(seed);
        let bytes: Vec<u8> = (0..draws.below(40))
            .map(|_| draws.next().to_le_bytes()[0])
            .collect();
        let mut reader = Reader::new(&bytes);
        let mut left = bytes.len();
        for _ in 0..20 {
            let _ = Item::draw(&mut draws).read(&mut reader);
            // C1: what is left is always an end of what was given, and never grows.
            assert!(bytes.ends_with(reader.rest()), "seed {seed}");
            assert!(reader.rest().len() <= left, "seed {seed}");
            left = reader.rest().len();
        }
    }
}

#[test]
fn a_varint_grows_by_a_byte_every_seven_bits() {
    let length = |value| {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        bytes.len()
    };
    for bits in 1..=64u32 {
        let most = u64::MAX >> (64 - bits);
        for value in [most, most / 2 + 1] {
            assert_eq!(length(value), bits.div_ceil(7) as usize, "{value}");
        }
    }
    assert_eq!(length(0), 1);
}

#[test]
fn a_varint_ends_at_its_tenth_byte() {
    let ten = |last: u8| [&[0xff; 9][..], &[last]].concat();
    assert_eq!(Reader::new(&ten(1)).varint(), Some(u64::MAX));
    for last in [2, 0x7f, 0x80, 0x81, 0xff] {
        assert_eq!(Reader::new(&ten(last)).varint(), None, "C2: {last:#x}");
    }
    // What follows is not its business.
    let mut reader = Reader::new(&[0x83, 0x01, 0xff]);
    assert_eq!((reader.varint(), reader.rest()), (Some(131), &[0xff][..]));
}

#[test]
fn a_slice_that_claims_more_than_there_is_is_none() {
    for claimed in [3, 4, 1 << 20, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, claimed);
        bytes.extend_from_slice(b"ab");
        assert_eq!(Reader::new(&bytes).slice(), None, "{claimed}");
    }
    assert_eq!(Reader::new(&[0]).slice(), Some(&[][..]));
    assert_eq!(Reader::new(b"ab").bytes(usize::MAX), None);
}

#[test]
fn an_external_reference_is_these_28_bytes_and_no_others() {
    let reference = ExternalRef {
        file: 0x0102_0304_0506_0708,
        length: 0x1112_1314_1516_1718,
        crc: 0x2122_2324,
        expires_at_ms: 0x3132_3334_3536_3738,
    };
    let bytes = reference.encode();
    let expected: [u8; EXTERNAL_REF_BYTES] = [
        8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22,
        0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,
    ];
    assert_eq!(bytes, expected, "the format never changes");
    for extreme in [0, u64::MAX] {
        let reference = ExternalRef {
            file: extreme,
            length: extreme,
            crc: u32::try_from(extreme & 0xffff_ffff).unwrap(),
            expires_at_ms: extreme,
        };
        assert_eq!(ExternalRef::decode(&reference.encode()), Some(reference));
    }
    for len in 0..EXTERNAL_REF_BYTES {
        assert_eq!(ExternalRef::decode(&bytes[..len]), None, "{len} bytes");
    }
    assert_eq!(ExternalRef::decode(&[&bytes[..], &[0]].concat()), None);
}
