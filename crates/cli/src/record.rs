//! Files of pairs: what `import` reads and `export` and `scan` write.
//!
//! Four formats: `tsv`, `csv`, `jsonl` (JSON lines) and `raw` (length-prefixed pairs). `tsv` and
//! `jsonl` carry any bytes as text; `raw` carries them as they are; `csv` carries text, and bytes
//! only where `--bytes` says so. Only `jsonl` and `raw` carry expiry times. docs/command-line.md
//! describes each.
//!
//! R1. What a format's writer writes, its reader reads back: the same pairs, or the writer refused.
//! R2. A reader takes memory for one record at a time, at most `line::LINE_BYTES_MAX`.
//! R3. A malformed record is an answer, not a failure: whether reading goes on is up to the caller.
//!
//! Tests: `tests` below, over all formats; each format beside its code.

pub(crate) mod line;
pub(crate) mod columns;
pub(crate) mod tsv;
pub(crate) mod csv;
pub(crate) mod json_lines;
pub(crate) mod raw;

#[cfg(test)]
mod tests;

use columns::Columns;
use line::Lines;
use std::io::{self, BufRead, Write};
use std::path::Path;
use velella::Result;

/// One pair.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) expires_at_ms: Option<u64>,
}

/// A record that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Malformed {
    /// Where it begins: the line's number, or the pair's; the first is 1.
    pub(crate) number: u64,
    /// What is wrong with it.
    pub(crate) reason: String,
    /// Whether what follows it can be read.
    #[serde(skip)]
    pub(crate) resumable: bool,
}

/// What a reader found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    Record(Record),
    Malformed(Malformed),
    End,
}

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Key, tab, value on each line; escapes for bytes that are not text
    Tsv,
    /// Comma-separated, quoted as in RFC 4180
    Csv,
    /// A JSON object on each line
    Jsonl,
    /// Length-prefixed bytes
    Raw,
}

impl Format {
    /// The format that a file's name ends on.
    pub(crate) fn of(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "tsv" | "tab" | "txt" => Some(Format::Tsv),
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
            "raw" | "pairs" => Some(Format::Raw),
            _ => None,
        }
    }

    /// Whether expiry times survive it.
    pub(crate) fn carries_expiry(self) -> bool {
        matches!(self, Format::Jsonl | Format::Raw)
    }

    /// What its records are numbered by.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Format::Raw => "pair",
            _ => "line",
        }
    }
}

/// How a file is to be read.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    pub(crate) format: Format,
    pub(crate) columns: Columns,
    /// What separates columns of `csv`.
    pub(crate) delimiter: u8,
    /// Whether the first line of `tsv`, or the first record of `csv`, names columns.
    pub(crate) header: bool,
    /// Whether `tsv` and `csv` are taken as bytes: no escapes, no check for UTF-8.
    pub(crate) bytes: bool,
}

/// Reads pairs.
pub(crate) struct Reader<R> {
    options: ReadOptions,
    lines: Lines<R>,
    raw: raw::State,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `source`; `name` is for errors.
    pub(crate) fn new(source: R, name: &Path, options: ReadOptions) -> Self {
        let text = match options.format {
            Format::Tsv => !options.bytes,
            Format::Csv | Format::Jsonl => true,
            Format::Raw => false,
        };
        Reader {
            options,
            lines: Lines::new(source, name, text),
            raw: raw::State::default(),
        }
    }

    /// The next pair, or what stands in its place.
    ///
    /// # Errors
    /// The source cannot be read.
    pub(crate) fn next(&mut self) -> Result<Next> {
        if std::mem::take(&mut self.options.header)
            && let Some(instead) = self.skip_header()?
        {
            return Ok(instead);
        }
        match self.options.format {
            Format::Tsv => tsv::next(&mut self.lines, &self.options),
            Format::Csv => csv::next(&mut self.lines, &self.options),
            Format::Jsonl => json_lines::next(&mut self.lines),
            Format::Raw => self.raw.next(&mut self.lines),
        }
    }

    /// Passes over what names columns; or says why that cannot be.
    fn skip_header(&mut self) -> Result<Option<Next>> {
        match self.options.format {
            Format::Tsv => {
                self.lines.next_line()?;
                Ok(None)
            }
            Format::Csv => csv::skip_header(&mut self.lines, &self.options),
            Format::Jsonl | Format::Raw => Ok(None),
        }
    }

    /// The number of the record read last: its last line's, or the pair's.
    pub(crate) fn number(&self) -> u64 {
        match self.options.format {
            Format::Raw => self.raw.pairs(),
            _ => self.lines.number(),
        }
    }

    /// Bytes of the source consumed so far.
    pub(crate) fn position(&self) -> u64 {
        self.lines.position()
    }

    /// Whether the last line read had no line feed: the file may have been cut off there.
    pub(crate) fn ends_within_line(&self) -> bool {
        self.options.format != Format::Raw && self.lines.ends_within_line()
    }
}

/// Writes pairs.
pub(crate) struct Writer<W> {
    format: Format,
    bytes: bool,
    delimiter: u8,
    out: W,
    pairs: u64,
}

/// Why a pair was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The format cannot carry it.
    Unfit(String),
    /// The destination failed.
    Io(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

impl<W: Write> Writer<W> {
    /// Writes to `out`.
    pub(crate) fn new(out: W, format: Format, bytes: bool, delimiter: u8) -> Self {
        Writer {
            format,
            bytes,
            delimiter,
            out,
            pairs: 0,
        }
    }

    /// Writes what stands before the first pair.
    pub(crate) fn begin(&mut self, header: bool) -> io::Result<()> {
        match self.format {
            Format::Raw => raw::begin(&mut self.out),
            Format::Tsv if header => self.out.write_all(b"key\tvalue\n"),
            Format::Csv if header => {
                self.out.write_all(b"key")?;
                self.out.write_all(&[self.delimiter])?;
                self.out.write_all(b"value\n")
            }
            _ => Ok(()),
        }
    }

    /// Writes a pair.
    pub(crate) fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Result<(), WriteError> {
        match self.format {
            Format::Tsv => tsv::write(&mut self.out, key, value, self.bytes)?,
            Format::Csv => csv::write(&mut self.out, &[key, value], self.delimiter, self.bytes)?,
            Format::Jsonl => json_lines::write(&mut self.out, key, value, expires_at_ms)?,
            Format::Raw => raw::write(&mut self.out, key, value, expires_at_ms)?,
        }
        self.pairs += 1;
        Ok(())
    }

    /// Writes what stands behind the last pair.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        if self.format == Format::Raw {
            raw::end(&mut self.out, self.pairs)?;
        }
        self.out.flush()
    }
}
