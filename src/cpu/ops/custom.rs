//! Custom operations: functions of the host.
#![forbid(unsafe_code)]

use super::super::access::Dest;
use super::super::checked::CheckedNode;
use super::super::ensure::ensure;
use crate::abi::ggml::GGML_N_TASKS_MAX;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::custom::Work;

/// Returns whether all threads compute a custom node. They do unless the host requested one task.
pub fn is_wide(node: TensorRef) -> bool {
    Work::of_node(node).is_some_and(|work| work.n_tasks != 1)
}

/// Calls the host's function on as many threads as the node requests, at most on all threads.
pub fn custom(w: &Worker<'_>, node: CheckedNode<'_>, _: Dest<'_>) {
    let Some(work) = Work::of_node(*node) else { return };
    let asked = if work.n_tasks == GGML_N_TASKS_MAX { w.nth() } else { usize::try_from(work.n_tasks).unwrap_or(1) };
    let nth = asked.clamp(1, w.nth());
    if w.ith() < nth
        && let Err(e) = work.call(w.ith(), nth)
    {
        w.fail(e);
    }
}

/// Requires a function.
pub fn check_custom(node: TensorRef) -> Result<()> {
    ensure!(Work::of_node(node).is_some_and(|work| work.has_function), "no function");
    Ok(())
}
