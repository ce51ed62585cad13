//! SCAN's cursors: numbers that stand for the last key returned.
//!
//! Redis clients hold a cursor as a number of 64 bits; a key does not fit one. A scan therefore
//! continues behind a key that is kept here under a token.
//!
//! C1. A key present during the whole of a scan is returned at least once: a token always stands
//!     for a key up to which everything was returned, and an unknown token for "nothing yet".
//! C2. Bounded: at most [`CURSORS_MAX`] tokens and [`KEY_BYTES_MAX`] bytes of keys; the oldest go
//!     first. A scan holds at most two: using a token proves that its predecessor is done with.
//! C3. A token this server did not give (a restart lost it, or C2 did) starts over: keys may come
//!     twice, as the contract of SCAN allows, and none is missed. Tokens begin at a number drawn
//!     from the clock, so that those of an earlier life are not mistaken for new ones.
//! C4. A cursor is below 2^63, for clients whose numbers have a sign.
//!
//! Tests: below.

use std::collections::BTreeMap;
use velella_sync::rng::Rng;
use velella_sync::thread::wall_ms;

/// Most scans remembered.
const CURSORS_MAX: usize = 1 << 16;
/// Most bytes of keys remembered.
const KEY_BYTES_MAX: usize = 16 << 20;

/// Where a scan goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// The number of the database scanned.
    pub database: usize,
    /// The last key returned.
    pub after: Vec<u8>,
    /// The token this scan came with, dropped once this one is used.
    previous: Option<u64>,
}

/// The scans under way.
#[derive(Debug)]
pub(crate) struct Cursors {
    /// By token; tokens rise, so the first is the oldest.
    positions: BTreeMap<u64, Position>,
    key_bytes: usize,
    next: u64,
}

impl Cursors {
    /// No scan.
    pub(crate) fn new() -> Self {
        let first = Rng::new(wall_ms()).next_u64() >> 2;
        Cursors {
            positions: BTreeMap::new(),
            key_bytes: 0,
            next: first.max(1),
        }
    }

    /// The last key returned under `token` in `database`; `None`: start at the first.
    pub(crate) fn resume(&mut self, token: u64, database: usize) -> Option<Vec<u8>> {
        let position = self.positions.get_mut(&token)?;
        if position.database != database {
            return None;
        }
        let after = position.after.clone();
        if let Some(previous) = position.previous.take() {
            self.remove(previous);
        }
        Some(after)
    }

    /// A token for going on behind `after`, given to a scan that came with `token`.
    pub(crate) fn suspend(&mut self, token: u64, database: usize, after: Vec<u8>) -> u64 {
        let given = self.next;
        self.next += 1;
        self.key_bytes += after.len();
        let previous = Some(token).filter(|token| self.positions.contains_key(token));
        self.positions.insert(
            given,
            Position {
                database,
                after,
                previous,
            },
        );
        while self.positions.len() > CURSORS_MAX || self.key_bytes > KEY_BYTES_MAX {
            let Some((&oldest, _)) = self.positions.first_key_value() else {
                break;
            };
            self.remove(oldest);
        }
        given
    }

    /// Forgets the scan that came with `token`: it is complete.
    pub(crate) fn finish(&mut self, token: u64) {
        self.remove(token);
    }

    fn remove(&mut self, token: u64) {
        if let Some(position) = self.positions.remove(&token) {
            self.key_bytes -= position.after.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_on_where_it_stood_and_may_be_asked_again() {
        let mut cursors = Cursors::new();
        let first = cursors.suspend(0, 0, b"a".to_vec());
        assert_eq!(cursors.resume(first, 0).unwrap(), b"a");
        let second = cursors.suspend(first, 0, b"b".to_vec());
        // The reply with `second` may have been lost: `first` still works.
        assert_eq!(cursors.resume(first, 0).unwrap(), b"a");
        assert_eq!(cursors.resume(second, 0).unwrap(), b"b");
        assert_eq!(cursors.resume(first, 0), None);
        cursors.finish(second);
        assert!(cursors.positions.is_empty() && cursors.key_bytes == 0);
    }

    #[test]
    fn a_token_of_another_database_or_life_starts_over() {
        let mut cursors = Cursors::new();
        let token = cursors.suspend(0, 3, b"a".to_vec());
        assert_eq!(cursors.resume(token, 4), None);
        assert_eq!(cursors.resume(token + 1, 3), None);
        assert!(token < 1 << 63);
    }

    #[test]
    fn abandoned_scans_are_forgotten_oldest_first() {
        let mut cursors = Cursors::new();
        let first = cursors.suspend(0, 0, vec![1]);
        for _ in 0..CURSORS_MAX {
            cursors.suspend(0, 0, vec![2]);
        }
        assert_eq!(cursors.positions.len(), CURSORS_MAX);
        assert_eq!(cursors.resume(first, 0), None);
        for _ in 0..300 {
            cursors.suspend(0, 0, vec![3; 64 << 10]);
        }
        assert!(cursors.key_bytes <= KEY_BYTES_MAX);
        let held: usize = cursors
            .positions
            .values()
            .map(|position| position.after.len())
            .sum();
        assert_eq!(held, cursors.key_bytes);
    }
}
