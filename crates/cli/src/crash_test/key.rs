//! The keys of the load, and the keyspaces they stand in.
//!
//! K1. A key's bytes tell its number, so a key that nobody wrote is recognised.
//! K2. Each thread has a keyspace of its own, which it alone creates, writes and drops.
//!
//! Tests: below.

/// The keyspaces that stay.
pub(super) const LASTING: [&str; 3] = ["default", "left", "right"];
/// The number of the first counter; counters stand in keyspace `default`.
pub(super) const COUNTERS: u16 = 60_000;

/// A key in a keyspace, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    /// 0, 1, 2: one that stays; above: a thread's own.
    pub(super) keyspace: u8,
    /// Which key.
    pub(super) number: u16,
}

impl Place {
    /// Whether a counter stands there.
    pub(super) fn is_counter(self) -> bool {
        self.number >= COUNTERS
    }

    /// The thread whose own keyspace this is in.
    pub(super) fn owner(self) -> Option<u8> {
        self.keyspace.checked_sub(own_keyspace(0))
    }

    /// The key's bytes; every third key is longer by `padding`.
    pub(super) fn key(self, padding: usize) -> Vec<u8> {
        let mut key = format!("key{:05}", self.number).into_bytes();
        if self.number.is_multiple_of(3) {
            key.resize(key.len() + padding, b'.');
        }
        key
    }

    /// The place of these bytes; `None` if no key of the load has them (K1).
    pub(super) fn parse(keyspace: u8, key: &[u8], padding: usize) -> Option<Place> {
        let digits = std::str::from_utf8(key.get(3..8)?).ok()?;
        let number = digits.parse().ok()?;
        let place = Place { keyspace, number };
        (place.key(padding) == key).then_some(place)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = keyspace_name(self.keyspace);
        write!(f, "key{:05} of keyspace `{name}`", self.number)
    }
}

/// The number of a thread's own keyspace.
pub(super) const fn own_keyspace(thread: u8) -> u8 {
    // Three stay.
    3 + thread
}

/// The name of a keyspace.
pub(super) fn keyspace_name(number: u8) -> String {
    match LASTING.get(usize::from(number)) {
        Some(name) => (*name).to_owned(),
        None => format!("own-{}", number - own_keyspace(0)),
    }
}

/// The number of the keyspace of this name.
pub(super) fn keyspace_number(name: &str) -> Option<u8> {
    let lasting = (0..).zip(LASTING).find(|(_, lasting)| *lasting == name);
    match lasting {
        Some((number, _)) => Some(number),
        None => own_keyspace(0).checked_add(name.strip_prefix("own-")?.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_a_foreign_one_is_not() {
        for number in [0, 1, 3, 599, COUNTERS] {
            let place = Place {
                keyspace: 1,
                number,
            };
            assert_eq!(Place::parse(1, &place.key(40), 40), Some(place));
        }
        for foreign in ["", "key", "key0000x", "key00003", "key00001.", "other"] {
            assert_eq!(Place::parse(1, foreign.as_bytes(), 40), None, "{foreign}");
        }
    }

    #[test]
    fn keyspaces_are_known_by_name_and_number() {
        for number in 0..8 {
            assert_eq!(keyspace_number(&keyspace_name(number)), Some(number));
        }
        assert_eq!(keyspace_number("middle"), None);
        assert_eq!(keyspace_number("own-x"), None);
    }
}
