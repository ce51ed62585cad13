//! What each way to choose guards costs: S3's (VLDB '19) figure 13, and what it leaves out.
//!
//! For each distribution of keys and accesses and each selector: the mean number of keys that a
//! search compares below its guard, of steps that depend on one another (levels gone down and nodes
//! passed), the same at the worst of a thousand searches, and how many guards stood in the end.
//! What is searched is a skip list with p = 1/4 whose search begins at the last guard before the
//! key, as high as that guard's area needs; samples are eight accesses and eight keys a guard, as
//! an engine would have them.
//!
//! Gaussian: sigma = 10^7 around the middle of 2^31; Zipf: theta = 0.5 over ranks, as in the paper.

use velella_memtable::guards::GuardSelector;
use velella_sync::rng::Rng;

/// A way to draw key words.
#[derive(Debug, Clone, Copy)]
enum Draw {
    Uniform,
    Gaussian,
    /// Ranks drawn by Zipf's law, spread over the key space or not.
    Zipf {
        is_spread: bool,
    },
    /// Twenty narrow centres of falling weight.
    Centres,
    /// All keys in order of arrival, the accesses to the newest eighth.
    Newest,
    /// Near the newest: half of them nearer than the root of the key space.
    Latest,
    /// Keys of sixteen bytes of which the first eight are one of four.
    SharedPrefix,
    /// Keys that begin with the same 40 bytes, then with one of 100,000 numbers of five digits of
    /// falling weight and a slash, then differ: as the directory does, words leave out what all
    /// have in common.
    ManyPrefixes,
}

const SPACE: u64 = 1 << 31;

fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn word(fraction: f64, space: u64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2^31"
    )]
    let word = (fraction.clamp(0.0, 1.0) * (space - 1) as f64) as u64;
    word
}

impl Draw {
    fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Draw::Uniform => word(unit(rng), SPACE),
            Draw::Gaussian => {
                let sum: f64 = (0..12).map(|_| unit(rng)).sum();
                word(0.5 + (sum - 6.0) * 1e7 / SPACE as f64, SPACE)
            }
            Draw::Zipf { is_spread } => {
                // The inverse of the distribution's integral: ranks to the power of 1 - theta.
                let rank = word(unit(rng).powi(2), SPACE);
                match is_spread {
                    true => rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33,
                    false => rank,
                }
            }
            Draw::Centres => {
                let rank = unit(rng).powi(2) * 20.0;
                let centre = Rng::new(word(rank / 20.0, 21)).next_u64() % SPACE;
                let sum: f64 = (0..12).map(|_| unit(rng)).sum();
                word(centre as f64 / SPACE as f64 + (sum - 6.0) * 0.002, SPACE)
            }
            Draw::Newest => word(0.875 + unit(rng) / 8.0, SPACE),
            Draw::Latest => {
                let distance = (SPACE as f64).powf(unit(rng));
                word(1.0 - distance / SPACE as f64, SPACE)
            }
            Draw::ManyPrefixes => {
                let rank = word(unit(rng).powi(2), 100_001);
                let digits = format!("{:05}/", rank * 61_803 % 100_000);
                let mut bytes = [0; 8];
                bytes[..6].copy_from_slice(digits.as_bytes());
                bytes[6..].copy_from_slice(&rng.next_u64().to_be_bytes()[..2]);
                u64::from_be_bytes(bytes)
            }
            Draw::SharedPrefix => {
                let prefix = [*b"customer", *b"invoices", *b"sessions", *b"user:100"];
                let which = word(unit(rng), 5).min(3);
                u64::from_be_bytes(prefix[usize::try_from(which).expect("below four")])
            }
        }
    }
}

/// What searches cost.
#[derive(Debug, Default)]
struct Cost {
    comparisons: f64,
    steps: f64,
    worst: f64,
    guards: usize,
}

/// Heights of the nodes: the number of levels above the bottom.
fn heights(count: usize) -> Vec<u32> {
    let mut rng = Rng::new(7);
    (0..count)
        .map(|_| (rng.next_u64().trailing_zeros() / 2).min(12))
        .collect()
}

/// A search in the list of `keys` from place `start` (0: the head) for place `goal`, from `levels`
/// levels: comparisons and dependent steps.
fn search(next: &[Vec<u32>], start: usize, goal: usize, levels: usize) -> (u64, u64) {
    let (mut comparisons, mut steps) = (0, 0);
    let mut at = start;
    let mut above = u32::MAX;
    for level in (0..levels).rev() {
        loop {
            let candidate = next[at].get(level).copied().unwrap_or(u32::MAX);
            if candidate == above {
                break;
            }
            comparisons += 1;
            steps += 1;
            if candidate as usize > goal {
                above = candidate;
                break;
            }
            at = candidate as usize;
        }
        steps += 1;
    }
    (comparisons, steps)
}

/// The list as arrays: `next[place][level]` is the next place at that level; place 0 is the head.
fn link(heights: &[u32]) -> Vec<Vec<u32>> {
    let mut last = [u32::MAX; 14];
    let mut next: Vec<Vec<u32>> = vec![Vec::new(); heights.len() + 1];
    for place in (0..=heights.len()).rev() {
        let levels = match place {
            0 => 14,
            _ => heights[place - 1] as usize + 1,
        };
        next[place] = last[..levels].to_vec();
        last[..levels].fill(u32::try_from(place).expect("few"));
    }
    next
}

/// The places at which guards stand: for each word the highest node of its area, the first of
/// several; but none that is far too low for the way to the next one.
fn stand(words: &[u64], keys: &[u64], heights: &[u32]) -> Vec<usize> {
    let mut bounds: Vec<usize> = words
        .iter()
        .map(|word| keys.partition_point(|key| key < word))
        .collect();
    bounds.push(keys.len());
    let mut guards = Vec::new();
    let mut end = keys.len();
    for area in bounds.windows(2).rev() {
        let highest = heights[area[0]..area[1]].iter().max();
        let Some(first) = (area[0]..area[1]).find(|at| Some(&heights[*at]) == highest) else {
            continue;
        };
        if heights[first] as usize + 2 >= enough(end - first) {
            guards.push(first + 1);
            end = first;
        }
    }
    guards.reverse();
    guards
}

/// How many levels a search of so many nodes needs.
fn enough(nodes: usize) -> usize {
    (nodes.max(1).ilog2() as usize).div_ceil(2) + 1
}

/// Eight words for each of `count` guards, sorted.
fn sample(words: &[u64], count: usize) -> Vec<u64> {
    let each = (words.len() / (8 * count)).max(1);
    let mut sample: Vec<u64> = words.iter().copied().step_by(each).collect();
    sample.sort_unstable();
    sample
}

/// What a selector is told, sorted: words of keys and of accesses.
fn told(seen: Seen, keys: &[u64], accesses: &[u64], count: usize) -> (Vec<u64>, Vec<u64>) {
    match seen {
        Seen::All => (sample(keys, count), sample(accesses, count)),
        Seen::OlderHalf => {
            let then: Vec<u64> = accesses.iter().map(|word| word / 2).collect();
            (sample(&keys[..keys.len() / 2], count), sample(&then, count))
        }
    }
}

fn measure(
    selector: &dyn GuardSelector,
    seen: Seen,
    keys: &[u64],
    accesses: &[u64],
    count: usize,
    next: &[Vec<u32>],
    heights: &[u32],
) -> Cost {
    let (data, accessed) = told(seen, keys, accesses, count);
    let words = selector.select(&data, &accessed, count);
    let guards = stand(&words, keys, heights);
    let mut costs = Vec::with_capacity(accesses.len());
    let mut cost = Cost {
        guards: guards.len(),
        ..Cost::default()
    };
    for access in accesses {
        // The last node at or below what is searched for.
        let goal = keys.partition_point(|key| key <= access);
        let guard = guards.partition_point(|guard| *guard <= goal);
        let start = guard.checked_sub(1).map_or(0, |guard| guards[guard]);
        let end = guards.get(guard).copied().unwrap_or(keys.len() + 1);
        let levels = match start {
            0 => 14,
            _ => next[start].len().min(enough(end - start)),
        };
        let (comparisons, steps) = search(next, start, goal, levels);
        cost.comparisons += comparisons as f64;
        cost.steps += steps as f64;
        costs.push(steps as f64);
    }
    let searches = accesses.len() as f64;
    cost.comparisons /= searches;
    cost.steps /= searches;
    costs.sort_by(f64::total_cmp);
    cost.worst = costs[costs.len() - 1 - costs.len() / 1000];
    cost
}

/// Which keys there were when guards were chosen.
#[derive(Debug, Clone, Copy)]
enum Seen {
    All,
    /// Half of them: the lower one, if keys come in order. Accesses were distributed alike.
    OlderHalf,
}

/// The distributions that are compared.
const CASES: [(&str, Draw, Draw, Seen); 13] = [
    ("uniform", Draw::Uniform, Draw::Uniform, Seen::All),
    ("Gaussian", Draw::Gaussian, Draw::Gaussian, Seen::All),
    (
        "Zipf",
        Draw::Zipf { is_spread: false },
        Draw::Zipf { is_spread: false },
        Seen::All,
    ),
    (
        "uniform, Zipf spread",
        Draw::Uniform,
        Draw::Zipf { is_spread: true },
        Seen::All,
    ),
    (
        "uniform, Gaussian",
        Draw::Uniform,
        Draw::Gaussian,
        Seen::All,
    ),
    (
        "Gaussian, uniform",
        Draw::Gaussian,
        Draw::Uniform,
        Seen::All,
    ),
    (
        "uniform, 20 centres",
        Draw::Uniform,
        Draw::Centres,
        Seen::All,
    ),
    (
        "20 centres, uniform",
        Draw::Centres,
        Draw::Uniform,
        Seen::All,
    ),
    ("ascending, newest", Draw::Uniform, Draw::Newest, Seen::All),
    (
        "4 shared prefixes",
        Draw::SharedPrefix,
        Draw::SharedPrefix,
        Seen::All,
    ),
    (
        "40 shared, 100,000",
        Draw::ManyPrefixes,
        Draw::ManyPrefixes,
        Seen::All,
    ),
    ("monotonic, latest", Draw::Uniform, Draw::Latest, Seen::All),
    (
        "the same, half seen",
        Draw::Uniform,
        Draw::Latest,
        Seen::OlderHalf,
    ),
];

/// Prints what searches cost by each selector.
pub(crate) fn print(
    selectors: &[&dyn GuardSelector],
    count: usize,
    guards: usize,
    searches: usize,
) {
    println!("{count} keys, {guards} guards, {searches} searches");
    println!("  keys, accesses         selector          guards comparisons  steps  worst of 1000");
    for (name, data, access, seen) in CASES {
        let mut rng = Rng::new(1);
        let draw = |count: usize, draw: Draw, rng: &mut Rng| -> Vec<u64> {
            (0..count).map(|_| draw.draw(rng)).collect()
        };
        let mut keys = draw(count, data, &mut rng);
        keys.sort_unstable();
        let heights = heights(keys.len());
        let next = link(&heights);
        let accesses = draw(searches, access, &mut rng);
        for selector in selectors {
            let cost = measure(*selector, seen, &keys, &accesses, guards, &next, &heights);
            println!(
                "  {name:<22} {:<17} {:>6} {:>11.2} {:>6.2} {:>6.0}",
                selector.name(),
                cost.guards,
                cost.comparisons,
                cost.steps,
                cost.worst,
            );
        }
    }
}

/// Keys, guards and searches from the arguments.
pub(crate) fn sizes() -> (usize, usize, usize) {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|n| n.parse::<usize>().ok());
    let mut next = |default| arguments.next().unwrap_or(default);
    (next(1_000_000), next(4096), next(100_000))
}
