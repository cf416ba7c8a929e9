//! Results of evaluations, with standard errors.
#![forbid(unsafe_code)]

use crate::ggml_assert;

/// The result of an evaluation.
pub struct Outcome {
    /// Number of points.
    pub n_points: i64,
    /// The loss.
    pub loss: f32,
    /// The predicted class of each point, if the loss has classes.
    pub predictions: Option<Vec<i32>>,
    /// Number of correct predictions, if the loss counts them.
    pub n_correct: Option<i64>,
    /// Whether the loss is a mean over points, divided by `period`.
    pub per_point: bool,
    /// Evaluations of a step of the optimizer.
    pub period: i32,
}

/// Results of evaluations with batches of one size.
#[derive(Default)]
pub struct Results {
    n_points: i64,
    losses: Vec<f32>,
    predictions: Vec<i32>,
    n_correct: i64,
    /// An evaluation did not count correct predictions, so `n_correct` is not valid.
    uncounted: bool,
    per_point: bool,
    period: i32,
}

impl Results {
    /// Removes all evaluations.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Adds an evaluation. All must have the same number of points, period and kind of loss.
    pub fn add(&mut self, outcome: Outcome) {
        if self.n_points == 0 {
            (self.per_point, self.period) = (outcome.per_point, outcome.period);
        }
        ggml_assert!(
            self.per_point == outcome.per_point && self.period == outcome.period,
            "results of different runs cannot be added"
        );
        ggml_assert!(self.n_points == outcome.n_points * self.losses.len() as i64, "varying batch size not supported");
        self.n_points += outcome.n_points;
        self.losses.push(outcome.loss);
        self.predictions.extend(outcome.predictions.unwrap_or_default());
        match outcome.n_correct {
            Some(n) => self.n_correct += n,
            None => self.uncounted = true,
        }
    }

    /// Number of points.
    pub fn n_points(&self) -> i64 {
        self.n_points
    }

    /// Predicted classes in the order of evaluation.
    pub fn predictions(&self) -> &[i32] {
        &self.predictions
    }

    /// The loss, and its standard error: that of the mean if the loss is per point, otherwise that of the sum. The loss
    /// is 0 if there are no evaluations. The error is NaN if there are fewer than two.
    pub fn loss(&self) -> (f64, f64) {
        let n = self.losses.len() as f64;
        if self.losses.is_empty() {
            return (0.0, f64::NAN);
        }
        // In F32 for each batch, as in the original.
        let scale = if self.per_point { self.period as f32 } else { 1.0 };
        let (mut sum, mut squares) = (0f64, 0f64);
        for loss in self.losses.iter().map(|l| l * scale) {
            sum += f64::from(loss);
            squares += f64::from(loss * loss);
        }
        let mean = sum / n;
        let variance = squares / n - mean * mean;
        let error = match (self.losses.len() < 2, self.per_point) {
            (true, _) => f64::NAN,
            (false, true) => (variance / (n - 1.0)).sqrt(),
            (false, false) => (variance * n / (n - 1.0)).sqrt(),
        };
        (if self.per_point { mean } else { sum }, error)
    }

    /// Share of correct predictions, and its standard error. NaN if they were not counted.
    pub fn accuracy(&self) -> (f64, f64) {
        if self.uncounted {
            return (f64::NAN, f64::NAN);
        }
        let n = self.n_points as f64;
        let share = self.n_correct as f64 / n;
        let error = if self.n_points >= 2 { (share * (1.0 - share) / (n - 1.0)).sqrt() } else { f64::NAN };
        (share, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(loss: f32, per_point: bool, n_correct: Option<i64>) -> Outcome {
        Outcome {
            n_points: 2,
            loss,
            predictions: n_correct.map(|n| vec![n as i32; 2]),
            n_correct,
            per_point,
            period: 3,
        }
    }

    #[test]
    fn empty_results_know_nothing() {
        let r = Results::default();
        assert!(r.loss().0 == 0.0 && r.loss().1.is_nan() && r.accuracy().0.is_nan() && r.accuracy().1.is_nan());
    }

    #[test]
    fn means_of_points_and_sums_of_batches() {
        let mut r = Results::default();
        r.add(outcome(1.0, true, Some(2)));
        assert!(r.loss().0 == 3.0 && r.loss().1.is_nan());
        r.add(outcome(2.0, true, Some(1)));
        // 3 and 6: mean 4.5, standard error 1.5. Three of four predictions are correct.
        assert_eq!((r.loss(), r.accuracy(), r.n_points()), ((4.5, 1.5), (0.75, 0.25), 4));
        assert_eq!(r.predictions(), [2, 2, 1, 1]);
        r.reset();
        r.add(outcome(1.0, false, None));
        r.add(outcome(2.0, false, Some(1)));
        assert_eq!(r.loss(), (3.0, (0.25f64 * 2.0).sqrt()));
        assert!(r.accuracy().0.is_nan());
    }
}
