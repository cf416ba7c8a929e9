//! One pass over a data set.
#![forbid(unsafe_code)]

use super::batch_callback::{Batch, BatchCallback};
use super::{Dataset, Results, Run, Shared, eval};
use crate::sys::time::monotonic_us;
use crate::{ggml_abort, ggml_assert, log_error};

/// Training or evaluation, and its batches.
struct Phase<'a> {
    train: bool,
    batches: std::ops::Range<i64>,
    watch: Watch<'a>,
}

/// Results and callback for the batches of training or evaluation.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Results to add to, if any.
    pub results: Option<&'a Shared<Results>>,
    /// Called after each batch.
    pub callback: BatchCallback,
}

/// Trains on the first `split` points (on all if it is negative), and evaluates on the others. By the contract of
/// `ggml_opt_epoch` the run has static graphs, and both numbers of points are multiples of the batch.
pub fn epoch(run: &Shared<Run>, dataset: &Shared<Dataset>, split: i64, train: Watch<'_>, evaluate: Watch<'_>) {
    let (n_points, per_batch) = {
        let (is_static, model) = run.with(|r| (r.is_static(), r.model()));
        let Some(model) = model.filter(|_| is_static) else { ggml_abort!("ggml_opt_epoch requires static graphs") };
        let data = dataset.with(|d| d.data());
        ggml_assert!(data.ne()[0] == model.inputs.ne()[0], "points of the data set are not inputs of the model");
        (data.ne()[1], model.inputs.ne()[1])
    };
    ggml_assert!(n_points % per_batch == 0, "{n_points} points are no whole batches of {per_batch}");
    let split = if split < 0 { n_points } else { split };
    ggml_assert!(split % per_batch == 0, "the first {split} points are no whole batches of {per_batch}");
    let (n_train, n_all) = (split / per_batch, n_points / per_batch);
    for part in [
        Phase { train: true, batches: 0..n_train, watch: train },
        Phase { train: false, batches: n_train..n_all, watch: evaluate },
    ] {
        part.go(run, dataset);
    }
}

impl Phase<'_> {
    fn go(&self, run: &Shared<Run>, dataset: &Shared<Dataset>) {
        let started = monotonic_us();
        for i in self.batches.clone() {
            let placed = run.with(|r| {
                let placed = r.alloc(self.train);
                if let Some(model) = r.model() {
                    let labels = r.objective().and_then(|o| o.labels);
                    dataset.with(|d| d.get_batch(model.inputs, labels, i));
                }
                placed
            });
            if placed.is_err() {
                run.with(Run::advance);
            }
            if let Err(e) = placed.and_then(|()| eval::eval(run, self.watch.results)) {
                log_error!("ggml_opt_epoch: batch {i}: {e}");
                return;
            }
            let (done, all) = (i + 1 - self.batches.start, self.batches.end - self.batches.start);
            let batch = Batch { train: self.train, done, all, started };
            self.watch.callback.call(&batch, run, dataset, self.watch.results);
        }
    }
}
