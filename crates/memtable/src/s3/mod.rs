//! The S3 memtable: keys in unsorted entries of eight, the entries in order, guards above them.
//!
//! Source: S3 (VLDB '19) 3-5.1. Each thread owns areas there, and an entry is redistributed in
//! place; here (findings S3-1 to S3-6) any thread writes anywhere, and full entries are replaced:
//!
//! - An *anchor* begins a range of keys, and stands for ever; the first one begins all ranges. Its
//!   head points to the current *block* of the range, its data entry.
//! - A new key goes into the first empty slot of its range's block, by one CAS.
//! - Into a full block it goes by a split: two blocks with the keys of both halves, the upper one
//!   under a new anchor to which the lower one refers, and one CAS of the old anchor's head. Since
//!   full blocks never change, nothing is frozen, nobody waits, and the new key enters by the same
//!   CAS.
//! - The anchors are the nodes of a skip list with a guard directory, all of them with towers. It
//!   is told of a new anchor after the split; until then the way goes through the lower block.
//!
//! E1. The keys at or above an anchor's, and below that of the next, are in its block; all in the
//!     anchor's current one, those linked so far in a block that was current when it was read.
//! E2. A key that is not below a block's end is looked for from the anchor there on. So a search
//!     may begin at any anchor that is not above the key: most do at the guard's before it, without
//!     a look at the towers (decision 0009 has what that spares).
//! E3. Blocks are never reused, so that cursors may stand on them; neither are versions' records,
//!     which hold the head of a key's versions, moved: blocks point to them.
//!
//! Threads: all methods from any thread; lock-free. Tests: `tests.rs` beside; `two_insertions_*`
//! and `a_split_*` in `tests/loom.rs`.

pub(crate) mod block;

use crate::chains::Chained;
use crate::chains::node::{Node, node_bytes};
use crate::chains::sorted::Sorted;
use crate::chains::store::Store;
use crate::counters::{Counters, Tally};
use crate::guards::GuardOptions;
use crate::heights::random_height;
use crate::jellyfish::list::{List, Place as Found, Splice};
use crate::jellyfish::tower::LEVELS;
use crate::probe::{Probe, compare};
use crate::spare::Supply;
use block::{Block, BlockHead, KEYS, Slot, Sorting};
use std::cmp::Ordering as Compared;
use std::sync::Arc;
use velella_base::Order;
use velella_sync::atomic::Ordering;
use velella_sync::{Guard, spot};

/// Ranges that are passed on the way from a guard's anchor before a search through the towers is
/// cheaper. Most often it is none or one: each anchor was a guard when the directory was made, and
/// there are at most twice as many by now.
const STEPS: usize = if cfg!(any(loom, shuttle)) { 0 } else { 4 };

/// The S3 memtable.
pub(crate) type S3 = Chained<Entries>;

/// Keys in entries.
#[derive(Debug)]
pub(crate) struct Entries {
    /// The anchors; the head of the list is the first one.
    anchors: List,
    order: Order,
    is_bytewise: bool,
}

/// A key's rank in a block as it was when the cursor came by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranked {
    block: Block<'static>,
    sorting: Sorting,
    rank: u8,
    /// The rank at which a walk came to the block.
    begun: u8,
}

/// Where a key belongs.
pub(crate) struct Gap<'l> {
    anchor: Node<'l>,
    block: Block<'l>,
    slot: Slot<'l>,
    /// The anchor that a split has made.
    made: Option<Node<'l>>,
}

/// The current block of an anchor of this list.
#[inline]
fn block_of(anchor: Node<'_>) -> Block<'_> {
    // SAFETY: only anchors are handed in: nodes of the list of anchors, and what blocks call the
    // anchor above them.
    unsafe { Block::of(anchor) }
}

/// From `anchor`, which is not above the key, to the anchor and block of the key's range (E2), if
/// at most so many ranges lie between.
#[inline]
fn walk<'l>(
    mut anchor: Node<'l>,
    steps: usize,
    probe: &Probe<'_>,
    tally: &mut Tally,
) -> Option<(Node<'l>, Block<'l>)> {
    for _ in 0..=steps {
        let block = block_of(anchor);
        block.prefetch();
        match block.beyond(probe, tally) {
            Some(next) => anchor = next,
            None => return Some((anchor, block)),
        }
    }
    None
}

impl Entries {
    #[inline]
    fn is_less(&self, a: (u64, Node<'_>), b: (u64, Node<'_>)) -> bool {
        let keys = || (a.1.key(), b.1.key());
        compare(&self.order, self.is_bytewise, (a.0, b.0), keys) == Compared::Less
    }

    /// From `anchor`, which is not above the key, to the anchor and block of the key's range.
    #[inline]
    fn settle<'l>(anchor: Node<'l>, probe: &Probe<'_>, tally: &mut Tally) -> (Node<'l>, Block<'l>) {
        walk(anchor, usize::MAX - 1, probe, tally).expect("a last range has no end")
    }

    /// The anchor and block of the key's range: from a guard's anchor, if that is close, for a
    /// tower on the way is a cache miss like an anchor, and tells less.
    #[inline]
    fn range<'l>(
        &'l self,
        probe: &Probe<'_>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> (Node<'l>, Block<'l>) {
        if let Some(anchor) = self.anchors.guard_of(probe, guard, tally) {
            if let Some(range) = walk(anchor, STEPS, probe, tally) {
                return range;
            }
            self.anchors.note_far(tally);
        }
        let anchor = match self.anchors.find(probe, guard, tally) {
            Found::Found(anchor) | Found::Between(anchor, _) => anchor,
        };
        Self::settle(anchor, probe, tally)
    }

    /// A rank of a block as it is now, if it has that.
    #[inline]
    fn ranked(&self, block: Block<'_>, rank: impl FnOnce(Sorting) -> Option<u8>) -> Option<Ranked> {
        let sorting = block.sorted(|a, b| self.is_less(a, b));
        let rank = rank(sorting)?;
        if rank >= sorting.len() {
            return None;
        }
        // SAFETY: `TableCursor` holds an `Arc` of the memtable for as long as it holds places, and
        // hands them to this memtable only; blocks are never freed before it (E3).
        let block = unsafe { block.extend() };
        Some(Ranked {
            block,
            sorting,
            rank,
            begun: rank,
        })
    }

    /// The first key from the range of `anchor` on, which is not empty unless all is. Asks for all
    /// newest versions at once: after updates they lie anywhere (with that, a seek and ten steps
    /// after Zipf updates took 3.3 us instead of 4.0).
    #[inline]
    fn first_of(&self, anchor: Node<'_>) -> Option<Ranked> {
        let block = block_of(anchor);
        block.prefetch();
        block.prefetch_above();
        for (_, node) in block.nodes() {
            node.prefetch_all();
        }
        for (_, node) in block.nodes() {
            node.prefetch_newest();
        }
        self.ranked(block, |_| Some(0))
    }

    /// A walk has come to a place: asks for what it will need in the next block, each step for what
    /// the step before has brought. With all of a node asked for, 150 ns a pair became 92.
    #[inline]
    fn approach_next(place: Ranked) {
        let Ranked {
            block,
            sorting,
            rank,
            begun,
        } = place;
        // A seek has asked for the nodes only.
        if let Some(soon) = block.ranked(sorting, rank + 1) {
            soon.prefetch_newest();
        }
        let Some(anchor) = block.above() else { return };
        match rank - begun {
            1 => block_of(anchor).prefetch(),
            2 => {
                for (_, node) in block_of(anchor).nodes() {
                    node.prefetch_all();
                }
            }
            _ => {}
        }
    }

    /// How many keys of a sorted block are below the one of `probe`.
    fn below(block: Block<'_>, sorting: Sorting, probe: &Probe<'_>, tally: &mut Tally) -> u8 {
        let mut rank = 0;
        while let Some((word, node)) = block.ranked_word(sorting, rank)
            && probe.compare(word, || node.key()) == Compared::Less
        {
            tally.comparisons += 1;
            rank += 1;
        }
        rank
    }

    /// Replaces a full block by two with its keys and `node`; says whether it did.
    #[cold]
    fn split<'l>(&'l self, node: Node<'l>, probe: &Probe<'_>, gap: &mut Gap<'l>) -> bool {
        debug_assert_eq!(gap.block.nodes().count(), KEYS, "what is split is full");
        // On the stack: an allocator may have each writer wait for
        // whoever frees what was made beside its own.
        let mut nodes = [(probe.prefix(), node); KEYS + 1];
        for (place, held) in nodes.iter_mut().zip(gap.block.nodes()) {
            *place = held;
        }
        let is_ascending = nodes[..KEYS].is_sorted_by(|a, b| self.is_less(*a, *b));
        let is_last = is_ascending && self.is_less(nodes[KEYS - 1], nodes[KEYS]);
        nodes.sort_unstable_by(|a, b| {
            let keys = || (a.1.key(), b.1.key());
            compare(&self.order, self.is_bytewise, (a.0, b.0), keys)
        });
        // Of keys that come in order, no more are expected where they have been.
        let lower = if is_last { KEYS } else { KEYS.div_ceil(2) };
        let (lower, upper) = nodes.split_at(lower);
        let arena = &self.anchors.store.arena;
        // SAFETY: fresh memory of the right size, which lives as long as the list.
        let upper_block = unsafe {
            Block::write(
                arena.alloc(size_of::<BlockHead>()),
                upper,
                gap.block.above(),
            )
        };
        let key = upper[0].1.key();
        // SAFETY: as above.
        let anchor = unsafe { Node::write(arena.alloc(node_bytes(key.len())), key) };
        // Relaxed: published by the CAS in `replace`.
        anchor
            .fields()
            .head
            .store(upper_block.as_head(), Ordering::Relaxed);
        // SAFETY: as above.
        let lower_block =
            unsafe { Block::write(arena.alloc(size_of::<BlockHead>()), lower, Some(anchor)) };
        spot(17);
        let is_done = lower_block.replace(gap.block, gap.anchor);
        if is_done {
            spot(18);
            gap.made = Some(anchor);
        }
        is_done
    }

    /// Enters the anchor that a split has made into the list of anchors.
    #[cold]
    fn enter<'l>(&'l self, anchor: Node<'l>, guard: &Guard, tally: &mut Tally) {
        let probe = Probe::new(anchor.key(), &self.order);
        let mut splice = Splice::new();
        let found = self.anchors.find_splice(&probe, &mut splice, guard, tally);
        let Found::Between(before, after) = found else {
            debug_assert!(false, "E1: two anchors of one key");
            return;
        };
        let linked = self.anchors.link(anchor, &probe, (before, after), tally);
        debug_assert!(linked.is_ok(), "E1: two anchors of one key");
        let height = random_height(LEVELS - 1) + 1;
        self.anchors
            .raise(anchor, &probe, &mut splice, height, tally);
    }
}

impl Sorted for Entries {
    type Place = Ranked;
    type Gap<'l> = Gap<'l>;

    /// The paper has none; without it a get takes three times as long.
    const IS_INDEXED: bool = true;
    /// A node does not know its entry.
    const IS_PLACED: bool = false;

    fn new(order: &Order, guards: GuardOptions, supply: &Supply) -> Self {
        let anchors = List::new(guards, supply);
        let memory = anchors.store.arena.alloc(size_of::<BlockHead>());
        // SAFETY: fresh memory of the right size, which lives as long as the list.
        let first = unsafe { Block::write(memory, &[], None) };
        // Relaxed: nobody else sees the list yet.
        anchors
            .head()
            .fields()
            .head
            .store(first.as_head(), Ordering::Relaxed);
        Entries {
            anchors,
            order: order.clone(),
            is_bytewise: order.is_bytewise(),
        }
    }

    fn store(&self) -> &Arc<Store> {
        &self.anchors.store
    }

    fn bytes(&self) -> usize {
        self.anchors.bytes()
    }

    fn is_empty(&self) -> bool {
        block_of(self.anchors.head()).nodes().next().is_none()
    }

    /// The guard's anchor. The block behind it, most often the key's, is for `approach`: to wait
    /// here for the anchor, which says where it is, would leave nothing to do meanwhile.
    #[inline]
    fn prefetch<'l>(
        &'l self,
        probe: &Probe<'_>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Option<Node<'l>> {
        // Each load of it multiplies what loom has to explore.
        if cfg!(loom) {
            return None;
        }
        let anchor = self.anchors.guard_of(probe, guard, tally)?;
        anchor.prefetch_start();
        Some(anchor)
    }

    #[inline]
    fn approach(&self, start: Node<'_>) {
        block_of(start).prefetch();
    }

    #[inline]
    fn renew(&self, guard: &Guard, waited_for: bool, counters: &Counters) {
        self.anchors.renew(guard, waited_for, counters);
    }

    #[inline]
    fn find<'l>(&'l self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Node<'l>> {
        match self.range(probe, guard, tally).1.search(probe, tally) {
            Slot::Found(node) => Some(node),
            Slot::Empty(_) | Slot::Full => None,
        }
    }

    fn gap<'l>(&'l self) -> Gap<'l> {
        let head = self.anchors.head();
        Gap {
            anchor: head,
            block: block_of(head),
            slot: Slot::Full,
            made: None,
        }
    }

    #[inline]
    fn find_gap<'l>(
        &'l self,
        probe: &Probe<'_>,
        start: Option<Node<'l>>,
        gap: &mut Gap<'l>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Option<Node<'l>> {
        // What was near when it was asked for may be far by now: that is not the directory's fault.
        let near = start.and_then(|anchor| walk(anchor, STEPS, probe, tally));
        let range = near.unwrap_or_else(|| self.range(probe, guard, tally));
        (gap.anchor, gap.block) = range;
        gap.slot = gap.block.search(probe, tally);
        match gap.slot {
            Slot::Found(node) => Some(node),
            Slot::Empty(_) | Slot::Full => None,
        }
    }

    fn link<'l>(
        &'l self,
        node: Node<'l>,
        probe: &Probe<'_>,
        gap: &mut Gap<'l>,
        tally: &mut Tally,
    ) -> Result<(), Node<'l>> {
        loop {
            let is_linked = match gap.slot {
                Slot::Found(other) => return Err(other),
                Slot::Empty(at) => gap.block.fill(at, node),
                Slot::Full => self.split(node, probe, gap),
            };
            tally.cas_attempts += 1;
            if is_linked {
                return Ok(());
            }
            tally.cas_failures += 1;
            (gap.anchor, gap.block) = Self::settle(gap.anchor, probe, tally);
            // Equality is tested anew after every lost race.
            gap.slot = gap.block.search(probe, tally);
        }
    }

    fn raise<'l>(
        &'l self,
        _node: Node<'l>,
        _probe: &Probe<'_>,
        gap: &mut Gap<'l>,
        guard: &Guard,
        tally: &mut Tally,
    ) {
        if let Some(anchor) = gap.made {
            self.enter(anchor, guard, tally);
        }
    }

    #[inline]
    fn node(place: Ranked) -> Node<'static> {
        place
            .block
            .ranked(place.sorting, place.rank)
            .expect("a place is one of the block's ranks")
    }

    fn place(_node: Node<'_>) -> Option<Ranked> {
        None
    }

    fn first(&self) -> Option<Ranked> {
        self.first_of(self.anchors.head())
    }

    fn last(&self) -> Option<Ranked> {
        let mut block = block_of(self.anchors.last());
        while let Some(next) = block.above() {
            block = block_of(next);
        }
        self.ranked(block, |sorting| sorting.len().checked_sub(1))
    }

    fn ceiling(&self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Ranked> {
        let block = self.range(probe, guard, tally).1;
        block.prefetch_above();
        let at = self.ranked(block, |sorting| {
            let rank = Self::below(block, sorting, probe, tally);
            // A walk begins here most times. With these, and words compared instead of keys, a
            // seek and ten steps in a full memtable took 4.2 us instead of 5.5.
            for soon in rank..sorting.len() {
                if let Some(node) = block.ranked(sorting, soon) {
                    node.prefetch_all();
                }
            }
            Some(rank)
        });
        at.or_else(|| self.first_of(block.above()?))
    }

    fn lower(&self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Ranked> {
        let mut block = block_of(self.anchors.span(probe, 0, guard, tally).0.node());
        while let Some(next) = block.above()
            && next.compare(probe) == Compared::Less
        {
            tally.comparisons += 1;
            block = block_of(next);
        }
        self.ranked(block, |sorting| {
            Self::below(block, sorting, probe, tally).checked_sub(1)
        })
    }

    #[inline]
    fn after(&self, place: Ranked, _tally: &mut Tally) -> Option<Ranked> {
        let rank = place.rank + 1;
        if rank < place.sorting.len() {
            let place = Ranked { rank, ..place };
            Self::approach_next(place);
            return Some(place);
        }
        self.first_of(place.block.above()?)
    }

    fn before(
        &self,
        _end: Ranked,
        probe: &Probe<'_>,
        turn: usize,
        guard: &Guard,
        tally: &mut Tally,
        run: &mut Vec<Ranked>,
    ) {
        let start = self.anchors.span(probe, turn.min(2), guard, tally).0;
        let mut anchor = Some(start.node());
        while let Some(current) = anchor {
            let block = block_of(current);
            let end = self.ranked(block, |sorting| {
                Self::below(block, sorting, probe, tally).checked_sub(1)
            });
            let Some(end) = end else { break };
            let ranks = 0..=end.rank;
            run.extend(ranks.map(|rank| Ranked {
                rank,
                begun: rank,
                ..end
            }));
            anchor = block.above().filter(|next| {
                tally.comparisons += 1;
                next.compare(probe) == Compared::Less
            });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
