//! What commands have in common: reading, modifying and writing keys of the database selected.
//!
//! C1. Every write is noted in the session with its stamp, so that its reply can be withheld.
//! C2. What the engine refuses for its length creates no keyspace.
//!
//! Tests: through sockets in `tests/commands.rs` and `tests/databases.rs`.

use super::failure::{Failure, Outcome};
use super::row::Context;
use super::session::BUFFERED;
use crate::clients::Client;
use crate::resp::reply::Protocol;
use crate::shared::Shared;
use std::sync::Arc;
use velella::{EntryInfo, Keyspace, Snapshot, Value, WriteBatch, limits};

impl<'a> Context<'a> {
    /// The keyspace selected, if it was ever written.
    #[inline]
    pub(crate) fn existing(&mut self) -> Result<Option<&Keyspace>, Failure> {
        Ok(self.databases.existing(self.session.database)?)
    }

    /// The keyspace selected, created if need be.
    #[inline]
    pub(crate) fn writable(&mut self) -> Result<&Keyspace, Failure> {
        Ok(self.databases.writable(self.session.database)?)
    }

    /// Refuses a pair that is too long before the keyspace selected is created for it (C2). Where
    /// it exists the engine does.
    pub(crate) fn check_first(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        if self.existing()?.is_none() {
            limits::check_key(key)?;
            limits::check_value(value)?;
        }
        Ok(())
    }

    /// Whether `key` exists.
    pub(crate) fn contains(&mut self, key: &[u8]) -> Result<bool, Failure> {
        let found = match self.existing()? {
            Some(keyspace) => keyspace.contains(key)?,
            None => false,
        };
        self.counters.looked_up(found);
        Ok(found)
    }

    /// How many of `keys` have a value, one that comes twice twice, all at one instant.
    pub(crate) fn count_present<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<i64, Failure> {
        let Some(keyspace) = self.existing()?.cloned() else {
            keys.for_each(|_| self.counters.looked_up(false));
            return Ok(0);
        };
        let snapshot = self.shared.db.snapshot();
        let mut present = 0;
        for key in keys {
            let found = snapshot.contains(&keyspace, key)?;
            self.counters.looked_up(found);
            present += i64::from(found);
        }
        Ok(present)
    }

    /// Length and expiry of the value of `key`, which is not read.
    pub(crate) fn entry_info(&mut self, key: &[u8]) -> Result<Option<EntryInfo>, Failure> {
        let found = self.peek(key)?;
        self.counters.looked_up(found.is_some());
        Ok(found)
    }

    /// As `entry_info`, for who is about to write: not a look-up that is counted.
    pub(crate) fn peek(&mut self, key: &[u8]) -> Result<Option<EntryInfo>, Failure> {
        match self.existing()? {
            Some(keyspace) => Ok(keyspace.entry_info(key)?),
            None => Ok(None),
        }
    }

    /// Lends the value of `key` to `read`; an absent one as empty, which is how most commands on
    /// parts of strings see it.
    pub(crate) fn read<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R, Failure> {
        let mut read = Some(read);
        let found = match self.existing()? {
            Some(keyspace) => {
                keyspace.get_with(key, |value| read.take().map(|read| read(Some(value))))?
            }
            None => None,
        };
        self.counters.looked_up(found.is_some());
        match (found.flatten(), read) {
            (Some(result), _) => Ok(result),
            (None, Some(read)) => Ok(read(None)),
            (None, None) => Err(Failure::new("ERR the engine lent a value twice")),
        }
    }

    /// Hands the values of `keys`, all of one instant, to `take`: one at a time, since many large
    /// values, or one many times, may be more than there is memory.
    pub(crate) fn read_together<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut take: impl FnMut(&mut Self, Option<Value>) -> Outcome,
    ) -> Outcome {
        let keyspace = self.existing()?.cloned();
        let snapshot = self.shared.db.snapshot();
        for key in keys {
            let value = match &keyspace {
                Some(keyspace) => snapshot.get(keyspace, key)?,
                None => None,
            };
            self.counters.looked_up(value.is_some());
            take(self, value)?;
        }
        Ok(())
    }

    /// Applies the batch that `fill` makes of a snapshot, as one step: if a key of the batch was
    /// written since, it starts over with a new snapshot, after a few times with the other writers
    /// waiting. Nothing is written if the batch stays empty.
    pub(crate) fn atomically<R>(
        &mut self,
        fill: impl FnMut(&Snapshot, &mut WriteBatch) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let (result, stamp) = self.shared.db.transact(BUFFERED, fill)?;
        if let Some(stamp) = stamp {
            self.session.wrote(stamp);
        }
        Ok(result)
    }

    /// The clock by which keys expire, in milliseconds since 1970. The machine's may be set back,
    /// this one never goes back.
    pub(crate) fn now_ms(&self) -> i64 {
        i64::try_from(self.shared.db.now_ms()).unwrap_or(i64::MAX)
    }

    /// Whether the connection speaks RESP3.
    pub(crate) fn resp3(&self) -> bool {
        self.reply.protocol == Protocol::Resp3
    }

    /// Fails once nobody waits for the reply any more: to be asked by what looks at all keys,
    /// between them.
    pub(crate) fn check_awaited(&self) -> Result<(), Failure> {
        check_awaited(self.shared, &self.session.client)
    }

    /// The same, to be asked where the context is in other hands.
    pub(crate) fn awaited(&self) -> impl Fn() -> Result<(), Failure> + use<'a> {
        let (shared, client) = (self.shared, Arc::clone(&self.session.client));
        move || check_awaited(shared, &client)
    }

    /// Fails when the reply, which has so many elements by now, exceeds the limit: to be asked
    /// between the elements of one that has no limit of its own. What is the only one passes, since
    /// no smaller reply could carry it.
    pub(crate) fn check_output(&self, elements: usize) -> Result<(), Failure> {
        match elements {
            0 | 1 => Ok(()),
            _ => self.check_reply(self.reply.len() - self.begun),
        }
    }

    /// As `check_output`, before the last of so many elements is added, `next`: a value may be
    /// larger than all that the limit allows.
    pub(crate) fn check_next(&self, elements: usize, next: Option<&[u8]>) -> Result<(), Failure> {
        match elements {
            0 | 1 => Ok(()),
            _ => self.check_reply(self.reply.len() - self.begun + next.map_or(0, <[u8]>::len)),
        }
    }

    /// Fails for a reply of so many bytes if that exceeds the limit.
    pub(crate) fn check_reply(&self, bytes: usize) -> Result<(), Failure> {
        let limit = self.shared.config.max_output_bytes;
        if bytes <= limit {
            return Ok(());
        }
        Err(Failure::new(format!(
            "ERR the reply exceeds {limit} bytes; ask for fewer keys at a time, with SCAN or KV.SCAN"
        )))
    }
}

/// Fails where the server stops, or the client was killed.
fn check_awaited(shared: &Shared, client: &Client) -> Result<(), Failure> {
    match shared.stopping() || client.killed() {
        false => Ok(()),
        true => Err(Failure::new("ERR the connection is being closed")),
    }
}
