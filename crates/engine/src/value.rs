//! Values handed to the user: they outlive every pin.
//!
//! V1. Bytes from a memtable are copied; bytes from a table stay in their block, held by a count;
//!     an external value owns its buffer. Short ones are copied inline, wherever they come from.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use velella_sst::BlockSlice;

const INLINE: usize = 30;

/// The bytes of a value. Dereferences to `[u8]`; send it wherever you like.
///
/// It compares equal to anything that can be read as the same bytes: slices, arrays, vectors and
/// strings. Its `Debug` form is text, in which bytes that are not UTF-8 are replaced.
///
/// One of more than 30 bytes that comes from a table holds its whole block, 4 KiB by default, which
/// is in no budget once the cache has let go of it: keep many of them for long as `to_vec`.
#[derive(Clone)]
pub struct Value(Repr);

#[derive(Clone)]
enum Repr {
    Inline(u8, [u8; INLINE]),
    Owned(Box<[u8]>),
    Block(BlockSlice, usize),
}

impl Value {
    /// Copies `bytes`.
    #[must_use]
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        match u8::try_from(bytes.len()) {
            Ok(len) if bytes.len() <= INLINE => {
                let mut inline = [0; INLINE];
                inline[..bytes.len()].copy_from_slice(bytes);
                Value(Repr::Inline(len, inline))
            }
            _ => Value(Repr::Owned(bytes.into())),
        }
    }

    /// The bytes of `slice` after the first `skip`.
    #[must_use]
    pub(crate) fn block(slice: BlockSlice, skip: usize) -> Self {
        match &slice[skip..] {
            short if short.len() <= INLINE => Value::copied(short),
            _ => Value(Repr::Block(slice, skip)),
        }
    }

    /// The bytes as a vector of their own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        (**self).to_vec()
    }

    /// As [`Value::to_vec`], without a copy where the bytes are the value's own: those of a large
    /// one, or of one that was found in memory and has more than 30.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Repr::Owned(bytes) => bytes.into_vec(),
            Repr::Inline(..) | Repr::Block(..) => self.to_vec(),
        }
    }
}

/// The empty value.
impl Default for Value {
    fn default() -> Self {
        Value(Repr::Inline(0, [0; INLINE]))
    }
}

/// As [`Value::into_vec`].
impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Self {
        value.into_vec()
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Value(Repr::Owned(bytes.into()))
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(len, bytes) => &bytes[..usize::from(*len)],
            Repr::Owned(bytes) => bytes,
            Repr::Block(slice, skip) => &slice[*skip..],
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Value({:?})", String::from_utf8_lossy(self))
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Value {}

/// As the bytes: byte by byte, whatever the order of the keyspace.
impl<T: AsRef<[u8]> + ?Sized> PartialOrd<T> for Value {
    fn partial_cmp(&self, other: &T) -> Option<Ordering> {
        Some((**self).cmp(other.as_ref()))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(other)
    }
}

/// As the bytes, wherever they lie.
impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::fresh;

    /// V1: 4 KiB for a few bytes, in no budget, would be held for as long as the value.
    #[test]
    fn a_short_value_holds_no_block() {
        let (db, _) = fresh();
        let long = [b'v'; INLINE + 1];
        db.put("short", &long[1..]).unwrap();
        db.put("long", long).unwrap();
        let expires = db.now_ms() + 3_600_000;
        db.put_expiring("later", &long[1..], expires, Default::default())
            .unwrap();
        db.flush().unwrap();
        for (key, holds) in [("short", false), ("long", true), ("later", false)] {
            let found = db.get(key).unwrap().unwrap();
            assert_eq!(matches!(found.0, Repr::Block(..)), holds, "{key}");
            assert_eq!(*found, long[usize::from(!holds)..], "{key}");
        }
    }

    /// Equal bytes are one key of a map, found in memory, in a table, or in a file of their own.
    #[test]
    fn values_compare_and_hash_by_their_bytes_wherever_they_lie() {
        let (db, _) = fresh();
        let bytes = [b'v'; INLINE + 1];
        db.put("key", bytes).unwrap();
        let owned = db.get("key").unwrap().unwrap();
        db.flush().unwrap();
        let block = db.get("key").unwrap().unwrap();
        assert!(matches!(owned.0, Repr::Owned(_)) && matches!(block.0, Repr::Block(..)));
        let short = Value::copied(&bytes[..3]);
        let long_short = Value::from(bytes[..3].to_vec());
        assert_eq!(owned.cmp(&block), Ordering::Equal);
        assert!(short < owned && block > long_short);
        assert!(owned < *"w" && owned > bytes[..INLINE]);
        let values = [owned, short, long_short, block, Value::default()];
        let set: std::collections::HashSet<_> = values.iter().cloned().collect();
        assert_eq!(set.len(), 3);
        assert!(set.contains(&Value::copied(b"")));
        for value in values {
            let (expected, copy) = (value.to_vec(), value.clone());
            assert_eq!(value.into_vec(), expected);
            assert_eq!(Vec::from(copy), expected);
        }
    }

    #[test]
    fn bytes_of_its_own_are_handed_on_where_they_lie() {
        let value = Value::from(vec![7; INLINE + 1]);
        let at = value.as_ptr();
        let bytes = value.into_vec();
        assert_eq!(bytes.as_ptr(), at);
    }
}
