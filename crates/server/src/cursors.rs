//! SCAN's cursors: numbers that stand for the last key returned.
//!
//! Redis clients hold a cursor as a number of 64 bits; a key does not fit one. A scan therefore
//! continues behind a key that is kept here under a token.
//!
//! C1. A key present during the whole of a scan is returned at least once: a token always stands
//!     for a key up to which everything was returned, and an unknown token for "nothing yet".
//! C2. Bounded: at most [`CURSORS_MAX`] tokens and [`KEY_BYTES_MAX`] bytes of keys. Beyond, the
//!     oldest of the client goes that has most of what there is too much of: a client's many scans
//!     end nobody else's, and of many clients' some come to their ends. A scan holds at most two:
//!     using a token proves that its predecessor is done with.
//! C3. A token this server did not give (a restart lost it, or C2 did) starts over: keys may come
//!     twice, as the contract of SCAN allows, and none is missed. Tokens begin at a number drawn
//!     from the clock, so that those of an earlier life are not mistaken for new ones.
//! C4. A cursor is below 2^63, for clients whose numbers have a sign.
//!
//! Tests: below.

use std::collections::{BTreeMap, BTreeSet};
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
    /// The number of the client that it was given to.
    client: u64,
    /// The token this scan came with, dropped once this one is used.
    previous: Option<u64>,
}

/// What one client has of the tokens and bytes.
#[derive(Debug, Default)]
struct Share {
    tokens: BTreeSet<u64>,
    key_bytes: usize,
}

/// The scans under way.
#[derive(Debug)]
pub(crate) struct Cursors {
    positions: BTreeMap<u64, Position>,
    /// By the number of the client, of those that have any.
    shares: BTreeMap<u64, Share>,
    key_bytes: usize,
    next: u64,
}

impl Cursors {
    /// No scan.
    pub(crate) fn new() -> Self {
        let first = Rng::new(wall_ms()).next_u64() >> 2;
        Cursors {
            positions: BTreeMap::new(),
            shares: BTreeMap::new(),
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

    /// A token for going on behind `after`, given to a scan of `client` that came with `token`.
    pub(crate) fn suspend(
        &mut self,
        client: u64,
        token: u64,
        database: usize,
        after: Vec<u8>,
    ) -> u64 {
        let given = self.next;
        self.next += 1;
        self.key_bytes += after.len();
        let share = self.shares.entry(client).or_default();
        // Tokens rise: the first is the oldest.
        share.tokens.insert(given);
        share.key_bytes += after.len();
        let previous = Some(token).filter(|token| self.positions.contains_key(token));
        self.positions.insert(
            given,
            Position {
                database,
                after,
                client,
                previous,
            },
        );
        while let Some(one_too_many) = self.one_too_many() {
            self.remove(one_too_many);
        }
        given
    }

    /// Forgets the scan that came with `token`: it is complete.
    pub(crate) fn finish(&mut self, token: u64) {
        self.remove(token);
    }

    /// The token that has to go next (C2).
    fn one_too_many(&self) -> Option<u64> {
        let shares = self.shares.values();
        let largest = if self.key_bytes > KEY_BYTES_MAX {
            shares.max_by_key(|share| share.key_bytes)
        } else if self.positions.len() > CURSORS_MAX {
            shares.max_by_key(|share| share.tokens.len())
        } else {
            None
        };
        largest?.tokens.first().copied()
    }

    fn remove(&mut self, token: u64) {
        let Some(Position { after, client, .. }) = self.positions.remove(&token) else {
            return;
        };
        self.key_bytes -= after.len();
        if let Some(share) = self.shares.get_mut(&client) {
            share.key_bytes -= after.len();
            share.tokens.remove(&token);
            if share.tokens.is_empty() {
                self.shares.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_goes_on_where_it_stood_and_may_be_asked_again() {
        let mut cursors = Cursors::new();
        let first = cursors.suspend(1, 0, 0, b"a".to_vec());
        assert_eq!(cursors.resume(first, 0).unwrap(), b"a");
        let second = cursors.suspend(1, first, 0, b"b".to_vec());
        // The reply with `second` may have been lost: `first` still works.
        assert_eq!(cursors.resume(first, 0).unwrap(), b"a");
        assert_eq!(cursors.resume(second, 0).unwrap(), b"b");
        assert_eq!(cursors.resume(first, 0), None);
        cursors.finish(second);
        assert!(cursors.positions.is_empty() && cursors.shares.is_empty());
        assert_eq!(cursors.key_bytes, 0);
    }

    #[test]
    fn a_token_of_another_database_or_life_starts_over() {
        let mut cursors = Cursors::new();
        let token = cursors.suspend(1, 0, 3, b"a".to_vec());
        assert_eq!(cursors.resume(token, 4), None);
        assert_eq!(cursors.resume(token + 1, 3), None);
        assert!(token < 1 << 63);
    }

    #[test]
    fn abandoned_scans_are_forgotten_oldest_first() {
        let mut cursors = Cursors::new();
        let first = cursors.suspend(1, 0, 0, vec![1]);
        for _ in 0..CURSORS_MAX {
            cursors.suspend(1, 0, 0, vec![2]);
        }
        assert_eq!(cursors.positions.len(), CURSORS_MAX);
        assert_eq!(cursors.resume(first, 0), None);
        for _ in 0..300 {
            cursors.suspend(1, 0, 0, vec![3; 64 << 10]);
        }
        assert!(cursors.key_bytes <= KEY_BYTES_MAX);
        let held: usize = cursors
            .positions
            .values()
            .map(|position| position.after.len())
            .sum();
        assert_eq!(held, cursors.key_bytes);
    }

    /// As many rounds as its keys take each scan to its end, if none is forgotten.
    fn complete(cursors: &mut Cursors, scans: &[u64], rounds: usize) -> usize {
        const KEYS: u8 = 6;
        let mut under_way: Vec<(u64, u64)> = scans.iter().map(|&client| (client, 0)).collect();
        for _ in 0..rounds {
            under_way.retain_mut(|(client, token)| {
                let after = cursors.resume(*token, 0);
                let next = after.map_or(0, |after| after[0] + 1);
                if next == KEYS {
                    cursors.finish(*token);
                    return false;
                }
                *token = cursors.suspend(*client, *token, 0, vec![next; 64 << 10]);
                true
            });
        }
        scans.len() - under_way.len()
    }

    #[test]
    fn many_scans_of_long_keys_come_to_their_ends() {
        let many: Vec<u64> = (0..300).collect();
        assert_eq!(complete(&mut Cursors::new(), &many, 40), 300);
    }

    #[test]
    fn a_client_of_many_scans_ends_nobody_else_s() {
        let mut scans = vec![1; 300];
        scans.extend([2, 3, 4]);
        let mut cursors = Cursors::new();
        assert!(complete(&mut cursors, &scans, 7) >= 3);
        assert!(cursors.shares.keys().all(|&client| client == 1));
    }
}
