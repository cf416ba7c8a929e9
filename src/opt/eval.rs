//! An evaluation: computes the allocated graph, which includes a step of the optimizer if one is due, and adds up
//! results.
#![forbid(unsafe_code)]

use super::results::Outcome;
use super::{Results, Run, Shared};
use crate::abi::ggml::ggml_status::GGML_STATUS_SUCCESS;
use crate::abi::ggml::ggml_type::{GGML_TYPE_F32, GGML_TYPE_I32, GGML_TYPE_I64};
use crate::backend::tensor_io;
use crate::error::{Error, Result};
use crate::ggml_assert;
use crate::tensor::TensorRef;

/// An evaluation under way. The run counts it at its end, also if a function of the host is left by an exception.
struct Counted<'a>(&'a Shared<Run>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.with(Run::advance);
    }
}

/// Evaluates the graph that `Run::alloc` prepared, and adds to `results`. After an error nothing is added, but the run
/// counts the evaluation.
pub fn eval(run: &Shared<Run>, results: Option<&Shared<Results>>) -> Result<()> {
    let (scheduler, graph) = run.with(|r| r.pending());
    let counted = Counted(run);
    if let Some(source) = run.with(|r| r.step().is_some().then_some(r.settings().params)) {
        // Outside of `with`, because the host's function may use the run.
        let params = source.get();
        run.with(|r| {
            if let Some((numbers, iteration)) = r.step() {
                numbers.set(&params, iteration);
            }
        });
    }
    let scheduler = scheduler.look();
    let computed = scheduler.compute_async(graph);
    let computed = scheduler.synchronize().and(computed);
    let computed = computed.and_then(|status| match status {
        GGML_STATUS_SUCCESS => Ok(()),
        status => Err(Error::Backend(format!("computing ended with {status:?}"))),
    });
    let outcome = run.with(|r| if results.is_some() && computed.is_ok() { outcome_of(r) } else { None });
    drop(counted);
    if let (Some(results), Some(outcome)) = (results, outcome) {
        results.with(|r| r.add(outcome));
    }
    computed
}

fn read<const N: usize>(t: TensorRef) -> [u8; N] {
    let mut bytes = [0; N];
    tensor_io::get_bytes(t, &mut bytes, 0);
    bytes
}

/// The results of the graph that was just computed.
fn outcome_of(run: &Run) -> Option<Outcome> {
    let (model, o) = (run.model()?, run.objective()?);
    let n_points = model.outputs.ne()[1];
    ggml_assert!(o.loss.is_scalar() && o.loss.dtype() == GGML_TYPE_F32);
    let loss = f32::from_ne_bytes(read(o.loss));
    let predictions = o.predictions.map(|t| {
        ggml_assert!(t.dtype() == GGML_TYPE_I32);
        let mut bytes = vec![0; t.nbytes()];
        tensor_io::get_bytes(t, &mut bytes, 0);
        bytes.chunks_exact(4).map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
    });
    let n_correct = o.n_correct.map(|t| {
        ggml_assert!(t.is_scalar() && t.dtype() == GGML_TYPE_I64);
        i64::from_ne_bytes(read(t))
    });
    Some(Outcome { n_points, loss, predictions, n_correct, per_point: o.per_point, period: run.settings().period })
}
