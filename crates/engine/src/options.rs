//! The knobs of a database and of a keyspace, each default with its reason: docs/options.md.
//!
//! Settings are plain data; components (the file system) are objects and go to the [`Builder`].
//!
//! O1. At most twelve knobs. What can be derived from another is not a knob.

use std::sync::{Arc, OnceLock};
use std::time::Duration;
use velella_base::{Error, Order, Result};
use velella_memtable::MemtableKind;
use velella_sst::Compression;
use velella_vfs::{OsFs, Vfs};

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The death of the process at once (`kill -9` included); a power loss takes at most the last
    /// second of writes, and what a sync still under way had not finished. No system call per write
    /// where the journal is mapped; but a value of more than 1 MiB is written to a file of its own,
    /// whose name is synced. Without a journal see [`JournalMode::Off`].
    #[default]
    Buffered,
    /// A power loss. The write returns when it is on the device; threads share one sync.
    Sync,
    /// As `Sync`, but the sync may wait this long for company. Everything is synced once a second
    /// anyway, so more than a second means nothing.
    Group(Duration),
}

/// How records reach the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalMode {
    /// Mapped segments where the file system is fit for them (ext4, ext3, ext2, tmpfs), else as
    /// `Write`.
    #[default]
    Auto,
    /// Mapped segments: no system call per write. Where the file system is not fit for them, XFS
    /// among others, opening fails (`Unsupported`) instead of writing as `Write`. With a mapped
    /// journal, of `Auto` as well, the kernel ends the process (SIGBUS) if the device fails under a
    /// page that it had given up, or somebody cuts the file; the next opening recovers.
    Mapped,
    /// One `write` per record.
    Write,
    /// No journal, for the whole database: what was not flushed is lost with the process. What
    /// survives is still a prefix of the writes. A write with [`Durability::Sync`] or `Group`
    /// flushes all keyspaces to tables: for bulk loads, leave it `Buffered` and end with `flush`.
    Off,
}

/// What `open` does about the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecoveryMode {
    /// Every acknowledged write of a process that died; after a power loss, the durable prefix.
    /// Damage to durable data is an error.
    #[default]
    Normal,
    /// Trust only what was synced, whatever the page cache seems to hold: after a forced unmount,
    /// an in-place rollback of the volume, or memory errors.
    AssumePowerLoss,
    /// On damage to durable data, open with the largest valid prefix of the journal, and report
    /// what went. What tables hold stays, so that with several keyspaces each has a prefix of its
    /// own. What of the journal the device cannot read is damage, too, and what no round had
    /// covered is given up then; first make sure that it does not read it at another try.
    AcceptLoss,
}

/// Settings of a database. `docs/options.md` in the repository says when to change them.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of memory for everything: memtables and what they leave to the next ones, block cache,
    /// filters, indexes, journal mappings.
    /// Default 1 GiB: half of a small server. The process stays within 20 % of it as long as the
    /// filters and indexes of all tables, a fortieth of the data where pairs are small, have room
    /// in the block cache's share of it and half of the memtables': four tenths together at least,
    /// half with the defaults. At least [`MEMORY_MIN`].
    pub memory: u64,
    /// Bytes at which a memtable is flushed. Default 64 MiB: large enough for few, sequential
    /// writes, small enough to recover in a second. More than 3/16 of `memory` is lowered to that,
    /// less than 256 KiB raised: an index and a chunk per thread are a good part of it. Less than
    /// 64 KiB is refused.
    pub write_buffer: u64,
    /// Durability of writes that do not say. Default `Buffered`.
    pub durability: Durability,
    /// Background threads for flushes and compactions. Default: one a core, at most 4: with fewer,
    /// cores idle while writers wait for compactions. At most half as many as there are cores, at
    /// least one, work at once until writers lag. From 1 to 64.
    pub background_threads: usize,
    /// Compression of tables. Default LZ4: it costs less than it saves. Levels 0 and 1 get LZ4
    /// where this says Zstd, since they are soon rewritten.
    pub compression: Compression,
    /// Bytes of a table's data block before compression. Default 4 KiB: one page per cold get. From
    /// 256 bytes to 1 MiB.
    pub block_bytes: usize,
    /// Bits per key of the Bloom filters. Default 10: one false positive in a hundred. At most 32;
    /// 0 makes none.
    pub bloom_bits: u32,
    /// How records reach the journal. Default `Auto`.
    pub journal: JournalMode,
    /// What `open` does about the past. Default `Normal`.
    pub recovery: RecoveryMode,
    /// Create the database if the directory holds none; if false, opening says `NotFound` then.
    /// Default true.
    pub create: bool,
    /// The structure of memtables. Default `S3`.
    pub memtable: MemtableKind,
    /// Files of tables that are open at once; the others are opened when they are read. Default:
    /// half of what the process may open when this is asked, at most 65,536, at least 16. 0 is
    /// refused. With few, a compaction opens one for nearly every block that it reads. The journal
    /// keeps about a quarter as many segments, at least 4, before it has memtables flushed for its
    /// sake.
    pub open_files: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            memory: 1 << 30,
            write_buffer: 64 << 20,
            durability: Durability::default(),
            background_threads: processors().clamp(1, 4),
            compression: Compression::Lz4,
            block_bytes: 4 << 10,
            bloom_bits: 10,
            journal: JournalMode::default(),
            recovery: RecoveryMode::default(),
            create: true,
            memtable: MemtableKind::default(),
            open_files: (OsFs::files_allowed() / 2).clamp(16, 1 << 16),
        }
    }
}

/// The processors this process may use. Asked once: it costs the reading of several files.
pub(crate) fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(2, usize::from))
}

/// Least write buffer in use; see [`Options::write_buffer`].
const WRITE_BUFFER_MIN: u64 = 256 << 10;

/// Least memory a database runs in: 16 MiB.
pub const MEMORY_MIN: u64 = 16 << 20;

impl Options {
    /// Checks every knob and derives what depends on another.
    ///
    /// # Errors
    /// `InvalidInput`, naming the knob, its value and its limits.
    pub fn validated(mut self) -> Result<Options> {
        let refuse = |knob: &str, found: String| {
            Err(Error::invalid(
                format!("open a database with `{knob}`"),
                found,
            ))
        };
        if self.memory < MEMORY_MIN {
            return refuse(
                "memory",
                format!("{} bytes, at least {MEMORY_MIN}", self.memory),
            );
        }
        self.write_buffer = self.write_buffer.min(self.memory / 16 * 3);
        if self.write_buffer < 64 << 10 {
            return refuse(
                "write_buffer",
                format!("{} bytes, at least 65536", self.write_buffer),
            );
        }
        self.write_buffer = self.write_buffer.max(WRITE_BUFFER_MIN);
        if !(256..=1 << 20).contains(&self.block_bytes) {
            return refuse(
                "block_bytes",
                format!("{}, from 256 to 1048576", self.block_bytes),
            );
        }
        check_bloom_bits("open a database", self.bloom_bits)?;
        if !(1..=64).contains(&self.background_threads) {
            return refuse(
                "background_threads",
                format!("{}, from 1 to 64", self.background_threads),
            );
        }
        if self.open_files == 0 {
            return refuse("open_files", "0, at least 1".to_owned());
        }
        Ok(self)
    }
}

/// Most bits per key of a filter.
const BLOOM_BITS_MAX: u32 = 32;

/// Checks a knob that a database and a keyspace both have.
pub(crate) fn check_bloom_bits(attempt: &str, bits: u32) -> Result<()> {
    if bits > BLOOM_BITS_MAX {
        let found = format!("{bits}, at most {BLOOM_BITS_MAX}");
        return Err(Error::invalid(
            format!("{attempt} with `bloom_bits`"),
            found,
        ));
    }
    Ok(())
}

/// Settings of a keyspace. They are stored, so they hold after the next opening too; what is
/// `None` at creation is the database's, whatever that is at each opening. `Db::open_keyspace`
/// changes those that are `Some`, but for the order.
#[derive(Debug, Clone, Default)]
pub struct KeyspaceOptions {
    /// The order of keys, fixed at creation; `None`: bytewise, or what a keyspace that exists has
    /// already. Its name is stored; the order itself is given to the builder at each opening. The
    /// comparison of an [`Order::custom`] runs in the middle of reads, writes and background work:
    /// it should be short, and must not call the database, which could wait for what called it. A
    /// database with such a keyspace is opened only by programs that have the order: of the command
    /// line, `inspect` alone goes on to read it.
    pub order: Option<Order>,
    /// The structure of memtables; `None`: the database's.
    pub memtable: Option<MemtableKind>,
    /// Compression of tables; `None`: the database's.
    pub compression: Option<Compression>,
    /// Bits per key of the filters; `None`: the database's.
    pub bloom_bits: Option<u32>,
}

/// Opens databases. Its methods check nothing: a setting outside its limits is an error of
/// [`Builder::open`], as by [`Options::validated`].
#[derive(Debug, Clone)]
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    pub(crate) options: Options,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) orders: Vec<Order>,
    /// Sizes of a database without threads (`simulation.rs`).
    pub(crate) simulated: Option<crate::sizes::Sizes>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            options: Options::default(),
            vfs: Arc::new(OsFs::new()),
            orders: Vec::new(),
            simulated: None,
        }
    }
}

macro_rules! knob {
    ($(#[$doc:meta])* $name:ident: $type:ty) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.options.$name = $name;
            self
        }
    };
}

impl Builder {
    knob!(
        /// See [`Options::memory`].
        memory: u64
    );
    knob!(
        /// See [`Options::write_buffer`].
        write_buffer: u64
    );
    knob!(
        /// See [`Options::durability`].
        durability: Durability
    );
    knob!(
        /// See [`Options::background_threads`].
        background_threads: usize
    );
    knob!(
        /// See [`Options::compression`].
        compression: Compression
    );
    knob!(
        /// See [`Options::block_bytes`].
        block_bytes: usize
    );
    knob!(
        /// See [`Options::bloom_bits`].
        bloom_bits: u32
    );
    knob!(
        /// See [`Options::journal`].
        journal: JournalMode
    );
    knob!(
        /// See [`Options::recovery`].
        recovery: RecoveryMode
    );
    knob!(
        /// See [`Options::create`].
        create: bool
    );
    knob!(
        /// See [`Options::memtable`].
        memtable: MemtableKind
    );
    knob!(
        /// See [`Options::open_files`].
        open_files: usize
    );

    /// All settings at once.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The file system; default: the operating system's.
    pub fn vfs(mut self, vfs: Arc<dyn Vfs>) -> Self {
        self.vfs = vfs;
        self
    }

    /// Makes a user's order known, for keyspaces that were created with it.
    pub fn order(mut self, order: Order) -> Self {
        self.orders.push(order);
        self
    }
}

/// How one write is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Durability; `None`: the database's.
    pub durability: Option<Durability>,
}

impl WriteOptions {
    /// A write that returns when it is on the device.
    #[must_use]
    pub fn sync() -> Self {
        WriteOptions {
            durability: Some(Durability::Sync),
        }
    }
}
