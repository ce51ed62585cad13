//! Keys as such: DEL, EXISTS, TOUCH, TYPE.
//!
//! K1. DEL of several keys is one batch: all go at one instant, and after a crash all are gone or
//!     none is. More keys than a batch holds go in several.
//! K2. EXISTS and TOUCH of several keys tell of one instant.
//!
//! Tests: `tests/commands.rs`, `tests/redis_py.py`.

use super::failure::{Failure, Outcome};
use super::row::{ALL_KEYS, Context, FAST, ONE_KEY, READ, Row, WRITE};
use crate::resp::request::Args;
use std::collections::BTreeSet;
use velella::{Decision, limits};

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
    let outcome = ctx.modify(key, |old| {
        Ok(if old.is_some() {
            Decision::Delete
        } else {
            Decision::Keep
        })
    })?;
    Ok(i64::from(outcome.stamp.is_some()))
}

/// K1; a key given twice counts once.
fn delete_all(ctx: &mut Context<'_>, args: Args<'_>) -> Result<i64, Failure> {
    let Some(keyspace) = ctx.existing()?.cloned() else {
        return Ok(0);
    };
    let mut keys = args.from(1).iter().peekable();
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
        deleted += ctx.atomically(|snapshot, batch| {
            let mut found = 0;
            for key in &part {
                if snapshot.contains(&keyspace, key)? {
                    batch.delete(&keyspace, key);
                    found += 1;
                }
            }
            Ok(found)
        })?;
    }
    Ok(deleted)
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
