//! Keys as such: DEL, EXISTS, TYPE. A command on several keys handles them one by one, each
//! atomically.
//!
//! Tests: `tests/redis_py.py`.

use super::failure::Outcome;
use super::row::{ALL_KEYS, Context, FAST, ONE_KEY, READ, Row, WRITE};
use crate::resp::request::Args;
use velella::Decision;

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

fn del(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut deleted = 0;
    if ctx.existing()?.is_some() {
        for key in args.from(1).iter() {
            let outcome = ctx.modify(key, |old| {
                Ok(if old.is_some() {
                    Decision::Delete
                } else {
                    Decision::Keep
                })
            })?;
            deleted += i64::from(outcome.stamp.is_some());
        }
    }
    ctx.reply.integer(deleted);
    Ok(())
}

fn exists(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut found = 0;
    for key in args.from(1).iter() {
        found += i64::from(ctx.contains(key)?);
    }
    ctx.reply.integer(found);
    Ok(())
}

fn key_type(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = ctx.contains(args.at(1))?;
    ctx.reply.simple(if found { "string" } else { "none" });
    Ok(())
}
