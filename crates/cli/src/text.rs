//! The escape rule: any bytes as one line of text, and back.
//!
//! As in PostgreSQL's `COPY`: `\t`, `\n`, `\r` and `\\` for themselves, `\xHH` for every other
//! control character, a byte order mark, and every byte that is not part of valid UTF-8. All other
//! text stands as it is, so words in any script stay readable, and nothing that is printed can
//! move a terminal's cursor.
//!
//! T1. `unescape(escape(bytes)) == bytes`, for all bytes.
//!     What is typed may have escapes that only `inspect` prints.
//! T2. Escaped text is valid UTF-8 without control characters: one line, no tab.
//! T3. Nor has a message about bytes that cannot be read any: they came from a file.
//!
//! Tests: below.

use std::fmt::Write;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Bytes as one line of text.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\\' => out.push_str("\\\\"),
                // At the beginning of a file a byte order mark is taken off.
                c if c.is_control() || c == BYTE_ORDER_MARK => {
                    escape_bytes(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut out)
                }
                c => out.push(c),
            }
        }
        escape_bytes(chunk.invalid(), &mut out);
    }
    out
}

/// As `escape`, with white space at the end escaped, which nobody would see, and who pads or trims
/// the line would change.
pub(crate) fn escape_to_its_end(bytes: &[u8]) -> String {
    let mut out = escape(bytes);
    let Some(last) = out.chars().next_back().filter(|c| c.is_whitespace()) else {
        return out;
    };
    out.pop();
    escape_bytes(last.encode_utf8(&mut [0; 4]).as_bytes(), &mut out);
    out
}

fn escape_bytes(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\x{byte:02x}");
    }
}

/// The bytes that `text` stands for.
///
/// # Errors
/// The first backslash that begins no escape, and where it stands.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    read(text, b"")
}

/// As `unescape`, of what somebody types: with `\'` and `\"` for themselves, since `inspect` prints
/// keys as Rust's `escape_ascii` does.
///
/// # Errors
/// As `unescape`.
pub(crate) fn unescape_typed(text: &[u8]) -> Result<Vec<u8>, String> {
    read(text, b"'\"")
}

/// Reads the escapes of the rule, and a backslash before each of `quotes`.
fn read(text: &[u8], quotes: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte != b'\\' {
            out.push(byte);
            at += 1;
            continue;
        }
        let (byte, taken) = match text.get(at + 1) {
            Some(b't') => (Some(b'\t'), 2),
            Some(b'n') => (Some(b'\n'), 2),
            Some(b'r') => (Some(b'\r'), 2),
            Some(b'\\') => (Some(b'\\'), 2),
            Some(byte) if quotes.contains(byte) => (Some(*byte), 2),
            Some(b'x') => (text.get(at + 2..at + 4).and_then(hex), 4),
            _ => (None, 0),
        };
        let Some(byte) = byte else {
            let end = text.len().min(at + 4);
            // T3. The backslash stands for itself here, as in the text.
            let shown = escape(text.get(at + 1..end).unwrap_or_default());
            return Err(format!("`\\{shown}` at byte {} is no escape", at + 1));
        };
        out.push(byte);
        at += taken;
    }
    Ok(out)
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low] = digits else { return None };
    u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            // Writing to a string cannot fail.
            let _ = write!(out, "{byte:02x}");
            out
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_escaping() {
        let all: Vec<u8> = (0..=255).collect();
        let mixed = [
            b"\xff\xfe\x00 caf\xc3\xa9 \xe2\x82".as_slice(),
            b"\\x41\t\r\n\x1b[2J",
        ];
        for bytes in [
            all.as_slice(),
            mixed[0],
            mixed[1],
            b"",
            "日本語 ✓".as_bytes(),
        ] {
            let line = escape(bytes);
            assert!(!line.contains(char::is_control), "{line:?}");
            assert_eq!(unescape(line.as_bytes()).as_deref(), Ok(bytes), "{line:?}");
        }
    }

    #[test]
    fn text_stays_readable() {
        assert_eq!(escape("naïve ✓".as_bytes()), "naïve ✓");
        assert_eq!(escape(b"a\tb\\c\x00\xff"), "a\\tb\\\\c\\x00\\xff");
        assert_eq!(
            escape("\u{9b}".as_bytes()),
            "\\xc2\\x9b",
            "a control sequence introducer"
        );
        assert_eq!(to_hex(b"\x00\xabz"), "00ab7a");
    }

    #[test]
    fn white_space_at_the_end_is_seen() {
        for (bytes, line) in [
            ("a ", "a\\x20"),
            (" a  ", " a \\x20"),
            (" ", "\\x20"),
            ("a\u{3000}", "a\\xe3\\x80\\x80"),
            ("a\t", "a\\t"),
            (" a b", " a b"),
            ("", ""),
        ] {
            let escaped = escape_to_its_end(bytes.as_bytes());
            assert_eq!(escaped, line);
            assert_eq!(unescape(line.as_bytes()).unwrap(), bytes.as_bytes());
        }
    }

    #[test]
    fn what_escape_ascii_prints_may_be_typed() {
        let all: Vec<u8> = (0..=255).collect();
        let printed = all.escape_ascii().to_string();
        assert_eq!(unescape_typed(printed.as_bytes()), Ok(all));
        for text in ["\\'", "\\\""] {
            assert!(
                unescape(text.as_bytes()).is_err(),
                "in files it is malformed"
            );
        }
    }

    #[test]
    fn a_backslash_that_begins_no_escape_is_refused_with_its_place() {
        for text in ["ab\\", "ab\\q", "ab\\x4", "ab\\xzz", "ab\\x+1"] {
            let error = unescape(text.as_bytes()).unwrap_err();
            assert!(error.contains("at byte 3"), "{text}: {error}");
        }
    }
}
