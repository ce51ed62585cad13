//! Sums of decimal fractions, exact where they fit: 0.1 and 0.2 make 0.3.
//!
//! Redis adds in 80-bit floats and prints 17 digits after the point, which hides binary rounding;
//! adding the decimals themselves gives the same texts without such a type.
//!
//! D1. A sum is exact while both numbers have at most 17 digits after the point and 20 before it;
//!     otherwise it is that of 64-bit floats.
//!
//! Tests: below.

use crate::number::{format_float, parse_float};

const SCALE_DIGITS: usize = 17;

/// The sum of two numbers as text; `None` if it is infinite or not a number. Both texts must have
/// passed [`parse_float`].
pub(crate) fn sum(a: &[u8], b: &[u8]) -> Option<String> {
    match (scaled(a), scaled(b)) {
        (Some(a), Some(b)) => Some(unscaled(a + b)),
        _ => {
            let sum = parse_float(a)? + parse_float(b)?;
            sum.is_finite().then(|| format_float(sum))
        }
    }
}

/// The number times 10^17, if D1 holds.
fn scaled(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let point = digits.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &[][..]),
    };
    if whole.len() > 20 || fraction.len() > SCALE_DIGITS {
        return None;
    }
    let padding = std::iter::repeat_n(&b'0', SCALE_DIGITS - fraction.len());
    let value = whole
        .iter()
        .chain(fraction)
        .chain(padding)
        .try_fold(0i128, |value, &digit| {
            digit
                .is_ascii_digit()
                .then(|| value * 10 + i128::from(digit - b'0'))
        })?;
    Some(if negative { -value } else { value })
}

fn unscaled(value: i128) -> String {
    let scale = 10u128.pow(17);
    let magnitude = value.unsigned_abs();
    let sign = if value < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:017}", magnitude / scale, magnitude % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_decimals_are_decimal() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3.00", "0"),
            ("-0.5", "0.25", "-0.25"),
            ("1", "1", "2"),
            ("1.5", "1.5", "3"),
            (".5", "0", "0.5"),
        ] {
            assert_eq!(
                sum(a.as_bytes(), b.as_bytes()).unwrap(),
                expected,
                "{a} + {b}"
            );
        }
        assert_eq!(sum(b"1e308", b"1e308"), None);
        assert_eq!(sum(b"inf", b"1"), None);
    }
}
