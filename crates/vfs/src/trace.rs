//! A file system that writes down every call, one line each, and counts them.
//!
//! ```text
//! create 000042.sst
//! append 000042.sst 4096          bytes
//! write journal/000044.seal @512 100
//! allocate journal/000045.seg @1048576
//! sync_dir .
//! rename CURRENT.tmp CURRENT
//! remove 000041.sst !             it failed
//! ```
//! T1. Lines are in the order in which calls ended; paths are relative to the root given.
//! T2. What is stored through a window is no call, and not seen, nor is what may fail at any time
//!     (I2 of `intercept.rs`).
//!
//! Threads: any number; counting takes no lock, writing down does.
//!
//! Tests: `trace/tests.rs`, and the contract.

use crate::intercept::{Call, Intercepted, Interceptor, Verdict};
use crate::operation::Operation;
use crate::vfs::Vfs;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_sync::counter::Counter;
use velella_sync::lock::Mutex;

/// How often an operation was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Calls, failed ones too.
    pub calls: u64,
    /// Bytes moved by those that did not fail.
    pub bytes: u64,
}

/// A file system that writes down every call. Clones share lines and counts.
pub type TraceFs = Intercepted<Trace>;

/// The lines and counts of a [`TraceFs`].
#[derive(Debug)]
pub struct Trace {
    root: PathBuf,
    lines: Option<Mutex<Vec<String>>>,
    counters: [Counters; Operation::ALL.len()],
}

#[derive(Debug, Default)]
struct Counters {
    calls: Counter,
    bytes: Counter,
}

impl TraceFs {
    /// Writes down and counts; lines stay until taken.
    #[must_use]
    pub fn new(inner: Arc<dyn Vfs>, root: &Path) -> TraceFs {
        TraceFs::with(inner, root, Some(Mutex::new(Vec::new())))
    }

    /// Only counts.
    #[must_use]
    pub fn counting(inner: Arc<dyn Vfs>) -> TraceFs {
        TraceFs::with(inner, Path::new(""), None)
    }

    fn with(inner: Arc<dyn Vfs>, root: &Path, lines: Option<Mutex<Vec<String>>>) -> TraceFs {
        let trace = Trace {
            root: root.to_path_buf(),
            lines,
            counters: Default::default(),
        };
        Intercepted {
            inner,
            by: Arc::new(trace),
        }
    }

    /// The lines since the last time.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        let lines = self.by.lines.as_ref();
        lines.map_or_else(Vec::new, |lines| std::mem::take(&mut *lines.lock()))
    }

    /// How often this operation was called.
    #[must_use]
    pub fn count(&self, operation: Operation) -> Count {
        let counters = &self.by.counters[operation as usize];
        Count {
            calls: counters.calls.sum(),
            bytes: counters.bytes.sum(),
        }
    }

    /// The operations that were called, and how often.
    #[must_use]
    pub fn counts(&self) -> Vec<(Operation, Count)> {
        let all = Operation::ALL.into_iter();
        all.map(|operation| (operation, self.count(operation)))
            .filter(|(_, count)| count.calls > 0)
            .collect()
    }
}

impl Trace {
    fn line(&self, call: &Call<'_>, failed: bool) -> String {
        let mut line = call.operation.as_str().to_owned();
        for path in [Some(call.path), call.to].into_iter().flatten() {
            line.push(' ');
            line.push_str(&self.relative(path));
        }
        // Writing to a string cannot fail.
        if let Some(offset) = call.offset {
            let _ = write!(line, " @{offset}");
        }
        if call.bytes > 0 {
            let _ = write!(line, " {}", call.bytes);
        }
        if failed {
            line.push_str(" !");
        }
        line
    }

    fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        if path.as_os_str().is_empty() {
            return ".".to_owned();
        }
        path.display().to_string()
    }
}

impl Interceptor for Trace {
    fn before(&self, _call: &Call<'_>) -> Verdict {
        Verdict::Pass
    }

    fn after(&self, call: &Call<'_>, failed: bool) {
        let counters = &self.counters[call.operation as usize];
        counters.calls.increment();
        if !failed {
            counters.bytes.add(call.bytes as u64);
        }
        if let Some(lines) = &self.lines {
            let line = self.line(call, failed);
            lines.lock().push(line);
        }
    }
}

#[cfg(test)]
mod tests;
