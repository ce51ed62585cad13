//! Long short-term memory: a layer that reads a sequence, and its back-propagation through time.
//!
//! Source: Hochreiter and Schmidhuber (1997), with the forget gate, as S3 (VLDB '19) 5.2 uses it.
//! At each step, with x the input, h the last output and c the cell:
//!
//! ```text
//!   i, f, o = sigmoid(..)   g = tanh(..)      each a row of  W [x h] + b
//!   c' = f c + i g          h' = o tanh(c')
//! ```
//!
//! T1. A trace holds everything that the backward pass needs; it is of the same parameters.
//!
//! Threads: plain data. Tests: gradients in `network/tests.rs`.

use crate::dense::{Dense, Layout};
use velella_sync::rng::Rng;

/// What a layer carries from one step to the next, or the gradient of it.
#[derive(Debug, Clone)]
pub struct State {
    /// The output of the last step.
    pub output: Vec<f32>,
    /// The memory.
    pub cell: Vec<f32>,
}

impl State {
    /// All zero.
    #[must_use]
    pub fn zero(width: usize) -> State {
        State {
            output: vec![0.0; width],
            cell: vec![0.0; width],
        }
    }
}

/// The layer.
#[derive(Debug, Clone)]
pub struct Lstm {
    /// From the input and the last output to the four gates: i, f, g, o.
    gates: Dense,
    inputs: usize,
    width: usize,
}

/// One run over a sequence (T1); each field has a row for each step.
#[derive(Debug)]
pub struct Trace {
    /// The input and the last output.
    joined: Vec<f32>,
    /// The four gates after their functions.
    gates: Vec<f32>,
    /// The cells; the first row is from before the first step.
    cells: Vec<f32>,
    /// The outputs; the first row is from before the first step.
    outputs: Vec<f32>,
    width: usize,
}

impl Trace {
    /// The output of step `step`.
    #[must_use]
    pub fn output(&self, step: usize) -> &[f32] {
        &self.outputs[(step + 1) * self.width..][..self.width]
    }

    /// The state after the last step.
    #[must_use]
    pub fn last(&self) -> State {
        let tail = |rows: &[f32]| rows[rows.len() - self.width..].to_vec();
        State {
            output: tail(&self.outputs),
            cell: tail(&self.cells),
        }
    }
}

impl Lstm {
    /// A layer at the end of the layout.
    pub fn new(layout: &mut Layout, inputs: usize, width: usize) -> Lstm {
        Lstm {
            gates: Dense::new(layout, inputs + width, 4 * width),
            inputs,
            width,
        }
    }

    /// Draws its weights; forget gates begin open, so that early gradients reach back.
    pub fn draw(&self, parameters: &mut [f32], rng: &mut Rng) {
        self.gates.draw(parameters, rng);
        self.gates.biases(parameters)[self.width..2 * self.width].fill(1.0);
    }

    /// Reads a sequence, `inputs` numbers a step.
    #[must_use]
    pub fn forward(&self, parameters: &[f32], sequence: &[f32], initial: &State) -> Trace {
        let (width, steps) = (self.width, sequence.len() / self.inputs);
        let mut trace = Trace {
            joined: Vec::with_capacity(steps * (self.inputs + width)),
            gates: vec![0.0; steps * 4 * width],
            cells: initial.cell.clone(),
            outputs: initial.output.clone(),
            width,
        };
        trace.cells.resize((steps + 1) * width, 0.0);
        trace.outputs.resize((steps + 1) * width, 0.0);
        for (step, input) in sequence.chunks_exact(self.inputs).enumerate() {
            let start = trace.joined.len();
            trace.joined.extend_from_slice(input);
            trace
                .joined
                .extend_from_slice(&trace.outputs[step * width..][..width]);
            let gates = &mut trace.gates[step * 4 * width..][..4 * width];
            self.gates
                .forward(parameters, &trace.joined[start..], gates);
            let (before, cells) = trace.cells.split_at_mut((step + 1) * width);
            let before = &before[step * width..];
            let outputs = &mut trace.outputs[(step + 1) * width..];
            for unit in 0..width {
                let i = sigmoid(gates[unit]);
                let f = sigmoid(gates[width + unit]);
                let g = tanh(gates[2 * width + unit]);
                let o = sigmoid(gates[3 * width + unit]);
                cells[unit] = f * before[unit] + i * g;
                outputs[unit] = o * tanh(cells[unit]);
                gates[unit] = i;
                gates[width + unit] = f;
                gates[2 * width + unit] = g;
                gates[3 * width + unit] = o;
            }
        }
        trace
    }

    /// Given the gradients of the outputs (a row a step) and of the last state, adds that of the
    /// parameters and returns that of the initial state.
    pub fn backward(
        &self,
        parameters: &[f32],
        trace: &Trace,
        of_outputs: &[f32],
        of_last: &State,
        gradient: &mut [f32],
    ) -> State {
        let width = self.width;
        let mut of_state = of_last.clone();
        let mut of_gates = vec![0.0; 4 * width];
        let mut of_joined = vec![0.0; self.inputs + width];
        for step in (0..of_outputs.len() / width).rev() {
            let gates = &trace.gates[step * 4 * width..][..4 * width];
            let before = &trace.cells[step * width..][..width];
            let after = &trace.cells[(step + 1) * width..][..width];
            for unit in 0..width {
                let (i, f) = (gates[unit], gates[width + unit]);
                let (g, o) = (gates[2 * width + unit], gates[3 * width + unit]);
                let of_output = of_state.output[unit] + of_outputs[step * width + unit];
                let squashed = tanh(after[unit]);
                let of_cell = of_state.cell[unit] + of_output * o * (1.0 - squashed * squashed);
                of_gates[unit] = of_cell * g * i * (1.0 - i);
                of_gates[width + unit] = of_cell * before[unit] * f * (1.0 - f);
                of_gates[2 * width + unit] = of_cell * i * (1.0 - g * g);
                of_gates[3 * width + unit] = of_output * squashed * o * (1.0 - o);
                of_state.cell[unit] = of_cell * f;
            }
            let row = self.inputs + width;
            let joined = &trace.joined[step * row..][..row];
            of_joined.fill(0.0);
            self.gates
                .backward(parameters, joined, &of_gates, gradient, &mut of_joined);
            of_state.output.copy_from_slice(&of_joined[self.inputs..]);
        }
        of_state
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// By one exponential; the library's takes several times as long.
pub(crate) fn tanh(x: f32) -> f32 {
    2.0 * sigmoid(2.0 * x) - 1.0
}
