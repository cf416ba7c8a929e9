//! The kinds of chains.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::ops::matmul::experts::{self, ExpertProducts};
use crate::vulkan::ops::matmul::joined::{self, JoinedProducts};
use crate::vulkan::ops::norm::Heads;
use crate::vulkan::ops::sort::Routing;
use crate::vulkan::ops::{binary, glu, norm, recurrent, rope, sort};
use crate::vulkan::plan::DispatchList;

/// A chain found in a graph.
#[derive(Clone, Copy, Debug)]
pub enum Chain {
    /// A norm, after an addition if there is one, times a weight if there is one.
    Norm {
        /// The addition before.
        add: Option<TensorRef>,
        /// The norm.
        norm: TensorRef,
        /// The product after.
        mul: TensorRef,
        /// Its weight.
        weight: TensorRef,
        /// Whether products read the result as blocks of integers.
        blocks: bool,
    },
    /// An activation times a factor.
    Gated {
        /// The gated function: a number of `ggml_glu_op`, or one of `ops::glu`.
        op: u32,
        /// The argument of the activation.
        gate: TensorRef,
        /// The factor.
        up: TensorRef,
        /// The product.
        mul: TensorRef,
    },
    /// A rotation whose result is written to rows by index.
    RopeRows {
        /// The rotation.
        rope: TensorRef,
        /// SET_ROWS.
        set: TensorRef,
    },
    /// SSM_CONV, a bias for each channel if there is one, and SiLU.
    Convolved {
        /// SSM_CONV.
        conv: TensorRef,
        /// The bias.
        bias: Option<TensorRef>,
        /// SiLU.
        silu: TensorRef,
    },
    /// Additions of tensors at evenly spaced addresses: the results of a token's experts, each times its weight if
    /// there are any.
    SpacedSum {
        /// The first tensor.
        first: TensorRef,
        /// Weights: a value for each tensor and row.
        weights: Option<TensorRef>,
        /// Number of tensors.
        n: u32,
        /// Elements from one to the next.
        spacing: u32,
        /// The last addition.
        result: TensorRef,
    },
    /// Products of one column, with their additions or their gated function.
    Products(JoinedProducts),
    /// Products of few tokens with their experts.
    Experts(ExpertProducts),
    /// Heads of queries and keys that are normalised and rotated.
    Heads(Heads),
    /// The choice of experts.
    Routing(Routing),
}

/// A chain, and the numbers of its nodes.
#[derive(Clone, Debug)]
pub struct Found {
    /// The chain.
    pub chain: Chain,
    /// The first one is the place where it is computed. Others may be after nodes that do not belong to the chain.
    pub nodes: Vec<usize>,
}

impl Chain {
    /// Adds its dispatch.
    pub fn plan(&self, plan: &mut DispatchList<'_>) -> Result<()> {
        match *self {
            Chain::Norm { add, norm, mul, weight, blocks } => norm::fused(norm, add, Some(weight), mul, blocks, plan),
            Chain::Gated { op, gate, up, mul } => glu::fused_gate(op, gate, up, mul, plan),
            Chain::RopeRows { rope, set } => rope::into_rows(rope, set, plan),
            Chain::Convolved { conv, bias, silu } => recurrent::conv_into(conv, bias, true, silu, plan),
            Chain::SpacedSum { first, weights, n, spacing, result } => {
                binary::spaced_sum(first, weights, (n, spacing), result, plan)
            }
            Chain::Products(ref products) => joined::plan(products, plan),
            Chain::Experts(ref products) => experts::plan(products, plan),
            Chain::Heads(ref heads) => norm::heads(heads, plan),
            Chain::Routing(ref route) => sort::route(route, plan),
        }
    }
}
