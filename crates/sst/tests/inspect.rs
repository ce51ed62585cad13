//! The description of a table for people.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod common;

use common::*;
use std::path::Path;
use velella_base::{Order, Result};
use velella_sst::{Detail, inspect};
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
