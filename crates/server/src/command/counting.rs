//! Strings as numbers: INCR and its kin. A sum is one read-modify-write and keeps the expiry.
//!
//! Tests: `tests/commands.rs`, `tests/redis_py.py`.

use super::failure::{Failure, NOT_A_FLOAT, NOT_AN_INTEGER, Outcome};
use super::row::{Context, FAST, MEMORY, ONE_KEY, Row, WRITE};
use super::strings::{expiry_of, stored};
use crate::decimal;
use crate::number::{Decimal, parse_float, parse_i64};
use crate::resp::request::Args;

const FLAGS: u16 = WRITE | MEMORY | FAST;

pub(crate) const ROWS: &[Row] = &[
    Row::new("incr", 2, FLAGS, incr)
        .keys(ONE_KEY)
        .doc("string", "1.0.0", "Add one to a number."),
    Row::new("decr", 2, FLAGS, decr).keys(ONE_KEY).doc(
        "string",
        "1.0.0",
        "Subtract one from a number.",
    ),
    Row::new("incrby", 3, FLAGS, incrby)
        .keys(ONE_KEY)
        .doc("string", "1.0.0", "Add to a number."),
    Row::new("decrby", 3, FLAGS, decrby).keys(ONE_KEY).doc(
        "string",
        "1.0.0",
        "Subtract from a number.",
    ),
    Row::new("incrbyfloat", 3, FLAGS, incrbyfloat)
        .keys(ONE_KEY)
        .doc("string", "2.6.0", "Add to a number with a fraction."),
];

fn incr(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(ctx, args.at(1), 1)
}

fn decr(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(ctx, args.at(1), -1)
}

fn incrby(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let delta = parse_i64(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    add(ctx, args.at(1), delta)
}

fn decrby(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let delta = parse_i64(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let delta = delta.checked_neg();
    add(
        ctx,
        args.at(1),
        delta.ok_or(Failure::new("ERR decrement would overflow"))?,
    )
}

fn add(ctx: &mut Context<'_>, key: &[u8], delta: i64) -> Outcome {
    let mut sum = 0;
    ctx.modify(key, |old| {
        let current = match old {
            Some(entry) => parse_i64(&entry.value).ok_or(NOT_AN_INTEGER)?,
            None => 0,
        };
        sum = current
            .checked_add(delta)
            .ok_or(Failure::new("ERR increment or decrement would overflow"))?;
        Ok(stored(
            Decimal::new(sum).as_bytes().to_vec(),
            expiry_of(old),
        ))
    })?;
    ctx.reply.integer(sum);
    Ok(())
}

fn incrbyfloat(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    parse_float(args.at(2)).ok_or(NOT_A_FLOAT)?;
    let mut sum = String::new();
    ctx.modify(args.at(1), |old| {
        let current = old.map_or(&b"0"[..], |entry| &entry.value);
        parse_float(current).ok_or(NOT_A_FLOAT)?;
        sum = decimal::sum(current, args.at(2))
            .ok_or(Failure::new("ERR increment would produce NaN or Infinity"))?;
        Ok(stored(sum.clone().into_bytes(), expiry_of(old)))
    })?;
    ctx.reply.bulk(sum.as_bytes());
    Ok(())
}
