//! The state of a leveled tree: the version in force, what jobs have taken, how a version follows
//! another.
//!
//! S1. A version is replaced under the upkeep lock, by one pointer; readers pin an epoch.
//! S2. Tables that left are marked obsolete after the version without them is in force.
//! S3. The order is not asked between a durable edit and the version it leads to: a user's may
//!     panic, and memory would stay behind the manifest. So a deeper level is made first, and no
//!     other job changes one meanwhile; what joins level 0 goes by stamps.
//!
//! Threads: any. Tests: `tests/model.rs`.

use crate::picker::{Busy, Choice};
use crate::version::{Change, Tables, Version};
use std::collections::HashSet;
use std::sync::Arc;
use velella_base::Result;
use velella_sst::TableMeta;
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_sync::lock::{Mutex, MutexGuard};
use velella_sync::{Swap, epoch};
use velella_tree::{Env, TableFile, TableStyle, TreeOptions};

/// What readers, flushes and jobs of one tree share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) env: Env,
    /// As given at opening: the style may have changed since (`options_now`).
    pub(crate) options: TreeOptions,
    style: Mutex<TableStyle>,
    version: Swap<Version>,
    generation: AtomicU64,
    upkeep: Mutex<Upkeep>,
    /// Held by a job from the making of its level to the version with it (S3); before `upkeep`.
    exchanging: Mutex<()>,
}

/// What jobs have taken, and how far a full compaction has come.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    pub(crate) busy: Busy,
    /// Tables a full compaction still has to bring to the last level and rewrite there.
    pub(crate) pending: Option<HashSet<u64>>,
    /// The keyspace was dropped.
    pub(crate) dropped: bool,
}

impl Shared {
    pub(crate) fn new(env: Env, options: TreeOptions, version: Version) -> Self {
        Shared {
            env,
            style: Mutex::new(options.style()),
            options,
            version: Swap::new(Arc::new(version)),
            generation: AtomicU64::new(1),
            upkeep: Mutex::default(),
            exchanging: Mutex::default(),
        }
    }

    /// The options, with the style that new tables get.
    pub(crate) fn options_now(&self) -> TreeOptions {
        self.options.clone().styled(*self.style.lock())
    }

    /// Changes the style of tables begun from now on.
    pub(crate) fn restyle(&self, style: TableStyle) {
        *self.style.lock() = style;
    }

    /// The version in force, without a count.
    #[inline]
    pub(crate) fn with_version<R>(&self, read: impl FnOnce(&Version) -> R) -> R {
        let guard = epoch::pin();
        read(self.version.load(&guard))
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.with_version(|version| version.sizes().iter().map(|level| level.bytes).sum())
    }

    /// The version in force, kept alive.
    pub(crate) fn version(&self) -> Arc<Version> {
        self.version.load_full(&epoch::pin())
    }

    /// Rises with every change.
    pub(crate) fn generation(&self) -> u64 {
        // Acquire, partner: the Release in `replace`: who sees a generation sees its version.
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        self.upkeep.lock()
    }

    /// Puts a change in force once `commit` has made it durable, if it can (S3).
    ///
    /// # Errors
    /// Those of `commit`: what is in force has not changed.
    pub(crate) fn exchange(
        &self,
        change: Change,
        commit: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let exchanging = self.exchanging.lock();
        let level = self.version().level_after(&change);
        commit()?;
        velella_sync::spot(45);
        self.install(self.upkeep.lock(), change, |_, _| level);
        drop(exchanging);
        self.clean();
        Ok(())
    }

    /// Puts tables of level 0 in force that are durable by now (S3).
    pub(crate) fn add(&self, joining: Vec<Arc<TableFile>>) {
        if joining.is_empty() {
            return;
        }
        let change = Change {
            level: 0,
            joining,
            leaving: HashSet::new(),
        };
        self.install(self.upkeep.lock(), change, Version::level_after);
        self.clean();
    }

    fn install(
        &self,
        mut upkeep: MutexGuard<'_, Upkeep>,
        change: Change,
        level: impl FnOnce(&Version, &Change) -> Tables,
    ) {
        if upkeep.dropped {
            change.joining.iter().for_each(|file| file.mark_obsolete());
            return;
        }
        let old = self.version();
        let next = old.after(&change, level(&old, &change));
        let Change {
            level,
            joining,
            mut leaving,
        } = change;
        for file in &joining {
            // A table that only changes its level is not obsolete.
            leaving.remove(&file.meta().file);
        }
        let levels = old.levels().len().max(level + 1);
        self.note_progress(&mut upkeep, &joining, &leaving, level, levels);
        self.replace(next);
        drop(upkeep);
        for file in old.all() {
            if leaving.contains(&file.meta().file) {
                file.mark_obsolete();
            }
        }
    }

    /// A full compaction goes on with what became of its tables, unless they reached the end.
    fn note_progress(
        &self,
        upkeep: &mut Upkeep,
        joining: &[Arc<TableFile>],
        leaving: &HashSet<u64>,
        level: usize,
        levels: usize,
    ) {
        let Some(pending) = &mut upkeep.pending else {
            return;
        };
        let before = pending.len();
        pending.retain(|file| !leaving.contains(file));
        if pending.len() != before && level + 1 < levels {
            pending.extend(joining.iter().map(|file| file.meta().file));
        }
    }

    /// Puts an empty version in force and gives all files up: the keyspace was dropped.
    pub(crate) fn drop_files(&self) {
        let mut upkeep = self.upkeep.lock();
        upkeep.dropped = true;
        upkeep.pending = None;
        let old = self.version();
        self.replace(Version::new(Vec::new(), &self.options.table.order));
        drop(upkeep);
        for file in old.all() {
            file.mark_obsolete();
        }
        let externals: Vec<u64> = old
            .all()
            .flat_map(|file| file.meta().externals.iter().copied())
            .collect();
        drop(old);
        self.env.externals.discard(&externals);
        self.clean();
    }

    /// S1: only with the upkeep lock held.
    fn replace(&self, version: Version) {
        let guard = epoch::pin();
        // Release, here and below, partner: `generation`. Before the version, too: who found
        // something in it sees that it is another one than was there before.
        self.generation.fetch_add(1, Ordering::Release);
        self.version.store(Arc::new(version), &guard);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Removes files nobody can reach any more.
    pub(crate) fn clean(&self) {
        epoch::flush();
        self.env.graveyard.bury();
        self.env.externals.reap();
    }

    /// The tables of a choice, from the version in force.
    pub(crate) fn inputs(&self, version: &Version, choice: &Choice) -> Inputs {
        let of = |level: usize, wanted: &[u64]| -> Vec<Arc<TableFile>> {
            let wanted: HashSet<&u64> = wanted.iter().collect();
            let is_wanted = |file: &&Arc<TableFile>| wanted.contains(&file.meta().file);
            version
                .files(level)
                .iter()
                .filter(is_wanted)
                .cloned()
                .collect()
        };
        Inputs {
            upper: of(choice.level, &choice.upper),
            lower: of(choice.output.level, &choice.lower),
        }
    }
}

/// The tables a job reads, in their levels' order.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) upper: Vec<Arc<TableFile>>,
    pub(crate) lower: Vec<Arc<TableFile>>,
}

impl Inputs {
    /// All of them, newest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.upper.iter().chain(&self.lower)
    }

    /// How many streams the upper ones are, at `level`: tables of level 0 may overlap.
    pub(crate) fn sources(&self, level: usize) -> usize {
        if level == 0 { self.upper.len() } else { 1 }
    }

    /// What is known of them.
    pub(crate) fn metas(&self) -> impl Iterator<Item = &TableMeta> {
        self.all().map(|file| file.meta())
    }
}
