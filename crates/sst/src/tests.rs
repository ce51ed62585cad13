//! Tables whose bytes are wrong under checksums that are right: what a bug or an enemy could write.
//! Nothing panics, hangs, or allocates beyond its bounds; answers may be wrong.

#![allow(clippy::cast_possible_truncation, reason = "sizes in tests are small")]

use crate::format::{FOOTER_BYTES, Footer, Handle, TRAILER_BYTES};
use crate::inspect::{Detail, inspect};
use crate::parts::Parts;
use crate::{BlockCache, Counters, Table, TableBuilder, TableCursor, TableOptions, key_hash};
use std::path::Path;
use std::sync::Arc;
use velella_base::checksum::{self, Context};
use velella_base::{Cursor, Entry, Order, Stamp, ValueKind};
use velella_sync::rng::Rng;
use velella_vfs::{MemFs, Vfs};

const PATH: &str = "/000007.sst";
const CONTEXT: Context = Context {
    database: 5,
    file: 7,
};

fn build(fs: &MemFs, order: &Order, block_bytes: usize) -> Vec<u8> {
    let path = Path::new(PATH);
    let options = TableOptions {
        block_bytes,
        order: order.clone(),
        ..TableOptions::default()
    };
    let mut builder = TableBuilder::new(fs.create(path).unwrap(), CONTEXT, options);
    for n in 0..60u64 {
        let key = format!("key{:03}", n / 3);
        let entry = Entry {
            key: key.as_bytes(),
            stamp: Stamp(3 - n % 3),
            kind: ValueKind::Put,
            value: b"velella velella velella",
        };
        builder.add(entry).unwrap();
    }
    builder.finish().unwrap();
    fs.read_file(path).unwrap()
}

/// Every block of the table, and the footer.
fn parts_of(fs: &MemFs) -> (Vec<Handle>, Footer) {
    let file = fs.open_read(Path::new(PATH)).unwrap();
    let (_, parts) = Parts::load(file, None, None, Arc::default()).unwrap();
    let footer = parts.footer;
    let mut handles: Vec<_> = (0..parts.index.len())
        .map(|n| parts.index.handle(n))
        .collect();
    handles.extend([footer.filter, footer.index, footer.properties]);
    handles.retain(|handle| handle.len > 0);
    (handles, footer)
}

/// Uses the table in every way.
fn exercise(fs: &MemFs, bytes: &[u8], order: &Order) {
    let path = Path::new(PATH);
    fs.write_file(path, bytes).unwrap();
    let _ = inspect(
        fs.open_read(path).unwrap(),
        Detail::Entries,
        &mut std::io::sink(),
    );
    let table = Table::open(
        fs.open_read(path).unwrap(),
        CONTEXT,
        order.clone(),
        BlockCache::new(1 << 20),
        Arc::new(Counters::default()),
    );
    let Ok(table) = table else { return };
    let _ = table.verify();
    for fill_cache in [true, false] {
        for forward in [true, false] {
            let mut cursor = table.cursor(fill_cache);
            let mut moved = match forward {
                true => cursor.seek_first(),
                false => cursor.seek_last(),
            };
            while moved.is_ok() && cursor.entry().is_some() {
                moved = match forward {
                    true => cursor.next(),
                    false => cursor.prev(),
                };
            }
            let _ = cursor.seek(b"key007", Stamp(2));
            let _ = cursor.seek_before(b"key012");
        }
    }
    for key in [&b"key000"[..], b"key010", b"key019", b"", b"z"] {
        let _ = table.get(key, key_hash(key), Stamp(2));
        let _ = table.offset_of(key);
    }
}

#[test]
fn wrong_bytes_under_right_checksums_do_no_harm() {
    for order in [Order::Bytewise, Order::custom("mine", |a, b| a.cmp(b))] {
        let fs = MemFs::new();
        let sound = build(&fs, &order, 200);
        let (handles, footer) = parts_of(&fs);
        let seed = footer.context.seed();
        let mut rng = Rng::new(1);
        for handle in handles {
            let (start, end) = (handle.offset as usize, handle.end() as usize);
            let crc_at = end - 4;
            for at in start..crc_at {
                for byte in [
                    0,
                    0x7f,
                    0xff,
                    sound[at] ^ 1,
                    sound[at] ^ 0x80,
                    rng.next_u64() as u8,
                ] {
                    let mut bytes = sound.clone();
                    bytes[at] = byte;
                    let crc = checksum::at(seed, handle.offset, &bytes[start..crc_at]);
                    bytes[crc_at..end].copy_from_slice(&crc.to_le_bytes());
                    exercise(&fs, &bytes, &order);
                }
            }
            assert!(end - start > TRAILER_BYTES);
        }
    }
}

#[test]
fn a_footer_that_lies_about_the_parts_does_no_harm() {
    let fs = MemFs::new();
    let sound = build(&fs, &Order::Bytewise, 200);
    let (_, footer) = parts_of(&fs);
    let body = sound.len() - FOOTER_BYTES;
    for part in 0..3 {
        for offset in [
            0,
            1,
            8,
            100,
            body as u64,
            body as u64 + 1,
            sound.len() as u64,
            u64::MAX,
        ] {
            let mut lying = footer.clone();
            let handle = [&mut lying.filter, &mut lying.index, &mut lying.properties];
            handle.into_iter().nth(part).unwrap().offset = offset;
            let mut bytes = sound[..body].to_vec();
            bytes.extend(lying.encode());
            exercise(&fs, &bytes, &Order::Bytewise);
        }
    }
}

/// Everything a whole table says: its walk, if the walk back, gets and seeks agree with it.
fn consistent(table: &Arc<Table>) -> Result<usize, String> {
    let order = &table.order;
    let failed = |error: velella_base::Error| format!("verified, but: {error}");
    let mut cursor = table.cursor(false);
    let mut walk = Vec::new();
    cursor.seek_first().map_err(failed)?;
    while let Some(Entry {
        key,
        stamp,
        kind,
        value,
    }) = cursor.entry()
    {
        walk.push((key.to_vec(), stamp, kind, value.to_vec()));
        cursor.next().map_err(failed)?;
    }
    let row = |cursor: &TableCursor| {
        let entry = cursor.entry()?;
        let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
        Some((key, entry.stamp, entry.kind, value))
    };
    cursor.seek_last().map_err(failed)?;
    for expected in walk.iter().rev() {
        if row(&cursor).as_ref() != Some(expected) {
            return Err(format!("back it is not {expected:?}"));
        }
        cursor.prev().map_err(failed)?;
    }
    for (place, (key, stamp, kind, value)) in walk.iter().enumerate() {
        let found = table.get(key, key_hash(key), *stamp).map_err(failed)?;
        let found = found.map(|found| (found.stamp, found.kind, found.value.to_vec()));
        if found.as_ref() != Some(&(*stamp, *kind, value.clone())) {
            return Err(format!("a get of {key:?} at {stamp} finds {found:?}"));
        }
        cursor.seek(key, *stamp).map_err(failed)?;
        if row(&cursor).as_ref() != walk.get(place) {
            return Err(format!("a seek of {key:?} at {stamp} misses it"));
        }
        cursor.seek_before(key).map_err(failed)?;
        let before = walk[..place]
            .iter()
            .rfind(|(k, ..)| order.compare(k, key).is_lt());
        if row(&cursor).as_ref() != before {
            return Err(format!("what stands before {key:?} is not found"));
        }
    }
    Ok(walk.len())
}

#[test]
fn what_verifies_under_right_checksums_agrees_with_itself() {
    let (mut verified, mut refused) = (0, 0);
    // Many blocks of one interval, and one of several.
    for (order, block_bytes) in [
        (Order::Bytewise, 200),
        (Order::Bytewise, 4096),
        (Order::custom("mine", |a, b| a.cmp(b)), 4096),
    ] {
        let fs = MemFs::new();
        let sound = build(&fs, &order, block_bytes);
        let (handles, footer) = parts_of(&fs);
        let mut rng = Rng::new(2);
        for handle in handles {
            let (start, crc_at) = (handle.offset as usize, handle.end() as usize - 4);
            for at in start..crc_at {
                for byte in [
                    sound[at] ^ 1,
                    sound[at].wrapping_add(16),
                    rng.next_u64() as u8,
                ] {
                    let mut bytes = sound.clone();
                    bytes[at] = byte;
                    let crc =
                        checksum::at(footer.context.seed(), handle.offset, &bytes[start..crc_at]);
                    bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
                    fs.write_file(Path::new(PATH), &bytes).unwrap();
                    let file = fs.open_read(Path::new(PATH)).unwrap();
                    let cache = BlockCache::new(0);
                    let table = Table::open(file, CONTEXT, order.clone(), cache, Arc::default());
                    let sound = table.and_then(|table| table.verify().map(|()| table));
                    match sound {
                        Ok(table) => {
                            let agrees = consistent(&table);
                            assert!(agrees.is_ok(), "byte {at} as {byte}: {agrees:?}");
                            verified += 1;
                        }
                        Err(error) => {
                            assert_eq!(error.file(), Some(Path::new(PATH)), "{error}");
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    // Values carry nothing that could contradict them; nearly all else does.
    assert!(
        verified > 100 && refused > verified,
        "{verified} of {}",
        verified + refused
    );
}
