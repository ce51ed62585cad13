//! A starting line: threads wait at it until all are there, or until it is known that some will
//! never be.
//!
//! N1. Nobody waits for ever: whoever could not start a thread calls the race off, and so does a
//!     thread that turns back on its way to the line, or panics there.
//!
//! Source: `std::sync::Barrier`, which cannot be told of a thread that never comes.
//!
//! Threads: any. Tests: below.

use std::sync::{Condvar, Mutex};

/// What those at the line wait for.
#[derive(Debug)]
struct State {
    missing: u64,
    is_off: bool,
}

/// The line.
#[derive(Debug)]
pub struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

/// A thread on its way to the line.
#[derive(Debug)]
pub struct Runner<'l> {
    line: &'l Line,
    is_there: bool,
}

impl Runner<'_> {
    /// Waits for the others; whether the race is on.
    #[must_use]
    pub fn wait(mut self) -> bool {
        self.is_there = true;
        self.line.wait()
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        if !self.is_there {
            self.line.call_off();
        }
    }
}

impl Line {
    /// For so many threads.
    #[must_use]
    pub fn new(threads: u64) -> Self {
        Line {
            state: Mutex::new(State {
                missing: threads,
                is_off: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// One of them, which has begun.
    pub fn runner(&self) -> Runner<'_> {
        Runner {
            line: self,
            is_there: false,
        }
    }

    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(|held| held.into_inner());
        state.missing = state.missing.saturating_sub(1);
        self.changed.notify_all();
        let waited = self
            .changed
            .wait_while(state, |state| state.missing > 0 && !state.is_off);
        let state = waited.unwrap_or_else(|held| held.into_inner());
        !state.is_off
    }

    /// Sends those who wait, and those who come, home (N1).
    pub fn call_off(&self) {
        let mut state = self.state.lock().unwrap_or_else(|held| held.into_inner());
        state.is_off = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    /// So many threads that come to `line`; what each of them is told there.
    fn come(line: &Arc<Line>, threads: u64) -> Receiver<bool> {
        let (tell, told) = channel();
        for _ in 0..threads {
            let (line, tell) = (Arc::clone(line), tell.clone());
            std::thread::spawn(move || tell.send(line.runner().wait()));
        }
        told
    }

    /// What the next was told; no test waits longer than this, and a sound one never so long.
    fn next(told: &Receiver<bool>) -> Option<bool> {
        told.recv_timeout(Duration::from_secs(20)).ok()
    }

    #[test]
    fn all_start_when_the_last_is_there() {
        let line = Arc::new(Line::new(3));
        let told = come(&line, 2);
        assert!(told.try_recv().is_err());
        assert!(line.wait());
        assert_eq!((next(&told), next(&told)), (Some(true), Some(true)));
    }

    #[test]
    fn nobody_waits_for_one_that_panicked_on_its_way() {
        let line = Arc::new(Line::new(3));
        let told = come(&line, 2);
        let other = Arc::clone(&line);
        let panicked = std::thread::spawn(move || {
            let _runner = other.runner();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!((next(&told), next(&told)), (Some(false), Some(false)));
    }

    #[test]
    fn nobody_waits_for_one_that_turned_back() {
        let line = Arc::new(Line::new(3));
        let told = come(&line, 2);
        drop(line.runner());
        assert_eq!((next(&told), next(&told)), (Some(false), Some(false)));
    }

    #[test]
    fn nobody_waits_for_one_that_could_not_be_started() {
        let line = Arc::new(Line::new(3));
        let told = come(&line, 2);
        line.call_off();
        assert_eq!((next(&told), next(&told)), (Some(false), Some(false)));
        assert!(!line.wait());
    }
}
