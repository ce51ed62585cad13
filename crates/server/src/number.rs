//! Numbers as the protocol writes them: strict decimal integers, and floats without an exponent.
//!
//! N1. `parse_i64` accepts exactly what `format_i64` produces: no sign `+`, no leading zeros, no
//!     spaces. What is stored by one client is a number for every other, or for none.
//! N2. Cursors and floats are read as Redis has the C library read them: `parse_cursor` as
//!     `strtoul`, `parse_float` as `strtold`, but in the range of 64-bit floats.
//! N3. Nothing here allocates, except `format_float`.
//!
//! Tests: below.

/// Reads a decimal integer in its one canonical form.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

/// Reads a decimal number of at most 64 bits without sign.
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Reads a cursor: digits, perhaps with a sign; none at all are 0, and what is below 0 counts from
/// 2^64 down (N2).
pub(crate) fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    let value = match &digits[zeros..] {
        [] if zeros > 0 => 0,
        digits => parse_u64(digits)?,
    };
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

/// The digits of a number, on the stack.
pub(crate) struct Decimal {
    digits: [u8; 20],
    from: u8,
}

impl Decimal {
    /// The digits of `value`, with a `-` if it is below zero.
    pub(crate) fn new(value: i64) -> Self {
        let mut decimal = Decimal::of_u64(value.unsigned_abs());
        if value < 0 {
            decimal.from -= 1;
            decimal.digits[usize::from(decimal.from)] = b'-';
        }
        decimal
    }

    /// The digits of `value`.
    pub(crate) fn of_u64(mut value: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut from = 20u8;
        loop {
            from -= 1;
            digits[usize::from(from)] = b'0' + u8::try_from(value % 10).unwrap_or(0);
            value /= 10;
            if value == 0 {
                return Decimal { digits, from };
            }
        }
    }

    /// The text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[usize::from(self.from)..]
    }
}

/// Digits after the point that a float is printed with, at most: as many as Redis prints.
const PLACES_MAX: usize = 17;

/// Digits of a hexadecimal float that are read as they are: more than a float holds.
const HEX_DIGITS_EXACT: u32 = 15;

/// Reads a float: decimal with an optional exponent, hexadecimal with one of two, or an infinity.
/// Not-a-number is no number, nor is what is spelled as a number and too large for one.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return None;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let value: f64 = match unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        Some(digits) if text.starts_with('-') => -parse_hex_float(digits)?,
        Some(digits) => parse_hex_float(digits)?,
        None => text.parse().ok()?,
    };
    let spelled = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    (value.is_finite() || value.is_infinite() && !spelled).then_some(value)
}

/// Reads what is behind the `0x` of a float.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (digits, exponent) = match text.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut scale = i64::from(exponent) - 4 * i64::try_from(fraction.len()).ok()?;
    let (mut value, mut exact) = (0u64, 0);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = digit.to_digit(16)?;
        if exact < HEX_DIGITS_EXACT {
            value = value << 4 | u64::from(digit);
            exact += u32::from(value > 0);
        } else {
            // The lowest bit says that something is below: it decides how the float is rounded.
            value |= u64::from(digit > 0);
            scale += 4;
        }
    }
    // In two steps: the scale of a float may be beyond that of its largest and its smallest.
    let scale = i32::try_from(scale.clamp(-4000, 4000)).ok()?;
    let half = scale / 2;
    Some(to_float(value) * 2f64.powi(half) * 2f64.powi(scale - half))
}

#[allow(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
fn to_float(value: u64) -> f64 {
    value as f64
}

/// A finite float without exponent, with at most 17 digits after the point and none in vain.
pub(crate) fn format_float(value: f64) -> String {
    // Rust prints the shortest decimal that reads back as the same float, never an exponent.
    let mut text = format!("{value}");
    let places = text.split_once('.').map_or(0, |(_, places)| places.len());
    if places > PLACES_MAX {
        let rounded = format!("{value:.PLACES_MAX$}");
        text = rounded
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned();
    }
    if text == "-0" { "0".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_their_canonical_form_only() {
        for value in [0, 1, -1, 42, i64::MAX, i64::MIN, i64::MAX - 1] {
            let text = Decimal::new(value);
            assert_eq!(parse_i64(text.as_bytes()), Some(value));
            assert_eq!(text.as_bytes(), value.to_string().as_bytes());
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(&[b'1'; 400]), None);
    }

    #[test]
    fn unsigned_integers_stop_at_their_largest() {
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"-1"), None);
        assert_eq!(parse_u64(b""), None);
    }

    #[test]
    fn a_cursor_may_have_a_sign_and_no_digits() {
        assert_eq!(parse_cursor(b""), Some(0));
        assert_eq!(parse_cursor(b"-1"), Some(u64::MAX));
        assert_eq!(
            parse_cursor(b"-0000000000000000000000018446744073709551615"),
            Some(1)
        );
        for text in ["-", "+", "--1", " 1", "18446744073709551616"] {
            assert_eq!(parse_cursor(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn hexadecimal_floats_are_rounded_to_the_nearest() {
        for (text, value) in [
            ("0x10", 16.0),
            ("-0X.8", -0.5),
            ("+0x1.8p1", 3.0),
            ("0x00000000000000000000000001", 1.0),
            ("0x.00000000000000000001p80", 1.0),
            ("0x1fffffffffffff", 9_007_199_254_740_991.0),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            (
                "0x200000000000010000000000000001p-64",
                9_007_199_254_740_994.0,
            ),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1p-1074", f64::from_bits(1)),
            ("0x1p-9999", 0.0),
        ] {
            assert_eq!(parse_float(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "0x", "0x.", "0xp1", "0x1p", "0x1pp1", "0x1.0.0", "0x-1", "0x1p1024",
        ] {
            assert_eq!(parse_float(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn floats_are_printed_without_exponent_or_idle_zeros() {
        assert_eq!(format_float(3.0), "3");
        assert_eq!(format_float(10.5 + 0.1), "10.6");
        assert_eq!(format_float(5.0e3), "5000");
        assert_eq!(format_float(-0.0), "0");
        assert_eq!(format_float(1e-18), "0");
        assert_eq!(format_float(-1e-18), "0");
        assert_eq!(format_float(1.5e-17), "0.00000000000000002");
        assert_eq!(parse_float(b"5.0e3"), Some(5000.0));
        assert_eq!(parse_float(b"nan"), None);
        assert_eq!(parse_float(b"inf"), Some(f64::INFINITY));
        assert_eq!(parse_float(b"1e400"), None);
        assert_eq!(parse_float(b" 1"), None);
        assert_eq!(parse_float(b""), None);
    }
}
