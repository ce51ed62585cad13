//! What Velella has and Redis has not: ordered scans with values, and the engine's own figures.
//!
//! Tests: `tests/redis_py.py`.

use super::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use super::options::is;
use super::row::{Context, READ, Row};
use crate::number::parse_i64;
use crate::resp::request::Args;
use std::ops::Bound;
use velella::IterOptions;

pub(crate) const ROWS: &[Row] = &[
    Row::new("kv.scan", -4, READ, scan).keys((1, 1, 1)).doc(
        "velella",
        "7.0.0",
        "KV.SCAN start [end] LIMIT n: up to n pairs from start on, before end, in order of keys.",
    ),
    Row::new("kv.stats", 1, 0, stats).doc("velella", "7.0.0", "The engine's figures as JSON."),
];

/// `KV.SCAN start [end] LIMIT n`: key, value, key, value, … of one instant.
fn scan(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (end, limit) = match args.len() {
        4 if is(args.at(2), "limit") => (None, args.at(3)),
        5 if is(args.at(3), "limit") => (Some(args.at(2)), args.at(4)),
        _ => return Err(SYNTAX),
    };
    let limit = parse_i64(limit).and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.ok_or(NOT_AN_INTEGER)?;
    let head = ctx.reply.len();
    let mut pairs = 0;
    if let Some(keyspace) = ctx.databases.existing(ctx.session.database)? {
        let mut iter = keyspace.iter_with(IterOptions {
            lower: Bound::Included(args.at(1).to_vec()),
            upper: end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec())),
            ..IterOptions::default()
        })?;
        while pairs < limit && iter.step()? {
            let (key, value) = iter.pair()?.unwrap_or_default();
            pairs += 1;
            ctx.check_next(pairs, Some(value))?;
            ctx.reply.bulk(key);
            ctx.reply.bulk(value);
        }
    }
    ctx.reply.insert(head, |reply| reply.array(2 * pairs));
    Ok(())
}

fn stats(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let json = serde_json::to_string(&ctx.shared.db.stats());
    let json = json.map_err(|error| Failure::new(format!("ERR cannot print figures: {error}")))?;
    ctx.reply.verbatim(&json);
    Ok(())
}
