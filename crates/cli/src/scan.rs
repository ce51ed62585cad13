//! `velella scan`: pairs in the order of their keys.
//!
//! `text` is for eyes: aligned, long values cut, a blank at the end escaped. The other formats are
//! for programs and hold everything; `tsv`, `csv` and `jsonl` can be imported again. Keys alone are
//! printed in each as it prints the keys of pairs.
//!
//! Tests: below and `tests/pairs.rs`.

use crate::database::{KeyspaceName, Place};
use crate::failure::Failure;
use crate::human;
use crate::output::{JsonBytes, Output, write_json};
use crate::range::{Pair, Range, Walk};
use crate::record::{self, WriteError, Writer};
use crate::text::{escape, escape_to_its_end, to_hex};
use clap::{Args, ValueEnum};
use std::collections::VecDeque;
use std::io::{self, Write};
use velella::{Error, ErrorKind};

/// Longest value, and widest column of keys, that `text` shows in full, in characters.
const VALUE_CHARS_MAX: usize = 72;
const KEY_CHARS_MAX: usize = 40;
/// Rows that decide how wide the column of keys is.
const ROWS_AHEAD: usize = 64;

/// Arguments of `scan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella scan --limit 10
  velella scan --prefix user: --keys-only
  velella scan --from 2024-01 --to 2024-02 --reverse --format jsonl
  velella scan -e --from 'id\\x00' --format hex

--from and --through include their key, --after and --to do not.
Long values are cut in the text format only. --json is --format jsonl.")]
pub(crate) struct Scan {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    keyspace: KeyspaceName,
    #[command(flatten)]
    range: Range,
    /// Print keys alone
    #[arg(long)]
    keys_only: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Aligned, long values cut
    Text,
    /// Key, tab, value; escapes for bytes that are not text
    Tsv,
    /// Comma-separated, quoted as in RFC 4180
    Csv,
    /// A JSON object on each line
    Jsonl,
    /// Hexadecimal digits
    Hex,
}

impl Scan {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let chosen = self.range.chosen()?;
        let db = self.place.open(output)?;
        let keyspace = self.keyspace.of(&db)?;
        let mut walk = chosen.walk(&keyspace, self.keys_only)?;
        let format = if output.json {
            Format::Jsonl
        } else {
            self.format
        };
        let out = &mut output.out;
        let pairs = match format {
            _ if self.keys_only => keys(&mut walk, format, out)?,
            Format::Text => aligned(&mut walk, out)?,
            Format::Hex => hex(&mut walk, out)?,
            Format::Tsv => records(&mut walk, record::Format::Tsv, out)?,
            Format::Csv => records(&mut walk, record::Format::Csv, out)?,
            Format::Jsonl => records(&mut walk, record::Format::Jsonl, out)?,
        };
        out.flush()?;
        if format == Format::Text && Output::is_terminal() {
            output.note(&format!("({})", human::counted(pairs, "pair")));
        }
        drop(walk);
        Ok(db.close()?)
    }
}

fn keys(walk: &mut Walk, format: Format, out: &mut impl Write) -> Result<u64, Failure> {
    #[derive(serde::Serialize)]
    struct Key<'a> {
        key: JsonBytes<'a>,
    }
    let mut pairs = 0;
    while let Some(Pair { key, .. }) = walk.next()? {
        match format {
            Format::Jsonl => write_json(
                out,
                &Key {
                    key: JsonBytes(key),
                },
            )?,
            Format::Hex => writeln!(out, "{}", to_hex(key))?,
            Format::Csv => {
                record::csv::write(out, &[key], b',', false)
                    .map_err(|error| unwritten(key, error))?;
            }
            Format::Text => writeln!(out, "{}", escape_to_its_end(key))?,
            Format::Tsv => writeln!(out, "{}", escape(key))?,
        }
        pairs += 1;
    }
    Ok(pairs)
}

fn hex(walk: &mut Walk, out: &mut impl Write) -> Result<u64, Failure> {
    let mut pairs = 0;
    while let Some(Pair { key, value, .. }) = walk.next()? {
        writeln!(out, "{}  {}", to_hex(key), to_hex(value))?;
        pairs += 1;
    }
    Ok(pairs)
}

fn records(walk: &mut Walk, format: record::Format, out: &mut impl Write) -> Result<u64, Failure> {
    let mut writer = Writer::new(out, format, false, b',');
    let mut pairs = 0;
    while let Some(Pair {
        key,
        value,
        expires_at_ms,
    }) = walk.next()?
    {
        writer
            .write(key, value, expires_at_ms)
            .map_err(|error| unwritten(key, error))?;
        pairs += 1;
    }
    Ok(pairs)
}

fn unwritten(key: &[u8], error: WriteError) -> Failure {
    match error {
        WriteError::Io(error) => error.into(),
        WriteError::Unfit(reason) => unfit(key, reason, "use --format tsv, jsonl or hex"),
    }
}

/// The failure for a pair that a format cannot carry; `advice` is what the command can do instead.
pub(crate) fn unfit(key: &[u8], reason: String, advice: &str) -> Failure {
    let attempt = format!("write the pair of key `{}`", escape(key));
    let error = Error::new(ErrorKind::InvalidInput, attempt, reason);
    Failure::Error(error.remedy(advice))
}

/// Prints keys and values in two columns; the first rows decide where the second begins.
fn aligned(walk: &mut Walk, out: &mut impl Write) -> Result<u64, Failure> {
    let (mut ahead, mut width, mut pairs) = (VecDeque::new(), 0, 0);
    let ended = loop {
        let Pair { key, value, .. } = match walk.next() {
            Ok(Some(pair)) => pair,
            Ok(None) => break Ok(pairs),
            Err(failure) => break Err(failure),
        };
        let row = (escape_to_its_end(key), shortened(value));
        pairs += 1;
        if pairs <= ROWS_AHEAD as u64 {
            width = width.max(row.0.chars().count().min(KEY_CHARS_MAX));
        }
        ahead.push_back(row);
        if ahead.len() > ROWS_AHEAD
            && let Some(row) = ahead.pop_front()
        {
            print_row(out, &row, width)?;
        }
    };
    // Those before what could not be read as well.
    for row in &ahead {
        print_row(out, row, width)?;
    }
    out.flush()?;
    ended
}

fn print_row(out: &mut impl Write, row: &(String, String), width: usize) -> io::Result<()> {
    let line = format!("{:width$}  {}", row.0, row.1);
    writeln!(out, "{}", line.trim_end())
}

/// A value as one line that fits on a screen.
fn shortened(value: &[u8]) -> String {
    // A character has at most four bytes, an escape at least one.
    let head = &value[..value.len().min(VALUE_CHARS_MAX * 4 + 4)];
    let shown = escape(head);
    match shown.char_indices().nth(VALUE_CHARS_MAX) {
        None if head.len() == value.len() => escape_to_its_end(value),
        None => format!("{shown}… ({})", human::bytes(value.len() as u64)),
        Some((end, _)) => format!("{}… ({})", &shown[..end], human::bytes(value.len() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_their_size_is_told() {
        assert_eq!(shortened(b"short\n"), "short\\n");
        let long = shortened(&vec![b'x'; 4096]);
        assert_eq!(long, format!("{}… (4.00 KiB)", "x".repeat(VALUE_CHARS_MAX)));
        assert!(shortened("✓".repeat(500).as_bytes()).chars().count() < 100);
    }
}
