//! Attention as one operation, and the indexer that chooses what to attend to.
#![forbid(unsafe_code)]

use super::build::{ANY, Node, divides, require, require_contiguous, require_shape, require_type};
use super::matmul::require_rows_match;
use super::softmax::{require_mask_for_bias, set_sinks};
use crate::abi::ggml::ggml_op::{GGML_OP_FLASH_ATTN_EXT, GGML_OP_LIGHTNING_INDEXER, GGML_OP_TOP_K_MASK};
use crate::abi::ggml::ggml_prec;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// Softmax(`scale` Q Kᵀ + mask) V: `q` [d, queries, heads, batches], `k` [d, keys, heads', batches], `v` [dv, keys,
/// heads', batches], F16 `mask` [keys, queries, heads'', batches''] give F32 [dv, heads, queries, batches]; heads' and
/// heads'' divide heads. `max_bias` > 0 gives the mask ALiBi slopes; `softcap` > 0 limits the scores by a tanh.
///
/// # Parameters
/// 0: `scale`, 1: `max_bias`, 2: `softcap`, 3: precision of the sums, 4: bound of the keys of a query.
pub fn flash_attn(
    ctx: &mut Context,
    [q, k, v]: [TensorRef; 3],
    mask: Option<TensorRef>,
    scale: f32,
    max_bias: f32,
    softcap: f32,
) -> Result<TensorRef> {
    const OP: &str = "flash_attn_ext";
    require_rows_match(OP, k, q);
    let (nq, nk, nv) = (q.ne(), k.ne(), v.ne());
    require(nq[3] == nk[3] && nq[3] == nv[3], || format!("{OP}: batches of q {nq:?}, k {nk:?} and v {nv:?} differ"));
    if let Some(mask) = mask {
        require_type(OP, "mask", mask, &[GGML_TYPE_F16]);
        require_contiguous(OP, &[("mask", mask)]);
        let nm = mask.ne();
        require(divides(nm[2], nq[2]) && divides(nm[3], nq[3]), || {
            format!("{OP}: mask {nm:?} cannot be repeated for q {nq:?}")
        });
    }
    require_mask_for_bias(OP, mask, max_bias);
    Node::new(GGML_OP_FLASH_ATTN_EXT, ctx.new_tensor(GGML_TYPE_F32, &[nv[0], nq[2], nq[1], nq[3]])?)
        .params(0, [scale, max_bias, softcap])
        .of([Some(q), Some(k), Some(v), mask])
}

#[track_caller]
fn require_attention(op: &str, node: TensorRef) {
    require(node.op() == GGML_OP_FLASH_ATTN_EXT, || format!("{op}: the node is {:?}", node.op()));
}

/// Sets the precision of the sums.
pub fn set_prec(node: TensorRef, prec: ggml_prec) {
    require_attention("flash_attn_ext_set_prec", node);
    node.set_op_param_i32(3, prec as i32);
}

/// The precision of the sums, as its number.
pub fn prec(node: TensorRef) -> i32 {
    require_attention("flash_attn_ext_get_prec", node);
    node.op_param_i32(3)
}

/// Promises that no row of the mask has more than `n` finite elements; 0 promises nothing.
pub fn set_n_kv_max(node: TensorRef, n: i32) {
    require_attention("flash_attn_ext_set_n_kv_max", node);
    require(n >= 0, || format!("flash_attn_ext_set_n_kv_max: {n} is negative"));
    node.set_op_param_i32(4, n);
}

/// Adds to each softmax a term of its head that takes part in nothing else; `None` takes it away again.
pub fn add_sinks(node: TensorRef, sinks: Option<TensorRef>) {
    let Some(sinks) = sinks else { return node.set_src(4, None) };
    require_attention("flash_attn_ext_add_sinks", node);
    set_sinks("flash_attn_ext_add_sinks", node, 4, sinks);
}

/// Scores of keys for each query, summed over heads with `weights`: `q` [d, heads, queries, batches], `k` [d, 1, keys,
/// batches], `weights` [heads, queries, 1, batches], F16 `mask` [keys, queries, 1, batches'] give F32 [keys, queries,
/// 1, batches].
pub fn lightning_indexer(
    ctx: &mut Context,
    q: TensorRef,
    k: TensorRef,
    weights: TensorRef,
    mask: TensorRef,
) -> Result<TensorRef> {
    const OP: &str = "lightning_indexer";
    require_type(OP, "q", q, &[GGML_TYPE_F32]);
    require_type(OP, "weights", weights, &[GGML_TYPE_F32]);
    require_type(OP, "mask", mask, &[GGML_TYPE_F16]);
    let [width, heads, queries, batches] = q.ne();
    let keys = k.ne()[2];
    require_shape(OP, "k", k, [width, 1, keys, batches]);
    require_shape(OP, "weights", weights, [heads, queries, 1, batches]);
    require_shape(OP, "mask", mask, [keys, queries, 1, ANY]);
    require(divides(mask.ne()[3], batches), || format!("{OP}: mask {:?} does not repeat {batches} times", mask.ne()));
    Node::new(GGML_OP_LIGHTNING_INDEXER, ctx.new_tensor(GGML_TYPE_F32, &[keys, queries, 1, batches])?)
        .of([q, k, weights, mask])
}

/// The sources of [`top_k_mask`] beside the mask.
#[derive(Clone, Copy)]
pub struct Picks {
    /// I32 [picks, rows...]: what each row picks; out of range: nothing.
    pub top_k: TensorRef,
    /// F32 [all that can be picked, rows...]: a pick counts where its score is above minus infinity. Without it, all
    /// count.
    pub score: Option<TensorRef>,
    /// I32 [cells of a pick, all that can be picked]: the cells that each pick selects. Without it, a pick is a cell.
    pub blocks: Option<TensorRef>,
    /// I32 [cells, rows...]: cells that each row keeps without a pick.
    pub extra: Option<TensorRef>,
}

/// `mask` [cells, m1, m2, m3] (F16 or F32), repeated for the rows [n1, n2, n3] of the picks, with minus infinity in all
/// cells that a row neither picks nor keeps: [cells, n1, n2, n3].
pub fn top_k_mask(ctx: &mut Context, mask: TensorRef, picks: Picks) -> Result<TensorRef> {
    const OP: &str = "top_k_mask";
    let Picks { top_k, score, blocks, extra } = picks;
    require_type(OP, "mask", mask, &[GGML_TYPE_F16, GGML_TYPE_F32]);
    require(mask.nb()[0] == mask.dtype().type_size(), || {
        format!("{OP}: rows of mask have gaps (strides {:?})", mask.nb())
    });
    require_type(OP, "top_k", top_k, &[GGML_TYPE_I32]);
    let (nm, rows) = (mask.ne(), top_k.ne());
    require((1..4).all(|i| divides(nm[i], rows[i])), || format!("{OP}: mask {nm:?} cannot be repeated for {rows:?}"));
    if let Some(score) = score {
        require_type(OP, "score", score, &[GGML_TYPE_F32]);
        require_shape(OP, "score", score, [ANY, rows[1], rows[2], rows[3]]);
    }
    if let Some(blocks) = blocks {
        require_type(OP, "blocks", blocks, &[GGML_TYPE_I32]);
        require_shape(OP, "blocks", blocks, [ANY, score.map_or(ANY, |s| s.ne()[0]), 1, 1]);
    }
    if let Some(extra) = extra {
        require_type(OP, "extra", extra, &[GGML_TYPE_I32]);
        require_shape(OP, "extra", extra, [ANY, rows[1], rows[2], rows[3]]);
    }
    Node::new(GGML_OP_TOP_K_MASK, ctx.new_tensor(mask.dtype(), &[nm[0], rows[1], rows[2], rows[3]])?).of([
        Some(mask),
        Some(top_k),
        score,
        blocks,
        extra,
    ])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::*;

    #[test]
    fn heads_come_before_queries_in_the_result() {
        let c = &mut ctx();
        let (q, k, v) = (f32s(c, &[64, 7, 8, 2]), f32s(c, &[64, 32, 4, 2]), f32s(c, &[48, 32, 4, 2]));
        let mask = c.new_tensor(GGML_TYPE_F16, &[32, 7, 1, 1]).unwrap();
        let t = flash_attn(c, [q, k, v], Some(mask), 0.125, 0.0, 0.0).unwrap();
        assert_eq!(t.ne(), [48, 8, 7, 2]);
        set_prec(t, ggml_prec::GGML_PREC_F32);
        set_n_kv_max(t, 16);
        assert_eq!((prec(t), t.op_param_i32(4), t.op_param_f32(0)), (10, 16, 0.125));
        let sinks = f32s(c, &[8]);
        add_sinks(t, Some(sinks));
        assert_eq!(srcs(t), [(0, q), (1, k), (2, v), (3, mask), (4, sinks)]);
    }
}
