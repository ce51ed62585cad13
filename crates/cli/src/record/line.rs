//! Lines of a file, numbered, each in bounded memory.
//!
//! N1. A line is at most `LINE_BYTES_MAX` long; a longer one is passed over and reported.
//!     What a writer makes of any pair is shorter.
//! N2. `position` counts every byte consumed, so that progress is exact.
//!
//! Tests: below.

use super::{Malformed, Next};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use velella::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use velella::{Error, Result};

/// Longest line, and longest CSV record: no writer makes a longer one. The longest are of JSON,
/// where a byte may take six characters, such as `\u0000`; 1 KiB is for what stands around them.
pub(crate) const LINE_BYTES_MAX: usize = 6 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) + (1 << 10);

pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The lines of a source.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: R,
    name: PathBuf,
    /// Whether line ends and byte order marks are those of text.
    text: bool,
    buffer: Vec<u8>,
    number: u64,
    position: u64,
    terminated: bool,
    carriage_return: bool,
    bytes_max: usize,
}

/// What stands on a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Its bytes, without its end.
    Bytes(&'a [u8]),
    /// It is too long; it was passed over.
    TooLong,
    /// There is none.
    End,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `source`; `name` is for errors.
    pub(crate) fn new(source: R, name: &Path, text: bool) -> Self {
        Lines {
            source,
            name: name.to_path_buf(),
            text,
            buffer: Vec::new(),
            number: 0,
            position: 0,
            terminated: true,
            carriage_return: false,
            bytes_max: LINE_BYTES_MAX,
        }
    }

    /// The next line.
    ///
    /// # Errors
    /// The source cannot be read.
    pub(crate) fn next_line(&mut self) -> Result<Line<'_>> {
        self.buffer.clear();
        let read = (&mut self.source)
            .take(self.bytes_max as u64)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| failed(&self.name, error))?;
        if read == 0 {
            return Ok(Line::End);
        }
        self.number += 1;
        self.position += read as u64;
        self.terminated = self.buffer.last() == Some(&b'\n');
        if !self.terminated && read == self.bytes_max {
            self.skip_rest()?;
            return Ok(Line::TooLong);
        }
        let mut line = self.buffer.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        self.carriage_return = self.text && line.ends_with(b"\r");
        if self.text {
            line = line.strip_suffix(b"\r").unwrap_or(line);
            if self.number == 1 {
                line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
            }
        }
        Ok(Line::Bytes(line))
    }

    fn skip_rest(&mut self) -> Result<()> {
        loop {
            let ahead = match self.source.fill_buf() {
                Ok(ahead) => ahead,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(&self.name, error)),
            };
            let end = ahead.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(ahead.len(), |end| end + 1);
            self.source.consume(taken);
            self.position += taken as u64;
            self.terminated = end.is_some();
            if end.is_some() || taken == 0 {
                return Ok(());
            }
        }
    }

    /// Fills `out` with the next bytes, ignoring lines; how many there were, less than asked for
    /// only at the end of the source.
    pub(crate) fn read_bytes(&mut self, out: &mut Vec<u8>, bytes: u64) -> Result<u64> {
        out.clear();
        let read = (&mut self.source)
            .take(bytes)
            .read_to_end(out)
            .map_err(|error| failed(&self.name, error))?;
        self.position += read as u64;
        Ok(read as u64)
    }

    /// The number of the last line read; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes consumed.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Whether the last line read ended in a carriage return, which was taken off.
    pub(crate) fn carriage_return(&self) -> bool {
        self.carriage_return
    }

    /// Whether the last line read had no line feed.
    pub(crate) fn ends_within_line(&self) -> bool {
        !self.terminated
    }

    #[cfg(test)]
    pub(crate) fn limited(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }
}

fn failed(name: &Path, error: io::Error) -> Error {
    Error::io("read", name, error)
}

/// The answer for a line that makes no sense.
pub(crate) fn malformed(number: u64, reason: impl Into<String>) -> Next {
    Next::Malformed(Malformed {
        number,
        reason: reason.into(),
        resumable: true,
    })
}

/// The answer for a line that is too long.
pub(crate) fn too_long(number: u64) -> Next {
    malformed(number, format!("it is longer than {LINE_BYTES_MAX} bytes"))
}

/// What is wrong with a line that must be text, if something is.
pub(crate) fn check_text(line: &[u8]) -> std::result::Result<(), String> {
    std::str::from_utf8(line).map(drop).map_err(|error| {
        let at = error.valid_up_to();
        format!("invalid UTF-8 (byte {:#04x}) at byte {}", line[at], at + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Lines<&[u8]> {
        Lines::new(bytes, Path::new("x"), true)
    }

    #[test]
    fn lines_come_without_their_ends_and_are_counted() {
        let mut lines = lines(b"\xef\xbb\xbfa\r\n\nb");
        assert_eq!(lines.next_line().unwrap(), Line::Bytes(b"a"));
        assert_eq!(lines.next_line().unwrap(), Line::Bytes(b""));
        assert!(!lines.ends_within_line());
        assert_eq!(lines.next_line().unwrap(), Line::Bytes(b"b"));
        assert_eq!(lines.next_line().unwrap(), Line::End);
        assert!(lines.ends_within_line());
        assert_eq!((lines.number(), lines.position()), (3, 8));
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_in_bounded_memory() {
        let mut lines = lines(b"0123456789\nok\n0123456789").limited(4);
        assert_eq!(lines.next_line().unwrap(), Line::TooLong);
        assert!(lines.buffer.capacity() < 64);
        assert_eq!(lines.next_line().unwrap(), Line::Bytes(b"ok"));
        assert_eq!(lines.next_line().unwrap(), Line::TooLong);
        assert_eq!(lines.next_line().unwrap(), Line::End);
        assert_eq!(lines.position(), 24);
    }

    #[test]
    fn what_is_not_text_is_found_with_its_place() {
        assert_eq!(check_text("é".as_bytes()), Ok(()));
        let reason = check_text(b"ab\xff").unwrap_err();
        assert_eq!(reason, "invalid UTF-8 (byte 0xff) at byte 3");
    }
}
