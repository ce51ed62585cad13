//! Payloads: round trips, what is stored raw, and bytes that are no payload.

#![expect(clippy::cast_possible_truncation, reason = "sizes in tests are small")]

use super::*;
use velella_sync::rng::Rng;

const ALL: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

#[test]
fn payloads_round_trip_and_shrink_where_they_can() {
    let text = b"velella ".repeat(700);
    for compression in ALL {
        let mut out = Vec::new();
        let became = Compressor::new(compression).append(&text, &mut out);
        assert_eq!(became, compression);
        assert_eq!(&*decompress(became, &out).unwrap(), &text[..]);
        assert!(compression == Compression::None || out.len() < text.len() / 8);
        assert_eq!(Compression::from_id(compression.id()), Some(compression));
    }
}

#[test]
fn what_does_not_shrink_by_an_eighth_is_stored_raw() {
    let mut rng = Rng::new(1);
    let noise: Vec<u8> = (0..4096).map(|_| rng.next_u64() as u8).collect();
    for compression in ALL {
        let mut out = Vec::new();
        let became = Compressor::new(compression).append(&noise, &mut out);
        assert_eq!((became, &out), (Compression::None, &noise));
    }
}

#[test]
fn false_lengths_and_garbage_are_refused_without_allocating() {
    for id in [Compression::Lz4, Compression::Zstd] {
        assert!(decompress(id, &[0xff; 64]).is_err());
        assert!(decompress(id, &[1, 0]).is_err());
        let mut payload = (RAW_BYTES_MAX as u32).to_le_bytes().to_vec();
        payload.extend_from_slice(&[7; 9]);
        assert!(decompress(id, &payload).is_err());
    }
    assert_eq!(Compression::from_id(3), None);
}

#[test]
fn payloads_of_any_length_and_texture_round_trip() {
    let mut rng = Rng::new(7);
    for len in (0..70).chain([255, 256, 4_095, 4_096, 65_535, 65_536, 200_000]) {
        for letters in [1, 3, 256] {
            let raw: Vec<u8> = (0..len).map(|_| rng.below(letters) as u8).collect();
            for compression in ALL {
                let mut compressor = Compressor::new(compression);
                let mut out = b"before".to_vec();
                let became = compressor.append(&raw, &mut out);
                let payload = &out[6..];
                assert!(out.starts_with(b"before"), "appended");
                assert_eq!(&*decompress(became, payload).unwrap(), &raw[..]);
                // Z1: what was compressed pays, what does not is stored as it is.
                let most = raw.len() - raw.len() / 8;
                match became {
                    Compression::None => assert_eq!(payload, raw),
                    _ => assert!(payload.len() <= most, "{len}, {letters}"),
                }
            }
        }
    }
}

#[test]
fn a_payload_is_nothing_but_what_it_was_made_as() {
    let raw = b"velella ".repeat(100);
    for made in [Compression::Lz4, Compression::Zstd] {
        let mut payload = Vec::new();
        assert_eq!(Compressor::new(made).append(&raw, &mut payload), made);
        let raw_len = raw.len() as u32;
        for wrong in [0, 1, raw_len - 1, raw_len + 1, raw_len * 2] {
            payload[..4].copy_from_slice(&wrong.to_le_bytes());
            let found = decompress(made, &payload).unwrap_err();
            assert!(
                found.contains(made.name()) || found.contains("claims"),
                "{found}"
            );
        }
        payload[..4].copy_from_slice(&raw_len.to_le_bytes());
        for len in 0..payload.len() {
            assert!(
                decompress(made, &payload[..len]).is_err(),
                "{made:?} cut to {len}"
            );
        }
        let other = match made {
            Compression::Lz4 => Compression::Zstd,
            _ => Compression::Lz4,
        };
        let taken = decompress(other, &payload);
        assert!(taken.is_err() || *taken.unwrap() != raw[..]);
    }
}

#[test]
fn numbers_and_names_of_compressions_stand_in_files() {
    let known = ALL.map(|compression| (compression.id(), compression.name()));
    assert_eq!(known, [(0, "none"), (1, "lz4"), (2, "zstd")]);
    for id in 3..=u8::MAX {
        assert_eq!(Compression::from_id(id), None);
    }
}

/// A thread's own decompressor is given up before what its user keeps there, if it was used later.
#[test]
fn a_thread_that_ends_still_reads() {
    type Tell = std::sync::mpsc::Sender<Result<Arc<[u8]>, String>>;
    struct Reads(Vec<u8>, Tell);
    impl Drop for Reads {
        fn drop(&mut self) {
            let _ = self.1.send(decompress(Compression::Zstd, &self.0));
        }
    }
    thread_local! {
        static LAST: RefCell<Option<Reads>> = const { RefCell::new(None) };
    }
    let text = b"velella ".repeat(700);
    let mut payload = Vec::new();
    Compressor::new(Compression::Zstd).append(&text, &mut payload);
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        LAST.set(Some(Reads(payload.clone(), tell)));
        decompress(Compression::Zstd, &payload).is_ok()
    });
    assert!(thread.join().unwrap());
    assert_eq!(&*told.recv().unwrap().unwrap(), &text[..]);
}
