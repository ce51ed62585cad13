//! A keyspace: read-modify-writes of single keys, and what is made of them.
//!
//! Each delegates to `rmw.rs` or `rmw/update.rs`, which say how it is one step.
//!
//! Threads: any. Tests: `tests/rmw.rs`, `tests/conditional.rs`.

use crate::entry::{Decision, Entry, EntryInfo, Lent, RmwOutcome};
use crate::keyspace::Keyspace;
use crate::options::WriteOptions;
use velella_base::{Error, Result, Stamp};

/// So much of a key is shown in an error.
const KEY_BYTES_SHOWN: usize = 64;

/// Read-modify-writes: each reads, decides and writes as one step, without a lock.
impl Keyspace {
    /// Lets `decide` see the value of `key` and writes what it decides. `decide` may run several
    /// times, so it must not act on the outside; nor write this key, which would have it run again
    /// without end.
    ///
    /// # Errors
    /// As [`Keyspace::put`] and [`Keyspace::get`].
    pub fn rmw<'v>(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<&[u8]>) -> Decision<'v>,
    ) -> Result<RmwOutcome<'v>> {
        self.rmw_entry(key, WriteOptions::default(), |old| {
            Ok(decide(old.map(|entry| &*entry.value)))
        })
    }

    /// As [`Keyspace::rmw`], for who needs nothing but the write: the value is lent where it lies
    /// instead of being copied, and it is not returned. The stamp of the write; `None` if it kept
    /// the key as it was. `decide` runs again where the key is written meanwhile, or its value
    /// expires.
    ///
    /// While it runs, what the whole database frees is not given back: a decision that takes long
    /// is for [`Keyspace::rmw`].
    ///
    /// ```
    /// # use velella::{Db, Decision};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::builder().open(dir.path())?;
    /// db.put("log", "a")?;
    /// let appended = db.update("log", |old| {
    ///     Decision::put([old.unwrap_or_default(), b"b"].concat())
    /// })?;
    /// assert!(appended.is_some());
    /// assert_eq!(db.get("log")?.unwrap(), "ab");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn update<'v>(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<&[u8]>) -> Decision<'v>,
    ) -> Result<Option<Stamp>> {
        self.update_entry(key, WriteOptions::default(), |old| {
            Ok(decide(old.map(|lent| lent.value)))
        })
    }

    /// As [`Keyspace::update`], with expiry and stamp of the value, and with write options. An
    /// error of `decide` ends it, and nothing is written.
    ///
    /// # Errors
    /// As [`Keyspace::update`], or what `decide` returned.
    pub fn update_entry<'v, E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        mut decide: impl FnMut(Option<Lent<'_>>) -> Result<Decision<'v>, E>,
    ) -> Result<Option<Stamp>, E> {
        self.engine()
            .update(&self.core, key.as_ref(), options, &mut decide)
    }

    /// As [`Keyspace::update_entry`], but `decide` is told of the value without its being read: of
    /// a large one that would be another file, which may be damaged.
    ///
    /// ```
    /// # use velella::{Db, Decision, Error, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::builder().open(dir.path())?;
    /// db.put("k", "v")?;
    /// let deleted = db.update_unread("k", WriteOptions::default(), |old| {
    ///     Ok::<_, Error>(match old {
    ///         Some(old) if old.value_bytes < 100 => Decision::Delete,
    ///         _ => Decision::Keep,
    ///     })
    /// })?;
    /// assert!(deleted.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::update_entry`].
    pub fn update_unread<'v, E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        mut decide: impl FnMut(Option<EntryInfo>) -> Result<Decision<'v>, E>,
    ) -> Result<Option<Stamp>, E> {
        self.engine()
            .update_unread(&self.core, key.as_ref(), options, &mut decide)
    }

    /// As [`Keyspace::rmw`], with the old entry's expiry and stamp, and with write options. An
    /// error of `decide` ends it, and nothing is written.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`], or what `decide` returned.
    pub fn rmw_entry<'v, E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        mut decide: impl FnMut(Option<&Entry>) -> Result<Decision<'v>, E>,
    ) -> Result<RmwOutcome<'v>, E> {
        self.engine()
            .rmw(&self.core, key.as_ref(), options, &mut decide)
    }

    /// Writes `new` (`None`: deletes), without expiry, if the value is `expected` (`None`: absent);
    /// says whether.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let mut swapped = false;
        self.update(key, |old| {
            swapped = old == expected;
            match new {
                _ if !swapped => Decision::Keep,
                Some(new) => Decision::put(new),
                None => Decision::Delete,
            }
        })?;
        Ok(swapped)
    }

    /// Writes `value` if `key` is absent; says whether it did.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let value = value.as_ref();
        let stamp = self.update_unread(key, WriteOptions::default(), |old| {
            Ok::<_, Error>(match old {
                Some(_) => Decision::Keep,
                None => Decision::put(value),
            })
        })?;
        Ok(stamp.is_some())
    }

    /// Adds `delta` to the decimal integer stored under `key` (absent: 0), keeping its expiry;
    /// returns the sum.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`]; `InvalidInput`: the value is no 64-bit integer, or the sum is none.
    pub fn increment(&self, key: impl AsRef<[u8]>, delta: i64) -> Result<i64> {
        let (mut sum, key) = (0, key.as_ref());
        self.update_entry(key, WriteOptions::default(), |old| {
            let refuse = |found| self.not_addable(key, delta, found);
            let before = match old {
                Some(entry) => {
                    integer(entry.value).ok_or_else(|| refuse("it holds something else"))?
                }
                None => 0,
            };
            let found = "the sum has more than 64 bits";
            sum = before.checked_add(delta).ok_or_else(|| refuse(found))?;
            let text = sum.to_string().into_bytes();
            Ok::<_, Error>(match old.and_then(|entry| entry.expires_at_ms) {
                Some(expiry) => Decision::put_expiring(text, expiry),
                None => Decision::put(text),
            })
        })?;
        Ok(sum)
    }

    #[cold]
    fn not_addable(&self, key: &[u8], delta: i64, found: &str) -> Error {
        let shown = key[..key.len().min(KEY_BYTES_SHOWN)].escape_ascii();
        let dots = if key.len() > KEY_BYTES_SHOWN {
            "..."
        } else {
            ""
        };
        let attempt = format!(
            "add {delta} to the 64-bit integer \"{shown}\"{dots} of keyspace `{}`",
            self.core.name
        );
        Error::invalid(attempt, found)
    }
}

fn integer(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
