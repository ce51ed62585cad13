//! Where operations stand in the order of stamps, and what real time says about it.
//!
//! T1. A place in the order is twice a write's stamp, and one more for a read at that stamp: reads
//!     come after the write they saw, and before the next.
//! T2. Only an operation that says where it stands is here: an old snapshot read again, a read
//!     without a stamp and a swap whose stamp nobody was told are not.
//!
//! Threads: one. Tests: those of `checker.rs`.

use super::event::{Event, What};
use std::collections::BTreeMap;

/// What was certainly over, and certainly begun, at a moment of real time.
pub(crate) struct Times {
    /// By end: the largest place of any strict operation that ended by then.
    pub(crate) ended: Vec<(u64, u64)>,
    /// By begin, backwards: the smallest place of any strict operation that began from then on.
    pub(crate) began: Vec<(u64, u64)>,
    /// As `ended`, per key: the largest place of what anybody was told of it.
    pub(crate) told: BTreeMap<usize, Vec<(u64, u64)>>,
    /// As `began`, per key: the smallest place of its writes and reads.
    pub(crate) later: BTreeMap<usize, Vec<(u64, u64)>>,
}

impl Times {
    pub(crate) fn of(events: &[Event]) -> Times {
        let mut placed = Vec::new();
        let mut keyed: BTreeMap<usize, Vec<(u64, u64, u64)>> = BTreeMap::new();
        for event in events {
            let (begin, end) = (event.begin, event.end);
            if let Some(place) = place_of(&event.what) {
                placed.push((begin, end, place));
            }
            if let Some((stamp, changes)) = event.what.written() {
                for key in changes.keys() {
                    keyed
                        .entry(*key)
                        .or_default()
                        .push((begin, end, written_at(stamp.0)));
                }
            }
            if let What::Got {
                key,
                stamp: Some(stamp),
                ..
            } = &event.what
            {
                keyed
                    .entry(*key)
                    .or_default()
                    .push((begin, end, read_at(stamp.0)));
            }
        }
        Times {
            ended: rising(&placed),
            began: falling(&placed),
            told: keyed.iter().map(|(key, of)| (*key, rising(of))).collect(),
            later: keyed.iter().map(|(key, of)| (*key, falling(of))).collect(),
        }
    }
}

/// The largest place up to each end.
fn rising(spans: &[(u64, u64, u64)]) -> Vec<(u64, u64)> {
    let mut list: Vec<_> = spans.iter().map(|(_, end, stamp)| (*end, *stamp)).collect();
    list.sort_unstable();
    let mut most = 0;
    for (_, stamp) in &mut list {
        most = most.max(*stamp);
        *stamp = most;
    }
    list
}

/// The smallest place from each beginning on.
fn falling(spans: &[(u64, u64, u64)]) -> Vec<(u64, u64)> {
    let mut list: Vec<_> = spans
        .iter()
        .map(|(begin, _, stamp)| (*begin, *stamp))
        .collect();
    list.sort_unstable();
    let mut least = u64::MAX;
    for (_, stamp) in list.iter_mut().rev() {
        least = least.min(*stamp);
        *stamp = least;
    }
    list
}

/// The largest place among what ended before `moment`; 0 if nothing did.
pub(crate) fn before(list: &[(u64, u64)], moment: u64) -> u64 {
    let place = list.partition_point(|(end, _)| *end < moment);
    place.checked_sub(1).map_or(0, |last| list[last].1)
}

/// The smallest place among what began after `moment`.
pub(crate) fn after(list: &[(u64, u64)], moment: u64) -> u64 {
    let place = list.partition_point(|(begin, _)| *begin <= moment);
    list.get(place).map_or(u64::MAX, |first| first.1)
}

/// The place of a write with this stamp.
pub(crate) fn written_at(stamp: u64) -> u64 {
    2 * stamp
}

/// The place of a read that saw everything up to this stamp.
pub(crate) fn read_at(stamp: u64) -> u64 {
    2 * stamp + 1
}

/// Where a strict operation certainly stands.
fn place_of(what: &What) -> Option<u64> {
    match what {
        What::Saw { at, .. } => Some(read_at(at.0)),
        _ => what.written().map(|(stamp, _)| written_at(stamp.0)),
    }
}
