//! Keys as such: DEL, EXISTS, TOUCH, TYPE.
//!
//! K1. DEL of several keys is one batch: all go at one instant, and after a crash all are gone or
//!     none is. More keys than a batch holds go in several. The keys that were absent are in it
//!     too, so that it begins anew if one of them was set meanwhile.
//! K2. EXISTS and TOUCH of several keys tell of one instant.
//!
//! Tests: below, `tests/commands.rs`, `tests/redis_py.py`.

use super::failure::{Failure, Outcome};
use super::row::{ALL_KEYS, Context, FAST, ONE_KEY, READ, Row, WRITE};
use crate::resp::request::Args;
use std::collections::BTreeSet;
use velella::{Decision, Keyspace, Snapshot, WriteBatch, limits};

pub(crate) const ROWS: &[Row] = &[
    Row::new("del", -2, WRITE, del)
        .keys(ALL_KEYS)
        .doc("generic", "1.0.0", "Delete keys."),
    Row::new("unlink", -2, WRITE | FAST, del)
        .keys(ALL_KEYS)
        .doc(
            "generic",
            "4.0.0",
            "Delete keys; the same as DEL, which never waits for memory here.",
        ),
    Row::new("exists", -2, READ | FAST, exists)
        .keys(ALL_KEYS)
        .doc("generic", "1.0.0", "Count the keys given that exist."),
    Row::new("touch", -2, READ | FAST, exists)
        .keys(ALL_KEYS)
        .doc(
            "generic",
            "3.2.1",
            "Count the keys given that exist; access times are not kept.",
        ),
    Row::new("type", 2, READ | FAST, key_type)
        .keys(ONE_KEY)
        .doc("generic", "1.0.0", "Get the type of a value."),
];

/// Bytes of keys in one batch: half of what it holds, for what goes with them.
const BATCH_BYTES: usize = limits::BATCH_BYTES_MAX / 2;

fn del(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let deleted = match (ctx.existing()?.is_some(), args.len()) {
        (false, _) => 0,
        (true, 2) => delete_one(ctx, args.at(1))?,
        (true, _) => delete_all(ctx, args)?,
    };
    ctx.reply.integer(deleted);
    Ok(())
}

fn delete_one(ctx: &mut Context<'_>, key: &[u8]) -> Result<i64, Failure> {
    let deleted = ctx.modify_unread(key, |old| match old {
        Some(_) => Decision::Delete,
        None => Decision::Keep,
    })?;
    Ok(i64::from(deleted))
}

/// K1; a key given twice counts once.
fn delete_all(ctx: &mut Context<'_>, args: Args<'_>) -> Result<i64, Failure> {
    let Some(keyspace) = ctx.existing()?.cloned() else {
        return Ok(0);
    };
    // What is too long to be a key is absent, and a batch with it would be refused.
    let keys = args.from(1).iter();
    let mut keys = keys.filter(|key| limits::check_key(key).is_ok()).peekable();
    let mut deleted = 0;
    while keys.peek().is_some() {
        let (mut part, mut bytes) = (BTreeSet::new(), 0);
        while part.len() < limits::BATCH_OPERATIONS_MAX
            && let Some(key) =
                keys.next_if(|key| part.is_empty() || bytes + key.len() <= BATCH_BYTES)
        {
            bytes += key.len();
            part.insert(key);
        }
        deleted +=
            ctx.atomically(|snapshot, batch| delete_part(&keyspace, &part, snapshot, batch))?;
    }
    Ok(deleted)
}

/// Fills a batch that deletes `part`, unless nothing is there; how many of it there are.
fn delete_part(
    keyspace: &Keyspace,
    part: &BTreeSet<&[u8]>,
    snapshot: &Snapshot,
    batch: &mut WriteBatch,
) -> Result<i64, Failure> {
    let mut found = 0;
    for key in part {
        found += i64::from(snapshot.contains(keyspace, key)?);
    }
    if found > 0 {
        // The absent ones too (K1): a batch meets other writers only on its own keys.
        for key in part {
            batch.delete(keyspace, key);
        }
    }
    Ok(found)
}

fn exists(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = match args.len() {
        // One key is always of one instant.
        2 => i64::from(ctx.contains(args.at(1))?),
        _ => ctx.count_present(args.from(1).iter())?,
    };
    ctx.reply.integer(found);
    Ok(())
}

fn key_type(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = ctx.contains(args.at(1))?;
    ctx.reply.simple(if found { "string" } else { "none" });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::session::BUFFERED;

    /// The key is set between the snapshot and the batch, the first time that there is one.
    #[test]
    fn a_key_set_while_several_are_deleted_goes_with_them() {
        let directory = tempfile::tempdir().unwrap();
        let db = velella::open(directory.path()).unwrap();
        db.put("a", "v").unwrap();
        let part = BTreeSet::from([&b"a"[..], b"b"]);
        let mut turns = 0;
        let (deleted, stamp) = db
            .transact(BUFFERED, |snapshot, batch| {
                turns += 1;
                if turns == 1 {
                    // By another client: its own thread is not to write within it.
                    let put = || db.put("b", "x").unwrap();
                    std::thread::scope(|scope| scope.spawn(put).join().unwrap());
                }
                delete_part(&db, &part, snapshot, batch)
            })
            .unwrap();
        assert_eq!((deleted, turns), (2, 2));
        assert!(stamp.is_some());
        for key in ["a", "b"] {
            assert_eq!(db.get(key).unwrap(), None, "{key}");
        }
    }

    #[test]
    fn what_deletes_nothing_writes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let db = velella::open(directory.path()).unwrap();
        let part = BTreeSet::from([&b"a"[..], b"b"]);
        let deleted = db.transact(BUFFERED, |snapshot, batch| {
            delete_part(&db, &part, snapshot, batch)
        });
        assert_eq!(deleted.unwrap(), (0, None));
    }
}
