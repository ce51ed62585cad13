//! Reads a whole table and checks everything that can be checked.
//!
//! Beside the checksums: the order of entries (B1), that index, tags, restarts and filter find
//! every key where it is, and that the properties count what there is. All of it is read from the
//! file: blocks, though the cache may have them, and once more what the opening read.
//!
//! Threads: any. Tests: tests/damage.rs.

use crate::block::Malformed;
use crate::block::cursor::BlockCursor;
use crate::block::view::Layout;
use crate::filter::{Filter, key_hash};
use crate::parts::Parts;
use crate::properties::{Properties, TableMeta};
use crate::table::Table;
use std::sync::Arc;
use velella_base::{Entry, Result, Stamp, ValueKind};

/// What was seen so far.
#[derive(Default)]
struct Walk {
    last: Option<(Vec<u8>, Stamp, ValueKind)>,
    meta: TableMeta,
    raw_block_bytes: u64,
}

impl Table {
    /// Reads the whole table and checks every checksum and invariant.
    ///
    /// # Errors
    /// `Corruption` with file and offset of the first damage.
    pub fn verify(&self) -> Result<()> {
        self.verify_parts()?;
        let mut walk = Walk::default();
        for number in 0..self.index.len() {
            let handle = self.index.handle(number);
            let block = self.source.read(handle)?;
            let sound = self
                .verify_block(number, &block, &mut walk)
                .map_err(|malformed| self.malformed(number, malformed))?;
            sound.map_err(|found| self.source.corruption(handle.offset, found))?;
        }
        let known = &self.properties;
        walk.meta.file = known.meta.file;
        walk.meta.bytes = known.meta.bytes;
        walk.meta.largest = walk.last.take().map(|(key, ..)| key).unwrap_or_default();
        walk.meta.sort_externals();
        // The first tables do not say.
        let says = known.meta.shadowed.is_some();
        walk.meta.shadowed = walk.meta.shadowed.filter(|_| says);
        let counted = Properties {
            meta: walk.meta,
            order: known.order.clone(),
            blocks: self.index.len() as u64,
            raw_block_bytes: walk.raw_block_bytes,
            bloom_bits: known.bloom_bits,
        };
        if counted != *known {
            let found = "the properties do not count what the blocks contain";
            return Err(self.source.corruption(self.index.data_end(), found));
        }
        Ok(())
    }

    /// Reads again what was read when the table was opened, and has been in memory since.
    fn verify_parts(&self) -> Result<()> {
        let source = &self.source;
        let (_, parts) = Parts::load(
            Arc::clone(&source.file),
            Some(self.footer.context),
            Some(self.order.clone()),
            Arc::clone(&source.counters),
        )?;
        if (&parts.footer, &parts.properties) == (&self.footer, &self.properties) {
            return Ok(());
        }
        let found = "it is not what it was when it was opened";
        Err(source.corruption(self.footer.properties.offset, found))
    }

    /// Walks one block. The inner error says which invariant does not hold.
    fn verify_block(
        &self,
        number: usize,
        block: &Arc<[u8]>,
        walk: &mut Walk,
    ) -> Result<Result<(), &'static str>, Malformed> {
        let layout = Layout::of(block)?;
        if layout.tagged != self.order.is_bytewise() {
            return Ok(Err(
                "the block has tags where it should not, or the reverse",
            ));
        }
        let mut cursor = BlockCursor::new(Arc::clone(block))?;
        cursor.seek_first()?;
        while let Some(entry) = cursor.entry() {
            if let Err(found) = self.verify_entry(number, &entry, walk) {
                return Ok(Err(found));
            }
            if layout.tagged {
                let tag = key_hash(entry.key).to_le_bytes()[0];
                let hit = layout.find(block, entry.key, tag, entry.stamp, &mut 0)?;
                if hit.is_none_or(|hit| hit.stamp != entry.stamp) {
                    return Ok(Err("a key is not found by its tag"));
                }
            }
            if !cursor.agrees_with_restarts()? {
                return Ok(Err("the restart table does not say where the restarts are"));
            }
            cursor.next()?;
        }
        if !cursor.has_consumed_all() {
            return Ok(Err("there are bytes behind the block's last entry"));
        }
        walk.raw_block_bytes += block.len() as u64;
        Ok(Ok(()))
    }

    /// Checks an entry against its predecessor, the index and the filter, and counts it.
    fn verify_entry(
        &self,
        number: usize,
        entry: &Entry<'_>,
        walk: &mut Walk,
    ) -> Result<(), &'static str> {
        let (mut repeated, mut above) = (false, None);
        match &mut walk.last {
            None => walk.meta.smallest = entry.key.to_vec(),
            Some((key, stamp, kind)) => {
                let keys = self.order.compare(key, entry.key);
                let behind = keys.then(entry.stamp.cmp(stamp));
                above = keys.is_eq().then_some(*stamp);
                if behind.is_gt() || (behind.is_eq() && entry.kind == *kind) {
                    return Err("entries are out of order");
                }
                repeated = behind.is_eq();
            }
        }
        let (key, stamp, kind) = walk
            .last
            .get_or_insert_with(|| (Vec::new(), Stamp::ZERO, entry.kind));
        key.clear();
        key.extend_from_slice(entry.key);
        (*stamp, *kind) = (entry.stamp, entry.kind);
        // Of several entries at one stamp, the index leads to the first.
        if !repeated && self.index.find(entry.key, entry.stamp, &mut 0) != number {
            return Err("the index does not lead to an entry");
        }
        let may_contain = |filter: &Filter| filter.may_contain(key_hash(entry.key));
        if !self.filter.as_ref().is_none_or(may_contain) {
            return Err("the filter denies a key");
        }
        walk.meta.count(entry, above)
    }
}
