//! What a value looks like from inside: OBJECT, MEMORY USAGE.
//!
//! Tests: `tests/redis_py.py`.

use super::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use super::options::is;
use super::row::{Context, READ, Row};
use super::subcommands::{help, needs_subcommand};
use crate::number::parse_i64;
use crate::resp::request::Args;

const SECOND: (i32, i32, i32) = (2, 2, 1);

pub(crate) const ROWS: &[Row] = &[
    Row::new("object", -2, READ, needs_subcommand)
        .doc("generic", "2.2.3", "Look at how a value is stored.")
        .with(&[
            Row::new("object|encoding", 3, READ, encoding)
                .keys(SECOND)
                .doc(
                    "generic",
                    "2.2.3",
                    "How Redis would store the value: int, embstr or raw.",
                ),
            Row::new("object|refcount", 3, READ, |ctx, args| number(ctx, args, 1))
                .keys(SECOND)
                .doc("generic", "2.2.3", "References to the value: always 1."),
            Row::new("object|idletime", 3, READ, |ctx, args| number(ctx, args, 0))
                .keys(SECOND)
                .doc(
                    "generic",
                    "2.2.3",
                    "Seconds since the last access: not kept, always 0.",
                ),
            Row::new("object|freq", 3, READ, freq).keys(SECOND).doc(
                "generic",
                "4.0.0",
                "Frequency of access: not kept.",
            ),
            Row::new("object|help", 2, READ, help).doc("generic", "6.2.0", "List these."),
        ]),
    Row::new("memory", -2, READ, needs_subcommand)
        .doc("server", "4.0.0", "Look at what memory is used for.")
        .with(&[
            Row::new("memory|usage", -3, READ, usage).keys(SECOND).doc(
                "server",
                "4.0.0",
                "Bytes of a key and its value, without what the engine adds.",
            ),
            Row::new("memory|help", 2, READ, help).doc("server", "4.0.0", "List these."),
        ]),
];

fn encoding(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let name = ctx.read(args.at(2), |value| {
        value.map(|value| match value {
            _ if parse_i64(value).is_some() => "int",
            _ if value.len() <= 44 => "embstr",
            _ => "raw",
        })
    })?;
    ctx.reply.bulk_or_null(name.map(str::as_bytes));
    Ok(())
}

fn number(ctx: &mut Context<'_>, args: Args<'_>, number: i64) -> Outcome {
    if ctx.contains(args.at(2))? {
        ctx.reply.integer(number);
    } else {
        ctx.reply.null();
    }
    Ok(())
}

fn freq(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if !ctx.contains(args.at(2))? {
        ctx.reply.null();
        return Ok(());
    }
    Err(Failure::new(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust.",
    ))
}

fn usage(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (args.get(3), args.get(4), args.len()) {
        (None, None, 3) => {}
        (Some(option), Some(samples), 5) if is(option, "samples") => {
            if parse_i64(samples).ok_or(NOT_AN_INTEGER)? < 0 {
                return Err(SYNTAX);
            }
        }
        _ => return Err(SYNTAX),
    }
    let key = args.at(2);
    match ctx.entry_info(key)? {
        Some(info) => ctx.reply.bytes_of(key.len() as u64 + info.value_bytes),
        None => ctx.reply.null(),
    }
    Ok(())
}
