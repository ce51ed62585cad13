//! Replies, written into the connection's output as they are made.
//!
//! Source: the RESP2 and RESP3 specifications. Types that only RESP3 has are written in RESP2 as
//! Redis does: a map as a flat array, a null as `$-1`.
//!
//! W1. Whatever is written is well formed: an error's or simple string's text loses its line
//!     breaks.
//! W2. Nothing is allocated but the output's own growth.
//!
//! Tests: below.

use crate::number::Decimal;

/// The version of the protocol a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// The protocol every client knows.
    #[default]
    Resp2,
    /// With maps, sets and nulls; chosen by `HELLO 3`.
    Resp3,
}

/// A connection's output.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    /// The version of the protocol written.
    pub(crate) protocol: Protocol,
}

impl Reply {
    /// Bytes written and not yet taken.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether it holds a buffer, be it empty.
    pub(crate) fn has_buffer(&self) -> bool {
        self.bytes.capacity() > 0
    }

    /// What is written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes back what was written since the output had `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Drops the first `len` bytes, which were taken.
    pub(crate) fn forget(&mut self, len: usize) {
        self.bytes.drain(..len);
    }

    /// Exchanges the buffer, which keeps its protocol.
    pub(crate) fn swap_buffer(&mut self, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, buffer);
    }

    fn resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    fn header(&mut self, kind: u8, number: u64) {
        self.bytes.push(kind);
        self.bytes
            .extend_from_slice(Decimal::of_u64(number).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        let from = self.bytes.len();
        self.bytes.extend_from_slice(text);
        for byte in &mut self.bytes[from..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// `+OK`.
    #[inline]
    pub(crate) fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A short text of the server's own.
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; `text` begins with its code, such as `ERR`.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.line(b'-', text);
    }

    /// A number.
    #[inline]
    pub(crate) fn integer(&mut self, value: i64) {
        self.bytes.push(b':');
        self.bytes.extend_from_slice(Decimal::new(value).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A count.
    pub(crate) fn count(&mut self, value: usize) {
        self.bytes_of(value as u64);
    }

    /// A length in bytes, also of what is not in memory.
    #[inline]
    pub(crate) fn bytes_of(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Bytes.
    #[inline]
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Bytes, or null.
    pub(crate) fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// A text for people: marked as such in RESP3.
    pub(crate) fn verbatim(&mut self, text: &str) {
        if self.resp3() {
            self.header(b'=', text.len() as u64 + 4);
            self.bytes.extend_from_slice(b"txt:");
            self.bytes.extend_from_slice(text.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Nothing, in place of bytes.
    pub(crate) fn null(&mut self) {
        let text: &[u8] = if self.resp3() { b"_\r\n" } else { b"$-1\r\n" };
        self.bytes.extend_from_slice(text);
    }

    /// The head of an array of `len` replies.
    pub(crate) fn array(&mut self, len: usize) {
        self.header(b'*', len as u64);
    }

    /// The head of a set of `len` replies.
    pub(crate) fn set(&mut self, len: usize) {
        self.header(if self.resp3() { b'~' } else { b'*' }, len as u64);
    }

    /// The head of a map of `pairs` pairs of replies.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', 2 * pairs as u64),
            Protocol::Resp3 => self.header(b'%', pairs as u64),
        }
    }

    /// Writes what belongs before the bytes written since the output had `from`: the head of an
    /// array whose length is known only now.
    pub(crate) fn insert(&mut self, from: usize, write: impl FnOnce(&mut Self)) {
        let end = self.bytes.len();
        write(self);
        let inserted = self.bytes.len() - end;
        self.bytes[from..].rotate_right(inserted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply)) -> String {
        let mut reply = Reply {
            protocol,
            ..Reply::default()
        };
        write(&mut reply);
        String::from_utf8(reply.bytes).unwrap()
    }

    #[test]
    fn each_type_is_written_in_both_protocols() {
        let all = |reply: &mut Reply| {
            reply.ok();
            reply.integer(-7);
            reply.bulk(b"a\r\nb");
            reply.null();
            reply.verbatim("hi");
            reply.map(1);
            reply.set(2);
            reply.array(3);
        };
        assert_eq!(
            written(Protocol::Resp2, all),
            "+OK\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n$2\r\nhi\r\n*2\r\n*2\r\n*3\r\n"
        );
        assert_eq!(
            written(Protocol::Resp3, all),
            "+OK\r\n:-7\r\n$4\r\na\r\nb\r\n_\r\n=6\r\ntxt:hi\r\n%1\r\n~2\r\n*3\r\n"
        );
    }

    #[test]
    fn a_line_break_in_an_error_cannot_forge_a_reply() {
        let text = written(Protocol::Resp2, |reply| reply.error(b"ERR a\r\n+OK"));
        assert_eq!(text, "-ERR a  +OK\r\n");
    }

    #[test]
    fn the_head_of_an_array_can_be_written_last() {
        let text = written(Protocol::Resp2, |reply| {
            reply.ok();
            let from = reply.len();
            reply.integer(1);
            reply.bulk(b"x");
            reply.insert(from, |reply| reply.array(2));
        });
        assert_eq!(text, "+OK\r\n*2\r\n:1\r\n$1\r\nx\r\n");
    }
}
