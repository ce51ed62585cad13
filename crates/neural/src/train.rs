//! Training: questions are drawn, answered, compared with the optimum, and learned from.
//!
//! Source: S3 (VLDB '19) 5.2 takes 45,000 records to train on and 5,000 to test with; how, it does
//! not say. Here no record is seen twice, so that none can be learned by heart; the records of the
//! test come from another seed. Batches, Adam, and a rate that falls evenly to nothing.
//!
//! R1. A plan and a build determine the network: one thread, no clock.
//!
//! Threads: one. Tests: below.

use crate::adam::Adam;
use crate::network::{Network, Shape};
use crate::optimum;
use crate::question::{Answer, Question};
use crate::workload;
use velella_sync::rng::Rng;

/// How to train.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The network's sizes.
    pub shape: Shape,
    /// Decides parameters, records and tests.
    pub seed: u64,
    /// Questions to learn from.
    pub records: usize,
    /// Questions whose gradients are averaged for one step.
    pub batch: usize,
    /// How far a parameter moves at most in the first step; falls evenly to 0.
    pub rate: f32,
    /// Questions to test with.
    pub tests: usize,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            shape: Shape::default(),
            seed: 1,
            records: 45_000,
            batch: 16,
            rate: 4e-3,
            tests: 1000,
        }
    }
}

/// What a network is worth on questions that it has not seen: means.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// Divergence from the optimum's shares, in nats.
    pub divergence: f64,
    /// Cost of the network's shares: log2 of one more than the keys per guard where accesses are.
    pub cost: f64,
    /// Cost of the optimum's.
    pub least: f64,
    /// Cost of equal shares.
    pub equal: f64,
    /// Cost of shares as the accesses'.
    pub by_accesses: f64,
}

/// Trains a network. `progress` hears how many records were learned from and the mean divergence
/// of those since it last heard, about twenty times.
pub fn train(plan: &Plan, progress: &mut dyn FnMut(usize, f32)) -> (Network, Report) {
    let mut network = Network::new(plan.shape, plan.seed);
    let mut adam = Adam::new(network.parameters.len());
    let mut gradient = vec![0.0; network.parameters.len()];
    let mut rng = Rng::new(plan.seed ^ 0x7261_696e);
    let batches = plan.records.div_ceil(plan.batch).max(1);
    let (mut sum, mut heard) = (0.0, 0);
    for batch in 0..batches {
        gradient.fill(0.0);
        for _ in 0..plan.batch {
            let question = workload::draw(&mut rng, plan.shape.ranges);
            let truth = optimum::shares(&question);
            sum += network.learn(&question, &truth, &mut gradient);
        }
        for slope in &mut gradient {
            *slope /= plan.batch as f32;
        }
        let rate = plan.rate * (1.0 - batch as f32 / batches as f32);
        adam.step(&mut network.parameters, &gradient, rate);
        let done = batch + 1;
        if done * 20 / batches > batch * 20 / batches {
            progress(
                done * plan.batch,
                sum / ((done - heard) * plan.batch) as f32,
            );
            (sum, heard) = (0.0, done);
        }
    }
    let report = test(&network, plan);
    (network, report)
}

/// Asks what the network has not seen.
fn test(network: &Network, plan: &Plan) -> Report {
    let mut rng = Rng::new(plan.seed ^ 0x7465_7374);
    let mut report = Report {
        divergence: 0.0,
        cost: 0.0,
        least: 0.0,
        equal: 0.0,
        by_accesses: 0.0,
    };
    let each = 1.0 / plan.tests as f64;
    for _ in 0..plan.tests {
        let question = workload::draw(&mut rng, plan.shape.ranges);
        let truth = optimum::shares(&question);
        let cost = |shares: &[f32]| optimum::cost(&question, shares) * each;
        report.divergence += f64::from(network.divergence(&question, &truth)) * each;
        report.cost += cost(&network.shares(&question));
        report.least += cost(&truth);
        report.equal += cost(&vec![1.0 / question.ranges() as f32; question.ranges()]);
        report.by_accesses += cost(&by_accesses(&question));
    }
    report
}

fn by_accesses(question: &Question) -> Vec<f32> {
    let all: f32 = question.accesses.iter().sum();
    let share = |q: &f32| q / all.max(f32::MIN_POSITIVE);
    question.accesses.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toy() -> Plan {
        Plan {
            shape: Shape {
                ranges: 8,
                width: 8,
                coarse: 4,
                hidden: 8,
            },
            seed: 7,
            records: 4000,
            batch: 8,
            rate: 1e-2,
            tests: 200,
        }
    }

    #[test]
    fn a_small_network_learns_and_costs_less_than_equal_shares() {
        let mut heard = Vec::new();
        let (_, report) = train(&toy(), &mut |_, divergence| heard.push(divergence));
        let (first, last) = (heard[0], heard[heard.len() - 1]);
        assert!(last < first / 2.0, "{heard:?}");
        assert!(report.divergence < 0.25, "{report:?}");
        assert!(report.least <= report.cost, "{report:?}");
        let gain = report.equal - report.cost;
        assert!(gain > 0.7 * (report.equal - report.least), "{report:?}");
    }

    #[test]
    fn the_same_plan_trains_the_same_network() {
        let plan = Plan {
            records: 80,
            tests: 1,
            ..toy()
        };
        let (one, _) = train(&plan, &mut |_, _| ());
        let (same, _) = train(&plan, &mut |_, _| ());
        assert_eq!(one.parameters, same.parameters);
        let (other, _) = train(&Plan { seed: 8, ..plan }, &mut |_, _| ());
        assert_ne!(one.parameters, other.parameters);
    }
}
