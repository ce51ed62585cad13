//! Values that move or multiply: RENAME, RENAMENX, COPY. Each is one step for every other client.
//!
//! Tests: `tests/commands.rs`, `tests/redis_py.py`.

use super::failure::{Failure, NO_SUCH_KEY, Outcome, SYNTAX};
use super::options::{database_number, is};
use super::row::{Context, FAST, MEMORY, Row, WRITE};
use crate::resp::request::Args;
use velella::{Entry, Keyspace, WriteBatch, limits};

const TWO_KEYS: (i32, i32, i32) = (1, 2, 1);

pub(crate) const ROWS: &[Row] = &[
    Row::new("rename", 3, WRITE, rename).keys(TWO_KEYS).doc(
        "generic",
        "1.0.0",
        "Rename a key, overwriting another.",
    ),
    Row::new("renamenx", 3, WRITE | FAST, renamenx)
        .keys(TWO_KEYS)
        .doc(
            "generic",
            "1.0.0",
            "Rename a key if the new name is absent.",
        ),
    Row::new("copy", -3, WRITE | MEMORY, copy)
        .keys(TWO_KEYS)
        .doc(
            "generic",
            "6.2.0",
            "Copy a value to another key, or another database.",
        ),
];

fn put(batch: &mut WriteBatch, keyspace: &Keyspace, key: &[u8], entry: &Entry) {
    match entry.expires_at_ms {
        Some(at) => batch.put_expiring(keyspace, key, &entry.value, at),
        None => batch.put(keyspace, key, &entry.value),
    };
}

/// Renames a key; `None`: there is none, `false`: the new name exists and must not.
fn rename_key(
    ctx: &mut Context<'_>,
    args: Args<'_>,
    overwrite: bool,
) -> Result<Option<bool>, Failure> {
    let (from, to) = (args.at(1), args.at(2));
    let Some(keyspace) = ctx.existing()?.cloned() else {
        return Ok(None);
    };
    ctx.atomically(|snapshot, batch| {
        let Some(entry) = snapshot.get_entry(&keyspace, from)? else {
            return Ok(None);
        };
        if !overwrite && snapshot.contains(&keyspace, to)? {
            return Ok(Some(false));
        }
        if from != to {
            batch.delete(&keyspace, from);
            put(batch, &keyspace, to, &entry);
        }
        Ok(Some(true))
    })
}

fn rename(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rename_key(ctx, args, true)?.ok_or(NO_SUCH_KEY)?;
    ctx.reply.ok();
    Ok(())
}

fn renamenx(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let renamed = rename_key(ctx, args, false)?.ok_or(NO_SUCH_KEY)?;
    ctx.reply.integer(i64::from(renamed));
    Ok(())
}

fn copy(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to) = (args.at(1), args.at(2));
    let (mut database, mut replace, mut at) = (ctx.session.database, false, 3);
    while let Some(option) = args.get(at) {
        at += 1;
        if is(option, "replace") {
            replace = true;
        } else if let (true, Some(number)) = (is(option, "db"), args.get(at)) {
            database = database_number(number)?;
            at += 1;
        } else {
            return Err(SYNTAX);
        }
    }
    if database == ctx.session.database && from == to {
        return Err(Failure::new(
            "ERR source and destination objects are the same",
        ));
    }
    // Looked for first: a copy of nothing creates no database.
    let source = match ctx.existing()?.cloned() {
        Some(source) if source.contains(from)? => source,
        _ => {
            ctx.reply.integer(0);
            return Ok(());
        }
    };
    // C2 of `context.rs`.
    limits::check_key(to)?;
    let target = ctx.databases.writable(database)?.clone();
    let copied = ctx.atomically(|snapshot, batch| {
        let Some(entry) = snapshot.get_entry(&source, from)? else {
            return Ok(false);
        };
        if !replace && snapshot.contains(&target, to)? {
            return Ok(false);
        }
        // The source is written as it is, so that the batch fails if it changed: the copy then
        // is of the value at the very instant it appears.
        put(batch, &source, from, &entry);
        put(batch, &target, to, &entry);
        Ok(true)
    })?;
    ctx.reply.integer(i64::from(copied));
    Ok(())
}
