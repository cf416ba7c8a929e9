//! Recurrences over the tokens of a sequence: state-space models, RWKV, gated linear attention, the gated delta rule.
//! The result of a node has the outputs, then states.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::plan::checks::{check_all_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Columns of a state that an invocation may hold in registers, and lanes of a row.
const MOST_PER_LANE: u32 = 128;

/// How the rows of states are divided: lanes of a row, columns of a lane, rows of a workgroup (`state.glsl`).
struct Lanes {
    lanes: u32,
    per: u32,
    rows: u32,
}

impl Lanes {
    /// For rows of `n` columns. A GPU needs many invocations, and has few registers for each. A software driver
    /// computes a row in each lane of its vectors, without sums over lanes.
    fn of(n: u32, info: &Info) -> Self {
        let threads = if info.software { info.limits.subgroup_size } else { 128.min(info.limits.group_invocations) };
        let wanted = if info.software { n.div_ceil(MOST_PER_LANE) } else { n.div_ceil(16) };
        let lanes = wanted.next_power_of_two().clamp(1, 16).min(threads);
        Self { lanes, per: n.div_ceil(lanes), rows: threads / lanes }
    }

    fn check(n: i64, info: &Info) -> Result<()> {
        ensure!((1..=1024).contains(&n), "rows of {n} columns");
        let per = Self::of(n as u32, info).per;
        ensure!(per <= MOST_PER_LANE, "{per} columns for each invocation");
        Ok(())
    }

    /// A list of workgroups for `units` times `rows` rows, and their number. No workgroup has rows of two units.
    fn grid(&self, units: u64, rows: u32, info: &Info) -> Result<(Grid, u32)> {
        let n = units * u64::from(rows.div_ceil(self.rows));
        ensure!(n < 1 << 31, "{n} workgroups");
        Ok((Grid::list(n, self.rows * self.lanes, info)?, n as u32))
    }
}

/// Contiguous rows, so that the elements of a source are `[columns, ...]` without gaps in the first `dims` dimensions.
fn dense_to(t: TensorRef, dims: usize) -> Result<()> {
    let (ne, nb) = (t.ne(), t.nb());
    let mut next = t.dtype().type_size();
    for i in 0..dims {
        ensure!(ne[i] <= 1 || nb[i] == next, "'{}' has gaps in dimension {i}", t.name());
        next *= ne[i] as usize;
    }
    Ok(())
}

/// F32: channels `[width - 1 + tokens, channels, sequences]` and weights `[width, channels]` with contiguous rows.
pub fn check_ssm_conv(node: TensorRef, _: &Info) -> Result<()> {
    let [x, w] = check_all_f32(node)?;
    for t in [x, w, node] {
        dense_to(t, 1)?;
    }
    let (x, w, n) = (x.ne(), w.ne(), node.ne());
    ensure!(w[0] > 0 && x[0] >= w[0] - 1 + n[1] && x[1] == n[0] && w[1] == n[0] && x[2] == n[2], "{x:?} by {w:?}");
    ensure!(n[3] == 1, "{n:?}");
    Ok(())
}

/// SSM_CONV.
pub fn ssm_conv(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    conv_into(node, None, false, node, plan)
}

/// SSM_CONV, a bias for each channel, and SiLU, into `result`. A workgroup computes several tokens, which share most of
/// what they read.
pub fn conv_into(
    node: TensorRef,
    bias: Option<TensorRef>,
    silu: bool,
    result: TensorRef,
    plan: &mut DispatchList<'_>,
) -> Result<()> {
    let (x, w, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(result)?);
    let bias = bias.map(View::of).transpose()?;
    let size = if plan.info.software { [plan.info.limits.subgroup_size, 1] } else { [32, 4] };
    let n_rows = d.ne[1] * d.ne[2];
    let g = Grid::blocks(d.ne[0], n_rows, size, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::SsmConv { bias: bias.is_some(), silu })?;
    let push = push::SsmConv {
        x: x.at,
        w: w.at,
        bias: bias.map_or(0, |b| b.at),
        d: d.at,
        channels: d.ne[0],
        tokens: d.ne[1],
        n_rows,
        width: w.ne[0],
        x_nb: [x.nb[1], x.nb[2]],
        w_nb: w.nb[1],
        d_nb: [d.nb[1], d.nb[2]],
    };
    let reads: Vec<_> = [Some(x), Some(w), bias].into_iter().flatten().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}

/// Number of the source with the states, and of inputs of a token before it.
fn states_of(node: TensorRef) -> usize {
    match node.op() {
        GGML_OP_RWKV_WKV6 => 5,
        GGML_OP_RWKV_WKV7 => 6,
        _ => 4,
    }
}

/// Contiguous F32, with the shapes that [`linear`] names.
pub fn check_linear(node: TensorRef, info: &Info) -> Result<()> {
    let last = states_of(node);
    for t in (0..=last).map(|i| src(node, i)).chain([Ok(node)]) {
        let t = t?;
        ensure!(t.dtype() == GGML_TYPE_F32 && t.is_contiguous(), "'{}' of {:?}", t.name(), t.dtype());
        View::shape(t)?;
    }
    let (shape, states, n) = (src(node, 1)?.ne(), src(node, last)?, node.ne());
    let (heads, tokens, sequences) = (shape[1], shape[2], states.ne()[1]);
    ensure!(heads > 0 && n[0] % heads == 0 && sequences > 0 && tokens % sequences == 0, "{shape:?} into {n:?}");
    let size = n[0] / heads;
    Lanes::check(size, info)?;
    ensure!(states.nelements() == size * size * heads * sequences, "{} numbers of state", states.nelements());
    ensure!(node.nelements() == n[0] * tokens + states.nelements(), "a result of {}", node.nelements());
    for i in 0..last {
        let bonus = node.op() == GGML_OP_RWKV_WKV6 && i == 3;
        let want = if bonus { n[0] } else { n[0] * tokens };
        ensure!(src(node, i)?.nelements() == want, "source {i} has {:?}", src(node, i)?.ne());
    }
    Ok(())
}

/// RWKV_WKV6 (sources: k, v, r, bonus, decay, states), RWKV_WKV7 (r, decay, k, v, a, b, states), and GATED_LINEAR_ATTN
/// (k, v, q, gate, states; parameter 0: scale). Source 1 is `[size, heads, tokens]`, and the states are
/// `[size * size * heads, sequences]`.
pub fn linear(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let last = states_of(node);
    let all = (0..=last).map(|i| View::of(src(node, i)?)).collect::<Result<Vec<_>>>()?;
    let d = View::of(node)?;
    // The order of the push block: k, v, q, decay, a, b. `OP` is that of linear.comp.
    let (op, order, scale) = match node.op() {
        GGML_OP_RWKV_WKV6 => (0, [0, 1, 2, 4, 3, 3], 1.0),
        GGML_OP_RWKV_WKV7 => (2, [2, 3, 0, 1, 4, 5], 1.0),
        _ => (1, [0, 1, 2, 3, 3, 3], node.op_param_f32(0)),
    };
    let [k, v, q, decay, a, b] = order.map(|i| all[i].at);
    let [_, heads, tokens, _] = src(node, 1)?.ne().map(|n| n as u32);
    let (n, sequences) = (d.ne[0] / heads, all[last].ne[1]);
    let lanes = Lanes::of(n, plan.info);
    let (g, n_groups) = lanes.grid(u64::from(sequences) * u64::from(heads), n, plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Linear { n, lanes: lanes.lanes, per: lanes.per, op })?;
    let push = push::Linear {
        k,
        v,
        q,
        decay,
        a,
        b,
        s0: all[last].at,
        d: d.at,
        heads,
        tokens: tokens / sequences,
        sequences,
        n_groups,
        scale,
    };
    let reads: Vec<_> = all.iter().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}

/// F32 and 32-bit indices, with the shapes that [`ssm_scan`] names. The states, steps and rates are contiguous; the
/// inputs are from token to token.
pub fn check_ssm_scan(node: TensorRef, info: &Info) -> Result<()> {
    let [s0, x, dt, a, b, c] = check_all_f32(node)?;
    let ids = src(node, 6)?;
    ensure!(ids.dtype() == GGML_TYPE_I32 && ids.is_contiguous(), "indices of {:?}", ids.dtype());
    for (t, dims) in [(s0, 4), (x, 2), (dt, 3), (a, 2), (b, 2), (c, 2), (node, 4)] {
        dense_to(t, dims)?;
    }
    let [s0, x, dt, a, b, c] = [s0, x, dt, a, b, c].map(TensorRef::ne);
    Lanes::check(s0[0], info)?;
    let kept = i64::from(node.op_param_i32(0));
    ensure!(kept >= 1, "{kept} states kept");
    ensure!(s0[1] == x[0] && s0[2] == x[1] && s0[3] > 0 && ids.ne()[0] >= x[3], "states {s0:?} for {x:?}");
    ensure!(x[0] * x[1] < 1 << 31, "states {s0:?}");
    ensure!(dt[..3] == x[1..] && dt[3] == 1, "steps {dt:?} for {x:?}");
    ensure!((a[0] == 1 || a[0] == s0[0]) && a[1] == x[1] && a[2] == 1 && a[3] == 1, "rates {a:?} for {x:?}");
    ensure!(b == c && b[0] == s0[0] && b[1] > 0 && x[1] % b[1] == 0 && b[2..] == x[2..], "{b:?} and {c:?} for {x:?}");
    let states = s0[0] * s0[1] * s0[2] * x[3] * kept;
    ensure!(node.nelements() == x.iter().product::<i64>() + states, "a result of {} elements", node.nelements());
    Ok(())
}

/// SSM_SCAN. Sources: states `[columns, dim, heads, states]`, x `[dim, heads, tokens, sequences]`, steps
/// `[heads, tokens, sequences]`, rates `[1 or columns, heads]`, b and c `[columns, groups, tokens, sequences]`, indices
/// of the states. Parameter 0: number of states to keep.
pub fn ssm_scan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let all = (0..7).map(|i| View::of(src(node, i)?)).collect::<Result<Vec<_>>>()?;
    let [s0, x, dt, a, b, c, ids] = all[..] else { unreachable!("seven sources were collected") };
    let d = View::of(node)?;
    let (n, [dim, heads, tokens, sequences]) = (s0.ne[0], x.ne);
    let lanes = Lanes::of(n, plan.info);
    let (g, n_groups) = lanes.grid(sequences.into(), dim * heads, plan.info)?;
    let constants = constants::SsmScan { n, lanes: lanes.lanes, per: lanes.per, each: a.ne[0] > 1 };
    let kernel = KernelFor::new("", g.size, &constants)?;
    let push = push::SsmScan {
        s0: s0.at,
        x: x.at,
        dt: dt.at,
        a: a.at,
        b: b.at,
        c: c.at,
        ids: ids.at,
        d: d.at,
        dim,
        heads,
        tokens,
        sequences,
        groups: b.ne[1],
        states: s0.ne[3],
        kept: node.op_param_i32(0) as u32,
        n_groups,
        x_nb: [x.nb[2], x.nb[3]],
        b_nb: [b.nb[2], b.nb[3]],
        c_nb: [c.nb[2], c.nb[3]],
    };
    let reads: Vec<_> = all.iter().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}

/// F32, with the shapes that [`delta_net`] names.
pub fn check_delta_net(node: TensorRef, info: &Info) -> Result<()> {
    let [q, k, v, gate, beta, s0] = check_all_f32(node)?;
    for (t, dims) in [(q, 1), (k, 1), (v, 1), (gate, 4), (beta, 4), (s0, 4), (node, 4)] {
        dense_to(t, dims)?;
    }
    let [q, k, v, gate, beta, s0] = [q, k, v, gate, beta, s0].map(TensorRef::ne);
    let kept = i64::from(node.op_param_i32(0));
    ensure!(kept >= 1, "{kept} states kept");
    Lanes::check(v[0], info)?;
    for t in [q, k] {
        ensure!(t[0] == v[0] && t[1] > 0 && t[2] >= v[2] && t[3] > 0 && v[3] % t[3] == 0, "{t:?} for {v:?}");
        ensure!(t[1] < 1 << 16 && v[3] / t[3] < 1 << 16, "{t:?} for {v:?}");
    }
    ensure!((gate[0] == 1 || gate[0] == v[0]) && gate[1..] == v[1..], "gate {gate:?} for {v:?}");
    ensure!(beta[0] == 1 && beta[1..] == v[1..], "beta {beta:?} for {v:?}");
    let states = v[0] * v[0] * v[1] * v[3];
    ensure!(s0.iter().product::<i64>() == states, "states {s0:?} for {v:?}");
    ensure!(node.nelements() >= v.iter().product::<i64>() + states * kept, "a result of {}", node.nelements());
    Ok(())
}

/// GATED_DELTA_NET. Sources: q and k `[size, key heads, tokens, sequences]`, v `[size, heads, tokens, sequences]`, gate
/// `[1 or size, ...]`, beta, states `[size, size, heads, sequences]`. Parameter 0: number of states to keep.
pub fn delta_net(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let all = (0..6).map(|i| View::of(src(node, i)?)).collect::<Result<Vec<_>>>()?;
    let [q, k, v, gate, beta, s0] = all[..] else { unreachable!("six sources were collected") };
    let d = View::of(node)?;
    let [n, heads, tokens, sequences] = v.ne;
    let lanes = Lanes::of(n, plan.info);
    let (g, n_groups) = lanes.grid(u64::from(sequences) * u64::from(heads), n, plan.info)?;
    let constants = constants::DeltaNet { n, lanes: lanes.lanes, per: lanes.per, each: gate.ne[0] > 1 };
    let kernel = KernelFor::new("", g.size, &constants)?;
    let push = push::DeltaNet {
        q: q.at,
        k: k.at,
        v: v.at,
        gate: gate.at,
        beta: beta.at,
        s0: s0.at,
        d: d.at,
        heads,
        tokens,
        sequences,
        kept: node.op_param_i32(0) as u32,
        key_heads: q.ne[1] | k.ne[1] << 16,
        key_sequences: (sequences / q.ne[3]) | ((sequences / k.ne[3]) << 16),
        n_groups,
        q_nb: q.nb123(),
        k_nb: k.nb123(),
        v_nb: v.nb123(),
    };
    let reads: Vec<_> = all.iter().map(|v| v.range).collect();
    plan.dispatch(kernel, push, g.groups, &reads, &[d.range]);
    Ok(())
}
