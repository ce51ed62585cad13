//! Seek compaction: what reads have to look for in many places is gathered, once that pays.
//!
//! G1. Memtables are flushed, and level 0 goes down: what is left to search is the levels.
//! G2. Flushes and compactions that are due come first.
//!
//! Threads: the workers. Tests: `tests/seek_compaction.rs`; when it pays, `toll.rs`.

use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::overtaken::NOW;
use crate::shortage::Shortages;
use crate::toll::Scattered;
use std::sync::Arc;
use velella_base::Result;
use velella_sync::epoch;
use velella_tree::Wanted;

impl Engine {
    /// Gathers a keyspace whose reads have paid for it; whether there was one.
    pub(crate) fn gather_once(&self) -> Result<bool> {
        if self.shortages.error().is_some() {
            // G2.
            return Ok(false);
        }
        for core in self.cores() {
            if core.toll.have_paid(|| scattered(&core)) {
                match self.gather(&core) {
                    // Nothing depends on it; reads pay for another try.
                    Err(error) if Shortages::is_one(&error) => {}
                    gathered => gathered?,
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gathers what is scattered, whether or not reads have paid for it.
    pub(crate) fn gather_all(&self) -> Result<()> {
        let cores = self.cores();
        let mut scattered = cores.iter().filter(|core| scattered(core).sources > 1);
        scattered.try_for_each(|core| self.gather(core))
    }

    fn gather(&self, core: &Arc<Core>) -> Result<()> {
        self.drain_memtables(std::slice::from_ref(core))?;
        let Some(_shared) = self.compacting.try_read() else {
            return Ok(());
        };
        if let Some(job) = core.tree.next_job(Wanted::Gathering, &self.retention()) {
            self.run_job(core, job)?;
        }
        self.counters.gatherings.increment();
        Ok(())
    }
}

/// Where a seek into the keyspace looks.
fn scattered(core: &Core) -> Scattered {
    let levels = core.tree.levels();
    let bytes_of = |level: usize| levels.get(level).map_or(0, |sizes| sizes.bytes);
    let mut places = Vec::new();
    core.tree.sources(false, NOW, &mut places);
    let guard = epoch::pin();
    let view = core.view.load(&guard);
    let filled = view.memtables().filter(|mem| !mem.table.is_empty());
    let (memtables, memory) = filled.fold((0, 0), |(count, bytes), mem| {
        (count + 1, bytes + mem.table.bytes() as u64)
    });
    Scattered {
        sources: memtables + places.len() as u64,
        upper: memory + bytes_of(0),
        lower: bytes_of(1),
    }
}
