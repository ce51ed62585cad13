//! What ends a server: a handle, or SIGTERM, SIGINT and SIGHUP, the first time in good order, the
//! second time at once.
//!
//! G1. Once no server watches any more, a signal does again what it did before the first: by
//!     default it ends the process. One that the process caught or ignored before stays so.
//! G2. A hangup that was ignored when the server began is ignored (`nohup`).
//! G3. A hangup is never the second signal: where a terminal closes, two come at once, from the
//!     shell and from the kernel.
//!
//! Threads: a handle is used from any; signals are waited for by one of their own.
//! Tests: below, `tests/limits.rs`, `tests/signals.rs`; the rest by the end-to-end script.

use crate::shared::Shared;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::{Handle as SignalHandle, Signals as SignalIterator};
use std::io;
use std::sync::Arc;
// What the handlers of signal-hook take.
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use velella::{Error, ErrorKind, Result};
use velella_sync::lock::Mutex;
use velella_sync::thread::spawn;

/// Exit code of a process ended by a second signal.
const EXIT_CODE: i32 = 130;

/// The signals that stop a server.
const SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// How many watches there are.
static WATCHES: Mutex<usize> = Mutex::new(0);

/// Whether nobody watches, so that signals are to do what they do by default (G1).
static UNWATCHED: AtomicBool = AtomicBool::new(true);

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
    watched: Watched,
}

impl Signals {
    /// Stops `server` on the first signal, and the process on the second.
    ///
    /// # Errors
    /// The operating system's refusal.
    pub(crate) fn watch(server: Handle) -> Result<Signals> {
        let refused =
            |error: io::Error| Error::new(ErrorKind::Io, "watch for signals", error.to_string());
        let (watched, mut signals) = Watched::begin().map_err(refused)?;
        let handle = signals.handle();
        let thread = spawn("velella-signals", move || {
            let mut signals = signals.forever();
            if signals.next().is_some() {
                server.stop();
                // G3.
                if signals.any(|signal| signal != SIGHUP) {
                    std::process::exit(EXIT_CODE);
                }
            }
        });
        Ok(Signals {
            handle,
            thread: thread.map_err(refused)?,
            watched,
        })
    }

    /// Ends the watch; from now on a signal is none of the server's business (G1).
    pub(crate) fn end(self) {
        drop(self.watched);
        self.handle.close();
        // It only waits for signals, and has none to report.
        let _ended = self.thread.join();
    }
}

/// Held while signals are watched for.
struct Watched;

impl Watched {
    /// Begins, and returns the signals that come from now on.
    fn begin() -> io::Result<(Watched, SignalIterator)> {
        let mut watches = WATCHES.lock();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        // G2.
        let watched =
            |signal: &i32| *signal != SIGHUP || is_in(&status, IGNORED, SIGHUP) != Some(true);
        let watched = SIGNALS.into_iter().filter(watched);
        // A handler cannot be taken away again, so from the first watch on there is one that does
        // by itself what is done by default.
        for signal in watched.clone() {
            if is_default(&status, signal) {
                register_conditional_default(signal, &UNWATCHED)?;
            }
        }
        let signals = SignalIterator::new(watched)?;
        *watches += 1;
        // Release, partner: the load in the handler of `register_conditional_default`; nothing else
        // depends on it.
        UNWATCHED.store(false, Ordering::Release);
        Ok((Watched, signals))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watches = WATCHES.lock();
        *watches -= 1;
        // Release: as in `begin`.
        UNWATCHED.store(*watches == 0, Ordering::Release);
    }
}

/// Sets of signals in what the kernel tells of a process.
const IGNORED: &str = "SigIgn:";
const CAUGHT: &str = "SigCgt:";

/// Whether a process of this `status`, as the kernel tells it, neither catches `signal` nor ignores
/// it; what cannot be read leaves the signal alone.
fn is_default(status: &str, signal: i32) -> bool {
    [IGNORED, CAUGHT]
        .iter()
        .all(|set| is_in(status, set, signal) == Some(false))
}

/// Whether `signal` is in a set; `None`: it cannot be read.
fn is_in(status: &str, set: &str, signal: i32) -> Option<bool> {
    let line = status.lines().find_map(|line| line.strip_prefix(set))?;
    let set = u64::from_str_radix(line.trim(), 16).ok()?;
    Some((set >> (signal - 1)) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_neither_caught_nor_ignored_is_done_by_default() {
        let status = |ignored: &str, caught: &str| {
            format!("Name:\tx\nSigBlk:\tffffffffffffffff\nSigIgn:\t{ignored}\nSigCgt:\t{caught}\n")
        };
        let (none, interrupt, terminate) =
            ("0000000000000000", "0000000000000002", "0000000000004000");
        for (ignored, caught, of_interrupt, of_terminate) in [
            (none, none, true, true),
            (interrupt, none, false, true),
            (none, interrupt, false, true),
            (interrupt, terminate, false, false),
            ("", none, false, false),
        ] {
            let status = status(ignored, caught);
            assert_eq!(is_default(&status, SIGINT), of_interrupt, "{status}");
            assert_eq!(is_default(&status, SIGTERM), of_terminate, "{status}");
        }
        assert!(!is_default("", SIGINT));
    }
}
