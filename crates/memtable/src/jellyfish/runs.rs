//! Going back in a list that is linked forwards: the last node, the one before, runs of them.
//!
//! Source: none; JellyFish (Middleware '20) scans forwards only. One search finds a whole run of
//! predecessors, whose nodes are brought into the cache all at once.
//!
//! Threads: any; nothing is written. Tests: `tests.rs` beside; the contract suite.

use crate::chains::node::Node;
use crate::counters::Tally;
use crate::jellyfish::list::List;
use crate::jellyfish::tower::Tower;
use crate::probe::Probe;
use std::cmp::Ordering as Compared;
use velella_sync::Guard;

/// Most pieces of a run of predecessors that are walked at once.
const PIECES: usize = 128;
/// How many steps they are walked: a piece has four nodes on average.
const STEPS_AT_ONCE: usize = 6;

impl List {
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
    pub(crate) fn lower(&self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Node<'_> {
        let mut node = self.span(probe, 0, guard, tally).0.node();
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
        guard: &Guard,
        tally: &mut Tally,
        mut push: impl FnMut(Node<'l>),
    ) {
        let start = self.warm(probe, level, guard, tally);
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
    fn warm<'l>(
        &'l self,
        probe: &Probe<'_>,
        level: usize,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Node<'l> {
        let (start, above) = self.span(probe, level, guard, tally);
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
    pub(crate) fn span<'l>(
        &'l self,
        probe: &Probe<'_>,
        level: usize,
        guard: &Guard,
        tally: &mut Tally,
    ) -> (Tower<'l>, Option<Tower<'l>>) {
        let mut begin = self.enter(probe, guard, tally);
        let mut steps_left = begin.steps;
        let (mut tower, mut levels) = (begin.tower, begin.levels);
        if levels <= level {
            (tower, levels) = (self.top(), self.height());
            steps_left = usize::MAX;
        }
        let mut start = tower;
        let mut above = begin.above;
        while levels > 0 {
            levels -= 1;
            // SAFETY: the top, a guard entered below its height (G2), or reached on this level or
            // a higher one.
            while let Some(next) = unsafe { tower.next(levels) }
                && Some(next) != above
                && steps_left > 0
            {
                tally.comparisons += 1;
                if next.compare(probe) != Compared::Less {
                    above = Some(next);
                    break;
                }
                tower = next;
                steps_left -= 1;
            }
            if steps_left == 0 {
                begin.finger = begin.finger.or(Some(0));
                let head = self.fall_back(&begin, probe, tally);
                (tower, levels, steps_left) = (head.tower, head.levels, head.steps);
                start = tower;
                continue;
            }
            if levels >= level {
                start = tower;
            }
        }
        (start, above)
    }
}
