//! Helpers: threads that do parts of one piece of work beside the thread that waits for it.
//!
//! B1. The results are those of doing one part after the other, in that order, whatever threads
//!     there are.
//! B2. A simulated or unaided thread, and a model's, does all parts itself, in their order.
//!
//! Threads: any. Tests: below.

use crate::lock::Mutex;
use crate::thread::{self, ScopedJoinHandle};
use std::cell::Cell;
use std::sync::{Arc, OnceLock};

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
            joined(other);
        }
    });
    let done = std::mem::take(&mut *done.lock());
    done.into_iter()
        .map(|result| result.expect("every part was taken, and who took it was joined"))
        .collect()
}

/// What `work` says of each of the things that `make` makes, in their order: a helper works on one
/// while this thread makes the next, so there are two at a time.
///
/// # Errors
/// The first of `make`, after which nothing more is made.
///
/// # Panics
/// If `make` or `work` does.
pub fn in_turn<A: Send, B: Send + 'static, E>(
    mut make: impl FnMut() -> Result<Option<A>, E>,
    work: impl Fn(A) -> B + Sync,
) -> Result<Vec<B>, E> {
    let mut done = Vec::new();
    if count() <= 1 {
        while let Some(made) = make()? {
            done.push(work(made));
        }
        return Ok(done);
    }
    thread::scope(|scope| {
        let mut helper: Option<ScopedJoinHandle<'_, Option<B>>> = None;
        while let Some(made) = make()? {
            done.extend(helper.take().and_then(joined));
            // Where no helper can be started, this thread finds it still there.
            let place = Arc::new(Mutex::new(Some(made)));
            let (taken, work) = (Arc::clone(&place), &work);
            let work_on = move || {
                let made = taken.lock().take();
                made.map(work)
            };
            match thread::spawn_scoped(scope, "velella-helper", work_on) {
                Ok(started) => helper = Some(started),
                Err(_) => done.extend(place.lock().take().map(work)),
            }
        }
        done.extend(helper.and_then(joined));
        Ok(done)
    })
}

/// What a thread has returned, once it has; panics if it did.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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
    fn things_are_worked_on_in_turn_while_the_next_is_made() {
        pretend(Some(2));
        let own = std::thread::current().id();
        for things in 0..6 {
            let mut next = 0..things;
            let made = || Ok::<_, ()>(next.next());
            let worked = in_turn(made, |thing| (thing, std::thread::current().id()));
            let (answers, threads): (Vec<_>, Vec<_>) = worked.unwrap().into_iter().unzip();
            assert_eq!(answers, (0..things).collect::<Vec<_>>());
            assert!(threads.iter().all(|thread| *thread != own));
        }
        // Three at a time would be one too many: the third is begun once the first is done.
        let (made, done) = (Cell::new(0), Mutex::new(0));
        let make = || {
            assert!(made.get() < *done.lock() + 3);
            made.set(made.get() + 1);
            Ok::<_, ()>((made.get() < 9).then_some(()))
        };
        in_turn(make, |()| *done.lock() += 1).unwrap();
        assert_eq!(*done.lock(), 8);
        pretend(None);
    }

    #[test]
    fn an_error_in_making_ends_it_and_an_unaided_thread_works_by_itself() {
        let _unaided = Unaided::begin();
        let own = std::thread::current().id();
        let mut next = 0..3;
        let make = || next.next().map(Some).ok_or("over");
        let worked = Mutex::new(0);
        let work = |_| {
            assert_eq!(std::thread::current().id(), own);
            *worked.lock() += 1;
        };
        assert_eq!(in_turn(make, work).unwrap_err(), "over");
        assert_eq!(*worked.lock(), 3);
    }

    #[test]
    #[should_panic(expected = "part 3")]
    fn a_panic_in_a_part_reaches_who_waits() {
        each(3, 8, |part| assert!(part != 3, "part 3"));
    }
}
