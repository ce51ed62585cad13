//! Replies read as strictly as the specification has them, by other code than wrote them.
//!
//! Source: the RESP2 and RESP3 specifications.

use crate::resp::reply::Protocol;

/// How deep replies nest at most: COMMAND DOCS and INFO stay far below.
const DEPTH_MAX: u32 = 16;

/// What a reply said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// A line of the server's own, or an error.
    Text(Vec<u8>),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    /// An array, a set, or a map as keys and values in turn.
    Many(Vec<Answer>),
}

/// The reply at the beginning of `bytes`, and how many it takes; `None`: there is none that is
/// whole and well formed.
pub(super) fn one(bytes: &[u8], protocol: Protocol) -> Option<(Answer, usize)> {
    let mut reader = Reader {
        rest: bytes,
        protocol,
    };
    let answer = reader.answer(0)?;
    Some((answer, bytes.len() - reader.rest.len()))
}

struct Reader<'a> {
    rest: &'a [u8],
    protocol: Protocol,
}

impl<'a> Reader<'a> {
    fn answer(&mut self, depth: u32) -> Option<Answer> {
        let (kind, rest) = self.rest.split_first()?;
        self.rest = rest;
        let line = self.line()?;
        let resp3 = self.protocol == Protocol::Resp3;
        match kind {
            b'+' | b'-' => Some(Answer::Text(line.to_vec())),
            b':' => Some(Answer::Number(number(line)?)),
            b'$' | b'*' if line == b"-1" && !resp3 => Some(Answer::Nothing),
            b'_' if resp3 && line.is_empty() => Some(Answer::Nothing),
            b'#' if resp3 => matches!(line, b"t" | b"f").then(|| Answer::Text(line.to_vec())),
            b',' if resp3 => {
                let text = std::str::from_utf8(line).ok()?;
                text.parse::<f64>().ok()?;
                Some(Answer::Text(line.to_vec()))
            }
            b'$' => Some(Answer::Bytes(self.bytes(length(line)?)?.to_vec())),
            b'=' if resp3 => {
                let text = self.bytes(length(line)?)?;
                (text.get(3) == Some(&b':')).then(|| Answer::Bytes(text[4..].to_vec()))
            }
            b'*' => self.many(length(line)?, depth),
            b'~' if resp3 => self.many(length(line)?, depth),
            b'%' if resp3 => self.many(length(line)?.checked_mul(2)?, depth),
            _ => None,
        }
    }

    fn many(&mut self, len: usize, depth: u32) -> Option<Answer> {
        // Each takes three bytes at least, so that no length makes us allocate.
        if depth == DEPTH_MAX || len > self.rest.len() / 3 {
            return None;
        }
        let answers = (0..len).map(|_| self.answer(depth + 1));
        Some(Answer::Many(answers.collect::<Option<Vec<_>>>()?))
    }

    /// What is left of the line, without the CR LF that ends it.
    fn line(&mut self) -> Option<&'a [u8]> {
        let end = self
            .rest
            .iter()
            .position(|byte| matches!(byte, b'\r' | b'\n'))?;
        let line = &self.rest[..end];
        self.rest = self.rest[end..].strip_prefix(b"\r\n")?;
        Some(line)
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.rest.get(..len)?;
        self.rest = self.rest[len..].strip_prefix(b"\r\n")?;
        Some(bytes)
    }
}

fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn length(line: &[u8]) -> Option<usize> {
    usize::try_from(number(line)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(bytes: &[u8]) -> Option<(Answer, usize)> {
        one(bytes, Protocol::Resp2)
    }

    #[test]
    fn a_reply_is_read_to_its_end() {
        let text = b"*3\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n+OK\r\n";
        let parts = vec![
            Answer::Number(-7),
            Answer::Bytes(b"a\r\nb".to_vec()),
            Answer::Nothing,
        ];
        assert_eq!(two(text), Some((Answer::Many(parts), text.len() - 5)));
        let map = b"%1\r\n+a\r\n_\r\n";
        let parts = vec![Answer::Text(b"a".to_vec()), Answer::Nothing];
        let read = one(map, Protocol::Resp3);
        assert_eq!(read, Some((Answer::Many(parts), map.len())));
    }

    #[test]
    fn what_is_cut_or_wrong_is_no_reply() {
        for wrong in [
            &b""[..],
            b"OK\r\n",
            b"+OK",
            b"+OK\n",
            b"+a\nb\r\n",
            b":\r\n",
            b":1x\r\n",
            b"$3\r\nab\r\n",
            b"$1\r\nab\r\n",
            b"$-2\r\n",
            b"*2\r\n:1\r\n",
            b"*99999999999\r\n",
            b"_\r\n",
            b"%1\r\n+a\r\n+b\r\n",
        ] {
            assert_eq!(two(wrong), None, "{}", wrong.escape_ascii());
        }
        assert_eq!(one(b"$-1\r\n", Protocol::Resp3), None);
    }
}
