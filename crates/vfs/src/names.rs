//! The names in one directory, which many threads make durable.
//!
//! Purpose: a failed sync of a directory may lose names that others made there, and it is told to
//! one of them only (V4 of the crate): the next sync would call those names durable.
//!
//! D1. After a sync that failed every other fails: those that begin later, and those that were
//!     under way.
//! D2. One for which the directory could not be opened, since too many files were, has not failed:
//!     nothing was synced, nothing is lost.
//!
//! Threads: any; those that sync at once still share what the file system makes of it.
//!
//! Tests: below.

use crate::vfs::{Vfs, lacks_descriptors};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Result};
use velella_sync::lock::{Mutex, RwLock};

/// See the module.
#[derive(Debug)]
pub struct Names {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// Shared by every sync, until what it told is known to all.
    under_way: RwLock<()>,
    failed: Mutex<Option<Error>>,
}

impl Names {
    /// Those in `dir`.
    #[must_use]
    pub fn new(vfs: Arc<dyn Vfs>, dir: &Path) -> Names {
        Names {
            vfs,
            dir: dir.to_path_buf(),
            under_way: RwLock::new(()),
            failed: Mutex::new(None),
        }
    }

    /// Makes every name durable that is there by now.
    ///
    /// # Errors
    /// What the file system refused; `ReadOnly`: it refused a sync before, or another one
    /// meanwhile.
    pub fn sync(&self) -> Result<()> {
        let under_way = self.under_way.read();
        let synced = self.vfs.sync_dir(&self.dir);
        if let Err(error) = &synced
            && !lacks_descriptors(error)
        {
            self.failed.lock().get_or_insert_with(|| error.clone());
        }
        drop(under_way);
        // A full disk, too, is a sync that failed: nobody may take it for a write refused.
        synced.map_err(|error| match error.kind() {
            ErrorKind::NoSpace => error.with_kind(ErrorKind::Io),
            _ => error,
        })?;
        // Those under way have told by then.
        drop(self.under_way.write());
        self.check()
    }

    /// Fails if a sync failed.
    ///
    /// # Errors
    /// `ReadOnly`, with what the file system refused.
    pub fn check(&self) -> Result<()> {
        let Some(cause) = self.failed.lock().clone() else {
            return Ok(());
        };
        let found = format!("an earlier sync of it failed, and may have lost names: {cause}");
        Err(Error::new(ErrorKind::ReadOnly, "sync", found)
            .on(&self.dir)
            .remedy("mend the device, then open the database again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, Rule};
    use crate::intercept::{Call, Intercepted, Interceptor, Verdict};
    use crate::{FaultFs, MemFs, Operation};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    #[test]
    fn after_a_failed_sync_no_other_succeeds() {
        let faulty = FaultFs::over_mem(&MemFs::new());
        faulty.create_dir_all(Path::new("/db")).unwrap();
        let names = Names::new(Arc::new(faulty.clone()), Path::new("/db"));
        names.sync().unwrap();
        let unopened = Rule::every(Fault::TooManyFiles).of(Operation::SyncDir);
        faulty.inject(unopened.times(1));
        assert_eq!(names.sync().unwrap_err().kind(), ErrorKind::Io);
        names.sync().unwrap();
        let once = Rule::every(Fault::Io).of(Operation::SyncDir).times(1);
        faulty.inject(once);
        assert_eq!(names.sync().unwrap_err().kind(), ErrorKind::Io);
        for _ in 0..2 {
            let later = names.sync().unwrap_err();
            assert_eq!(later.kind(), ErrorKind::ReadOnly, "{later}");
            assert!(later.to_string().contains("/db"), "{later}");
        }
    }

    /// Lets the first sync fail, once a second has succeeded.
    #[derive(Debug, Default)]
    struct FirstFailsLast {
        begun: AtomicU32,
        ended: AtomicU32,
    }

    impl Interceptor for FirstFailsLast {
        fn before(&self, call: &Call<'_>) -> Verdict {
            // Relaxed: whoever counts first is the first.
            if call.operation != Operation::SyncDir
                || self.begun.fetch_add(1, Ordering::Relaxed) > 0
            {
                return Verdict::Pass;
            }
            while self.ended.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            Verdict::Fail(Error::new(ErrorKind::Io, "sync", "a test says so"))
        }

        fn after(&self, call: &Call<'_>, _failed: bool) {
            if call.operation == Operation::SyncDir {
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn one_that_succeeds_beside_one_that_fails_fails_too() {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/db")).unwrap();
        let by = Arc::new(FirstFailsLast::default());
        let vfs = Intercepted {
            inner: Arc::new(fs),
            by: Arc::clone(&by),
        };
        let names = Names::new(Arc::new(vfs), Path::new("/db"));
        thread::scope(|scope| {
            let first = scope.spawn(|| names.sync());
            while by.begun.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            let second = names.sync().unwrap_err();
            assert_eq!(second.kind(), ErrorKind::ReadOnly, "{second}");
            assert_eq!(first.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
        });
    }
}
