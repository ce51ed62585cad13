//! What reads return, and what a read-modify-write decides and reports.
//!
//! Plain data. Threads: any. Tests: `tests/reads.rs`, `tests/rmw.rs`, `tests/allocations.rs`.

use crate::value::Value;
use std::borrow::Cow;
use velella_base::Stamp;

/// A live value with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// Milliseconds since 1970 from which on the key is absent.
    pub expires_at_ms: Option<u64>,
    /// Its place in the order of all writes; this is no time.
    pub stamp: Stamp,
}

/// A live value where it lies, with what belongs to it: lent while a function runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lent<'a> {
    /// The value.
    pub value: &'a [u8],
    /// Milliseconds since 1970 from which on the key is absent.
    pub expires_at_ms: Option<u64>,
    /// Its place in the order of all writes; this is no time.
    pub stamp: Stamp,
}

/// What is known of a live value without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryInfo {
    /// The value's length in bytes.
    pub value_bytes: u64,
    /// Milliseconds since 1970 from which on the key is absent.
    pub expires_at_ms: Option<u64>,
    /// Its place in the order of all writes; this is no time.
    pub stamp: Stamp,
}

/// What can be stored: bytes that are handed over, or borrowed for `'v`. Implemented for vectors
/// and strings, and for references to whatever can be read as bytes.
pub trait Storable<'v> {
    /// The bytes.
    fn into_bytes(self) -> Cow<'v, [u8]>;
}

impl<'v, T: AsRef<[u8]> + ?Sized> Storable<'v> for &'v T {
    fn into_bytes(self) -> Cow<'v, [u8]> {
        Cow::Borrowed(self.as_ref())
    }
}

impl<'v> Storable<'v> for Vec<u8> {
    fn into_bytes(self) -> Cow<'v, [u8]> {
        Cow::Owned(self)
    }
}

impl<'v> Storable<'v> for String {
    fn into_bytes(self) -> Cow<'v, [u8]> {
        Cow::Owned(self.into_bytes())
    }
}

impl<'v> Storable<'v> for Cow<'v, [u8]> {
    fn into_bytes(self) -> Cow<'v, [u8]> {
        self
    }
}

/// What a read-modify-write decides. What it stores may be borrowed for `'v`, like the value that
/// a put-if-absent brings along; made of the old value it is owned, and a function that makes such
/// ones returns `Decision<'static>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<'v> {
    /// Leave the key as it is.
    Keep,
    /// Store this value, without expiry.
    Put(Cow<'v, [u8]>),
    /// Store this value until then (milliseconds since 1970).
    PutExpiring(Cow<'v, [u8]>, u64),
    /// Delete the key.
    Delete,
}

impl<'v> Decision<'v> {
    /// Stores `value` without expiry.
    ///
    /// ```
    /// use velella::Decision;
    ///
    /// let brought = [1; 500];
    /// assert_eq!(Decision::put(&brought), Decision::Put((&brought).into()));
    /// assert_eq!(Decision::put("text"), Decision::put(String::from("text")));
    /// ```
    pub fn put(value: impl Storable<'v>) -> Self {
        Decision::Put(value.into_bytes())
    }

    /// As [`Decision::put`], until `expires_at_ms` (milliseconds since 1970); refused if that is 0.
    pub fn put_expiring(value: impl Storable<'v>, expires_at_ms: u64) -> Self {
        Decision::PutExpiring(value.into_bytes(), expires_at_ms)
    }

    /// The same, with a value of its own: it may outlive what was borrowed.
    #[must_use]
    pub fn into_owned(self) -> Decision<'static> {
        let own = |value: Cow<'_, [u8]>| Cow::Owned(value.into_owned());
        match self {
            Decision::Keep => Decision::Keep,
            Decision::Put(value) => Decision::Put(own(value)),
            Decision::PutExpiring(value, at_ms) => Decision::PutExpiring(own(value), at_ms),
            Decision::Delete => Decision::Delete,
        }
    }

    /// The same, with a value that is borrowed from this one.
    pub(crate) fn lent(&self) -> Decision<'_> {
        match self {
            Decision::Keep => Decision::Keep,
            Decision::Put(value) => Decision::Put(Cow::Borrowed(value)),
            Decision::PutExpiring(value, at_ms) => {
                Decision::PutExpiring(Cow::Borrowed(value), *at_ms)
            }
            Decision::Delete => Decision::Delete,
        }
    }

    /// Bytes of the value to be stored, if there is one.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Decision::Put(value) | Decision::PutExpiring(value, _) => value.len(),
            Decision::Keep | Decision::Delete => 0,
        }
    }
}

/// What a read-modify-write found, and what it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RmwOutcome<'v> {
    /// The entry it decided on; `None`: the key was absent.
    pub old: Option<Entry>,
    /// What it decided.
    pub decision: Decision<'v>,
    /// The stamp of its write; `None` if it kept the key as it was.
    pub stamp: Option<Stamp>,
}

impl RmwOutcome<'_> {
    /// The same, for a caller that keeps it longer than what was stored is borrowed for.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = velella::open(dir.path())?;
    /// use velella::{Decision, RmwOutcome};
    ///
    /// fn set(db: &velella::Db, value: &str) -> velella::Result<RmwOutcome<'static>> {
    ///     Ok(db.rmw("key", |_| Decision::put(value))?.into_owned())
    /// }
    /// assert_eq!(set(&db, "new")?.new_value(), Some(&b"new"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn into_owned(self) -> RmwOutcome<'static> {
        RmwOutcome {
            old: self.old,
            decision: self.decision.into_owned(),
            stamp: self.stamp,
        }
    }

    /// The value after it.
    #[must_use]
    pub fn new_value(&self) -> Option<&[u8]> {
        match &self.decision {
            Decision::Keep => self.old.as_ref().map(|old| &*old.value),
            Decision::Put(value) | Decision::PutExpiring(value, _) => Some(value),
            Decision::Delete => None,
        }
    }
}
