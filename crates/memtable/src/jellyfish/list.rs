//! The skip list of distinct keys: search, insertion, and runs of predecessors.
//!
//! Source: JellyFish (Middleware '20) 3.1-3.3 with findings JF-5, JF-7 and JF-8 mended: the search
//! comes before any allocation, stops at the first equal key on whatever level, and equality is
//! tested again after every lost race.
//!
//! S1. Every level is sorted strictly, and a subsequence of the one below.
//! S2. At most one node per key: a node is linked by one CAS between two neighbours that enclose
//!     its key, and nothing is ever unlinked.
//! S3. Any node or tower below a key is a legal start of a search for it, now and later.
//!
//! Threads: any; lock-free. Tests: `racing_inserters_of_one_key_make_one_node` (JF-7, JF-12f) and
//! `every_level_is_a_sorted_subsequence` in `tests.rs` beside; `tests/loom.rs`.

use crate::arena::Arena;
use crate::counters::{Counters, Tally};
use crate::heights::random_height;
use crate::jellyfish::node::{LEVELS, Node, NodeHead, Tower, TowerHead};
use crate::jellyfish::node::{node_bytes, tower_bytes};
use crate::jellyfish::version::{Store, VersionRef, version_bytes};
use crate::ordering::{Site, swap_in};
use crate::probe::Probe;
use std::cmp::Ordering as Compared;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use velella_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Most pieces of a run of predecessors that are walked at once.
const PIECES: usize = 128;
/// How many steps they are walked: a piece has four nodes on average.
const STEPS_AT_ONCE: usize = 6;

/// Where a key is, or belongs, at the bottom.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'l> {
    /// Its node.
    Found(Node<'l>),
    /// The last node below it (perhaps the list's head) and the first above.
    Between(Node<'l>, Option<Node<'l>>),
}

/// The last tower below a key, and the first above, on each level that a search went through.
#[derive(Debug)]
pub(crate) struct Splice<'l> {
    height: usize,
    levels: [(Option<Tower<'l>>, Option<Tower<'l>>); LEVELS],
}

impl Splice<'_> {
    /// Nothing searched yet.
    #[inline]
    pub(crate) fn new() -> Self {
        Splice {
            height: 0,
            levels: [(None, None); LEVELS],
        }
    }
}

/// The skip list.
#[derive(Debug)]
pub(crate) struct List {
    /// Before every key; it has no key of its own.
    head: NonNull<NodeHead>,
    /// The head's tower, of full height.
    top: NonNull<TowerHead>,
    /// Levels above the bottom that may hold anything.
    height: AtomicUsize,
    /// Nodes and versions.
    pub(crate) store: Arc<Store>,
    /// Towers, by themselves so that they lie densely.
    towers: Arena,
}

// SAFETY: nodes and towers are shared through atomics or immutable; the arenas are `Sync`.
unsafe impl Send for List {}
// SAFETY: as for Send.
unsafe impl Sync for List {}

impl List {
    /// An empty list.
    pub(crate) fn new(counters: &Arc<Counters>) -> Self {
        let store = Arc::new(Store {
            arena: Arena::new(Arc::clone(counters)),
            recycler: crate::jellyfish::version::Recycler::new(),
        });
        let towers = Arena::new(Arc::clone(counters));
        // SAFETY: fresh memory of the right size.
        let head = unsafe { Node::write(store.arena.alloc(node_bytes(0)), b"") };
        // SAFETY: fresh memory of the right size.
        let top = unsafe { Tower::write(towers.alloc(tower_bytes(LEVELS)), head, LEVELS) };
        List {
            head: NonNull::new(head.as_ptr()).expect("a node has an address"),
            top: NonNull::new(top.as_ptr()).expect("a tower has an address"),
            height: AtomicUsize::new(0),
            store,
            towers,
        }
    }

    /// Bytes taken from the system.
    pub(crate) fn bytes(&self) -> usize {
        self.store.arena.bytes() + self.towers.bytes()
    }

    /// The node before every key.
    #[inline]
    pub(crate) fn head(&self) -> Node<'_> {
        // SAFETY: written by `new`, lives as long as the list.
        unsafe { Node::from_raw(self.head.as_ptr()) }.expect("never null")
    }

    #[inline]
    fn top(&self) -> Tower<'_> {
        // SAFETY: written by `new`, lives as long as the list.
        unsafe { Tower::from_raw(self.top.as_ptr()) }.expect("never null")
    }

    #[inline]
    fn height(&self) -> usize {
        // Relaxed: a higher level that is missed, or still empty, costs time only.
        self.height.load(Ordering::Relaxed)
    }

    /// Where the key of `probe` is or belongs.
    #[inline]
    pub(crate) fn find(&self, probe: &Probe<'_>, tally: &mut Tally) -> Place<'_> {
        self.descend(probe, None, tally)
    }

    /// As [`List::find`], noting the way for [`List::raise`].
    #[inline]
    pub(crate) fn find_splice<'l>(
        &'l self,
        probe: &Probe<'_>,
        splice: &mut Splice<'l>,
        tally: &mut Tally,
    ) -> Place<'l> {
        self.descend(probe, Some(splice), tally)
    }

    #[inline(always)]
    fn descend<'l>(
        &'l self,
        probe: &Probe<'_>,
        mut splice: Option<&mut Splice<'l>>,
        tally: &mut Tally,
    ) -> Place<'l> {
        let mut level = self.height();
        if let Some(splice) = &mut splice {
            splice.height = level;
        }
        let mut tower = self.top();
        let mut above = None;
        while level > 0 {
            level -= 1;
            // SAFETY: `tower` is the top or was reached on this level or a higher one (N3).
            let mut next = unsafe { tower.next(level) };
            // What ended the level above is above the key here too: no second comparison.
            while let Some(candidate) = next
                && next != above
            {
                tally.comparisons += 1;
                // SAFETY: as above.
                unsafe { tower.prefetch_below(level) };
                match candidate.compare(probe) {
                    Compared::Less => {
                        tower = candidate;
                        // SAFETY: reached on this level.
                        next = unsafe { tower.next(level) };
                    }
                    Compared::Equal => return Place::Found(candidate.node()),
                    Compared::Greater => above = next,
                }
            }
            if let Some(splice) = &mut splice {
                splice.levels[level] = (Some(tower), next);
            }
        }
        self.walk(tower.node(), above.map(Tower::node), probe, tally)
    }

    /// Looks along the bottom from `node`, which is below the key, to `above`, which is above it.
    #[inline]
    fn walk<'l>(
        &'l self,
        mut node: Node<'l>,
        above: Option<Node<'l>>,
        probe: &Probe<'_>,
        tally: &mut Tally,
    ) -> Place<'l> {
        loop {
            let next = node.next();
            let Some(candidate) = next else {
                return Place::Between(node, None);
            };
            if next == above {
                return Place::Between(node, next);
            }
            tally.comparisons += 1;
            match candidate.compare(probe) {
                Compared::Less => node = candidate,
                Compared::Equal => return Place::Found(candidate),
                Compared::Greater => return Place::Between(node, next),
            }
        }
    }

    /// Memory for a node and its first version, side by side; neither is written.
    pub(crate) fn allocate(&self, key: &[u8], len: u32) -> (NonNull<u8>, NonNull<u8>) {
        let node = node_bytes(key.len());
        let block = self.store.arena.alloc(node + version_bytes(len));
        // SAFETY: the block is larger than a node.
        (block, unsafe { block.add(node) })
    }

    /// Links `node`, with its first version as head, between its neighbours at the bottom (S2).
    /// Returns the node of an equal key if another thread was first; `node` is then lost.
    pub(crate) fn link<'l>(
        &'l self,
        node: Node<'l>,
        first: VersionRef<'l>,
        probe: &Probe<'_>,
        mut place: (Node<'l>, Option<Node<'l>>),
        tally: &mut Tally,
    ) -> Result<(), Node<'l>> {
        // Relaxed: published by the CAS below.
        node.fields().head.store(first.as_ptr(), Ordering::Relaxed);
        loop {
            let (before, after) = place;
            let after = after.map_or(null_mut(), Node::as_ptr);
            // Relaxed: published by the CAS below.
            node.fields().next.store(after, Ordering::Relaxed);
            tally.cas_attempts += 1;
            // Release, partner: the Acquire in `Node::next`: key, head and first version are
            // complete.
            if swap_in(Site::NodeLink, &before.fields().next, after, node.as_ptr()) {
                return Ok(());
            }
            tally.cas_failures += 1;
            // `before` is still below the key (S3); equality is tested anew (JF-7).
            match self.walk(before, None, probe, tally) {
                Place::Found(other) => return Err(other),
                Place::Between(before, after) => place = (before, after),
            }
        }
    }

    /// Gives the freshly linked `node` a tower, most often of no height at all.
    pub(crate) fn raise<'l>(
        &'l self,
        node: Node<'l>,
        probe: &Probe<'_>,
        splice: &Splice<'l>,
        tally: &mut Tally,
    ) {
        let height = random_height(LEVELS);
        if height == 0 {
            return;
        }
        tally.towers += 1;
        let block = self.towers.alloc(tower_bytes(height));
        // SAFETY: fresh memory of the right size, which lives as long as the list.
        let tower = unsafe { Tower::write(block, node, height) };
        // Relaxed: see `height`.
        self.height.fetch_max(height, Ordering::Relaxed);
        for level in 0..height {
            let (before, after) = match splice.levels[level] {
                (Some(before), after) if level < splice.height => (before, after),
                // SAFETY: the top has every level.
                _ => (self.top(), unsafe { self.top().next(level) }),
            };
            self.raise_level(tower, level, probe, (before, after), tally);
        }
    }

    /// Links `tower` at `level`, into the gap that `place` was when last seen.
    fn raise_level<'l>(
        &'l self,
        tower: Tower<'l>,
        level: usize,
        probe: &Probe<'_>,
        place: (Tower<'l>, Option<Tower<'l>>),
        tally: &mut Tally,
    ) {
        let (mut before, mut after) = place;
        // SAFETY: the tower was made higher than `level`.
        let own = unsafe { tower.link(level) };
        loop {
            while let Some(candidate) = after {
                tally.comparisons += 1;
                if candidate.compare(probe) != Compared::Less {
                    break;
                }
                before = candidate;
                // SAFETY: `before` was reached on this level.
                after = unsafe { before.next(level) };
            }
            let expected = after.map_or(null_mut(), Tower::as_ptr);
            // Relaxed: published by the CAS below.
            own.store(expected, Ordering::Relaxed);
            // SAFETY: `before` is the top or was reached on this level.
            let link = unsafe { before.link(level) };
            tally.cas_attempts += 1;
            if cas_tower(link, expected, tower.as_ptr()) {
                return;
            }
            tally.cas_failures += 1;
            // Refreshed after every lost race (JF-7).
            // SAFETY: as above.
            after = unsafe { before.next(level) };
        }
    }

    /// The last node, or the list's head.
    pub(crate) fn last(&self) -> Node<'_> {
        let mut tower = self.top();
        for level in (0..self.height()).rev() {
            // SAFETY: the top, or reached on this level or a higher one.
            while let Some(next) = unsafe { tower.next(level) } {
                tower = next;
            }
        }
        let mut node = tower.node();
        while let Some(next) = node.next() {
            node = next;
        }
        node
    }

    /// The last node below the key, or the list's head.
    pub(crate) fn lower(&self, probe: &Probe<'_>, tally: &mut Tally) -> Node<'_> {
        let mut node = self.span(probe, 0, tally).0.node();
        while let Some(next) = node.next() {
            tally.comparisons += 1;
            if next.compare(probe) != Compared::Less {
                break;
            }
            node = next;
        }
        node
    }

    /// Hands the nodes before `end` to `push`, in order: about `4^(level + 1)` of them, or as
    /// many as there are. `end` itself is excluded.
    pub(crate) fn gather<'l>(
        &'l self,
        end: Node<'l>,
        probe: &Probe<'_>,
        level: usize,
        tally: &mut Tally,
        mut push: impl FnMut(Node<'l>),
    ) {
        let start = self.warm(probe, level, tally);
        if start != self.head() {
            push(start);
        }
        let mut node = start.next();
        while let Some(current) = node
            && current != end
        {
            push(current);
            node = current.next();
        }
    }

    /// The last node before the key with a tower of at least `level`, or the list's head, with the
    /// nodes from there to the key on their way into the cache.
    ///
    /// Each node is known only when the one before it has arrived, which is most of what a walk
    /// costs. But the nodes with towers are found through the towers, four times fewer and densely
    /// laid; from there the pieces between them are walked all at once, a step of each in turn.
    fn warm<'l>(&'l self, probe: &Probe<'_>, level: usize, tally: &mut Tally) -> Node<'l> {
        let (start, above) = self.span(probe, level, tally);
        let mut pieces = [start.node(); PIECES];
        let mut count = 0;
        let mut tower = Some(start);
        while let Some(current) = tower
            && tower != above
            && count < PIECES
        {
            pieces[count] = current.node();
            pieces[count].prefetch_start();
            count += 1;
            // SAFETY: the top, or reached on this level or a higher one.
            tower = unsafe { current.next(0) };
        }
        for _ in 0..STEPS_AT_ONCE {
            for piece in &mut pieces[..count] {
                if let Some(next) = piece.next() {
                    next.prefetch_start();
                    *piece = next;
                }
            }
        }
        start.node()
    }

    /// The last tower of at least `level` before the key, or the top; and the first tower that is
    /// not before it.
    fn span<'l>(
        &'l self,
        probe: &Probe<'_>,
        level: usize,
        tally: &mut Tally,
    ) -> (Tower<'l>, Option<Tower<'l>>) {
        let mut tower = self.top();
        let mut start = tower;
        let mut above = None;
        for current in (0..self.height()).rev() {
            // SAFETY: the top, or reached on this level or a higher one.
            while let Some(next) = unsafe { tower.next(current) }
                && Some(next) != above
            {
                tally.comparisons += 1;
                if next.compare(probe) != Compared::Less {
                    above = Some(next);
                    break;
                }
                tower = next;
            }
            if current >= level {
                start = tower;
            }
        }
        (start, above)
    }

    /// How many nodes stand on each level, bottom first; panics if S1 does not hold.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn check_levels(&self, order: &velella_base::Order) -> Vec<usize> {
        let mut below: Vec<Node<'_>> = Vec::new();
        let mut node = self.head().next();
        while let Some(current) = node {
            if let Some(last) = below.last() {
                let sorted = order.compare(last.key(), current.key());
                assert_eq!(sorted, Compared::Less, "S1: the bottom is not sorted");
            }
            below.push(current);
            node = current.next();
        }
        let mut counts = vec![below.len()];
        for level in 0..LEVELS {
            let mut lower = below.iter();
            let mut nodes = Vec::new();
            // SAFETY: the top has every level.
            let mut next = unsafe { self.top().next(level) };
            while let Some(tower) = next {
                let found = lower.any(|node| *node == tower.node());
                assert!(
                    found,
                    "S1: level {level} is no subsequence of the one below"
                );
                nodes.push(tower.node());
                // SAFETY: reached on this level.
                next = unsafe { tower.next(level) };
            }
            counts.push(nodes.len());
            below = nodes;
        }
        counts
    }
}

fn cas_tower(link: &AtomicPtr<TowerHead>, expected: *mut TowerHead, new: *mut TowerHead) -> bool {
    // Release, partner: the Acquire in `Tower::next`. Relaxed on failure: the caller loads again.
    link.compare_exchange(expected, new, Ordering::Release, Ordering::Relaxed)
        .is_ok()
}
