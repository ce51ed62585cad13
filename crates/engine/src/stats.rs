//! What a database reports about itself: counters, sizes, and why writers waited.
//!
//! Counters repeat exactly for the same work, where times do not; so they are part of the product.
//!
//! Tests: `tests/stats.rs`.

use serde::Serialize;
use std::collections::BTreeMap;

/// Counters, sizes and causes: what [`Db::stats`](crate::Db::stats) reports. `docs/stats.md` in the
/// repository has every figure, each counter by name.
///
/// Counters, stalls and histograms start at 0 with each opening; what recovery did is in
/// [`Db::recovery`](crate::Db::recovery). Nothing is stopped for it: each figure is true of some
/// moment while they are gathered, so they need not fit together to the unit. The command line's
/// `stats --json` and the server's `KV.STATS` print the same; `INFO` of the server has a part.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// Per keyspace.
    pub keyspaces: Vec<KeyspaceStats>,
    /// Bytes by owner.
    pub memory: MemoryStats,
    /// The journal.
    pub journal: JournalStats,
    /// The block cache.
    pub cache: CacheStats,
    /// Why writers waited, every cause listed.
    pub stalls: Vec<Stall>,
    /// Why the database takes no more writes, if it is read-only: a failure of the device, most
    /// often. Reads go on; it is to be opened again.
    pub read_only: Option<String>,
    /// What flushes and compactions wait for, if they do: space on the disk, or descriptors.
    pub shortage: Option<String>,
    /// Everything that is counted since the opening, by name: `writes`, `reads`, `flushes`,
    /// `compaction_bytes_written` and so on.
    pub counters: BTreeMap<String, u64>,
    /// Times of background work: `flush`, `compaction`, `sync round`, `memtable switch`.
    pub histograms: Vec<Histogram>,
    /// Live snapshots, those of iterators among them, and other registered readers.
    pub snapshots: u64,
    /// The newest stamp given out.
    pub last_stamp: u64,
    /// The watermark of durability, as [`Db::durable`](crate::Db::durable).
    pub durable_stamp: u64,
    /// Bytes of values that have files of their own.
    pub external_bytes: u64,
    /// Milliseconds since opening.
    pub uptime_ms: u64,
}

/// One keyspace's sizes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// The structure of its memtables.
    pub memtable: &'static str,
    /// Compression of its tables.
    pub compression: &'static str,
    /// Bits per key of its filters.
    pub bloom_bits: u32,
    /// Bytes of all its memtables.
    pub memtable_bytes: u64,
    /// Memtables waiting to be flushed.
    pub immutable_memtables: u64,
    /// Its levels, the newest first.
    pub levels: Vec<LevelStats>,
}

/// One level's sizes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LevelStats {
    /// Which.
    pub level: u32,
    /// Tables in it.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries.
    pub entries: u64,
}

/// Bytes of memory by owner.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MemoryStats {
    /// The budget for all of it.
    pub budget: u64,
    /// Memtables.
    pub memtables: u64,
    /// What freed memtables left to the next ones.
    pub spare: u64,
    /// Decoded blocks.
    pub block_cache: u64,
    /// Filters and indexes of open tables, and blocks that wait for a table being written; the
    /// cache makes room for them.
    pub filters_and_indexes: u64,
    /// Mapped journal segments.
    pub journal_mappings: u64,
}

/// The journal's doings.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JournalStats {
    /// `mapped`, `write` or `off`.
    pub access: String,
    /// Records written.
    pub records: u64,
    /// Their bytes with framing.
    pub bytes: u64,
    /// Sync rounds.
    pub rounds: u64,
    /// Calls of fdatasync.
    pub syncs: u64,
    /// Threads started to sync several files at once, for somebody who waited.
    pub sync_threads: u64,
    /// Bytes kept because their writes are not in tables yet.
    pub unflushed_bytes: u64,
    /// Times a writer waited for a segment.
    pub segment_waits: u64,
    /// Keyspaces that keep the oldest segment.
    pub pinned_by: Vec<String>,
}

/// The block cache's doings.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CacheStats {
    /// Lookups that found their block.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Bytes held.
    pub bytes: u64,
}

/// One cause of waiting. Under `journal` are waits of a millisecond or more for room there or for a
/// page of it that the system made ready; a processor lost in the middle of it counts as well.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stall {
    /// Its name. `slots`: as many writes were under way as there are pairs of slot and lane; `key`:
    /// another write of the key was undecided; `flush`: memtables waited for their flush;
    /// `compaction`: level 0 or the debt of compactions; `memory`: all memtables together;
    /// `lease`: the manifest had to allow more stamps; `switch`: a batch that lost to a switch;
    /// `journal`: room in a lane, or a segment.
    pub cause: String,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_us: u64,
    /// The longest.
    pub max_us: u64,
}

/// Times of one kind of work, in microseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Histogram {
    /// Which work.
    pub name: String,
    /// How often it was done.
    pub count: u64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}
