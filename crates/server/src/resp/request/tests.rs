//! The request decoder: whole, split at every byte, hostile, and random.

#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small bounds"
)]

use super::*;
use velella_sync::rng::Rng;

const LIMITS: Limits = Limits {
    bulk_bytes: 1 << 20,
    arguments: 1 << 10,
    inline_bytes: 1 << 10,
    request_bytes: 4 << 20,
    unauthenticated: false,
};

/// Decodes `stream`, of which `sizes` tells how many bytes arrive at a time.
fn decode_all(
    stream: &[u8],
    mut sizes: impl FnMut() -> usize,
) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    let (mut decoder, mut requests) = (Decoder::default(), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match decoder.decode(&stream[start..end], &LIMITS)? {
            Progress::Complete(used) => {
                let args = decoder.args(&stream[start..end]);
                requests.push(args.iter().map(<[u8]>::to_vec).collect());
                start += used;
            }
            Progress::Incomplete if end == stream.len() => return Ok(requests),
            Progress::Incomplete => end = (end + sizes().max(1)).min(stream.len()),
        }
    }
}

fn one(stream: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    decode_all(stream, || usize::MAX / 2)
}

const PIPELINE: &[u8] =
    b"*1\r\n$4\r\nPING\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$7\r\na\r\nb\0c\n\
    \r\nset k \"a \\x41\\n\" 'it\\'s'\r\n\r\n*0\r\n*-1\r\n*2\r\n$0\r\n\r\n$1\r\nx\r\nget k\n";

#[test]
fn a_pipeline_split_at_any_byte_decodes_as_if_whole() {
    let whole = one(PIPELINE).unwrap();
    assert_eq!(whole.len(), 9);
    assert_eq!(whole[2], [&b"SET"[..], b"k", b"a\r\nb\0c\n"]);
    assert_eq!(whole[3], [&b"set"[..], b"k", b"a A\n", b"it's"]);
    assert_eq!(whole[7], [&b""[..], b"x"]);
    for split in 1..PIPELINE.len() {
        let mut first = true;
        let sizes = || {
            if std::mem::take(&mut first) {
                split
            } else {
                usize::MAX / 2
            }
        };
        assert_eq!(
            decode_all(PIPELINE, sizes).unwrap(),
            whole,
            "split at {split}"
        );
    }
    assert_eq!(decode_all(PIPELINE, || 1).unwrap(), whole);
}

#[test]
fn random_requests_in_random_pieces_decode_as_sent() {
    let mut rng = Rng::new(11);
    for _ in 0..500 {
        let requests: Vec<Vec<Vec<u8>>> = (0..1 + rng.below(5))
            .map(|_| {
                (0..1 + rng.below(6))
                    .map(|_| (0..rng.below(40)).map(|_| rng.below(256) as u8).collect())
                    .collect()
            })
            .collect();
        let mut stream = Vec::new();
        for request in &requests {
            stream.extend(format!("*{}\r\n", request.len()).bytes());
            for arg in request {
                stream.extend(format!("${}\r\n", arg.len()).bytes());
                stream.extend(arg);
                stream.extend(b"\r\n");
            }
        }
        let decoded = decode_all(&stream, || rng.below(20) as usize).unwrap();
        assert_eq!(decoded, requests);
    }
}

#[test]
fn garbage_ends_in_an_error_or_an_incomplete_request() {
    let mut rng = Rng::new(13);
    for _ in 0..5_000 {
        let letters = b"*$-0123456789\r\n\"' abc";
        let stream: Vec<u8> = (0..rng.below(60))
            .map(|_| letters[rng.below(letters.len() as u64) as usize])
            .collect();
        let whole = one(&stream);
        assert_eq!(
            decode_all(&stream, || rng.below(4) as usize),
            whole,
            "{stream:?}"
        );
    }
}

#[test]
fn errors_are_worded_as_clients_know_them() {
    let too_long = [b'1'; 2 << 10];
    for (stream, expected) in [
        (&b"*a\r\n"[..], "invalid multibulk length"),
        (b"*1025\r\n", "invalid multibulk length"),
        (b"*1\r\nfoo\r\n", "expected '$', got 'f'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$1048577\r\n", "invalid bulk length"),
        (b"set \"a\r\n", "unbalanced quotes in request"),
        (b"set \"a\"b\r\n", "unbalanced quotes in request"),
        (
            &[b"*", &too_long[..]].concat(),
            "too big mbulk count string",
        ),
        (
            &[b"*1\r\n$", &too_long[..]].concat(),
            "too big bulk count string",
        ),
        (&too_long, "too big inline request"),
    ] {
        assert_eq!(one(stream).unwrap_err().0, expected);
    }
}

#[test]
fn each_limit_admits_its_value_and_not_the_next() {
    let bulk = |len: usize| {
        [
            format!("*1\r\n${len}\r\n").as_bytes(),
            &vec![b'v'; len],
            b"\r\n",
        ]
        .concat()
    };
    assert_eq!(
        one(&bulk(LIMITS.bulk_bytes)).unwrap()[0][0].len(),
        LIMITS.bulk_bytes
    );
    assert!(one(&bulk(LIMITS.bulk_bytes + 1)).is_err());
    let counted = |count: usize| {
        [
            format!("*{count}\r\n").into_bytes(),
            b"$0\r\n\r\n".repeat(count),
        ]
        .concat()
    };
    assert_eq!(
        one(&counted(LIMITS.arguments)).unwrap()[0].len(),
        LIMITS.arguments
    );
    assert!(one(&counted(LIMITS.arguments + 1)).is_err());
    let inline = |len: usize| [&vec![b'v'; len][..], b"\n"].concat();
    assert_eq!(
        one(&inline(LIMITS.inline_bytes)).unwrap()[0][0].len(),
        LIMITS.inline_bytes
    );
    assert!(one(&inline(LIMITS.inline_bytes + 1)).is_err());
    let request = b"$1048000\r\n".len() + 1_048_000 + 2;
    let many = [b"*5\r\n".to_vec(), bulk(1_048_000)[4..].repeat(5)].concat();
    assert!(many.len() > LIMITS.request_bytes && request * 4 < LIMITS.request_bytes);
    let mut decoder = Decoder::default();
    assert!(
        decoder
            .decode(&many[..LIMITS.request_bytes], &LIMITS)
            .is_ok()
    );
    assert!(
        decoder
            .decode(&many[..LIMITS.request_bytes + 1], &LIMITS)
            .is_err()
    );
}

#[test]
fn limits_are_the_same_for_what_comes_whole_and_in_pieces() {
    let limits = Limits {
        bulk_bytes: 20,
        arguments: 4,
        inline_bytes: 10,
        request_bytes: 40,
        unauthenticated: false,
    };
    let longest_line = b"*1\r\n$2345678901\r\n";
    let large = b"*2\r\n$18\r\n345678901234567890\r\n$14\r\n01234567890123\r\n";
    for stream in [&b"*23456789012\r\n"[..], longest_line, large] {
        let whole = Decoder::default().decode(stream, &limits);
        let mut decoder = Decoder::default();
        let pieces = (1..=stream.len())
            .map(|end| decoder.decode(&stream[..end], &limits))
            .find(|decoded| *decoded != Ok(Progress::Incomplete));
        assert_eq!(Some(whole), pieces, "{}", stream.escape_ascii());
    }
}

#[test]
fn before_authentication_little_is_received() {
    let limits = Limits::unauthenticated();
    let decode = |stream: &[u8]| Decoder::default().decode(stream, &limits);
    assert_eq!(
        decode(b"*11\r\n").unwrap_err().0,
        "unauthenticated multibulk length"
    );
    assert_eq!(
        decode(b"*2\r\n$16385\r\n").unwrap_err().0,
        "unauthenticated bulk length"
    );
    assert_eq!(decode(b"*2\r\n$16384\r\n").unwrap(), Progress::Incomplete);
}

#[test]
fn a_declared_length_allocates_nothing() {
    let mut decoder = Decoder::default();
    let limits = Limits::trusted(512 << 20);
    assert_eq!(
        decoder
            .decode(b"*1048576\r\n$536870912\r\nx", &limits)
            .unwrap(),
        Progress::Incomplete
    );
    assert!(decoder.ranges.capacity() < 64);
}
