//! Gradients of attention, with respect to queries, keys and values.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::unary;
use crate::vulkan::plan::checks::{check_all_f32, ensure, src};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::workgroups;
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::{constants, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Alignment of the three gradients in the result, in numbers.
const ALIGN: u64 = 4;

/// Starts of the gradients of keys and of values, and the end, in numbers. Those of queries start at 0.
fn layout([q, k, v]: [u64; 3]) -> [u64; 3] {
    let k_at = q.next_multiple_of(ALIGN);
    let v_at = (k_at + k).next_multiple_of(ALIGN);
    [k_at, v_at, v_at + v]
}

/// Bytes of the probabilities, and of the gradients of the scores.
fn room(q: &View, k: &View) -> u64 {
    (u64::from(q.n_rows()) * u64::from(k.ne[1]) * 4).next_multiple_of(256)
}

/// F32 with contiguous rows: queries `[d, n, heads, batch]`, keys `[d, m, groups, batch]`, values
/// `[m, d, groups, batch]`, a contiguous gradient with the shape of the queries, and a contiguous row for the three
/// gradients.
pub fn check_back(node: TensorRef, _: &Info) -> Result<()> {
    let all: [TensorRef; 4] = check_all_f32(node)?;
    let [q, k, v, grad] = all.map(TensorRef::ne);
    ensure!(matches!(node.op_param_i32(0), 0 | 1), "mask {}", node.op_param_i32(0));
    ensure!(q[0] > 0 && k[0] == q[0] && v[1] == q[0] && v[0] == k[1], "keys {k:?}, values {v:?}, queries {q:?}");
    ensure!(k[1] >= q[1] && grad == q, "keys {k:?}, gradient {grad:?}, queries {q:?}");
    let grouped = k[2] > 0 && q[2] % k[2] == 0 && k[3] == q[3] && v[2..] == k[2..];
    ensure!(grouped, "keys {k:?}, values {v:?}, queries {q:?}");
    ensure!(all.iter().all(|t| t.is_contiguous_rows()) && all[3].is_contiguous(), "rows with gaps");
    let [.., end] = layout([0, 1, 2].map(|i| all[i].nelements() as u64));
    ensure!(node.is_contiguous() && end <= node.nelements() as u64, "gradients of {end} into {:?}", node.ne());
    let room = room(&View::shape(all[0])?, &View::shape(all[1])?);
    ensure!(room <= 1 << 29, "{room} bytes of probabilities");
    Ok(())
}

/// FLASH_ATTN_BACK. Head h uses group h modulo groups. Parameter 0: whether the mask is causal; the queries are the
/// last of the positions.
pub fn back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (q, k, v) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(src(node, 2)?)?);
    let (dy, d) = (View::of(src(node, 3)?)?, View::of(node)?);
    let [depth, n, heads, _] = q.ne;
    let (m, groups) = (k.ne[1], k.ne[2]);
    let [k_at, v_at, end] = layout([q.n(), k.n(), v.n()]);
    // The padding between the gradients, and what is after them, is 0.
    let part = |first: u64, n: u64| View { at: d.at + 4 * first, ne: [n as u32, 1, 1, 1], nb: [1, 0, 0, 0], ..d };
    for (first, end) in [(q.n(), k_at), (k_at + k.n(), v_at), (end, d.n())] {
        if end > first {
            unary::fill(part(first, end - first), 0.0, plan)?;
        }
    }
    let [p, s] = plan.scratch_parts([room(&q, &k); 2])?;
    let constants = |one_subgroup| constants::FlashAttnBack { one_subgroup };
    let (kernel, threads) = workgroups::reduction(m, constants, plan.info)?;
    let g = Grid::list(q.n_rows().into(), threads, plan.info)?;
    let rows = push::FlashAttnBack {
        q: q.at,
        k: k.at,
        v: v.at,
        dy: dy.at,
        p: p.address,
        s: s.address,
        depth,
        n,
        m,
        heads,
        groups,
        n_rows: q.n_rows(),
        masked: node.op_param_i32(0) as u32,
        scale: 1.0 / (depth as f32).sqrt(),
        q_nb: q.nb123(),
        k_nb: k.nb123(),
        v_nb: v.nb123(),
    };
    plan.dispatch(kernel, rows, g.groups, &[q.range, k.range, v.range, dy.range], &[p, s]);
    // `OF` of the second shader, whose gradient it is and where, and what is summed.
    for (of_what, of, at, scores, x) in [(2, q, 0, s, k), (0, k, k_at, s, q), (1, v, v_at, p, dy)] {
        let g = grid(of.ne[0], of.n_rows(), plan.info)?;
        let kernel = KernelFor::new("", g.size, &constants::FlashAttnBackSums { of: of_what })?;
        let push = push::FlashAttnBackSums {
            s: scores.address,
            x: x.at,
            d: d.at + 4 * at,
            ne: [of.ne[0], of.ne[1], of.ne[2]],
            n_rows: of.n_rows(),
            n,
            m,
            heads,
            groups,
            x_nb: x.nb123(),
        };
        plan.dispatch(kernel, push, g.groups, &[scores, x.range], &[d.range]);
    }
    Ok(())
}
