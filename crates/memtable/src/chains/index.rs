//! From a key straight to its node: what turns most searches of a get into three memory accesses.
//!
//! Not from the paper: a list of a million keys costs some thirty comparisons and ten cache misses
//! a search, whichever way its towers lie. Since nodes are never removed and keys are distinct, a
//! hash table that only grows can stand beside the list. Keys stay sorted in the list; the table
//! knows bytewise equal keys only: under another order what it finds is the key's node, too, but
//! what it does not find may be there, so that a get goes to the list.
//!
//! ```text
//! table 0   2^13 slots, in buckets of one cache line; a slot is 0 or hash 16 | address 48
//! table 1   2^14 slots, or as many as the keys expected need: then there are two to look into
//! table k   twice as many as table k - 1
//! ```
//! I1. A node is entered after it was linked and before its first version can be stamped. So who
//!     has seen a stamp drawn finds every node of a version at or below it (the visibility lemma
//!     holds for the table as for the list), and what is missing from a complete table is absent.
//!     Who comes upon a linked node that is missing enters it too.
//! I2. A slot is written once. A key goes into the first bucket, from its own on, that has a free
//!     slot; so a search may stop at a bucket with a free slot.
//! I3. Tables are filled in turn and never rebuilt: a search looks into all of them, the largest
//!     first, and their cache lines are asked for at once.
//! I4. Where no slot is found (keys made to collide) the table is marked incomplete, and a search
//!     that misses goes to the list from then on.
//!
//! Threads: any; the lock is taken once per table. Tests: `tests.rs` beside; the contract suite.

use crate::chains::node::{Node, NodeHead};
use crate::spare::Supply;
use std::ptr::null_mut;
use velella_sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use velella_sync::lock::Mutex;
use velella_sync::memory::Block;
use velella_sync::prefetch::prefetch_at;

type Slot = AtomicPtr<NodeHead>;

/// Slots of a bucket: one cache line.
const BUCKET: usize = 8;
/// Buckets tried for one key.
const REACH: usize = 4;
/// Slots of the first table: what a memtable takes that gets a few keys only, whatever is expected.
const FIRST: usize = match (cfg!(loom), cfg!(shuttle)) {
    (true, _) => 1 << 3,
    (_, true) => 1 << 6,
    _ => 1 << 13,
};
const TABLES: usize = if cfg!(loom) { 1 } else { 20 };
/// Most slots of the second table, whatever is expected: 64 Mi, 512 MiB.
const SECOND_MAX: usize = FIRST << 13;
/// One insertion in so many is counted.
const SAMPLE: usize = 64;

/// The hash of a key: multiply and fold, as in wyhash.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both halves of the product are taken"
    )]
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ (product & u128::from(u64::MAX)) as u64
    };
    let mut state = key.len() as u64 ^ 0xa076_1d64_78bd_642f;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), 0xe703_7ed1_a0b4_28db);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = u64::from_le_bytes(last);
    fold(state ^ last, 0x8ebc_6af0_9c88_c6e3)
}

/// The upper bits of a slot: part of the hash, to spare comparisons.
fn tag(hash: u64) -> usize {
    const TOP: u64 = 0xffff << 48;
    usize::try_from(hash & TOP).expect("only 64-bit targets are supported")
}

const ADDRESS: usize = (1 << 48) - 1;

/// A hash table over the nodes of a list.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    tables: [AtomicPtr<Slot>; TABLES],
    /// Sampled insertions per table.
    sampled: [AtomicUsize; TABLES],
    /// Slots of the second table: a power of two.
    second: usize,
    /// The table that insertions start at.
    filling: AtomicUsize,
    is_complete: AtomicBool,
    /// What the tables lie in; given back with the index.
    blocks: Mutex<Vec<Block>>,
    bytes: AtomicUsize,
    supply: Supply,
}

/// Slots of the second table of an index for so many keys, and an eighth more: a table is left when
/// it is three fifths full.
fn second_slots(keys: usize) -> usize {
    let slots = keys.saturating_add(keys / 8).saturating_mul(5) / 3;
    slots.clamp(2 * FIRST, SECOND_MAX).next_power_of_two()
}

/// Bytes of a table of so many slots: one bucket more than they take, to begin at a cache line.
fn bytes_of(slots: usize) -> usize {
    (slots + BUCKET) * size_of::<Slot>()
}

/// The first slot of a table: at a cache line. A model's slots are larger, and lie as they lie.
#[inline]
fn first_slot(start: *mut Slot) -> *mut Slot {
    match cfg!(any(loom, shuttle)) {
        true => start,
        false => start.wrapping_add(start.align_offset(64)),
    }
}

/// Makes the zeroed table at `start` one of null slots, which outside a model it is already.
///
/// # Safety
/// The table's memory is the caller's alone, and large enough.
unsafe fn fill(start: *mut Slot, slots: usize) {
    if cfg!(any(loom, shuttle)) {
        for slot in 0..slots {
            // SAFETY: the caller's promise.
            unsafe { start.wrapping_add(slot).write(Slot::new(null_mut())) };
        }
    }
}

impl KeyIndex {
    /// An empty index; without `is_used` it is never complete. It takes no memory before the first
    /// key.
    pub(crate) fn new(is_used: bool, supply: &Supply) -> Self {
        KeyIndex {
            second: second_slots(0),
            tables: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
            sampled: std::array::from_fn(|_| AtomicUsize::new(0)),
            filling: AtomicUsize::new(0),
            is_complete: AtomicBool::new(is_used && !cfg!(loom)),
            blocks: Mutex::new(Vec::new()),
            bytes: AtomicUsize::new(0),
            supply: supply.clone(),
        }
    }

    /// Makes the index, which is still empty, one for about so many keys.
    pub(crate) fn expect(&mut self, keys: usize) {
        debug_assert_eq!(self.bytes(), 0, "the second table is not made yet");
        self.second = second_slots(keys);
    }

    /// Bytes taken from the system.
    pub(crate) fn bytes(&self) -> usize {
        // Relaxed: a figure, it guards nothing.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether a key that is not found is absent (I1, I4).
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // Acquire, partner: the Release in `insert`.
        self.is_complete.load(Ordering::Acquire)
    }

    #[inline]
    fn slots_of(&self, table: usize) -> usize {
        match table {
            0 => FIRST,
            _ => self.second << (table - 1),
        }
    }

    #[inline]
    fn table(&self, table: usize) -> Option<&[Slot]> {
        // Acquire, partner: the Release in `grow`.
        let start = self.tables.get(table)?.load(Ordering::Acquire);
        if start.is_null() {
            return None;
        }
        let start = first_slot(start);
        // SAFETY: `grow` allocated so many slots from the first cache line on, all null, and they
        // are freed with the index only.
        Some(unsafe { std::slice::from_raw_parts(start, self.slots_of(table)) })
    }

    /// The first slot of the key's bucket.
    #[inline]
    fn home(hash: u64, slots: &[Slot]) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "masked by the table's size"
        )]
        let slot = hash as usize & (slots.len() - 1);
        slot & !(BUCKET - 1)
    }

    /// Asks for the key's bucket in every table; says how many tables there are.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) -> usize {
        let mut count = 0;
        while let Some(table) = self.table(count) {
            prefetch_at(&raw const table[Self::home(hash, table)]);
            count += 1;
        }
        count
    }

    /// The node of a key with this hash that `is_wanted`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_wanted: impl Fn(Node<'_>) -> bool) -> Option<Node<'_>> {
        let count = self.prefetch(hash);
        for table in (0..count).rev() {
            let slots = self.table(table)?;
            let found = search(slots, Self::home(hash, slots), tag(hash), &is_wanted);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Enters a node that was just linked (I1).
    pub(crate) fn insert(&self, hash: u64, node: Node<'_>) {
        // Relaxed: a hint where to start.
        let mut table = self.filling.load(Ordering::Relaxed);
        let address = node.as_ptr();
        while address.addr() & !ADDRESS == 0 && (self.table(table).is_some() || self.grow(table)) {
            let Some(slots) = self.table(table) else {
                break;
            };
            let entry = address.map_addr(|address| address | tag(hash));
            if enter(slots, Self::home(hash, slots), entry) {
                self.count(hash, table);
                return;
            }
            table += 1;
        }
        // Release, partner: the Acquire in `is_complete` (I4).
        self.is_complete.store(false, Ordering::Release);
    }

    /// Notes an insertion, and moves on when the table is three fifths full.
    fn count(&self, hash: u64, table: usize) {
        if !(hash >> 32).is_multiple_of(SAMPLE as u64) {
            return;
        }
        // Relaxed: statistics.
        let sampled = self.sampled[table].fetch_add(1, Ordering::Relaxed) + 1;
        if sampled * SAMPLE * 5 >= self.slots_of(table) * 3 {
            // Relaxed: a hint.
            self.filling.fetch_max(table + 1, Ordering::Relaxed);
        }
    }

    /// Makes table `table`, unless the one before is suspiciously empty for having overflowed.
    #[cold]
    fn grow(&self, table: usize) -> bool {
        let mut blocks = self.blocks.lock();
        if table >= TABLES {
            return false;
        }
        if self.table(table).is_some() {
            return true;
        }
        if let Some(before) = table.checked_sub(1) {
            // Relaxed: statistics.
            let sampled = self.sampled[before].load(Ordering::Relaxed);
            if sampled * SAMPLE * 4 < self.slots_of(before) {
                return false;
            }
        }
        let slots = self.slots_of(table);
        let block = self.supply.spare.take_zeroed(bytes_of(slots));
        let start = block.start().as_ptr().cast();
        // SAFETY: the block was made for this table, and nobody else knows it.
        unsafe { fill(start, slots) };
        // Relaxed: see `bytes`.
        self.bytes.fetch_add(block.size(), Ordering::Relaxed);
        blocks.push(block);
        // Release, partner: the Acquire in `table`.
        self.tables[table].store(start, Ordering::Release);
        true
    }
}

impl Drop for KeyIndex {
    fn drop(&mut self) {
        for block in self.blocks.get_mut().drain(..) {
            self.supply.spare.give_table(block);
        }
    }
}

/// Looks for a node in the buckets from `home` on.
#[inline]
fn search<'l>(
    slots: &'l [Slot],
    home: usize,
    tag: usize,
    is_wanted: &impl Fn(Node<'_>) -> bool,
) -> Option<Node<'l>> {
    for reach in 0..REACH {
        let bucket = (home + reach * BUCKET) & (slots.len() - 1);
        for slot in &slots[bucket..bucket + BUCKET] {
            // Acquire, partner: the Release in `enter`: the node is complete.
            let entry = slot.load(Ordering::Acquire);
            if entry.is_null() {
                return None;
            }
            if entry.addr() & !ADDRESS == tag {
                let address = entry.map_addr(|address| address & ADDRESS);
                // SAFETY: entered by `insert` from a node, which lives as long as its list and
                // so as the index beside it.
                let node = unsafe { Node::from_raw(address) }?;
                if is_wanted(node) {
                    return Some(node);
                }
            }
        }
    }
    None
}

/// Writes `entry` into the first free slot from `home` on, if there is one in reach (I2).
fn enter(slots: &[Slot], home: usize, entry: *mut NodeHead) -> bool {
    for reach in 0..REACH {
        let bucket = (home + reach * BUCKET) & (slots.len() - 1);
        for slot in &slots[bucket..bucket + BUCKET] {
            // Release, partner: the Acquire in `search`. Relaxed on failure: the slot is taken.
            let entered =
                slot.compare_exchange(null_mut(), entry, Ordering::Release, Ordering::Relaxed);
            if entered.is_ok() {
                return true;
            }
        }
    }
    false
}
