//! Footer, index, filter, properties, compressed payloads.
//!
//! P1. What decodes, encodes and decodes again is what it was.
//! P2. What a decoder keeps is bounded by a small multiple of what it read.
//!
//! Threads: any. Tests: see `fuzz`.

use crate::compression::{Compression, Compressor, RAW_BYTES_MAX, decompress};
use crate::filter::{Filter, key_hash};
use crate::format::{FOOTER_BYTES, Footer};
use crate::index::{Index, IndexBuilder};
use crate::properties::Properties;
use std::path::Path;
use velella_base::codec::Reader;
use velella_base::{Order, Stamp, checksum};

/// Bytes of a footer under its checksum.
const BODY_BYTES: usize = 84;

/// A footer, with its checksums put right unless the first byte is odd.
pub fn footer(bytes: &[u8]) {
    let Some((&mode, body)) = bytes.split_first() else {
        return;
    };
    let mut end = vec![0; FOOTER_BYTES];
    let taken = body.len().min(FOOTER_BYTES);
    end[..taken].copy_from_slice(&body[..taken]);
    // The length it declares, so that the checks behind that one are reached.
    let file_bytes = Reader::new(&end[24..])
        .u64()
        .filter(|len| mode & 2 == 0 && *len >= FOOTER_BYTES as u64)
        .unwrap_or(FOOTER_BYTES as u64);
    if mode & 1 == 0 {
        seal_footer(&mut end, file_bytes);
    }
    let path = Path::new("000001.sst");
    match Footer::decode(&end, file_bytes, path, None) {
        Ok(footer) => {
            assert!(footer.filter.end() == footer.index.offset);
            assert!(footer.index.end() == footer.properties.offset);
            assert!(footer.properties.end() == file_bytes - FOOTER_BYTES as u64);
            let again = Footer::decode(&footer.encode(), file_bytes, path, None);
            assert_eq!(again.ok().as_ref(), Some(&footer), "encoded, it is another");
        }
        Err(error) => assert_eq!(error.file(), Some(path), "{error}"),
    }
}

/// Puts the checksums of the footer `end`, of a file of `file_bytes` bytes, right.
pub(super) fn seal_footer(end: &mut [u8], file_bytes: u64) {
    let Some(tail_at) = end.len().checked_sub(FOOTER_BYTES - BODY_BYTES - 4) else {
        return;
    };
    if end.len() < FOOTER_BYTES {
        return;
    }
    let start = end.len() - FOOTER_BYTES;
    let tail = &mut end[tail_at..];
    tail[16..].copy_from_slice(&crate::format::MAGIC);
    let crc = checksum::crc32c(&tail[..8]);
    tail[8..12].copy_from_slice(&crc.to_le_bytes());
    tail[12..16].fill(0);
    let body = &end[start..start + BODY_BYTES];
    let mut reader = Reader::new(body);
    let (Some(database), Some(file)) = (reader.u128(), reader.u64()) else {
        return;
    };
    let seed = checksum::Context { database, file }.seed();
    let crc = checksum::at(seed, file_bytes - FOOTER_BYTES as u64, body);
    end[start + BODY_BYTES..start + BODY_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
}

/// An index, and the searches in it.
pub fn index(bytes: &[u8]) {
    for order in [Order::Bytewise, Order::custom("other", |a, b| a.cmp(b))] {
        let Some(index) = Index::decode(bytes, order.clone()) else {
            continue;
        };
        assert!(index.len() * 3 <= bytes.len());
        assert!(index.bytes() <= 16 * bytes.len() as u64 + 1024, "P2");
        let separators: Vec<_> = (0..index.len())
            .map(|block| index.separator(block))
            .collect();
        let mut at = crate::format::HEADER_BYTES;
        let mut builder = IndexBuilder::default();
        for (block, (separator, stamp)) in separators.iter().enumerate() {
            let handle = index.handle(block);
            assert_eq!(handle.offset, at, "X2");
            at = handle.end();
            builder.add(separator, *stamp, handle.len);
        }
        assert_eq!(at, index.data_end());
        let ascend = separators
            .windows(2)
            .all(|two| two[0].0 < two[1].0 || (two[0].0 == two[1].0 && two[0].1 > two[1].1));
        for (block, (separator, stamp)) in separators.iter().enumerate().take(64) {
            let found = index.find(separator, *stamp, &mut 0);
            assert!(found <= index.len());
            if ascend {
                assert_eq!(found, block, "a separator leads to its block");
                let mut behind = separator.clone();
                behind.push(0);
                let next = separators.partition_point(|(key, _)| key <= separator);
                assert_eq!(index.find(&behind, Stamp::MAX, &mut 0), next);
            }
        }
        if !ascend {
            continue;
        }
        let mut encoded = Vec::new();
        builder.encode(&order, &mut encoded);
        let again = Index::decode(&encoded, order);
        let again = again.expect("an index that was read can be written and read");
        assert_eq!(again.len(), index.len());
        for (block, separator) in separators.iter().enumerate() {
            assert_eq!(&again.separator(block), separator, "P1");
            assert_eq!(again.handle(block), index.handle(block), "P1");
        }
    }
}

/// A filter as it stands in a file; and one over the keys that the bytes are cut into.
pub fn filter(bytes: &[u8]) {
    let hashes: Vec<u64> = bytes.chunks(5).take(512).map(key_hash).collect();
    if let Some(filter) = Filter::decode(bytes) {
        let mut out = Vec::new();
        filter.encode(&mut out);
        assert_eq!(out, bytes, "P1");
        assert!(filter.bytes() <= bytes.len() as u64, "P2");
        let _ = hashes
            .iter()
            .filter(|hash| filter.may_contain(**hash))
            .count();
    }
    let bits = u32::from(bytes.first().copied().unwrap_or(10) % 33);
    let filter = Filter::build(&hashes.iter().copied().collect(), bits);
    let mut out = Vec::new();
    filter.encode(&mut out);
    let again = Filter::decode(&out).expect("a filter that was written can be read");
    for hash in hashes {
        assert!(filter.may_contain(hash) && again.may_contain(hash), "B1");
    }
}

/// A block of properties, and the table metadata in it.
pub fn properties(bytes: &[u8]) {
    let Some(properties) = Properties::decode(bytes) else {
        return;
    };
    let kept = properties.meta.externals.len() * 8
        + properties.meta.smallest.len()
        + properties.meta.largest.len()
        + properties.order.len();
    assert!(kept <= 8 * bytes.len(), "P2");
    let encoded = properties.encode();
    assert_eq!(Properties::decode(&encoded), Some(properties), "P1");
}

/// A payload of each compression (the first byte chooses), and the way back and forth.
pub fn compression(bytes: &[u8]) {
    let Some((&first, payload)) = bytes.split_first() else {
        return;
    };
    let Some(compression) = Compression::from_id(first % 3) else {
        return;
    };
    match decompress(compression, payload) {
        Ok(raw) => {
            assert!(raw.len() <= RAW_BYTES_MAX, "Z2");
            if compression != Compression::None {
                let said = Reader::new(payload).u32().map(|len| len as usize);
                assert_eq!(said, Some(raw.len()), "the payload has what it promised");
            }
        }
        Err(found) => assert!(!found.is_empty()),
    }
    let mut out = Vec::new();
    let stored = Compressor::new(compression).append(payload, &mut out);
    let raw = decompress(stored, &out).expect("what was compressed can be decompressed");
    assert_eq!(&raw[..], payload, "P1");
    assert!(out.len() <= payload.len(), "Z1");
}
