//! Striped counters: cheap to bump from any thread, summed when somebody looks.
//!
//! A sum taken while others count may miss what is being added; it never counts anything twice.

use crate::CachePadded;
use crate::thread;
use std::sync::atomic::{AtomicU64, Ordering};

const STRIPES: usize = 16;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter {
    stripes: [CachePadded<AtomicU64>; STRIPES],
}

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed: a counter orders nothing.
        self.stripes[thread::ordinal() % STRIPES].fetch_add(n, Ordering::Relaxed);
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// The sum over all threads; exact once they have stopped.
    #[must_use]
    pub fn sum(&self) -> u64 {
        // Relaxed: see `add`.
        self.stripes
            .iter()
            .map(|stripe| stripe.load(Ordering::Relaxed))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_addition_of_every_thread_is_counted() {
        let counter = Counter::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.sum(), 4000);
    }
}
