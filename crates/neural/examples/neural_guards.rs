//! Trains a network to choose guards, and compares it with the other selectors: S3's (VLDB '19)
//! figure 13 and what it leaves out.
//!
//! `neural_guards [keys] [guards] [searches] [records]`: prints how training went, the table of
//! `selector_bench` with the network beside the others, and how long each takes to choose, as a
//! multiple of the mixture of quantiles; selectors are timed in turn and each one's least counts.

#[path = "../../memtable/examples/selector_bench/comparison.rs"]
mod comparison;

use std::time::{Duration, Instant};
use velella_memtable::guards::{GuardSelector, SELECTORS};
use velella_neural::{Network, Optimum, Plan, SplitGuards, train};
use velella_sync::rng::Rng;

const ROUNDS: usize = 15;

fn trained() -> Network {
    let mut plan = Plan::default();
    if let Some(records) = std::env::args().nth(4).and_then(|n| n.parse().ok()) {
        plan.records = records;
    }
    println!(
        "training: {:?}, {} parameters, {} records in batches of {}, seed {}",
        plan.shape,
        Network::new(plan.shape, plan.seed).parameters.len(),
        plan.records,
        plan.batch,
        plan.seed
    );
    let begin = Instant::now();
    let (network, report) = train(&plan, &mut |records, divergence| {
        println!("  {records:>6} records: divergence {divergence:.4} nats");
    });
    println!("  {:.0} s in all", begin.elapsed().as_secs_f64());
    println!(
        "  {} unseen records: divergence {:.4}; cost {:.3}, least {:.3}, by accesses {:.3}, \
         equal {:.3}",
        plan.tests, report.divergence, report.cost, report.least, report.by_accesses, report.equal
    );
    network
}

/// How long each selector takes, for keys spread evenly and accesses at half of them.
fn print_times(selectors: &[&dyn GuardSelector], guards: usize) {
    let mut rng = Rng::new(1);
    let mut words: Vec<u64> = (0..8 * guards).map(|_| rng.next_u64() >> 33).collect();
    words.sort_unstable();
    let accesses = &words[words.len() / 2..];
    let mut least = vec![Duration::MAX; selectors.len()];
    for _ in 0..ROUNDS {
        for (selector, least) in selectors.iter().zip(&mut least) {
            let begin = Instant::now();
            let chosen = selector.select(&words, accesses, guards);
            *least = begin.elapsed().min(*least);
            assert!(chosen.len() <= guards, "{}", selector.name());
        }
    }
    let mixed = selectors.iter().position(|s| s.name() == "mixed");
    let unit = mixed.map_or(Duration::from_micros(1), |at| least[at]);
    println!("time to choose {guards} guards, as a multiple of the mixture's");
    for (selector, least) in selectors.iter().zip(&least) {
        let ratio = least.as_secs_f64() / unit.as_secs_f64();
        println!("  {:<17} {ratio:>9.2}", selector.name());
    }
}

fn main() {
    let (keys, guards, searches) = comparison::sizes();
    let network = trained();
    let optimum = Optimum {
        ranges: network.shape().ranges,
    };
    // The comparison samples eight keys for each guard.
    let keys_per_word = (keys / (8 * guards)).max(1);
    let optimum = SplitGuards::new(optimum, keys_per_word);
    let neural = SplitGuards::new(network, keys_per_word);
    let mut selectors = SELECTORS.to_vec();
    selectors.push(&optimum);
    selectors.push(&neural);
    comparison::print(&selectors, keys, guards, searches);
    print_times(&selectors, guards);
}
