//! `raw`: length-prefixed pairs, for programs.
//!
//! ```text
//! file = "VELPAIR1" pair* end
//! pair = key_len: u32, value_len: u32, expires_at_ms: u64 (0: never), key, value
//! end  = 2^32 - 1: u32, pairs: u64                                     all little-endian
//! ```
//!
//! W1. A file that was cut off anywhere, even between two pairs, is noticed: it lacks its end.
//! W2. A length beyond the engine's limits is malformed before any memory is taken for it.
//! W3. After a malformed pair nothing can be read: where the next begins is unknown.
//!
//! Tests: below and `super::tests`.

use super::line::Lines;
use super::{Malformed, Next, Record};
use std::io::{self, BufRead, Write};
use velella::Result;
use velella::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

const MAGIC: &[u8; 8] = b"VELPAIR1";
/// What is wrong with a file that does not begin with it.
pub(crate) const NO_RAW_FILE: &str = "the file does not begin with VELPAIR1: it is no raw file";
const END: u32 = u32::MAX;

/// Whether a file that begins with `start` may be a raw file.
pub(crate) fn may_begin_with(start: &[u8]) -> bool {
    start
        .iter()
        .zip(MAGIC)
        .all(|(found, wanted)| found == wanted)
}

/// Where in the file the reader stands.
#[derive(Debug, Default)]
pub(crate) struct State {
    begun: bool,
    done: bool,
    pairs: u64,
    buffer: Vec<u8>,
}

impl State {
    /// The next pair.
    pub(crate) fn next<R: BufRead>(&mut self, source: &mut Lines<R>) -> Result<Next> {
        if self.done {
            return Ok(Next::End);
        }
        if !std::mem::replace(&mut self.begun, true) && !self.expect_magic(source)? {
            return Ok(self.malformed(NO_RAW_FILE));
        }
        let Some(key_bytes) = self.number::<R, 4>(source)?.map(u32::from_le_bytes) else {
            return Ok(self.malformed("the file is cut off: it lacks its end record"));
        };
        if key_bytes == END {
            return self.end(source);
        }
        let header = self.number::<R, 12>(source)?;
        let Some([v0, v1, v2, v3, expiry @ ..]) = header else {
            return Ok(self.malformed("the file is cut off within this pair's lengths"));
        };
        let key_bytes = u64::from(key_bytes);
        let value_bytes = u64::from(u32::from_le_bytes([v0, v1, v2, v3]));
        if key_bytes > KEY_BYTES_MAX as u64 || value_bytes > VALUE_BYTES_MAX as u64 {
            let reason = format!(
                "lengths {key_bytes} and {value_bytes}, the limits are {KEY_BYTES_MAX} and \
                 {VALUE_BYTES_MAX}"
            );
            return Ok(self.malformed(reason));
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        if source.read_bytes(&mut key, key_bytes)? < key_bytes
            || source.read_bytes(&mut value, value_bytes)? < value_bytes
        {
            return Ok(self.malformed("the file is cut off within this pair"));
        }
        self.pairs += 1;
        let expires_at_ms = Some(u64::from_le_bytes(expiry)).filter(|at| *at != 0);
        Ok(Next::Record(Record {
            key,
            value,
            expires_at_ms,
        }))
    }

    /// Pairs read so far.
    pub(crate) fn pairs(&self) -> u64 {
        self.pairs
    }

    fn end<R: BufRead>(&mut self, source: &mut Lines<R>) -> Result<Next> {
        let Some(said) = self.number::<R, 8>(source)?.map(u64::from_le_bytes) else {
            return Ok(self.malformed("the file is cut off within its end record"));
        };
        if said != self.pairs {
            let read = self.pairs;
            return Ok(self.malformed(format!("the file has {read} pairs, its end says {said}")));
        }
        if source.read_bytes(&mut self.buffer, 1)? > 0 {
            return Ok(self.malformed("there are bytes behind the end record"));
        }
        self.done = true;
        Ok(Next::End)
    }

    fn expect_magic<R: BufRead>(&mut self, source: &mut Lines<R>) -> Result<bool> {
        Ok(self.number::<R, 8>(source)?.as_ref() == Some(MAGIC))
    }

    fn number<R: BufRead, const N: usize>(
        &mut self,
        source: &mut Lines<R>,
    ) -> Result<Option<[u8; N]>> {
        source.read_bytes(&mut self.buffer, N as u64)?;
        Ok(self.buffer.as_slice().try_into().ok())
    }

    fn malformed(&mut self, reason: impl Into<String>) -> Next {
        self.done = true;
        let number = self.pairs + 1;
        Next::Malformed(Malformed {
            number,
            reason: reason.into(),
            resumable: false,
        })
    }
}

/// Writes what stands before the first pair.
pub(crate) fn begin(out: &mut impl Write) -> io::Result<()> {
    out.write_all(MAGIC)
}

/// Writes a pair.
pub(crate) fn write(
    out: &mut impl Write,
    key: &[u8],
    value: &[u8],
    expires_at_ms: Option<u64>,
) -> io::Result<()> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
    out.write_all(&length(key)?.to_le_bytes())?;
    out.write_all(&length(value)?.to_le_bytes())?;
    out.write_all(&expires_at_ms.unwrap_or(0).to_le_bytes())?;
    out.write_all(key)?;
    out.write_all(value)
}

/// Writes what stands behind the last of `pairs` pairs.
pub(crate) fn end(out: &mut impl Write, pairs: u64) -> io::Result<()> {
    out.write_all(&END.to_le_bytes())?;
    out.write_all(&pairs.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn file() -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out).unwrap();
        write(&mut out, b"a", b"1", None).unwrap();
        write(&mut out, b"", b"\n\xff", Some(7)).unwrap();
        end(&mut out, 2).unwrap();
        out
    }

    fn read(bytes: &[u8]) -> (usize, Option<String>) {
        let (mut state, mut lines) = (State::default(), Lines::new(bytes, Path::new("x"), false));
        for pairs in 0.. {
            match state.next(&mut lines).unwrap() {
                Next::Record(_) => {}
                Next::End => return (pairs, None),
                Next::Malformed(malformed) => {
                    assert!(!malformed.resumable);
                    assert_eq!(state.next(&mut lines).unwrap(), Next::End);
                    return (pairs, Some(malformed.reason));
                }
            }
        }
        unreachable!("the loop is endless")
    }

    #[test]
    fn a_file_cut_off_anywhere_is_noticed() {
        let file = file();
        assert_eq!(read(&file), (2, None));
        for end in 0..file.len() {
            let (pairs, reason) = read(&file[..end]);
            assert!(pairs <= 2 && reason.is_some(), "cut at {end}");
        }
        assert!(read(&[file.as_slice(), b"x"].concat()).1.is_some());
    }

    #[test]
    fn absurd_lengths_and_foreign_files_are_refused() {
        let mut absurd = file();
        absurd[12..16].copy_from_slice(&(u32::MAX).to_le_bytes());
        assert!(read(&absurd).1.unwrap().contains("limits"));
        assert!(read(b"key\tvalue\n").1.unwrap().contains("VELPAIR1"));
    }
}
