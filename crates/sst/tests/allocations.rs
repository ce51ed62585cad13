//! What compressing and keeping a block takes from the allocator: nothing, and one allocation.
//!
//! Claims: `compression.rs` Z3, `kept.rs` N4. A binary of its own: it counts through the global
//! allocator.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(clippy::cast_possible_truncation, reason = "bytes of a test")]

mod common;

use common::*;
use std::sync::Arc;
use velella_sst::{BlockCache, Compression, TableOptions};
use velella_sync::allocations::{Counting, allocations};
use velella_sync::rng::Rng;
use velella_vfs::MemFs;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Blocks of one entry each.
const BLOCKS: u64 = 400;
const BLOCK_BYTES: usize = 4096;
/// Buffers that are taken once, or grow by doubling.
const BUFFERS: u64 = 30;

/// Allocations of a table of so many blocks.
fn counted(compression: Compression, keep: bool) -> u64 {
    let (fs, cache) = (MemFs::new(), BlockCache::new(64 << 20));
    let mut rng = Rng::new(1);
    // What does not shrink makes the same file, compressed or not.
    let mut value = || {
        (0..BLOCK_BYTES)
            .map(|_| rng.below(256) as u8)
            .collect::<Vec<_>>()
    };
    let entries: Vec<Owned> = (0..BLOCKS)
        .map(|number| put(&number.to_be_bytes(), 1, &value()))
        .collect();
    let options = TableOptions {
        compression,
        ..options(BLOCK_BYTES)
    };
    allocations(|| {
        let mut builder = builder(&fs, &options);
        if keep {
            builder = builder.keep_blocks(Arc::clone(&cache));
        }
        for entry in &entries {
            builder.add(entry.entry()).unwrap();
        }
        builder.finish_keeping().unwrap();
    })
}

#[test]
fn compressing_a_block_allocates_nothing() {
    let raw = counted(Compression::None, false);
    let compressed = counted(Compression::Lz4, false);
    assert!(compressed <= raw + BUFFERS, "{compressed}, raw {raw}");
}

#[test]
fn a_kept_block_is_an_allocation_and_thirty_are_foreseen_by_one() {
    let dropped = counted(Compression::None, false);
    let kept = counted(Compression::None, true);
    // The list of blocks grows eight times.
    let foreseen = (kept - dropped).saturating_sub(BLOCKS + 8);
    let expected = BLOCKS / 40..=BLOCKS / 20;
    assert!(expected.contains(&foreseen), "{kept}, not kept {dropped}");
}
