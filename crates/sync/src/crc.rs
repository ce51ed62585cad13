//! CRC-32C of few bytes, by the processor's own instruction.
//!
//! What a journal sums up is short: a place of 8 bytes, a header of 12, a key, a value. The crate
//! that sums up blocks works on three streams at once, and prepares for that whatever it is given:
//! the sums of a record of 140 bytes took 930 instructions of a put's 4,300, and take 300 here (by
//! callgrind); by the clock 88 to 107 ns, and 36 to 53. Longer bytes are that crate's, and all of
//! them where the processor lacks the instruction.
//!
//! Threads: any. Tests: below, against that crate.

/// Bytes up to which it is used: what is longer gains by three streams.
#[cfg(any(target_arch = "x86_64", test))]
const FEW: usize = 256;

/// Continues `crc` over `bytes`.
#[must_use]
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= FEW && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { append_few(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
fn append_few(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let (words, mut rest) = bytes.as_chunks::<8>();
    let wide = words.iter().fold(u64::from(!crc), |sum, word| {
        _mm_crc32_u64(sum, u64::from_le_bytes(*word))
    });
    let mut sum = u32::try_from(wide).expect("the instruction clears the upper half");
    if let Some((four, others)) = rest.split_first_chunk() {
        sum = _mm_crc32_u32(sum, u32::from_le_bytes(*four));
        rest = others;
    }
    if let Some((two, others)) = rest.split_first_chunk() {
        sum = _mm_crc32_u16(sum, u16::from_le_bytes(*two));
        rest = others;
    }
    if let [last] = rest {
        sum = _mm_crc32_u8(sum, *last);
    }
    !sum
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_polynomial_is_castagnoli() {
        // The catalogued check value of CRC-32C.
        assert_eq!(crc32c_append(0, b"123456789"), 0xE306_9283);
    }

    #[test]
    fn few_bytes_of_any_number_and_place_are_summed_up_as_the_crate_does() {
        let mut rng = Rng::new(3);
        let bytes: Vec<u8> = (0..2 * FEW).map(|_| rng.below(256) as u8).collect();
        let step = if cfg!(miri) { 37 } else { 1 };
        for start in 0..8 {
            for len in (0..FEW + 40).step_by(step) {
                let crc = rng.below(1 << 32) as u32;
                let bytes = &bytes[start..start + len];
                let expected = crc32c::crc32c_append(crc, bytes);
                assert_eq!(crc32c_append(crc, bytes), expected, "{len} from {start}");
            }
        }
    }

    #[test]
    fn a_sum_goes_on_where_it_was_left() {
        let bytes: Vec<u8> = (0..=255).collect();
        let whole = crc32c_append(9, &bytes);
        for cut in 0..bytes.len() {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(crc32c_append(crc32c_append(9, first), second), whole);
        }
    }
}
