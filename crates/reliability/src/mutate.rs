//! Changes inputs at random: flips, numbers at which arithmetic breaks, words, splices.
//!
//! Source: the mutations of AFL (Zalewski, "Binary fuzzing strategies: what works, what doesn't"),
//! without its coverage: libFuzzer does that, on nightly.
//!
//! U1. The same seed makes the same changes.
//!
//! Threads: none. Tests: below.

use velella_testkit::Seed;

/// The longest input that is made.
const BYTES_MAX: usize = 64 << 10;
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// `input`, changed some times.
pub fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&[u8]], seed: &mut Seed) {
    // Mostly one change, seldom many: each may undo what the others reach.
    let times = 1 + seed.index(1 + seed.clone().index(8));
    for _ in 0..times {
        change(input, others, words, seed);
    }
    input.truncate(BYTES_MAX);
}

fn change(input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&[u8]], seed: &mut Seed) {
    if input.is_empty() {
        input.push(byte(seed));
    }
    let at = seed.index(input.len());
    match seed.below(12) {
        0..=1 => input[at] ^= 1 << seed.below(8),
        2 => input[at] = byte(seed),
        3 => input[at] = input[at].wrapping_add(byte(seed) % 33).wrapping_sub(16),
        4 => {
            let number = seed.pick(&NUMBERS).to_le_bytes();
            let number = if seed.one_in(2) {
                number
            } else {
                reversed(number)
            };
            let width = 1 << seed.index(4);
            overwrite(input, at, &number[..width.min(8)]);
        }
        5 => {
            let end = (at + 1 + seed.index(16)).min(input.len());
            input.drain(at..end);
        }
        6 => {
            let piece: Vec<u8> = (0..=seed.index(12)).map(|_| byte(seed)).collect();
            drop(input.splice(at..at, piece));
        }
        7 => {
            let end = (at + 1 + seed.index(32)).min(input.len());
            let piece = input[at..end].to_vec();
            let to = seed.index(input.len());
            drop(input.splice(to..to, piece));
        }
        8 if !words.is_empty() => {
            let word = seed.pick(words).to_vec();
            let end = if seed.one_in(2) {
                at
            } else {
                (at + word.len()).min(input.len())
            };
            drop(input.splice(at..end, word));
        }
        9 => {
            // A length that says more or less than there is.
            let grown = u16::from_le_bytes([input[at], byte(seed)]);
            overwrite(input, at, &grown.wrapping_add(1).to_le_bytes());
        }
        10 if !others.is_empty() => {
            let other = seed.pick(others);
            let from = seed.index(other.len().max(1));
            let piece = other.get(from..).unwrap_or_default().to_vec();
            let end = if seed.one_in(2) { input.len() } else { at };
            drop(input.splice(at..end, piece));
        }
        _ => {
            let end = (at + 1 + seed.index(8)).min(input.len());
            input[at..end].fill(if seed.one_in(2) { 0 } else { 0xff });
        }
    }
}

fn overwrite(input: &mut [u8], at: usize, piece: &[u8]) {
    for (to, from) in input[at..].iter_mut().zip(piece) {
        *to = *from;
    }
}

fn reversed(mut bytes: [u8; 8]) -> [u8; 8] {
    bytes.reverse();
    bytes
}

fn byte(seed: &mut Seed) -> u8 {
    u8::try_from(seed.below(256)).unwrap_or(0)
}

/// A shorter input that is still `bad`, by leaving out ever smaller pieces.
pub fn shrink(input: &[u8], bad: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut piece = best.len().div_ceil(2);
    let mut tries = 0;
    while piece > 0 && tries < 2_000 {
        let mut at = 0;
        while at < best.len() && tries < 2_000 {
            tries += 1;
            let mut shorter = best.clone();
            shorter.drain(at..(at + piece).min(best.len()));
            if bad(&shorter) {
                best = shorter;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_changes_and_another_makes_others() {
        let made = |number| {
            let (mut seed, mut input) = (Seed::new("mutate", number), vec![7; 40]);
            mutate(&mut input, &[vec![1, 2, 3]], &[b"word"], &mut seed);
            input
        };
        assert_eq!(made(3), made(3));
        assert!((4..20).any(|number| made(number) != made(3)));
    }

    #[test]
    fn shrinking_keeps_what_matters() {
        let input: Vec<u8> = (0..200).collect();
        let bad = |input: &[u8]| input.contains(&17) && input.contains(&150);
        assert_eq!(shrink(&input, bad), [17, 150]);
    }
}
