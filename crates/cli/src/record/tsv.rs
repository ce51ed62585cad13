//! `tsv`: key, tab, value; one pair a line.
//!
//! Bytes that are not text are escaped (`crate::text`), so a tab or a line feed in a key is no
//! separator. With `--bytes` there are no escapes: lines are taken and given as they are, and a
//! pair that holds a separator cannot be written.
//!
//! Tests: `super::tests`.

use super::line::{Line, Lines, check_text, malformed, too_long};
use super::{Next, ReadOptions, Record, WriteError};
use crate::text::{escape, unescape};
use std::io::{BufRead, Write};
use velella::Result;

/// The next pair; blank lines are passed over.
pub(crate) fn next<R: BufRead>(lines: &mut Lines<R>, options: &ReadOptions) -> Result<Next> {
    loop {
        let parsed = match lines.next_line()? {
            Line::End => return Ok(Next::End),
            Line::TooLong => return Ok(too_long(lines.number())),
            Line::Bytes(b"") => continue,
            Line::Bytes(line) => parse(line, options),
        };
        return Ok(parsed.map_or_else(|reason| malformed(lines.number(), reason), Next::Record));
    }
}

fn parse(line: &[u8], options: &ReadOptions) -> std::result::Result<Record, String> {
    let decode = |column: &[u8]| match options.bytes {
        true => Ok(column.to_vec()),
        false => unescape(column)
            .map_err(|reason| format!("{reason}; use --bytes if backslashes stand for themselves")),
    };
    if !options.bytes {
        check_text(line).map_err(|reason| format!("{reason}; use --bytes to take any bytes"))?;
    }
    let columns = options.columns;
    let (mut found, mut key, mut value) = (0, Vec::new(), None::<Vec<u8>>);
    // One by one: a line may be nothing but tabs, and each column in a list would take many times
    // the one byte that it is.
    for column in line.split(|byte| *byte == b'\t') {
        found += 1;
        if found == columns.key {
            key = decode(column)?;
        } else if columns.has_value_in(found) {
            let column = decode(column)?;
            match &mut value {
                Some(value) => {
                    value.push(b'\t');
                    value.extend_from_slice(&column);
                }
                None => value = Some(column),
            }
        }
    }
    columns.check(found)?;
    Ok(Record {
        key,
        value: value.unwrap_or_default(),
        expires_at_ms: None,
    })
}

/// Writes a pair.
pub(crate) fn write(
    out: &mut impl Write,
    key: &[u8],
    value: &[u8],
    bytes: bool,
) -> std::result::Result<(), WriteError> {
    if !bytes {
        writeln!(out, "{}\t{}", escape(key), escape(value))?;
        return Ok(());
    }
    if key.iter().any(|byte| b"\t\n".contains(byte)) || value.contains(&b'\n') {
        let reason = "it holds a tab or a line feed, which tsv with --bytes cannot carry";
        return Err(WriteError::Unfit(reason.to_owned()));
    }
    for part in [key, b"\t", value, b"\n"] {
        out.write_all(part)?;
    }
    Ok(())
}
