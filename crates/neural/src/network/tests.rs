//! Every gradient beside the difference that it stands for; and that answers are shares.

use super::*;
use crate::optimum;
use crate::workload;

fn small() -> Shape {
    Shape {
        ranges: 6,
        width: 5,
        coarse: 3,
        hidden: 4,
    }
}

/// A network whose biases are not 0, so that no term of the gradient vanishes by chance.
fn drawn(shape: Shape) -> Network {
    let mut network = Network::new(shape, 11);
    let mut rng = Rng::new(12);
    for parameter in &mut network.parameters {
        *parameter += 0.6 * (crate::dense::unit(&mut rng) - 0.5);
    }
    network
}

#[test]
fn answers_are_positive_and_of_sum_1() {
    let network = drawn(small());
    let mut rng = Rng::new(1);
    for _ in 0..50 {
        let shares = network.shares(&workload::draw(&mut rng, 6));
        assert_eq!(shares.len(), 6);
        assert!(shares.iter().all(|share| *share > 0.0), "{shares:?}");
        assert!(
            (shares.iter().sum::<f32>() - 1.0).abs() < 1e-5,
            "{shares:?}"
        );
    }
}

#[test]
fn every_gradient_is_the_difference_it_stands_for() {
    let mut network = drawn(small());
    let question = workload::draw(&mut Rng::new(4), 6);
    let truth = optimum::shares(&question);
    let mut gradient = vec![0.0; network.parameters.len()];
    network.learn(&question, &truth, &mut gradient);
    let kinds = kinds(&network);
    let mut greatest = vec![0.0f32; kinds.len()];
    for (at, found) in gradient.into_iter().enumerate() {
        let kept = network.parameters[at];
        let step = 1e-2;
        network.parameters[at] = kept + step;
        let above = network.divergence(&question, &truth);
        network.parameters[at] = kept - step;
        let below = network.divergence(&question, &truth);
        network.parameters[at] = kept;
        let difference = (above - below) / (2.0 * step);
        let kind = kinds.iter().rposition(|(_, start)| *start <= at);
        let kind = kind.expect("the first begins at 0");
        greatest[kind] = greatest[kind].max(found.abs());
        assert!(
            (found - difference).abs() <= 2e-4 + 0.01 * difference.abs(),
            "parameter {at} of {}: {found}, but {difference}",
            kinds[kind].0
        );
    }
    for ((kind, _), greatest) in kinds.iter().zip(greatest) {
        assert!(greatest > 1e-3, "{kind}: too flat to be tested: {greatest}");
    }
}

/// Kinds of parameters, and where each begins: biases, weights of inputs, weights of outputs.
fn kinds(network: &Network) -> Vec<(String, usize)> {
    let Shape {
        width,
        coarse,
        hidden,
        ..
    } = network.shape;
    let mut kinds = Vec::new();
    let mut at = 0;
    let mut add = |name: String, len: usize| {
        kinds.push((name, at));
        at += len;
    };
    for lstm in ["encoder", "decoder"] {
        for gate in ["i", "f", "g", "o"] {
            add(format!("{lstm}: bias of {gate}"), width);
        }
        add(format!("{lstm}: weights of the tuple"), TUPLE * 4 * width);
        add(
            format!("{lstm}: weights of the last output"),
            width * 4 * width,
        );
    }
    add("attention: first biases".into(), hidden);
    add("attention: first weights".into(), 2 * coarse * hidden);
    add("attention: second biases".into(), coarse);
    add("attention: second weights".into(), hidden * coarse);
    for (name, inputs, outputs) in [("link", coarse, width), ("read", width, width)] {
        add(format!("{name}: biases"), outputs);
        add(format!("{name}: weights"), inputs * outputs);
    }
    // The last layer's only bias moves all numbers alike, which softmax does not see.
    add("last: bias and weights".into(), 1 + width);
    assert_eq!(at, network.parameters.len());
    kinds
}
