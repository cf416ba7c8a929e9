//! One pass over a data set.

use super::{Dataset, Handle, Results, Run, eval};
use crate::abi::opt::ggml_opt_epoch_callback;
use crate::sys::time::monotonic_us;
use crate::{ggml_abort, ggml_assert, log_error};

/// Batches of one kind: where they lie in the data set, where results go and who is told.
struct Stretch {
    train: bool,
    batches: std::ops::Range<i64>,
    results: Option<Handle<Results>>,
    callback: ggml_opt_epoch_callback,
}

/// What training and evaluation each get: results, and a callback after each batch.
#[derive(Clone, Copy)]
pub struct Watch {
    /// Where results are added, if anywhere.
    pub results: Option<Handle<Results>>,
    /// Called after each batch.
    pub callback: ggml_opt_epoch_callback,
}

/// Trains on the first `split` points (all when negative), evaluates on the others. The run has static graphs, and the points
/// are whole batches (the contract).
pub fn epoch(run: Handle<Run>, dataset: Handle<Dataset>, split: i64, train: Watch, evaluate: Watch) {
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
    for stretch in [
        Stretch { train: true, batches: 0..n_train, results: train.results, callback: train.callback },
        Stretch { train: false, batches: n_train..n_all, results: evaluate.results, callback: evaluate.callback },
    ] {
        stretch.go(run, dataset);
    }
}

impl Stretch {
    fn go(&self, run: Handle<Run>, dataset: Handle<Dataset>) {
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
            if let Err(e) = placed.and_then(|()| eval::eval(run, self.results)) {
                log_error!("ggml_opt_epoch: batch {i}: {e}");
                return;
            }
            let Some(callback) = self.callback else { continue };
            let results = self.results.map_or(std::ptr::null_mut(), Handle::as_ptr);
            let (done, all) = (i + 1 - self.batches.start, self.batches.end - self.batches.start);
            // SAFETY: the host gave the function; no reference to what it gets is held.
            unsafe { callback(self.train, run.as_ptr(), dataset.as_ptr(), results, done, all, started) };
        }
    }
}
