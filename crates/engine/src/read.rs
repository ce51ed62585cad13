//! The read path: newest component first, stop at the first version found.
//!
//! Source: cLSM (EuroSys '15) 3.1: gets take no lock; data moves the same way as the search, so a
//! view that is superseded meanwhile costs at worst a second look.
//!
//! G1. A plain get takes no timestamp, no lock and no slot: one pin, one load of the view.
//! G2. An expired version is a tombstone. The time is read at a version that expires at all; a
//!     snapshot brings its own.
//! G3. No reference into a memtable leaves the pin: bytes are copied, or lent to a closure.
//! G4. A key that is renewed in time is never absent. What a read that brings no time finds expired
//!     is looked up again, now that the clock has said so, and windows that are open then are
//!     waited for: only if it is the newest still is the key absent. The same where nothing was
//!     found in memory and the tree has changed since the memtables were searched: a compaction
//!     may have taken away what expired meanwhile. It takes nothing of which a window may be open
//!     that saw it alive (`Snapshots::retention`).
//!
//! Tests: `tests/reads.rs`, below.

use crate::core::Engine;
use crate::entry::{Entry, EntryInfo, Lent};
use crate::keyspace_core::Core;
use crate::value::Value;
use crate::view::View;
use velella_base::external::ExternalRef;
use velella_base::{Error, ErrorKind, Result, Stamp, ValueKind, seeded};
use velella_memtable::{OnPending, ReadAt, Version};
use velella_sst::{BlockSlice, Found};
use velella_sync::epoch::{self, Guard};

/// The newest version found, where it was found.
#[derive(Debug)]
pub(crate) enum Base<'g> {
    /// Nothing anywhere.
    Absent,
    /// In a memtable.
    Memory(Version<'g>),
    /// In a table.
    Table(Found),
}

/// When a reader reads, and with which wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) at: ReadAt,
    /// Fixed by a snapshot, in milliseconds since 1970; `None`: looked up when needed (G2).
    pub(crate) now_ms: Option<u64>,
}

impl Reader {
    /// The newest versions; undecided ones are passed over.
    pub(crate) const NEWEST: Reader = Reader {
        at: ReadAt {
            stamp: Stamp::MAX,
            pending: OnPending::Skip,
        },
        now_ms: None,
    };
    /// The newest versions; undecided ones are resolved.
    pub(crate) const STRICT: Reader = Reader {
        at: ReadAt {
            stamp: Stamp::MAX,
            pending: OnPending::Resolve,
        },
        now_ms: None,
    };

    /// What a snapshot sees.
    pub(crate) fn snapshot(stamp: Stamp, now_ms: u64) -> Reader {
        Reader {
            at: ReadAt {
                stamp,
                pending: OnPending::Resolve,
            },
            now_ms: Some(now_ms),
        }
    }
}

/// A live value before anything is copied.
enum Live<'a> {
    Memory(&'a [u8]),
    /// Bytes of a block after the first so many.
    Block(&'a BlockSlice, usize),
    External(ExternalRef),
}

/// What a version says at some time.
pub(crate) enum Said<T> {
    /// There is none, or it is a tombstone.
    Absent,
    /// Its time is over; at the time of a read that brings none, to be looked up again (G4).
    Expired,
    Live(T),
}

/// A live version's value with what belongs to it.
pub(crate) struct Seen<'a> {
    live: Live<'a>,
    pub(crate) expires_at_ms: Option<u64>,
    stamp: Stamp,
}

impl Seen<'_> {
    /// What is known without reading the value.
    pub(crate) fn info(&self) -> EntryInfo {
        let value_bytes = match &self.live {
            Live::Memory(bytes) => bytes.len() as u64,
            Live::Block(slice, skip) => (slice.len() - skip) as u64,
            Live::External(reference) => reference.length,
        };
        EntryInfo {
            value_bytes,
            expires_at_ms: self.expires_at_ms,
            stamp: self.stamp,
        }
    }
}

impl Engine {
    /// The newest version of `key` at the reader's time.
    #[inline]
    fn find<'g>(
        &self,
        core: &'g Core,
        key: &[u8],
        at: ReadAt,
        guard: &'g Guard,
    ) -> Result<Base<'g>> {
        self.check_open()?;
        core.check_there()?;
        self.counters.reads.increment();
        let view = core.view.load(guard);
        velella_sync::spot(20);
        let base = match view.cur.table.get(key, at, guard) {
            Some(version) => Base::Memory(version),
            None => self.below_current(core, view, key, at, guard)?,
        };
        let range_delete = base.stamp_if(ValueKind::RangeDelete);
        match range_delete {
            None => Ok(base),
            // It stands at its first key but says nothing about that key's own versions here.
            Some(Stamp(stamp)) => self.find(
                core,
                key,
                ReadAt {
                    stamp: Stamp(stamp.saturating_sub(1)),
                    ..at
                },
                guard,
            ),
        }
    }

    /// As `find`, in everything older than the current memtable.
    pub(crate) fn below_current<'g>(
        &self,
        core: &Core,
        view: &'g View,
        key: &[u8],
        at: ReadAt,
        guard: &'g Guard,
    ) -> Result<Base<'g>> {
        let base = self.find_below(core, view, key, at, guard);
        // Counted at the end: an atomic addition holds back the loads behind it.
        core.toll.gets.increment();
        base
    }

    fn find_below<'g>(
        &self,
        core: &Core,
        view: &'g View,
        key: &[u8],
        at: ReadAt,
        guard: &'g Guard,
    ) -> Result<Base<'g>> {
        // Most often the key is in none of them.
        for mem in view.memtables().skip(1) {
            mem.table.prefetch_get(key);
        }
        for mem in view.memtables().skip(1) {
            if let Some(version) = mem.table.get(key, at, guard) {
                return Ok(Base::Memory(version));
            }
        }
        velella_sync::spot(21);
        match core.tree.get(key, velella_sst::key_hash(key), at.stamp)? {
            Some(found) => Ok(Base::Table(found)),
            None => core.check_there().map(|()| Base::Absent),
        }
    }

    /// What the version found says at the time given, or now.
    #[inline]
    fn interpret<'a>(
        &self,
        core: &Core,
        base: &'a Base<'_>,
        now_ms: Option<u64>,
    ) -> Result<Said<Seen<'a>>> {
        let (kind, stamp, bytes): (_, _, &[u8]) = match base {
            Base::Absent => return Ok(Said::Absent),
            Base::Memory(version) => (version.kind, version.stamp, version.value),
            Base::Table(found) => (found.kind, found.stamp, &found.value),
        };
        let bytes_from = |skip: usize| match base {
            Base::Table(found) => Live::Block(&found.value, skip),
            _ => Live::Memory(&bytes[skip..]),
        };
        let (live, expires) = match kind {
            ValueKind::Put => (bytes_from(0), 0),
            ValueKind::Delete | ValueKind::RangeDelete => return Ok(Said::Absent),
            ValueKind::PutExpiring => (bytes_from(8), expiry(core, bytes)?),
            ValueKind::External => {
                let reference = ExternalRef::decode(bytes).ok_or_else(|| malformed(core, kind))?;
                (Live::External(reference), reference.expires_at_ms)
            }
            ValueKind::Merge => return Err(no_merge_operator(core)),
        };
        // G2: 0 stands for "never".
        let forgotten = seeded("a-get-ignores-expiry");
        if !forgotten && expires != 0 && expires <= now_ms.unwrap_or_else(|| self.wall.now_ms()) {
            return Ok(Said::Expired);
        }
        Ok(Said::Live(Seen {
            live,
            expires_at_ms: (expires != 0).then_some(expires),
            stamp,
        }))
    }

    /// Lends what `key` says to `take` if it is live at the reader's time, under the pin.
    #[inline]
    fn look_up<R>(
        &self,
        core: &Core,
        key: &[u8],
        reader: Reader,
        take: impl FnOnce(Seen<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let guard = epoch::pin();
        let mut generation = core.tree.generation();
        let mut base = self.find(core, key, reader.at, &guard)?;
        loop {
            match self.interpret(core, &base, reader.now_ms)? {
                Said::Live(seen) => return take(seen).map(Some),
                _ if reader.now_ms.is_some() => return Ok(None),
                Said::Absent if !base.is_overtaken(core, &mut generation) => return Ok(None),
                Said::Absent => base = self.find_again(core, key, &guard)?,
                Said::Expired if seeded("what-is-found-expired-is-believed") => return Ok(None),
                Said::Expired => match self.renewed(core, key, base.stamp(), &guard)? {
                    Some(newer) => base = newer,
                    None => return Ok(None),
                },
            }
        }
    }

    /// What stands for `key` now instead of the version of `stamp`; `None` if that is the newest
    /// still (G4).
    fn renewed<'g>(
        &self,
        core: &'g Core,
        key: &[u8],
        stamp: Stamp,
        guard: &'g Guard,
    ) -> Result<Option<Base<'g>>> {
        let base = self.find_again(core, key, guard)?;
        Ok((base.stamp() != stamp).then_some(base))
    }

    /// As `find`, of what is there by now (G4).
    #[cold]
    fn find_again<'g>(&self, core: &'g Core, key: &[u8], guard: &'g Guard) -> Result<Base<'g>> {
        self.find(core, key, Reader::STRICT.at, guard)
    }

    /// The value of `key` as it outlives the pin.
    pub(crate) fn read(&self, core: &Core, key: &[u8], reader: Reader) -> Result<Option<Value>> {
        self.look_up(core, key, reader, |seen| self.owned(&seen.live))
    }

    /// As `read`, with expiry and stamp.
    pub(crate) fn read_entry(
        &self,
        core: &Core,
        key: &[u8],
        reader: Reader,
    ) -> Result<Option<Entry>> {
        self.look_up(core, key, reader, |seen| self.entry(&seen))
    }

    /// Lends the value of `key` to `lend`, under the pin.
    #[inline]
    pub(crate) fn read_with<R>(
        &self,
        core: &Core,
        key: &[u8],
        reader: Reader,
        lend: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.look_up(core, key, reader, |seen| {
            self.lend_seen(&seen, |lent| lend(lent.value))
        })
    }

    /// What the version found says now; if that is `Expired`, the caller has to look again (G4).
    #[inline]
    pub(crate) fn seen<'b>(&self, core: &Core, base: &'b Base<'_>) -> Result<Said<Seen<'b>>> {
        self.interpret(core, base, None)
    }

    /// Lends the value that was seen to `lend`.
    #[inline]
    pub(crate) fn lend_seen<R>(
        &self,
        seen: &Seen<'_>,
        lend: impl FnOnce(Lent<'_>) -> R,
    ) -> Result<R> {
        let with = |value: &[u8]| {
            lend(Lent {
                value,
                expires_at_ms: seen.expires_at_ms,
                stamp: seen.stamp,
            })
        };
        Ok(match &seen.live {
            Live::Memory(bytes) => with(bytes),
            Live::Block(slice, skip) => with(&slice[*skip..]),
            Live::External(reference) => with(&self.env.externals.read(reference)?),
        })
    }

    /// What is known of the value of `key` without reading it.
    pub(crate) fn read_info(
        &self,
        core: &Core,
        key: &[u8],
        reader: Reader,
    ) -> Result<Option<EntryInfo>> {
        self.look_up(core, key, reader, |seen| Ok(seen.info()))
    }

    /// Whether `key` has a live value; an external one is not read.
    pub(crate) fn is_live(&self, core: &Core, key: &[u8], reader: Reader) -> Result<bool> {
        let live = self.look_up(core, key, reader, |_| Ok(()))?;
        Ok(live.is_some())
    }

    /// What the version found says now, as an entry that outlives the pin; if that is `Expired`,
    /// the caller has to look again (G4).
    pub(crate) fn entry_of(&self, core: &Core, base: &Base<'_>) -> Result<Said<Entry>> {
        Ok(match self.interpret(core, base, None)? {
            Said::Live(seen) => Said::Live(self.entry(&seen)?),
            Said::Absent => Said::Absent,
            Said::Expired => Said::Expired,
        })
    }

    fn entry(&self, seen: &Seen<'_>) -> Result<Entry> {
        Ok(Entry {
            value: self.owned(&seen.live)?,
            expires_at_ms: seen.expires_at_ms,
            stamp: seen.stamp,
        })
    }

    /// Stamp of the newest version of `key`, a tombstone's too.
    pub(crate) fn newest_stamp(&self, core: &Core, key: &[u8], at: ReadAt) -> Result<Stamp> {
        let guard = epoch::pin();
        Ok(self.find(core, key, at, &guard)?.stamp())
    }

    fn owned(&self, live: &Live<'_>) -> Result<Value> {
        Ok(match live {
            Live::Memory(bytes) => Value::copied(bytes),
            Live::Block(slice, skip) => Value::block((*slice).clone(), *skip),
            Live::External(reference) => self.env.externals.read(reference)?.into(),
        })
    }

    /// What a version met by an iterator says: where its value starts and when it expires; `None`
    /// if the key is absent there.
    #[inline]
    pub(crate) fn judge(
        &self,
        core: &Core,
        kind: ValueKind,
        payload: &[u8],
        now_ms: u64,
    ) -> Result<Option<Judged>> {
        let (skip, expires) = match kind {
            ValueKind::Put => (0, 0),
            ValueKind::Delete | ValueKind::RangeDelete => return Ok(None),
            ValueKind::PutExpiring => (8, expiry(core, payload)?),
            ValueKind::External => {
                let reference =
                    ExternalRef::decode(payload).ok_or_else(|| malformed(core, kind))?;
                (0, reference.expires_at_ms)
            }
            ValueKind::Merge => return Err(no_merge_operator(core)),
        };
        let live = expires == 0 || expires > now_ms;
        Ok(live.then_some(Judged {
            skip,
            expires_at_ms: (expires != 0).then_some(expires),
        }))
    }
}

/// A live version in an iterator's hands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judged {
    /// Payload bytes before the value.
    pub(crate) skip: usize,
    pub(crate) expires_at_ms: Option<u64>,
}

impl Judged {
    /// A payload that is the value, for good.
    pub(crate) const PLAIN: Judged = Judged {
        skip: 0,
        expires_at_ms: None,
    };
}

impl Base<'_> {
    /// Its stamp; zero for nothing.
    pub(crate) fn stamp(&self) -> Stamp {
        match self {
            Base::Absent => Stamp::ZERO,
            Base::Memory(version) => version.stamp,
            Base::Table(found) => found.stamp,
        }
    }

    /// Whether it was looked for in a tree that is another one by now than that of `generation`,
    /// which becomes the present one.
    pub(crate) fn is_overtaken(&self, core: &Core, generation: &mut u64) -> bool {
        if matches!(self, Base::Memory(_)) {
            return false;
        }
        let before = std::mem::replace(generation, core.tree.generation());
        *generation != before
    }

    fn stamp_if(&self, wanted: ValueKind) -> Option<Stamp> {
        match self {
            Base::Memory(version) if version.kind == wanted => Some(version.stamp),
            Base::Table(found) if found.kind == wanted => Some(found.stamp),
            _ => None,
        }
    }
}

fn expiry(core: &Core, payload: &[u8]) -> Result<u64> {
    let (bytes, _) = payload
        .split_first_chunk()
        .ok_or_else(|| malformed(core, ValueKind::PutExpiring))?;
    Ok(u64::from_le_bytes(*bytes))
}

#[cold]
fn malformed(core: &Core, kind: ValueKind) -> Error {
    let attempt = format!("read a value of keyspace `{}`", core.name);
    let found = format!("its payload is too short for kind `{}`", kind.name());
    Error::new(ErrorKind::Corruption, attempt, found).remedy("run `velella verify`")
}

#[cold]
fn no_merge_operator(core: &Core) -> Error {
    let attempt = format!("read a value of keyspace `{}`", core.name);
    let found = "it is a merge operand, and this version has no merge operators";
    Error::new(ErrorKind::Unsupported, attempt, found)
        .remedy("open the database with the version that wrote it")
}

#[cfg(test)]
mod tests;
