//! What background work lacks for a while: space on the disk, or descriptors.
//!
//! H1. A shortage ends writing for nobody: the work is tried again, after pauses that grow up to
//!     [`PAUSE_MAX`], and by whoever calls for a flush or a compaction.
//! H2. While it lasts nobody waits for work that cannot be done: who would have to wait is told
//!     the error. Writes that need not wait go on.
//! H3. Flushes and compactions run short each for itself: what a compaction has no room for, a
//!     flush may have. It is over once one has succeeded, or what it was about is gone.
//!
//! Threads: any. Tests: below; `tests/full_disk.rs`.

use std::time::{Duration, Instant};
use velella_base::{Error, ErrorKind, Result};
use velella_sync::atomic::{AtomicBool, Ordering};
use velella_sync::lock::Mutex;
use velella_sync::thread::now;
use velella_vfs::lacks_descriptors;

/// The first pause, and the longest: who makes room waits no longer than that.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What flushes lack, and what compactions do (H3).
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    pub(crate) flushes: Shortage,
    pub(crate) compactions: Shortage,
}

impl Shortages {
    /// Whether `error` says that something is lacking which may be there again later.
    pub(crate) fn is_one(error: &Error) -> bool {
        error.kind() == ErrorKind::NoSpace || lacks_descriptors(error)
    }

    /// What background work met last, if that lasts.
    pub(crate) fn error(&self) -> Option<Error> {
        self.flushes.error().or_else(|| self.compactions.error())
    }
}

/// Whether something is lacking, and since what error.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    /// Whether `met` is something; changes under its lock. All accesses Relaxed: a hint for those
    /// who find no fault with an instant more or less.
    is_on: AtomicBool,
    met: Mutex<Option<Met>>,
}

#[derive(Debug)]
struct Met {
    error: Error,
    pause: Duration,
    again_at: Instant,
}

impl Shortage {
    /// Takes note of what work met; an error of another kind is given back.
    pub(crate) fn note(&self, error: Error) -> Result<()> {
        if !Shortages::is_one(&error) {
            return Err(error);
        }
        let mut met = self.met.lock();
        let before = met.as_ref().map(|met| met.pause);
        let pause = before.map_or(PAUSE_MIN, |pause| (pause * 2).min(PAUSE_MAX));
        *met = Some(Met {
            error,
            pause,
            again_at: now() + pause,
        });
        self.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the work may be tried (again).
    pub(crate) fn may_try(&self) -> bool {
        !self.is_on() || {
            let met = self.met.lock();
            met.as_ref().is_none_or(|met| met.again_at <= now())
        }
    }

    /// H3. Whether there was one.
    #[inline]
    pub(crate) fn end(&self) -> bool {
        self.is_on() && {
            let mut met = self.met.lock();
            self.is_on.store(false, Ordering::Relaxed);
            met.take().is_some()
        }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn error(&self) -> Option<Error> {
        self.met.lock().as_ref().map(|met| met.error.clone())
    }

    /// H2: for who would have to wait, because of `what`.
    pub(crate) fn check(&self, what: &str) -> Result<()> {
        self.error().map_or(Ok(()), |error| {
            let found = format!("{what}, and background work can do nothing about it ({error})");
            let told = Error::new(error.kind(), "write", found);
            Err(told.remedy("mend the cause; the database then goes on by itself within seconds"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Error {
        Error::new(ErrorKind::NoSpace, "write a table", "no space left")
    }

    #[test]
    fn a_shortage_lasts_until_work_succeeds_and_pauses_grow() {
        let shortage = Shortage::default();
        assert!(shortage.may_try() && shortage.check("it is full").is_ok());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            shortage.note(full()).unwrap();
            assert!(!shortage.may_try());
            pauses.push(shortage.met.lock().as_ref().unwrap().pause);
        }
        assert_eq!(pauses[..3], [1, 2, 4].map(|n| n * PAUSE_MIN));
        assert_eq!(pauses[7], PAUSE_MAX);
        let told = shortage.check("it is full").unwrap_err();
        assert_eq!(told.kind(), ErrorKind::NoSpace, "{told}");
        assert!(shortage.end() && !shortage.end());
        assert!(shortage.may_try() && shortage.check("it is full").is_ok());
        // The next one begins anew.
        shortage.note(full()).unwrap();
        let pause = shortage.met.lock().as_ref().unwrap().pause;
        assert_eq!(pause, PAUSE_MIN);
    }

    #[test]
    fn other_errors_are_no_shortage() {
        let shortage = Shortage::default();
        let error = Error::new(ErrorKind::Io, "write a table", "the device says no");
        let back = shortage.note(error).unwrap_err();
        assert_eq!(back.kind(), ErrorKind::Io);
        assert!(!shortage.is_on());
    }
}
