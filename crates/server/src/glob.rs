//! Patterns of KEYS, SCAN and CONFIG GET: `*`, `?`, `[a-z]`, `[^a]`, and `\` before any of them.
//!
//! G1. Iterative: no pattern can exhaust the stack.
//! G2. Bounded: a text is matched in at most `pattern x text` steps, since only the last `*` is
//!     ever tried again, and patterns are at most [`PATTERN_BYTES_MAX`] long.
//!
//! Tests: below, against the definition on random patterns.

/// Longest pattern: 1 KiB.
pub(crate) const PATTERN_BYTES_MAX: usize = 1 << 10;

/// Whether `text` as a whole matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on after a mismatch: behind the last `*`, which then covers one byte more.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match one(&pattern[p..], text[t]) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => match retry {
                Some((after_star, from)) => {
                    p = after_star;
                    t = from + 1;
                    retry = Some((after_star, t));
                }
                None => return false,
            },
        }
    }
}

/// As [`matches`], ASCII letters equal in both cases.
pub(crate) fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    matches(&pattern.to_ascii_lowercase(), &text.to_ascii_lowercase())
}

/// The bytes every match begins with.
pub(crate) fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

/// Matches one byte against the pattern's first element; the element's length if it fits.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => {
            let (fits, used) = class(pattern, byte);
            fits.then_some(used)
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Matches one byte against `[...]`; an unclosed class ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match &pattern[at..] {
            [] => return (found != negated, at),
            [b']', ..] => return (found != negated, at + 1),
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
}

/// As [`matches`], by its definition: which beginnings of the pattern match which of the text.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn matches_by_table(pattern: &[u8], text: &[u8]) -> bool {
    // Whether what the pattern has from here on matches what the text has from each place on.
    let mut rows = vec![vec![false; text.len() + 1]; pattern.len() + 1];
    rows[pattern.len()][text.len()] = true;
    for p in (0..pattern.len()).rev() {
        for t in (0..=text.len()).rev() {
            let rest = text.get(t);
            rows[p][t] = match pattern[p] {
                b'*' => rows[p + 1][t] || (rest.is_some() && rows[p][t + 1]),
                _ => rest.is_some_and(|byte| {
                    one(&pattern[p..], *byte).is_some_and(|used| rows[p + used][t + 1])
                }),
            };
        }
    }
    rows[0][0]
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small bounds"
)]
mod tests {
    use super::*;
    use velella_sync::rng::Rng;

    #[test]
    fn the_elements_of_a_pattern_mean_what_they_say() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("[\\]]", "]", true),
            ("a[b", "ab", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(matches_ignoring_case(b"MAX*", b"maxclients"));
        assert_eq!(literal_prefix(b"user:1*2"), b"user:1");
        assert_eq!(literal_prefix(b"exact"), b"exact");
    }

    #[test]
    fn random_patterns_match_as_defined() {
        let mut rng = Rng::new(7);
        let mut draw = |letters: &[u8], most: u64| -> Vec<u8> {
            let len = rng.below(most);
            (0..len)
                .map(|_| letters[rng.below(letters.len() as u64) as usize])
                .collect()
        };
        for _ in 0..20_000 {
            let (pattern, text) = (draw(b"ab*?[]-\\^", 9), draw(b"ab-]", 9));
            let expected = matches_by_table(&pattern, &text);
            assert_eq!(matches(&pattern, &text), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_costs_no_more_than_its_length_times_the_text() {
        let pattern = b"*a".repeat(PATTERN_BYTES_MAX / 2);
        let text = vec![b'a'; 64 << 10];
        assert!(matches(&pattern, &text));
        let pattern = [&pattern[..], b"b"].concat();
        assert!(!matches(&pattern, &text));
    }
}
