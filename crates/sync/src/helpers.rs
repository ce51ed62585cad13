//! Helpers: threads that do parts of one piece of work beside the thread that wants it done.
//!
//! B1. The results are those of doing one part after the other, in that order, whatever threads
//!     there are.
//! B2. A simulated or unaided thread, and a model's, does all parts itself, in their order.
//! B3. Of things made one after the other there are at most two at a time: one that is made, and
//!     one that is worked on.
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

/// What there is to work on.
#[derive(Debug)]
pub enum Made<A> {
    /// One thing of several.
    More(A),
    /// The last one, or nothing more.
    Last(Option<A>),
}

/// What `work` says of each of the things that `make` makes, in their order: a helper works on one
/// while this thread makes the next (B3), and this thread on the last.
///
/// # Errors
/// The first, after which nothing more is made.
///
/// # Panics
/// If `make` or `work` does.
pub fn in_turn<A: Send, B: Send + 'static, E: Send + 'static>(
    mut make: impl FnMut() -> Result<Made<A>, E>,
    work: impl Fn(A) -> Result<B, E> + Sync,
) -> Result<Vec<B>, E> {
    let mut done = Vec::new();
    let may_help = count() > 1;
    thread::scope(|scope| {
        let mut helper: Option<ScopedJoinHandle<'_, Option<Result<B, E>>>> = None;
        loop {
            let made = make();
            // What the helper met comes before what this thread met.
            if let Some(worked) = helper.take().and_then(joined) {
                done.push(worked?);
            }
            let made = match made? {
                Made::More(made) if may_help => made,
                Made::More(made) => {
                    done.push(work(made)?);
                    continue;
                }
                Made::Last(last) => {
                    if let Some(last) = last {
                        done.push(work(last)?);
                    }
                    return Ok(done);
                }
            };
            // Where no helper can be started, this thread finds it still there.
            let place = Arc::new(Mutex::new(Some(made)));
            let (taken, work) = (Arc::clone(&place), &work);
            let work_on = move || {
                let made = taken.lock().take();
                made.map(work)
            };
            match thread::spawn_scoped(scope, "velella-helper", work_on) {
                Ok(started) => helper = Some(started),
                Err(_) => {
                    if let Some(made) = place.lock().take() {
                        done.push(work(made)?);
                    }
                }
            }
        }
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

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

    // Relaxed, in all of these: counts that guard nothing.

    /// Things from 0 on, of which `last` is the last.
    fn things(last: usize) -> impl FnMut() -> Result<Made<usize>, &'static str> {
        let mut next = 0..=last;
        move || match next.next() {
            Some(thing) if thing < last => Ok(Made::More(thing)),
            thing => Ok(Made::Last(thing)),
        }
    }

    #[test]
    fn a_helper_works_on_each_thing_but_the_last_while_the_next_is_made() {
        const LAST: usize = 5;
        pretend(Some(2));
        let own = std::thread::current().id();
        let begun = AtomicUsize::new(0);
        let mut make = things(LAST);
        let counted = || {
            begun.fetch_add(1, Ordering::Relaxed);
            make()
        };
        // As `patience` of velella-testkit, which builds on this crate.
        let times = std::env::var("VELELLA_PATIENCE").map_or(1, |times| times.parse().unwrap());
        let deadline = Instant::now() + times * Duration::from_secs(30);
        let work = |thing| {
            let is_own = std::thread::current().id() == own;
            // Its successor is being made; the one after that is not before this is done.
            while thing < LAST && begun.load(Ordering::Relaxed) < thing + 2 {
                assert!(
                    Instant::now() < deadline,
                    "thing {thing} waits for the next"
                );
                std::thread::yield_now();
            }
            assert!(begun.load(Ordering::Relaxed) <= thing + 2);
            Ok((thing, is_own))
        };
        let worked = in_turn(counted, work).unwrap();
        let expected: Vec<_> = (0..=LAST).map(|thing| (thing, thing == LAST)).collect();
        assert_eq!(worked, expected);
        pretend(None);
    }

    #[test]
    fn the_first_error_ends_it_whoever_meets_it() {
        for processors in [1, 2] {
            pretend(Some(processors));
            let mut make = things(9);
            let made = AtomicUsize::new(0);
            let counted = || {
                made.fetch_add(1, Ordering::Relaxed);
                make()
            };
            let work = |thing| if thing == 1 { Err("work") } else { Ok(thing) };
            assert_eq!(in_turn(counted, work).unwrap_err(), "work");
            // The one that was made meanwhile is the last.
            assert_eq!(made.into_inner(), 1 + processors);
            let mut left = 0..3;
            let make = || left.next().map(Made::More).ok_or("make");
            let worked = AtomicUsize::new(0);
            let work = |_| {
                worked.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            assert_eq!(in_turn(make, work).unwrap_err(), "make");
            assert_eq!(worked.into_inner(), 3);
            // Both fail, of two things that follow each other.
            let mut first = Some(Made::More(0));
            let make = || first.take().ok_or("make");
            let work = |_| Err::<(), _>("work");
            assert_eq!(in_turn(make, work).unwrap_err(), "work");
        }
        pretend(None);
    }

    #[test]
    fn an_unaided_thread_works_on_all_by_itself() {
        let _unaided = Unaided::begin();
        let own = std::thread::current().id();
        let work = |thing| {
            assert_eq!(std::thread::current().id(), own);
            Ok(thing)
        };
        assert_eq!(in_turn(things(3), work), Ok(vec![0, 1, 2, 3]));
        assert_eq!(
            in_turn(|| Ok::<_, ()>(Made::Last(None)), |()| Ok(())),
            Ok(vec![])
        );
    }

    #[test]
    #[should_panic(expected = "thing 2")]
    fn a_panic_of_a_helper_reaches_who_makes() {
        pretend(Some(2));
        let work = |thing| {
            assert!(thing != 2, "thing 2");
            Ok(())
        };
        let _ = in_turn(things(5), work);
    }

    #[test]
    #[should_panic(expected = "part 3")]
    fn a_panic_in_a_part_reaches_who_waits() {
        each(3, 8, |part| assert!(part != 3, "part 3"));
    }
}
