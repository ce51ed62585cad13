//! What every command prints through: standard output, buffered, as text or as JSON.
//!
//! Results go to standard output; notes, progress and errors to standard error. With `--json`
//! every result is one JSON document on one line, or one line for each pair.
//!
//! U1. Bytes in JSON are a string where they are UTF-8, else `{"base64": "..."}`.
//! U2. A result that nobody reads is given up quietly, and the command goes on to what it has to
//!     say about itself: its exit code tells of what it did, not of who listened.
//!
//! Tests: below, and `tests/`.

use crate::failure::{Failure, say};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use std::io::{self, BufWriter, IsTerminal, Write};

/// The way out of one command.
pub(crate) struct Output {
    /// Whether `--json` was given.
    pub(crate) json: bool,
    /// Standard output.
    pub(crate) out: BufWriter<io::Stdout>,
}

impl Output {
    /// Standard output, for text or JSON.
    pub(crate) fn new(json: bool) -> Self {
        Output {
            json,
            out: BufWriter::with_capacity(64 << 10, io::stdout()),
        }
    }

    /// Prints `result` as JSON, or lets `text` print it for people (U2).
    pub(crate) fn result<T: Serialize>(
        &mut self,
        result: &T,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let printed = if self.json {
            write_json(&mut self.out, result)
        } else {
            text(&mut self.out)
        };
        match printed
            .and_then(|()| self.out.flush())
            .map_err(Failure::from)
        {
            Err(Failure::ReaderGone) => Ok(()),
            done => done,
        }
    }

    /// Tells a person something beside the result; silent with `--json`.
    pub(crate) fn note(&self, line: &str) {
        if !self.json {
            say(line);
        }
    }

    /// Whether a person looks at the output.
    pub(crate) fn is_terminal() -> bool {
        io::stdout().is_terminal()
    }
}

/// Writes a JSON document and a line feed.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// Bytes, serialized by rule U1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonBytes<'a>(pub(crate) &'a [u8]);

impl Serialize for JsonBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Encoded {
            base64: String,
        }
        match std::str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Encoded {
                base64: STANDARD.encode(self.0),
            }
            .serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_a_string_where_they_can_be() {
        let mut out = Vec::new();
        write_json(&mut out, &[JsonBytes(b"a\x00\xc3\xa9"), JsonBytes(b"\xff")]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "[\"a\\u0000é\",{\"base64\":\"/w==\"}]\n");
    }
}
