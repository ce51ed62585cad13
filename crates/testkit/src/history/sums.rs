//! One counter that all clients increment: what they are told is the order in which they did.
//!
//! S1. Of n increments by one of a counter at `base`, each was told another one of the n sums above
//!     it, and one that ended before another began a smaller one.
//! S2. A crash leaves a sum that was told to nobody who began after it. Where it took the process
//!     alone it is no smaller than any that was told before it began.
//!
//! Threads: one. Tests: below; the campaign `histories` of `velella-reliability`.

use super::crash::Crash;
use super::event::{Event, What};

/// The increments among `events`, by what they were told.
fn counted(events: &[Event]) -> Vec<(i64, &Event)> {
    let sum = |event| match event {
        &Event {
            what: What::Counted { sum },
            ..
        } => Some((sum, event)),
        _ => None,
    };
    let mut counted: Vec<_> = events.iter().filter_map(sum).collect();
    counted.sort_by_key(|(sum, _)| *sum);
    counted
}

/// Judges the increments among `events`, of a counter that was at `base` before them (S1).
///
/// # Errors
/// What was told and cannot be.
pub fn check(base: i64, events: &[Event]) -> Result<(), String> {
    let mut latest = 0;
    for ((sum, event), expected) in counted(events).into_iter().zip(base + 1..) {
        if sum != expected {
            return Err(format!(
                "S1: {expected} was told to nobody, or {sum} twice: {event:?}"
            ));
        }
        latest = latest.max(event.begin);
        if event.end < latest {
            return Err(format!(
                "S1: {sum} was told at {}, and less to one who began at {latest}: {event:?}",
                event.end
            ));
        }
    }
    Ok(())
}

/// Judges what `crash` left of the counter; `whole` where it took the process alone (S2).
///
/// # Errors
/// Why it cannot have left that.
pub fn check_left(crash: Crash, events: &[Event], left: i64, whole: bool) -> Result<(), String> {
    let counted = counted(events);
    let told = |is_it: &dyn Fn(&Event) -> bool| {
        let those = counted.iter().filter(|(_, event)| is_it(event));
        those.map(|(sum, _)| *sum).max().unwrap_or(0)
    };
    let least = match whole {
        true => told(&|event| event.end < crash.begun),
        false => told(&|event| event.synced && event.end < crash.begun),
    };
    let most = told(&|event| event.begin < crash.ended);
    let what = || format!("S2: the sum is {left}, not {least} to {most}");
    (least..=most)
        .contains(&left)
        .then_some(())
        .ok_or_else(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(begin: u64, end: u64, sum: i64) -> Event {
        Event {
            client: 0,
            begin,
            end,
            synced: false,
            what: What::Counted { sum },
        }
    }

    #[test]
    fn each_increment_counts_once_and_in_the_order_of_real_time() {
        let fine = [counted(1, 9, 8), counted(2, 5, 6), counted(3, 4, 7)];
        assert_eq!(check(5, &fine), Ok(()));
        assert!(check(4, &fine).is_err(), "one is missing");
        let lost = [counted(1, 9, 6), counted(2, 5, 6)];
        assert!(check(5, &lost).is_err(), "an update was lost");
        let turned = [counted(1, 2, 7), counted(3, 4, 6)];
        assert!(check(5, &turned).is_err(), "the later was told less");
    }

    #[test]
    fn a_crash_leaves_what_was_told_before_it_and_nothing_from_after() {
        let crash = Crash {
            begun: 20,
            ended: 21,
        };
        let synced = Event {
            synced: true,
            ..counted(1, 2, 1)
        };
        let events = [
            synced,
            counted(3, 4, 2),
            counted(5, 40, 3),
            counted(30, 31, 4),
        ];
        let allowed = |whole| -> Vec<i64> {
            let left = |sum: &i64| check_left(crash, &events, *sum, whole).is_ok();
            (0..=5).filter(left).collect()
        };
        assert_eq!(allowed(true), [2, 3]);
        assert_eq!(allowed(false), [1, 2, 3]);
    }
}
