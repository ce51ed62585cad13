//! Settings of a database, drawn from bytes: everything that must not change an answer.
//!
//! Threads: none.

use crate::draws::Draws;
use std::time::Duration;
use velella::simulation::Sizes;
use velella::{Builder, Compression, Db, Durability, JournalMode, MemtableKind, Order};

/// Sizes of a database without threads.
const TINY: Sizes = Sizes {
    lanes: 3,
    segment_bytes: 4 * (8 << 10),
    extent_bytes: 8 << 10,
    inline_value_bytes: 3_000,
    manifest_bytes: Some(2_000),
};

/// Everything that must not change an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Compression of tables.
    pub compression: Compression,
    /// Of the default keyspace, and of the second.
    pub memtables: [MemtableKind; 2],
    /// How records reach the journal.
    pub journal: JournalMode,
    /// Whether the file system maps well, which decides what `Auto` is.
    pub maps_well: bool,
    /// Bytes of all memory.
    pub memory: u64,
    /// Bytes of a memtable.
    pub write_buffer: u64,
    /// Background threads. 0: none, and sizes so tiny that everything happens soon; what threads
    /// would do is done in turn between operations.
    pub threads: usize,
    /// Bits per key of the filters.
    pub bloom_bits: u32,
    /// Whether scans fill the cache.
    pub fill_cache: bool,
    /// Durability of writes.
    pub durability: Durability,
    /// Whether a writer that syncs several files starts threads for them, as it does where that
    /// takes long.
    pub helpers: bool,
    /// The order of the second keyspace.
    pub order: KeyOrder,
    /// Flush after so many operations; 0: never unasked.
    pub flush_every: u32,
    /// Compact after so many operations; 0: never unasked.
    pub compact_every: u32,
    /// Gather what is scattered after so many operations; 0: never unasked.
    pub gather_every: u32,
    /// Tables open at once.
    pub open_files: usize,
    /// Close and open after so many operations; 0: never unasked. What is held is let go of only
    /// where the operations say so, so this is done where nothing is held.
    pub reopen_every: u32,
}

/// Orders in which the same answers can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrder {
    /// The built-in one.
    Bytewise,
    /// The same as a user's, so without filters, tags and prefixes.
    Named,
    /// The reverse: what is asked is turned around, too.
    Reversed,
}

impl KeyOrder {
    /// The order as the engine takes it.
    #[must_use]
    pub fn order(self) -> Order {
        match self {
            KeyOrder::Bytewise => Order::Bytewise,
            KeyOrder::Named => Order::custom("test.bytes", |a, b| a.cmp(b)),
            KeyOrder::Reversed => Order::custom("test.reversed", |a, b| b.cmp(a)),
        }
    }
}

impl Settings {
    /// The settings that `draws` decides on.
    pub fn draw(draws: &mut Draws<'_>) -> Settings {
        let kinds = MemtableKind::ALL;
        let every = |byte: u8, few: u32| match byte % 4 {
            0 => few,
            1 => few * 4,
            _ => 0,
        };
        let (group, sync) = (Durability::Group(Duration::ZERO), Durability::Sync);
        let durability = [Durability::Buffered, sync, group][draws.below(3)];
        let (helpers, threads) = ([true, false, false, false], [0, 0, 0, 1, 2, 4]);
        let upkeep = draws.u8();
        Settings {
            block_bytes: [256, 300, 512, 1024, 4096, 65_536, 1 << 20][draws.below(7)],
            compression: [Compression::None, Compression::Lz4, Compression::Zstd][draws.below(3)],
            memtables: [kinds[draws.below(3)], kinds[draws.below(3)]],
            journal: [
                JournalMode::Auto,
                JournalMode::Mapped,
                JournalMode::Write,
                JournalMode::Off,
            ][draws.below(4)],
            maps_well: draws.flag(),
            memory: [16 << 20, 24 << 20, 64 << 20][draws.below(3)],
            write_buffer: [64 << 10, 96 << 10, 320 << 10, 1 << 20][draws.below(4)],
            threads: threads[draws.below(6)],
            bloom_bits: [0, 1, 10, 32][draws.below(4)],
            fill_cache: draws.flag(),
            durability,
            helpers: helpers[draws.below(4)],
            order: [KeyOrder::Bytewise, KeyOrder::Named, KeyOrder::Reversed][draws.below(3)],
            flush_every: every(draws.u8(), 7),
            compact_every: every(upkeep, 23),
            gather_every: every(upkeep >> 4, 17),
            open_files: if upkeep & 0x80 == 0 { 2 } else { 512 },
            reopen_every: every(draws.u8(), 41),
        }
    }

    /// A builder with these settings.
    pub fn builder(&self) -> Builder {
        let builder = Db::builder()
            .block_bytes(self.block_bytes)
            .compression(self.compression)
            .memtable(self.memtables[0])
            .journal(self.journal)
            .memory(self.memory)
            .write_buffer(self.write_buffer)
            .background_threads(self.threads.max(1))
            .bloom_bits(self.bloom_bits)
            .durability(self.durability)
            .open_files(self.open_files)
            .order(self.order.order());
        match self.threads {
            0 => builder.simulated(TINY),
            _ => builder,
        }
    }
}
