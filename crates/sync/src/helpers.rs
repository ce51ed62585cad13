//! Helpers: threads that do parts of one piece of work beside the thread that waits for it.
//!
//! B1. The results are those of doing one part after the other, in that order, whatever threads
//!     there are.
//! B2. A simulated or unaided thread, and a model's, does all parts itself, in their order.
//!
//! Threads: any. Tests: below.

use crate::lock::Mutex;
use crate::thread;
use std::cell::Cell;
use std::sync::OnceLock;

thread_local! {
    /// What `pretend` said.
    static PRETENDED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Lets this thread work as if there were so many processors (tests).
#[doc(hidden)]
pub fn pretend(processors: Option<usize>) {
    PRETENDED.set(processors);
}

/// How many threads may well work at once for the calling one, itself included.
#[must_use]
pub fn count() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    if cfg!(any(loom, shuttle)) || !crate::simulation::may_have_helpers() {
        return 1;
    }
    let real = || std::thread::available_parallelism().map_or(1, usize::from);
    PRETENDED
        .get()
        .unwrap_or_else(|| *PROCESSORS.get_or_init(real))
}

/// What `work` says of each of `parts` parts, done by at most `threads` threads.
///
/// # Panics
/// If `work` does.
pub fn each<T: Send + 'static>(
    threads: usize,
    parts: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads.min(parts).min(count());
    if threads <= 1 {
        return (0..parts).map(work).collect();
    }
    // The next part is whoever's is free first.
    let next = Mutex::new(0..parts);
    let done: Mutex<Vec<Option<T>>> = Mutex::new((0..parts).map(|_| None).collect());
    let run = || {
        loop {
            let Some(part) = next.lock().next() else {
                return;
            };
            let result = work(part);
            done.lock()[part] = Some(result);
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .filter_map(|_| thread::spawn_scoped(scope, "velella-helper", run).ok())
            .collect();
        run();
        for other in others {
            // Where one could not be started, the others do its parts.
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let done = std::mem::take(&mut *done.lock());
    done.into_iter()
        .map(|result| result.expect("every part was taken, and who took it was joined"))
        .collect()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::simulation::Unaided;

    #[test]
    fn every_part_is_done_once_and_answers_stay_in_order() {
        for parts in 0..9 {
            for threads in 0..5 {
                let expected: Vec<_> = (0..parts).collect();
                assert_eq!(each(threads, parts, |part| part), expected, "{threads}");
            }
        }
    }

    #[test]
    fn an_unaided_thread_does_all_parts_in_their_order() {
        let _unaided = Unaided::begin();
        assert_eq!(count(), 1);
        let order = Mutex::new(Vec::new());
        let own = std::thread::current().id();
        each(4, 7, |part| {
            assert_eq!(std::thread::current().id(), own);
            order.lock().push(part);
        });
        assert_eq!(*order.lock(), (0..7).collect::<Vec<_>>());
    }

    #[test]
    #[should_panic(expected = "part 3")]
    fn a_panic_in_a_part_reaches_who_waits() {
        each(3, 8, |part| assert!(part != 3, "part 3"));
    }
}
