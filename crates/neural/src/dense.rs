//! A fully connected layer over a slice of the network's parameters.
//!
//! All parameters of a network lie in one vector, so that the optimiser and the test of the
//! gradients need not know of layers. A layer knows where its own begin.
//!
//! D1. A layer's parameters are its biases, then one row of weights for each input: a row is added
//!     to the output as it lies, which the compiler turns into vector instructions.
//! D2. Backward passes add to gradients, and never set them.
//!
//! Threads: plain data. Tests: `network/tests.rs`, with all layers together.

use velella_sync::rng::Rng;

/// Where the next layer's parameters begin.
#[derive(Debug, Default)]
pub struct Layout {
    /// Parameters laid out so far.
    pub len: usize,
}

/// `output = bias + weights * input`.
#[derive(Debug, Clone)]
pub struct Dense {
    at: usize,
    inputs: usize,
    outputs: usize,
}

impl Dense {
    /// A layer at the end of the layout.
    pub fn new(layout: &mut Layout, inputs: usize, outputs: usize) -> Dense {
        let at = layout.len;
        layout.len += (inputs + 1) * outputs;
        Dense {
            at,
            inputs,
            outputs,
        }
    }

    /// How many numbers come out.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Draws the weights evenly from within +-sqrt(3 / inputs), a variance of 1 / inputs; biases
    /// are 0.
    pub fn draw(&self, parameters: &mut [f32], rng: &mut Rng) {
        let bound = (3.0 / self.inputs as f32).sqrt();
        let (biases, weights) =
            parameters[self.at..][..(self.inputs + 1) * self.outputs].split_at_mut(self.outputs);
        biases.fill(0.0);
        for weight in weights {
            *weight = bound * (2.0 * unit(rng) - 1.0);
        }
    }

    /// Its biases.
    pub fn biases<'a>(&self, parameters: &'a mut [f32]) -> &'a mut [f32] {
        &mut parameters[self.at..][..self.outputs]
    }

    fn split<'a>(&self, parameters: &'a [f32]) -> (&'a [f32], &'a [f32]) {
        parameters[self.at..][..(self.inputs + 1) * self.outputs].split_at(self.outputs)
    }

    /// Writes the output.
    pub fn forward(&self, parameters: &[f32], input: &[f32], output: &mut [f32]) {
        assert_eq!(input.len(), self.inputs, "a layer's input");
        let (biases, weights) = self.split(parameters);
        output.copy_from_slice(biases);
        for (x, row) in input.iter().zip(weights.chunks_exact(self.outputs)) {
            for (y, weight) in output.iter_mut().zip(row) {
                *y += x * weight;
            }
        }
    }

    /// Given the gradient of the output, adds that of the parameters and of the input (D2).
    pub fn backward(
        &self,
        parameters: &[f32],
        input: &[f32],
        of_output: &[f32],
        gradient: &mut [f32],
        of_input: &mut [f32],
    ) {
        assert_eq!(of_input.len(), self.inputs, "a layer's input");
        let (_, weights) = self.split(parameters);
        let own = &mut gradient[self.at..][..(self.inputs + 1) * self.outputs];
        let (of_biases, of_weights) = own.split_at_mut(self.outputs);
        for (sum, y) in of_biases.iter_mut().zip(of_output) {
            *sum += y;
        }
        let rows = weights.chunks_exact(self.outputs);
        let of_rows = of_weights.chunks_exact_mut(self.outputs);
        for (((x, of_x), row), of_row) in input.iter().zip(of_input).zip(rows).zip(of_rows) {
            for (sum, y) in of_row.iter_mut().zip(of_output) {
                *sum += x * y;
            }
            *of_x += dot(row, of_output);
        }
    }
}

/// The sum of products, in eight sums: additions of floats are not reordered by the compiler.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a_eights, b_eights) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a_eights
        .remainder()
        .iter()
        .zip(b_eights.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (a, b) in a_eights.zip(b_eights) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    rest + sums.iter().sum::<f32>()
}

/// Evenly from [0, 1).
pub fn unit(rng: &mut Rng) -> f32 {
    (rng.next_u64() >> 40) as f32 / (1u32 << 24) as f32
}

/// Turns any numbers into positive ones of sum 1.
pub fn softmax(numbers: &mut [f32]) {
    let greatest = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for number in numbers.iter_mut() {
        *number = (*number - greatest).exp();
        sum += *number;
    }
    for number in numbers {
        *number /= sum;
    }
}
