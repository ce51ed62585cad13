//! What INFO counts, kept per network thread so that counting costs no shared cache line.
//!
//! M1. Each set of counters has one writer, its thread; readers add the sets up and may see a
//!     count an instant old.
//!
//! Tests: through INFO in `tests/`.

use velella_sync::atomic::{AtomicU64, Ordering};

/// A number one thread increases and all may read (M1).
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds `n`; only the owning thread may.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: one writer, and a count orders nothing.
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// The number.
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: see `add`.
        self.0.load(Ordering::Relaxed)
    }

    /// Back to zero, from any thread: an addition at the same instant may survive it.
    fn reset(&self) {
        // Relaxed: see `add`.
        self.0.store(0, Ordering::Relaxed);
    }
}

/// How often one command ran on one thread.
#[derive(Debug, Default)]
pub(crate) struct CommandCounts {
    /// Times it ran.
    pub calls: Count,
    /// Nanoseconds it took in all.
    pub nanos: Count,
    /// Times it was refused before it ran.
    pub rejected: Count,
    /// Times it ran and failed.
    pub failed: Count,
}

/// One network thread's counters.
#[derive(Debug)]
pub(crate) struct Counters {
    /// By the command's number in the table.
    pub commands: Box<[CommandCounts]>,
    /// Connections given to this thread.
    pub connections: Count,
    /// Bytes received.
    pub bytes_in: Count,
    /// Bytes sent.
    pub bytes_out: Count,
    /// Reads from sockets.
    pub reads: Count,
    /// Reads from sockets that had nothing.
    pub reads_in_vain: Count,
    /// Calls that wait for events, those included that only look whether there is one.
    pub polls: Count,
    /// Writes to sockets.
    pub writes: Count,
    /// Keys looked up and found.
    pub hits: Count,
    /// Keys looked up in vain.
    pub misses: Count,
    /// Replies that are errors.
    pub errors: Count,
    /// Waits for the device on behalf of replies, each for any number of them.
    pub durability_waits: Count,
    /// Commands that panicked.
    pub panics: Count,
}

impl Counters {
    /// Zeros, for `commands` commands.
    pub(crate) fn new(commands: usize) -> Self {
        Counters {
            commands: (0..commands).map(|_| CommandCounts::default()).collect(),
            connections: Count::default(),
            bytes_in: Count::default(),
            bytes_out: Count::default(),
            reads: Count::default(),
            reads_in_vain: Count::default(),
            polls: Count::default(),
            writes: Count::default(),
            hits: Count::default(),
            misses: Count::default(),
            errors: Count::default(),
            durability_waits: Count::default(),
            panics: Count::default(),
        }
    }

    /// Counts one lookup.
    #[inline]
    pub(crate) fn looked_up(&self, found: bool) {
        if found {
            self.hits.add(1)
        } else {
            self.misses.add(1)
        }
    }

    /// CONFIG RESETSTAT.
    pub(crate) fn reset(&self) {
        for command in &self.commands {
            let CommandCounts {
                calls,
                nanos,
                rejected,
                failed,
            } = command;
            [calls, nanos, rejected, failed]
                .iter()
                .for_each(|count| count.reset());
        }
        [
            &self.connections,
            &self.bytes_in,
            &self.bytes_out,
            &self.reads,
            &self.reads_in_vain,
            &self.polls,
            &self.writes,
            &self.hits,
            &self.misses,
            &self.errors,
            &self.durability_waits,
            &self.panics,
        ]
        .iter()
        .for_each(|count| count.reset());
    }
}
