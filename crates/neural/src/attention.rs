//! The attention module: a look at the whole distribution at once, coarsely.
//!
//! Source: S3 (VLDB '19) 5.2: two fully connected layers and one softmax over the two histograms
//! summed up into m ranges each; what comes out estimates where the weight lies, as m numbers of
//! sum 1. What function follows the first layer is not said; here it is tanh.
//!
//! Threads: plain data. Tests: gradients in `network/tests.rs`.

use crate::dense::{Dense, Layout, softmax};
use crate::lstm::tanh;
use velella_sync::rng::Rng;

/// The module.
#[derive(Debug, Clone)]
pub struct Attention {
    first: Dense,
    second: Dense,
}

/// One look.
#[derive(Debug)]
pub struct Look {
    input: Vec<f32>,
    hidden: Vec<f32>,
    /// m positive numbers of sum 1.
    pub weights: Vec<f32>,
}

impl Attention {
    /// A module at the end of the layout, over twice `coarse` numbers.
    pub fn new(layout: &mut Layout, coarse: usize, hidden: usize) -> Attention {
        Attention {
            first: Dense::new(layout, 2 * coarse, hidden),
            second: Dense::new(layout, hidden, coarse),
        }
    }

    /// Draws its weights.
    pub fn draw(&self, parameters: &mut [f32], rng: &mut Rng) {
        self.first.draw(parameters, rng);
        self.second.draw(parameters, rng);
    }

    /// Looks at the coarse histograms.
    #[must_use]
    pub fn forward(&self, parameters: &[f32], coarse: &[f32]) -> Look {
        let mut hidden = vec![0.0; self.first.outputs()];
        self.first.forward(parameters, coarse, &mut hidden);
        for unit in &mut hidden {
            *unit = tanh(*unit);
        }
        let mut weights = vec![0.0; self.second.outputs()];
        self.second.forward(parameters, &hidden, &mut weights);
        softmax(&mut weights);
        Look {
            input: coarse.to_vec(),
            hidden,
            weights,
        }
    }

    /// Given the gradient of the weights, adds that of the parameters.
    pub fn backward(
        &self,
        parameters: &[f32],
        look: &Look,
        of_weights: &[f32],
        gradient: &mut [f32],
    ) {
        let mean: f32 = look
            .weights
            .iter()
            .zip(of_weights)
            .map(|(w, d)| w * d)
            .sum();
        let of_logits: Vec<f32> = look
            .weights
            .iter()
            .zip(of_weights)
            .map(|(w, d)| w * (d - mean))
            .collect();
        let mut of_hidden = vec![0.0; look.hidden.len()];
        self.second.backward(
            parameters,
            &look.hidden,
            &of_logits,
            gradient,
            &mut of_hidden,
        );
        for (d, unit) in of_hidden.iter_mut().zip(&look.hidden) {
            *d *= 1.0 - unit * unit;
        }
        let mut of_input = vec![0.0; look.input.len()];
        self.first
            .backward(parameters, &look.input, &of_hidden, gradient, &mut of_input);
    }
}
