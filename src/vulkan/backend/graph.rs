//! Turns a graph into dispatches: nodes in order, chains fused. Missing pipelines are created together.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_tensor_flag;
use crate::backend::{node_is_empty, op_is_empty};
use crate::environment;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::invalid;
use crate::tensor::{TensorRef, known};
use crate::vulkan::chains::{self, Chain, Found};
use crate::vulkan::device::Info;
use crate::vulkan::gpu::buffer;
use crate::vulkan::ops;
use crate::vulkan::ops::Shapes;
use crate::vulkan::plan::Converted;
use crate::vulkan::plan::{Dispatch, DispatchList, Scratch};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::kernel::Kernel;
use crate::vulkan::shaders::pipeline::Pipelines;
use crate::vulkan::submit::Range;
use crate::vulkan::submit::profile::Label;
use crate::vulkan::submit::recorder::Recorder;
use std::sync::OnceLock;

/// What is planned together.
#[derive(Clone, Copy)]
enum Unit {
    Node(TensorRef),
    Chain(Chain),
}

/// A step of a graph, and the numbers of its nodes.
struct Step {
    unit: Unit,
    nodes: Vec<usize>,
}

/// A graph to compute.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// The graph.
    pub graph: GraphRef,
    /// Pipelines of the device.
    pub pipelines: &'a Pipelines,
    /// The check of nodes that comes from above.
    pub shapes: Shapes,
}

/// Walks the steps of a graph.
struct Steps<'a> {
    graph: GraphRef,
    info: &'a Info,
    next: usize,
    /// Nodes that a chain has computed before their turn.
    taken: Vec<bool>,
    converted: Converted,
}

fn fuses() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *crate::sys::sync::once(&ON, || !environment::VK_DISABLE_FUSION.is_set())
}

/// Whether a node needs work on the device.
fn needs_dispatch(node: TensorRef) -> bool {
    !op_is_empty(node.op()) && !node.is_empty() && node.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE)
}

impl<'a> Steps<'a> {
    fn new(graph: GraphRef, info: &'a Info) -> Self {
        Self { graph, info, next: 0, taken: vec![false; graph.n_nodes()], converted: Converted::default() }
    }

    /// The same place of the same graph.
    fn fork(&self) -> Self {
        Self { taken: self.taken.clone(), converted: self.converted.clone(), ..*self }
    }

    /// The next step, if there is one left.
    fn step(&mut self) -> Option<Step> {
        while self.next < self.graph.n_nodes() {
            let i = self.next;
            self.next += 1;
            if self.taken[i] || !needs_dispatch(self.graph.node(i)) {
                continue;
            }
            let found = if fuses() { chains::find(self.graph, i, &self.taken, self.info) } else { None };
            let step = match found {
                Some(Found { chain, nodes }) => Step { unit: Unit::Chain(chain), nodes },
                None => Step { unit: Unit::Node(self.graph.node(i)), nodes: vec![i] },
            };
            step.nodes.iter().for_each(|&k| self.taken[k] = true);
            return Some(step);
        }
        None
    }

    /// The dispatches of a step. Later steps may read what it converts.
    fn plan(&mut self, step: &Step, scratch: Scratch<'_>) -> Result<Vec<Dispatch>> {
        let mut plan = DispatchList::new(self.info, scratch, &self.converted);
        match step.unit {
            Unit::Chain(chain) => chain.plan(&mut plan)?,
            Unit::Node(node) => {
                let Some(op) = ops::find(node.op()) else {
                    return Err(Error::Unsupported(format!("{:?} on Vulkan", node.op())));
                };
                (op.plan)(node, &mut plan)?;
            }
        }
        let planned = plan.finish();
        planned.note(&mut self.converted);
        Ok(planned.dispatches)
    }

    /// Kernels of all steps that are left. Plans get made-up addresses of scratch memory.
    fn kernels(mut self) -> Result<Vec<Kernel>> {
        let mut all = Vec::new();
        let mut end = 1 << 40;
        let mut pretend = |bytes: u64| {
            end += bytes.next_multiple_of(256);
            Ok(Range::new(end - bytes.next_multiple_of(256), bytes))
        };
        while let Some(step) = self.step() {
            all.extend(self.plan(&step, &mut pretend)?.iter().map(|d| d.kernel));
        }
        Ok(all)
    }
}

/// Adds a node of a chain, and the views between it and other nodes, because the readers of these views matter as well.
fn with_names(node: TensorRef, fused: &mut Vec<TensorRef>) {
    fused.push(node);
    for (_, mut t) in node.srcs() {
        while op_is_empty(t.op())
            && let Some(of) = t.src(0)
        {
            fused.push(t);
            t = of;
        }
    }
}

/// Records a graph and submits it in pieces, so that the device works on earlier pieces meanwhile. Returns the nodes of
/// its chains, and the views between them: whether they are fused depends on which other nodes read them.
///
/// # Errors
/// As [`ops::supports`], before anything is recorded. A graph whose commands are kept is checked only when they are
/// recorded.
pub fn record(recorder: &mut Recorder, work: Work<'_>) -> Result<Vec<TensorRef>> {
    let Work { graph, pipelines, shapes } = work;
    let info = recorder.core().info.clone();
    graph.nodes().filter(|&n| node_is_empty(n)).try_for_each(known::check)?;
    for node in graph.nodes().filter(|&n| needs_dispatch(n)) {
        let of_node = |e| invalid!("{:?} '{}': {e}", node.op(), node.name());
        ops::supports(node, &info, shapes).map_err(of_node)?;
        let mut tensors = std::iter::once(node).chain(node.srcs().map(|(_, s)| s)).filter(|t| !t.is_empty());
        tensors.try_for_each(|t| buffer::is_of(t, recorder.core())).map_err(of_node)?;
    }
    recorder.start_graph();
    let mut steps = Steps::new(graph, &info);
    let mut fused = Vec::new();
    while let Some(step) = steps.step() {
        let dispatches = steps.plan(&step, &mut |bytes| recorder.scratch(bytes))?;
        steps.converted.keep_within(recorder.scratch_memory());
        if dispatches.iter().any(|d| pipelines.find(&d.kernel).is_none()) {
            let mut kernels: Vec<_> = dispatches.iter().map(|d| d.kernel).collect();
            kernels.extend(steps.fork().kernels()?);
            pipelines.prepare(&kernels)?;
        }
        let mut bytes = 0;
        for d in &dispatches {
            let program = pipelines.get(&d.kernel)?;
            recorder.dispatch(program, d.push.as_bytes(), d.groups, &d.reads, &d.writes)?;
            bytes += d.reads.iter().chain(&d.writes).map(|r| r.len).sum::<u64>();
        }
        recorder.stamp(|| Label::of(step.nodes.iter().map(|&k| graph.node(k)).filter(|n| needs_dispatch(*n)), bytes));
        // Pieces are limited by the time that they take: by the memory that they touch, or by their arithmetic.
        let flops: u64 = step.nodes.iter().map(|&k| graph.node(k).flops()).sum();
        recorder.end_node(bytes.max(flops / workgroups::flops_per_byte(&info)))?;
        if step.nodes.len() > 1 {
            step.nodes.iter().for_each(|&k| with_names(graph.node(k), &mut fused));
        }
    }
    recorder.end_graph()?;
    Ok(fused)
}
