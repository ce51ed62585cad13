//! Parts of strings: APPEND, STRLEN, GETRANGE, SETRANGE.
//!
//! Tests: below, and `tests/redis_py.py`.

use super::failure::{Failure, NOT_AN_INTEGER, Outcome, TOO_LONG};
use super::row::{Context, FAST, MEMORY, ONE_KEY, READ, Row, WRITE};
use super::strings::{expiry_of, stored};
use crate::number::parse_i64;
use crate::resp::request::Args;
use std::ops::Range;
use velella_sync::atomic::Ordering;

pub(crate) const ROWS: &[Row] = &[
    Row::new("append", 3, WRITE | MEMORY | FAST, append)
        .keys(ONE_KEY)
        .doc("string", "2.0.0", "Append to a value."),
    Row::new("strlen", 2, READ | FAST, strlen)
        .keys(ONE_KEY)
        .doc("string", "2.2.0", "Get the length of a value."),
    Row::new("getrange", 4, READ, getrange).keys(ONE_KEY).doc(
        "string",
        "2.4.0",
        "Get a part of a value.",
    ),
    Row::new("substr", 4, READ, getrange).keys(ONE_KEY).doc(
        "string",
        "1.0.0",
        "Get a part of a value; the older name of GETRANGE.",
    ),
    Row::new("setrange", 4, WRITE | MEMORY, setrange)
        .keys(ONE_KEY)
        .doc(
            "string",
            "2.2.0",
            "Overwrite a part of a value, zeros filling a gap.",
        ),
];

impl Context<'_> {
    /// Refuses a value of `len` bytes that is longer than a client may send.
    pub(crate) fn check_length(&self, len: usize) -> Outcome {
        // Relaxed: a setting, see `Settings`.
        let most = self.shared.settings.max_bulk_bytes.load(Ordering::Relaxed);
        if len > most { Err(TOO_LONG) } else { Ok(()) }
    }
}

fn append(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (shared, tail) = (ctx.shared, args.at(2));
    // Nothing to read, nor to write anew.
    if tail.is_empty()
        && let Some(info) = ctx.peek(args.at(1))?
    {
        ctx.reply.bytes_of(info.value_bytes);
        return Ok(());
    }
    let mut len = 0;
    ctx.modify(args.at(1), |old| {
        let head = old.map_or(&[][..], |entry| &entry.value);
        len = head.len() + tail.len();
        // Relaxed: a setting, see `Settings`.
        if len > shared.settings.max_bulk_bytes.load(Ordering::Relaxed) {
            return Err(TOO_LONG);
        }
        Ok(stored([head, tail].concat(), expiry_of(old)))
    })?;
    ctx.reply.count(len);
    Ok(())
}

fn strlen(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let info = ctx.entry_info(args.at(1))?;
    ctx.reply.bytes_of(info.map_or(0, |info| info.value_bytes));
    Ok(())
}

/// As [`window`]; empty where both ends count from the end in the wrong order.
pub(crate) fn clamp(from: i64, to: i64, len: usize) -> Range<usize> {
    if from < 0 && to < 0 && from > to {
        return 0..0;
    }
    window(from, to, len)
}

/// The bytes from `from` to and with `to` of `len`; numbers below 0 count from the end, and what
/// lies before the first is the first.
pub(crate) fn window(from: i64, to: i64, len: usize) -> Range<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_start = |at: i64| {
        if at < 0 { at.saturating_add(len) } else { at }
    };
    let from = from_start(from).max(0);
    let to = from_start(to).max(0).min(len - 1);
    if len == 0 || from > to {
        return 0..0;
    }
    // Both lie within the length.
    usize::try_from(from).unwrap_or(0)..usize::try_from(to + 1).unwrap_or(0)
}

fn getrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let from = parse_i64(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let to = parse_i64(args.at(3)).ok_or(NOT_AN_INTEGER)?;
    let found = match ctx.databases.existing(ctx.session.database)? {
        Some(keyspace) => keyspace
            .get_with(args.at(1), |value| {
                ctx.reply.bulk(&value[clamp(from, to, value.len())])
            })?
            .is_some(),
        None => false,
    };
    ctx.counters.looked_up(found);
    if !found {
        ctx.reply.bulk(b"");
    }
    Ok(())
}

fn setrange(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let offset = parse_i64(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    let offset = usize::try_from(offset);
    let offset = offset.map_err(|_| Failure::new("ERR offset is out of range"))?;
    let patch = args.at(3);
    if patch.is_empty() {
        return strlen(ctx, args);
    }
    let end = offset.checked_add(patch.len()).ok_or(TOO_LONG)?;
    ctx.check_length(end)?;
    let mut len = 0;
    ctx.modify(args.at(1), |old| {
        let mut value = old.map_or_else(Vec::new, |entry| entry.value.to_vec());
        if value.len() < end {
            value.resize(end, 0);
        }
        value[offset..end].copy_from_slice(patch);
        len = value.len();
        Ok(stored(value, expiry_of(old)))
    })?;
    ctx.reply.count(len);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_from_either_end_and_stay_inside() {
        for (from, to, len, expected) in [
            (0, -1, 5, 0..5),
            (0, 0, 5, 0..1),
            (-3, -1, 5, 2..5),
            (-100, 2, 5, 0..3),
            (3, 100, 5, 3..5),
            (4, 2, 5, 0..0),
            (0, -1, 0, 0..0),
            (5, 9, 5, 0..0),
            (-1, -3, 5, 0..0),
            (0, -100, 5, 0..1),
            (i64::MIN, i64::MAX, 5, 0..5),
        ] {
            assert_eq!(clamp(from, to, len), expected, "{from}..={to} of {len}");
        }
    }
}
