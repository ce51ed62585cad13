//! How one simulated database is set up: every knob drawn, every size tiny.
//!
//! S1. A setting follows from its seed, and every value is one that a user could have chosen, but
//!     for sizes, which are `Sizes`.
//!
//! Tests: the campaigns that draw settings.

use std::sync::Arc;
use velella::simulation::Sizes;
use velella::vfs::Vfs;
use velella::{Builder, Compression, Db, JournalMode, KeyspaceOptions, MemtableKind, RecoveryMode};
use velella_testkit::Seed;

/// The directory of the database.
pub const DIR: &str = "/db";

/// Knobs and sizes of one opening.
#[derive(Debug, Clone)]
pub struct Setting {
    /// How records reach the journal.
    pub journal: JournalMode,
    /// The structure of memtables.
    pub memtable: MemtableKind,
    /// Compression of tables.
    pub compression: Compression,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Bits per key of the filters.
    pub bloom_bits: u32,
    /// Lanes of the journal.
    pub lanes: usize,
    /// Extents in a segment.
    pub extents: u64,
    /// Bytes after which a manifest may be rewritten.
    pub manifest_bytes: u64,
    /// What opening does about the past.
    pub recovery: RecoveryMode,
}

/// Bytes of an extent: the smallest there is, so that lanes move often.
const EXTENT_BYTES: u64 = 8 << 10;
/// Longer values get a file of their own; those over a quarter of an extent go through a large
/// record.
pub const INLINE_BYTES: usize = 3_000;

impl Setting {
    /// One fixed setting, for scripts.
    #[must_use]
    pub fn plain() -> Setting {
        Setting {
            journal: JournalMode::Mapped,
            memtable: MemtableKind::default(),
            compression: Compression::Lz4,
            block_bytes: 512,
            bloom_bits: 10,
            lanes: 2,
            extents: 3,
            manifest_bytes: 2_000,
            recovery: RecoveryMode::Normal,
        }
    }

    /// Any setting.
    #[must_use]
    pub fn random(seed: &mut Seed) -> Setting {
        use JournalMode::{Mapped, Off, Write};
        let journal = [Mapped, Mapped, Mapped, Write, Write, Mapped, Write, Off];
        Setting {
            journal: *seed.pick(&journal),
            memtable: *seed.pick(&MemtableKind::ALL),
            compression: *seed.pick(&[Compression::Lz4, Compression::None, Compression::Zstd]),
            block_bytes: *seed.pick(&[256, 512, 4096]),
            bloom_bits: *seed.pick(&[0, 4, 10]),
            lanes: 1 + seed.index(4),
            extents: 2 + seed.below(4),
            manifest_bytes: *seed.pick(&[700, 1_500, 100_000]),
            recovery: RecoveryMode::Normal,
        }
    }

    /// The builder of it.
    pub fn builder(&self) -> Builder {
        Db::builder()
            .memory(velella::MEMORY_MIN)
            .write_buffer(64 << 10)
            .background_threads(1)
            .journal(self.journal)
            .memtable(self.memtable)
            .compression(self.compression)
            .block_bytes(self.block_bytes)
            .bloom_bits(self.bloom_bits)
            .recovery(self.recovery)
            .simulated(Sizes {
                lanes: self.lanes,
                segment_bytes: self.extents * EXTENT_BYTES,
                extent_bytes: EXTENT_BYTES,
                inline_value_bytes: INLINE_BYTES,
                manifest_bytes: Some(self.manifest_bytes),
            })
    }

    /// Opens the database on `fs`.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(&self, fs: Arc<dyn Vfs>) -> velella::Result<Db> {
        self.builder().vfs(fs).open(DIR)
    }

    /// Whether there is a journal.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.journal != JournalMode::Off
    }
}

/// Any settings for a new keyspace.
#[must_use]
pub fn random_keyspace(seed: &mut Seed) -> KeyspaceOptions {
    KeyspaceOptions {
        memtable: *seed.pick(&[
            None,
            Some(MemtableKind::Jellyfish),
            Some(MemtableKind::AppendOnly),
            Some(MemtableKind::S3),
        ]),
        compression: *seed.pick(&[None, Some(Compression::None), Some(Compression::Zstd)]),
        bloom_bits: *seed.pick(&[None, Some(0), Some(10)]),
        ..KeyspaceOptions::default()
    }
}
