//! Iterators of the standard library: owned pairs, ascending and descending.
//!
//! P1. What comes next follows from where the last call left it: a pair that was sought comes, and
//!     one that was stepped to has been seen. So none is passed over, and none comes again but by
//!     going there again.
//! P2. After its end or an error it is over, until the iterator is positioned anew: a caller who
//!     passes over errors would go on for ever, since the steps repeat them.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`, `tests/iterator_errors.rs`.

use super::Iter;
use crate::value::Value;
use std::iter::FusedIterator;
use velella_base::{Result, ValueKind};

/// What the next pair of the standard library's iterator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The one after what it stands on.
    Step,
    /// The one it stands on; of a [`Rev`], the last.
    Here,
    /// The one it stands on, also for a step forward: it was moved there when its key was gone.
    Moved,
    /// There is none (P2).
    Ended,
}

impl Iter {
    /// The pairs, descending, from the last one on, wherever the iterator stood.
    pub fn rev(mut self) -> Rev {
        self.turn = Turn::Here;
        Rev { iter: self }
    }

    /// The first pair, for who wants no other.
    pub(crate) fn first_pair(mut self) -> Result<Option<(Vec<u8>, Value)>> {
        let there = self.seek_first()?;
        there.then(|| self.owned_pair()).transpose()
    }

    /// The last pair, for who wants no other.
    pub(crate) fn last_pair(mut self) -> Result<Option<(Vec<u8>, Value)>> {
        let there = self.seek_last()?;
        there.then(|| self.owned_pair()).transpose()
    }

    fn owned_pair(&mut self) -> Result<(Vec<u8>, Value)> {
        if self.there && self.kind == ValueKind::External && !self.options.keys_only {
            // Not by way of the payload: a large value would be there twice.
            self.engine().check_open()?;
            let value = self.read_external()?;
            return Ok((self.shown_key().to_vec(), value.into()));
        }
        let (key, value) = self.pair()?.unwrap_or_default();
        Ok((key.to_vec(), Value::copied(value)))
    }

    /// To the pair that comes next; whether there is one, `None` after the end.
    fn advance(&mut self) -> Option<Result<bool>> {
        match self.turn {
            Turn::Ended => None,
            Turn::Here | Turn::Moved if self.there => Some(Ok(true)),
            _ => Some(self.step()),
        }
    }

    fn yielded(&mut self, stepped: Result<bool>) -> Option<Result<(Vec<u8>, Value)>> {
        let item = match stepped {
            Ok(false) => None,
            Ok(true) => Some(self.owned_pair()),
            Err(error) => Some(Err(error)),
        };
        self.turn = match item {
            Some(Ok(_)) => Turn::Step,
            _ => Turn::Ended,
        };
        item
    }
}

/// Ascending, from where it stands: after a seek the pair sought comes first, after a step the one
/// behind. After an error it has ended until it is positioned anew.
impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        let there = self.advance()?;
        self.yielded(there)
    }

    /// As by calling `next` until the end, without reading what lies in between.
    fn last(mut self) -> Option<Self::Item> {
        let there = self.advance()?;
        let there = there.and_then(|there| Ok(there && self.seek_last()?));
        self.yielded(there)
    }
}

/// P2: it stays at its end, as long as nobody positions it anew.
impl FusedIterator for Iter {}

/// The pairs of an [`Iter`], descending.
#[derive(Debug)]
#[must_use = "it reads nothing before it is moved"]
pub struct Rev {
    iter: Iter,
}

impl Rev {
    /// To the pair that comes next; whether there is one, `None` after the end.
    fn advance(&mut self) -> Option<Result<bool>> {
        match self.iter.turn {
            Turn::Ended => None,
            Turn::Here => Some(self.iter.seek_last()),
            Turn::Step | Turn::Moved => Some(self.iter.step_back()),
        }
    }
}

impl Iterator for Rev {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        let there = self.advance()?;
        self.iter.yielded(there)
    }

    /// As that of an [`Iter`].
    fn last(mut self) -> Option<Self::Item> {
        let there = self.advance()?;
        let there = there.and_then(|there| Ok(there && self.iter.seek_first()?));
        self.iter.yielded(there)
    }
}

/// P2, and nobody can position it anew.
impl FusedIterator for Rev {}
