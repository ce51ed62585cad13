//! Every interleaving of a small protocol, written as steps over one state.
//!
//! E1. A state is visited once; its steps are those of each thread that is neither done nor
//!     blocked, and each may have several outcomes.
//! E2. A state in which somebody is left and nobody can step is a deadlock, and a failure.
//! E3. A failure comes with the threads' steps that led to it, in order, and with as few of them as
//!     there can be: the states that are nearest are visited first.
//!
//! Sequential consistency: orderings are loom's business. Tests: below.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What a thread can do in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<S> {
    /// One of these states follows.
    To(Vec<S>),
    /// It waits for another thread.
    Blocked,
    /// It has ended.
    Done,
}

/// What an exploration found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explored {
    /// States visited.
    pub states: usize,
    /// The first failure, and the steps that led to it.
    pub failure: Option<String>,
}

/// Explores all that `threads` threads can do from `start`. `step` tells what one of them does
/// next; `check` finds what is wrong with a state.
///
/// # Panics
/// If there are more than `most` states: the protocol is not small.
pub fn explore<S: Clone + Eq + Hash>(
    start: S,
    threads: usize,
    most: usize,
    step: impl Fn(&S, usize) -> Step<S>,
    check: impl Fn(&S) -> Result<(), String>,
) -> Explored {
    let mut known = HashMap::from([(start.clone(), 0)]);
    let mut cameby = vec![(0, 0)];
    let mut open = VecDeque::from([(0, start)]);
    let fail = |known: &HashMap<S, usize>, cameby: &[(usize, usize)], at: usize, what: String| {
        let failure = Some(format!("{what}; steps of threads {:?}", path(cameby, at)));
        let states = known.len();
        Explored { states, failure }
    };
    while let Some((at, state)) = open.pop_front() {
        if let Err(what) = check(&state) {
            return fail(&known, &cameby, at, what);
        }
        let (mut waits, mut steps) = (false, false);
        for thread in 0..threads {
            match step(&state, thread) {
                Step::Done => {}
                Step::Blocked => waits = true,
                Step::To(next) => {
                    steps = true;
                    for next in next {
                        let number = cameby.len();
                        if let Entry::Vacant(entry) = known.entry(next) {
                            open.push_back((number, entry.key().clone()));
                            entry.insert(number);
                            cameby.push((at, thread));
                        }
                    }
                }
            }
        }
        if waits && !steps {
            return fail(&known, &cameby, at, "deadlock".to_owned());
        }
        assert!(known.len() <= most, "more than {most} states");
    }
    Explored {
        states: known.len(),
        failure: None,
    }
}

/// The threads whose steps led to state `at`.
fn path(cameby: &[(usize, usize)], mut at: usize) -> Vec<usize> {
    let mut path = Vec::new();
    while at != 0 {
        let (before, thread) = cameby[at];
        path.push(thread);
        at = before;
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads add one: each loads, then stores. (value, what each loaded, steps of each)
    type Adding = (u8, [u8; 2], [u8; 2]);

    fn add(atomic: bool) -> Explored {
        let step = move |state: &Adding, thread: usize| {
            let mut next = *state;
            match state.2[thread] {
                0 => next.1[thread] = state.0,
                1 if atomic => next.0 = state.0 + 1,
                1 => next.0 = state.1[thread] + 1,
                _ => return Step::Done,
            }
            next.2[thread] += 1;
            Step::To(vec![next])
        };
        let check = |state: &Adding| match state.2 == [2, 2] && state.0 != 2 {
            true => Err("an addition is lost".to_owned()),
            false => Ok(()),
        };
        explore((0, [0; 2], [0; 2]), 2, 100, step, check)
    }

    #[test]
    fn a_lost_addition_is_found_with_its_steps() {
        assert_eq!(add(true).failure, None);
        let failure = add(false).failure.unwrap_or_default();
        assert!(
            failure.starts_with("an addition is lost; steps"),
            "{failure}"
        );
    }

    #[test]
    fn the_shortest_way_to_a_failure_is_told() {
        // One thread gets there at once, the other by small steps.
        let step = |state: &u8, thread: usize| Step::To(vec![state + [3, 1][thread]]);
        let check = |state: &u8| match *state < 3 {
            true => Ok(()),
            false => Err("too much".to_owned()),
        };
        let failure = explore(0, 2, 10, step, check).failure;
        assert_eq!(failure.as_deref(), Some("too much; steps of threads [0]"));
    }

    #[test]
    fn waiting_for_one_another_is_a_deadlock() {
        let step = |_: &(), _| Step::Blocked;
        let failure = explore((), 2, 10, step, |()| Ok(())).failure;
        assert_eq!(failure.as_deref(), Some("deadlock; steps of threads []"));
    }
}
