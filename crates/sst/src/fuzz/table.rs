//! A whole table file: any bytes, and damaged tables whose checksums are right again.
//!
//! T1. Opening, reading and verifying end with an error that names file and offset, or well.
//! T2. In a table that verifies, both directions and every lookup agree, and the order holds.
//!
//! Threads: any. Tests: see `fuzz`.

use super::parts::seal_footer;
use crate::format::{FOOTER_BYTES, Footer, Handle};
use crate::index::Index;
use crate::{BlockCache, Counters, Detail, Table, inspect, key_hash};
use std::path::Path;
use std::sync::Arc;
use velella_base::checksum::{self, Context};
use velella_base::codec::Reader;
use velella_base::{Cursor, Error, ErrorKind, Order, Result, Stamp, ValueKind};
use velella_vfs::{MemFs, Vfs};

/// Damaged keys can grow by sharing: no more than so many bytes are looked at.
const WALK_BYTES_MAX: usize = 4 << 20;
const PATH: &str = "/000042.sst";

/// An entry with its bytes: key, stamp, kind, value.
type Owned = (Vec<u8>, Stamp, ValueKind, Vec<u8>);

/// A table file behind a byte that says whether its checksums are put right first (even: yes).
pub fn table(bytes: &[u8]) {
    let Some((&mode, file)) = bytes.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    if mode & 1 == 0 {
        reseal(&mut file);
    }
    let fs = MemFs::new();
    if let Err(error) = fs.write_file(Path::new(PATH), &file) {
        panic!("memory refuses a file: {error}");
    }
    let Some(context) = context(&file) else {
        let opened = open(
            &fs,
            Context {
                database: 0,
                file: 0,
            },
        );
        named(&opened.map(drop).expect_err("a table without a footer"));
        return;
    };
    let mut described = Vec::new();
    let described = match fs.open_read(Path::new(PATH)) {
        Ok(file) => inspect(file, Detail::Entries, &mut described),
        Err(error) => Err(error),
    };
    described.map_err(|error| named(&error)).ok();
    let table = match open(&fs, context) {
        Ok(table) => table,
        Err(error) => return named(&error),
    };
    let forward = walk(&table, Cursor::seek_first, Cursor::next);
    let backward = walk(&table, Cursor::seek_last, Cursor::prev);
    let verified = table.verify();
    if let Err(error) = &verified {
        named(error);
    }
    let (Ok(forward), Ok(backward)) = (forward, backward) else {
        assert!(verified.is_err(), "it verifies and cannot be read");
        return;
    };
    let (Some(forward), Some(mut backward)) = (forward, backward) else {
        return;
    };
    lookups(&table, &forward, verified.is_ok());
    if verified.is_ok() {
        backward.reverse();
        assert_eq!(forward, backward, "T2");
        assert_eq!(forward.len() as u64, table.meta().entries(), "T2");
        let sorted = |two: &[Owned]| {
            two[0]
                .0
                .cmp(&two[1].0)
                .then(two[1].1.cmp(&two[0].1))
                .is_le()
        };
        assert!(forward.windows(2).all(sorted), "T2: out of order");
    }
}

fn open(fs: &MemFs, context: Context) -> Result<Arc<Table>> {
    Table::open(
        fs.open_read(Path::new(PATH))?,
        context,
        Order::Bytewise,
        BlockCache::new(1 << 20),
        Arc::new(Counters::default()),
    )
}

/// T1.
fn named(error: &Error) {
    assert!(error.file().is_some(), "an error without its file: {error}");
    let placed = error.kind() != ErrorKind::Corruption || error.offset().is_some();
    assert!(placed, "corruption without its place: {error}");
    let known = [
        ErrorKind::Corruption,
        ErrorKind::Unsupported,
        ErrorKind::InvalidInput,
    ];
    assert!(known.contains(&error.kind()), "{error:?}");
}

/// All entries; `None`: more than one cares to look at.
fn walk(
    table: &Arc<Table>,
    begin: impl Fn(&mut crate::TableCursor) -> Result<()>,
    go_on: impl Fn(&mut crate::TableCursor) -> Result<()>,
) -> Result<Option<Vec<Owned>>> {
    let mut cursor = table.cursor(true);
    let (mut entries, mut bytes) = (Vec::new(), 0);
    begin(&mut cursor).inspect_err(named)?;
    while let Some(entry) = cursor.entry() {
        bytes += entry.key.len() + entry.value.len() + 16;
        if bytes > WALK_BYTES_MAX {
            return Ok(None);
        }
        entries.push((
            entry.key.to_vec(),
            entry.stamp,
            entry.kind,
            entry.value.to_vec(),
        ));
        go_on(&mut cursor).inspect_err(named)?;
    }
    Ok(Some(entries))
}

fn lookups(table: &Table, entries: &[Owned], verified: bool) {
    for (at, (key, stamp, kind, value)) in entries.iter().enumerate().take(256) {
        let first = at == 0 || (&entries[at - 1].0, entries[at - 1].1) != (key, *stamp);
        match table.get(key, key_hash(key), *stamp) {
            Err(error) => named(&error),
            Ok(found) if verified && first => {
                let found = found.expect("T2: an entry is not found");
                assert_eq!((found.stamp, found.kind), (*stamp, *kind), "T2");
                assert_eq!(&found.value[..], &value[..], "T2");
            }
            Ok(_) => {}
        }
        assert!(table.offset_of(key) <= table.meta().bytes || !verified);
    }
}

/// Whose table the bytes say they are.
fn context(file: &[u8]) -> Option<Context> {
    let footer = file.len().checked_sub(FOOTER_BYTES)?;
    let mut reader = Reader::new(&file[footer..]);
    Some(Context {
        database: reader.u128()?,
        file: reader.u64()?,
    })
}

/// Puts right the checksums of whatever still looks like a table: so damage reaches what lies
/// behind them. The length in the footer becomes the file's.
pub fn reseal(file: &mut [u8]) {
    let file_bytes = file.len() as u64;
    let Some(start) = file.len().checked_sub(FOOTER_BYTES) else {
        return;
    };
    file[start + 24..start + 32].copy_from_slice(&file_bytes.to_le_bytes());
    seal_footer(&mut file[start..], file_bytes);
    let path = Path::new(PATH);
    let Ok(footer) = Footer::decode(&file[start..], file_bytes, path, None) else {
        return;
    };
    let seed = footer.context.seed();
    for handle in [footer.filter, footer.index, footer.properties] {
        seal_block(file, seed, handle);
    }
    let payload = |handle: Handle| -> Option<&[u8]> {
        let at = usize::try_from(handle.offset).ok()?;
        let len = usize::try_from(handle.len).ok()?.checked_sub(6)?;
        file.get(at..at.checked_add(len)?)
    };
    let index = payload(footer.index).and_then(|bytes| Index::decode(bytes, Order::Bytewise));
    let Some(index) = index else {
        return;
    };
    for block in 0..index.len() {
        seal_block(file, seed, index.handle(block));
    }
}

fn seal_block(file: &mut [u8], seed: u32, handle: Handle) {
    let (Ok(start), Ok(end)) = (
        usize::try_from(handle.offset),
        usize::try_from(handle.end()),
    ) else {
        return;
    };
    let Some(block) = file.get_mut(start..end).filter(|block| block.len() > 6) else {
        return;
    };
    let (sealed, crc) = block.split_at_mut(end - start - 4);
    crc.copy_from_slice(&checksum::at(seed, handle.offset, sealed).to_le_bytes());
}
