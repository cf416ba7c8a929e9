//! Sorting of rows (ARGSORT, TOP_K), and the choice of experts.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

/// Elements of a run that is sorted first. Each merge doubles the runs.
const RUN: u32 = 512;

/// Maximum number of elements, so that 32 bits can index them in scratch memory.
const MOST_SORTED: i64 = 1 << 28;

/// F32 in contiguous rows, into 32-bit integers.
pub fn check_sort(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(a.dtype() == GGML_TYPE_F32 && a.is_contiguous_rows(), "sorting of {:?}", a.dtype());
    ensure!(node.dtype() == GGML_TYPE_I32 && node.is_contiguous_rows(), "indices in {:?}", node.dtype());
    ensure!(a.nelements() <= MOST_SORTED, "sorting of {:?}", a.ne());
    ensure!(node.ne()[0] <= a.ne()[0] && node.ne()[1..] == a.ne()[1..], "{:?} of {:?}", node.ne(), a.ne());
    View::shape(a)?;
    View::shape(node)?;
    Ok(())
}

/// ARGSORT and TOP_K. Sorts runs by counting, then merges pairs of runs, from one half of the scratch memory to the
/// other. The last step writes the node.
pub fn sort(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let descending = node.op() == GGML_OP_TOP_K || node.op_param_i32(0) != 0;
    let threads = if plan.info.software { plan.info.limits.subgroup_size } else { 128 };
    let columns = a.ne[0];
    let groups = Grid::lines(columns, a.n_rows(), threads, plan.info)?.groups;
    let run = if columns <= 2 * RUN { columns.max(1) } else { RUN };
    let halves = if run < columns {
        let bytes = (a.n() * 4).next_multiple_of(256);
        plan.scratch_parts([bytes; 2])?
    } else {
        [Range::default(); 2]
    };
    let dense = [columns, columns * a.ne[1], columns * a.ne[1] * a.ne[2]];
    let (mut sorted, mut from) = (run, None::<Range>);
    loop {
        let last = sorted >= columns;
        let to = if last {
            d.range
        } else if from == Some(halves[0]) {
            halves[1]
        } else {
            halves[0]
        };
        let merge = from.is_some();
        let kernel = KernelFor::new("", [threads, 1, 1], &constants::Argsort { descending, merge })?;
        let push = push::Argsort {
            a: a.at,
            from: from.map_or(0, |f| f.address),
            d: if last { d.at } else { to.address },
            columns,
            n_rows: a.n_rows(),
            ne1: a.ne[1],
            ne2: a.ne[2],
            a_nb: a.nb123(),
            d_nb: if last { d.nb123() } else { dense },
            k: if last { d.ne[0] } else { columns },
            run: if merge { sorted / 2 } else { run },
        };
        let reads: Vec<_> = [Some(a.range), from].into_iter().flatten().collect();
        plan.dispatch(kernel, push, groups, &reads, &[to]);
        if last {
            return Ok(());
        }
        from = Some(to);
        sorted = sorted.saturating_mul(2);
    }
}

/// What makes values of the router's results: `GATING` of `topk_moe.comp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gating {
    /// Nothing.
    None = 0,
    /// The softmax.
    SoftMax = 1,
    /// The sigmoid function.
    Sigmoid = 2,
    /// The square root of softplus.
    RootSoftplus = 3,
}

/// What experts are selected by.
#[derive(Clone, Copy, Debug)]
pub enum Select {
    /// Their values.
    Values,
    /// Their values, and a bias for each.
    Biased(TensorRef),
    /// Another tensor.
    Other(TensorRef),
}

/// Experts and their weights.
#[derive(Clone, Copy, Debug)]
pub struct Routing {
    /// Argument of the gating function, or the values.
    pub source: TensorRef,
    /// The gating function.
    pub gating: Gating,
    /// What experts are selected by.
    pub select: Select,
    /// ARGSORT or TOP_K.
    pub sort: TensorRef,
    /// Number of experts of a token.
    pub k: u32,
    /// Whether the weights are the softmax of the values.
    pub late: bool,
    /// Whether weights are divided by their sum, and its clamp.
    pub norm: Option<Option<[f32; 2]>>,
    /// Factor and summand of the weights.
    pub scale: Option<[f32; 2]>,
    /// The weights.
    pub weights: TensorRef,
}

/// The experts of tokens and their weights (`chains::routing`).
pub fn route(route: &Routing, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, ids, d) = (View::of(route.source)?, View::of(route.sort)?, View::of(route.weights)?);
    let (select, by) = match route.select {
        Select::Values => (0, None),
        Select::Biased(t) => (1, Some(View::of(t)?)),
        Select::Other(t) => (2, Some(View::of(t)?)),
    };
    let [low, high] = route.norm.flatten().unwrap_or([0.0; 2]);
    let [scale, offset] = route.scale.unwrap_or([1.0, 0.0]);
    let constants = |one_subgroup| constants::TopkMoe {
        one_subgroup,
        columns: a.ne[0],
        k: route.k,
        gating: route.gating as u32,
        select,
        late: route.late,
        norm: route.norm.map_or(0, |clamp| 1 + u32::from(clamp.is_some())),
        scaled: route.scale.is_some(),
    };
    let (kernel, threads) = workgroups::reduction(a.ne[0], constants, plan.info)?;
    let g = Grid::list(a.n_rows().into(), threads, plan.info)?;
    let push = push::TopkMoe {
        a: a.at,
        by: by.map_or(0, |b| b.at),
        ids: ids.at,
        d: d.at,
        n_rows: a.n_rows(),
        a_nb: a.nb[1],
        by_nb: by.map_or(0, |b| b.nb[1]),
        ids_nb: ids.nb[1],
        d_nb: route.k,
        low,
        high,
        scale,
        offset,
    };
    let reads: Vec<_> = [Some(a), by].into_iter().flatten().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[ids.range, d.range]);
    Ok(())
}
