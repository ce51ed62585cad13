//! A database as a campaign runs it: on one thread, in memory, from one number.
//!
//! Deterministic: which operation comes, with what keys, values and durability; which lane it
//! takes; when a memtable is flushed, a tree compacted, a round run, a segment made (no thread does
//! it but this one); the wall clock; every choice of every crash. Not deterministic, and without
//! influence on any of that: the random id of a database, the heights of skip-list towers, and
//! when memory of replaced views is freed. The last decides when a file that nobody reads any more
//! is removed, so a run has a thread of its own, and the calls that remove files are not counted
//! as crash points of their own: the images before the next call hold every outcome of them.

pub mod setting;
pub mod history;
pub mod operation;
pub mod store;
pub mod points;
pub mod judge;
pub mod victim;

use velella_sync::simulation::Simulation;

/// When every simulation begins: milliseconds since 1970.
pub const BEGINNING_MS: u64 = 1_000_000_000_000;

/// Runs `body` as a simulation on a thread of its own.
///
/// # Errors
/// What `body` says.
///
/// # Panics
/// With the panic of `body`.
pub fn alone<T: Send>(
    body: impl FnOnce(&Simulation) -> Result<T, String> + Send,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| body(&Simulation::begin(BEGINNING_MS)));
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
