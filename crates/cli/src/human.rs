//! Sizes, counts and times as people write and read them.
//!
//! Sizes are binary (KiB, MiB, GiB), in both directions: `64k`, `64KiB` and `65536` are one size.
//!
//! H1. What `bytes` prints, `parse_bytes` takes.
//!
//! Tests: below.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Reads a size: digits, perhaps a fraction, perhaps a unit (`k`, `KB`, `KiB`, … up to `T`).
///
/// # Errors
/// What is wrong with it, for people.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let letters = unit.to_ascii_lowercase();
    let scale = match letters.trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1_u64 << 40,
        _ => {
            return Err(format!(
                "`{unit}` is no unit of size: use KiB, MiB, GiB or TiB"
            ));
        }
    };
    scaled(number, scale).ok_or_else(|| format!("`{text}` is no size such as 64MiB or 1048576"))
}

/// Reads a length of time: digits and a unit (`us`, `ms`, `s`, `m`, `h`, `d`).
///
/// # Errors
/// What is wrong with it, for people.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let micros = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => {
            return Err(format!(
                "`{text}` is no time such as 500ms, 10s, 5m, 2h or 7d"
            ));
        }
    };
    scaled(number, micros)
        .map(Duration::from_micros)
        .ok_or_else(|| format!("`{text}` is no time such as 500ms, 10s, 5m, 2h or 7d"))
}

/// As [`parse_duration`]; `0`, which needs no unit, where none is a choice.
///
/// # Errors
/// As [`parse_duration`].
pub fn parse_duration_or_none(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "0" => Ok(Duration::ZERO),
        text => parse_duration(text),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// `number` times `scale`, exactly where `number` is whole; `None` where it is none or overflows.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let product = number.parse::<f64>().ok()? * float(scale);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to lie in the range of u64"
    )]
    (0.0..1e19)
        .contains(&product)
        .then_some(product.round() as u64)
}

/// A number for division and display: beyond 2^53 the last digits are lost, which nobody sees.
pub fn float(n: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    {
        n as f64
    }
}

/// A size with three significant digits: `1.25 GiB`, `512 B`.
pub fn bytes(n: u64) -> String {
    let (unit, scale) = UNITS
        .into_iter()
        .find(|(_, scale)| n >= *scale)
        .unwrap_or(("B", 1));
    match scale {
        1 => format!("{n} B"),
        _ => format!("{} {unit}", significant(float(n) / float(scale))),
    }
}

/// A count with separators: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `n` of something, in words: `1 pair`, `2 pairs`, `2 entries`.
pub fn counted(n: u64, one: &str) -> String {
    if n == 1 {
        return format!("1 {one}");
    }
    match one.strip_suffix("ry") {
        Some(stem) => format!("{} {stem}ries", count(n)),
        None => format!("{} {one}s", count(n)),
    }
}

/// A length of time with three significant digits: `850 us`, `1.25 s`, `3 min 20 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds >= 120.0 {
        let whole = time.as_secs();
        return format!("{} min {} s", whole / 60, whole % 60);
    }
    micros(seconds * 1e6)
}

/// Microseconds with three significant digits and the unit that suits them.
pub fn micros(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", significant(us / 1e6)),
        us if us >= 1e3 => format!("{} ms", significant(us / 1e3)),
        us if us >= 1.0 || us == 0.0 => format!("{} us", significant(us)),
        us => format!("{} ns", significant(us * 1e3)),
    }
}

/// A rate per second: `545,000/s`.
#[must_use]
pub fn rate(n: u64, time: Duration) -> String {
    let per_second = float(n) / time.as_secs_f64().max(1e-9);
    format!("{}/s", rate_of(per_second))
}

/// A rate as a count: `545,000`.
#[must_use]
pub fn rate_of(per_second: f64) -> String {
    count(whole(per_second))
}

/// As [`bytes`], of a size that was computed.
#[must_use]
pub fn bytes_of(n: f64) -> String {
    bytes(whole(n))
}

fn whole(x: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float saturates when cast, and these are not negative"
    )]
    {
        x.round() as u64
    }
}

fn significant(x: f64) -> String {
    match x {
        x if x >= 99.95 => format!("{x:.0}"),
        x if x >= 9.995 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("64k", 64 << 10),
            ("64KiB", 64 << 10),
            ("64 MB", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("1T", 1 << 40),
            ("7B", 7),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "1x", "1.2.3", "99999999999T", "1 KiB MiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_printed_size_can_be_read_back() {
        for n in [0, 1, 1023, 1 << 10, 1 << 20, 5 << 30] {
            assert_eq!(parse_bytes(&bytes(n)), Ok(n));
        }
        assert_eq!(bytes(1_342_177_280), "1.25 GiB");
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(parse_duration("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(604_800)));
        for text in ["", "5", "ms", "5 years", "1e3s"] {
            assert!(parse_duration(text).is_err(), "{text}");
            assert!(parse_duration_or_none(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_time_needs_no_unit_where_none_is_a_choice() {
        assert_eq!(parse_duration_or_none("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration_or_none("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_duration_or_none("5m"), Ok(Duration::from_secs(300)));
        let refused = parse_duration("0").unwrap_err();
        assert!(
            refused.contains("`0` is no time such as 500ms"),
            "{refused}"
        );
    }

    #[test]
    fn counts_and_times_read_well() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(counted(1, "pair"), "1 pair");
        assert_eq!(counted(2000, "pair"), "2,000 pairs");
        assert_eq!(counted(0, "entry"), "0 entries");
        assert_eq!(duration(Duration::from_micros(850)), "850 us");
        assert_eq!(duration(Duration::from_millis(1250)), "1.25 s");
        assert_eq!(duration(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(micros(0.25), "250 ns");
        assert_eq!(rate(1000, Duration::from_millis(500)), "2,000/s");
    }
}
