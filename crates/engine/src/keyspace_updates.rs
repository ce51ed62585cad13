//! A keyspace: read-modify-writes of single keys, and what is made of them.
//!
//! Each delegates to `rmw.rs` or `rmw/update.rs`, which say how it is one step.
//!
//! Threads: any. Tests: `tests/rmw.rs`, `tests/conditional.rs`.

use crate::change::check_expiry;
use crate::entry::{Decision, Entry, EntryInfo, Lent, RmwOutcome};
use crate::keyspace::Keyspace;
use crate::options::WriteOptions;
use velella_base::{Error, Result, Stamp};

/// So much of a key is shown in an error.
const KEY_BYTES_SHOWN: usize = 64;

/// Read-modify-writes: each reads, decides and writes as one step, without a lock.
impl Keyspace {
    /// Lets `decide` see the value of `key` and writes what it decides. `decide` may run several
    /// times, so it must not act on the outside. It may read and write the database, but not this
    /// key: that would have it run again without end. The write may wait as [`Keyspace::put`] does.
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

    /// As [`Keyspace::rmw`], for a caller that needs nothing but the write: the value is lent where
    /// it lies instead of being copied, and it is not returned. Returns the stamp of the write;
    /// `None` if it kept the key as it was. `decide` runs again if the key is written meanwhile, or
    /// its value expires.
    ///
    /// `decide` may read and write the database, but not this key. While it runs, the whole
    /// database gives no freed memory back. So a decision that takes long is for [`Keyspace::rmw`].
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

    /// As [`Keyspace::update_entry`], but `decide` gets the value's length, expiry and stamp, and
    /// the value is not read: a large one lies in another file, which may be damaged.
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

    /// Writes `new` (`None`: deletes), without an expiry, if the value is `expected` (`None`:
    /// absent); says whether it was. An expiry that the old value had is dropped;
    /// [`Keyspace::compare_and_swap_with`] gives one. The write has the database's durability.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let decision = new.map_or(Decision::Delete, Decision::put);
        self.compare_and_swap_with(key, expected, &decision, WriteOptions::default())
    }

    /// Does what `decision` says if the value is `expected` (`None`: absent); says whether it was.
    /// An expiry that the old value had stays only with [`Decision::Keep`].
    ///
    /// ```
    /// # use velella::{Decision, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = velella::open(dir.path())?;
    /// // Whoever holds a lock has it for another half minute.
    /// # db.put_for("lock", "me", std::time::Duration::from_secs(1), Default::default())?;
    /// let longer = Decision::put_expiring("me", db.now_ms() + 30_000);
    /// let held = db.compare_and_swap_with("lock", Some(b"me"), &longer, WriteOptions::default())?;
    /// assert!(held);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::rmw`]; `InvalidInput`: an expiry of 0.
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        decision: &Decision<'_>,
        options: WriteOptions,
    ) -> Result<bool> {
        if let Decision::PutExpiring(_, at_ms) = decision {
            check_expiry(Some(*at_ms))?;
        }
        let mut is_expected = false;
        self.update_entry(key, options, |old| {
            is_expected = old.map(|lent| lent.value) == expected;
            Ok::<_, Error>(match is_expected {
                true => decision.lent(),
                false => Decision::Keep,
            })
        })?;
        Ok(is_expected)
    }

    /// Writes `value`, without an expiry, if `key` is absent; says whether it did. The write has
    /// the database's durability.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.put_if_absent_with(key, value, None, WriteOptions::default())
    }

    /// As [`Keyspace::put_if_absent`], until `expires_at_ms` if given, as
    /// [`Keyspace::put_expiring`], and with options: a lock, say, that its holder may forget.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = velella::open(dir.path())?;
    /// let until = db.now_ms() + 30_000;
    /// assert!(db.put_if_absent_with("lock", "me", Some(until), Default::default())?);
    /// assert!(!db.put_if_absent_with("lock", "you", Some(until), Default::default())?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::rmw`]; `InvalidInput`: an expiry of 0.
    pub fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: Option<u64>,
        options: WriteOptions,
    ) -> Result<bool> {
        check_expiry(expires_at_ms)?;
        let value = value.as_ref();
        let stamp = self.update_unread(key, options, |old| {
            Ok::<_, Error>(match (old, expires_at_ms) {
                (Some(_), _) => Decision::Keep,
                (None, Some(at_ms)) => Decision::put_expiring(value, at_ms),
                (None, None) => Decision::put(value),
            })
        })?;
        Ok(stamp.is_some())
    }

    /// Adds `delta` to the decimal integer stored under `key` (absent: 0), keeping its expiry;
    /// returns the sum, which is stored as decimal text. The stored value may have a sign and
    /// leading zeros, but no blanks. The write has the database's durability; for another, do the
    /// same by [`Keyspace::update_entry`].
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
