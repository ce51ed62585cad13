//! FLUSHDB and FLUSHALL.
//!
//! E1. All keys of the instant at which the command begins are deleted, in batches: readers may
//!     see some gone and others not, and a key written meanwhile may go with them. After a crash
//!     in between, a stop or the client's end, a part is gone.
//!
//! Tests: `tests/commands.rs`.

use super::failure::{Failure, Outcome, SYNTAX};
use super::options::is;
use super::row::{Context, DANGEROUS, Row, WRITE};
use super::scan::keys_only;
use super::session::BUFFERED;
use crate::databases::DATABASES;
use crate::resp::request::Args;
use std::ops::Bound;
use velella::WriteBatch;
use velella_sync::thread::now;

/// Deletions in one batch, and bytes of their keys: well below the engine's limits.
const BATCH_KEYS: usize = 4096;
const BATCH_BYTES: usize = 1 << 20;

pub(crate) const ROWS: &[Row] = &[
    Row::new("flushdb", -1, WRITE | DANGEROUS, flushdb).doc(
        "server",
        "1.0.0",
        "Delete all keys of the database.",
    ),
    Row::new("flushall", -1, WRITE | DANGEROUS, flushall).doc(
        "server",
        "1.0.0",
        "Delete all keys of all databases.",
    ),
];

fn check(args: Args<'_>) -> Outcome {
    match (args.get(1), args.len()) {
        (None, _) => Ok(()),
        (Some(mode), 2) if is(mode, "sync") || is(mode, "async") => Ok(()),
        _ => Err(SYNTAX),
    }
}

fn flushdb(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    check(args)?;
    let database = ctx.session.database;
    clear(ctx, database)?;
    ctx.reply.ok();
    Ok(())
}

fn flushall(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    check(args)?;
    for database in 0..DATABASES {
        clear(ctx, database)?;
    }
    ctx.reply.ok();
    Ok(())
}

fn clear(ctx: &mut Context<'_>, database: usize) -> Result<(), Failure> {
    let check_awaited = ctx.awaited();
    let Some(keyspace) = ctx.databases.existing(database)? else {
        return Ok(());
    };
    // Before as well: it may fail half-way.
    ctx.shared.census.forget(now());
    let mut iter = keys_only(keyspace, Bound::Unbounded, b"")?;
    let mut batch = WriteBatch::new();
    let mut more = true;
    while more {
        let mut bytes = 0;
        while batch.len() < BATCH_KEYS && bytes < BATCH_BYTES {
            more = iter.step()?;
            let Some(key) = iter.key().filter(|_| more) else {
                break;
            };
            bytes += key.len();
            batch.delete(keyspace, key);
        }
        check_awaited()?;
        if !batch.is_empty() {
            let stamp = ctx.shared.db.write_with(&batch, BUFFERED)?;
            ctx.session.wrote(stamp);
            batch.clear();
        }
    }
    ctx.shared.census.forget(now());
    Ok(())
}
