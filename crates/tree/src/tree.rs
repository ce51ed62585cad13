//! The trait every layout implements, and what it is asked with.
//!
//! Its promises are L1-L4 of the crate; `contract::run` tests them on every layout.

use crate::cursor::Source;
use crate::job::Job;
use crate::manifest::Edit;
use crate::table_file::TableFile;
use std::sync::Arc;
use velella_base::{Cursor, KeyspaceId, Result, Stamp, seeded};
use velella_mvcc::Retention;
use velella_sst::{Compression, Found, TableMeta, TableOptions};

/// How a keyspace is laid out; fixed at creation except for compression and filter bits.
#[derive(Debug, Clone)]
pub struct TreeOptions {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// How its tables are written.
    pub table: TableOptions,
    /// Compression of level 0 and level 1 tables (others use `table.compression`).
    pub upper_compression: Compression,
    /// Target bytes of a table of levels 1 and 2 (default 16 MiB); deeper ones are larger
    /// ([`TreeOptions::table_bytes_at`]).
    pub table_bytes: u64,
    /// Bytes of level 1 (default 256 MiB); each further level is ten times larger.
    pub level_bytes: u64,
    /// Level 0 tables that are due to go down if they are large beside level 1 (default 4), or
    /// however small they are (16); that slow writes (24) and stop them (40). Halfway between the
    /// second and the third they wait no more for a level 1 that is too large.
    pub level0_start: usize,
    /// See `level0_start`.
    pub level0_latest: usize,
    /// See `level0_start`.
    pub level0_slow: usize,
    /// See `level0_start`.
    pub level0_stop: usize,
}

impl TreeOptions {
    /// The defaults, for a keyspace whose tables are written by `table`.
    #[must_use]
    pub fn new(keyspace: KeyspaceId, table: TableOptions) -> Self {
        TreeOptions {
            keyspace,
            table,
            upper_compression: Compression::None,
            table_bytes: 16 << 20,
            level_bytes: 256 << 20,
            level0_start: 4,
            level0_latest: 16,
            level0_slow: 24,
            level0_stop: 40,
        }
    }
}

/// What can be changed of how tables are written, while the tree is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStyle {
    /// See [`TableOptions::compression`].
    pub compression: Compression,
    /// See [`TreeOptions::upper_compression`].
    pub upper_compression: Compression,
    /// See [`TableOptions::bloom_bits`].
    pub bloom_bits: u32,
}

impl TreeOptions {
    /// Target bytes of a table at `level` (1 or deeper): twice as many at level 3 as at 2, and from
    /// level 4 on four times. A compaction holds a few tables twice until it hands them over: small
    /// ones make that little. A deep level has so many that small ones would make its list long.
    #[must_use]
    pub fn table_bytes_at(&self, level: usize) -> u64 {
        let times = [1, 1, 1, 2].get(level).copied().unwrap_or(4);
        self.table_bytes.saturating_mul(times)
    }

    /// The part that can be changed.
    #[must_use]
    pub fn style(&self) -> TableStyle {
        TableStyle {
            compression: self.table.compression,
            upper_compression: self.upper_compression,
            bloom_bits: self.table.bloom_bits,
        }
    }

    /// The same options with another style.
    #[must_use]
    pub fn styled(mut self, style: TableStyle) -> Self {
        self.table.compression = style.compression;
        self.upper_compression = style.upper_compression;
        self.table.bloom_bits = style.bloom_bits;
        self
    }
}

/// Which upkeep is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// What is due by the layout's own rules.
    Due,
    /// What leaves fewer places to look in for a seek, due or not.
    Gathering,
    /// The first step of rewriting everything there is now.
    Everything,
    /// The next step of it; the first, if it was interrupted.
    Rest,
}

/// An on-disk layout of one keyspace.
pub trait Tree: Send + Sync + std::fmt::Debug {
    /// The newest version of `key` at or below `at`; `hash` is `velella_sst::key_hash(key)`.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    fn get(&self, key: &[u8], hash: u64, at: Stamp) -> Result<Option<Found>>;

    /// A cursor over all versions of the tree as it stands now; it keeps its files alive.
    /// `fill_cache`: whether the blocks it reads enter the cache.
    fn cursor(&self, fill_cache: bool) -> Box<dyn Cursor>;

    /// As `cursor`, taken apart for a larger merge: appends what it would merge, newest first. What
    /// has nothing at or below `at` may be left out, and tables that are overtaken for it
    /// (`TableFile::overtake`). Says whether they are runs and nothing was left out: then they are
    /// what a reader at any other stamp needs, too, as long as the tree's generation does not rise.
    fn sources(&self, fill_cache: bool, at: Stamp, sources: &mut Vec<Source>) -> bool {
        let _ = at;
        sources.push(Source::Other(self.cursor(fill_cache)));
        false
    }

    /// All tables, if they hold at most so many entries together; else none.
    fn few_tables(&self, entries: u64) -> Vec<Arc<TableFile>>;

    /// Rises whenever the set of tables changes: an older cursor holds older files.
    fn generation(&self) -> u64;

    /// Writes `run` (all versions, newest first within a key), less what `retention` drops, to new
    /// tables, synced, their directory too. Nothing refers to them yet. Positions the cursor.
    ///
    /// # Errors
    /// `NoSpace`, `Io`; files begun are removed.
    fn build(&self, run: &mut dyn Cursor, retention: &Retention) -> Result<Built>;

    /// Makes a built run visible: call it once `Manifest::commit` has made `built.edits()`
    /// durable.
    fn apply(&self, built: Built);

    /// The most useful job of this sort that can start now, if any; `retention` says what nobody
    /// needs any more. Marks its inputs busy until `run` or the job's drop.
    fn next_job(&self, wanted: Wanted, retention: &Retention) -> Option<Box<dyn Job>>;

    /// Work waiting and brakes.
    fn pressure(&self) -> Pressure;

    /// Tables begun from now on are written in this style; the others stay as they are.
    fn restyle(&self, style: TableStyle);

    /// Reads everything: every checksum and invariant of every file of this tree. `progress` is
    /// told the bytes read so far after each table.
    ///
    /// # Errors
    /// `Corruption`: file and offset of the first damage.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<()>;

    /// Sizes per level.
    fn levels(&self) -> Vec<Level>;

    /// Marks every file for deletion once the last reader leaves: the keyspace was dropped.
    fn drop_files(&self);

    /// Removes files that were marked and that nobody can reach any more.
    fn clean(&self);
}

/// Tables written by `Tree::build`, not yet visible. Nothing durable names them: where they are
/// dropped so, by an error or a panic, their files go, too.
#[derive(Debug, Default)]
pub struct Built {
    /// The tables, ascending and disjoint; none if nothing of the run was kept.
    tables: Vec<TableMeta>,
    /// External values whose only reference was dropped: deleted once applied.
    pub dropped_externals: Vec<u64>,
    /// The tables, open, so that making them visible cannot fail.
    files: Vec<Arc<TableFile>>,
    is_kept: bool,
}

impl Built {
    /// A run of open tables.
    #[must_use]
    pub fn new(files: Vec<Arc<TableFile>>, dropped_externals: Vec<u64>) -> Self {
        Built {
            tables: files.iter().map(|file| file.meta().clone()).collect(),
            dropped_externals,
            files,
            is_kept: false,
        }
    }

    /// The tables; to be named in an edit they are asked for by `keep`.
    #[must_use]
    pub fn tables(&self) -> &[TableMeta] {
        &self.tables
    }

    /// Whether the manifest may name the tables.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_kept || self.files.is_empty()
    }

    /// The tables, for an edit that names them. From here on the manifest may: their files stay,
    /// whatever becomes of the run.
    #[must_use]
    pub fn keep(&mut self) -> Vec<TableMeta> {
        self.is_kept = true;
        self.tables.clone()
    }

    /// The edits that make the run part of `keyspace`: to be committed, with the `Flushed` edit of
    /// the same flush, before `Tree::apply`. It is kept from here on.
    #[must_use]
    pub fn edits(&mut self, keyspace: KeyspaceId) -> Vec<Edit> {
        if self.tables.is_empty() {
            return Vec::new();
        }
        vec![Edit::AddTables {
            keyspace,
            level: 0,
            tables: self.keep(),
        }]
    }

    /// Gives the run up although it was kept for a commit: its files go, since that left nothing.
    /// Not after a commit of which nobody knows what became: the next opening may find its edits.
    pub fn discard(mut self) {
        self.is_kept = false;
    }

    /// The open tables.
    #[must_use]
    pub fn files(&self) -> &[Arc<TableFile>] {
        &self.files
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        let files = std::mem::take(&mut self.files);
        let Some(graveyard) = files.first().map(|file| file.graveyard()) else {
            return;
        };
        if self.is_kept || seeded("a-run-given-up-leaves-its-tables") {
            return;
        }
        for file in &files {
            file.mark_obsolete();
        }
        drop(files);
        graveyard.bury();
    }
}

/// Work waiting, and how hard to brake writers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    /// Tables of level 0.
    pub level0_tables: usize,
    /// Bytes that must be rewritten until every level is within its target.
    pub debt_bytes: u64,
    /// Whether much is due now, long before the brake sets in.
    pub is_high: bool,
    /// 0: none; 1: writers must wait; between: slow them in proportion.
    pub brake: f64,
}

/// One level's size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// Number of tables.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries.
    pub entries: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_deeper_levels_are_larger_up_to_four_times() {
        let options = TreeOptions::new(1, TableOptions::default());
        let mib = |level| options.table_bytes_at(level) >> 20;
        assert_eq!([1, 2, 3, 4, 5, 7].map(mib), [16, 16, 32, 64, 64, 64]);
    }
}
