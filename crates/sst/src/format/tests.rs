//! Footers, tails and block trailers: round trips, and everything that is refused.

use super::*;

fn footer() -> Footer {
    let at = |offset, len| Handle { offset, len };
    Footer {
        version: VERSION,
        context: Context {
            database: 7,
            file: 9,
        },
        file_bytes: 50 + FOOTER_BYTES as u64,
        filter: at(10, 0),
        index: at(10, 20),
        properties: at(30, 20),
        read_features: 0,
        write_features: 0,
        ignore_features: 4,
        compression: 1,
    }
}

fn decode(bytes: &[u8], expected: Option<Context>) -> Result<Footer> {
    Footer::decode(
        bytes,
        50 + FOOTER_BYTES as u64,
        Path::new("t.sst"),
        expected,
    )
}

#[test]
fn a_footer_round_trips_and_knows_its_owner() {
    let bytes = footer().encode();
    assert_eq!(bytes.len(), FOOTER_BYTES);
    assert_eq!(decode(&bytes, Some(footer().context)).unwrap(), footer());
    let other = Context {
        database: 7,
        file: 10,
    };
    let error = decode(&bytes, Some(other)).unwrap_err();
    assert!(error.to_string().contains("table 9"), "{error}");
}

#[test]
fn every_flipped_bit_of_a_footer_is_corruption() {
    let bytes = footer().encode();
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = decode(&bytes, Some(footer().context)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "bit {bit}: {error}");
    }
}

#[test]
fn newer_versions_and_unknown_features_are_refused_by_name() {
    let mut bytes = footer().encode();
    bytes.splice(BODY_BYTES + 4.., tail(3, 200));
    let error = decode(&bytes, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let said = error.to_string();
    assert!(
        said.contains("version 3") && said.contains("1 to 2"),
        "{said}"
    );

    let newer = Footer {
        read_features: 4,
        write_features: 2,
        ..footer()
    };
    let error = decode(&newer.encode(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = newer.check_rewritable(Path::new("t.sst")).unwrap_err();
    assert!(error.to_string().contains("0x2"), "{error}");
}

#[test]
fn foreign_bytes_are_not_a_velella_table() {
    let error = decode(&[b'x'; FOOTER_BYTES], None).unwrap_err();
    assert!(error.to_string().contains("not a Velella table"), "{error}");
    assert!(decode(b"", None).is_err());
}

#[test]
fn a_block_read_from_elsewhere_does_not_validate() {
    let mut block = b"payload".to_vec();
    put_trailer(&mut block, 0, 1, 5, 64);
    assert_eq!(check_block(&block, 5, 64), Ok((&b"payload"[..], 1)));
    assert!(check_block(&block, 5, 65).is_err());
    assert!(check_block(&block, 6, 64).is_err());
    assert!(check_block(&block[..3], 5, 64).is_err());
}

#[test]
fn a_block_is_its_payload_and_six_bytes_at_least() {
    // Whatever the payload's length; and a trailer whose checksum is right but which is short.
    for len in [0, 1, 5, 4096] {
        let payload = vec![7; len];
        let mut block = payload.clone();
        put_trailer(&mut block, 0, 2, 9, 100);
        assert_eq!(block.len(), len + TRAILER_BYTES);
        assert_eq!(check_block(&block, 9, 100), Ok((&payload[..], 2)));
    }
    for len in 0..2 {
        let mut short = vec![0; len];
        let crc = checksum::at(9, 100, &short);
        short.extend_from_slice(&crc.to_le_bytes());
        let found = check_block(&short, 9, 100).unwrap_err();
        assert!(found.contains("shorter than its trailer"), "{found}");
    }
    for len in 0..4 {
        assert!(check_block(&vec![0; len], 9, 100).is_err());
    }
}

#[test]
fn a_transform_of_a_later_build_is_refused_by_its_number() {
    let mut block = b"payload".to_vec();
    block.extend_from_slice(&[1, 77]);
    let crc = checksum::at(9, 100, &block);
    block.extend_from_slice(&crc.to_le_bytes());
    let found = check_block(&block, 9, 100).unwrap_err();
    assert!(found.contains("transform 77"), "{found}");
}

/// A sound footer with these bytes of its body changed, and the checksum for them.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut footer = footer().encode();
    footer[at..at + bytes.len()].copy_from_slice(bytes);
    let context = Context {
        database: u128::from_le_bytes(*footer.first_chunk().unwrap()),
        file: u64::from_le_bytes(*footer[16..].first_chunk().unwrap()),
    };
    let crc = checksum::at(context.seed(), 50, &footer[..BODY_BYTES]);
    footer[BODY_BYTES..BODY_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
    footer
}

#[test]
fn a_footer_of_another_build_or_shape_is_refused_though_its_checksum_is_right() {
    assert!(
        decode(&changed(0, &[7]), Some(footer().context)).is_ok(),
        "unchanged"
    );
    for (at, bytes, kind, said) in [
        (76, &[2][..], ErrorKind::Unsupported, "checksum type 2"),
        (78, &[9], ErrorKind::Unsupported, "transform 9"),
        (64, &[1, 0, 0, 0], ErrorKind::Unsupported, "features 0x1"),
        (24, &[0; 8], ErrorKind::Corruption, "another shape"),
        (32, &[7], ErrorKind::Corruption, "another shape"),
        (32, &[11], ErrorKind::Corruption, "another shape"),
        (40, &[31], ErrorKind::Corruption, "another shape"),
        (48, &[51], ErrorKind::Corruption, "another shape"),
        (16, &[1], ErrorKind::Corruption, "it is table 1 of database"),
        (0, &[1], ErrorKind::Corruption, "it is table 9 of database"),
    ] {
        let error = decode(&changed(at, bytes), Some(footer().context)).unwrap_err();
        assert_eq!(error.kind(), kind, "{at}: {error}");
        assert!(error.to_string().contains(said), "{at}: {error}");
    }
    // What may be ignored is.
    decode(&changed(72, &[0xff; 4]), Some(footer().context)).unwrap();
}

#[test]
fn a_tail_that_claims_another_footer_is_damaged_or_newer() {
    for (version, bytes, kind) in [
        (0, FOOTER_BYTES_U32, ErrorKind::Unsupported),
        (1, FOOTER_BYTES_U32 - 1, ErrorKind::Corruption),
        (1, FOOTER_BYTES_U32 + 1, ErrorKind::Corruption),
        (1, u32::MAX, ErrorKind::Corruption),
        (u32::MAX, 0, ErrorKind::Unsupported),
    ] {
        let mut footer = footer().encode();
        footer.splice(BODY_BYTES + 4.., tail(version, bytes));
        assert_eq!(
            decode(&footer, None).unwrap_err().kind(),
            kind,
            "{version}, {bytes}"
        );
    }
}
