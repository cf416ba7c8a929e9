//! Turns a graph into dispatches: nodes in order, chains fused. Missing pipelines are created together.

#![forbid(unsafe_code)]

use super::command::Recorder;
use super::fusion::{self, Chain};
use super::pipeline::Pipelines;
use super::plan::{Dispatch, DispatchList, Kernel, Scratch};
use super::profile::Label;
use super::{Info, Range, env, ops};
use crate::abi::ggml::ggml_tensor_flag;
use crate::backend::op_is_empty;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use std::sync::OnceLock;

/// What is planned together.
#[derive(Clone, Copy)]
enum Step {
    Node(TensorRef),
    Chain(Chain),
}

fn fuses() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| !env::set("GGML_VK_DISABLE_FUSION"))
}

/// Whether a node needs work on the device.
fn asks(node: TensorRef) -> bool {
    !op_is_empty(node.op()) && !node.is_empty() && node.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE)
}

/// The step at node `i`, and the number of the next node.
fn step(graph: GraphRef, i: usize, info: &Info) -> (Option<Step>, usize) {
    let node = graph.node(i);
    if !asks(node) {
        return (None, i + 1);
    }
    if fuses()
        && let Some((chain, n)) = fusion::find(graph, i, info)
    {
        return (Some(Step::Chain(chain)), i + n);
    }
    (Some(Step::Node(node)), i + 1)
}

fn plan_step(step: Step, info: &Info, scratch: Scratch<'_>) -> Result<Vec<Dispatch>> {
    let mut plan = DispatchList::new(info, scratch);
    match step {
        Step::Chain(chain) => chain.plan(&mut plan)?,
        Step::Node(node) => {
            let Some(op) = ops::find(node.op()) else {
                return Err(Error::Unsupported(format!("{:?} on Vulkan", node.op())));
            };
            (op.plan)(node, &mut plan)?;
        }
    }
    Ok(plan.dispatches)
}

/// Kernels of all nodes from `i` on. Plans get made-up addresses of scratch memory.
fn kernels(graph: GraphRef, mut i: usize, info: &Info) -> Result<Vec<Kernel>> {
    let mut all = Vec::new();
    let mut pretend = |bytes| Ok(Range::new(1 << 40, bytes));
    while i < graph.n_nodes() {
        let (found, next) = step(graph, i, info);
        if let Some(found) = found {
            all.extend(plan_step(found, info, &mut pretend)?.iter().map(|d| d.kernel));
        }
        i = next;
    }
    Ok(all)
}

/// Records a graph and submits it in pieces, so that the device works on earlier pieces meanwhile.
pub fn record(recorder: &mut Recorder, pipelines: &Pipelines, graph: GraphRef) -> Result<()> {
    let info = recorder.core().info.clone();
    recorder.start_graph();
    let mut i = 0;
    while i < graph.n_nodes() {
        let (found, next) = step(graph, i, &info);
        if let Some(found) = found {
            let dispatches = plan_step(found, &info, &mut |bytes| recorder.scratch(bytes))?;
            if dispatches.iter().any(|d| pipelines.find(&d.kernel).is_none()) {
                pipelines.prepare(&kernels(graph, i, &info)?)?;
            }
            let mut bytes = 0;
            for d in &dispatches {
                let program = pipelines.get(&d.kernel)?;
                recorder.dispatch(program, d.push.as_bytes(), d.groups, &d.reads, &d.writes)?;
                bytes += d.reads.iter().chain(&d.writes).map(|r| r.len).sum::<u64>();
            }
            recorder.stamp(|| Label::of((i..next).map(|k| graph.node(k)).filter(|n| asks(*n)), bytes));
            recorder.end_node(bytes)?;
        }
        i = next;
    }
    recorder.end_graph()
}
