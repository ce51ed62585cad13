//! Cursors over tables that iterators have left, for the next iterators.
//!
//! Whoever opens an iterator takes part in the ownership of each run of tables that it reads. The
//! counts of owners are the same for all threads, so short scans on several processors wait for
//! each other's; and all of it is made anew for ten pairs. An iterator that ends leaves its cursors
//! instead, and the next one of the thread takes them over.
//!
//! R1. What is taken over is of the version in force: who takes it compares the tree's generation
//!     with that at which the cursors were made, after it has its view (V4 of `view.rs`) and has
//!     looked how much is flushed.
//! R2. What rests keeps files, so it leaves with its version: who replaced a version sweeps. Who
//!     leaves cursors compares the generations while it holds their place: either it sees the new
//!     one, or the sweep comes after it. The same holds of closing, after which nothing rests.
//! R3. Only cursors rest that are all a reader of any time needs, and that no error or panic left
//!     in the middle of a movement.
//! R4. There is one place for a group of threads, whatever the number of keyspaces: so there rest
//!     at most `PLACES * RUNS_MAX` cursors, each with a block that the cache may have given up.
//! R5. A reader does not wait: where another has its place, it makes cursors of its own, and leaves
//!     none.
//!
//! Threads: any. While a place is held no other lock is taken, and nothing is dropped.
//! Tests: beside; `tests/resting.rs`.

use crate::keyspace_core::Core;
use velella_base::{KeyspaceId, Stamp, seeded};
use velella_sync::counter::Counter;
use velella_sync::lock::Mutex;
use velella_sync::{CachePadded, thread};
use velella_tree::Source;

const PLACES: usize = 8;

/// More runs than these do not rest: a merge of so many costs more than its making.
const RUNS_MAX: usize = 8;

/// Cursors at rest.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    places: [CachePadded<Mutex<Place>>; PLACES],
    /// How often one iterator went on with another's cursors.
    pub(crate) taken_over: Counter,
}

#[derive(Debug, Default)]
struct Place {
    rested: Option<Rested>,
    /// The database was closed.
    is_shut: bool,
}

/// Cursors of one keyspace, newest first.
#[derive(Debug)]
struct Rested {
    keyspace: KeyspaceId,
    /// That of the tree, read before the cursors were made.
    generation: u64,
    runs: Vec<Source>,
}

impl Rested {
    fn is_of(&self, core: &Core) -> bool {
        self.keyspace == core.id
    }

    /// Whether they are of the version in force, if they are of `core`.
    fn is_current(&self, core: &Core) -> bool {
        self.generation == core.tree.generation() || seeded("cursors-rest-beyond-their-version")
    }
}

impl Resting {
    /// This thread's place.
    #[inline]
    fn place(&self) -> &Mutex<Place> {
        &self.places[thread::ordinal() % PLACES]
    }

    /// Takes over the cursors of a keyspace for a reader at `at`. They stay where they are if there
    /// is one among them that has nothing for it: it does not look there.
    pub(crate) fn take(&self, core: &Core, at: Stamp) -> Option<Vec<Source>> {
        let mut place = self.place().try_lock()?;
        let rested = place.rested.as_ref()?;
        let is_current = rested.is_of(core) && rested.is_current(core);
        if is_current && rested.runs.iter().any(|run| run.is_hidden(at)) {
            return None;
        }
        let rested = place.rested.take()?;
        drop(place);
        if !is_current {
            return None;
        }
        self.taken_over.increment();
        Some(rested.runs)
    }

    /// Leaves cursors that were made at this generation of the keyspace's tree (R2).
    pub(crate) fn leave(&self, core: &Core, generation: u64, runs: Vec<Source>) {
        if runs.is_empty() || runs.len() > RUNS_MAX {
            return;
        }
        let rested = Rested {
            keyspace: core.id,
            generation,
            runs,
        };
        let Some(mut place) = self.place().try_lock() else {
            return;
        };
        let may_rest = rested.is_current(core) || seeded("cursors-come-to-rest-late");
        let gone = match may_rest && !place.is_shut {
            true => place.rested.replace(rested),
            false => Some(rested),
        };
        drop(place);
        drop(gone);
    }

    /// Lets go of what is of an earlier version of the keyspace's tree (R2); whether there was any.
    pub(crate) fn sweep(&self, core: &Core) -> bool {
        let mut any = false;
        for place in &self.places {
            let is_old = |rested: &mut Rested| rested.is_of(core) && !rested.is_current(core);
            let gone = place.lock().rested.take_if(is_old);
            any |= gone.is_some();
        }
        any
    }

    /// Lets go of everything, for good: the database was closed.
    pub(crate) fn shut(&self) {
        for place in &self.places {
            let mut place = place.lock();
            place.is_shut = true;
            let gone = place.rested.take();
            drop(place);
            drop(gone);
        }
    }

    /// How many runs rest.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let places = self.places.iter().map(|place| place.lock());
        let runs = places.map(|place| place.rested.as_ref().map_or(0, |rested| rested.runs.len()));
        runs.sum()
    }
}

#[cfg(test)]
mod tests;
