//! Strings as arrays of bits: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP. Bit 0 is the highest of
//! the first byte.
//!
//! BITOP reads all its sources at one instant; its destination does not change between that and
//! the write, a source that is not the destination may.
//!
//! Tests: below, and `tests/redis_py.py`.

use super::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use super::options::is;
use super::row::{Context, FAST, MEMORY, ONE_KEY, READ, Row, WRITE};
use super::strings::{expiry_of, stored};
use super::substrings::{clamp, window};
use crate::number::parse_i64;
use crate::resp::request::Args;
use std::ops::Range;

pub(crate) const ROWS: &[Row] = &[
    Row::new("setbit", 4, WRITE | MEMORY, setbit)
        .keys(ONE_KEY)
        .doc("bitmap", "2.2.0", "Set or clear a bit."),
    Row::new("getbit", 3, READ | FAST, getbit)
        .keys(ONE_KEY)
        .doc("bitmap", "2.2.0", "Get a bit."),
    Row::new("bitcount", -2, READ, bitcount).keys(ONE_KEY).doc(
        "bitmap",
        "2.6.0",
        "Count the bits that are set.",
    ),
    Row::new("bitpos", -3, READ, bitpos).keys(ONE_KEY).doc(
        "bitmap",
        "2.8.7",
        "Find the first bit that is set, or clear.",
    ),
    Row::new("bitop", -4, WRITE | MEMORY, bitop)
        .keys((2, -1, 1))
        .doc(
            "bitmap",
            "2.6.0",
            "Combine values bit by bit and store the result.",
        ),
];

const BAD_BIT: &str = "ERR bit is not an integer or out of range";

fn offset(ctx: &Context<'_>, text: &[u8]) -> Result<(usize, u8), Failure> {
    let refused = || Failure::new("ERR bit offset is not an integer or out of range");
    let bit = parse_i64(text)
        .and_then(|bit| usize::try_from(bit).ok())
        .ok_or_else(refused)?;
    ctx.check_length(bit / 8 + 1).map_err(|_| refused())?;
    Ok((bit / 8, 0x80 >> (bit % 8)))
}

fn setbit(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (byte, mask) = offset(ctx, args.at(2))?;
    let on = match args.at(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(Failure::new(BAD_BIT)),
    };
    let mut was = false;
    ctx.modify(args.at(1), |old| {
        let mut value = old.map_or_else(Vec::new, |entry| entry.value.to_vec());
        if value.len() <= byte {
            value.resize(byte + 1, 0);
        }
        was = value[byte] & mask != 0;
        if on {
            value[byte] |= mask;
        } else {
            value[byte] &= !mask;
        }
        Ok(stored(value, expiry_of(old)))
    })?;
    ctx.reply.integer(i64::from(was));
    Ok(())
}

fn getbit(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (byte, mask) = offset(ctx, args.at(2))?;
    let on = ctx.read(args.at(1), |value| {
        value
            .and_then(|value| value.get(byte))
            .is_some_and(|byte| byte & mask != 0)
    })?;
    ctx.reply.integer(i64::from(on));
    Ok(())
}

/// The number at `at`, or what stands for a missing one.
fn bound(args: Args<'_>, at: usize, missing: i64) -> Result<i64, Failure> {
    match args.get(at) {
        Some(text) => parse_i64(text).ok_or(NOT_AN_INTEGER),
        None => Ok(missing),
    }
}

/// Whether the unit at `at` is bits; without one it is bytes.
fn in_bits(args: Args<'_>, at: usize) -> Result<bool, Failure> {
    match args.get(at) {
        None => Ok(false),
        Some(unit) if is(unit, "byte") => Ok(false),
        Some(unit) if is(unit, "bit") => Ok(true),
        Some(_) => Err(SYNTAX),
    }
}

/// A range of bits, given in bytes or bits.
struct Span {
    from: i64,
    to: i64,
    bits: bool,
}

impl Span {
    /// The bits of `value` in the range, which `cut` makes fit.
    fn of(&self, value: &[u8], cut: fn(i64, i64, usize) -> Range<usize>) -> Range<usize> {
        if self.bits {
            cut(self.from, self.to, value.len() * 8)
        } else {
            let bytes = cut(self.from, self.to, value.len());
            bytes.start * 8..bytes.end * 8
        }
    }
}

/// The bits of `range` in `value` by bytes: each with its number and the mask of what is inside.
fn masked(value: &[u8], range: Range<usize>) -> impl Iterator<Item = (usize, u8, u8)> + '_ {
    let (first, last) = (range.start / 8, range.end.div_ceil(8));
    (first..last).map(move |index| {
        let mut mask = 0xff;
        if index == range.start / 8 {
            mask &= 0xff >> (range.start % 8);
        }
        if index == range.end / 8 {
            mask &= !(0xff >> (range.end % 8));
        }
        (index, value[index], mask)
    })
}

fn bitcount(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let count = ctx.read(args.at(1), |value| {
        let Some(value) = value else { return Ok(0) };
        if args.len() == 3 || args.len() > 5 {
            return Err(SYNTAX);
        }
        let (from, to) = (bound(args, 2, 0)?, bound(args, 3, -1)?);
        // Redis looks at the unit of what is a range only.
        if from < 0 && to < 0 && from > to {
            return Ok(0);
        }
        let bits = in_bits(args, 4)?;
        let bits = masked(value, Span { from, to, bits }.of(value, clamp));
        Ok(bits
            .map(|(_, byte, mask)| u64::from((byte & mask).count_ones()))
            .sum())
    })??;
    ctx.reply.integer(i64::try_from(count)?);
    Ok(())
}

fn bitpos(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let bit = parse_i64(args.at(2)).ok_or(NOT_AN_INTEGER)?;
    if !matches!(bit, 0 | 1) {
        return Err(Failure::new("ERR The bit argument must be 1 or 0."));
    }
    let found = ctx.read(args.at(1), |value| {
        let Some(value) = value else {
            return Ok((bit == 0).then_some(0));
        };
        if args.len() > 6 {
            return Err(SYNTAX);
        }
        let from = bound(args, 3, 0)?;
        // In the order in which Redis looks at them.
        let bits = in_bits(args, 5)?;
        let to = bound(args, 4, -1)?;
        let range = Span { from, to, bits }.of(value, window);
        let empty = range.is_empty();
        let wanted = |byte: u8| if bit == 1 { byte } else { !byte };
        let found = masked(value, range).find_map(|(index, byte, mask)| {
            let hits = wanted(byte) & mask;
            (hits != 0).then(|| index * 8 + usize::try_from(hits.leading_zeros()).unwrap_or(0))
        });
        // Behind the value all bits are clear, unless the client said where to stop.
        let behind = bit == 0 && args.len() <= 4 && !empty;
        Ok(found.or_else(|| behind.then_some(value.len() * 8)))
    })??;
    match found {
        Some(at) => ctx.reply.count(at),
        None => ctx.reply.integer(-1),
    }
    Ok(())
}

fn bitop(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let operation: fn(u8, u8) -> u8 = match args.at(1) {
        name if is(name, "and") => |a, b| a & b,
        name if is(name, "or") => |a, b| a | b,
        name if is(name, "xor") => |a, b| a ^ b,
        name if is(name, "not") && args.len() == 4 => |a, _| !a,
        name if is(name, "not") => {
            return Err(Failure::new(
                "ERR BITOP NOT must be called with a single source key.",
            ));
        }
        _ => return Err(SYNTAX),
    };
    let Some(keyspace) = ctx.existing()?.cloned() else {
        ctx.reply.count(0);
        return Ok(());
    };
    let check_awaited = ctx.awaited();
    let len = ctx.atomically(|snapshot, batch| {
        let mut result = None;
        for key in args.from(3).iter() {
            check_awaited()?;
            let value = snapshot.get(&keyspace, key)?;
            combine(&mut result, value.as_deref().unwrap_or_default(), operation);
        }
        let mut result = result.unwrap_or_default();
        if is(args.at(1), "not") {
            result
                .iter_mut()
                .for_each(|byte| *byte = operation(*byte, 0));
        }
        if !result.is_empty() {
            batch.put(&keyspace, args.at(2), &result);
        } else if snapshot.contains(&keyspace, args.at(2))? {
            batch.delete(&keyspace, args.at(2));
        }
        Ok(result.len())
    })?;
    ctx.reply.count(len);
    Ok(())
}

/// Combines the bytes of the values so far with those of one more; the shorter is continued by
/// zeros.
fn combine(result: &mut Option<Vec<u8>>, value: &[u8], operation: fn(u8, u8) -> u8) {
    let Some(result) = result else {
        *result = Some(value.to_vec());
        return;
    };
    result.resize(result.len().max(value.len()), 0);
    let padded = value.iter().chain(std::iter::repeat(&0));
    for (a, b) in result.iter_mut().zip(padded) {
        *a = operation(*a, *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cut_the_first_and_last_byte_where_the_range_does() {
        let value = [0xff; 3];
        for from in 0..24 {
            for to in from..=24 {
                let bits: u32 = masked(&value, from..to)
                    .map(|(_, byte, mask)| (byte & mask).count_ones())
                    .sum();
                assert_eq!(bits as usize, to - from, "{from}..{to}");
            }
        }
    }
}
