//! A database in memory that answers operations.
//!
//! D1. In a keyspace of reversed order every walk is turned around, so that the answers are those
//!     of the order itself.
//!
//! Threads: one, beside the database's own.

use super::operation::{HELD, KEYSPACES, Move, Operation, Scope};
use super::settings::{KeyOrder, Settings};
use super::{Answer, Pair};
use std::ops::Bound;
use std::sync::Arc;
use velella::simulation::{self, Step};
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{
    Db, Decision, ErrorKind, Iter, IterOptions, JournalMode, Keyspace, KeyspaceOptions, Result,
    Snapshot, WriteBatch, WriteOptions,
};
use velella_sync::simulation::Unaided;

const DIR: &str = "/db";
const SECOND: &str = "second";

/// A database, and what is held of it.
#[derive(Debug)]
pub struct World {
    settings: Settings,
    fs: MemFs,
    /// `None` while it is being opened anew.
    open: Option<Open>,
    done: u32,
    /// Held for what its end does.
    _unaided: Option<Unaided>,
    /// The operation that is left out, if one is: the control of whoever compares answers.
    pub sabotage: Option<u32>,
}

#[derive(Debug)]
struct Open {
    db: Db,
    keyspaces: [Keyspace; KEYSPACES],
    snapshots: [Option<Snapshot>; HELD],
    iterators: [Option<Walker>; HELD],
}

impl World {
    /// An empty database with these settings.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn new(settings: &Settings) -> std::result::Result<World, String> {
        let fs = MemFs::new();
        fs.set_maps_well(settings.maps_well || settings.journal == JournalMode::Mapped);
        let mut world = World {
            settings: settings.clone(),
            fs,
            open: None,
            done: 0,
            _unaided: (!settings.helpers).then(Unaided::begin),
            sabotage: None,
        };
        world.open = Some(world.opened().map_err(|error| error.to_string())?);
        Ok(world)
    }

    /// Carries an operation out.
    ///
    /// # Errors
    /// An operation failed that may not fail.
    pub fn answer(&mut self, operation: &Operation) -> std::result::Result<Answer, String> {
        self.unasked().map_err(|error| error.to_string())?;
        self.done += 1;
        if self.sabotage == Some(self.done) {
            return Ok(Answer::Done);
        }
        self.carry_out(operation).map_err(|error| error.to_string())
    }

    /// Checks and closes the database.
    ///
    /// # Errors
    /// It does not verify, or cannot be closed.
    pub fn end(self) -> std::result::Result<(), String> {
        let Some(open) = self.open else { return Ok(()) };
        let ended = open.db.verify().and_then(|_| open.db.close());
        ended.map_err(|error| format!("at the end: {error}"))
    }

    /// What the settings ask for between operations.
    fn unasked(&mut self) -> Result<()> {
        let due = |every: u32| every > 0 && self.done % every == every - 1;
        let settings = &self.settings;
        let (flush, compact) = (due(settings.flush_every), due(settings.compact_every));
        let (gather, reopen) = (due(settings.gather_every), due(settings.reopen_every));
        let turn = Step::ALL[usize::try_from(self.done).unwrap_or(0) % Step::ALL.len()];
        let in_turn = (settings.threads == 0).then_some(turn);
        let open = self.open();
        if let Some(step) = in_turn {
            simulation::step(&open.db, step)?;
        }
        if flush {
            open.db.flush()?;
        }
        if compact {
            open.db.compact()?;
        }
        if gather {
            simulation::step(&open.db, Step::Gather)?;
        }
        let held = open.snapshots.iter().any(Option::is_some)
            || open.iterators.iter().any(Option::is_some);
        if reopen && !held {
            self.reopen(self.done.is_multiple_of(2))?;
        }
        Ok(())
    }

    fn open(&mut self) -> &mut Open {
        self.open
            .as_mut()
            .expect("only `reopen` takes it, and puts it back")
    }

    fn opened(&self) -> Result<Open> {
        let builder = self.settings.builder().vfs(Arc::new(self.fs.clone()));
        let db = builder.open(DIR)?;
        let second = match db.keyspaces().iter().any(|name| name == SECOND) {
            true => db.keyspace(SECOND)?,
            false => self.create_second(&db)?,
        };
        Ok(Open {
            keyspaces: [db.default_keyspace(), second],
            db,
            snapshots: Default::default(),
            iterators: Default::default(),
        })
    }

    fn create_second(&self, db: &Db) -> Result<Keyspace> {
        db.create_keyspace(
            SECOND,
            KeyspaceOptions {
                order: Some(self.settings.order.order()),
                memtable: Some(self.settings.memtables[1]),
                ..KeyspaceOptions::default()
            },
        )
    }

    /// Without a journal, dying would lose writes: then it closes.
    fn reopen(&mut self, dies: bool) -> Result<()> {
        let open = self
            .open
            .take()
            .expect("only this takes it, and puts it back");
        if dies && self.settings.journal != JournalMode::Off {
            self.fs = self.fs.crash(1, CrashMode::KeepAll);
        } else {
            open.db.close()?;
        }
        drop(open);
        self.open = Some(self.opened()?);
        Ok(())
    }

    fn carry_out(&mut self, operation: &Operation) -> Result<Answer> {
        match operation {
            Operation::Scan(scope, moves) => {
                let mut walker = self.walker(scope)?;
                walk(&mut walker, moves)
            }
            Operation::Hold(place, scope) => {
                let walker = self.walker(scope)?;
                self.open().iterators[*place] = Some(walker);
                Ok(Answer::Done)
            }
            Operation::Walk(place, refresh, moves) => {
                let Some(walker) = &mut self.open().iterators[*place] else {
                    return Ok(Answer::Done);
                };
                if *refresh {
                    refresh_to_now(walker)?;
                }
                walk(walker, moves)
            }
            Operation::Recreate => {
                let open = self.open();
                (open.snapshots, open.iterators) = Default::default();
                open.db.drop_keyspace(SECOND)?;
                let db = open.db.clone();
                let second = self.create_second(&db)?;
                self.open().keyspaces[1] = second;
                Ok(Answer::Done)
            }
            Operation::Reopen { dies } => {
                self.reopen(*dies)?;
                Ok(Answer::Done)
            }
            other => self.open().carry_out(other),
        }
    }

    /// An iterator over `scope`, turned where that goes the other way (D1).
    fn walker(&mut self, scope: &Scope) -> Result<Walker> {
        let order = match scope.keyspace {
            0 => KeyOrder::Bytewise,
            _ => self.settings.order,
        };
        let fill_cache = self.settings.fill_cache;
        let open = self.open();
        let snapshot = scope
            .snapshot
            .and_then(|place| open.snapshots[place].clone());
        let mut options = IterOptions {
            lower: scope.lower.clone(),
            upper: scope.upper.clone(),
            prefix: scope.prefix.clone(),
            fill_cache,
            snapshot,
            ..IterOptions::default()
        };
        if order != KeyOrder::Bytewise {
            narrow(&mut options);
        }
        if order == KeyOrder::Reversed {
            std::mem::swap(&mut options.lower, &mut options.upper);
        }
        let iter = open.keyspaces[scope.keyspace].iter_with(options)?;
        Ok(Walker {
            iter,
            is_turned: order == KeyOrder::Reversed,
            stays: false,
        })
    }
}

impl Open {
    fn carry_out(&mut self, operation: &Operation) -> Result<Answer> {
        let keyspaces = &self.keyspaces;
        Ok(match operation {
            Operation::Put(keyspace, key, value, None) => {
                keyspaces[*keyspace].put(key, value)?;
                Answer::Done
            }
            Operation::Put(keyspace, key, value, Some(expiry)) => {
                let options = WriteOptions::default();
                keyspaces[*keyspace].put_expiring(key, value, *expiry, options)?;
                Answer::Done
            }
            Operation::Delete(keyspace, key) => {
                keyspaces[*keyspace].delete(key)?;
                Answer::Done
            }
            Operation::Append(keyspace, key, byte) => {
                let outcome = keyspaces[*keyspace].rmw(key, |old| {
                    let mut new = old.unwrap_or_default().to_vec();
                    new.push(*byte);
                    if new.len() <= 64 {
                        Decision::put(new)
                    } else {
                        Decision::Delete
                    }
                })?;
                Answer::Value(outcome.old.map(|old| (old.value[..].into(), None)))
            }
            Operation::Increment(keyspace, key, by) => {
                match keyspaces[*keyspace].increment(key, *by) {
                    Ok(sum) => Answer::Number(sum),
                    Err(error) if error.kind() == ErrorKind::InvalidInput => Answer::Refused,
                    Err(error) => return Err(error),
                }
            }
            Operation::PutIfAbsent(keyspace, key, value) => {
                Answer::Is(keyspaces[*keyspace].put_if_absent(key, value)?)
            }
            Operation::Swap(keyspace, key, expected, new) => Answer::Is(
                keyspaces[*keyspace].compare_and_swap(key, expected.as_deref(), new.as_deref())?,
            ),
            Operation::Batch(..) => self.batch(operation)?,
            Operation::Flush => done(self.db.flush())?,
            Operation::Compact => done(self.db.compact())?,
            Operation::Verify => done(self.db.verify().map(drop))?,
            Operation::Snapshot(place) => {
                self.snapshots[*place] = Some(self.db.snapshot());
                Answer::Done
            }
            Operation::Release(place) => {
                (self.snapshots[*place], self.iterators[*place]) = (None, None);
                Answer::Done
            }
            read => self.read(read)?,
        })
    }

    fn batch(&self, operation: &Operation) -> Result<Answer> {
        let Operation::Batch(writes, since) = operation else {
            return Ok(Answer::Done);
        };
        let mut batch = WriteBatch::new();
        for (keyspace, key, value) in writes {
            match value {
                Some(value) => batch.put(&self.keyspaces[*keyspace], key, value),
                None => batch.delete(&self.keyspaces[*keyspace], key),
            };
        }
        let since = since.and_then(|place| self.snapshots[place].as_ref());
        let Some(since) = since else {
            self.db.write(&batch)?;
            return Ok(Answer::Is(true));
        };
        let options = WriteOptions::default();
        let written = self.db.write_if_unchanged(&batch, since, options)?;
        Ok(Answer::Is(written.is_some()))
    }

    fn read(&self, operation: &Operation) -> Result<Answer> {
        let entry = |entry: velella::Entry| (entry.value[..].into(), entry.expires_at_ms);
        Ok(match operation {
            Operation::Get(keyspace, key) => {
                let found = self.keyspaces[*keyspace].get_entry(key)?;
                let plain = self.keyspaces[*keyspace].get(key)?;
                let same = found.as_ref().map(|found| &found.value[..]) == plain.as_deref();
                if !same {
                    return Ok(Answer::Refused);
                }
                Answer::Value(found.map(entry))
            }
            Operation::GetStrict(keyspace, key) => {
                let strict = self.keyspaces[*keyspace].get_strict(key)?;
                let found = self.keyspaces[*keyspace].get_entry(key)?;
                let same = found.as_ref().map(|found| &found.value[..]) == strict.as_deref();
                if !same {
                    return Ok(Answer::Refused);
                }
                Answer::Value(found.map(entry))
            }
            Operation::Contains(keyspace, key) => {
                Answer::Is(self.keyspaces[*keyspace].contains(key)?)
            }
            Operation::MultiGet(keyspace, keys) => {
                let values = self.keyspaces[*keyspace].multi_get(keys)?;
                let shared = |value: velella::Value| value[..].into();
                Answer::Values(values.into_iter().map(|value| value.map(shared)).collect())
            }
            Operation::SnapshotGet(place, keyspace, key) => match &self.snapshots[*place] {
                Some(snapshot) => {
                    let found = snapshot.get_entry(&self.keyspaces[*keyspace], key)?;
                    Answer::Value(found.map(entry))
                }
                None => Answer::Value(None),
            },
            _ => Answer::Done,
        })
    }
}

fn done(result: Result<()>) -> Result<Answer> {
    result.map(|()| Answer::Done)
}

/// A prefix as bounds, for orders that know none.
fn narrow(options: &mut IterOptions) {
    let prefix = std::mem::take(&mut options.prefix);
    if prefix.is_empty() {
        return;
    }
    let below = match &options.lower {
        Bound::Unbounded => true,
        Bound::Included(key) | Bound::Excluded(key) => *key < prefix,
    };
    if below {
        options.lower = Bound::Included(prefix.clone());
    }
    let mut end = prefix;
    while end.pop_if(|last| *last == 0xff).is_some() {}
    let Some(last) = end.last_mut() else { return };
    *last += 1;
    let above = match &options.upper {
        Bound::Unbounded => true,
        Bound::Included(key) | Bound::Excluded(key) => *key >= end,
    };
    if above {
        options.upper = Bound::Excluded(end);
    }
}

/// An iterator that is walked.
#[derive(Debug)]
struct Walker {
    iter: Iter,
    /// In the reversed order.
    is_turned: bool,
    /// Turned, and moved by a refresh: a step stays where it is, as without turning it would.
    stays: bool,
}

fn walk(walker: &mut Walker, moves: &[Move]) -> Result<Answer> {
    let mut seen: Vec<Option<Pair>> = Vec::with_capacity(moves.len());
    for to in moves {
        let stays = std::mem::take(&mut walker.stays) && matches!(to, Move::Step);
        let iter = &mut walker.iter;
        let found = match walker.is_turned {
            true if stays => true,
            true => turned(iter, to)?,
            false => go(iter, to)?,
        };
        let Some(key) = iter.key().filter(|_| found).map(<[u8]>::to_vec) else {
            seen.push(None);
            continue;
        };
        let expiry = iter.expires_at_ms();
        seen.push(Some((key, iter.value()?.into(), expiry)));
    }
    Ok(Answer::Walk(seen))
}

fn go(iter: &mut Iter, to: &Move) -> Result<bool> {
    match to {
        Move::Step => iter.step(),
        Move::StepBack => iter.step_back(),
        Move::First => iter.seek_first(),
        Move::Last => iter.seek_last(),
        Move::Seek(key) => iter.seek(key),
        Move::SeekBefore(key) => iter.seek_before(key),
    }
}

/// The same in the reversed order.
fn turned(iter: &mut Iter, to: &Move) -> Result<bool> {
    match to {
        Move::Step => iter.step_back(),
        Move::StepBack => iter.step(),
        Move::First => iter.seek_last(),
        Move::Last => iter.seek_first(),
        Move::Seek(key) => {
            if iter.seek(key)? && iter.key() == Some(key) {
                return Ok(true);
            }
            iter.seek_before(key)
        }
        Move::SeekBefore(key) => {
            if iter.seek(key)? && iter.key() == Some(key) {
                return iter.step();
            }
            Ok(iter.key().is_some())
        }
    }
}

fn refresh_to_now(walker: &mut Walker) -> Result<()> {
    let iter = &mut walker.iter;
    let at = iter.key().map(<[u8]>::to_vec);
    iter.refresh_to_now()?;
    if let Some(key) = at.filter(|_| walker.is_turned) {
        let there = turned(iter, &Move::Seek(key.clone()))?;
        if iter.key() != Some(&key) {
            walker.stays = there;
        }
    }
    Ok(())
}
