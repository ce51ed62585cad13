//! A data entry: up to eight keys of one range, in the order in which they came.
//!
//! Source: S3 (VLDB '19) 5.1, with findings S3-1, S3-3 and S3-6 mended: an entry holds pointers to
//! keys' records, never versions, and a full one never changes.
//!
//! ```text
//! block  | above 8 | word 8 * 8 | node 8 * 8 |
//! ```
//! K1. Slots are filled in turn: none while the one before is empty. So who fills a slot has
//!     looked at all before it, and a key is in a block once.
//! K2. A block with all its slots filled never changes again. Only such a block is replaced.
//! K3. `above` and its word never change: the anchor whose range begins
//!     where this block's ends, or null.
//! K4. A word is 0, or its slot's key's prefix word: a copy that spares a look at the node.
//!
//! Threads: any; lock-free. Tests: `tests.rs` beside; `two_insertions_into_one_entry` and
//! `a_split_under_*` in `tests/loom.rs`.

use crate::chains::node::{Node, NodeHead};
use crate::chains::version::VersionHead;
use crate::counters::Tally;
use crate::ordering::{Site, is_sound, swap_in};
use crate::probe::Probe;
use std::cmp::Ordering as Compared;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use velella_sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use velella_sync::prefetch::prefetch_at;

/// Keys of a block: the paper's M.
pub(crate) const KEYS: usize = match (cfg!(loom), cfg!(shuttle)) {
    (true, _) => 2,
    (_, true) => 3,
    _ => 8,
};

#[derive(Debug)]
#[repr(C)]
pub(crate) struct BlockHead {
    above: *mut NodeHead,
    above_word: u64,
    words: [AtomicU64; KEYS],
    nodes: [AtomicPtr<NodeHead>; KEYS],
}

/// A block of a list that lives during `'l`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block<'l> {
    raw: NonNull<BlockHead>,
    life: PhantomData<&'l BlockHead>,
}

// SAFETY: what a block refers to is shared by all threads anyway: through atomics, or immutable.
unsafe impl Send for Block<'_> {}

/// What became of a search in a block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Slot<'l> {
    /// The key's node.
    Found(Node<'l>),
    /// It is not there, and this is the first empty slot.
    Empty(usize),
    /// It is not there, nor is there room.
    Full,
}

impl<'l> Block<'l> {
    /// The current block of `anchor`.
    ///
    /// # Safety
    /// `anchor` is an anchor, and so its head a block; its list lives during `'l`.
    #[inline]
    pub(crate) unsafe fn of(anchor: Node<'l>) -> Block<'l> {
        // Acquire, partners: the Release in `replace`, and of whoever linked the anchor: the block
        // is complete.
        let raw = anchor.fields().head.load(Ordering::Acquire);
        Block {
            raw: NonNull::new(raw.cast()).expect("an anchor has a block from the start"),
            life: PhantomData,
        }
    }

    /// Writes a block with `nodes`, at most [`KEYS`], and their prefix words; its range ends at
    /// `above`.
    ///
    /// # Safety
    /// `memory` is aligned, nobody else's, large enough, and lives in `'l`.
    pub(crate) unsafe fn write(
        memory: NonNull<u8>,
        nodes: &[(u64, Node<'l>)],
        above: Option<Node<'l>>,
    ) -> Block<'l> {
        let raw = memory.cast::<BlockHead>();
        let word = |at: usize| nodes.get(at).map_or(0, |(word, _)| *word);
        let node = |at: usize| nodes.get(at).map_or(null_mut(), |(_, node)| node.as_ptr());
        let head = BlockHead {
            above: above.map_or(null_mut(), Node::as_ptr),
            above_word: above.map_or(0, Node::prefix),
            words: std::array::from_fn(|at| AtomicU64::new(word(at))),
            nodes: std::array::from_fn(|at| AtomicPtr::new(node(at))),
        };
        // SAFETY: the caller's promise.
        unsafe { raw.write(head) };
        Block {
            raw,
            life: PhantomData,
        }
    }

    /// The same block, for whoever keeps its list alive by other means.
    ///
    /// # Safety
    /// The list lives during `'m`.
    pub(crate) unsafe fn extend<'m>(self) -> Block<'m> {
        Block {
            raw: self.raw,
            life: PhantomData,
        }
    }

    #[inline]
    fn fields(self) -> &'l BlockHead {
        // SAFETY: a block is written through atomics only, and lives as long as its list.
        unsafe { self.raw.as_ref() }
    }

    /// As an anchor's head, which it shares with the versions of a key.
    pub(crate) fn as_head(self) -> *mut VersionHead {
        self.raw.as_ptr().cast()
    }

    /// Makes this block, which is complete, the anchor's, if `full` still is (K2).
    pub(crate) fn replace(self, full: Block<'l>, anchor: Node<'l>) -> bool {
        let head = &anchor.fields().head;
        // Release, partner: the Acquire in `of`.
        swap_in(Site::Split, head, full.as_head(), self.as_head())
    }

    /// Asks for its cache lines.
    #[inline]
    pub(crate) fn prefetch(self) {
        let start = self.raw.as_ptr().cast::<u8>();
        prefetch_at(start);
        prefetch_at(start.wrapping_add(64));
        prefetch_at(start.wrapping_add(128));
    }

    /// Asks for the head of the anchor above.
    #[inline]
    pub(crate) fn prefetch_above(self) {
        prefetch_at(self.fields().above);
    }

    /// The anchor whose range begins where this block's ends.
    #[inline]
    pub(crate) fn above(self) -> Option<Node<'l>> {
        // SAFETY: null or an anchor of the list (K3).
        unsafe { Node::from_raw(self.fields().above) }
    }

    /// The anchor whose range begins where this block's ends, if the key does not lie before it.
    #[inline]
    pub(crate) fn beyond(self, probe: &Probe<'_>, tally: &mut Tally) -> Option<Node<'l>> {
        let above = self.above()?;
        tally.comparisons += 1;
        let stands = probe.compare(self.fields().above_word, || above.key());
        (stands != Compared::Greater && is_sound(Site::Beyond)).then_some(above)
    }

    /// The node in a slot.
    #[inline]
    fn node(self, at: usize) -> Option<Node<'l>> {
        // Acquire, partner: the Release in `fill`: the node is complete.
        let node = self.fields().nodes.get(at)?.load(Ordering::Acquire);
        // SAFETY: null or a node, which lives as long as the list.
        unsafe { Node::from_raw(node) }
    }

    /// The prefix word of the node in a slot.
    #[inline]
    fn word(self, at: usize, node: Node<'l>) -> u64 {
        // Relaxed: any value that is not 0 is the right one (K4).
        match self.fields().words[at].load(Ordering::Relaxed) {
            0 => node.prefix(),
            word => word,
        }
    }

    /// The nodes, in the order in which they came.
    #[inline]
    pub(crate) fn nodes(self) -> impl Iterator<Item = (u64, Node<'l>)> {
        (0..KEYS).map_while(move |at| {
            let node = self.node(at)?;
            Some((self.word(at, node), node))
        })
    }

    /// Where the key is, or could be put.
    #[inline]
    pub(crate) fn search(self, probe: &Probe<'_>, tally: &mut Tally) -> Slot<'l> {
        let mut count = 0;
        for (word, node) in self.nodes() {
            tally.comparisons += 1;
            if probe.compare(word, || node.key()) == Compared::Equal {
                return Slot::Found(node);
            }
            count += 1;
        }
        if count < KEYS {
            Slot::Empty(count)
        } else {
            Slot::Full
        }
    }

    /// Puts `node` into the empty slot `at`, unless another thread has taken it. The caller has
    /// looked at all slots before it (K1).
    pub(crate) fn fill(self, at: usize, node: Node<'l>) -> bool {
        let slot = &self.fields().nodes[at];
        // Release, partner: the Acquire in `node`: key, head and first version are complete.
        if !swap_in(Site::NodeLink, slot, null_mut(), node.as_ptr()) {
            return false;
        }
        // Relaxed: see K4.
        self.fields().words[at].store(node.prefix(), Ordering::Relaxed);
        true
    }

    /// The nodes as they are now, sorted by `is_less`.
    #[inline]
    pub(crate) fn sorted(
        self,
        is_less: impl Fn((u64, Node<'l>), (u64, Node<'l>)) -> bool,
    ) -> Sorting {
        let mut sorting = Sorting { slots: 0, count: 0 };
        let mut sorted: [Option<(u64, Node<'l>)>; KEYS] = [None; KEYS];
        let mut slots = [0u8; KEYS];
        for (count, new) in self.nodes().enumerate() {
            let mut at = count;
            while let Some(before) = at.checked_sub(1)
                && let Some(other) = sorted[before]
                && is_less(new, other)
            {
                (sorted[at], slots[at]) = (sorted[before], slots[before]);
                at = before;
            }
            sorted[at] = Some(new);
            slots[at] = u8::try_from(count).expect("few slots");
            sorting.count += 1;
        }
        for (at, slot) in slots.iter().enumerate() {
            sorting.slots |= u32::from(*slot) << (4 * at);
        }
        sorting
    }

    /// The node at a rank of a sorting.
    #[inline]
    pub(crate) fn ranked(self, sorting: Sorting, rank: u8) -> Option<Node<'l>> {
        self.node(sorting.slot(rank)?)
    }

    /// The same, and its prefix word.
    #[inline]
    pub(crate) fn ranked_word(self, sorting: Sorting, rank: u8) -> Option<(u64, Node<'l>)> {
        let slot = sorting.slot(rank)?;
        let node = self.node(slot)?;
        Some((self.word(slot, node), node))
    }
}

/// Some of a block's slots, the first so many, in the order of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sorting {
    /// Four bits a rank.
    slots: u32,
    count: u8,
}

impl Sorting {
    /// The slot at a rank.
    #[inline]
    fn slot(self, rank: u8) -> Option<usize> {
        (rank < self.len()).then(|| (self.slots >> (4 * rank)) as usize & 0xf)
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(self) -> u8 {
        self.count
    }
}
