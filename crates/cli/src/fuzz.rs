//! Properties of what reads files and arguments, as functions of bytes: for the fuzzers.
//!
//! F1. What is read can be written, in every format that carries it, and is read again the same.
//! F2. A reader ends: each answer but the end takes at least a byte.
//! F3. Escapes, sizes and times mean the same however often they are printed and read.
//!
//! Threads: any. Tests: `crates/reliability/tests/corpus.rs` replays the corpus.

use crate::human::{parse_bytes, parse_duration};
use crate::record::columns::Columns;
use crate::record::{Format, Next, ReadOptions, Reader, Record, WriteError, Writer};
use crate::text::{escape, to_hex, unescape};
use std::path::Path;

const FORMATS: [Format; 4] = [Format::Tsv, Format::Csv, Format::Jsonl, Format::Raw];

/// A file behind four bytes: format, flags, delimiter, columns.
pub fn records(bytes: &[u8]) {
    let Some((&[format, flags, delimiter, columns], file)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let options = ReadOptions {
        format: FORMATS[usize::from(format % 4)],
        columns: Columns {
            key: usize::from(columns & 3) + usize::from(columns & 3 == 0),
            value: Some(usize::from(columns >> 2 & 3)).filter(|value| *value > 0),
        },
        // As on the command line: an ASCII character that means nothing else.
        delimiter: match delimiter & 0x7f {
            b'"' | b'\n' | b'\r' => b',',
            other => other,
        },
        header: flags & 1 == 1,
        bytes: flags & 2 == 2,
    };
    let (records, whole) = read(file, &options);
    for format in FORMATS {
        for bytes in [false, true] {
            rewritten(&records, format, bytes, options.delimiter);
        }
    }
    // Truncated, a raw file is never taken for whole.
    if options.format == Format::Raw && whole && !file.is_empty() {
        let (_, whole) = read(&file[..file.len() - 1], &options);
        assert!(!whole, "a raw file without its last byte");
    }
}

/// All records, and whether everything was one.
fn read(file: &[u8], options: &ReadOptions) -> (Vec<Record>, bool) {
    let mut reader = Reader::new(file, Path::new("x"), options.clone());
    let (mut records, mut whole, mut position) = (Vec::new(), true, 0);
    loop {
        let next = reader.next().expect("a slice can be read");
        let ended = matches!(&next, Next::End);
        match next {
            Next::Record(record) => {
                // Joined columns may gain two quotes each.
                let taken = record.key.len() + record.value.len();
                assert!(taken <= 3 * file.len(), "F1: from nothing");
                records.push(record);
            }
            Next::Malformed(malformed) => {
                whole = false;
                assert!(!malformed.reason.is_empty() && malformed.number > 0);
                if !malformed.resumable {
                    return (records, false);
                }
            }
            Next::End => {}
        }
        assert!(ended || reader.position() > position, "F2");
        assert!(reader.position() <= file.len() as u64);
        position = reader.position();
        if ended {
            return (records, whole);
        }
    }
}

/// F1 for one way to write.
fn rewritten(records: &[Record], format: Format, bytes: bool, delimiter: u8) {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, format, bytes, delimiter);
    let mut written = Vec::new();
    writer.begin(false).expect("a vector can be written");
    for record in records {
        match writer.write(&record.key, &record.value, record.expires_at_ms) {
            Ok(()) => written.push(Record {
                expires_at_ms: record
                    .expires_at_ms
                    .filter(|at| format.carries_expiry() && (*at != 0 || format != Format::Raw)),
                ..record.clone()
            }),
            Err(WriteError::Unfit(reason)) => assert!(!reason.is_empty()),
            Err(WriteError::Io(error)) => panic!("a vector can be written: {error}"),
        }
    }
    writer.end().expect("a vector can be written");
    let options = ReadOptions {
        format,
        columns: Columns::default(),
        delimiter,
        header: false,
        bytes,
    };
    let (again, whole) = read(&file, &options);
    let shown = escape(&file);
    assert!(whole, "F1: {format:?}, bytes {bytes}: {shown}");
    assert_eq!(again, written, "F1: {format:?}, bytes {bytes}: {shown}");
}

/// The text of an argument: escapes, sizes, times.
pub fn text(bytes: &[u8]) {
    let line = escape(bytes);
    assert!(!line.contains(char::is_control), "F3: {line:?}");
    assert_eq!(unescape(line.as_bytes()).as_deref(), Ok(bytes), "F3");
    assert_eq!(to_hex(bytes).len(), bytes.len() * 2);
    if let Ok(meant) = unescape(bytes) {
        assert!(meant.len() <= bytes.len());
        assert_eq!(unescape(escape(&meant).as_bytes()), Ok(meant), "F3");
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(size) = parse_bytes(text) {
        assert_eq!(parse_bytes(&size.to_string()), Ok(size), "F3");
    }
    if let Ok(time) = parse_duration(text) {
        assert_eq!(
            parse_duration(&format!("{}us", time.as_micros())),
            Ok(time),
            "F3"
        );
    }
}
