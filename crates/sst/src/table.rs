//! An open table, and the point lookup.
//!
//! B4. A point read of a cached table, in the bytewise order, waits for nobody, allocates nothing
//!     and makes no system call: one cache line of the filter, a binary search over words, the
//!     block's slot, about one compared key in the block.
//!
//! Where versions of one key span blocks the index says by their stamps which block has the wanted
//! one, so a lookup reads one block whatever the number of versions.
//!
//! Threads: a table is read from any thread. Tests: tests/model.rs, tests/damage.rs.

use crate::block::Malformed;
use crate::block::cursor::BlockCursor;
use crate::block::view::{Hit, Layout};
use crate::cache::{BlockCache, TableBlocks, prefetch_head};
use crate::counters::{Counters, Tally};
use crate::filter::Filter;
use crate::format::Footer;
use crate::found::{BlockSlice, Found};
use crate::index::Index;
use crate::kept::KeptBlocks;
use crate::parts::Parts;
use crate::properties::{Properties, TableMeta};
use crate::source::Source;
use std::sync::Arc;
use velella_base::checksum::Context;
use velella_base::{Order, Result, Stamp};
use velella_vfs::ReadFile;

/// An open table.
#[derive(Debug)]
pub struct Table {
    pub(crate) source: Source,
    pub(crate) index: Index,
    pub(crate) filter: Option<Filter>,
    pub(crate) order: Order,
    pub(crate) properties: Properties,
    pub(crate) footer: Footer,
    pub(crate) blocks: Arc<TableBlocks>,
}

impl Table {
    /// Opens a table: checks footer, properties and index; loads filter and index into memory.
    ///
    /// # Errors
    /// `Corruption` with file and offset; `Unsupported`: a newer format; `InvalidInput`: the table
    /// has another order; `Io`.
    pub fn open(
        file: Arc<dyn ReadFile>,
        context: Context,
        order: Order,
        cache: Arc<BlockCache>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Table>> {
        let (source, parts) = Parts::load(file, Some(context), Some(order.clone()), counters)?;
        let Parts {
            footer,
            properties,
            index,
            filter,
        } = parts;
        let blocks = TableBlocks::new(cache, source.number, index.len());
        let table = Table {
            source,
            index,
            filter,
            order,
            properties,
            footer,
            blocks,
        };
        table.blocks.pin(table.pinned_bytes());
        Ok(Arc::new(table))
    }

    /// What is known of the table.
    #[must_use]
    pub fn meta(&self) -> &TableMeta {
        &self.properties.meta
    }

    /// Puts the blocks that its builder kept into the cache.
    pub fn warm(&self, kept: KeptBlocks) {
        kept.fill(&self.blocks);
    }

    /// Bytes of memory held outside the cache (filter, index, slots for cached blocks).
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        self.index.bytes() + self.blocks.bytes() + self.filter.as_ref().map_or(0, Filter::bytes)
    }

    /// Refuses a table that was written with features a compaction of this build would lose.
    ///
    /// # Errors
    /// `Unsupported`, naming the features.
    pub fn check_rewritable(&self) -> Result<()> {
        self.footer.check_rewritable(self.source.file.path())
    }

    /// The newest version of `key` at or below `at`; `hash` is `key_hash(key)`.
    ///
    /// # Errors
    /// `Corruption`, `Io`, with file and offset.
    pub fn get(&self, key: &[u8], hash: u64, at: Stamp) -> Result<Option<Found>> {
        let mut tally = Tally::default();
        let found = self.look_up(key, hash, at, &mut tally);
        tally.flush(&self.source.counters);
        found
    }

    /// As `get`, for a read that looks into several tables: counts in its `tally`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn look_up(
        &self,
        key: &[u8],
        hash: u64,
        at: Stamp,
        tally: &mut Tally,
    ) -> Result<Option<Found>> {
        if let Some(filter) = &self.filter {
            tally.filter_probes += 1;
            if !filter.may_contain(hash) {
                tally.filter_negatives += 1;
                return Ok(None);
            }
        }
        self.search(key, hash, at, &mut tally.comparisons)
    }

    /// Asks for the memory in which a `get` looks first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(filter) = &self.filter {
            filter.prefetch(hash);
        }
    }

    /// Bytes of data blocks in front of `key`, roughly: for sizes of ranges.
    #[must_use]
    pub fn offset_of(&self, key: &[u8]) -> u64 {
        let block = self.index.find(key, Stamp::MAX, &mut 0);
        match block < self.index.len() {
            true => self.index.handle(block).offset,
            false => self.index.data_end(),
        }
    }

    fn search(
        &self,
        key: &[u8],
        hash: u64,
        at: Stamp,
        comparisons: &mut u64,
    ) -> Result<Option<Found>> {
        let number = self.index.find(key, at, comparisons);
        if number == self.index.len() {
            return Ok(None);
        }
        // The block is pinned only once the entry is found: see `counters` C1 on atomic additions.
        let mut search = |block: &Arc<[u8]>| {
            // Head, tags, restarts and items follow each other, and a search waits for each.
            prefetch_head(block);
            let hit = self.search_block(block, key, hash, at, comparisons);
            let hit = hit.map_err(|malformed| self.malformed(number, malformed))?;
            Ok(hit.and_then(|hit| pinned(block, hit)))
        };
        match self.blocks.with(number, &mut search) {
            Some(found) => found,
            None => search(&self.uncached_block(number)?),
        }
    }

    #[inline]
    fn search_block(
        &self,
        block: &Arc<[u8]>,
        key: &[u8],
        hash: u64,
        at: Stamp,
        comparisons: &mut u64,
    ) -> Result<Option<Hit>, Malformed> {
        let layout = Layout::of(block)?;
        if layout.tagged && self.order.is_bytewise() {
            return layout.find(block, key, hash.to_le_bytes()[0], at, comparisons);
        }
        let mut cursor = BlockCursor::new(Arc::clone(block))?;
        cursor.seek(&self.order, key, at, comparisons)?;
        let same = |found: &[u8]| self.order.compare(found, key).is_eq();
        Ok(match cursor.entry() {
            Some(entry) if same(entry.key) => cursor.hit(),
            _ => None,
        })
    }

    /// A data block from the cache, or from the file into the cache.
    pub(crate) fn cached_block(&self, number: usize) -> Result<Arc<[u8]>> {
        let pin = |block: &Arc<[u8]>| {
            // An atomic addition to a line that is not there holds back every load behind it, so
            // the others are asked for first.
            prefetch_head(block);
            Arc::clone(block)
        };
        match self.blocks.with(number, pin) {
            Some(block) => Ok(block),
            None => self.uncached_block(number),
        }
    }

    /// A data block from the file, into the cache.
    #[cold]
    fn uncached_block(&self, number: usize) -> Result<Arc<[u8]>> {
        let block = self.source.read(self.index.handle(number))?;
        self.blocks.insert(number, &block);
        Ok(block)
    }

    /// The error for a block that does not parse.
    #[cold]
    pub(crate) fn malformed(&self, number: usize, malformed: Malformed) -> velella_base::Error {
        self.source
            .malformed(self.index.handle(number).offset, malformed)
    }
}

/// A hit with its block; `None` cannot be, since a hit lies in its block.
#[inline]
fn pinned(block: &Arc<[u8]>, hit: Hit) -> Option<Found> {
    let Hit { stamp, kind, value } = hit;
    let value = BlockSlice::new(Arc::clone(block), value)?;
    Some(Found { stamp, kind, value })
}
