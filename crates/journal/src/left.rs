//! Extents that lanes have left: their windows, and what was written to them.
//!
//! L1. Windows are given back by who prepares or sweeps: to unmap pages, every processor is asked
//!     to forget them, and who asks waits for the slowest (seen: 5 ms, for one that the machine's
//!     host had taken away). Until then they keep their files' space, a segment's at most: a writer
//!     that leaves one more gives that back itself.
//! L2. What was written is handed to the device by who prepares, and waits to prepare: every
//!     [`HANDED_ON_EVERY`] while lanes leave extents that fast. Nobody else waits for the device
//!     there, preparation goes before, and nothing is durable by it; but a round would find all
//!     that was written since the one before, and while a device takes that at its full rate,
//!     writers are slower. What is more than [`HANDED_ON_MOST`] is left to the round.
//!
//! Threads: any. Tests: below; `tests/retention.rs` (L2).

use crate::segment::Segment;
use std::sync::Weak;
use std::time::Duration;
use velella_sync::atomic::{AtomicBool, Ordering};
use velella_sync::lock::Mutex;
use velella_vfs::Window;

/// How long what lanes leave waits while they are leaving more (L2). Nobody wakes who hands it on:
/// that thread might take the processor of the writer that wakes it.
const HANDED_ON_EVERY: Duration = Duration::from_millis(20);
/// Extents that wait to be handed on, at most: four segments by default.
const HANDED_ON_MOST: usize = 256;

/// What lanes have left.
#[derive(Debug)]
pub(crate) struct Left {
    /// How many windows are kept at most (L1).
    most: u64,
    windows: Mutex<Vec<Window>>,
    written: Mutex<Vec<Written>>,
    /// Whether a lane has left an extent since it was asked before.
    is_growing: AtomicBool,
}

/// What a lane has written to an extent that it left.
#[derive(Debug)]
pub(crate) struct Written {
    /// If it is gone, so is all that was to be written.
    pub(crate) segment: Weak<Segment>,
    /// Where the extent begins in the segment, and the bytes that were written.
    pub(crate) position: u64,
    pub(crate) len: u64,
}

impl Left {
    /// Nothing, and at most so many windows.
    pub(crate) fn new(most: u64) -> Left {
        Left {
            most,
            windows: Mutex::default(),
            written: Mutex::default(),
            is_growing: AtomicBool::new(false),
        }
    }

    /// Takes the window, if it has one, of an extent that its lane has left, and what was written
    /// to it.
    pub(crate) fn add(&self, window: Option<Window>, written: Written) {
        let mut windows = self.windows.lock();
        let own = match (windows.len() as u64) < self.most {
            true => {
                windows.extend(window);
                None
            }
            false => window,
        };
        drop(windows);
        drop(own);

        // Last: who takes it to be written finds its window among those to be given back.
        let mut waiting = self.written.lock();
        if waiting.len() < HANDED_ON_MOST {
            waiting.push(written);
        }
        drop(waiting);
        // Relaxed: a hint, of how soon to look again.
        self.is_growing.store(true, Ordering::Relaxed);
    }

    /// Gives windows back (L1).
    pub(crate) fn give_back(&self) {
        let windows = std::mem::take(&mut *self.windows.lock());
        // Without the lock, for which writers would wait.
        drop(windows);
    }

    /// Has the device begin with what was written (L2), until there is something else to do.
    pub(crate) fn hand_on(&self, is_wanted: &dyn Fn() -> bool) {
        let mut written = std::mem::take(&mut *self.written.lock()).into_iter();
        // First: of a page that is mapped, every processor is told before it is written.
        self.give_back();
        for extent in written.by_ref() {
            if let Some(segment) = extent.segment.upgrade() {
                segment.write_back(extent.position, extent.len);
            }
            if is_wanted() {
                break;
            }
        }
        let mut waiting = self.written.lock();
        let left_since = std::mem::replace(&mut *waiting, written.collect());
        waiting.extend(left_since);
        waiting.truncate(HANDED_ON_MOST);
    }

    /// After how long of a pause of `limit` to hand on again.
    pub(crate) fn pause(&self, limit: Duration) -> Duration {
        // Relaxed: see `add`.
        match self.is_growing.swap(false, Ordering::Relaxed) {
            true => limit.min(HANDED_ON_EVERY),
            false => limit,
        }
    }

    /// Windows that wait to be given back.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn windows(&self) -> usize {
        self.windows.lock().len()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::core::Core;
    use crate::lane::Lane;
    use crate::segment::journal_dir;
    use std::sync::Arc;
    use velella_base::Stamp;
    use velella_vfs::MemFs;

    #[test]
    fn windows_that_lanes_left_wait_for_who_prepares_and_are_few() {
        let config = Config::small(&MemFs::new());
        config.vfs.create_dir_all(&journal_dir(&config)).unwrap();
        let core = Arc::new(Core::new(config, 1, Stamp::ZERO));
        core.inventory.first().unwrap();
        let mut lane = Lane::new(&core, 0);
        let left = || core.inventory.left.windows();
        let most = (1..200)
            .map(|stamp| {
                lane.reserve(&[&[1; 1_000]]).unwrap();
                lane.commit(Stamp(stamp)).unwrap();
                left()
            })
            .max();
        assert_eq!(most, Some(4), "a segment's");
        core.inventory.prepare(&|| false).unwrap();
        assert_eq!(left(), 0, "somebody prepared");
    }

    #[test]
    fn who_hands_on_stops_for_something_else_and_the_rest_waits() {
        let left = Left::new(1);
        let leave = || {
            let written = Written {
                segment: Weak::new(),
                position: 0,
                len: 1,
            };
            left.add(None, written);
        };
        let waiting = || left.written.lock().len();
        let second = Duration::from_secs(1);
        assert_eq!(left.pause(second), second, "nothing was left");
        (0..HANDED_ON_MOST + 1).for_each(|_| leave());
        assert_eq!(waiting(), HANDED_ON_MOST);
        assert_eq!(left.pause(second), HANDED_ON_EVERY);
        assert_eq!(left.pause(second), second, "nothing more was left");
        left.hand_on(&|| true);
        assert_eq!(waiting(), HANDED_ON_MOST - 1);
        left.hand_on(&|| {
            // While it is at it.
            leave();
            true
        });
        assert_eq!(waiting(), HANDED_ON_MOST - 1);
        left.hand_on(&|| false);
        assert_eq!(waiting(), 0);
    }
}
