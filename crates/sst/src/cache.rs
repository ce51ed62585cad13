//! Decoded blocks, shared by all tables of a database, bounded in bytes.
//!
//! Replacement is S3-FIFO (Yang, Zhang, Qiu, Yue and Vinayak, SOSP '23; no relation to the S3 of
//! VLDB '19): a small queue that a scan passes through, a main queue with second chances, and a
//! memory of what left the small queue lately. A table has a slot for each of its blocks, so
//! finding a block is one step from its number: no hash table, nothing shared between threads but
//! the slot; and the memory of the departed is a number in the slot.
//!
//! C1. An occupied slot of a live table has exactly one queue entry, and the reverse. Entries of
//!     closed tables are swept.
//! C2. `bytes` never exceeds the capacity. A block's weight is added when it enters its slot, and
//!     subtracted by whoever takes it out: an eviction, or the end of its table.
//! C3. A lookup never waits, and allocates nothing: a slot whose lock is held for writing counts as
//!     empty, and the caller reads the file.
//! C4. Lock order: queues, then slots. Slots are only tried, never waited for. Nothing is taken
//!     under `telling`.
//! C5. What open tables hold besides (filters, indexes, slots) is taken off the capacity, so that
//!     tables and cache together stay within it, at the next insertion into a shard or the next
//!     `trim`, whichever comes first; but a sixteenth always remains.
//! C6. Blocks that made room for tables leave holes in the allocator's heaps, which other blocks
//!     use again, but not tables. Once these are 8 MiB and an eighth of what blocks and tables may
//!     have together, `take_holes` says so, once.
//!
//! Threads: any. Tests: below; many threads on a small cache in tests/model.rs.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use velella_sync::CachePadded;
use velella_sync::array::Array;
use velella_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use velella_sync::counter::Counter;
use velella_sync::lock::{Mutex, RwLock};
use velella_sync::prefetch::{prefetch, prefetch_all};

/// What a cached block costs besides its bytes: queue entry, counts, allocator.
const OVERHEAD_BYTES: u64 = 64;
/// Below this a shard would not hold the largest blocks.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARDS_MAX: u64 = 16;
/// The small queue's share of the capacity: one in this many.
const SMALL_SHARE: u64 = 10;
/// The part of the capacity that pinned bytes leave in any case: one in this many.
const LEAST_SHARE: u64 = 16;
/// Holes that may be left in any case (C6), and the part of what blocks and tables may have that
/// may be: one in this many.
const HOLES_MIN: u64 = 8 << 20;
const HOLES_SHARE: u64 = 8;
/// Uses that a slot remembers at most.
const USES_MAX: u32 = 3;
/// Bytes of a block in which most of its keys stand (format: keys stand in front of the values).
const KEYS_BYTES: usize = 1024;
/// Queue entries before the first sweep.
const SWEEP_MIN: usize = 1024;

/// Decoded blocks, shared by all tables of a database, bounded in bytes.
pub struct BlockCache {
    shards: Box<[CachePadded<Shard>]>,
    /// Bytes that open tables hold outside of it: filters, indexes, slots. Every write to the
    /// database reads it, so it has a line of its own.
    tables: CachePadded<AtomicU64>,
    /// Bytes of blocks that tables being written keep for the cache.
    kept: AtomicU64,
    /// Most bytes of blocks there were at once, since holes were last spoken of (C6).
    most: AtomicU64,
    /// Held while shards are told their capacity, so that the latest sum is what stays.
    telling: Mutex<()>,
    hits: Counter,
    misses: Counter,
}

struct Shard {
    /// Bytes this shard may hold while tables pin nothing.
    whole: u64,
    /// Bytes it may hold now (C5).
    capacity: AtomicU64,
    /// Weight of the blocks in slots of this shard (C2).
    bytes: AtomicU64,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    small: VecDeque<Queued>,
    small_bytes: u64,
    main: VecDeque<Queued>,
    /// Evictions from the small queue so far, the clock of `Slot::departed`.
    departures: u32,
    sweep_at: usize,
}

struct Queued {
    table: Weak<TableBlocks>,
    number: u32,
    weight: u32,
}

/// The cached blocks of one table.
pub(crate) struct TableBlocks {
    cache: Arc<BlockCache>,
    file: u64,
    /// What the table told `pin`.
    pinned: OnceLock<u64>,
    slots: Array<Slot>,
}

#[derive(Default)]
struct Slot {
    block: RwLock<Option<Arc<[u8]>>>,
    /// Uses since the block entered its queue, up to `USES_MAX`: a hint for replacement.
    uses: AtomicU32,
    /// When the block last left the small queue; 0: never. Touched under the queues' lock.
    departed: AtomicU32,
}

impl BlockCache {
    /// A cache of at most `bytes`.
    #[must_use]
    pub fn new(bytes: u64) -> Arc<Self> {
        let shards = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shard = |_| {
            CachePadded::new(Shard {
                whole: bytes / shards,
                capacity: AtomicU64::new(bytes / shards),
                bytes: AtomicU64::new(0),
                queues: Mutex::new(Queues {
                    sweep_at: SWEEP_MIN,
                    ..Queues::default()
                }),
            })
        };
        Arc::new(BlockCache {
            shards: (0..shards).map(shard).collect(),
            tables: CachePadded::new(AtomicU64::new(0)),
            kept: AtomicU64::new(0),
            most: AtomicU64::new(0),
            telling: Mutex::new(()),
            hits: Counter::new(),
            misses: Counter::new(),
        })
    }

    /// Bytes held now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes()).sum()
    }

    /// Bytes for which the cache makes room (C5): what open tables hold outside of it, and blocks
    /// kept for it.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        self.table_bytes() + self.kept_bytes()
    }

    /// Bytes that open tables hold outside of the cache.
    #[must_use]
    #[inline]
    pub fn table_bytes(&self) -> u64 {
        // Relaxed: a figure.
        self.tables.load(Ordering::Relaxed)
    }

    /// Bytes of blocks kept while their table is being written.
    fn kept_bytes(&self) -> u64 {
        // Relaxed: a figure.
        self.kept.load(Ordering::Relaxed)
    }

    /// Bytes that blocks may take, with what is pinned now.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        // Relaxed: see `change`.
        let of = |shard: &CachePadded<Shard>| shard.capacity.load(Ordering::Relaxed);
        self.shards.iter().map(of).sum()
    }

    /// Bytes that could be added, pinned or not, without an eviction.
    pub(crate) fn room(&self) -> u64 {
        let taken = self.pinned_bytes() + self.bytes();
        self.whole().saturating_sub(taken)
    }

    /// Bytes for blocks and what tables pin together.
    fn whole(&self) -> u64 {
        self.shards.iter().map(|shard| shard.whole).sum()
    }

    /// Tables hold `more` and give up `less` bytes outside of the cache.
    pub(crate) fn pin(&self, more: u64, less: u64) {
        self.change(&self.tables, more, less);
    }

    /// Tables being written keep `more` bytes of blocks for the cache, and give `less` up.
    pub(crate) fn keep(&self, more: u64, less: u64) {
        self.change(&self.kept, more, less);
    }

    fn change(&self, pinned: &AtomicU64, more: u64, less: u64) {
        let _telling = self.telling.lock();
        // Relaxed: each shard obeys its new capacity at its next insertion, or when trimmed.
        pinned.fetch_add(more.wrapping_sub(less), Ordering::Relaxed);
        let share = self.pinned_bytes() / self.shards.len() as u64;
        for shard in &self.shards {
            let capacity = shard
                .whole
                .saturating_sub(share)
                .max(shard.whole / LEAST_SHARE);
            shard.capacity.store(capacity, Ordering::Relaxed);
        }
    }

    /// Evicts what tables have taken the room of since the last insertions (C5).
    pub fn trim(&self) {
        for shard in &self.shards {
            // Relaxed: see `change`.
            if shard.bytes() <= shard.capacity.load(Ordering::Relaxed) {
                continue;
            }
            // What is evicted is freed after the queues are unlocked.
            let mut evicted = Vec::new();
            shard.make_room(&mut shard.queues.lock(), 0, &mut evicted);
        }
    }

    /// Whether blocks that made room for tables left holes which no block can use again; who asks
    /// next hears of later ones only (C6).
    #[must_use]
    pub fn take_holes(&self) -> bool {
        let whole = self.whole();
        let blocks = self.bytes() + self.kept_bytes();
        let usable = whole.saturating_sub(self.table_bytes()).max(blocks);
        // Relaxed: a figure, taken by whoever changes it.
        let most = self.most.fetch_max(blocks, Ordering::Relaxed).max(blocks);
        let (order, few) = (Ordering::Relaxed, HOLES_MIN.max(whole / HOLES_SHARE));
        most > usable + few
            && self
                .most
                .compare_exchange(most, blocks, order, order)
                .is_ok()
    }

    /// Lookups that found their block.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.sum()
    }

    /// Lookups that did not.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses.sum()
    }

    fn shard(&self, file: u64, number: usize) -> &Shard {
        // Fibonacci hashing: consecutive blocks go to different shards.
        let mixed = (file << 32 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let shards = self.shards.len() as u64;
        &self.shards[usize::try_from(mixed % shards).unwrap_or(0)]
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockCache({} bytes)", self.bytes())
    }
}

impl TableBlocks {
    /// Empty slots for the `blocks` blocks of table `file`.
    pub(crate) fn new(cache: Arc<BlockCache>, file: u64, blocks: usize) -> Arc<Self> {
        Arc::new(TableBlocks {
            cache,
            file,
            pinned: OnceLock::new(),
            slots: Array::of((0..blocks).map(|_| Slot::default())),
        })
    }

    /// Tells the cache what the table holds in memory besides its blocks (C5); once.
    pub(crate) fn pin(&self, bytes: u64) {
        if self.pinned.set(bytes).is_ok() {
            self.cache.pin(bytes, 0);
        }
    }

    /// Bytes of memory the slots take.
    pub(crate) fn bytes(&self) -> u64 {
        self.slots.bytes() as u64
    }

    /// Runs `use_block` on block `number` if it is cached (C3).
    #[inline]
    pub(crate) fn with<R>(
        &self,
        number: usize,
        use_block: impl FnOnce(&Arc<[u8]>) -> R,
    ) -> Option<R> {
        let slot = &self.slots[number];
        let held = slot.block.try_read();
        let Some(block) = held.as_deref().and_then(Option::as_ref) else {
            self.cache.misses.increment();
            return None;
        };
        // Relaxed, here and wherever `uses` is touched: a hint that publishes nothing; two lookups
        // at once may count as one.
        let uses = slot.uses.load(Ordering::Relaxed);
        if uses < USES_MAX {
            slot.uses.store(uses + 1, Ordering::Relaxed);
        }
        let result = use_block(block);
        drop(held);
        self.cache.hits.increment();
        Some(result)
    }

    /// Asks for the memory of block `number`'s slot.
    #[inline]
    pub(crate) fn prefetch_slot(&self, number: usize) {
        if let Some(slot) = self.slots.get(number) {
            prefetch(slot);
        }
    }

    /// Asks for the memory in which a search of block `number` looks, if it is cached. Counts as
    /// no use.
    #[inline]
    pub(crate) fn prefetch_block(&self, number: usize) {
        let held = self.slots.get(number).map(|slot| slot.block.try_read());
        if let Some(Some(Some(block))) = held.as_ref().map(|held| held.as_deref()) {
            prefetch_head(block);
        }
    }

    /// As `prefetch_block`, and its values.
    #[inline]
    pub(crate) fn prefetch_whole(&self, number: usize) {
        let held = self.slots.get(number).map(|slot| slot.block.try_read());
        if let Some(Some(Some(block))) = held.as_ref().map(|held| held.as_deref()) {
            prefetch_all(block);
        }
    }

    /// Puts block `number` into its slot, unless it is there or there is no room.
    pub(crate) fn insert(self: &Arc<Self>, number: usize, block: &Arc<[u8]>) {
        let shard = self.cache.shard(self.file, number);
        let weight = weight(block);
        let (Ok(index), Ok(queued_weight)) = (u32::try_from(number), u32::try_from(weight)) else {
            return;
        };
        // What is evicted is freed after the queues are unlocked.
        let mut evicted = Vec::new();
        let mut queues = shard.queues.lock();
        if !shard.make_room(&mut queues, weight, &mut evicted) {
            return;
        }
        let slot = &self.slots[number];
        let Some(mut held) = slot.block.try_write() else {
            return;
        };
        if held.is_some() {
            return;
        }
        *held = Some(Arc::clone(block));
        // Relaxed: see `Shard::bytes`.
        shard.bytes.fetch_add(weight, Ordering::Relaxed);
        slot.uses.store(0, Ordering::Relaxed);
        let entry = Queued {
            table: Arc::downgrade(self),
            number: index,
            weight: queued_weight,
        };
        // Relaxed: the queues' lock orders every access.
        queues.push(entry, slot.departed.load(Ordering::Relaxed));
        drop(held);
        drop(queues);
    }
}

impl Drop for TableBlocks {
    fn drop(&mut self) {
        self.cache.pin(0, self.pinned.get().copied().unwrap_or(0));
        for number in 0..self.slots.len() {
            if let Some(block) = self.slots[number].block.get_mut().take() {
                let shard = self.cache.shard(self.file, number);
                // Relaxed: see `Shard::bytes`.
                shard.bytes.fetch_sub(weight(&block), Ordering::Relaxed);
            }
        }
    }
}

impl std::fmt::Debug for TableBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableBlocks({} of file {})", self.slots.len(), self.file)
    }
}

impl Shard {
    fn bytes(&self) -> u64 {
        // Relaxed: a tally that publishes nothing. It grows only under the queues' lock, so
        // whoever holds that lock sees at most too much, never too little (C2).
        self.bytes.load(Ordering::Relaxed)
    }

    /// Evicts until `weight` fits; false if it cannot.
    fn make_room(
        &self,
        queues: &mut Queues,
        weight: u64,
        evicted: &mut Vec<(Arc<TableBlocks>, Arc<[u8]>)>,
    ) -> bool {
        // Relaxed: see `BlockCache::change`.
        let capacity = self.capacity.load(Ordering::Relaxed);
        if weight > capacity {
            return false;
        }
        // Each entry has at most USES_MAX more chances, and moves to the main queue once.
        let entries = queues.small.len() + queues.main.len();
        for _ in 0..=entries * (USES_MAX as usize + 2) {
            if self.bytes() + weight <= capacity {
                return true;
            }
            let from_small = queues.small_bytes > capacity / SMALL_SHARE;
            let evict = match from_small || queues.main.is_empty() {
                true => queues.evict_small(),
                false => queues.evict_main(),
            };
            if let Some((table, block)) = evict {
                // Relaxed: see `Shard::bytes`.
                self.bytes
                    .fetch_sub(self::weight(&block), Ordering::Relaxed);
                evicted.push((table, block));
            }
        }
        false
    }
}

type Evicted = Option<(Arc<TableBlocks>, Arc<[u8]>)>;

impl Slot {
    /// Takes the block out; `None` if somebody is using the slot (C4).
    fn empty(&self) -> Option<Arc<[u8]>> {
        self.block.try_write()?.take()
    }
}

impl Queues {
    /// Appends an entry whose block left the small queue at `departed`: not long ago, then it has
    /// proved its worth.
    fn push(&mut self, entry: Queued, departed: u32) {
        let ago = self.departures.wrapping_sub(departed) as usize;
        if departed != 0 && ago <= self.main.len() {
            self.main.push_back(entry);
        } else {
            self.small_bytes += u64::from(entry.weight);
            self.small.push_back(entry);
        }
        if self.small.len() + self.main.len() >= self.sweep_at {
            self.sweep();
        }
    }

    /// Takes the oldest of the small queue: out of the cache, or, if it was used, into the main
    /// queue.
    fn evict_small(&mut self) -> Evicted {
        let entry = self.small.pop_front()?;
        self.small_bytes -= u64::from(entry.weight);
        let table = entry.table.upgrade()?;
        let slot = &table.slots[entry.number as usize];
        let unused = slot.uses.swap(0, Ordering::Relaxed) == 0;
        if unused && let Some(block) = slot.empty() {
            self.departures = self.departures.wrapping_add(1).max(1);
            // Relaxed: the queues' lock orders every access.
            slot.departed.store(self.departures, Ordering::Relaxed);
            return Some((table, block));
        }
        self.main.push_back(entry);
        None
    }

    /// Takes the oldest of the main queue: out of the cache, or to the queue's end if it was used.
    fn evict_main(&mut self) -> Evicted {
        let entry = self.main.pop_front()?;
        let table = entry.table.upgrade()?;
        let slot = &table.slots[entry.number as usize];
        let uses = slot.uses.load(Ordering::Relaxed);
        if uses == 0
            && let Some(block) = slot.empty()
        {
            return Some((table, block));
        }
        slot.uses.store(uses.saturating_sub(1), Ordering::Relaxed);
        self.main.push_back(entry);
        None
    }

    /// Forgets the entries of closed tables (C1); next when there are twice as many as now.
    fn sweep(&mut self) {
        let is_open = |entry: &Queued| entry.table.strong_count() > 0;
        self.small.retain(is_open);
        self.main.retain(is_open);
        self.small_bytes = self.small.iter().map(|entry| u64::from(entry.weight)).sum();
        self.sweep_at = (2 * (self.small.len() + self.main.len())).max(SWEEP_MIN);
    }
}

/// Asks for the part of a block where its keys stand: what a search reads, in any order.
#[inline]
pub(crate) fn prefetch_head(block: &[u8]) {
    prefetch_all(block.get(..KEYS_BYTES).unwrap_or(block));
}

/// What a block takes of the capacity.
pub(crate) fn weight(block: &[u8]) -> u64 {
    block.len() as u64 + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
