//! What a seed decides about one database: its size, its load, and how it is opened.
//!
//! Source: swarm testing (Groce and others, ISSTA '12): each seed leaves some features out, so
//! that the others meet more often.
//!
//! Tests: below.

use super::random::Random;
use std::time::Duration;
use velella::{Builder, Compression, Db, Durability, JournalMode, MEMORY_MIN, MemtableKind};

/// Most threads of a load.
pub(super) const THREADS_MAX: u8 = 4;

/// The settings of one database, from its creation to its removal.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) seed: u64,
    pub(super) threads: u8,
    /// Keys in each keyspace that stays.
    pub(super) keys: u16,
    pub(super) key_padding: usize,
    /// Most bytes of most values.
    pub(super) value_bytes: u32,
    /// One value in so many has more than 64 KiB; 0: none.
    pub(super) large_every: u64,
    /// One value in so many has more than 1 MiB; 0: none.
    pub(super) huge_every: u64,
    /// One write in so many waits for the device; 0: none.
    pub(super) sync_every: u64,
    /// One operation in so many flushes; compactions are a tenth of that.
    pub(super) flush_every: u64,
    pub(super) batches: bool,
    pub(super) expiry: bool,
    pub(super) own_keyspaces: bool,
    pub(super) with_journal: bool,
    /// Whether each addition to a counter tells its stamp.
    pub(super) stamped_sums: bool,
    /// Microseconds each thread rests after an operation, at most.
    pub(super) rest_us: u64,
    /// Kills before it is given up for a new one.
    pub(super) kills: u64,
}

impl Settings {
    /// What `seed` decides.
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Random::of(&[seed, 1]);
        let threads = random.pick(&[1, 2, 2, 3, THREADS_MAX]);
        let keys = random.pick(&[4, 16, 64, 64, 200]);
        let with_journal = !random.one_in(8);
        Settings {
            seed,
            threads,
            keys,
            key_padding: random.pick(&[0, 0, 30, 900]),
            value_bytes: random.pick(&[24, 60, 120, 600, 4000]),
            large_every: random.pick(&[0, 0, 100, 400]),
            huge_every: random.pick(&[0, 0, 0, 800]),
            sync_every: random.pick(&[0, 3, 20, 200, 200]),
            flush_every: random.pick(&[50, 400, 3000, 1 << 40]),
            batches: !random.one_in(4),
            expiry: random.one_in(2),
            own_keyspaces: random.one_in(2),
            with_journal,
            // Without a journal a sum is judged by the stamps it is made of.
            stamped_sums: !with_journal,
            rest_us: 0,
            kills: 10 + random.below(30),
        }
    }

    /// The same, where the power is cut: slowly, for the disk is slow, and with sums that tell
    /// their stamps; keyspaces stay, since what is read of the oracle is not of one moment.
    pub(super) fn for_power_cuts(mut self, is_cut: bool) -> Self {
        if is_cut {
            self.stamped_sums = true;
            self.own_keyspaces = false;
            self.rest_us = 2_000;
            self.sync_every = self.sync_every.clamp(3, 20);
        }
        self
    }

    /// How the database is opened for the `incarnation`th time. The journal's mode and sizes
    /// change from one opening to the next, as they may.
    pub(super) fn builder(&self, incarnation: u32) -> Builder {
        let mut lasting = Random::of(&[self.seed, 2]);
        let memtable = lasting.pick(&[
            MemtableKind::S3,
            MemtableKind::S3,
            MemtableKind::Jellyfish,
            MemtableKind::AppendOnly,
        ]);
        let mut random = Random::of(&[self.seed, 3, u64::from(incarnation)]);
        let journal = match self.with_journal {
            true => random.pick(&[JournalMode::Auto, JournalMode::Auto, JournalMode::Write]),
            false => JournalMode::Off,
        };
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd];
        let durability = [Durability::Buffered, group()];
        Db::builder()
            .memory(MEMORY_MIN)
            .write_buffer(random.pick(&[64 << 10, 64 << 10, 256 << 10, 1 << 20]))
            .durability(random.pick(&durability[..1 + usize::from(self.sync_every == 3)]))
            .background_threads(random.pick(&[1, 2, 3]))
            .compression(random.pick(&compression))
            .block_bytes(random.pick(&[256, 1024, 4096]))
            .bloom_bits(random.pick(&[0, 5, 10]))
            .journal(journal)
            .memtable(memtable)
    }
}

/// The class of writes that wait for company.
pub(super) fn group() -> Durability {
    Durability::Group(Duration::from_micros(500))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_same_twice_and_seeds_differ() {
        let text = |seed| {
            format!(
                "{:?} {:?}",
                Settings::of(seed),
                Settings::of(seed).builder(3)
            )
        };
        assert_eq!(text(5), text(5));
        assert_ne!(text(5), text(6));
    }

    #[test]
    fn every_choice_opens() {
        for seed in 0..200 {
            let builder = Settings::of(seed).builder(1);
            let knobs = format!("{builder:?}");
            assert!(knobs.contains("memory: 16777216"), "{knobs}");
        }
        assert!((0..100).any(|seed| !Settings::of(seed).with_journal));
    }
}
