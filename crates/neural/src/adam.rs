//! Adam: steps down a noisy gradient, each parameter at its own pace.
//!
//! Source: Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1, with
//! its constants. Gradients longer than 1 are shortened to 1 first, as is usual for sequences.
//!
//! Threads: plain data. Tests: below.

const OF_MEAN: f32 = 0.9;
const OF_SQUARE: f32 = 0.999;
const FLOOR: f32 = 1e-8;

/// The optimiser's memory of past gradients.
#[derive(Debug)]
pub struct Adam {
    means: Vec<f32>,
    squares: Vec<f32>,
    steps: i32,
}

impl Adam {
    /// No gradient seen yet.
    #[must_use]
    pub fn new(parameters: usize) -> Adam {
        Adam {
            means: vec![0.0; parameters],
            squares: vec![0.0; parameters],
            steps: 0,
        }
    }

    /// One step; `rate` is about how far each parameter moves.
    pub fn step(&mut self, parameters: &mut [f32], gradient: &[f32], rate: f32) {
        self.steps += 1;
        let length = gradient.iter().map(|g| g * g).sum::<f32>().sqrt();
        let scale = 1.0 / length.max(1.0);
        let mean_debt = 1.0 - OF_MEAN.powi(self.steps);
        let square_debt = 1.0 - OF_SQUARE.powi(self.steps);
        let memory = self.means.iter_mut().zip(&mut self.squares);
        for ((parameter, slope), (mean, square)) in parameters.iter_mut().zip(gradient).zip(memory)
        {
            let slope = slope * scale;
            *mean = OF_MEAN * *mean + (1.0 - OF_MEAN) * slope;
            *square = OF_SQUARE * *square + (1.0 - OF_SQUARE) * slope * slope;
            *parameter -= rate * (*mean / mean_debt) / ((*square / square_debt).sqrt() + FLOOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_is_as_long_as_the_rate_whatever_the_slope() {
        for slope in [1e-3, 1.0, 50.0] {
            let mut parameters = [0.0];
            Adam::new(1).step(&mut parameters, &[slope], 0.1);
            assert!(
                (parameters[0] + 0.1).abs() < 1e-4,
                "{slope}: {parameters:?}"
            );
        }
    }

    #[test]
    fn a_bowl_is_descended_to_its_bottom() {
        let mut parameters = [3.0, -2.0];
        let mut adam = Adam::new(2);
        for step in 0..2000 {
            let slopes = [2.0 * (parameters[0] - 1.0), 200.0 * (parameters[1] - 0.5)];
            adam.step(
                &mut parameters,
                &slopes,
                0.05 * (1.0 - step as f32 / 2000.0),
            );
        }
        assert!((parameters[0] - 1.0).abs() < 1e-2, "{parameters:?}");
        assert!((parameters[1] - 0.5).abs() < 1e-2, "{parameters:?}");
    }
}
