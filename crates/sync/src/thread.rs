//! Threads and time.
//!
//! Background threads are named, so that a profile says whose time it shows. In a model threads are
//! the model's and time stands still: a schedule must mean the same whenever it is run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[cfg(loom)]
pub use loom::thread::{Builder, JoinHandle};
#[cfg(shuttle)]
pub use shuttle::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle, scope};
#[cfg(not(any(loom, shuttle)))]
pub use std::thread::{Builder, JoinHandle};
/// Threads that may borrow, since they end before `scope` returns; loom has none of them.
#[cfg(not(shuttle))]
pub use std::thread::{Scope, ScopedJoinHandle, scope};

static NEXT_ORDINAL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Relaxed: only tells threads apart, publishes nothing.
    static ORDINAL: usize = NEXT_ORDINAL.fetch_add(1, Ordering::Relaxed);
}

/// The number of the calling thread, in the order in which threads first asked: spreads threads
/// over stripes. 0 while the thread ends, and for all threads of a model.
#[must_use]
#[inline]
pub fn ordinal() -> usize {
    if cfg!(any(loom, shuttle)) {
        return 0;
    }
    ORDINAL.try_with(|ordinal| *ordinal).unwrap_or(0)
}

/// Starts a named background thread.
///
/// # Errors
/// The operating system's refusal to start one.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(body)
}

/// Starts a named thread that ends before `scope` does.
///
/// # Errors
/// As [`spawn`]; `Unsupported` on a simulated or unaided thread, which starts none.
#[cfg(not(shuttle))]
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
    if !crate::simulation::may_have_helpers() {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, body)
}

/// Starts a thread that ends before `scope` does; a model has no use for its name.
///
/// # Errors
/// None.
#[cfg(shuttle)]
pub fn spawn_scoped<'scope, T: Send + 'static>(
    scope: &'scope Scope<'scope, '_>,
    _name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<ScopedJoinHandle<'scope, T>> {
    Ok(scope.spawn(body))
}

/// Gives the rest of this thread's time slice away.
pub fn yield_now() {
    #[cfg(not(any(loom, shuttle)))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

/// Sleeps at least `time`; for pacing and back-off, never for synchronisation.
pub fn sleep(time: Duration) {
    #[cfg(not(any(loom, shuttle)))]
    std::thread::sleep(time);
    #[cfg(any(loom, shuttle))]
    {
        let _ = time;
        yield_now();
    }
}

/// The monotonic clock.
#[must_use]
pub fn now() -> Instant {
    #[cfg(not(any(loom, shuttle)))]
    return Instant::now();
    #[cfg(any(loom, shuttle))]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now)
    }
}

/// The wall clock: milliseconds since 1970 (0 if the clock stands before that).
#[must_use]
pub fn wall_ms() -> u64 {
    if let Some(simulated) = crate::simulation::wall_ms() {
        return simulated;
    }
    if cfg!(any(loom, shuttle)) {
        return 1 << 40;
    }
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
