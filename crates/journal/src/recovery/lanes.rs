//! Walks lanes beside each other: each is checked on its own, and checking is most of recovery.
//!
//! B1. The results are those of a walk of one lane after the other, whatever threads there are.
//!
//! Threads: one for each processor, while it lasts. Tests: below, and every recovery.

use velella_sync::thread;

/// More threads than this wait for memory more than they check.
const THREADS_MAX: usize = 8;

/// What `walk` says of each of so many lanes.
pub(super) fn each<T: Send>(lanes: usize, walk: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = match cfg!(loom) {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    };
    each_on(threads.min(THREADS_MAX), lanes, &walk)
}

fn each_on<T: Send>(threads: usize, lanes: usize, walk: &(impl Fn(usize) -> T + Sync)) -> Vec<T> {
    if threads <= 1 || lanes <= 1 {
        return (0..lanes).map(walk).collect();
    }
    // Neighbours go to different threads: lanes are taken into use in their order.
    let share = |thread: usize| -> Vec<T> { (thread..lanes).step_by(threads).map(walk).collect() };
    let share = &share;
    let mut shares: Vec<_> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|number| thread::spawn_scoped(scope, "velella-open", move || share(number)))
            .collect();
        let own = share(0);
        let others = (1..threads)
            .zip(others)
            .map(|(number, thread)| match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // Where no thread can be started, this one does the work.
                Err(_) => share(number),
            });
        std::iter::once(own)
            .chain(others)
            .map(Vec::into_iter)
            .collect()
    });
    (0..lanes)
        .map(|lane| shares[lane % threads].next().expect("each lane was walked"))
        .collect()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_walked_once_and_answers_stay_in_order() {
        for lanes in 0..9 {
            for threads in 1..5 {
                let expected: Vec<_> = (0..lanes).collect();
                assert_eq!(each_on(threads, lanes, &|lane| lane), expected, "{threads}");
            }
        }
    }
}
