//! Gradients of attention, as one operation, with respect to queries, keys and values.
//!
//! With S = scale q kT (masked), P = softmax(S) and y = P v: dP = dy vT, dS = P (dP - P dP), dq = dS k scale,
//! dk = dST q scale, dv = PT dy. The scores are recomputed, one query at a time.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Dest, Layout, Reader};
use crate::cpu::checked::CheckedNode;
use crate::cpu::ensure::{ensure, src};
use crate::cpu::ops::check_type;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Alignment of the three gradients in the result, in numbers.
const ALIGN: usize = 4;

/// Start of the gradients of keys and of values, and end of those of values. Those of queries start at 0.
fn layout([q, k, v]: [usize; 3]) -> Option<[usize; 3]> {
    let k_at = q.checked_next_multiple_of(ALIGN)?;
    let v_at = k_at.checked_add(k)?.checked_next_multiple_of(ALIGN)?;
    Some([k_at, v_at, v_at.checked_add(v)?])
}

/// Sources: queries `[d, n, heads, batch]`, keys `[d, m, groups, batch]`, values `[m, d, groups, batch]`, gradient of
/// the result `[d, n, heads, batch]`. Head h uses group h modulo groups. The n queries are the last of the m positions.
/// If parameter 0 is set, the mask is causal. The node is a row with the three gradients, each dense with the shape of
/// its source.
pub fn flash_attn_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let [mut q, mut k, mut v, mut grad] = [0, 1, 2, 3].map(|i| Reader::new(node.source(i), &d));
    let masked = node.op_param_i32(0) != 0;
    let mut out = d;
    let sizes = [q.len(), k.len(), v.len()];
    let Some([k_at, v_at, end]) = layout(sizes) else { return };
    if w.ith() == 0 {
        // Fills the padding between the gradients with zeros.
        for gap in [sizes[0]..k_at, k_at + sizes[1]..v_at, end..out.len()] {
            out.span_mut::<f32>(gap.start, gap.len()).fill(0.0);
        }
    }
    let [depth, n, heads, batches] = q.ne;
    let (m, groups) = (k.ne[1], k.ne[2]);
    let scale = 1.0 / (depth as f32).sqrt();
    let (mut keys, mut values) = (vec![0f32; m * depth], vec![0f32; m * depth]);
    let (mut probabilities, mut scores) = (vec![0f32; m], vec![0f32; m]);
    for unit in w.until_stopped(w.share(groups * batches)) {
        let (group, batch) = (unit % groups, unit / groups);
        for (i, row) in keys.chunks_exact_mut(depth).enumerate() {
            row.copy_from_slice(k.row([i, group, batch]));
        }
        for (i, row) in values.chunks_exact_mut(m).enumerate() {
            row.copy_from_slice(v.row([i, group, batch]));
        }
        let (keys_at, values_at) = (k_at + unit * m * depth, v_at + unit * m * depth);
        out.span_mut::<f32>(keys_at, m * depth).fill(0.0);
        out.span_mut::<f32>(values_at, m * depth).fill(0.0);
        let queries = (group..heads).step_by(groups).flat_map(|head| (0..n).map(move |i| (head, i)));
        for (head, query) in w.until_stopped(queries) {
            let (x, dy) = (q.row([query, head, batch]), grad.row([query, head, batch]));
            let seen = if masked { m - n + query + 1 } else { m };
            let (p, s) = (&mut probabilities[..seen], &mut scores[..seen]);
            for (p, key) in p.iter_mut().zip(keys.chunks_exact(depth)) {
                *p = vec::dot(x, key) * scale;
            }
            let top = vec::max(p);
            let sum = vec::exp_shifted(p, top);
            vec::scale(p, (1.0 / sum) as f32);

            s.fill(0.0);
            for (value, &dy) in values.chunks_exact(m).zip(dy) {
                vec::axpy(s, dy, &value[..seen]);
            }
            let along = vec::dot(p, s);
            for (s, p) in s.iter_mut().zip(&*p) {
                *s = (*s - along) * p * scale;
            }

            let query_at = ((batch * heads + head) * n + query) * depth;
            let ranges = [query_at..query_at + depth, keys_at..keys_at + m * depth, values_at..values_at + m * depth];
            let [grad_query, grad_keys, grad_values] = out.spans_mut::<f32, 3>(ranges);
            grad_query.fill(0.0);
            let rows = keys.chunks_exact(depth).zip(grad_keys.chunks_exact_mut(depth));
            for ((key, grad_key), &s) in rows.zip(&*s) {
                vec::axpy(grad_query, s, key);
                vec::axpy(grad_key, s, x);
            }
            for (grad_value, &dy) in grad_values.chunks_exact_mut(m).zip(dy) {
                vec::axpy(&mut grad_value[..seen], dy, p);
            }
        }
    }
}

/// Requires single precision, fitting shapes, and at most as many queries as keys.
pub fn check_flash_attn_back(node: TensorRef) -> Result<()> {
    let sources = [src(node, 0)?, src(node, 1)?, src(node, 2)?, src(node, 3)?];
    for t in sources.into_iter().chain([node]) {
        check_type(t, GGML_TYPE_F32)?;
    }
    let [q, k, v, grad] = sources.map(TensorRef::ne);
    ensure!(matches!(node.op_param_i32(0), 0 | 1), "mask {}", node.op_param_i32(0));
    ensure!(q[0] > 0 && k[0] == q[0] && v[1] == q[0] && v[0] == k[1], "keys {k:?}, values {v:?}, queries {q:?}");
    ensure!(k[1] >= q[1] && grad == q, "keys {k:?}, gradient {grad:?}, queries {q:?}");
    ensure!(
        k[2] > 0 && q[2] % k[2] == 0 && k[3] == q[3] && v[2..] == k[2..],
        "keys {k:?}, values {v:?}, queries {q:?}"
    );
    let [q, k, v] = [0, 1, 2].map(|i| Layout::of(sources[i]).len());
    let fits = layout([q, k, v]).is_some_and(|[.., end]| end <= Layout::of(node).len());
    ensure!(fits && node.is_contiguous(), "gradients of {q}, {k} and {v} numbers into {:?}", node.ne());
    ensure!(Layout::of(node).has_dense_rows(), "a result that is not aligned");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_op::GGML_OP_FLASH_ATTN_BACK;
    use crate::cpu::tests::*;

    #[derive(Clone, Copy)]
    struct Sizes {
        depth: usize,
        n: usize,
        m: usize,
        heads: usize,
        groups: usize,
        batches: usize,
        masked: bool,
    }

    /// Sum of `dy` times the result of attention, in double precision.
    fn loss(s: Sizes, [q, k, v]: [&[f64]; 3], dy: &[f64]) -> f64 {
        let mut total = 0.0;
        for (b, h, i) in (0..s.batches).flat_map(|b| (0..s.heads).flat_map(move |h| (0..s.n).map(move |i| (b, h, i)))) {
            let (row, group) = (((b * s.heads + h) * s.n + i) * s.depth, b * s.groups + h % s.groups);
            let seen = if s.masked { s.m - s.n + i + 1 } else { s.m };
            let p: Vec<f64> = (0..seen)
                .map(|j| {
                    let dot: f64 = (0..s.depth).map(|d| q[row + d] * k[(group * s.m + j) * s.depth + d]).sum();
                    (dot / (s.depth as f64).sqrt()).exp()
                })
                .collect();
            let sum: f64 = p.iter().sum();
            for d in 0..s.depth {
                let y: f64 = (0..seen).map(|j| p[j] / sum * v[(group * s.depth + d) * s.m + j]).sum();
                total += y * dy[row + d];
            }
        }
        total
    }

    #[test]
    fn gradients_are_those_of_differences() {
        let sizes =
            |depth, n, m, [heads, groups]: [usize; 2], masked| Sizes { depth, n, m, heads, groups, batches: 2, masked };
        for s in [
            sizes(5, 3, 7, [4, 2], true),
            sizes(5, 3, 7, [4, 2], false),
            sizes(1, 1, 1, [1, 1], true),
            sizes(17, 2, 2, [3, 1], true),
        ] {
            let mut c = ctx();
            let ne = |a: usize, b: usize, h: usize| [a as i64, b as i64, h as i64, s.batches as i64];
            let src = [
                floats(&mut c, &ne(s.depth, s.n, s.heads), 1),
                floats(&mut c, &ne(s.depth, s.m, s.groups), 2),
                floats(&mut c, &ne(s.m, s.depth, s.groups), 3),
                floats(&mut c, &ne(s.depth, s.n, s.heads), 4),
            ];
            let x: Vec<Vec<f64>> = src.iter().map(|&t| read(t).into_iter().map(f64::from).collect()).collect();
            let [k_at, v_at, end] = layout([x[0].len(), x[1].len(), x[2].len()]).unwrap();
            let t = c.new_tensor(GGML_TYPE_F32, &[end as i64 + 3]).unwrap();
            t.set_op(GGML_OP_FLASH_ATTN_BACK);
            t.set_op_param_i32(0, i32::from(s.masked));
            src.iter().enumerate().for_each(|(i, &x)| t.set_src(i, Some(x)));
            write(t, &vec![9.0; end + 3]);
            let got = compute(t);

            let mut want = vec![0f64; end + 3];
            for (which, start) in [0, k_at, v_at].into_iter().enumerate() {
                for i in 0..x[which].len() {
                    let moved = |by: f64| {
                        let mut x = x.clone();
                        x[which][i] += by;
                        loss(s, [&x[0], &x[1], &x[2]], &x[3])
                    };
                    want[start + i] = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                }
            }
            near(&got, want.into_iter(), 2e-6);
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let mut c = ctx();
        let (q, k) = (floats(&mut c, &[4, 3, 2], 1), floats(&mut c, &[4, 2, 2], 2));
        let v = floats(&mut c, &[2, 4, 2], 3);
        let t = c.new_tensor(GGML_TYPE_F32, &[56]).unwrap();
        t.set_op(GGML_OP_FLASH_ATTN_BACK);
        [q, k, v, q].into_iter().enumerate().for_each(|(i, s)| t.set_src(i, Some(s)));
        // More queries than positions.
        assert!(check_flash_attn_back(t).is_err());
        t.set_src(0, Some(k));
        t.set_src(3, Some(k));
        assert!(check_flash_attn_back(t).is_ok());
        t.set_ne([47, 1, 1, 1]);
        assert!(check_flash_attn_back(t).is_err());
    }
}
