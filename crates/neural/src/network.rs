//! The network: an encoder, a decoder, the attention module, and the layer that joins them.
//!
//! Source: S3 (VLDB '19) 5.2 and its figure 2: a sequence-to-sequence LSTM (Sutskever, Vinyals, Le
//! 2014) reads the tuples of the ranges; the attention's output is linked to the last layer by a
//! matrix of weights.
//!
//! ```text
//!   tuples, last to first --> encoder --state--> decoder <-- tuples, first to last
//!                                                   | output of each range
//!   coarse histograms --> attention --> weights --> + --> tanh --> one number a range --> softmax
//! ```
//!
//! The paper's last layer says 0 or 1 for each of 250,000 ranges; here it says which share of the
//! guards a range gets, and ranges with several guards are split and asked about again.
//!
//! K1. The answer is as many positive numbers as there are ranges, of sum 1.
//! K2. `learn` adds the exact gradient of `divergence` for one question.
//!
//! Threads: shared once trained. Tests: `network/tests.rs`, every gradient beside a difference.

use crate::attention::{Attention, Look};
use crate::dense::{Dense, Layout, softmax};
use crate::lstm::{Lstm, State, Trace, tanh};
use crate::question::{Answer, Question, TUPLE};
use velella_sync::rng::Rng;

/// The sizes that the paper leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Ranges that one question is about. 64: three splits make 262,144 (the paper: 250,000).
    pub ranges: usize,
    /// The width of encoder and decoder.
    pub width: usize,
    /// Ranges of the attention's coarse histograms (the paper: 2000 of 250,000).
    pub coarse: usize,
    /// The width of the attention's first layer.
    pub hidden: usize,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            ranges: 64,
            width: 24,
            coarse: 16,
            hidden: 32,
        }
    }
}

/// The network with its parameters.
#[derive(Debug, Clone)]
pub struct Network {
    shape: Shape,
    /// Every parameter of every layer.
    pub parameters: Vec<f32>,
    encoder: Lstm,
    decoder: Lstm,
    attention: Attention,
    /// From the attention's weights to the last hidden layer.
    link: Dense,
    /// From the decoder's output to the last hidden layer.
    read: Dense,
    /// From the last hidden layer to the one number of a range.
    last: Dense,
}

/// What an answer leaves for the backward pass.
#[derive(Debug)]
struct Run {
    encoded: Trace,
    decoded: Trace,
    look: Look,
    /// The last hidden layer, a row a range.
    joined: Vec<f32>,
    shares: Vec<f32>,
}

impl Network {
    /// An untrained network.
    #[must_use]
    pub fn new(shape: Shape, seed: u64) -> Network {
        let mut layout = Layout::default();
        let encoder = Lstm::new(&mut layout, TUPLE, shape.width);
        let decoder = Lstm::new(&mut layout, TUPLE, shape.width);
        let attention = Attention::new(&mut layout, shape.coarse, shape.hidden);
        let link = Dense::new(&mut layout, shape.coarse, shape.width);
        let read = Dense::new(&mut layout, shape.width, shape.width);
        let last = Dense::new(&mut layout, shape.width, 1);
        let mut parameters = vec![0.0; layout.len];
        let mut rng = Rng::new(seed);
        encoder.draw(&mut parameters, &mut rng);
        decoder.draw(&mut parameters, &mut rng);
        attention.draw(&mut parameters, &mut rng);
        for layer in [&link, &read, &last] {
            layer.draw(&mut parameters, &mut rng);
        }
        Network {
            shape,
            parameters,
            encoder,
            decoder,
            attention,
            link,
            read,
            last,
        }
    }

    /// Its sizes.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How far the answer is from the truth: the Kullback-Leibler divergence, in nats; 0 if equal.
    #[must_use]
    pub fn divergence(&self, question: &Question, truth: &[f32]) -> f32 {
        divergence(&self.shares(question), truth)
    }

    /// Adds the gradient of the divergence (K2); returns the divergence.
    pub fn learn(&self, question: &Question, truth: &[f32], gradient: &mut [f32]) -> f32 {
        let run = self.run(question);
        let width = self.shape.width;
        let ranges = question.ranges();
        let mut of_decoded = vec![0.0; ranges * width];
        let mut of_linked = vec![0.0; width];
        let mut of_joined = vec![0.0; width];
        for range in 0..ranges {
            // Of softmax and logarithm together, for truths of sum 1.
            let of_logit = [run.shares[range] - truth[range]];
            let joined = &run.joined[range * width..][..width];
            of_joined.fill(0.0);
            self.last.backward(
                &self.parameters,
                joined,
                &of_logit,
                gradient,
                &mut of_joined,
            );
            for ((d, unit), sum) in of_joined.iter_mut().zip(joined).zip(&mut of_linked) {
                *d *= 1.0 - unit * unit;
                *sum += *d;
            }
            let of_output = &mut of_decoded[range * width..][..width];
            let output = run.decoded.output(range);
            self.read
                .backward(&self.parameters, output, &of_joined, gradient, of_output);
        }
        let mut of_weights = vec![0.0; self.shape.coarse];
        let weights = &run.look.weights;
        self.link.backward(
            &self.parameters,
            weights,
            &of_linked,
            gradient,
            &mut of_weights,
        );
        self.attention
            .backward(&self.parameters, &run.look, &of_weights, gradient);
        let nothing = State::zero(width);
        let of_state = self.decoder.backward(
            &self.parameters,
            &run.decoded,
            &of_decoded,
            &nothing,
            gradient,
        );
        let no_outputs = vec![0.0; ranges * width];
        self.encoder.backward(
            &self.parameters,
            &run.encoded,
            &no_outputs,
            &of_state,
            gradient,
        );
        divergence(&run.shares, truth)
    }

    fn run(&self, question: &Question) -> Run {
        let parameters = &self.parameters;
        let sequence = question.sequence();
        let reversed: Vec<f32> = sequence.rchunks(TUPLE).flatten().copied().collect();
        let width = self.shape.width;
        let encoded = self
            .encoder
            .forward(parameters, &reversed, &State::zero(width));
        let decoded = self.decoder.forward(parameters, &sequence, &encoded.last());
        let look = self
            .attention
            .forward(parameters, &question.coarse(self.shape.coarse));
        let mut linked = vec![0.0; width];
        self.link.forward(parameters, &look.weights, &mut linked);
        let mut joined = vec![0.0; question.ranges() * width];
        let mut shares = vec![0.0; question.ranges()];
        let rows = joined
            .chunks_exact_mut(width)
            .zip(shares.chunks_exact_mut(1));
        for (range, (row, logit)) in rows.enumerate() {
            self.read.forward(parameters, decoded.output(range), row);
            for (unit, linked) in row.iter_mut().zip(&linked) {
                *unit = tanh(*unit + linked);
            }
            self.last.forward(parameters, row, logit);
        }
        softmax(&mut shares);
        Run {
            encoded,
            decoded,
            look,
            joined,
            shares,
        }
    }
}

impl Answer for Network {
    fn name(&self) -> &'static str {
        "neural"
    }

    fn ranges(&self) -> usize {
        self.shape.ranges
    }

    fn shares(&self, question: &Question) -> Vec<f32> {
        self.run(question).shares
    }
}

/// The divergence of shares from the truth.
fn divergence(shares: &[f32], truth: &[f32]) -> f32 {
    let each = shares.iter().zip(truth).filter(|(_, truth)| **truth > 0.0);
    each.map(|(share, truth)| truth * (truth / share.max(f32::MIN_POSITIVE)).ln())
        .sum()
}

#[cfg(test)]
mod tests;
