//! Claims about all formats.
//!
//! Each format beside its code has tests of its own.

use super::*;
use crate::record::columns::Columns;
use crate::record::line::LINE_BYTES_MAX;
use velella::limits;

fn options(format: Format) -> ReadOptions {
    ReadOptions {
        format,
        columns: Columns::default(),
        delimiter: b',',
        header: false,
        bytes: false,
    }
}

fn read(bytes: &[u8], options: ReadOptions) -> (Vec<Record>, Vec<Malformed>) {
    let mut reader = Reader::new(bytes, Path::new("x"), options);
    let (mut records, mut malformed) = (Vec::new(), Vec::new());
    loop {
        match reader.next().unwrap() {
            Next::Record(record) => records.push(record),
            Next::Malformed(found) => malformed.push(found),
            Next::End => return (records, malformed),
        }
    }
}

fn record(key: &[u8], value: &[u8]) -> Record {
    Record {
        key: key.into(),
        value: value.into(),
        expires_at_ms: None,
    }
}

fn written(format: Format, bytes: bool, records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, format, bytes, b',');
    writer.begin(false).unwrap();
    for Record {
        key,
        value,
        expires_at_ms,
    } in records
    {
        writer.write(key, value, *expires_at_ms).unwrap();
    }
    writer.end().unwrap();
    out
}

fn texts() -> Vec<Record> {
    vec![
        record(b"", b""),
        record(b"", b"value of the empty key"),
        record(b"a", b""),
        record(b"tab\there", b"line\nfeed, \"quoted\", comma"),
        record(b"back\\slash", b"C:\\new\\table \\x41"),
        record(b"\r", b"\r\n\r\n"),
        record("ключ".as_bytes(), "日本語 ✓".as_bytes()),
        record("\u{feff}".as_bytes(), "\u{feff}".as_bytes()),
        record(b"\0\x1b[2J", b"{\"base64\":\"AA==\"}"),
    ]
}

fn binaries() -> Vec<Record> {
    let all: Vec<u8> = (0..=255).collect();
    vec![
        record(b"\xff\xfe", &all),
        record(&all, b"\xc3"),
        record(b"\xc3\n\t", b"\xf0\x9f"),
    ]
}

#[test]
fn every_format_reads_back_what_it_wrote() {
    for format in [Format::Tsv, Format::Csv, Format::Jsonl, Format::Raw] {
        let mut records = texts();
        if format != Format::Csv {
            records.extend(binaries());
        }
        let bytes = written(format, false, &records);
        assert_eq!(
            read(&bytes, options(format)),
            (records, vec![]),
            "{format:?}"
        );
    }
}

/// The longest pair of each byte, foretold from a short one: some lines would have gigabytes.
#[test]
fn no_pair_makes_a_line_longer_than_is_read() {
    let longest = limits::KEY_BYTES_MAX + limits::VALUE_BYTES_MAX;
    for format in [Format::Tsv, Format::Csv, Format::Jsonl] {
        let line = |value: Vec<u8>| {
            let mut record = record(b"", &value);
            record.expires_at_ms = Some(u64::MAX);
            written(format, format == Format::Csv, &[record]).len()
        };
        for byte in 0..=255u8 {
            let around = line(vec![]);
            // What quotes a value, and what pads it, is around it once.
            let per_byte = (line(vec![byte; 120]) - around).div_ceil(120);
            let foretold = around + 64 + per_byte * longest;
            assert!(
                foretold <= LINE_BYTES_MAX,
                "{format:?} {byte:#04x}: {foretold}"
            );
        }
    }
}

#[test]
fn csv_carries_any_bytes_when_asked_to() {
    let records = [texts(), binaries()].concat();
    let bytes = written(Format::Csv, true, &records);
    let options = ReadOptions {
        bytes: true,
        ..options(Format::Csv)
    };
    assert_eq!(read(&bytes, options), (records, vec![]));
}

#[test]
fn a_pair_that_a_format_cannot_carry_is_refused() {
    let mut out = Vec::new();
    let mut csv = Writer::new(&mut out, Format::Csv, false, b',');
    assert!(matches!(
        csv.write(b"a", b"\xff", None),
        Err(WriteError::Unfit(_))
    ));
    let mut tsv = Writer::new(&mut out, Format::Tsv, true, b',');
    assert!(matches!(
        tsv.write(b"a\t", b"", None),
        Err(WriteError::Unfit(_))
    ));
    assert!(matches!(
        tsv.write(b"a", b"\n", None),
        Err(WriteError::Unfit(_))
    ));
    assert!(tsv.write(b"a\\", b"b\tc\xff", None).is_ok());
    assert_eq!(out, b"a\\\tb\tc\xff\n");
}

#[test]
fn a_byte_order_mark_that_begins_the_first_key_survives() {
    for format in [Format::Tsv, Format::Csv, Format::Jsonl, Format::Raw] {
        for bytes in [false, true] {
            let records = [record("\u{feff}a".as_bytes(), b"b")];
            let file = written(format, bytes, &records);
            let options = ReadOptions {
                bytes,
                ..options(format)
            };
            assert_eq!(read(&file, options).0, records, "{format:?}, bytes {bytes}");
        }
    }
}

#[test]
fn expiry_times_survive_where_the_format_carries_them() {
    let expiring = Record {
        expires_at_ms: Some(1_700_000_000_000),
        ..record(b"a", b"1")
    };
    for format in [Format::Jsonl, Format::Raw] {
        assert!(format.carries_expiry());
        let records = std::slice::from_ref(&expiring);
        let bytes = written(format, false, records);
        assert_eq!(read(&bytes, options(format)).0, records);
    }
}

#[test]
fn a_word_list_is_a_file_of_pairs_with_empty_values() {
    let (records, malformed) = read(b"apple\n\nbanana\r\ncherry", options(Format::Tsv));
    let expected = [
        record(b"apple", b""),
        record(b"banana", b""),
        record(b"cherry", b""),
    ];
    assert_eq!(
        (records.as_slice(), malformed.as_slice()),
        (&expected[..], &[][..])
    );
}

#[test]
fn a_value_of_several_columns_keeps_the_tabs_between_them() {
    for (key, expected) in [
        (1, record(b"a", b"b\t\tc\td")),
        (2, record(b"b", b"a\t\tc\td")),
        (5, record(b"d", b"a\tb\t\tc")),
    ] {
        let columns = Columns { key, value: None };
        for bytes in [false, true] {
            let options = ReadOptions {
                columns,
                bytes,
                ..options(Format::Tsv)
            };
            let (records, malformed) = read(b"a\tb\t\tc\td\n", options);
            assert_eq!(
                (&records[..], malformed.len()),
                (&[expected.clone()][..], 0)
            );
        }
    }
}

#[test]
fn a_header_is_passed_over_and_columns_are_chosen() {
    let columns = Columns {
        key: 2,
        value: Some(1),
    };
    let options = ReadOptions {
        header: true,
        columns,
        ..options(Format::Tsv)
    };
    let (records, malformed) = read(b"name\tid\nAda\t1\nBob\n", options);
    assert_eq!(records, [record(b"1", b"Ada")]);
    assert_eq!(malformed[0].number, 3);
    assert_eq!(
        malformed[0].reason,
        "it has 1 column, but column 2 is asked for"
    );
}

#[test]
fn malformed_lines_are_reported_by_number_and_reason_and_the_rest_is_read() {
    let (records, malformed) = read(b"a\t1\nb\xff\t2\nc\\q\t3\nd\t4\n", options(Format::Tsv));
    assert_eq!(records, [record(b"a", b"1"), record(b"d", b"4")]);
    assert_eq!(malformed[0].number, 2);
    assert!(
        malformed[0]
            .reason
            .starts_with("invalid UTF-8 (byte 0xff) at byte 2")
    );
    assert_eq!(malformed[1].number, 3);
    assert!(
        malformed[1]
            .reason
            .starts_with("`\\q` at byte 2 is no escape")
    );

    let lines: [&[u8]; 9] = [
        b"{\"key\":\"a\",\"value\":\"1\"}",
        b"{\"key\":\"b\"}",
        b"{\"key\":\"c\",\"value\":3}",
        b"{\"key\":\"d\",\"value\":\"4\",\"note\":\"\"}",
        b"{\"key\":{\"base64\":\"*\"},\"value\":\"\"}",
        b"{\"key\":\"\xff\",\"value\":\"\"}",
        b"{\"key\":{},\"value\":\"\"}",
        b"[\"key\"] x",
        b"{\"key\":\"z\",\"val",
    ];
    let (records, malformed) = read(&lines.join(&b'\n'), options(Format::Jsonl));
    assert_eq!(records, [record(b"a", b"1")]);
    let numbers: Vec<u64> = malformed.iter().map(|found| found.number).collect();
    assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(malformed[0].reason, "missing field `value` at byte 11");
    assert_eq!(
        malformed[7].reason,
        "the line ends in the middle of a JSON value"
    );
    assert!(
        malformed
            .iter()
            .all(|found| !found.reason.contains("line 1"))
    );
}

#[test]
fn an_array_is_no_pair_of_jsonl() {
    let lines = [
        "[\"k\",\"v\",null]",
        " [\"k\",\"v\",1]",
        "[{\"key\":\"k\",\"value\":\"v\"}]",
        "[",
        "7",
    ];
    let (records, malformed) = read(lines.join("\n").as_bytes(), options(Format::Jsonl));
    assert_eq!(records, []);
    let reasons: Vec<_> = malformed.iter().map(|found| &*found.reason).collect();
    let (arrays, scalar) = reasons.split_at(4);
    assert_eq!(arrays, ["a JSON array is no pair; one object a line"; 4]);
    assert!(scalar[0].contains("expected a JSON object"), "{scalar:?}");
}

#[test]
fn any_bytes_are_read_without_a_panic_in_every_format() {
    let mut seed = 1_u64;
    for round in 0..400 {
        let bytes: Vec<u8> = (0..200)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b"\"\\,\t\n\r{}:axt\xff\xc3\xa9\0"[usize::try_from(seed >> 60).unwrap() % 16]
            })
            .collect();
        for format in [Format::Tsv, Format::Csv, Format::Jsonl, Format::Raw] {
            let prefix = if format == Format::Raw && round % 2 == 0 {
                "VELPAIR1"
            } else {
                ""
            };
            read(&[prefix.as_bytes(), &bytes].concat(), options(format));
        }
    }
}

#[test]
fn a_header_of_csv_is_a_record_and_not_a_line() {
    let options = ReadOptions {
        header: true,
        ..options(Format::Csv)
    };
    for header in [
        "key,value\n",
        "key,\"the\nvalue\"\n",
        "\"a\"b,5\" pipe\n",
        "\n\nkey\n",
    ] {
        let file = format!("{header}a,1\n");
        let (records, malformed) = read(file.as_bytes(), options.clone());
        assert_eq!(
            (records, malformed),
            (vec![record(b"a", b"1")], vec![]),
            "{header}"
        );
    }
    // The pairs that a quote took along are missed.
    let (records, malformed) = read(b"key,\"value\na,1\n", options);
    assert_eq!(records, []);
    assert!(malformed[0].reason.contains("not closed"), "{malformed:?}");
}
