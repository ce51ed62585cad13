//! `jsonl`: a JSON object on each line.
//!
//! `{"key": K, "value": V}`, perhaps with `"expires_at_ms": N` (milliseconds since 1970). K and V
//! are strings, or `{"base64": "..."}` for bytes that are not UTF-8. Unknown and missing fields are
//! errors: a pair is never taken in part. Nor is an array of these in their order taken for one,
//! as a derived reader would: its third would be an expiry time, and hide the key.
//!
//! Tests: `super::tests`.

use super::line::{Line, Lines, malformed, too_long};
use super::{Next, Record};
use crate::output::{JsonBytes, write_json};
use crate::text;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::io::{self, BufRead, Write};
use velella::Result;

/// Of a message that quotes what it found, as much as anybody reads.
const REASON_CHARS_MAX: usize = 200;

/// The next pair; blank lines are passed over.
pub(crate) fn next<R: BufRead>(lines: &mut Lines<R>) -> Result<Next> {
    loop {
        let parsed = match lines.next_line()? {
            Line::End => return Ok(Next::End),
            Line::TooLong => return Ok(too_long(lines.number())),
            Line::Bytes(line) if line.trim_ascii().is_empty() => continue,
            Line::Bytes(line) if line.trim_ascii_start().starts_with(b"[") => {
                let reason = "a JSON array is no pair; one object a line";
                return Ok(malformed(lines.number(), reason));
            }
            Line::Bytes(line) => serde_json::from_slice::<Read>(line),
        };
        return Ok(match parsed {
            Ok(Read {
                key,
                value,
                expires_at_ms,
            }) => Next::Record(Record {
                key: key.0,
                value: value.0,
                expires_at_ms,
            }),
            Err(error) => malformed(lines.number(), reason(&error)),
        });
    }
}

/// The parser's message, without its own line number, which is always 1. It may quote the line,
/// which came from anywhere: it is escaped, and cut.
fn reason(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "the line ends in the middle of a JSON value".to_owned();
    }
    let message = error.to_string();
    let what = message
        .rfind(" at line ")
        .map_or(message.as_str(), |end| &message[..end]);
    let (what, dots) = match what.char_indices().nth(REASON_CHARS_MAX) {
        Some((cut, _)) => (&what[..cut], "..."),
        None => (what, ""),
    };
    let shown = text::escape(what.as_bytes()) + dots;
    format!("{shown} at byte {}", error.column())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
struct Read {
    key: Bytes,
    value: Bytes,
    expires_at_ms: Option<u64>,
}

struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string or {\"base64\": \"...\"}")
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Bytes, E> {
        Ok(Bytes(text.as_bytes().to_vec()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Bytes, A::Error> {
        let Some((name, encoded)) = map.next_entry::<String, String>()? else {
            return Err(A::Error::custom("an empty object where bytes should be"));
        };
        if name != "base64" || map.next_key::<String>()?.is_some() {
            return Err(A::Error::custom(
                "an object of bytes has the one field `base64`",
            ));
        }
        let bytes = STANDARD.decode(&encoded);
        bytes
            .map(Bytes)
            .map_err(|error| A::Error::custom(format!("bad base64: {error}")))
    }
}

#[derive(Serialize)]
struct Written<'a> {
    key: JsonBytes<'a>,
    value: JsonBytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

/// Writes a pair.
pub(crate) fn write(
    out: &mut impl Write,
    key: &[u8],
    value: &[u8],
    expires_at_ms: Option<u64>,
) -> io::Result<()> {
    write_json(
        out,
        &Written {
            key: JsonBytes(key),
            value: JsonBytes(value),
            expires_at_ms,
        },
    )
}
