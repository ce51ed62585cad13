//! Walks over keys: SCAN, KEYS, RANDOMKEY, DBSIZE. Keys come in order.
//!
//! V1. A SCAN looks at COUNT keys, but at most [`STEPS_MAX`], and stops early when its reply gets
//!     long, or its pattern has cost [`MATCHING_MAX`]: one call holds a network thread no longer
//!     than that and what lies between these keys, deleted or expired, takes; and no reply exceeds
//!     the limit.
//! V2. Every key present from the first call of a SCAN to its last is returned at least once
//!     (`cursors.rs`).
//! V3. RANDOMKEY is uniform up to 64 keys; beyond, a key's chance depends on the gap before it.
//!
//! Tests: `tests/commands.rs`, `tests/scans.rs`, `tests/redis_py.py`.

use super::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use super::options::is;
use super::row::{Context, DANGEROUS, READ, Row};
use crate::glob;
use crate::number::{Decimal, parse_cursor, parse_i64};
use crate::resp::request::Args;
use std::ops::Bound;
use velella::{Iter, IterOptions, Keyspace, limits};
use velella_sync::rng::Rng;
use velella_sync::thread::now;

/// Most keys one SCAN looks at.
const STEPS_MAX: u64 = 1 << 17;
/// Steps of matching (G2 of `glob.rs`) after which a SCAN stops: as many as one key can take.
const MATCHING_MAX: usize = glob::PATTERN_BYTES_MAX * limits::KEY_BYTES_MAX;
/// Bytes of reply after which a SCAN stops, at the latest.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// Up to so many keys RANDOMKEY counts instead of guessing.
const FEW_KEYS: u64 = 64;

pub(crate) const ROWS: &[Row] = &[
    Row::new("scan", -2, READ, scan).doc("generic", "2.8.0", "Walk over the keys in steps."),
    Row::new("keys", 2, READ | DANGEROUS, keys).doc(
        "generic",
        "1.0.0",
        "Get all keys that match a pattern; on large data, SCAN is kinder.",
    ),
    Row::new("randomkey", 1, READ, randomkey).doc("generic", "1.0.0", "Get some key."),
    Row::new("dbsize", 1, READ, dbsize).doc(
        "server",
        "1.0.0",
        "Count the keys; takes time in proportion to them.",
    ),
];

/// A cursor over keys without values.
pub(crate) fn keys_only(
    keyspace: &Keyspace,
    lower: Bound<Vec<u8>>,
    prefix: &[u8],
) -> Result<Iter, Failure> {
    Ok(keyspace.iter_with(IterOptions {
        lower,
        prefix: prefix.to_vec(),
        keys_only: true,
        fill_cache: false,
        ..IterOptions::default()
    })?)
}

struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: u64,
    strings: bool,
}

fn pattern_of(text: &[u8]) -> Result<&[u8], Failure> {
    if text.len() <= glob::PATTERN_BYTES_MAX {
        return Ok(text);
    }
    Err(Failure::new(format!(
        "ERR pattern exceeds {} bytes",
        glob::PATTERN_BYTES_MAX
    )))
}

fn parse(args: Args<'_>) -> Result<ScanOptions<'_>, Failure> {
    let mut options = ScanOptions {
        pattern: None,
        count: 10,
        strings: true,
    };
    let mut at = 2;
    while let Some(option) = args.get(at) {
        let value = args.get(at + 1).ok_or(SYNTAX)?;
        at += 2;
        if is(option, "match") {
            options.pattern = Some(pattern_of(value)?).filter(|&pattern| pattern != b"*");
        } else if is(option, "count") {
            let count = parse_i64(value).ok_or(NOT_AN_INTEGER)?;
            options.count = u64::try_from(count).map_err(|_| SYNTAX)?;
            if count == 0 {
                return Err(SYNTAX);
            }
        } else if is(option, "type") {
            options.strings = is(value, "string");
        } else {
            return Err(SYNTAX);
        }
    }
    Ok(options)
}

/// Bytes of reply after which a SCAN stops where replies are limited to `limit`: the longest key
/// and the head of the reply still fit.
fn reply_bytes_max(limit: usize) -> usize {
    REPLY_BYTES_MAX.min(limit.saturating_sub(2 * limits::KEY_BYTES_MAX))
}

fn scan(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let token = parse_cursor(args.at(1)).ok_or(Failure::new("ERR invalid cursor"))?;
    let options = parse(args)?;
    let database = ctx.session.database;
    let after = match token {
        0 => None,
        _ => ctx.shared.cursors.lock().resume(token, database),
    };
    let head = ctx.reply.len();
    let longest = reply_bytes_max(ctx.shared.config.max_output_bytes);
    let mut found = 0;
    let mut last = None;
    if let Some(keyspace) = ctx
        .databases
        .existing(database)?
        .filter(|_| options.strings)
    {
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        let prefix = glob::literal_prefix(options.pattern.unwrap_or_default());
        let mut iter = keys_only(keyspace, lower, prefix)?;
        let (mut steps, mut matching) = (0, 0);
        while iter.step()? {
            let Some(key) = iter.key() else { break };
            matching += options.pattern.map_or(0, <[u8]>::len) * key.len();
            if options
                .pattern
                .is_none_or(|pattern| glob::matches(pattern, key))
            {
                ctx.reply.bulk(key);
                found += 1;
            }
            steps += 1;
            let long = ctx.reply.len() - head > longest;
            let enough = steps >= options.count.min(STEPS_MAX) || matching >= MATCHING_MAX;
            if enough || long {
                last = Some(key.to_vec());
                break;
            }
        }
    }
    let mut cursors = ctx.shared.cursors.lock();
    let next = match last {
        Some(last) => cursors.suspend(ctx.session.client.id, token, database, last),
        None => {
            cursors.finish(token);
            0
        }
    };
    ctx.reply.insert(head, |reply| {
        reply.array(2);
        reply.bulk(Decimal::of_u64(next).as_bytes());
        reply.array(found);
    });
    Ok(())
}

fn keys(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pattern = pattern_of(args.at(1))?;
    let head = ctx.reply.len();
    let mut found = 0;
    if let Some(keyspace) = ctx.databases.existing(ctx.session.database)? {
        let mut iter = keys_only(keyspace, Bound::Unbounded, glob::literal_prefix(pattern))?;
        while iter.step()? {
            ctx.check_awaited()?;
            let Some(key) = iter.key() else { break };
            if glob::matches(pattern, key) {
                ctx.reply.bulk(key);
                found += 1;
                ctx.check_output(found)?;
            }
        }
    }
    ctx.reply.insert(head, |reply| reply.array(found));
    Ok(())
}

fn randomkey(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let seed = u64::try_from(now().duration_since(ctx.shared.started).as_nanos());
    let mut rng = Rng::new(seed.unwrap_or(0));
    let mut key = None;
    if let Some(keyspace) = ctx.existing()? {
        let mut iter = keys_only(keyspace, Bound::Unbounded, b"")?;
        let mut seen = 0;
        while seen < FEW_KEYS && iter.step()? {
            seen += 1;
            // Each key so far with the same chance.
            if rng.below(seen) == 0 {
                key = iter.key().map(<[u8]>::to_vec);
            }
        }
        if seen == FEW_KEYS {
            key = far_key(&mut iter, &mut rng)?.or(key);
        }
    }
    ctx.reply.bulk_or_null(key.as_deref());
    Ok(())
}

/// The first key at or above a point drawn between the first key and the last.
fn far_key(iter: &mut Iter, rng: &mut Rng) -> Result<Option<Vec<u8>>, Failure> {
    iter.seek_first()?;
    let first = iter.key().unwrap_or_default().to_vec();
    iter.seek_last()?;
    let last = iter.key().unwrap_or_default().to_vec();
    let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
    let word = |key: &[u8]| {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(key.get(common..).unwrap_or_default()) {
            *to = *from;
        }
        u64::from_be_bytes(word)
    };
    let (low, high) = (word(&first), word(&last));
    let drawn = low + rng.below((high - low).saturating_add(1).max(1));
    let mut point = first[..common].to_vec();
    point.extend(drawn.to_be_bytes());
    iter.seek(&point)?;
    Ok(iter.key().map(<[u8]>::to_vec))
}

fn dbsize(ctx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let mut count = 0;
    if let Some(keyspace) = ctx.existing()? {
        let mut iter = keys_only(keyspace, Bound::Unbounded, b"")?;
        while iter.step()? {
            ctx.check_awaited()?;
            count += 1;
        }
    }
    ctx.reply.integer(count);
    Ok(())
}
