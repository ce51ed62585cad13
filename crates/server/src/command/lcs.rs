//! LCS: the longest common subsequence of two values.
//!
//! O1. The table of lengths is bounded; longer values are refused before it is made.
//!
//! Tests: below, and `tests/redis_py.py`.

use super::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use super::options::is;
use super::row::{Context, READ, Row};
use crate::number::parse_i64;
use crate::resp::request::Args;
use std::ops::RangeInclusive;

/// Most cells of the table: 128 MiB of them.
const CELLS_MAX: usize = 32 << 20;

pub(crate) const ROWS: &[Row] = &[Row::new("lcs", -3, READ, lcs).keys((1, 2, 1)).doc(
    "string",
    "7.0.0",
    "Find the longest common subsequence of two values.",
)];

#[derive(Default)]
struct Options {
    len: bool,
    index: bool,
    min_match: usize,
    with_lengths: bool,
}

fn parse(args: Args<'_>) -> Result<Options, Failure> {
    let mut options = Options::default();
    let mut at = 3;
    while let Some(option) = args.get(at) {
        at += 1;
        if is(option, "len") {
            options.len = true;
        } else if is(option, "idx") {
            options.index = true;
        } else if is(option, "withmatchlen") {
            options.with_lengths = true;
        } else if let (true, Some(least)) = (is(option, "minmatchlen"), args.get(at)) {
            let least = parse_i64(least).ok_or(NOT_AN_INTEGER)?;
            options.min_match = usize::try_from(least).unwrap_or(0);
            at += 1;
        } else {
            return Err(SYNTAX);
        }
    }
    if options.len && options.index {
        return Err(Failure::new(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    Ok(options)
}

fn lcs(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = parse(args)?;
    let mut values = Vec::with_capacity(2);
    ctx.read_together(args.from(1).iter().take(2), |_, value| {
        // An absent value is as an empty one.
        values.push(value.unwrap_or_else(|| Vec::new().into()));
        Ok(())
    })?;
    let (a, b) = (&values[0], &values[1]);
    let cells = (a.len() + 1).checked_mul(b.len() + 1);
    if cells.is_none_or(|cells| cells > CELLS_MAX) {
        return Err(Failure::new(
            "ERR Insufficient memory, transient memory for LCS exceeds 128 MiB",
        ));
    }
    let table = Table::new(a, b);
    if options.len {
        ctx.reply.count(table.lcs_len());
    } else if options.index {
        reply_index(ctx, &table, &options);
    } else {
        let (text, _) = table.walk();
        ctx.reply.bulk(&text);
    }
    Ok(())
}

fn reply_index(ctx: &mut Context<'_>, table: &Table<'_>, options: &Options) {
    let (_, mut matches) = table.walk();
    matches.retain(|(a, _)| a.end() - a.start() + 1 >= options.min_match);
    ctx.reply.map(2);
    ctx.reply.bulk(b"matches");
    ctx.reply.array(matches.len());
    for (a, b) in matches {
        ctx.reply.array(2 + usize::from(options.with_lengths));
        for range in [&a, &b] {
            ctx.reply.array(2);
            ctx.reply.count(*range.start());
            ctx.reply.count(*range.end());
        }
        if options.with_lengths {
            ctx.reply.count(a.end() - a.start() + 1);
        }
    }
    ctx.reply.bulk(b"len");
    ctx.reply.count(table.lcs_len());
}

/// A run of bytes equal in both values: where it is in each.
type Match = (RangeInclusive<usize>, RangeInclusive<usize>);

/// Lengths of the longest common subsequences of all pairs of prefixes.
struct Table<'a> {
    a: &'a [u8],
    b: &'a [u8],
    lengths: Vec<u32>,
}

impl<'a> Table<'a> {
    fn new(a: &'a [u8], b: &'a [u8]) -> Self {
        let mut table = Table {
            a,
            b,
            lengths: vec![0; (a.len() + 1) * (b.len() + 1)],
        };
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                let length = if a[i - 1] == b[j - 1] {
                    table.at(i - 1, j - 1) + 1
                } else {
                    table.at(i - 1, j).max(table.at(i, j - 1))
                };
                table.lengths[i * (b.len() + 1) + j] = length;
            }
        }
        table
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * (self.b.len() + 1) + j]
    }

    fn lcs_len(&self) -> usize {
        usize::try_from(self.at(self.a.len(), self.b.len())).unwrap_or(usize::MAX)
    }

    /// The subsequence, and its runs from the last to the first.
    fn walk(&self) -> (Vec<u8>, Vec<Match>) {
        let (mut text, mut matches) = (Vec::new(), Vec::<Match>::new());
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            if self.a[i - 1] == self.b[j - 1] {
                (i, j) = (i - 1, j - 1);
                text.push(self.a[i]);
                match matches.last_mut() {
                    Some((a, b)) if *a.start() == i + 1 && *b.start() == j + 1 => {
                        *a = i..=*a.end();
                        *b = j..=*b.end();
                    }
                    _ => matches.push((i..=i, j..=j)),
                }
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        text.reverse();
        (text, matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subsequence_and_its_runs_are_found() {
        let table = Table::new(b"ohmytext", b"mynewtext");
        let (text, matches) = table.walk();
        assert_eq!(text, b"mytext");
        assert_eq!(matches, [(4..=7, 5..=8), (2..=3, 0..=1)]);
        assert_eq!(table.lcs_len(), 6);
        assert_eq!(Table::new(b"", b"x").walk().0, b"");
    }
}
