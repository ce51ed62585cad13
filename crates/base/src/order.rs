//! The order of a keyspace's keys, fixed when the keyspace is created and named in the manifest.
//!
//! O1. An order is total, and equal keys are the same key.
//! O2. `separator(a, b)` for `a < b` is some `s` with `a <= s < b`; it only shortens index entries,
//!     so returning `a` is always right.

use std::cmp::Ordering;
use std::sync::Arc;

/// How a user's order compares two keys.
pub type Compare = dyn Fn(&[u8], &[u8]) -> Ordering + Send + Sync;

/// The order of keys: bytewise, or a user's under a name of its own.
#[derive(Clone, Default)]
pub enum Order {
    /// Unsigned bytes, shorter first.
    #[default]
    Bytewise,
    /// A user's order.
    Custom {
        /// Stored in the manifest; opening under another name is an error.
        name: Arc<str>,
        /// The comparison (O1).
        compare: Arc<Compare>,
    },
}

/// The name under which the bytewise order is stored.
pub const BYTEWISE_NAME: &str = "velella.bytewise";

impl Order {
    /// A user's order. The database's own threads call it as well, so it must not use the
    /// database, nor wait for a thread that does: background work, or a close, would wait for
    /// itself.
    pub fn custom(
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static,
    ) -> Order {
        Order::Custom {
            name: name.into(),
            compare: Arc::new(compare),
        }
    }

    /// The name stored in the manifest.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Order::Bytewise => BYTEWISE_NAME,
            Order::Custom { name, .. } => name,
        }
    }

    /// Whether prefix words, guards and short separators may be used.
    #[must_use]
    #[inline]
    pub fn is_bytewise(&self) -> bool {
        matches!(self, Order::Bytewise)
    }

    /// Compares two keys.
    #[must_use]
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Order::Bytewise => compare_bytes(a, b),
            Order::Custom { compare, .. } => compare(a, b),
        }
    }

    /// A short key `s` with `low <= s < high` (O2).
    #[must_use]
    pub fn separator(&self, low: &[u8], high: &[u8]) -> Vec<u8> {
        if self.is_bytewise() {
            let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
            // Cut after the first differing byte if raising it still stays below `high`.
            if let (Some(&a), Some(&b)) = (low.get(shared), high.get(shared))
                && a.checked_add(1).is_some_and(|raised| raised < b)
            {
                let mut short = low[..=shared].to_vec();
                short[shared] += 1;
                return short;
            }
        }
        low.to_vec()
    }
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Order({})", self.name())
    }
}

/// `a.cmp(b)`, without a call where the first eight bytes decide.
#[must_use]
#[inline]
pub fn compare_bytes(a: &[u8], b: &[u8]) -> Ordering {
    match (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        (Some(x), Some(y)) if x != y => u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y)),
        _ => a.cmp(b),
    }
}

/// `a == b`, without a call where the lengths or the first eight bytes decide, or both have eight
/// to sixteen bytes.
#[must_use]
#[inline]
pub fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        (Some(x), Some(y)) if x != y => false,
        // The last eight overlap the first, or meet them.
        (Some(_), Some(_)) if a.len() <= 16 => a.last_chunk::<8>() == b.last_chunk::<8>(),
        _ => a == b,
    }
}

/// What of `key` follows `prefix`, if it begins with that.
///
/// Where nothing is to be compared nothing is called: an empty slice may point to no memory, and
/// `memcmp` of glibc for AVX-512 loads from there under a mask of no bytes, which processors leave
/// to microcode. With keys that share nothing, two such calls were 30 % of a get's time.
#[must_use]
#[inline]
pub fn without_prefix<'a>(key: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    if prefix.is_empty() {
        return Some(key);
    }
    key.strip_prefix(prefix)
}

/// Makes what `to` holds from `at` on into `tail`. Where that is eight to sixteen bytes in place of
/// as many, as with keys of one length, it takes no call.
///
/// # Panics
/// `to` is shorter than `at`.
#[inline]
pub fn set_tail(to: &mut Vec<u8>, at: usize, tail: &[u8]) {
    if let (Some(first), Some(last)) = (tail.first_chunk::<8>(), tail.last_chunk::<8>())
        && tail.len() <= 16
        && to.len() == at + tail.len()
    {
        // They overlap, or meet.
        let behind = to.len() - 8;
        to[at..at + 8].copy_from_slice(first);
        to[behind..].copy_from_slice(last);
    } else {
        set_any_tail(to, at, tail);
    }
}

/// As `set_tail`, whatever the lengths. A function of its own, so that the common case is inlined.
#[inline(never)]
fn set_any_tail(to: &mut Vec<u8>, at: usize, tail: &[u8]) {
    assert!(at <= to.len(), "{at} of {}", to.len());
    to.truncate(at);
    to.extend_from_slice(tail);
}

/// The first eight bytes as a number that orders as they do, zeros where there are fewer: if the
/// words of two keys differ, so do the keys, bytewise and in the same way.
#[must_use]
#[inline]
pub fn word(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_be_bytes(*eight);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(padded)
}

/// The smallest key above every key with `prefix`, bytewise; `None` if there is none.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_lie_between() {
        let order = Order::Bytewise;
        for (low, high) in [
            (&b"abc"[..], &b"abz"[..]),
            (b"abc", b"abd"),
            (b"", b"a"),
            (b"a", b"a\0"),
            (b"abcdef", b"b"),
            (b"\xff\xff", b"\xff\xff\x01"),
            (b"abcdef", b"c"),
        ] {
            let middle = order.separator(low, high);
            assert!(
                low <= &middle[..] && &middle[..] < high,
                "{low:?} {middle:?} {high:?}"
            );
            assert!(middle.len() <= low.len());
        }
        assert_eq!(order.separator(b"abcdef", b"c"), b"b");
    }

    #[test]
    fn what_follows_a_prefix_is_what_the_standard_library_says() {
        let keys: [&[u8]; 5] = [b"", b"a", b"ab", b"abc", b"b"];
        for key in keys {
            for prefix in keys {
                assert_eq!(without_prefix(key, prefix), key.strip_prefix(prefix));
            }
        }
    }

    #[test]
    fn tails_are_set_whatever_was_there() {
        let source: Vec<u8> = (0..40).collect();
        for before in 0..30 {
            for at in 0..=before {
                for len in 0..20 {
                    let mut to = vec![99; before];
                    let tail = &source[..len];
                    set_tail(&mut to, at, tail);
                    assert_eq!(to, [&vec![99; at], tail].concat());
                }
            }
        }
    }

    #[test]
    fn comparing_by_words_first_says_what_comparing_says() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for len in [1, 7, 8, 9, 15, 16, 17] {
            for (at, byte) in [(0, 0), (0, 255), (6, 1), (7, 255), (8, 0), (len - 1, 128)] {
                let mut key = vec![7; len];
                if let Some(place) = key.get_mut(at) {
                    *place = byte;
                }
                keys.push(key);
            }
        }
        for a in &keys {
            for b in &keys {
                assert_eq!(compare_bytes(a, b), a.cmp(b), "{a:?} {b:?}");
                assert_eq!(same_bytes(a, b), a == b, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_the_next_sibling() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
