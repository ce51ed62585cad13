//! Read, decide and write over any keys as one step, as often as it takes, and that ends.
//!
//! Source: optimistic first, then alone: what databases call lock escalation; the papers retry
//! without end.
//!
//! T1. An attempt reads a snapshot and writes if none of the batch's keys was written since. After
//!     [`ATTEMPTS`] that lost to other writers it is done as the only writer, which cannot lose.
//! T2. The only writer holds every pair, so every write that had begun is over and none begins;
//!     gets, snapshots and iterators go on. There is one at a time, and it waits for room in memory
//!     before and after, never in between.
//! T3. A write or a close that the user's function asks for by itself is refused, in every attempt:
//!     as the only writer it would wait for itself, before it would be written whatever becomes of
//!     the batch. A function that does so is wrong on its first run, not on the first busy day.
//!     Keyspaces may be made, dropped and changed in it: at once, and by each attempt.
//!
//! Threads: any. Tests: `tests/transact.rs`; `transactions_that_meet_lose_nothing` under shuttle;
//! the campaign `histories`.

use crate::batch::Operation;
use crate::core::{Engine, Pair};
use crate::db::Db;
use crate::options::WriteOptions;
use crate::snapshot::Snapshot;
use crate::stalls::Cause;
use crate::write_batch::WriteBatch;
use std::time::Duration;
use velella_base::{Error, Result, Stamp, seeded};
use velella_sync::lock::MutexGuard;
use velella_sync::{PoolGuard, thread};

/// Attempts that let others write meanwhile; so few in a model that the only writer is met.
const ATTEMPTS: u32 = if cfg!(shuttle) { 1 } else { 4 };

/// The right to write alone (T2).
struct OnlyWriter<'a> {
    pairs: Vec<PoolGuard<'a, Pair>>,
    _turn: MutexGuard<'a, ()>,
}

impl Engine {
    /// Waits until every write that has begun is over, and lets none begin.
    fn only_writer(&self) -> Result<OnlyWriter<'_>> {
        self.admit(0)?;
        let started = thread::now();
        let turn = self.writing_alone.lock();
        let mut only = OnlyWriter {
            pairs: Vec::with_capacity(self.pairs.len()),
            _turn: turn,
        };
        let left_out = usize::from(seeded("the-only-writer-leaves-a-pair-out"));
        for index in 0..self.pairs.len() - left_out {
            only.pairs.push(loop {
                // Whoever closes the database keeps the pairs that it has.
                self.check()?;
                match self.pairs.try_checkout(index) {
                    Some(pair) => break pair,
                    None => thread::sleep(Duration::from_micros(100)),
                }
            });
        }
        // Closing waits for the pairs, then for nobody: who gets the last one later must not write.
        self.check()?;
        self.stalls.note(Cause::Slots, started.elapsed());
        self.counters.written_alone.increment();
        Ok(only)
    }

    /// What `attempt` makes of the database now, written before anybody else writes.
    fn write_alone<R, E: From<Error>>(
        &self,
        options: WriteOptions,
        attempt: impl FnOnce() -> Result<(R, Vec<Operation>), E>,
    ) -> Result<(R, Option<Stamp>), E> {
        let mut only = self.only_writer()?;
        let (result, operations) = attempt()?;
        if operations.is_empty() {
            return Ok((result, None));
        }
        let plan = self.plan(&operations)?;
        let committed = self.commit_in(&plan, None, &mut only.pairs[0]);
        drop(only);
        self.charge(plan.bytes());
        let stamp = self.conclude(&plan, committed, options)?;
        Ok((result, stamp))
    }
}

impl Db {
    /// Reads, decides and writes as one step, over any keys: `decide` reads a snapshot and fills a
    /// batch, which is written if none of *its* keys was written since (snapshot isolation). If one
    /// was, `decide` is called again with a new snapshot and an empty batch. After four lost
    /// attempts all other writers wait for the next one, so that it ends.
    ///
    /// Returns what `decide` returned at last, and the stamp of the write. There is no stamp if the
    /// batch was left empty: then nothing is written, nor synced.
    ///
    /// - `decide` writes by its batch alone. A write or a close that its own thread asks for is
    ///   refused with `InvalidInput`, from the first call on. Reads are welcome, and so are writes
    ///   to another database, unless that one's transactions write to this one: two of them may
    ///   wait for each other until one of the databases is closed.
    /// - Keyspaces that it creates, drops or changes are no part of the batch: that happens at
    ///   once, whatever becomes of the batch, and again in each attempt.
    /// - It must not wait for a thread that writes, by a lock or otherwise: in the last call no
    ///   other thread can write. It should be short for the same reason.
    ///
    /// What expires is judged at the snapshot: a value that was read may have expired when the
    /// batch is written, where [`rmw`](crate::Keyspace::rmw) would have decided anew.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("velella-transact-{}", std::process::id()));
    /// # let db = velella::open(&dir)?;
    /// # db.put("a", "10")?;
    /// let (moved, stamp) = db.transact(Default::default(), |snapshot, batch| {
    ///     let Some(value) = snapshot.get(&db, "a")? else {
    ///         return Ok(false);
    ///     };
    ///     batch.delete(&db, "a").put(&db, "b", &value);
    ///     Ok::<_, velella::Error>(true)
    /// })?;
    /// assert!(moved && stamp.is_some());
    /// assert_eq!(db.get("b")?.unwrap(), "10");
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), velella::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`], and what `decide` returns.
    pub fn transact<R, E: From<Error>>(
        &self,
        options: WriteOptions,
        mut decide: impl FnMut(&Snapshot, &mut WriteBatch) -> Result<R, E>,
    ) -> Result<(R, Option<Stamp>), E> {
        self.engine().check_open()?;
        let mut decide = |snapshot: &Snapshot, batch: &mut WriteBatch| {
            let _deciding = self.engine().deciding();
            decide(snapshot, batch)
        };
        let mut batch = WriteBatch::new();
        for _ in 0..ATTEMPTS {
            let snapshot = self.snapshot();
            batch.clear();
            let result = decide(&snapshot, &mut batch)?;
            if batch.is_empty() {
                return Ok((result, None));
            }
            let written = self.write_if_unchanged(&batch, &snapshot, options)?;
            if written.is_some() {
                return Ok((result, written));
            }
        }
        self.engine().write_alone(options, move || {
            batch.clear();
            let result = decide(&self.snapshot(), &mut batch)?;
            Ok((result, batch.operations))
        })
    }
}
