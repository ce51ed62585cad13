//! Many sorted streams as one: a tournament over cursors, in both directions.
//!
//! Source: Knuth, TAOCP 3, 5.4.1 (tree of selection): after a step only the path from the moved
//! stream to the root is played again, ceil(log2 k) comparisons.
//!
//! M1. Entries come by (key ascending, stamp descending, source ascending): a total order, so that
//!     a change of direction is exact even where two sources hold the same (key, stamp). Such
//!     doubles are yielded each; put newer sources first.
//! M2. Going forward, every other source stands at its first entry after the current one, or is
//!     past its end; going backward, at its last entry before it, or is past its beginning.
//! M3. Sources may grow while they are walked (memtables do), as long as each keeps U1.
//! M4. `seats[i]` says whether source `i` has an entry, and the first eight bytes of its key: they
//!     decide almost every match in the bytewise order, without touching a source. Of a single
//!     source there is no seat.
//! M5. No other source's entry begins with a word below `rival`, going forward: a source that
//!     passed a key and whose word is below is the winner without a match.
//! M6. While a stretch is lent the cursor stands nowhere, and is not to be moved.
//!
//! A seek aims all sources, seeks the first, lets the others approach, and seeks these: so the
//! sources' cache misses overlap instead of following each other.
//!
//! Threads: one. Tests: `merge/tests.rs`, against a sorted vector, random walks; of M6,
//! the engine's `iterator/tests.rs` and `tests/iterator_walks.rs`.

use crate::cursor::source::Source;
use std::cmp::Ordering;
use velella_base::order::word;
use velella_base::{Cursor, Entry, Order, Result, Stamp};
use velella_sst::Stretch;

/// Which way the sources are poised (M2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A cursor over the union of its sources.
pub struct MergeCursor<C = Box<dyn Cursor>> {
    sources: Vec<C>,
    order: Order,
    direction: Direction,
    /// The source that holds the current entry; `NOWHERE` before the first positioning and after
    /// an error (U2, U4).
    current: usize,
    seats: Vec<Seat>,
    /// See M5; 0 where nothing is known.
    rival: u64,
    /// The last `pass` of several sources ended in the one in which it began.
    stayed: bool,
}

/// Of more sources the rival is not looked for: that takes a look at each (M5).
const RIVALS: usize = 8;

/// No source's number.
const NOWHERE: usize = usize::MAX;

/// What the tournament knows.
#[derive(Debug, Clone, Default)]
struct Seat {
    /// Of the source with this seat's number (M4).
    occupied: bool,
    word: u64,
    /// Winner of the tournament's node with this seat's number: node `i` holds the better of nodes
    /// `2i` and `2i + 1`; nodes from `sources.len()` on are the sources themselves and are not
    /// stored. Node 1 is the root.
    winner: usize,
}

impl<C: Cursor> MergeCursor<C> {
    /// A cursor over `sources`, newest first (M1), all in `order`.
    #[must_use]
    pub fn new(sources: Vec<C>, order: Order) -> Self {
        let seats = match sources.len() {
            0 | 1 => Vec::new(),
            several => vec![Seat::default(); several],
        };
        MergeCursor {
            sources,
            order,
            direction: Direction::Forward,
            current: NOWHERE,
            seats,
            rival: 0,
            stayed: false,
        }
    }

    /// Takes the sources out, wherever they stand: this is a merge of nothing from now on.
    #[must_use]
    pub fn take_sources(&mut self) -> Vec<C> {
        self.current = NOWHERE;
        self.seats.clear();
        std::mem::take(&mut self.sources)
    }

    /// The source that holds the current entry, by its place in the list given to `new`.
    #[must_use]
    pub fn source(&self) -> Option<usize> {
        self.entry().map(|_| self.current)
    }

    fn winner(&self) -> usize {
        match self.sources.len() {
            0 | 1 => 0,
            _ => self.seats[1].winner,
        }
    }

    /// The winner at tournament node `node`.
    #[inline]
    fn at(&self, node: usize) -> usize {
        node.checked_sub(self.sources.len())
            .unwrap_or_else(|| self.seats[node].winner)
    }

    /// The better of two sources in the current direction; one without an entry loses.
    #[inline]
    fn better(&self, a: usize, b: usize) -> usize {
        let (left, right) = (&self.seats[a], &self.seats[b]);
        if !(left.occupied && right.occupied) {
            return if left.occupied { a } else { b };
        }
        let ordering = match left.word.cmp(&right.word) {
            Ordering::Equal => self.compare_entries(a, b),
            decided => decided,
        };
        let forward = self.direction == Direction::Forward;
        if (ordering == Ordering::Less) == forward {
            a
        } else {
            b
        }
    }

    /// The order of two sources that stand on entries (M1).
    fn compare_entries(&self, a: usize, b: usize) -> Ordering {
        let ordering = match (self.sources[a].entry(), self.sources[b].entry()) {
            (Some(left), Some(right)) => compare(&self.order, &left, &right),
            _ => Ordering::Equal,
        };
        ordering.then(a.cmp(&b))
    }

    /// Notes where a source stands (M4).
    #[inline]
    fn note(&mut self, source: usize) {
        let key = self.sources[source].key();
        let seat = &mut self.seats[source];
        seat.occupied = key.is_some();
        seat.word = match key {
            Some(key) if self.order.is_bytewise() => word(key),
            _ => 0,
        };
    }

    /// The least word of the other sources.
    fn rival_of(&self, winner: usize) -> u64 {
        let seats = self.seats.iter().enumerate();
        let others = seats.filter(|(source, seat)| *source != winner && seat.occupied);
        others.map(|(_, seat)| seat.word).min().unwrap_or(u64::MAX)
    }

    /// Plays the whole tournament.
    fn rebuild(&mut self) {
        self.rival = 0;
        for source in 0..self.seats.len() {
            self.note(source);
        }
        for node in (1..self.sources.len()).rev() {
            self.seats[node].winner = self.better(self.at(2 * node), self.at(2 * node + 1));
        }
    }

    /// Plays the path of `source` again after it moved.
    #[inline]
    fn replay(&mut self, source: usize) {
        self.note(source);
        let mut node = (self.sources.len() + source) / 2;
        while node >= 1 {
            self.seats[node].winner = self.better(self.at(2 * node), self.at(2 * node + 1));
            node /= 2;
        }
    }

    fn position(
        &mut self,
        direction: Direction,
        mut seek: impl FnMut(&mut C) -> Result<()>,
    ) -> Result<()> {
        self.current = NOWHERE;
        self.direction = direction;
        for source in &mut self.sources {
            seek(source)?;
        }
        self.rebuild();
        self.current = self.winner();
        Ok(())
    }

    /// Poises every source but the winner for the other direction (M2).
    fn turn(&mut self, current: usize, to: Direction) -> Result<()> {
        for index in 0..self.sources.len() {
            if index == current {
                continue;
            }
            let poised = self.sources[index].entry().is_some();
            match (to, poised) {
                (Direction::Forward, true) => self.sources[index].next()?,
                (Direction::Forward, false) => self.sources[index].seek_first()?,
                (Direction::Backward, true) => self.sources[index].prev()?,
                (Direction::Backward, false) => self.sources[index].seek_last()?,
            }
            // Entries that arrived meanwhile (M3) may still lie on the wrong side.
            let wrong = match to {
                Direction::Forward => Ordering::Less,
                Direction::Backward => Ordering::Greater,
            };
            while let Some(standing) = self.sources[index].entry()
                && let Some(here) = self.sources[current].entry()
                && compare(&self.order, &standing, &here).then(index.cmp(&current)) == wrong
            {
                match to {
                    Direction::Forward => self.sources[index].next()?,
                    Direction::Backward => self.sources[index].prev()?,
                }
            }
        }
        self.direction = to;
        Ok(())
    }

    fn step(&mut self, to: Direction) -> Result<()> {
        debug_assert!(self.entry().is_some(), "U3: a step needs a position");
        let current = std::mem::replace(&mut self.current, NOWHERE);
        let turned = self.direction != to;
        if turned && current != NOWHERE {
            self.turn(current, to)?;
        }
        let Some(source) = self.sources.get_mut(current) else {
            return Ok(());
        };
        match to {
            Direction::Forward => source.next()?,
            Direction::Backward => source.prev()?,
        }
        if turned {
            self.rebuild();
            self.current = self.winner();
        } else {
            self.rival = 0;
            self.current = self.winner_after(current);
        }
        Ok(())
    }

    /// The winner after `moved`, which had won, passed a key, going forward.
    #[inline]
    fn winner_after_pass(&mut self, moved: usize) -> usize {
        if !(2..=RIVALS).contains(&self.sources.len()) || !self.order.is_bytewise() {
            return self.winner_after(moved);
        }
        if let Some(key) = self.sources[moved].key() {
            let word = word(key);
            if word < self.rival {
                self.seats[moved].word = word;
                return moved;
            }
        }
        let winner = self.winner_after(moved);
        self.rival = self.rival_of(winner);
        winner
    }

    /// The winner after `moved` moved on.
    #[inline]
    fn winner_after(&mut self, moved: usize) -> usize {
        if self.sources.len() == 1 {
            // Alone it wins whatever it stands on.
            return moved;
        }
        self.replay(moved);
        self.seats[1].winner
    }

    /// Whether the current entry is a version of `key` above `stamp`.
    fn is_newer(&self, key: &[u8], stamp: Stamp) -> bool {
        self.entry().is_some_and(|entry| {
            entry.stamp > stamp && self.order.compare(entry.key, key) == Ordering::Equal
        })
    }
}

impl MergeCursor<Source> {
    /// Lends what is left of the block in which the current source walks, up to the next key of any
    /// other one (M6). `None` where that would lead nowhere: another one stands on the same key, or
    /// the last `pass` went over to another source, as the next one may.
    #[inline]
    pub fn lend(&mut self) -> Option<Stretch> {
        if self.direction != Direction::Forward || !self.order.is_bytewise() {
            return None;
        }
        match self.sources.len() {
            1 => self.sources.get_mut(self.current)?.lend(None),
            2..=RIVALS if self.stayed => self.lend_of_several(),
            _ => None,
        }
    }

    fn lend_of_several(&mut self) -> Option<Stretch> {
        let current = self.current;
        let Some(next) = self.runner_up(current) else {
            return self.sources.get_mut(current)?.lend(None);
        };
        let [source, other] = self.sources.get_disjoint_mut([current, next]).ok()?;
        let limit = other.key()?;
        match source.key()? < limit {
            true => source.lend(Some(limit)),
            false => None,
        }
    }

    /// The source with the least entry but `current`, if any other has one. Going forward.
    fn runner_up(&self, current: usize) -> Option<usize> {
        let others = (0..self.seats.len()).filter(|&source| source != current);
        let occupied = others.filter(|&source| self.seats[source].occupied);
        occupied.reduce(|a, b| self.better(a, b))
    }

    /// Takes back what was lent, and stands where that stands.
    #[inline]
    pub fn take_back(&mut self, stretch: Stretch) {
        let Some(source) = self.sources.get_mut(self.current) else {
            return;
        };
        source.take_back(stretch);
        if self.sources.len() > 1 {
            // It is the winner still: no other one has a key up to here.
            self.note(self.current);
        }
    }
}

#[inline]
fn compare(order: &Order, a: &Entry<'_>, b: &Entry<'_>) -> Ordering {
    order
        .compare(a.key, b.key)
        .then_with(|| b.stamp.cmp(&a.stamp))
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.position(Direction::Forward, C::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.position(Direction::Backward, C::seek_last)
    }

    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        if self.sources.len() > 1 {
            self.aim(key, stamp);
        }
        let mut others_approach = self.sources.len() > 1;
        self.current = NOWHERE;
        self.direction = Direction::Forward;
        for index in 0..self.sources.len() {
            self.sources[index].seek(key, stamp)?;
            if std::mem::take(&mut others_approach) {
                self.sources[1..].iter_mut().for_each(C::approach);
            }
        }
        self.rebuild();
        self.current = self.winner();
        Ok(())
    }

    fn aim(&mut self, key: &[u8], stamp: Stamp) {
        self.current = NOWHERE;
        for source in &mut self.sources {
            source.aim(key, stamp);
        }
    }

    fn approach(&mut self) {
        self.sources.iter_mut().for_each(C::approach);
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.position(Direction::Backward, |source| source.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    /// Each source passes its own versions of the key, when it comes to be the winner.
    // Always inlined, as what it calls down to the block: of the instructions of a scan's step, one
    // in seven was for these calls.
    #[inline(always)]
    fn pass(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let is_forward = self.direction == Direction::Forward;
        if let [only] = &mut self.sources[..]
            && is_forward
            && self.order.is_bytewise()
            && self.current == 0
        {
            // Alone it wins whatever it stands on, and has passed all versions (U7), since keys
            // are spelled in one way.
            return only
                .pass(key, stamp)
                .inspect_err(|_| self.current = NOWHERE);
        }
        if !is_forward {
            self.step(Direction::Forward)?;
            if !self.is_newer(key, stamp) {
                return Ok(());
            }
        }
        let begun = self.current;
        loop {
            let current = std::mem::replace(&mut self.current, NOWHERE);
            let Some(source) = self.sources.get_mut(current) else {
                return Ok(());
            };
            let word = self.seats.get(current).map(|seat| seat.word);
            source.pass(key, stamp)?;
            self.current = self.winner_after_pass(current);
            self.stayed = self.current == begun;
            let now = self.seats.get(self.current).map(|seat| seat.word);
            if now != word || !self.is_newer(key, stamp) {
                return Ok(());
            }
        }
    }

    /// Of several sources each would have to be asked.
    #[inline]
    fn is_newest(&self) -> bool {
        self.current != NOWHERE && matches!(&self.sources[..], [only] if only.is_newest())
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.sources.get(self.current)?.entry()
    }
}

impl<C> std::fmt::Debug for MergeCursor<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergeCursor")
            .field("sources", &self.sources.len())
            .field("direction", &self.direction)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
