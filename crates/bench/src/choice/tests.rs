//! What the distributions draw, against what their sources say.

use super::*;
use std::collections::HashMap;

const DRAWS: u64 = 200_000;
const KEYS: u64 = 100_000;

/// How often each key was drawn, the most popular first.
fn drawn(choice: Choice, draws: u64) -> Vec<u64> {
    let chooser = Chooser::new(choice, KEYS, 5);
    let mut random = Random::new(9);
    let below = |_| chooser.draw(&mut random, KEYS) < KEYS;
    let bounded = !matches!(choice, Choice::ZipfUnbounded(_));
    assert!(!bounded || (0..draws).all(below), "C1");
    chooser.popularity(draws)
}

fn top(counts: &[u64], keys: usize) -> f64 {
    let top: u64 = counts.iter().take(keys).sum();
    top as f64 / counts.iter().sum::<u64>() as f64
}

#[test]
fn bounded_zipf_has_the_shares_of_its_formula() {
    let counts = drawn(Choice::Zipf(0.99), DRAWS);
    let zeta: f64 = (1..=KEYS).map(|i| (i as f64).powf(-0.99)).sum();
    let expected = 1.0 / zeta;
    let hottest = top(&counts, 1);
    assert!(
        (hottest - expected).abs() < 0.1 * expected,
        "{hottest} {expected}"
    );
    let ten: f64 = (1..=10).map(|i| f64::from(i).powf(-0.99)).sum::<f64>() / zeta;
    let found = top(&counts, 10);
    assert!((found - ten).abs() < 0.1 * ten, "{found} {ten}");
    assert!(top(&drawn(Choice::Zipf(0.5), DRAWS), 1) < hottest / 10.0);
}

#[test]
fn unbounded_zipf_is_as_skewed_as_the_papers() {
    // JellyFish: a million draws with a = 1.2 have 13.3 % distinct keys, the hottest 17.9 %.
    let draws = 1_000_000;
    let counts = drawn(Choice::ZipfUnbounded(1.2), draws);
    let distinct = counts.len() as f64 / draws as f64;
    assert!((0.125..0.140).contains(&distinct), "{distinct}");
    let hottest = top(&counts, 1);
    assert!((0.174..0.184).contains(&hottest), "{hottest}");
}

#[test]
fn production_popularity_is_that_of_the_logs() {
    let counts = drawn(Choice::Production, 2_000_000);
    let tenth = top(&counts, usize::try_from(KEYS / 10).unwrap());
    assert!(tenth > 0.75, "{tenth}");
    let few = top(&counts, usize::try_from(KEYS / 50).unwrap());
    assert!(few > 0.5, "{few}");
}

#[test]
fn hot_blocks_get_nine_draws_in_ten() {
    let chooser = Chooser::new(Choice::HotBlocks, KEYS, 5);
    let mut random = Random::new(9);
    let hot = (0..DRAWS)
        .filter(|_| (chooser.draw(&mut random, KEYS) / BLOCK_KEYS).is_multiple_of(HOT_EVERY))
        .count();
    let share = hot as f64 / DRAWS as f64;
    assert!((0.90..0.93).contains(&share), "{share}");
}

#[test]
fn uniform_latest_normal_and_centres_are_what_they_say() {
    assert!(top(&drawn(Choice::Uniform, DRAWS), 1) < 0.0002);
    let mean = |choice| {
        let chooser = Chooser::new(choice, KEYS, 5);
        let mut random = Random::new(9);
        let sum: u64 = (0..DRAWS).map(|_| chooser.draw(&mut random, KEYS)).sum();
        sum as f64 / DRAWS as f64 / KEYS as f64
    };
    assert!(mean(Choice::Latest) > 0.8);
    assert!((0.49..0.51).contains(&mean(Choice::Normal(0.1))));
    // The rank before the hottest centre's neighbours: sixteen centres share the hottest draws.
    let counts = drawn(Choice::Centres(16), DRAWS);
    assert!(counts[15] * 2 > counts[0], "{:?}", &counts[..20]);
    assert!(counts[0] > 50 * counts[5_000]);
}

#[test]
fn first_components_are_zipf_and_second_ones_uniform() {
    const EACH: u64 = 100;
    let chooser = Chooser::new(Choice::Composite(EACH), KEYS + 7, 5);
    let mut random = Random::new(9);
    let (mut firsts, mut seconds) = (HashMap::new(), vec![0u64; EACH as usize]);
    for _ in 0..DRAWS {
        let n = chooser.draw(&mut random, KEYS + 7);
        assert!(n < KEYS, "only whole groups");
        *firsts.entry(n / EACH).or_insert(0u64) += 1;
        seconds[(n % EACH) as usize] += 1;
    }
    let zeta: f64 = (1..=KEYS / EACH).map(|i| (i as f64).powf(-0.99)).sum();
    let hottest = *firsts.values().max().unwrap() as f64 / DRAWS as f64;
    // Two ranks may be scattered to the same component.
    let share = 1.0 / zeta;
    assert!(
        (share * 0.95..share * 1.6).contains(&hottest),
        "{hottest} {share}"
    );
    let even = DRAWS / EACH;
    assert!(
        seconds
            .iter()
            .all(|&n| (even * 9 / 10..even * 11 / 10).contains(&n))
    );
    // Fewer keys than a group has: as good as uniform.
    let few = Chooser::new(Choice::Composite(EACH), 3, 5);
    assert!((0..100).all(|_| few.draw(&mut random, 3) < 3));
}

#[test]
fn what_is_popular_stays_so_while_keys_are_inserted() {
    let chooser = Chooser::new(Choice::Zipf(0.99), KEYS, 1);
    let mut random = Random::new(3);
    let mut counts = HashMap::new();
    for draw in 0..DRAWS {
        let n = chooser.draw(&mut random, KEYS + draw / 20);
        *counts.entry(n).or_insert(0) += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    assert!(most * 25 > DRAWS, "{most} of {DRAWS}");
}

#[test]
fn the_same_seed_draws_the_same_keys() {
    let draw = |seed| {
        let chooser = Chooser::new(Choice::Zipf(0.99), KEYS, 1);
        let mut random = Random::new(seed);
        (0..100)
            .map(|_| chooser.draw(&mut random, KEYS))
            .collect::<Vec<_>>()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}
