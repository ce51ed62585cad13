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

const SCALE_DIGITS: i64 = 17;
/// The first number with 21 digits before the point, scaled; two below it have a sum.
const SCALED_END: i128 = 10i128.pow(37);

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
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (digits, exponent): (_, i32) = match split(unsigned, |byte| matches!(byte, b'e' | b'E')) {
        (digits, None) => (digits, 0),
        (digits, Some(exponent)) => (digits, std::str::from_utf8(exponent).ok()?.parse().ok()?),
    };
    let (whole, fraction) = split(digits, |byte| byte == b'.');
    let fraction = fraction.unwrap_or_default();
    let number = whole
        .iter()
        .chain(fraction)
        .try_fold(0i128, |value, &digit| {
            let digit = digit.is_ascii_digit().then(|| i128::from(digit - b'0'))?;
            value.checked_mul(10)?.checked_add(digit)
        })?;
    let places = i64::try_from(fraction.len()).ok()?;
    let value = shifted(number, SCALE_DIGITS + i64::from(exponent) - places)?;
    let value = (value < SCALED_END).then_some(value)?;
    Some(if negative { -value } else { value })
}

/// What stands before the first such byte, and what behind it.
fn split(text: &[u8], is_end: impl Fn(u8) -> bool) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| is_end(byte)) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// `number` times 10^`digits`, if that is an integer, and not too large.
fn shifted(number: i128, digits: i64) -> Option<i128> {
    let power = 10i128.checked_pow(u32::try_from(digits.unsigned_abs()).ok()?)?;
    if digits >= 0 {
        return number.checked_mul(power);
    }
    (number % power == 0).then_some(number / power)
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
            ("1e-1", "2e-1", "0.3"),
            ("1E+1", "-.1e-02", "9.999"),
            ("90071992547409930e-1", "1", "9007199254740994"),
            ("0.10000000000000000000", "0.2", "0.3"),
            ("1e19", "1e-17", "10000000000000000000.00000000000000001"),
            ("1e20", "1", "100000000000000000000"),
            ("1e-20", "0", "0"),
            ("-1e-20", "0", "0"),
            ("1.5e-17", "-1e-18", "0.00000000000000001"),
            ("0e999", "7e-0", "7"),
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
