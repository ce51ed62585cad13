//! Numbers as the protocol writes them: strict decimal integers, and floats without an exponent.
//!
//! N1. `parse_i64` accepts exactly what `format_i64` produces: no sign `+`, no leading zeros, no
//!     spaces. What is stored by one client is a number for every other, or for none.
//! N2. Nothing here allocates, except `format_float`.
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

/// Reads a float: decimal with an optional exponent, or an infinity. Not-a-number is no number.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    (!value.is_nan()).then_some(value)
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
        assert_eq!(parse_float(b" 1"), None);
        assert_eq!(parse_float(b""), None);
    }
}
