//! Values that expire, all at one time, and where in the order of stamps that time came.
//!
//! X1. What begins with [`MARK`] expires. All of a history do at once: a read sees all of them as
//!     they were written, or none.
//! X2. The time comes at some stamp: reads below it see what expires, reads above it do not, and
//!     of those just there some do and later ones do not. Nobody is told the stamp; the checker
//!     looks for one that agrees with everything.
//! X3. A read-modify-write looks at the wall clock once its stamp is drawn: it found a value that
//!     expires only if the time came at its stamp or later. A batch that asks for unchanged keys
//!     judges by its snapshot.
//!
//! Threads: one. Tests: below.

use super::event::{Event, What};

/// How a value begins that expires.
pub const MARK: u8 = b'e';

/// Whether `value` expires (X1).
#[must_use]
pub fn expires(value: &[u8]) -> bool {
    value.first() == Some(&MARK)
}

/// When the wall clock passed the time, in real time; `None` if it did not.
pub(crate) fn passed(events: &[Event]) -> Option<(u64, u64)> {
    let mut passed = events
        .iter()
        .filter(|event| matches!(event.what, What::Expired));
    passed.next().map(|event| (event.begin, event.end))
}

/// The stamp at which the time came (X2); never is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub(crate) at: u64,
}

impl Expiry {
    pub(crate) const NEVER: Expiry = Expiry { at: u64::MAX };

    /// Whether the time had come, as a read at `stamp` may have it.
    pub(crate) fn modes(self, stamp: u64) -> &'static [bool] {
        match stamp.cmp(&self.at) {
            std::cmp::Ordering::Less => &[false],
            std::cmp::Ordering::Equal => &[false, true],
            std::cmp::Ordering::Greater => &[true],
        }
    }

    /// Whether it had come for a read-modify-write at `stamp` (X3).
    pub(crate) fn is_before(self, stamp: u64) -> bool {
        self.at < stamp
    }
}

/// What is left of `value` once the time has come, or before.
pub(crate) fn left(value: Option<&Vec<u8>>, is_over: bool) -> Option<&Vec<u8>> {
    value.filter(|value| !is_over || !expires(value))
}

#[cfg(test)]
mod tests {
    use super::super::checker::{Before, check};
    use super::super::event::{Event, What};
    use std::collections::BTreeMap;
    use velella_base::Stamp;

    fn event(begin: u64, end: u64, what: What) -> Event {
        Event {
            client: 0,
            begin,
            end,
            synced: false,
            what,
        }
    }

    fn bytes(value: &str) -> Vec<u8> {
        value.as_bytes().to_vec()
    }

    fn put(begin: u64, end: u64, stamp: u64, key: usize, value: &str) -> Event {
        let (stamp, changes) = (Stamp(stamp), BTreeMap::from([(key, Some(bytes(value)))]));
        event(begin, end, What::Wrote { stamp, changes })
    }

    fn over(begin: u64, end: u64) -> Event {
        event(begin, end, What::Expired)
    }

    fn got(begin: u64, end: u64, told: Option<(u64, &str)>) -> Event {
        let (stamp, value) = told.map(|(at, value)| (Stamp(at), bytes(value))).unzip();
        event(
            begin,
            end,
            What::Got {
                key: 0,
                value,
                stamp,
            },
        )
    }

    fn strict(begin: u64, end: u64, told: &[(usize, Option<&str>)]) -> Event {
        let values = told.iter().map(|(key, value)| (*key, value.map(bytes)));
        let values = values.collect();
        event(begin, end, What::Strict { values })
    }

    fn saw(begin: u64, end: u64, at: u64, told: &[(usize, &str)]) -> Event {
        let state = told
            .iter()
            .map(|(key, value)| (*key, bytes(value)))
            .collect();
        event(
            begin,
            end,
            What::Saw {
                at: Stamp(at),
                state,
            },
        )
    }

    /// On key 0, which held `base`; a batch that read at `read_at`, or a read-modify-write.
    fn based(at: u64, base: Option<(u64, &str)>, read_at: Option<u64>) -> Event {
        let what = What::Based {
            stamp: Stamp(at),
            changes: BTreeMap::from([(0, Some(bytes("new")))]),
            bases: BTreeMap::from([(0, base.map(|(at, value)| (Stamp(at), bytes(value))))]),
            read_at: read_at.map(Stamp),
        };
        event(5, 30, what)
    }

    fn verdict(events: &[Event]) -> String {
        let verdict = check(&Before::new(), events).err();
        verdict.unwrap_or_else(|| "fine".to_owned())
    }

    /// On a history in which a key expires while another is written.
    fn with(more: &[Event]) -> String {
        let first = put(1, 2, 10, 0, "e1");
        verdict(&[&[first, put(3, 40, 20, 1, "b"), over(6, 8)], more].concat())
    }

    #[test]
    fn a_key_is_gone_once_its_time_has_come_and_not_before() {
        assert_eq!(
            with(&[got(3, 5, Some((10, "e1"))), got(9, 10, None)]),
            "fine"
        );
        assert_eq!(
            with(&[got(7, 10, Some((10, "e1"))), got(3, 7, None)]),
            "fine"
        );
        for gone in [got(3, 5, None), strict(3, 5, &[(0, None)])] {
            assert_ne!(with(&[gone]), "fine", "absent before it expired");
        }
        let alive = [
            got(9, 10, Some((10, "e1"))),
            strict(9, 10, &[(0, Some("e1"))]),
            saw(9, 10, 20, &[(0, "e1"), (1, "b")]),
        ];
        for alive in alive {
            assert_ne!(with(&[alive]), "fine", "alive after it expired");
        }
        assert_ne!(verdict(&[put(1, 2, 10, 0, "e1"), got(3, 4, None)]), "fine");
        assert_eq!(
            verdict(&[put(1, 2, 10, 0, "e1"), got(3, 4, Some((10, "e1")))]),
            "fine"
        );
    }

    #[test]
    fn a_key_renewed_in_time_is_never_gone() {
        let renewed = |read: Event| {
            let first = [put(1, 2, 10, 0, "e1"), put(3, 4, 11, 0, "new"), over(6, 8)];
            verdict(&[&first[..], &[read]].concat())
        };
        assert_eq!(renewed(got(3, 10, Some((11, "new")))), "fine");
        assert_ne!(renewed(got(3, 10, None)), "fine");
        assert_ne!(renewed(strict(3, 10, &[(0, None)])), "fine");
        assert_ne!(
            renewed(event(
                5,
                10,
                What::Refused {
                    key: 0,
                    expected: Some(bytes("new"))
                }
            )),
            "fine"
        );
    }

    #[test]
    fn what_a_snapshot_sees_alive_no_read_before_it_saw_gone() {
        let alive = saw(7, 10, 20, &[(0, "e1"), (1, "b")]);
        assert_eq!(with(std::slice::from_ref(&alive)), "fine");
        assert_ne!(with(&[alive.clone(), saw(7, 10, 15, &[])]), "fine");
        assert_eq!(with(&[alive, saw(7, 10, 25, &[(1, "b")])]), "fine");
    }

    #[test]
    fn the_time_may_come_between_two_reads_or_a_write_and_a_read_at_one_stamp() {
        let first = [put(1, 2, 10, 0, "e1"), over(4, 20)];
        let with = |more: &[Event]| verdict(&[&first[..], more].concat());
        let (alive, gone) = (saw(5, 6, 15, &[(0, "e1")]), saw(7, 8, 15, &[]));
        assert_eq!(with(&[alive, gone]), "fine");
        // Nothing was written in between, and the snapshot is not known to be over.
        let slow = saw(5, 30, 15, &[(0, "e1")]);
        assert_eq!(with(&[slow, strict(7, 8, &[(0, None)])]), "fine");
        // An update that found it alive, and a snapshot of just then that does not show another.
        let update = based(16, Some((10, "e1")), None);
        let other = put(1, 2, 11, 1, "e2");
        assert_eq!(with(&[other, update, saw(6, 9, 16, &[(0, "new")])]), "fine");
    }

    #[test]
    fn values_expire_together() {
        let first = [put(1, 2, 10, 0, "e1"), put(1, 2, 11, 1, "e2"), over(4, 20)];
        let told = |told: Event| verdict(&[&first[..], &[told]].concat());
        assert_eq!(told(saw(5, 6, 11, &[])), "fine");
        assert_eq!(told(saw(5, 6, 11, &[(0, "e1"), (1, "e2")])), "fine");
        assert_ne!(told(saw(5, 6, 11, &[(0, "e1")])), "fine");
        assert_ne!(told(strict(5, 6, &[(0, None), (1, Some("e2"))])), "fine");
    }

    #[test]
    fn an_update_finds_what_is_alive_at_its_stamp_and_a_batch_what_was_at_its_snapshot() {
        let gone_at = |at, more: &[Event]| {
            let gone = saw(6, 8, at, &[]);
            let first = [put(1, 2, 10, 0, "e1"), over(5, 20), gone];
            verdict(&[&first[..], more].concat())
        };
        let alive = Some((10, "e1"));
        assert_eq!(gone_at(15, &[based(16, None, None)]), "fine");
        assert_ne!(gone_at(15, &[based(16, alive, None)]), "fine");
        assert_eq!(gone_at(15, &[based(16, alive, Some(12))]), "fine");
        assert_ne!(gone_at(12, &[based(16, alive, Some(15))]), "fine");
        assert_eq!(gone_at(12, &[based(16, None, Some(15))]), "fine");
        let never = |base| verdict(&[put(1, 2, 10, 0, "e1"), based(16, base, None)]);
        assert_eq!(never(alive), "fine");
        assert_ne!(never(None), "fine");
    }
}
