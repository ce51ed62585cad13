//! The first failure, handed to every later caller.
//!
//! P1. Once poisoned for ever poisoned; the first cause wins (J5).
//! P2. Closing is the same door with another sign on it.
//!
//! Threads: any; the test on the write path is one load.

use velella_base::{Error, ErrorKind, Result, seeded};
use velella_sync::atomic::{AtomicBool, Ordering};
use velella_sync::lock::Mutex;

/// Whether the journal still takes writes, and if not, why.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    stopped: AtomicBool,
    cause: Mutex<Option<Error>>,
}

impl Poison {
    /// Fails if the journal is poisoned or closed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        // Acquire, partner: the Release in `set`.
        if self.stopped.load(Ordering::Acquire) {
            return Err(self.refusal());
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self) -> Error {
        match self.cause() {
            Some(cause) if cause.kind() == ErrorKind::Closed => cause,
            Some(cause) => Error::new(
                ErrorKind::ReadOnly,
                "write to the journal",
                format!("it stopped after an earlier failure: {cause}"),
            )
            .remedy("mend the cause, then open the database again"),
            None => Error::new(ErrorKind::ReadOnly, "write to the journal", "it stopped"),
        }
    }

    /// The first cause.
    pub(crate) fn cause(&self) -> Option<Error> {
        self.cause.lock().clone()
    }

    /// Stops the journal for `cause`, unless it is stopped already (P1).
    pub(crate) fn set(&self, cause: Error) {
        if seeded("a-failed-sync-is-forgotten") && cause.kind() != ErrorKind::Closed {
            return;
        }
        let mut slot = self.cause.lock();
        if slot.is_none() {
            *slot = Some(cause);
        }
        // Release, partner: the Acquire in `check`.
        self.stopped.store(true, Ordering::Release);
    }

    /// Stops the journal because it was closed (P2).
    pub(crate) fn close(&self) {
        self.set(
            Error::new(ErrorKind::Closed, "write to the journal", "it was closed")
                .remedy("open the database again"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_stays_and_is_named_to_everyone() {
        let poison = Poison::default();
        assert!(poison.check().is_ok());
        poison.set(Error::new(ErrorKind::Io, "sync", "first"));
        poison.set(Error::new(ErrorKind::Io, "sync", "second"));
        let error = poison.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        assert!(error.to_string().contains("first"), "{error}");
    }
}
