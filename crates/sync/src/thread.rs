//! Threads and time.
//!
//! Background threads are named, so that a profile says whose time it shows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

static NEXT_ORDINAL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Relaxed: only tells threads apart, publishes nothing.
    static ORDINAL: usize = NEXT_ORDINAL.fetch_add(1, Ordering::Relaxed);
}

/// The number of the calling thread, in the order in which threads first asked: spreads threads
/// over stripes. 0 while the thread ends.
#[must_use]
#[inline]
pub fn ordinal() -> usize {
    ORDINAL.try_with(|ordinal| *ordinal).unwrap_or(0)
}

/// Threads that may borrow, since they end before `scope` returns; a model has none of them.
pub use std::thread::{Builder, JoinHandle, scope};

/// Starts a named background thread.
///
/// # Errors
/// The operating system's refusal to start one.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
}

/// Starts a named thread that ends before `scope` does.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<std::thread::ScopedJoinHandle<'scope, T>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, body)
}

/// Gives the rest of this thread's time slice away.
pub fn yield_now() {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Sleeps at least `time`; for pacing and back-off, never for synchronisation.
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// The monotonic clock.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock: milliseconds since 1970 (0 if the clock stands before that).
#[must_use]
pub fn wall_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
