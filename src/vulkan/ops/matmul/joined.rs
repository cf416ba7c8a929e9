//! Products of one column with several matrices, and what follows them.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::ops::checks::src;
use crate::vulkan::ops::matmul::blocks::{BLOCKS, in_blocks, is_too_small_for_ints};
use crate::vulkan::ops::matmul::operands::{Operands, is_exact};
use crate::vulkan::ops::rope::{self, Turn};
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::method::{self, Product};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, format_name, push};

/// No gated function: `NO_GATE` of `joined.glsl`.
pub const NO_GATE: u32 = 255;

/// A product of a matrix with a column, and what is added to it.
#[derive(Clone, Copy, Debug)]
pub struct JoinedPart {
    /// The product.
    pub product: TensorRef,
    /// The summands. Two only if there is one part.
    pub summands: [Option<TensorRef>; 2],
    /// The rotation of the product or of the last addition.
    pub rope: Option<TensorRef>,
    /// The rotation, the last addition, or the product. With `rows`: SET_ROWS, which writes it to a row by index.
    pub result: TensorRef,
    /// Whether the result is such a row.
    pub rows: bool,
}

/// Products of the same column.
#[derive(Clone, Copy, Debug)]
pub struct JoinedProducts {
    /// One to three products.
    pub parts: [Option<JoinedPart>; 3],
    /// The gated function: the argument is the first part, the factor the second one. Only it has a result in memory.
    pub gate: Option<TensorRef>,
}

/// Products of one column with several matrices, and what follows them (`fusion::products`).
pub fn plan(j: &JoinedProducts, plan: &mut DispatchList<'_>) -> Result<()> {
    let parts: Vec<&JoinedPart> = j.parts.iter().flatten().collect();
    let o = Operands::of(parts[0].product)?;
    let mut method = method::product(plan.info, &o.request(is_exact(parts[0].product), 1));
    if parts.len() == 1 && is_too_small_for_ints(method, &o, 1, plan) {
        method = Product::Vector;
    }
    let (mut b, mut b_type) = (o.b, o.b.ty());
    if method == Product::VectorInts
        && let Some(blocks) = in_blocks(&o.b, plan)?
    {
        (b, b_type) = (blocks, BLOCKS);
    }
    let (mut reads, mut writes) = (vec![b.range], Vec::new());
    let (mut a, mut d, mut s, mut ends) = ([0; 3], [0; 3], [0; 3], [0; 3]);
    let (mut adds, mut rows, mut rows_type, mut index, mut place) = (0, 0, 0, 0, [0; 2]);
    let (mut indices, mut position, mut rope, mut rotated) = (Vec::new(), 0, None, 0);
    for (i, part) in parts.iter().enumerate() {
        let matrix = View::of(src(part.product, 0)?)?;
        a[i] = matrix.at;
        reads.push(matrix.range);
        ends[i..].iter_mut().for_each(|end| *end += matrix.ne[1]);
        if j.gate.is_none() {
            let result = View::of(part.result)?;
            d[i] = result.at;
            writes.push(result.range);
            if part.rows {
                let ids = View::of(src(part.result, 1)?)?;
                reads.push(ids.range);
                indices.push(ids.at);
                (rows, rows_type, index) = (rows | 1 << i, result.ty(), ids.ty());
                place = [result.ne[1], result.nb[1]];
            }
            if let Some(node) = part.rope {
                let at = View::of(src(node, 1)?)?;
                reads.push(at.range);
                (position, rope, rotated) = (at.at, Some(node), rotated | 1 << i);
            }
        }
        for (k, summand) in part.summands.iter().flatten().enumerate() {
            let summand = View::of(*summand)?;
            s[i + k] = summand.at;
            reads.push(summand.range);
            adds = k as u32 + 1;
        }
    }
    let factors = rope.and_then(|r| r.src(2)).map(View::of).transpose()?;
    if let Some(factors) = factors {
        s[0] = factors.at;
        reads.push(factors.range);
    }
    if let Some(second) = indices.get(1) {
        s[1] = *second;
    }
    let (mut gate, mut n_groups) = (NO_GATE, ends[2].div_ceil(2));
    if let Some(node) = j.gate {
        let result = View::of(node)?;
        d[0] = result.at;
        writes.push(result.range);
        (gate, n_groups) = (node.op_param_i32(0) as u32, ends[0]);
        let bits = |i| u64::from(node.op_param_i32(i) as u32);
        s[0] = bits(2) | bits(3) << 32;
    }
    let turn = rope.map(Turn::of);
    let bits = |f: fn(&Turn) -> f32| turn.as_ref().map_or(0, |t| f(t).to_bits());
    // Both sources have the same constants.
    macro_rules! constants {
        ($set:ident $(, $more:ident)?) => {
            |one_subgroup| constants::$set {
                one_subgroup,
                b: b_type,
                adds,
                gate,
                rows,
                rows_type,
                index,
                rotated,
                halves: rope.is_some_and(rope::rotates_halves),
                factors: factors.is_some(),
                head: rope.map_or(2, |r| r.ne()[0] as u32),
                dims: turn.as_ref().map_or(2, |t| t.n_dims),
                theta_scale: bits(|t| t.theta_scale),
                freq_scale: bits(|t| t.freq_scale),
                ext_factor: bits(|t| t.ext_factor),
                attn_factor: bits(|t| t.attn_factor),
                corr_low: bits(|t| t.corr[0]),
                corr_high: bits(|t| t.corr[1]),
                $($more,)?
            }
        };
    }
    let variant = format!(".{}", format_name(o.a.dtype));
    let threads = workgroups::vector_threads(o.a.ne[0], plan.info);
    let kernel = if b_type == BLOCKS {
        workgroups::reduction_of(&variant, threads, constants!(MulMatJoinedInts), plan.info)?
    } else {
        let stride = u64::from(o.a.nb[1]) * o.a.dtype.type_size() as u64;
        let plain = o.a.dtype.blck_size() == 1;
        let rows_aligned = !plain || a.iter().all(|at| at.is_multiple_of(16)) && stride.is_multiple_of(16);
        let aligned = rows_aligned && b.at.is_multiple_of(16);
        workgroups::reduction_of(&variant, threads, constants!(MulMatJoined, aligned), plan.info)?
    };
    let ([a0, a1, a2], [d0, d1, d2], [s0, s1, s2], [end0, end1, end2]) = (a, d, s, ends);
    let push = push::Joined {
        b: b.at,
        a0,
        a1,
        a2,
        d0,
        d1,
        d2,
        s0,
        s1,
        s2,
        k: o.a.ne[0],
        a_nb: o.a.nb[1],
        end0,
        end1,
        end2,
        rows: place[0],
        rows_nb: place[1],
        index: indices.first().copied().unwrap_or(0),
        position,
    };
    let g = Grid::list(n_groups.into(), threads, plan.info)?;
    plan.dispatch(kernel, push, g.groups, &reads, &writes);
    Ok(())
}
