//! Checksums: the catalogued polynomial, composable, and bound to their place.
//!
//! Claims: `checksum.rs`.

use crate::draws::Draws;
use velella_base::checksum::{Context, at, crc32c, crc32c_append};

#[test]
fn the_vectors_of_rfc_3720_come_out() {
    // RFC 3720, B.4.
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    for (bytes, crc) in [
        (vec![], 0),
        (vec![0; 32], 0x8a91_36aa),
        (vec![0xff; 32], 0x62a8_ab43),
        (ascending, 0x46dd_794e),
        (descending, 0x113f_db5c),
    ] {
        assert_eq!(crc32c(&bytes), crc, "{bytes:?}");
    }
}

#[test]
fn a_checksum_continues_wherever_it_is_cut() {
    let mut draws = Draws(3);
    let bytes: Vec<u8> = (0..300).map(|_| draws.next().to_le_bytes()[7]).collect();
    let whole = crc32c(&bytes);
    for cut in 0..=bytes.len() {
        assert_eq!(
            crc32c_append(crc32c(&bytes[..cut]), &bytes[cut..]),
            whole,
            "{cut}"
        );
    }
}

#[test]
fn every_flipped_bit_of_bytes_offset_file_and_database_shows() {
    let here = Context {
        database: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
        file: 42,
    };
    let (offset, bytes) = (4096, *b"a block of a table");
    let sum = at(here.seed(), offset, &bytes);
    for bit in 0..128 {
        let database = here.database ^ 1 << bit;
        assert_ne!(
            at(Context { database, ..here }.seed(), offset, &bytes),
            sum,
            "{bit}"
        );
    }
    for bit in 0..64 {
        let file = here.file ^ 1 << bit;
        assert_ne!(
            at(Context { file, ..here }.seed(), offset, &bytes),
            sum,
            "{bit}"
        );
        assert_ne!(at(here.seed(), offset ^ 1 << bit, &bytes), sum, "{bit}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(at(here.seed(), offset, &bytes), sum, "{bit}");
    }
    assert_ne!(at(here.seed(), offset, &bytes[1..]), sum);
}
