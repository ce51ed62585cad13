//! The description of a table for people.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use crate::common::*;
use std::path::Path;
use velella_base::external::ExternalRef;
use velella_base::{ErrorKind, Order, Result, ValueKind};
use velella_sst::{Detail, inspect};
use velella_sync::rng::Rng;
use velella_vfs::{MemFs, Vfs};

fn described(fs: &MemFs, detail: Detail) -> (String, Result<()>) {
    let mut out = Vec::new();
    let outcome = inspect(fs.open_read(Path::new(PATH)).unwrap(), detail, &mut out);
    (String::from_utf8(out).unwrap(), outcome)
}

#[test]
fn footer_properties_blocks_and_entries_are_described() {
    let fs = MemFs::new();
    let entries = [put(b"a\0", 3, b"one"), put(b"b", 2, &[b'x'; 500])];
    build(&fs, &entries, &options(1));
    let (text, outcome) = described(&fs, Detail::Entries);
    outcome.unwrap();
    for line in [
        "table /db/000042.sst",
        "file number 42",
        "order velella.bytewise",
        "2 entries",
        "keys \"a\\x00\" to \"b\"",
        "stamps 2 to 3",
        "block 1 at offset",
        "    \"a\\x00\" at 3: put, 3 bytes \"one\"",
        "500 bytes \"xxx",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let (blocks, _) = described(&fs, Detail::Blocks);
    let (summary, _) = described(&fs, Detail::Summary);
    assert!(blocks.starts_with(&summary) && text.starts_with(&summary));
    assert!(blocks.contains("block 1") && !blocks.contains(": put"));
    assert!(!summary.contains("block 1"));
}

#[test]
fn a_damaged_block_is_named_and_stepped_over() {
    let fs = MemFs::new();
    let order = Order::custom("mine", |a, b| b.cmp(a));
    let entries = [put(b"b", 3, b"one"), put(b"a", 2, b"two")];
    build(
        &fs,
        &entries,
        &velella_sst::TableOptions {
            order,
            ..options(1)
        },
    );
    fs.flip_byte(Path::new(PATH), 12, 1).unwrap();
    let (text, outcome) = described(&fs, Detail::Entries);
    assert_eq!(outcome.unwrap_err().offset(), Some(8));
    assert!(text.contains("block 0 is damaged"), "{text}");
    assert!(text.contains("\"a\" at 2: put, 3 bytes \"two\""), "{text}");
}

/// Takes so many bytes, then no more.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_is_full_is_said_wherever_it_ends() {
    let fs = MemFs::new();
    let entries: Vec<_> = (0..4u8).map(|n| put(&[n], 3, b"value")).collect();
    build(&fs, &entries, &options(1));
    let (whole, _) = described(&fs, Detail::Entries);
    for room in 0..=whole.len() {
        let file = fs.open_read(Path::new(PATH)).unwrap();
        let outcome = inspect(file, Detail::Entries, &mut Full(room));
        let Err(error) = outcome else {
            assert_eq!(room, whole.len());
            continue;
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{room}: {error}");
        assert_eq!(error.file(), Some(Path::new(PATH)), "{room}: {error}");
    }
}

#[test]
fn expiries_references_and_every_kind_are_described() {
    let fs = MemFs::new();
    let mut rng = Rng::new(3);
    let of = |(n, kind): (u8, ValueKind)| Owned {
        kind,
        value: payload(&mut rng, kind, 5),
        ..put(&[b'a' + n], 9, b"")
    };
    let mut entries: Vec<_> = (0..).zip(ValueKind::ALL).map(of).collect();
    entries[2].value = 5_000u64.to_le_bytes().to_vec();
    entries[5].value = ExternalRef {
        file: 77,
        length: 1,
        crc: 2,
        expires_at_ms: 9_000,
    }
    .encode()
    .to_vec();
    build(&fs, &entries, &options(4096));
    let (text, outcome) = described(&fs, Detail::Entries);
    outcome.unwrap();
    for kind in ValueKind::ALL {
        assert!(text.contains(&format!("    {} 1\n", kind.name())), "{text}");
        assert!(
            text.contains(&format!(" at 9: {}, ", kind.name())),
            "{text}"
        );
    }
    assert!(
        text.contains("expiries 5000 ms to 9000 ms since 1970"),
        "{text}"
    );
    assert!(text.contains("external values [77]"), "{text}");
}
