//! `csv`: comma-separated values, quoted as in RFC 4180.
//!
//! Strict, so that a damaged file is noticed where it is damaged: a quote only at the beginning of
//! a field, doubled inside, followed by a delimiter or the line's end. A quoted field may span
//! lines.
//!
//! A malformed record is read on to where it ends, as if it were none: the lines that its quotes
//! take along are left out with it, and never taken for records. Where somebody wrote quotes within
//! a quoted field without doubling them, each of them begins or ends a quoted part.
//!
//! The text must be UTF-8 unless `--bytes` is given. A parser that forgives (as the usual crates
//! are) would take the rest of a file cut off within quotes for one value.
//!
//! Tests: below and `super::tests`.

use super::line::{BYTE_ORDER_MARK, LINE_BYTES_MAX, Line, Lines, check_text, malformed};
use super::{Malformed, Next, ReadOptions, Record, WriteError};
use std::io::{BufRead, Write};
use velella::Result;

/// Where in a record the parser stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Bare,
    Quoted,
    /// After a quote within quotes: the end of the field, or one half of a doubled quote.
    QuoteSeen,
    /// Outside of quotes in a field that began with one, which is malformed.
    Broken,
}

/// A record being read.
#[derive(Debug)]
struct Parser {
    state: State,
    fields: Vec<Vec<u8>>,
    bytes: usize,
    /// What is wrong with it first of all, and on which line; from then on nothing is kept of it.
    fault: Option<(u64, String)>,
}

impl Parser {
    fn new() -> Self {
        Parser {
            state: State::FieldStart,
            fields: vec![Vec::new()],
            bytes: 0,
            fault: None,
        }
    }

    /// Takes line `number`, without its end; whether the record is complete.
    fn line(&mut self, number: u64, line: &[u8], delimiter: u8) -> bool {
        self.bytes = self.bytes.saturating_add(line.len() + 1);
        for (index, &byte) in line.iter().enumerate() {
            if let Err(what) = self.byte(byte, delimiter) {
                self.fail(number, format!("{what} at byte {}", index + 1));
            }
        }
        self.state != State::Quoted
    }

    /// Notes what is wrong, unless something is already.
    fn fail(&mut self, number: u64, reason: String) {
        if self.fault.is_none() {
            self.fault = Some((number, reason));
            self.fields = Vec::new();
        }
    }

    /// Takes the line's end that stands within quotes.
    fn line_end(&mut self, carriage_return: bool) {
        if carriage_return {
            self.push(b'\r');
        }
        self.push(b'\n');
    }

    fn byte(&mut self, byte: u8, delimiter: u8) -> std::result::Result<(), &'static str> {
        self.state = match (self.state, byte) {
            (State::Quoted, b'"') => State::QuoteSeen,
            (State::Quoted, _) => {
                self.push(byte);
                State::Quoted
            }
            (State::QuoteSeen, b'"') => {
                self.push(byte);
                State::Quoted
            }
            (_, byte) if byte == delimiter => {
                if self.fault.is_none() {
                    self.fields.push(Vec::new());
                }
                State::FieldStart
            }
            (State::QuoteSeen, _) => {
                self.state = State::Broken;
                return Err("a quoted field goes on behind its quote");
            }
            (State::FieldStart | State::Broken, b'"') => State::Quoted,
            (State::Broken, _) => State::Broken,
            (State::Bare, b'"') => return Err("a quote inside a field that is not quoted"),
            (State::FieldStart | State::Bare, _) => {
                self.push(byte);
                State::Bare
            }
        };
        Ok(())
    }

    fn push(&mut self, byte: u8) {
        if let Some(field) = self.fields.last_mut() {
            field.push(byte);
        }
    }
}

/// The next record's fields, and the number of its first line; or what stands in their place.
type Fields = std::result::Result<(Vec<Vec<u8>>, u64), Next>;

/// The next pair; blank lines are passed over.
pub(crate) fn next<R: BufRead>(lines: &mut Lines<R>, options: &ReadOptions) -> Result<Next> {
    Ok(match fields(lines, options)? {
        Ok((fields, first)) => pair(fields, options, first),
        Err(next) => next,
    })
}

/// Passes over a record, whatever is wrong with it, unless it may have taken pairs along: then that
/// is what stands in its place.
pub(crate) fn skip_header<R: BufRead>(
    lines: &mut Lines<R>,
    options: &ReadOptions,
) -> Result<Option<Next>> {
    Ok(match fields(lines, options)? {
        Err(Next::Malformed(header)) if !header.resumable || lines.number() > header.number => {
            Some(Next::Malformed(header))
        }
        _ => None,
    })
}

fn fields<R: BufRead>(lines: &mut Lines<R>, options: &ReadOptions) -> Result<Fields> {
    let mut parser = Parser::new();
    let mut first = 0;
    loop {
        let number = lines.number() + 1;
        let line = match lines.next_line()? {
            Line::End if first == 0 => return Ok(Err(Next::End)),
            Line::End => {
                let swallowed = number - 1 - first;
                let taken = match swallowed {
                    0 => String::new(),
                    _ => format!(" (the {swallowed} lines after it went into it)"),
                };
                let fault = parser.fault.map_or(String::new(), |(at, reason)| {
                    format!("{}; ", located(reason, at, first))
                });
                let reason =
                    format!("{fault}its quoted field is not closed by the end of the file{taken}");
                return Ok(Err(malformed(first, reason)));
            }
            // Its quotes were not read, and so whether the record goes on behind it.
            Line::TooLong => {
                let reason = format!(
                    "line {number} is longer than {LINE_BYTES_MAX} bytes, and whether what follows \
                     belongs to it cannot be told"
                );
                return Ok(Err(Next::Malformed(Malformed {
                    number: if first == 0 { number } else { first },
                    reason,
                    resumable: false,
                })));
            }
            Line::Bytes(b"") if first == 0 => continue,
            Line::Bytes(line) => line,
        };
        first = if first == 0 { number } else { first };
        if !options.bytes
            && let Err(reason) = check_text(line)
        {
            parser.fail(number, format!("{reason}; use --bytes to take any bytes"));
        }
        let complete = parser.line(number, line, options.delimiter);
        match (complete, parser.fault) {
            (true, None) => return Ok(Ok((parser.fields, first))),
            (true, Some((at, reason))) => {
                let end = match number - at {
                    0 => String::new(),
                    _ => format!("; the record ends on line {number}"),
                };
                let reason = located(reason, at, first) + &end;
                return Ok(Err(malformed(first, reason)));
            }
            (false, fault) => {
                parser.fault = fault;
                if parser.bytes > LINE_BYTES_MAX {
                    parser.fail(number, format!("it is longer than {LINE_BYTES_MAX} bytes"));
                }
                parser.line_end(lines.carriage_return());
            }
        }
    }
}

/// What is wrong on line `at` of a record that begins on line `first`.
fn located(reason: String, at: u64, first: u64) -> String {
    match at - first {
        0 => reason,
        _ => format!("{reason} of line {at}, where the record still went on"),
    }
}

fn pair(fields: Vec<Vec<u8>>, options: &ReadOptions, first: u64) -> Next {
    let (key, mut rest) = match options.columns.pick(fields) {
        Ok(picked) => picked,
        Err(reason) => return malformed(first, reason),
    };
    let value = match rest.len() {
        0 => Vec::new(),
        1 => rest.swap_remove(0),
        _ => join(&rest, options.delimiter),
    };
    Next::Record(Record {
        key,
        value,
        expires_at_ms: None,
    })
}

fn join(fields: &[Vec<u8>], delimiter: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.push(delimiter);
        }
        quote(field, delimiter, false, &mut out);
    }
    out
}

/// Appends a field, in quotes if it needs them or `always`.
fn quote(field: &[u8], delimiter: u8, always: bool, out: &mut Vec<u8>) {
    let special = |byte: &u8| matches!(byte, b'"' | b'\n' | b'\r') || *byte == delimiter;
    if !always && !field.iter().any(special) {
        out.extend_from_slice(field);
        return;
    }
    out.push(b'"');
    for &byte in field {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Writes a record: a pair, or a key alone.
pub(crate) fn write(
    out: &mut impl Write,
    fields: &[&[u8]],
    delimiter: u8,
    bytes: bool,
) -> std::result::Result<(), WriteError> {
    let mut line = Vec::with_capacity(fields.iter().map(|field| field.len() + 4).sum());
    for (index, &field) in fields.iter().enumerate() {
        let fit = if bytes { Ok(()) } else { check_text(field) };
        if let Err(reason) = fit {
            let reason = format!("{reason}, and csv carries text");
            return Err(WriteError::Unfit(reason));
        }
        if index > 0 {
            line.push(delimiter);
        }
        // Unquoted at the beginning of a file, a byte order mark would be taken off.
        let begins_with_mark = index == 0 && field.starts_with(BYTE_ORDER_MARK);
        // Unquoted, it would be a blank line, which is passed over.
        let is_line = fields.len() == 1 && field.is_empty();
        quote(field, delimiter, begins_with_mark || is_line, &mut line);
    }
    line.push(b'\n');
    out.write_all(&line)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::columns::Columns;
    use crate::record::{Format, Reader};
    use std::path::Path;

    fn options() -> ReadOptions {
        ReadOptions {
            format: Format::Csv,
            columns: Columns::default(),
            delimiter: b',',
            header: false,
            bytes: false,
        }
    }

    fn read(text: impl AsRef<[u8]>) -> Vec<Next> {
        let mut reader = Reader::new(text.as_ref(), Path::new("x"), options());
        let mut all = Vec::new();
        loop {
            match reader.next().unwrap() {
                Next::End => return all,
                next => all.push(next),
            }
        }
    }

    fn record(key: &str, value: &str) -> Next {
        Next::Record(Record {
            key: key.into(),
            value: value.into(),
            expires_at_ms: None,
        })
    }

    #[test]
    fn quoted_fields_hold_delimiters_quotes_and_line_ends() {
        let text = "a,1\r\n\"b,c\",\"say \"\"hi\"\"\"\n\nd,\"x\r\n\ny\"\r\ne\nf,\"\"";
        let expected = [
            record("a", "1"),
            record("b,c", "say \"hi\""),
            record("d", "x\r\n\ny"),
            record("e", ""),
            record("f", ""),
        ];
        assert_eq!(read(text), expected);
    }

    #[test]
    fn further_columns_are_kept_as_csv() {
        assert_eq!(read("a,1,\"2,3\"\n"), [record("a", "1,\"2,3\"")]);
    }

    #[test]
    fn a_misplaced_quote_costs_one_line_and_is_reported_with_its_place() {
        let found = read("a,5\" pipe\nb,\"x\"y\nc,1\n");
        let number = |n, reason| malformed(n, reason);
        let expected = [
            number(1, "a quote inside a field that is not quoted at byte 4"),
            number(2, "a quoted field goes on behind its quote at byte 6"),
            record("c", "1"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_cut_off_within_quotes_is_noticed() {
        let found = read("a,1\nb,\"x\ny\nz");
        let reason = "its quoted field is not closed by the end of the file \
                      (the 2 lines after it went into it)";
        assert_eq!(found, [record("a", "1"), malformed(2, reason)]);
    }

    #[test]
    fn what_is_left_of_a_malformed_record_is_no_record() {
        let utf8 = "invalid UTF-8 (byte 0xff) at byte";
        let advice = "use --bytes to take any bytes";
        for (record_of_line_2, reason) in [
            (
                &b"b,\"x\xff\nc,2\ny\""[..],
                format!("{utf8} 5; {advice}; the record ends on line 4"),
            ),
            (
                b"b,\"x\nc\xff,\"\"2\"\"\nd,3\n\"",
                format!(
                    "{utf8} 2; {advice} of line 3, where the record still went on; the record \
                     ends on line 5"
                ),
            ),
            (
                b"b,5\" pipe,\"x\nc,2\n\"",
                "a quote inside a field that is not quoted at byte 4; the record ends on line 4"
                    .to_owned(),
            ),
            (
                b"b,\"say \"hi\" there\nc,2\nall\"",
                "a quoted field goes on behind its quote at byte 9; the record ends on line 4"
                    .to_owned(),
            ),
        ] {
            let file = [b"a,1\n", record_of_line_2, b"\nz,9\n"].concat();
            let expected = [record("a", "1"), malformed(2, reason), record("z", "9")];
            assert_eq!(read(file), expected);
        }
    }

    #[test]
    fn a_malformed_record_that_the_file_cuts_off_is_one() {
        let found = read(b"a,1\nb,\"\xff\nc,2\nd,3");
        let reason = "invalid UTF-8 (byte 0xff) at byte 4; use --bytes to take any bytes; its \
                      quoted field is not closed by the end of the file (the 2 lines after it went \
                      into it)";
        assert_eq!(found, [record("a", "1"), malformed(2, reason)]);
    }

    /// Its quotes were not read: what follows may be a part of it.
    #[test]
    fn behind_a_line_that_is_too_long_nothing_is_read() {
        for text in [
            "a,\"x\nlong and longer\nc,2\n",
            "a,\"long and longer\nc,2\n",
        ] {
            let mut lines = Lines::new(text.as_bytes(), Path::new("x"), true).limited(12);
            let Next::Malformed(found) = next(&mut lines, &options()).unwrap() else {
                panic!("{text:?} is read");
            };
            assert_eq!(
                (found.number, found.resumable),
                (1, false),
                "{}",
                found.reason
            );
        }
    }
}
