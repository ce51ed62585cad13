//! `csv`: comma-separated values, quoted as in RFC 4180.
//!
//! Strict, so that a damaged file is noticed where it is damaged: a quote only at the beginning of
//! a field, doubled inside, followed by a delimiter or the line's end. A quoted field may span
//! lines.
//! The text must be UTF-8 unless `--bytes` is given. A parser that forgives (as the usual crates
//! are) would take the rest of a file cut off within quotes for one value.
//!
//! Tests: below and `super::tests`.

use super::line::{BYTE_ORDER_MARK, LINE_BYTES_MAX, Line, Lines, check_text, malformed, too_long};
use super::{Next, ReadOptions, Record, WriteError};
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
}

/// A record being read.
#[derive(Debug)]
struct Parser {
    state: State,
    fields: Vec<Vec<u8>>,
    bytes: usize,
}

impl Parser {
    fn new() -> Self {
        Parser {
            state: State::FieldStart,
            fields: vec![Vec::new()],
            bytes: 0,
        }
    }

    /// Takes a line, without its end; whether the record is complete.
    fn line(&mut self, line: &[u8], delimiter: u8) -> std::result::Result<bool, String> {
        self.bytes += line.len() + 1;
        for (index, &byte) in line.iter().enumerate() {
            self.byte(byte, delimiter)
                .map_err(|what| format!("{what} at byte {}", index + 1))?;
        }
        Ok(self.state != State::Quoted)
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
                self.fields.push(Vec::new());
                State::FieldStart
            }
            (State::QuoteSeen, _) => return Err("a quoted field goes on behind its quote"),
            (State::FieldStart, b'"') => State::Quoted,
            (_, b'"') => return Err("a quote inside a field that is not quoted"),
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

/// The next pair; blank lines are passed over.
pub(crate) fn next<R: BufRead>(lines: &mut Lines<R>, options: &ReadOptions) -> Result<Next> {
    let mut parser = Parser::new();
    let mut first = 0;
    loop {
        let number = lines.number() + 1;
        let line = match lines.next_line()? {
            Line::End if first == 0 => return Ok(Next::End),
            Line::End => {
                let swallowed = number - 1 - first;
                let taken = match swallowed {
                    0 => String::new(),
                    _ => format!(" (the {swallowed} lines after it went into it)"),
                };
                let reason =
                    format!("its quoted field is not closed by the end of the file{taken}");
                return Ok(malformed(first, reason));
            }
            Line::TooLong => return Ok(too_long(number)),
            Line::Bytes(b"") if first == 0 => continue,
            Line::Bytes(line) => line,
        };
        first = if first == 0 { number } else { first };
        let checked = if options.bytes {
            Ok(())
        } else {
            check_text(line)
        };
        let complete = checked
            .map_err(|reason| format!("{reason}; use --bytes to take any bytes"))
            .and_then(|()| parser.line(line, options.delimiter));
        match complete {
            Err(reason) if number == first => return Ok(malformed(first, reason)),
            Err(reason) => {
                let reason = format!("{reason} of line {number}, where the record still went on");
                return Ok(malformed(first, reason));
            }
            Ok(false) if parser.bytes > LINE_BYTES_MAX => return Ok(too_long(first)),
            Ok(false) => parser.line_end(lines.carriage_return()),
            Ok(true) => return Ok(pair(parser, options, first)),
        }
    }
}

fn pair(parser: Parser, options: &ReadOptions, first: u64) -> Next {
    let (key, mut rest) = match options.columns.pick(parser.fields) {
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

/// Writes a pair.
pub(crate) fn write(
    out: &mut impl Write,
    fields: [&[u8]; 2],
    delimiter: u8,
    bytes: bool,
) -> std::result::Result<(), WriteError> {
    let mut line = Vec::with_capacity(fields[0].len() + fields[1].len() + 8);
    for (index, field) in fields.into_iter().enumerate() {
        let fit = if bytes { Ok(()) } else { check_text(field) };
        if let Err(reason) = fit {
            let advice = "csv carries text: use --format tsv, jsonl or raw, or --bytes";
            return Err(WriteError::Unfit(format!("{reason}; {advice}")));
        }
        if index > 0 {
            line.push(delimiter);
        }
        // Unquoted at the beginning of a file, a byte order mark would be taken off.
        let begins_with_mark = index == 0 && field.starts_with(BYTE_ORDER_MARK);
        quote(field, delimiter, begins_with_mark, &mut line);
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

    fn read(text: &str) -> Vec<Next> {
        let options = ReadOptions {
            format: Format::Csv,
            columns: Columns::default(),
            delimiter: b',',
            header: false,
            bytes: false,
        };
        let mut reader = Reader::new(text.as_bytes(), Path::new("x"), options);
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
}
