//! Requests: arrays of bulk strings, and inline commands, decoded as their bytes arrive.
//!
//! Source: the RESP specification; limits and error texts as Redis 7.
//!
//! Q1. Incremental: a request fed in pieces, split anywhere, is decoded as if it came whole, and
//!     no byte of it is looked at more often than twice.
//! Q2. Nothing is allocated for a length that was only declared: an argument costs memory once
//!     its bytes are here.
//! Q3. Arguments are ranges of the caller's buffer; decoding copies only inline arguments.
//! Q4. After an error the connection is of no use: where the next request begins is unknown.
//!
//! Tests: `tests.rs`.

#[cfg(test)]
mod tests;

use crate::number::parse_i64;
use std::borrow::Cow;

/// What a request may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of one argument.
    pub bulk_bytes: usize,
    /// Arguments.
    pub arguments: usize,
    /// Bytes of an inline command, or of a line that announces a length.
    pub inline_bytes: usize,
    /// Bytes of the whole request.
    pub request_bytes: usize,
    /// Whether the sender has yet to authenticate: these are then the small limits, and errors
    /// say so.
    pub unauthenticated: bool,
}

impl Limits {
    /// For a client that has authenticated, or need not.
    pub(crate) fn trusted(bulk_bytes: usize) -> Self {
        Limits {
            bulk_bytes,
            arguments: 1 << 20,
            inline_bytes: 64 << 10,
            request_bytes: 1 << 30,
            unauthenticated: false,
        }
    }

    /// For a client that has yet to authenticate.
    pub(crate) fn unauthenticated() -> Self {
        Limits {
            bulk_bytes: 16 << 10,
            arguments: 10,
            inline_bytes: 64 << 10,
            request_bytes: 64 << 10,
            unauthenticated: true,
        }
    }
}

/// Why a request cannot be decoded; sent to the client before the connection is closed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) Cow<'static, str>);

/// How far decoding came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The request goes on behind the bytes given.
    Incomplete,
    /// A request of this many bytes is complete. It may have no arguments: then there is nothing
    /// to execute.
    Complete(usize),
}

/// The arguments of one request, the command's name first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [(usize, usize)],
}

impl<'a> Args<'a> {
    /// The number of arguments, the command's name counted.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.ranges.len()
    }

    /// Argument `index`, which must exist: arity is checked before a command runs.
    #[inline]
    pub(crate) fn at(self, index: usize) -> &'a [u8] {
        let (from, to) = self.ranges[index];
        &self.bytes[from..to]
    }

    /// Argument `index`, if there is one.
    #[inline]
    pub(crate) fn get(self, index: usize) -> Option<&'a [u8]> {
        self.ranges
            .get(index)
            .map(|&(from, to)| &self.bytes[from..to])
    }

    /// The arguments from `index` on.
    pub(crate) fn from(self, index: usize) -> Args<'a> {
        let ranges = self.ranges.get(index..).unwrap_or(&[]);
        Args {
            bytes: self.bytes,
            ranges,
        }
    }

    /// The arguments one by one.
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        self.ranges
            .iter()
            .map(move |&(from, to)| &self.bytes[from..to])
    }
}

/// A request on its way in.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Ranges of the arguments that are complete, in the request or (inline) in `unquoted`.
    ranges: Vec<(usize, usize)>,
    /// The arguments of an inline command.
    unquoted: Vec<u8>,
    inline: bool,
    /// Arguments still to come; `None` before the request's first line is complete.
    missing: Option<usize>,
    /// Length of the argument being received, once announced.
    bulk: Option<usize>,
    /// Bytes of the request decoded so far.
    at: usize,
    /// Bytes searched in vain for the end of the current line.
    searched: usize,
}

impl Decoder {
    /// Goes on decoding. `bytes` begins where the request does and holds all that has arrived.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Progress, ProtocolError> {
        if bytes.is_empty() {
            return Ok(Progress::Incomplete);
        }
        if self.missing.is_none() {
            self.ranges.clear();
            self.inline = bytes[0] != b'*';
            if self.inline {
                return self.decode_inline(bytes, limits);
            }
            match self.line(bytes, limits, "too big mbulk count string")? {
                None => return Ok(Progress::Incomplete),
                Some(line) => self.missing = Some(argument_count(&line[1..], limits)?),
            }
        }
        while let Some(missing) = self.missing.filter(|&missing| missing > 0) {
            let is_complete = self.decode_bulk(bytes, limits)?;
            let received = if is_complete { self.at } else { bytes.len() };
            if received > limits.request_bytes {
                return Err(error("request exceeds client-query-buffer-limit"));
            }
            if !is_complete {
                return Ok(Progress::Incomplete);
            }
            self.missing = Some(missing - 1);
        }
        self.missing = None;
        Ok(Progress::Complete(std::mem::take(&mut self.at)))
    }

    /// The arguments of the request that is complete and begins `bytes`.
    pub(crate) fn args<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        let bytes = if self.inline {
            &self.unquoted[..]
        } else {
            bytes
        };
        Args {
            bytes,
            ranges: &self.ranges,
        }
    }

    /// Gives back memory that an unusually large request took and that the one on its way in, if
    /// one is, does not need.
    pub(crate) fn shrink(&mut self) {
        if self.missing.is_none() {
            self.ranges.clear();
        }
        self.ranges.shrink_to(64);
        self.unquoted.clear();
        self.unquoted.shrink_to(1 << 10);
    }

    /// Receives one argument; whether it is complete.
    fn decode_bulk(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                let Some(line) = self.line(bytes, limits, "too big bulk count string")? else {
                    return Ok(false);
                };
                let len = bulk_length(line, limits)?;
                self.bulk = Some(len);
                len
            }
        };
        if bytes.len() - self.at < len + 2 {
            return Ok(false);
        }
        self.ranges.push((self.at, self.at + len));
        // The two bytes behind are CR LF; as in Redis, what else they might be is not asked.
        self.at += len + 2;
        self.bulk = None;
        Ok(true)
    }

    /// The line at hand, without its end, if it is here completely.
    fn line<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &Limits,
        too_long: &'static str,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let rest = &bytes[self.at..];
        match rest[self.searched..].iter().position(|&byte| byte == b'\r') {
            Some(found) if self.searched + found + 1 < rest.len() => {
                let end = self.searched + found;
                // The same as if it had come in pieces (Q1).
                if end > limits.inline_bytes {
                    return Err(error(too_long));
                }
                self.at += end + 2;
                self.searched = 0;
                Ok(Some(&rest[..end]))
            }
            found => {
                self.searched += found.unwrap_or(rest.len() - self.searched);
                if self.searched > limits.inline_bytes {
                    return Err(error(too_long));
                }
                Ok(None)
            }
        }
    }

    fn decode_inline(&mut self, bytes: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        let Some(found) = bytes[self.searched..]
            .iter()
            .position(|&byte| byte == b'\n')
        else {
            self.searched = bytes.len();
            if self.searched > limits.inline_bytes {
                return Err(error("too big inline request"));
            }
            return Ok(Progress::Incomplete);
        };
        let end = std::mem::take(&mut self.searched) + found;
        if end > limits.inline_bytes {
            return Err(error("too big inline request"));
        }
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.unquoted.clear();
        if !unquote(line, &mut self.unquoted, &mut self.ranges) {
            return Err(error("unbalanced quotes in request"));
        }
        Ok(Progress::Complete(end + 1))
    }
}

fn error(text: &'static str) -> ProtocolError {
    ProtocolError(Cow::Borrowed(text))
}

fn argument_count(digits: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
    let count = parse_i64(digits).ok_or_else(|| error("invalid multibulk length"))?;
    // A count of zero or below is a request for nothing.
    let count = usize::try_from(count).unwrap_or(0);
    if count > limits.arguments {
        return Err(error(if limits.unauthenticated {
            "unauthenticated multibulk length"
        } else {
            "invalid multibulk length"
        }));
    }
    Ok(count)
}

fn bulk_length(line: &[u8], limits: &Limits) -> Result<usize, ProtocolError> {
    let digits = match line {
        [b'$', digits @ ..] => digits,
        _ => {
            let got = char::from(line.first().copied().unwrap_or(b'\r'));
            return Err(ProtocolError(format!("expected '$', got '{got}'").into()));
        }
    };
    let len = parse_i64(digits)
        .and_then(|len| usize::try_from(len).ok())
        .ok_or_else(|| error("invalid bulk length"))?;
    if len > limits.bulk_bytes {
        return Err(error(if limits.unauthenticated {
            "unauthenticated bulk length"
        } else {
            "invalid bulk length"
        }));
    }
    Ok(len)
}

/// Splits an inline command into arguments, undoing quotes and escapes; whether they balance.
fn unquote(line: &[u8], out: &mut Vec<u8>, ranges: &mut Vec<(usize, usize)>) -> bool {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|&byte| is_space(byte)) {
            at += 1;
        }
        if at == line.len() {
            return true;
        }
        let from = out.len();
        while let Some(&byte) = line.get(at).filter(|&&byte| !is_space(byte)) {
            at += 1;
            match byte {
                b'"' | b'\'' => match unquote_one(&line[at..], byte, out) {
                    Some(used) => at += used,
                    None => return false,
                },
                _ => out.push(byte),
            }
        }
        ranges.push((from, out.len()));
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0
}

/// Undoes one quoted piece, up to and with its closing quote, which a space or the end must
/// follow; the bytes it took.
fn unquote_one(text: &[u8], quote: u8, out: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        match rest {
            [b'\\', b'x', high, low, ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                out.push(hex(*high) << 4 | hex(*low));
                at += 4;
            }
            [b'\\', escaped, ..] if quote == b'"' => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            [b'\\', b'\'', ..] if quote == b'\'' => {
                out.push(b'\'');
                at += 2;
            }
            [byte, after @ ..] if *byte == quote => {
                let ended = after.first().is_none_or(|&byte| is_space(byte));
                return ended.then_some(at + 1);
            }
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => return None,
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
