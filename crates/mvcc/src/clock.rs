//! The one clock.
//!
//! Partition structures, never the clock: one clock is what makes snapshots and batches span
//! keyspaces at no cost.
//!
//! T1. Every stamp is drawn once, in this incarnation and in all later ones (the lease).
//! T2. Visibility lemma: whoever has drawn, or read with Acquire, the clock value c can reach, as
//!     pending or decided, every version whose stamp is at or below c. It holds because a writer
//!     installs its version before it draws, and draws form one release sequence.
//! T3. What is read is at most `Stamp::MAX`: tables and journal have no room for more. Draws go on
//!     beyond it when the stamps have ended; no lease covers them.
//!
//! Tests: `tests/loom.rs`, and the models of `memtable`, with controls that must fail.

use crate::ordering::{Site, at};
use velella_base::{Stamp, seeded};
use velella_sync::CachePadded;
use velella_sync::atomic::{AtomicU64, Ordering};

/// The source of stamps.
#[derive(Debug)]
pub struct Clock {
    last: CachePadded<AtomicU64>,
    lease: CachePadded<AtomicU64>,
}

impl Clock {
    /// A clock whose next stamp follows `last`; stamps above `lease` may not be used yet.
    #[must_use]
    pub fn new(last: Stamp, lease: Stamp) -> Self {
        Clock {
            last: CachePadded::new(AtomicU64::new(last.0)),
            lease: CachePadded::new(AtomicU64::new(lease.0)),
        }
    }

    /// Draws the next stamp (step 8 of a write; also a candidate for a switch's W).
    #[inline]
    pub fn draw(&self) -> Stamp {
        if seeded("a-stamp-is-drawn-twice") {
            let last = self.last.load(Ordering::Acquire);
            velella_sync::thread::yield_now();
            self.last.store(last + 1, Ordering::Release);
            return Stamp(last + 1);
        }
        // AcqRel, partners: every other draw, `now` and `observe`. Release: my announcement and my
        // installed versions reach whoever sees this stamp. Acquire: I see all installed before
        // lower stamps, and the memtable set published before a W below mine.
        Stamp(self.last.fetch_add(1, at(Site::Draw, Ordering::AcqRel)) + 1)
    }

    /// The newest stamp drawn, as a snapshot's time: everything acknowledged before is at or below.
    #[inline]
    pub fn observe(&self) -> Stamp {
        // AcqRel on a read-modify-write, partners: `draw`. Acquire gives T2; being part of the
        // release sequence gives the hand-shake with collectors (see `Snapshots`).
        let now = self.last.fetch_add(0, at(Site::Observe, Ordering::AcqRel));
        read(now.saturating_sub(u64::from(seeded("a-snapshot-looks-back"))))
    }

    /// The newest stamp drawn, for a journal round or a collector: read it before the slots.
    #[inline]
    pub fn now(&self) -> Stamp {
        // Acquire, partner: `draw`; the round must see the announcements of stamps at or below.
        read(self.last.load(at(Site::Now, Ordering::Acquire)))
    }

    /// A lower bound for the next draw of this thread (step 7). It may lag; that is conservative.
    #[inline]
    pub fn lower_bound(&self) -> Stamp {
        // Relaxed: only a bound; see above.
        Stamp(self.last.load(Ordering::Relaxed))
    }

    /// The highest stamp that may be used before the lease is extended durably.
    #[inline]
    pub fn lease(&self) -> Stamp {
        // Acquire, partner: `extend`.
        Stamp(self.lease.load(at(Site::Lease, Ordering::Acquire)))
    }

    /// Allows stamps up to `lease`, which is durable.
    pub fn extend(&self, lease: Stamp) {
        // Release, partner: `lease`.
        self.lease
            .fetch_max(lease.0, at(Site::Extend, Ordering::Release));
    }
}

/// T3.
#[inline]
fn read(last: u64) -> Stamp {
    Stamp(last).min(Stamp::MAX)
}
