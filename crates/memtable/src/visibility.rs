//! Whether a reader at a given time sees a version (`0` cost for a committed one: one load).
//!
//! V1. An undecided version is passed over only if its stamp cannot concern the reader: always
//!     when skipping; when resolving, if its owner's slot, read between two equal reads of the
//!     word, is idle or announces a bound at or above the reader's time. The order of the three
//!     loads is essential: the slot alone may belong to the owner's next write.
//! V2. What a version passed over as undecided is followed by is trusted only if the word is
//!     still the same afterwards: once it is decided, a pruner may have dropped its successor on
//!     the ground that nobody needs more than the version itself.
//!
//! Tests: `lazy_snapshot_*` and `skipping_get_vs_pruner` in `tests/loom.rs`.

use crate::interface::{OnPending, ReadAt};
use crate::ordering::{Site, is_sound};
use crate::record::Record;
use velella_base::{Stamp, seeded};
use velella_mvcc::{Slots, Word};
use velella_sync::Guard;
use velella_sync::atomic::spin;

/// How many turns a resolving reader spins before it yields.
const SPINS: u32 = 100;

/// A reader among the versions of a key.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) at: ReadAt,
    pub(crate) slots: &'a Slots,
    pub(crate) guard: &'a Guard,
}

impl Reader<'_> {
    /// The stamp of `record` if the reader sees it, else what `next` finds after it.
    #[inline]
    pub(crate) fn examine<T>(&self, record: &Record, next: impl Fn() -> T) -> Result<Stamp, T> {
        let mut turns = 0;
        loop {
            let word = record.state(self.guard);
            match Word::decode(word) {
                Word::Committed(stamp, _) if stamp <= self.at.stamp => return Ok(stamp),
                Word::Committed(..) | Word::Aborted => return Err(next()),
                Word::Pending(slot) => {
                    if self.may_pass(slot) {
                        let next = next();
                        // V1's third load and V2 at once.
                        if !is_sound(Site::SecondLook) || record.state(self.guard) == word {
                            return Err(next);
                        }
                    } else {
                        wait(&mut turns);
                    }
                }
                Word::Cell(_) => unreachable!("a state is never a reference to a cell"),
            }
        }
    }

    /// Whether the undecided version of `slot` cannot concern this reader, provided its word is
    /// found unchanged afterwards.
    fn may_pass(&self, slot: usize) -> bool {
        match self.at.pending {
            OnPending::Skip => true,
            OnPending::Resolve if seeded("a-snapshot-passes-open-windows") => true,
            OnPending::Resolve => self
                .slots
                .announced(slot)
                .is_none_or(|lower_bound| lower_bound >= self.at.stamp),
        }
    }
}

/// Waits for an owner inside its window: constant and short unless it lost the processor.
#[cold]
fn wait(turns: &mut u32) {
    *turns += 1;
    if *turns < SPINS {
        spin();
    } else {
        velella_sync::thread::yield_now();
    }
}
