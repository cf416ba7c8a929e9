//! Products of few tokens with the matrices of their experts, and what follows them.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::ops::matmul::blocks::{BLOCKS, in_blocks, is_too_small_for_ints};
use crate::vulkan::ops::matmul::joined::NO_GATE;
use crate::vulkan::ops::matmul::operands::{Operands, is_exact};
use crate::vulkan::plan::checks::src;
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::method::{self, Product};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::format_name;
use crate::vulkan::shaders::interface::{constants, push};

/// A product with experts, and ADD_ID after it.
#[derive(Clone, Copy, Debug)]
pub struct ExpertPart {
    /// The product.
    pub product: TensorRef,
    /// A row for each expert that is added to its products.
    pub bias: Option<TensorRef>,
}

/// Products with experts, and what follows them.
#[derive(Clone, Copy, Debug)]
pub enum ExpertProducts {
    /// The gated function of two products.
    Gated {
        /// Its argument.
        gate: ExpertPart,
        /// Its factor.
        up: ExpertPart,
        /// The function.
        result: TensorRef,
    },
    /// The weighted sum of a product over the experts of each token.
    Sum {
        /// The product.
        down: ExpertPart,
        /// A weight for each expert of each token.
        weights: TensorRef,
        /// What is added to the sum.
        summand: Option<TensorRef>,
        /// The sum.
        result: TensorRef,
    },
}

/// Products with experts, which are gated, or weighted and summed.
pub fn plan(j: &ExpertProducts, plan: &mut DispatchList<'_>) -> Result<()> {
    let (part, second, result) = match *j {
        ExpertProducts::Gated { gate, up, result } => (gate, Some(up), result),
        ExpertProducts::Sum { down, result, .. } => (down, None, result),
    };
    let o = Operands::of(part.product)?;
    let ids = View::of(src(part.product, 2)?)?;
    let d = View::of(result)?;
    let (slots, tokens, experts) = (ids.ne[0], ids.ne[1], o.a.ne[2]);
    let mut method = method::product(plan.info, &o.request(is_exact(part.product), tokens));
    if tokens == 1 && is_too_small_for_ints(method, &o, slots.min(experts), plan) {
        method = Product::Vector;
    }
    let (mut b, mut b_type) = (o.b, o.b.ty());
    if method == Product::VectorInts
        && let Some(blocks) = in_blocks(&o.b, plan)?
    {
        (b, b_type) = (blocks, BLOCKS);
    }
    let mut reads = vec![b.range, o.a.range, ids.range];
    // One column for all slots of a token, or one for each.
    let b_nb = [if b.ne[1] == 1 { 0 } else { b.nb[1] }, b.nb[2]];
    let (mut s, mut bias_nb, mut summand_nb) = ([0; 2], 0, 0);
    for (i, bias) in [part.bias, second.and_then(|p| p.bias)].into_iter().enumerate() {
        if let Some(bias) = bias {
            let bias = View::of(bias)?;
            (s[i], bias_nb) = (bias.at, bias.nb[1]);
            reads.push(bias.range);
        }
    }
    let (a1, w, w_nb, gate, d_nb, adds);
    match *j {
        ExpertProducts::Gated { up, result, .. } => {
            let a = View::of(src(up.product, 0)?)?;
            reads.push(a.range);
            let bits = |i| u64::from(result.op_param_i32(i) as u32);
            (a1, w, w_nb, gate) = (a.at, bits(2) | bits(3) << 32, [0; 2], result.op_param_i32(0) as u32);
            (d_nb, adds) = ([d.nb[1], d.nb[2]], false);
        }
        ExpertProducts::Sum { weights, summand, .. } => {
            let weights = View::of(weights)?;
            reads.push(weights.range);
            (a1, w, w_nb, gate) = (0, weights.at, [weights.nb[1], weights.nb[2]], NO_GATE);
            (d_nb, adds) = ([0, d.nb[1]], summand.is_some());
            if let Some(summand) = summand {
                let summand = View::of(summand)?;
                reads.push(summand.range);
                (s[1], summand_nb) = (summand.at, summand.nb[1]);
            }
        }
    }
    let (at_once, threads) = match second {
        Some(_) => (1, workgroups::vector_threads(o.a.ne[0], plan.info)),
        None => workgroups::expert_slots(o.a.ne[0], slots, plan.info),
    };
    // Both sources have the same constants.
    macro_rules! constants {
        ($set:ident) => {
            |one_subgroup| {
                let biases = part.bias.is_some();
                constants::$set { one_subgroup, b: b_type, gate, biases, summand: adds, at_once }
            }
        };
    }
    let variant = format!(".{}", format_name(o.a.dtype));
    let kernel = if b_type == BLOCKS {
        workgroups::reduction_of(&variant, threads, constants!(MulMatExpertsInts), plan.info)?
    } else {
        workgroups::reduction_of(&variant, threads, constants!(MulMatExperts), plan.info)?
    };
    let m = o.a.ne[1];
    let push = push::Experts {
        b: b.at,
        a0: o.a.at,
        a1,
        d: d.at,
        ids: ids.at,
        s0: s[0],
        s1: s[1],
        w,
        k: o.a.ne[0],
        m,
        slots,
        experts,
        a_nb: [o.a.nb[1], o.a.nb[2]],
        b_nb,
        d_nb,
        ids_nb: [ids.nb[0], ids.nb[1]],
        w_nb,
        bias_nb,
        summand_nb,
    };
    let groups = if second.is_some() { [m, slots, tokens] } else { [m.div_ceil(2), 1, tokens] };
    plan.dispatch(kernel, push, groups, &reads, &[d.range]);
    Ok(())
}
