//! What the engine puts into a record: operations, one after another until the payload ends.
//!
//! ```text
//! kind u8 | keyspace varint | key length varint | value length varint | key | value
//! ```
//! B1. A record is one commit: all of its operations have the record's stamp, and are recovered
//!     together or not at all.
//! B2. Decoding never reads past the payload and allocates nothing; a kind this build does not know
//!     is refused by its number.
//! B3. A single write needs no buffer: [`single_header`] fills a small array, and the record is
//!     `[header, key, value]` as slices.
//!
//! Tests: below.

use velella_base::codec::Reader;
use velella_base::{Error, ErrorKind, KeyspaceId, Result, ValueKind};

/// Most bytes of an operation before its key: kind, and three varints of 32 bits.
pub const HEADER_BYTES_MAX: usize = 16;

/// One write to one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<'a> {
    /// Where.
    pub keyspace: KeyspaceId,
    /// What.
    pub kind: ValueKind,
    /// To which key.
    pub key: &'a [u8],
    /// The payload; its meaning depends on `kind`.
    pub value: &'a [u8],
}

/// Appends `operation` to the payload `out`.
///
/// # Panics
/// If key or value has 4 GiB or more; the engine's limits are far below.
pub fn encode_into(out: &mut Vec<u8>, operation: &Operation<'_>) {
    let mut header = [0; HEADER_BYTES_MAX];
    let header = single_header(
        &mut header,
        operation.keyspace,
        operation.kind,
        operation.key.len(),
        operation.value.len(),
    );
    out.reserve(header.len() + operation.key.len() + operation.value.len());
    out.extend_from_slice(header);
    out.extend_from_slice(operation.key);
    out.extend_from_slice(operation.value);
}

/// The bytes of an operation that stand before its key and value (B3).
///
/// # Panics
/// As [`encode_into`].
#[inline]
pub fn single_header(
    out: &mut [u8; HEADER_BYTES_MAX],
    keyspace: KeyspaceId,
    kind: ValueKind,
    key_len: usize,
    value_len: usize,
) -> &[u8] {
    out[0] = kind as u8;
    let mut len = 1;
    for number in [keyspace as usize, key_len, value_len] {
        let number = u32::try_from(number).expect("limits::check_* keep lengths below 4 GiB");
        len += varint_into(&mut out[len..], number);
    }
    &out[..len]
}

/// Writes a varint and returns its length: at most 5.
#[inline]
fn varint_into(out: &mut [u8], mut value: u32) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        out[len] = (value & 0x7f) as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    out[len] = (value & 0x7f) as u8;
    len + 1
}

/// The operations of a payload, in the order they were encoded.
#[must_use]
pub fn decode(payload: &[u8]) -> Operations<'_> {
    Operations {
        rest: Reader::new(payload),
        whole: payload.len(),
    }
}

/// Iterator over a payload's operations; ends after the first error.
#[derive(Debug, Clone)]
pub struct Operations<'a> {
    rest: Reader<'a>,
    whole: usize,
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<Operation<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.whole - self.rest.rest().len();
        let decoded = take(&mut self.rest, at);
        if decoded.is_err() {
            self.rest = Reader::new(&[]);
        }
        Some(decoded)
    }
}

fn take<'a>(rest: &mut Reader<'a>, at: usize) -> Result<Operation<'a>> {
    let cut_short = || {
        Error::new(
            ErrorKind::Corruption,
            "decode a journal record",
            format!("the operation at byte {at} of its payload is cut short"),
        )
    };
    let kind = ValueKind::from_u8(rest.u8().ok_or_else(cut_short)?)?;
    let operation = (|| {
        let keyspace = KeyspaceId::try_from(rest.varint()?).ok()?;
        let key_len = usize::try_from(rest.varint()?).ok()?;
        let value_len = usize::try_from(rest.varint()?).ok()?;
        Some(Operation {
            keyspace,
            kind,
            key: rest.bytes(key_len)?,
            value: rest.bytes(value_len)?,
        })
    })();
    operation.ok_or_else(cut_short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Operation<'static>> {
        vec![
            Operation {
                keyspace: 0,
                kind: ValueKind::Put,
                key: b"key",
                value: b"value",
            },
            Operation {
                keyspace: u32::MAX,
                kind: ValueKind::Delete,
                key: b"",
                value: b"",
            },
            Operation {
                keyspace: 300,
                kind: ValueKind::RangeDelete,
                key: b"a",
                value: &[7; 200],
            },
        ]
    }

    #[test]
    fn operations_round_trip_in_order() {
        let mut payload = Vec::new();
        for operation in sample() {
            encode_into(&mut payload, &operation);
        }
        let decoded: Vec<_> = decode(&payload).map(Result::unwrap).collect();
        assert_eq!(decoded, sample());
        assert_eq!(decode(&[]).count(), 0);
    }

    #[test]
    fn the_longest_header_fits_its_array() {
        let mut out = [0; HEADER_BYTES_MAX];
        let all = u32::MAX as usize;
        assert_eq!(
            single_header(&mut out, u32::MAX, ValueKind::Put, all, all).len(),
            HEADER_BYTES_MAX
        );
    }

    #[test]
    fn a_payload_cut_anywhere_inside_an_operation_is_an_error_and_never_a_panic() {
        let mut payload = Vec::new();
        encode_into(&mut payload, &sample()[0]);
        for len in 1..payload.len() {
            let error = decode(&payload[..len]).next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{len}: {error}");
        }
        // Lengths far beyond the payload, and beyond 64 bits.
        let mut huge = vec![ValueKind::Put as u8, 0];
        huge.extend([0xff; 12]);
        assert!(decode(&huge).next().unwrap().is_err());
    }

    #[test]
    fn an_unknown_kind_is_refused_by_its_number_and_ends_the_walk() {
        let mut operations = decode(&[77, 0, 0, 0]);
        let error = operations.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("kind 77"), "{error}");
        assert!(operations.next().is_none());
    }
}
