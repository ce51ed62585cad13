//! Distributions to train on: questions drawn from a wide family, with a seed.
//!
//! Source: S3 (VLDB '19) 5.2 trains on 50,000 memtables replayed from a log. There is no log to
//! replay here, so distributions are drawn: keys and accesses are each a mixture of what the
//! paper's experiments name (even, normal, Zipf, many centres) and what they leave out (gaps, the
//! newest keys, steps), often the same one for both. Counts vary as those of samples do, from a
//! handful to tens of thousands: a range that is split again has few.
//!
//! W1. The same generator gives the same questions.
//! W2. Accesses count where they end, as a selector counts them.
//!
//! Threads: plain data. Tests: below.

use crate::dense::unit;
use crate::question::Question;
use velella_sync::rng::Rng;

/// Draws a question over so many ranges. At least one key is counted.
pub fn draw(rng: &mut Rng, ranges: usize) -> Question {
    let of_keys = density(rng, ranges);
    let of_accesses = match rng.below(4) {
        0 => of_keys.clone(),
        _ => density(rng, ranges),
    };
    let keys = log_uniform(rng, 8.0, 65536.0);
    let mut keys = counts(rng, &of_keys, keys);
    if keys.iter().all(|d| *d == 0.0) {
        let range = place(rng, ranges);
        keys[range] = 1.0;
    }
    let accesses = log_uniform(rng, 8.0, 65536.0);
    let accesses = ends(&counts(rng, &of_accesses, accesses), &keys);
    let keys_per_word = log_uniform(rng, 1.0, 64.0).round();
    for words in &mut keys {
        *words *= keys_per_word;
    }
    let all: f32 = keys.iter().sum();
    let guards = (all / log_uniform(rng, 2.0, 512.0)).ceil().max(2.0);
    Question {
        accesses,
        keys,
        guards,
    }
}

/// Accesses where their searches end: in the last range with keys that is not above.
fn ends(accesses: &[f32], keys: &[f32]) -> Vec<f32> {
    let mut ends = vec![0.0; accesses.len()];
    let mut last = None;
    for (range, (q, d)) in accesses.iter().zip(keys).enumerate() {
        if *d > 0.0 {
            last = Some(range);
        }
        if let Some(last) = last {
            ends[last] += q;
        }
    }
    ends
}

/// A density over the ranges, of sum 1: one to three parts.
fn density(rng: &mut Rng, ranges: usize) -> Vec<f32> {
    let mut density = vec![1e-9; ranges];
    for _ in 0..=rng.below(3) {
        let weight = 0.05 + unit(rng);
        let part = part(rng, ranges);
        let sum = part.iter().sum::<f32>().max(f32::MIN_POSITIVE);
        for (all, one) in density.iter_mut().zip(part) {
            *all += weight * one / sum;
        }
    }
    let sum: f32 = density.iter().sum();
    density.iter().map(|one| one / sum).collect()
}

/// One kind of distribution.
fn part(rng: &mut Rng, ranges: usize) -> Vec<f32> {
    let at = |range: usize| (range as f32 + 0.5) / ranges as f32;
    match rng.below(6) {
        0 => vec![1.0; ranges],
        // Normal around one to twenty centres.
        1 | 2 => {
            let mut sum = vec![0.0; ranges];
            for _ in 0..=rng.below(20) {
                let (centre, weight) = (unit(rng) * 1.2 - 0.1, unit(rng));
                let width = log_uniform(rng, 0.004, 0.4);
                for (range, all) in sum.iter_mut().enumerate() {
                    let away = (at(range) - centre) / width;
                    *all += weight * (-away * away / 2.0).exp() + 1e-12;
                }
            }
            sum
        }
        // Zipf over ranks, from either end or spread.
        3 => {
            let theta = 0.2 + unit(rng);
            let (from_end, is_spread) = (rng.below(2) == 0, rng.below(3) == 0);
            let mut falling: Vec<f32> = (0..ranges).map(|r| at(r).powf(-theta)).collect();
            if is_spread {
                for last in (1..ranges).rev() {
                    falling.swap(last, place(rng, last + 1));
                }
            } else if from_end {
                falling.reverse();
            }
            falling
        }
        // Even between two bounds: gaps, the newest keys.
        4 => {
            let (one, other) = (unit(rng), if rng.below(2) == 0 { 1.0 } else { unit(rng) });
            let (low, high) = (one.min(other), one.max(other));
            (0..ranges)
                .map(|r| {
                    if at(r) >= low && at(r) <= high {
                        1.0
                    } else {
                        1e-12
                    }
                })
                .collect()
        }
        // A few single ranges.
        _ => {
            let mut spikes = vec![1e-12; ranges];
            for _ in 0..=rng.below(8) {
                let range = place(rng, ranges);
                spikes[range] += unit(rng);
            }
            spikes
        }
    }
}

/// How often each range comes up in about `total` draws.
fn counts(rng: &mut Rng, density: &[f32], total: f32) -> Vec<f32> {
    density
        .iter()
        .map(|part| poisson(rng, part * total))
        .collect()
}

/// Poisson's distribution: by counting (Knuth), or where that takes long, as a normal one.
fn poisson(rng: &mut Rng, mean: f32) -> f32 {
    if mean > 16.0 {
        let normal: f32 = (0..12).map(|_| unit(rng)).sum::<f32>() - 6.0;
        return (mean + mean.sqrt() * normal).round().max(0.0);
    }
    let bound = (-mean).exp();
    let (mut product, mut count) = (unit(rng), 0.0);
    while product > bound {
        product *= unit(rng);
        count += 1.0;
    }
    count
}

fn log_uniform(rng: &mut Rng, low: f32, high: f32) -> f32 {
    low * (high / low).powf(unit(rng))
}

fn place(rng: &mut Rng, ranges: usize) -> usize {
    usize::try_from(rng.below(ranges as u64)).expect("below a length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_repeat_by_seed_and_have_keys() {
        let (mut rng, mut again) = (Rng::new(9), Rng::new(9));
        for _ in 0..200 {
            let question = draw(&mut rng, 16);
            assert!(question.keys.iter().sum::<f32>() >= 1.0);
            assert!(question.guards >= 1.0);
            let numbers = question.keys.iter().chain(&question.accesses);
            assert!(numbers.clone().all(|n| n.is_finite() && *n >= 0.0));
            let same = draw(&mut again, 16);
            assert_eq!(
                (question.keys, question.accesses),
                (same.keys, same.accesses)
            );
        }
    }

    #[test]
    fn counts_have_the_mean_that_was_asked_for() {
        let mut rng = Rng::new(2);
        for mean in [0.5f32, 8.0, 400.0] {
            let sum: f32 = (0..2000).map(|_| poisson(&mut rng, mean)).sum();
            let found = sum / 2000.0;
            assert!((found - mean).abs() < 0.1 * mean, "{mean}: {found}");
        }
    }
}
