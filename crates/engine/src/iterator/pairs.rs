//! Iterators of the standard library: owned pairs, ascending and descending.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`.

use super::Iter;
use crate::value::Value;
use velella_base::Result;

impl Iter {
    /// The pairs, descending.
    #[must_use]
    pub fn rev(self) -> Rev {
        Rev {
            iter: self,
            started: false,
        }
    }

    fn owned_pair(&mut self) -> Result<(Vec<u8>, Value)> {
        let (key, value) = self.pair()?.unwrap_or_default();
        Ok((key.to_vec(), Value::copied(value)))
    }

    fn yielded(&mut self, stepped: Result<bool>) -> Option<Result<(Vec<u8>, Value)>> {
        let item = match stepped {
            Ok(false) => None,
            Ok(true) => Some(self.owned_pair()),
            Err(error) => Some(Err(error)),
        };
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let stepped = self.step();
        self.yielded(stepped)
    }
}

/// The pairs of an [`Iter`], descending.
#[derive(Debug)]
pub struct Rev {
    iter: Iter,
    started: bool,
}

impl Iterator for Rev {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.iter.ended {
            return None;
        }
        // Wherever the iterator stood, the last pair comes first.
        let stepped = if self.started {
            self.iter.step_back()
        } else {
            self.iter.seek_last()
        };
        self.started = true;
        self.iter.yielded(stepped)
    }
}
