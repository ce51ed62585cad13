//! Scans as they were answered, to be judged when it is known which keys there were.
//!
//! A scan of n pairs from a key must show the first n keys from there on, none left out. Keys are
//! scattered, so what comes next is known to nobody who has not sorted them; instead some scans
//! are kept whole, and afterwards all keys pass by once, each asking the scans that it lies in.
//! Memory: the kept scans, and no list of keys.
//!
//! W1. A key that was there before, and that nobody deleted meanwhile, is in each scan whose range
//!     it lies in. The range of a scan that showed fewer pairs than it was asked for has no end.
//! W2. What a scan shows was there before, or was put meanwhile.
//!
//! Threads: each keeps its own scans. Tests: below; `drive`.

use crate::keys::Keys;

/// Scans that a thread keeps: the last ones.
const KEPT: usize = 32;

/// One scan.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The key that it was to begin at.
    pub(crate) from: Vec<u8>,
    /// How many pairs it was asked for.
    pub(crate) count: u64,
    /// The keys that it showed, ascending.
    pub(crate) shown: Vec<Vec<u8>>,
}

impl Scan {
    /// The last key of its range; none if it has no end.
    fn last(&self) -> Option<&[u8]> {
        let full = self.shown.len() as u64 >= self.count;
        self.shown.last().filter(|_| full).map(Vec::as_slice)
    }

    fn reaches(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && self.last().is_none_or(|last| key <= last)
    }

    /// Whether it is in order and no longer than asked for.
    pub(crate) fn is_in_order(&self) -> bool {
        let begins = self.shown.first().is_none_or(|first| self.from <= *first);
        begins && self.shown.is_sorted_by(|a, b| a < b) && self.shown.len() as u64 <= self.count
    }
}

/// The scans that a thread has kept.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    scans: Vec<Scan>,
    next: usize,
}

impl Kept {
    /// Keeps `scan`, instead of the oldest if there are enough.
    pub(crate) fn keep(&mut self, scan: Scan) {
        match self.scans.get_mut(self.next) {
            Some(oldest) => *oldest = scan,
            None => self.scans.push(scan),
        }
        self.next = (self.next + 1) % KEPT;
    }

    pub(crate) fn into_scans(self) -> Vec<Scan> {
        self.scans
    }
}

/// Judges `scans`. `numbers` are those of all keys that may have been there, each with whether its
/// key was there all the time. What is wrong, if anything is.
pub(crate) fn judge(
    mut scans: Vec<Scan>,
    keys: &mut Keys,
    numbers: impl Iterator<Item = (u64, bool)>,
) -> Option<String> {
    scans.retain(|scan| scan.count > 0);
    if scans.is_empty() {
        return None;
    }
    scans.sort_unstable_by(|a, b| a.from.cmp(&b.from));
    let reach = reach(&scans);
    let mut known: Vec<usize> = vec![0; scans.len()];
    for (n, always) in numbers {
        let key = keys.key(n);
        let after = scans.partition_point(|scan| scan.from.as_slice() <= key);
        for at in (0..after).rev() {
            // No scan from here on downwards reaches so far.
            if reach[at].is_some_and(|end| scans[end].last().is_some_and(|last| last < key)) {
                break;
            }
            let scan = &scans[at];
            if !scan.reaches(key) {
                continue;
            }
            if scan
                .shown
                .binary_search_by(|shown| shown.as_slice().cmp(key))
                .is_ok()
            {
                known[at] += 1;
            } else if always {
                return Some(format!(
                    "a scan of {} pairs showed {}, and left out key number {n}, which was there",
                    scan.count,
                    scan.shown.len()
                ));
            }
        }
    }
    let strange = scans
        .iter()
        .zip(known)
        .find(|(scan, known)| scan.shown.len() > *known);
    strange.map(|_| "a scan showed a key that was never put".to_owned())
}

/// For each scan, in the order of beginnings: which of those up to it reaches farthest; none if one
/// of them has no end.
fn reach(scans: &[Scan]) -> Vec<Option<usize>> {
    let mut farthest = Some(0);
    let farther = |at: usize| {
        farthest = farthest.and_then(|best: usize| {
            let (best_last, last) = (scans[best].last()?, scans[at].last()?);
            Some(if last > best_last { at } else { best })
        });
        farthest
    };
    (0..scans.len()).map(farther).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyShape;

    /// A scan of `count` keys from number `from` on that showed `shown`.
    fn scan(from: u64, count: u64, shown: &[u64]) -> Scan {
        let mut keys = Keys::new(KeyShape::Ordered8, 0);
        Scan {
            from: keys.key(from).to_vec(),
            count,
            shown: shown.iter().map(|n| keys.key(*n).to_vec()).collect(),
        }
    }

    /// The verdict where all tens are there, and 55 may be.
    fn wrong(scans: Vec<Scan>) -> Option<String> {
        let numbers = (0..10).map(|n| (n * 10, true)).chain([(55, false)]);
        judge(scans, &mut Keys::new(KeyShape::Ordered8, 0), numbers)
    }

    #[test]
    fn scans_that_show_all_there_was_are_right() {
        let right = vec![
            scan(20, 3, &[20, 30, 40]),
            scan(0, 10, &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90]),
            scan(41, 2, &[50, 60]),
            scan(41, 3, &[50, 55, 60]),
            scan(81, 5, &[90]),
            scan(91, 5, &[]),
        ];
        assert_eq!(wrong(right), None);
        assert_eq!(wrong(vec![]), None);
    }

    #[test]
    fn a_pair_left_out_anywhere_is_seen() {
        for lost in [
            scan(20, 3, &[30, 40, 50]),
            scan(20, 3, &[20, 40, 50]),
            scan(20, 3, &[20, 30]),
            scan(20, 3, &[]),
            scan(81, 5, &[]),
        ] {
            let told = wrong(vec![scan(0, 1, &[0]), lost, scan(0, 9, &[0])]).unwrap();
            assert!(told.contains("left out"), "{told}");
        }
    }

    #[test]
    fn a_pair_that_nobody_put_is_seen() {
        let told = wrong(vec![scan(20, 3, &[20, 25, 30])]).unwrap();
        assert!(told.contains("never put"), "{told}");
    }

    #[test]
    fn the_last_scans_are_kept() {
        let mut kept = Kept::default();
        for n in 0..100 {
            kept.keep(scan(n, 1, &[n]));
        }
        let mut from: Vec<_> = kept
            .into_scans()
            .into_iter()
            .map(|scan| scan.from)
            .collect();
        from.sort_unstable();
        assert_eq!(from.len(), KEPT);
        assert_eq!(from[0], scan(68, 1, &[]).from);
    }
}
