//! A small seeded generator for tower heights, jitter and tests; not for secrets.
//!
//! The same seed gives the same numbers on every machine, for ever: tests replay by it.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA '14): one addition and two multiplications a number.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that repeats exactly for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (which must not be 0), near enough to uniform.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// A number of this thread's own sequence, another one in every thread: for what may differ from
/// run to run. In a model it is the scheduler's, so that a schedule can be repeated; loom, which
/// tries everything, always gets 0.
#[inline]
pub fn local_u64() -> u64 {
    #[cfg(not(any(loom, shuttle)))]
    return machine::next();
    #[cfg(loom)]
    return 0;
    #[cfg(shuttle)]
    shuttle::rand::RngCore::next_u64(&mut shuttle::rand::thread_rng())
}

#[cfg(not(any(loom, shuttle)))]
mod machine {
    use super::Rng;
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU64, Ordering};

    static NEXT: AtomicU64 = AtomicU64::new(1);

    thread_local! {
        // Relaxed: only distinct.
        static LOCAL: RefCell<Rng> = RefCell::new(Rng::new(NEXT.fetch_add(1, Ordering::Relaxed)));
    }

    #[inline]
    pub(super) fn next() -> u64 {
        LOCAL.with_borrow_mut(Rng::next_u64)
    }
}
