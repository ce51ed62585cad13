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
use crate::chains::node::{Node, NodeHead, node_bytes};
use crate::chains::store::Store;
use crate::counters::Tally;
use crate::guards::GuardOptions;
use crate::jellyfish::directory::Wanted;
use crate::jellyfish::draft::{Aim, Draft};
use crate::jellyfish::guides::{Guides, TAIL_LEVELS};
use crate::jellyfish::tower::{LEVELS, Tower, TowerHead, tower_bytes};
use crate::ordering::{Site, swap_in};
use crate::probe::Probe;
use crate::spare::Supply;
use std::cmp::Ordering as Compared;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use velella_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use velella_sync::{Guard, spot};

/// Steps from a guard that are worth taking for each of its levels, and for the area's growth.
const GUARD_STEPS: usize = 4;
/// Those from the tail: far more than it takes, unless a thread was held up in setting it.
const TAIL_STEPS: usize = 64;

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
    finger: Option<usize>,
    levels: [(Option<Tower<'l>>, Option<Tower<'l>>); LEVELS],
}

impl Splice<'_> {
    /// Nothing searched yet.
    #[inline]
    pub(crate) fn new() -> Self {
        Splice {
            height: 0,
            finger: None,
            levels: [(None, None); LEVELS],
        }
    }
}

/// Where a search begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'l> {
    pub(super) tower: Tower<'l>,
    /// Levels of the tower to search.
    pub(super) levels: usize,
    /// A tower not below the key.
    pub(super) above: Option<Tower<'l>>,
    /// Whether that one has the key itself.
    is_found: bool,
    /// Steps that are worth taking before beginning anew elsewhere.
    pub(super) steps: usize,
    /// Once a guard has proved to be too far: which finger belongs to it.
    pub(super) finger: Option<usize>,
}

impl<'l> Start<'l> {
    /// Makes the search begin at `levels` levels of `tower`; with that, it leaves levels out, and
    /// so may have far to go.
    #[inline]
    fn begin_at(&mut self, tower: Tower<'l>, levels: usize, steps: usize) {
        self.tower = tower;
        if levels < self.levels {
            self.levels = levels;
            self.steps = steps;
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
    /// The shortcuts into it.
    guides: Guides,
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
    pub(crate) fn new(guards: impl Into<GuardOptions>, supply: &Supply) -> Self {
        let store = Arc::new(Store::new(supply));
        let towers = Arena::new(supply.clone());
        // SAFETY: fresh memory of the right size.
        let head = unsafe { Node::write(store.arena.alloc(node_bytes(0)), b"") };
        // SAFETY: fresh memory of the right size.
        let top = unsafe { Tower::write(towers.alloc(tower_bytes(LEVELS)), head, LEVELS) };
        List {
            head: NonNull::new(head.as_ptr()).expect("a node has an address"),
            top: NonNull::new(top.as_ptr()).expect("a tower has an address"),
            height: AtomicUsize::new(0),
            guides: Guides::new(guards.into()),
            store,
            towers,
        }
    }

    /// Bytes taken from the system.
    pub(crate) fn bytes(&self) -> usize {
        self.store.arena.bytes() + self.towers.bytes() + self.guides.bytes()
    }

    /// The node before every key.
    #[inline]
    pub(crate) fn head(&self) -> Node<'_> {
        // SAFETY: written by `new`, lives as long as the list.
        unsafe { Node::from_raw(self.head.as_ptr()) }.expect("never null")
    }

    #[inline]
    pub(super) fn top(&self) -> Tower<'_> {
        // SAFETY: written by `new`, lives as long as the list.
        unsafe { Tower::from_raw(self.top.as_ptr()) }.expect("never null")
    }

    #[inline]
    pub(super) fn height(&self) -> usize {
        // Relaxed: a higher level that is missed, or still empty, costs time only.
        self.height.load(Ordering::Relaxed)
    }

    /// Where the key of `probe` is or belongs.
    #[inline]
    pub(crate) fn find(&self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Place<'_> {
        self.descend(probe, None, guard, tally)
    }

    /// As [`List::find`], noting the way for [`List::raise`].
    #[inline]
    pub(crate) fn find_splice<'l>(
        &'l self,
        probe: &Probe<'_>,
        splice: &mut Splice<'l>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Place<'l> {
        self.descend(probe, Some(splice), guard, tally)
    }

    /// Asks for the towers around the key that the guard directory leads to.
    #[inline]
    pub(super) fn prefetch(&self, probe: &Probe<'_>, guard: &Guard) {
        let Some(directory) = self.guides.current(guard) else {
            return;
        };
        // SAFETY: a directory of this list's guards.
        let entrance = unsafe { directory.enter(probe, Wanted::Tower) };
        if let Some(below) = entrance.below() {
            below.tower.prefetch();
        }
        if let Some(above) = entrance.above() {
            above.tower.prefetch();
        }
    }

    /// The node of the last guard that is not above the key, for who goes on from node to node: if
    /// each tower was a guard when the directory was made, and the key is not behind the last.
    #[inline]
    pub(crate) fn guard_of(
        &self,
        probe: &Probe<'_>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Option<Node<'_>> {
        let directory = self.guides.current(guard)?;
        if !directory.is_whole {
            return None;
        }
        // SAFETY: a directory of this list's guards.
        let entrance = unsafe { directory.enter(probe, Wanted::Node) };
        tally.probes += 1;
        tally.comparisons += entrance.comparisons;
        let above = entrance.above()?;
        if entrance.is_found {
            return Some(above.node);
        }
        entrance.below().map(|below| below.node)
    }

    /// Notes that the guard that [`List::guard_of`] gave was too far from the key.
    #[cold]
    pub(crate) fn note_far(&self, tally: &mut Tally) {
        self.guides.note_fallback();
        tally.fallbacks += 1;
    }

    /// Where a search begins: at the tail, at a guard close before the key, or at the head (S3).
    #[inline]
    pub(super) fn enter<'l>(
        &'l self,
        probe: &Probe<'_>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Start<'l> {
        let mut start = Start {
            tower: self.top(),
            levels: self.height(),
            above: None,
            is_found: false,
            steps: usize::MAX,
            finger: None,
        };
        let Some(directory) = self.guides.current(guard) else {
            return start;
        };
        self.guides.note_access(directory, probe);
        // SAFETY: this list's tail.
        if let Some(tail) = unsafe { self.guides.tail() } {
            tally.comparisons += 1;
            if tail.compare(probe) == Compared::Less {
                start.begin_at(tail, TAIL_LEVELS, TAIL_STEPS);
                return start;
            }
        }
        // SAFETY: a directory of this list's guards.
        let entrance = unsafe { directory.enter(probe, Wanted::Tower) };
        tally.probes += 1;
        tally.comparisons += entrance.comparisons;
        start.above = entrance.above().map(|above| above.tower);
        start.is_found = entrance.is_found;
        if let Some(below) = entrance.below() {
            start.begin_at(below.tower, below.levels, GUARD_STEPS * (below.levels + 1));
        } else {
            self.guides.note_unguided();
        }
        start
    }

    /// Where to go on when a guard proved to be too far from the key: at the finger left there by
    /// an insertion that met the same, or, the second time, at the head.
    #[cold]
    pub(super) fn fall_back<'l>(
        &'l self,
        from: &Start<'l>,
        probe: &Probe<'_>,
        tally: &mut Tally,
    ) -> Start<'l> {
        self.guides.note_fallback();
        tally.fallbacks += 1;
        let mut start = Start {
            tower: self.top(),
            levels: self.height(),
            steps: usize::MAX,
            ..*from
        };
        if from.finger.is_none() {
            let finger = Guides::finger_of(from.tower);
            start.finger = Some(finger);
            // SAFETY: this list's finger.
            if let Some(tower) = unsafe { self.guides.finger(finger) } {
                tally.comparisons += 1;
                if tower.compare(probe) == Compared::Less {
                    start.begin_at(tower, TAIL_LEVELS, GUARD_STEPS * (TAIL_LEVELS + 1));
                }
            }
        }
        start
    }

    #[inline(always)]
    fn descend<'l>(
        &'l self,
        probe: &Probe<'_>,
        mut splice: Option<&mut Splice<'l>>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Place<'l> {
        let mut begin = self.enter(probe, guard, tally);
        if begin.is_found
            && let Some(found) = begin.above
        {
            return Place::Found(found.node());
        }
        let mut above = begin.above;
        let (mut tower, mut level, mut steps_left) = (begin.tower, begin.levels, begin.steps);
        if let Some(splice) = &mut splice {
            splice.height = level;
        }
        while level > 0 {
            level -= 1;
            // SAFETY: `tower` is the top, a guard entered below its height (G2), or was reached on
            // this level or a higher one (T3).
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
                        steps_left -= 1;
                        if steps_left == 0 {
                            break;
                        }
                    }
                    Compared::Equal => return Place::Found(candidate.node()),
                    Compared::Greater => above = next,
                }
            }
            if steps_left == 0 {
                // The guard is too far from the key, or too low for its area.
                begin = self.fall_back(&begin, probe, tally);
                (tower, level, steps_left) = (begin.tower, begin.levels, begin.steps);
                if let Some(splice) = &mut splice {
                    (splice.height, splice.finger) = (level, begin.finger);
                }
                continue;
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

    /// Links `node`, whose head is set, between its neighbours at the bottom (S2).
    /// Returns the node of an equal key if another thread was first; `node` is then lost.
    pub(crate) fn link<'l>(
        &'l self,
        node: Node<'l>,
        probe: &Probe<'_>,
        mut place: (Node<'l>, Option<Node<'l>>),
        tally: &mut Tally,
    ) -> Result<(), Node<'l>> {
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

    /// Gives the freshly linked `node` a tower of `height` levels.
    pub(crate) fn raise<'l>(
        &'l self,
        node: Node<'l>,
        probe: &Probe<'_>,
        splice: &mut Splice<'l>,
        height: usize,
        tally: &mut Tally,
    ) {
        if height == 0 {
            return;
        }
        tally.towers += 1;
        if height > splice.height {
            self.search_above(probe, splice, tally);
        }
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
            spot(16);
        }
        self.guides.note_tower();
        if height >= TAIL_LEVELS {
            if let Some(finger) = splice.finger {
                self.guides.set_finger(finger, tower);
            }
            // SAFETY: linked on all its levels.
            if unsafe { tower.next(TAIL_LEVELS - 1) }.is_none() {
                self.guides.set_tail(tower);
            }
        }
    }

    /// Searches the levels that a guard let the search leave out, for a tower that reaches them.
    fn search_above<'l>(&'l self, probe: &Probe<'_>, splice: &mut Splice<'l>, tally: &mut Tally) {
        let height = self.height();
        let mut tower = self.top();
        let mut above = None;
        for level in (splice.height..height).rev() {
            // SAFETY: the top, or reached on this level or a higher one (T3).
            while let Some(next) = unsafe { tower.next(level) }
                && Some(next) != above
            {
                tally.comparisons += 1;
                if next.compare(probe) != Compared::Less {
                    above = Some(next);
                    break;
                }
                tower = next;
            }
            splice.levels[level] = (Some(tower), above);
        }
        splice.height = splice.height.max(height);
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

    /// Whether the list has outgrown its guard directory.
    #[inline]
    pub(crate) fn is_renewal_due(&self) -> bool {
        self.guides.is_due()
    }

    /// Goes on with the next guard directory, unless another thread is at it; whether that made it
    /// complete. A caller that others wait for does not complete it (H1).
    #[cold]
    pub(crate) fn renew_guides(&self, guard: &Guard, waited_for: bool) -> bool {
        // SAFETY: the guides keep it no longer than the list lives (H4).
        self.guides
            .renew(guard, waited_for, || unsafe { self.draft() })
    }

    /// The beginning of a directory of the list's towers: those of the lowest level that is not
    /// much too full, or the highest of each few of them.
    ///
    /// # Safety
    /// The list lives during `'l`.
    pub(super) unsafe fn draft<'l>(&self) -> Draft<'l> {
        let most = self.guides.most();
        let chooser = self.guides.chooser();
        let mut lowest = 0;
        let mut expected = self.guides.towers();
        // No level is above the highest, however many towers there are.
        while expected > 2 * most && lowest + 1 < LEVELS && chooser.is_none() {
            lowest += 1;
            expected /= 4;
        }
        // SAFETY: the caller's promise.
        let top = unsafe { Tower::from_raw(self.top.as_ptr()) };
        Draft::new(Aim {
            top: top.expect("a list has a top"),
            height: self.height(),
            lowest,
            most,
            chooser,
        })
    }

    /// Bytes of the guard directory, and what belongs to it.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn guide_bytes(&self) -> usize {
        self.guides.bytes()
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
