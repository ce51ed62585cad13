//! Gathering what `stats` reports.
//!
//! M1. Nothing is stopped for it: each number is true of some moment while it runs.
//!
//! Threads: any. Tests: `tests/stats.rs`.

use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::stalls::Timer;
use crate::stats::{CacheStats, JournalStats, KeyspaceStats, LevelStats, MemoryStats, Stats};
use std::collections::BTreeMap;
use std::sync::Arc;
use velella_base::ErrorKind;
use velella_sync::epoch;

impl Engine {
    /// Everything there is to report.
    pub(crate) fn stats(&self) -> Stats {
        let keyspaces = self.keyspace_stats();
        let journal = self.journal.as_ref().map(|journal| journal.stats());
        let journal = journal.unwrap_or_default();
        let stalls = self.stalls.report(journal.waits);
        let cache = &self.env.cache;
        let memory = MemoryStats {
            budget: self.options.memory,
            memtables: keyspaces
                .iter()
                .map(|keyspace| keyspace.memtable_bytes)
                .sum(),
            spare: self.spare.bytes() as u64,
            block_cache: cache.bytes(),
            filters_and_indexes: cache.pinned_bytes(),
            journal_mappings: journal.mapped_bytes,
        };
        let timers = &self.timers;
        let timers = [
            &timers.flush,
            &timers.compaction,
            &timers.round,
            &timers.switch,
        ];
        Stats {
            keyspaces,
            memory,
            journal: self.journal_stats(journal),
            cache: CacheStats {
                hits: cache.hits(),
                misses: cache.misses(),
                bytes: cache.bytes(),
            },
            stalls,
            read_only: self
                .check()
                .err()
                .filter(|error| error.kind() != ErrorKind::Closed)
                .map(|error| error.to_string()),
            shortage: self.shortages.error().map(|error| error.to_string()),
            counters: self.named_counters(),
            histograms: timers.into_iter().map(Timer::report).collect(),
            snapshots: self.snapshots.len() as u64,
            last_stamp: self.clock.now().0,
            durable_stamp: self.durable().0,
            external_bytes: self.env.externals.bytes(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn keyspace_stats(&self) -> Vec<KeyspaceStats> {
        let one = |core: Arc<Core>| {
            let guard = epoch::pin();
            let view = core.view.load(&guard);
            let levels = core.tree.levels();
            let settings = core.effective();
            KeyspaceStats {
                name: core.name.clone(),
                memtable: settings.memtable.name(),
                compression: settings.compression.name(),
                bloom_bits: settings.bloom_bits,
                memtable_bytes: view.bytes(),
                immutable_memtables: view.immutables() as u64,
                levels: (0..)
                    .zip(levels)
                    .map(|(level, sizes)| LevelStats {
                        level,
                        tables: sizes.tables as u64,
                        bytes: sizes.bytes,
                        entries: sizes.entries,
                    })
                    .collect(),
            }
        };
        self.cores().into_iter().map(one).collect()
    }

    fn journal_stats(&self, stats: velella_journal::Stats) -> JournalStats {
        let pinning = |oldest| {
            let cores = self.cores().into_iter();
            let pins = cores.filter(move |core| core.flushed_below() <= oldest);
            pins.map(|core| core.name.clone()).collect()
        };
        let access = self.journal.as_ref().map_or("off", |_| stats.access);
        JournalStats {
            access: access.to_owned(),
            records: stats.records,
            bytes: stats.bytes,
            rounds: stats.rounds,
            syncs: stats.syncs,
            sync_threads: stats.sync_threads,
            unflushed_bytes: stats.unflushed_bytes,
            segment_waits: stats.segment_waits,
            pinned_by: stats.oldest_pinned.map(pinning).unwrap_or_default(),
        }
    }

    fn named_counters(&self) -> BTreeMap<String, u64> {
        let own = &self.counters;
        let memtable = &self.memtable_counters;
        let tables = &self.env.counters;
        [
            ("batches", &own.batches),
            ("compaction_bytes_read", &own.compaction_bytes_read),
            ("compaction_bytes_written", &own.compaction_bytes_written),
            ("compactions", &own.compactions),
            ("flush_bytes", &own.flush_bytes),
            ("flushes", &own.flushes),
            ("gatherings", &own.gatherings),
            ("cursors_taken_over", &self.resting.taken_over),
            ("overtaken", &own.overtaken),
            ("shortages", &own.shortages),
            ("prunes", &own.prunes),
            ("reads", &own.reads),
            ("rmw_retries", &own.rmw_retries),
            ("rmws", &own.rmws),
            ("switch_aborts", &own.switch_aborts),
            ("written_alone", &own.written_alone),
            ("writes", &own.writes),
            ("memtable_comparisons", &memtable.comparisons),
            ("memtable_cas_attempts", &memtable.cas_attempts),
            ("memtable_cas_failures", &memtable.cas_failures),
            ("memtable_towers", &memtable.towers),
            ("memtable_versions", &memtable.versions),
            ("memtable_versions_skipped", &memtable.versions_skipped),
            ("memtable_versions_pruned", &memtable.pruned),
            ("memtable_directories", &memtable.directories),
            ("memtable_directory_probes", &memtable.directory_probes),
            (
                "memtable_directory_fallbacks",
                &memtable.directory_fallbacks,
            ),
            ("memtable_bytes_allocated", &memtable.bytes),
            ("table_filter_probes", &tables.filter_probes),
            ("table_filter_negatives", &tables.filter_negatives),
            ("table_blocks_read", &tables.blocks_read),
            ("table_block_bytes_read", &tables.block_bytes_read),
            ("table_comparisons", &tables.comparisons),
            ("table_files_reopened", self.env.files.reopened()),
        ]
        .into_iter()
        .map(|(name, counter)| (name.to_owned(), counter.sum()))
        .collect()
    }
}
