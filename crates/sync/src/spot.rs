//! Spots: numbered places in the protocol where a test may let another thread go first.
//!
//! A schedule that hurts needs a thread to lose its processor between two particular
//! instructions, which on an idle machine happens once in a million times. A test arms the spots
//! with a probability, and each thread that passes one then yields, or sleeps for some
//! microseconds, as its own random numbers say.
//!
//! S1. Without the feature `spots` a spot is nothing; no product turns it on.
//! S2. A spot never waits for another thread and touches nothing but its own random numbers.
//! S3. The spots are armed as long as somebody holds an [`Armed`], with what the last one asked.
//!
//! Threads: any. Tests: below; `velella-reliability`, campaign `histories`.

/// The places there are, with what they come after: 1-13 in a write, by its steps in
/// docs/concurrency.md, 14-19 in a memtable's structure, 20-39 in reads, snapshots and pruning,
/// 40-59 in switch, flush, compaction and the manifest, 60-79 in the journal.
pub const PLACES: &[(u8, &str)] = &[
    (1, "a read-modify-write has decided"),
    (2, "a write has its view"),
    (3, "a write has looked into the previous memtable"),
    (4, "a write has its node"),
    (5, "a read-modify-write has its head"),
    (6, "a version is installed"),
    (7, "a slot is announced"),
    (8, "a stamp is drawn"),
    (9, "the stamp is the memtable's"),
    (10, "the record is complete"),
    (11, "the version is published"),
    (12, "the slot is idle"),
    (13, "the write has happened, and is not acknowledged"),
    (14, "a write has seen its key's newest version"),
    (15, "a node is linked, and its tower is not"),
    (16, "a tower is linked on a level"),
    (17, "a full block is copied, and its halves are not shown"),
    (
        18,
        "the halves of a block are shown, and the upper one has no anchor",
    ),
    (20, "a read has its view"),
    (21, "a read has looked into all memtables"),
    (22, "a snapshot has its wall clock"),
    (23, "an iterator has its memtables"),
    (24, "an iterator has lost its view"),
    (25, "a pruner knows what is read"),
    (26, "a pruner has the frontier"),
    (27, "a pruner has the rounds"),
    (28, "a pruner has what is durable"),
    (29, "a pruner has unlinked a version"),
    (40, "the memtables of a switch are made"),
    (41, "the views of a switch are published"),
    (42, "the tables of a flush are written"),
    (43, "the tables of a flush are named"),
    (44, "the tables of a flush are shown"),
    (45, "the tables of a compaction are named"),
    (46, "the manifest may be changed"),
    (
        47,
        "a change of the manifest is durable, and nobody is told",
    ),
    (60, "a round has begun"),
    (61, "the seal of a round is synced"),
    (62, "a record has its header, and not its first word"),
    (63, "a record is complete, and its lane does not say so"),
];

/// A place to lose the processor: one of [`PLACES`].
#[cfg(not(feature = "spots"))]
#[inline(always)]
pub fn spot(_number: u8) {}

#[cfg(feature = "spots")]
pub use armed::{Armed, arm, hits, spot};

#[cfg(feature = "spots")]
mod armed {
    use crate::rng::Rng;
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::time::Duration;

    /// One passage in so many loses the processor; 0 is never.
    static ONE_IN: AtomicU32 = AtomicU32::new(0);
    /// How many hold an [`Armed`].
    static HOLDERS: AtomicU32 = AtomicU32::new(0);
    static SEED: AtomicU64 = AtomicU64::new(0);
    static HITS: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

    thread_local! {
        static DRAWS: RefCell<Option<(u64, Rng)>> = const { RefCell::new(None) };
    }

    /// Held while the spots shall be armed (S3).
    #[derive(Debug)]
    #[must_use]
    pub struct Armed(());

    /// From now on one passage in `one_in` (0: none) loses the processor, as `seed` says.
    pub fn arm(seed: u64, one_in: u32) -> Armed {
        // All relaxed, here and below: a thread may notice late, which changes nothing but luck.
        HOLDERS.fetch_add(1, Ordering::Relaxed);
        SEED.store(seed, Ordering::Relaxed);
        ONE_IN.store(one_in, Ordering::Relaxed);
        Armed(())
    }

    impl Drop for Armed {
        fn drop(&mut self) {
            if HOLDERS.fetch_sub(1, Ordering::Relaxed) == 1 {
                ONE_IN.store(0, Ordering::Relaxed);
            }
        }
    }

    /// How often the processor was given away at `number`.
    #[must_use]
    pub fn hits(number: u8) -> u64 {
        HITS[usize::from(number)].load(Ordering::Relaxed)
    }

    /// A place to lose the processor.
    #[inline]
    pub fn spot(number: u8) {
        let one_in = ONE_IN.load(Ordering::Relaxed);
        if one_in > 0 {
            lose(number, one_in);
        }
    }

    #[cold]
    fn lose(number: u8, one_in: u32) {
        let seed = SEED.load(Ordering::Relaxed);
        let draw = DRAWS.try_with(|draws| {
            let mut draws = draws.borrow_mut();
            if draws.as_ref().is_none_or(|(of, _)| *of != seed) {
                let own = std::ptr::from_ref(&*draws) as u64;
                *draws = Some((seed, Rng::new(seed ^ own)));
            }
            draws
                .as_mut()
                .map(|(_, rng)| (rng.below(u64::from(one_in)), rng.below(8)))
        });
        let Ok(Some((0, how))) = draw else { return };
        HITS[usize::from(number)].fetch_add(1, Ordering::Relaxed);
        match how {
            0 => std::thread::sleep(Duration::from_micros(50)),
            _ => std::thread::yield_now(),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_armed_spot_loses_the_processor_about_as_often_as_asked() {
            let before = hits(255);
            let (armed, other) = (arm(7, 4), arm(7, 4));
            drop(other);
            for _ in 0..4_000 {
                spot(255);
            }
            drop(armed);
            spot(255);
            let lost = hits(255) - before;
            assert!((500..2_000).contains(&lost), "{lost} of 4,000");
        }
    }
}
