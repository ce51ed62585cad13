//! What ends a server: a handle, or SIGTERM and SIGINT, the first time in good order, the second
//! time at once.
//!
//! Threads: a handle is used from any; signals are waited for by one of their own.
//! Tests: `tests/limits.rs`; signals by the end-to-end script.

use crate::shared::Shared;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle as SignalHandle, Signals as SignalIterator};
use std::sync::Arc;
use std::thread::JoinHandle;
use velella::{Error, ErrorKind, Result};
use velella_sync::thread::spawn;

/// Exit code of a process ended by a second signal.
const EXIT_CODE: i32 = 130;

/// Stops a server from any thread.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// A handle of the server that `shared` belongs to.
    pub(crate) fn new(shared: Arc<Shared>) -> Handle {
        Handle(shared)
    }

    /// Asks the server to stop; [`crate::Server::wait`] returns when it has.
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// A watch on the signals of the process.
pub(crate) struct Signals {
    handle: SignalHandle,
    thread: JoinHandle<()>,
}

impl Signals {
    /// Stops `server` on the first signal, and the process on the second.
    ///
    /// # Errors
    /// The operating system's refusal.
    pub(crate) fn watch(server: Handle) -> Result<Signals> {
        let refused = |error: std::io::Error| {
            Error::new(ErrorKind::Io, "watch for signals", error.to_string())
        };
        let mut signals = SignalIterator::new([SIGTERM, SIGINT]).map_err(refused)?;
        let handle = signals.handle();
        let thread = spawn("velella-signals", move || {
            let mut signals = signals.forever();
            if signals.next().is_some() {
                server.stop();
                if signals.next().is_some() {
                    std::process::exit(EXIT_CODE);
                }
            }
        });
        Ok(Signals {
            handle,
            thread: thread.map_err(refused)?,
        })
    }

    /// Ends the watch.
    pub(crate) fn ignore(self) {
        self.handle.close();
        // It only waits for signals, and has none to report.
        let _ended = self.thread.join();
    }
}
