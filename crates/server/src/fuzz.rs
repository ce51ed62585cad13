//! Properties of what reads clients' bytes, as functions of bytes: for the fuzzers.
//!
//! F1. A stream decodes to the same requests, and the same error at the same place, however it is
//!     cut into pieces.
//! F2. What a decoder keeps is bounded by what it was given.
//! F3. A glob matches as its definition says.
//! F4. What commands promise: see `commands.rs`.
//!
//! Threads: any. Tests: `crates/reliability/tests/corpus.rs` replays the corpus.

mod replies;
mod commands;

pub use commands::commands;

use crate::glob;
use crate::number::{Decimal, parse_i64, parse_u64};
use crate::resp::request::{Decoder, Limits, Progress, ProtocolError};

/// What a stream decodes to: its requests, and how it ended.
type Decoded = (Vec<Vec<Vec<u8>>>, Result<usize, ProtocolError>);

/// A stream of requests behind a byte that chooses the limits and a byte that chooses pieces.
pub fn requests(bytes: &[u8]) {
    let Some((&[mode, step], stream)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let limits = match mode % 3 {
        0 => Limits::trusted(1 << 20),
        1 => Limits::unauthenticated(),
        // So small that every limit is met.
        _ => Limits {
            bulk_bytes: 24,
            arguments: 4,
            inline_bytes: 24,
            request_bytes: 64,
            unauthenticated: mode % 2 == 0,
        },
    };
    let whole = decode(stream, &limits, &mut [stream.len()].into_iter());
    let in_step = usize::from(step % 61) + 1;
    let pieces = decode(
        stream,
        &limits,
        &mut std::iter::repeat_n(in_step, stream.len()),
    );
    assert_eq!(whole, pieces, "F1: in pieces of {in_step}");
    // Every byte boundary, in streams short enough.
    if stream.len() <= 256 {
        for split in 1..stream.len() {
            let halves = decode(stream, &limits, &mut [split, stream.len()].into_iter());
            assert_eq!(whole, halves, "F1: split at {split}");
        }
    }
}

/// Decodes `stream` as it arrives in `pieces`.
fn decode(stream: &[u8], limits: &Limits, pieces: &mut dyn Iterator<Item = usize>) -> Decoded {
    let (mut decoder, mut requests) = (Decoder::default(), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match decoder.decode(&stream[start..end], limits) {
            Ok(Progress::Complete(used)) => {
                assert!(used > 0 && used <= end - start, "it took what it was given");
                let args = decoder.args(&stream[start..end]);
                let args: Vec<_> = args.iter().map(<[u8]>::to_vec).collect();
                let bytes: usize = args.iter().map(Vec::len).sum();
                assert!(bytes <= used && args.len() <= used, "F2");
                requests.push(args);
                start += used;
                decoder.shrink();
            }
            Ok(Progress::Incomplete) if end == stream.len() => return (requests, Ok(start)),
            Ok(Progress::Incomplete) => {
                end = (end + pieces.next().unwrap_or(stream.len())).min(stream.len());
            }
            Err(error) => return (requests, Err(error)),
        }
    }
}

/// A pattern, a zero byte, a text.
pub fn globs(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (pattern, text) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
    let pattern = &pattern[..pattern.len().min(glob::PATTERN_BYTES_MAX)];
    let matched = glob::matches(pattern, text);
    if pattern.len() * text.len() <= 1 << 14 {
        assert_eq!(matched, glob::matches_by_table(pattern, text), "F3");
    }
    if matched {
        assert!(text.starts_with(glob::literal_prefix(pattern)));
        // A range whose letters change their case is another range.
        let plain = !pattern.contains(&b'[');
        assert!(!plain || glob::matches_ignoring_case(pattern, &text.to_ascii_uppercase()));
    }
    assert!(glob::matches(b"*", text));
}

/// Numbers as the protocol writes them.
pub fn numbers(bytes: &[u8]) {
    if let Some(value) = parse_i64(bytes) {
        assert_eq!(Decimal::new(value).as_bytes(), bytes, "one form a number");
    }
    if let Some(value) = parse_u64(bytes) {
        let digits = bytes.iter().position(|digit| *digit != b'0');
        let digits = digits.map_or(&b"0"[..], |from| &bytes[from..]);
        assert_eq!(Decimal::of_u64(value).as_bytes(), digits);
    }
    if let Some(eight) = bytes.first_chunk::<8>() {
        let value = i64::from_le_bytes(*eight);
        assert_eq!(parse_i64(Decimal::new(value).as_bytes()), Some(value));
    }
}
