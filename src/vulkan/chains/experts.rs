//! Products of few tokens with the matrices of their experts: the gated function of two of them, and the weighted sum
//! of a token's experts. For many tokens, whose products are tiles, only the weights and the sum are joined.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_prec::GGML_PREC_F32;
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT;
use crate::abi::ggml::ggml_type::*;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::vulkan::chains::chain::{Chain, Found};
use crate::vulkan::chains::search::{Search, apart, apart_or_same, computed, f32_rows, only_for, other};
use crate::vulkan::device::Info;
use crate::vulkan::ops::matmul::experts::{ExpertPart, ExpertProducts};
use crate::vulkan::policy::method::{self, Product, Request};

/// How many nodes after the first one may belong to a gated function.
const AHEAD: usize = 24;
/// The most experts of a token.
const MOST_SLOTS: i64 = 64;

/// How the device computes a product with experts of few tokens. `None` for other nodes, and for methods that do not
/// join.
fn method(node: TensorRef, info: &Info) -> Option<Product> {
    if node.op() != GGML_OP_MUL_MAT_ID || !computed(node) {
        return None;
    }
    let (a, b, ids) = (node.src(0)?, node.src(1)?, node.src(2)?);
    let [rows, slots, tokens, _] = node.ne();
    let limit = info.limits.groups.map(i64::from);
    let fits = a.ne()[0] % 8 == 0
        && (1..=MOST_SLOTS).contains(&slots)
        && (b.ne()[1] == 1 || b.ne()[1] == slots)
        && rows > 0
        && rows <= limit[0]
        && slots <= limit[1]
        && tokens <= limit[2]
        && ids.dtype() == GGML_TYPE_I32
        && node.is_contiguous();
    let exact = node.op_param_i32(0) == GGML_PREC_F32 as i32;
    let columns = u32::try_from(tokens).ok()?;
    let method = method::product(info, &Request { columns, format: a.dtype(), exact, loadable: false });
    Some(method).filter(|m| fits && matches!(m, Product::Vector | Product::VectorInts))
}

/// Whether a node adds to a product with experts a row for each of them.
fn adds_bias(node: TensorRef, product: TensorRef) -> bool {
    let fits = |bias: TensorRef| {
        f32_rows(bias) && product.src(0).is_some_and(|a| bias.ne() == [product.ne()[0], a.ne()[2], 1, 1])
    };
    node.op() == GGML_OP_ADD_ID
        && node.src(0) == Some(product)
        && node.src(2) == product.src(2)
        && node.src(1).is_some_and(fits)
        && node.is_contiguous()
}

impl ExpertPart {
    /// The part whose result is `t`, which `reader` alone reads, and its last node's number and its product's.
    fn of(t: TensorRef, reader: TensorRef, search: &Search<'_>) -> Option<(Self, Vec<usize>)> {
        let graph = search.graph;
        let place = |t: TensorRef| {
            let here = std::iter::once((search.from, graph.node(search.from)));
            here.chain(search.after(search.from)).find(|(_, n)| *n == t).map(|(k, _)| k)
        };
        if !only_for(graph, t, reader) {
            return None;
        }
        if t.op() != GGML_OP_ADD_ID {
            return Some((Self { product: t, bias: None }, vec![place(t)?]));
        }
        let product = t.src(0)?;
        let fits = adds_bias(t, product) && only_for(graph, product, t);
        fits.then_some((Self { product, bias: t.src(1) }, vec![place(product)?, place(t)?]))
    }

    fn reads(&self) -> impl Iterator<Item = TensorRef> {
        self.product.srcs().map(|(_, s)| s).chain(self.bias)
    }

    /// Whether another part has matrices of the same format and strides for the same columns and experts.
    fn goes_with(&self, other: &Self, info: &Info) -> bool {
        let alike = |a: TensorRef, b: TensorRef| a.dtype() == b.dtype() && a.ne() == b.ne() && a.nb() == b.nb();
        let same = self.product.src(0).zip(other.product.src(0)).is_some_and(|(a, b)| alike(a, b))
            && [1, 2].iter().all(|&i| self.product.src(i) == other.product.src(i));
        let biases = match (self.bias, other.bias) {
            (None, None) => true,
            (Some(a), Some(b)) => alike(a, b),
            _ => false,
        };
        let methods = [self.product, other.product].map(|p| method(p, info));
        same && biases && methods[0].is_some() && methods[0] == methods[1]
    }
}

/// The gated function of two products with experts.
fn gated(search: &Search<'_>) -> Option<Found> {
    let graph = search.graph;
    let first = graph.node(search.from);
    let (mut k, mut node) = search.reader(first, search.from)?;
    if adds_bias(node, first) {
        (k, node) = search.reader(node, k)?;
    }
    if node.op() != GGML_OP_GLU || !computed(node) || node.src(2).is_some() {
        return None;
    }
    let ((gate, nodes), (up, more)) =
        (ExpertPart::of(node.src(0)?, node, search)?, ExpertPart::of(node.src(1)?, node, search)?);
    let fits = gate.product != up.product
        && gate.goes_with(&up, search.info)
        && node.dtype() == GGML_TYPE_F32
        && node.is_contiguous()
        && node.same_shape(gate.product);
    let nodes: Vec<_> = nodes.into_iter().chain(more).chain([k]).collect();
    let reads: Vec<_> = gate.reads().chain(up.reads()).collect();
    let free = reads.iter().all(|t| apart(node, *t)) && search.may_overtake(&nodes, &nodes, &reads, node);
    let chain = Chain::Experts(ExpertProducts::Gated { gate, up, result: node });
    (fits && free).then_some(Found { chain, nodes })
}

/// The sum over the slots of a product with experts, times their weights.
struct WeightedSum {
    weights: TensorRef,
    result: TensorRef,
    /// Numbers of the product with the weights and of the additions.
    nodes: Vec<usize>,
}

/// The product at node `i` of `experts` with weights, and the additions of its slots.
fn sum_of_slots(search: &Search<'_>, i: usize, experts: TensorRef) -> Option<WeightedSum> {
    let (graph, mul) = (search.graph, search.graph.node(i));
    let weights = other(mul, experts)?;
    let [columns, slots, tokens, _] = mul.ne();
    let fits = mul.op() == GGML_OP_MUL
        && computed(mul)
        && !mul.has_flag(GGML_TENSOR_FLAG_OUTPUT)
        && mul.same_shape(experts)
        && mul.is_contiguous()
        && mul.dtype() == GGML_TYPE_F32
        && weights.dtype() == GGML_TYPE_F32
        && weights.ne() == [1, slots, tokens, 1]
        && mul.ne()[3] == 1
        && (2..=MOST_SLOTS).contains(&slots)
        && i64::from(graph.use_count(mul)) == slots;
    // The slots in their order, each the view of one.
    let is_slot = |t: TensorRef, slot: i64| {
        t.op() == GGML_OP_VIEW
            && t.src(0) == Some(mul)
            && t.ne() == [columns, tokens, 1, 1]
            && t.nb()[0] == 4
            && (tokens == 1 || t.nb()[1] == mul.nb()[2])
            && t.view_offs() == slot as usize * mul.nb()[1]
            && graph.use_count(t) == 1
            && !t.has_flag(GGML_TENSOR_FLAG_OUTPUT)
    };
    if !fits {
        return None;
    }
    let (mut nodes, mut result) = (vec![i], None::<TensorRef>);
    for slot in 1..slots {
        let last = *nodes.last()?;
        let (k, add) = search.after(last).find(|(_, n)| n.op() == GGML_OP_ADD)?;
        let (a, b) = (add.src(0)?, add.src(1)?);
        let first = match result {
            None => is_slot(a, 0),
            Some(sum) => a == sum && only_for(graph, sum, add),
        };
        if !first || !is_slot(b, slot) || !computed(add) || !add.is_contiguous() || add.dtype() != GGML_TYPE_F32 {
            return None;
        }
        nodes.push(k);
        result = Some(add);
    }
    Some(WeightedSum { weights, result: result?, nodes })
}

/// The weighted sum of a product with experts, and an addition to it.
fn summed(search: &Search<'_>) -> Option<Found> {
    let graph = search.graph;
    let product = graph.node(search.from);
    let mut down = ExpertPart { product, bias: None };
    let (mut value, mut nodes) = (product, vec![search.from]);
    let (mut k, mut node) = search.reader(value, search.from)?;
    if adds_bias(node, product) {
        if !only_for(graph, product, node) {
            return None;
        }
        (down.bias, value) = (node.src(1), node);
        nodes.push(k);
        (k, node) = search.reader(value, k)?;
    }
    if node.op() != GGML_OP_MUL || !only_for(graph, value, node) {
        return None;
    }
    let sum = sum_of_slots(search, k, value)?;
    nodes.extend(&sum.nodes);
    let reads: Vec<_> = down.reads().chain([sum.weights]).collect();
    let good = |result: TensorRef, summand: Option<TensorRef>, nodes: &[usize]| {
        let all: Vec<_> = reads.iter().copied().chain(summand).collect();
        reads.iter().all(|t| apart(result, *t))
            && summand.is_none_or(|s| apart_or_same(result, s))
            && search.may_overtake(nodes, nodes, &all, result)
    };
    let chain = |summand, result| Chain::Experts(ExpertProducts::Sum { down, weights: sum.weights, summand, result });
    // Includes the addition of a summand to the sum, if nothing else reads the sum.
    let last = *nodes.last()?;
    if let Some((k, add)) = search.reader(sum.result, last)
        && add.op() == GGML_OP_ADD
        && only_for(graph, sum.result, add)
        && let Some(summand) = other(add, sum.result)
    {
        let with: Vec<_> = nodes.iter().copied().chain([k]).collect();
        let whole = [summand, add].into_iter().all(|t| f32_rows(t) && t.same_shape(sum.result));
        if whole && add.is_contiguous() && good(add, Some(summand), &with) {
            return Some(Found { chain: chain(Some(summand), add), nodes: with });
        }
    }
    good(sum.result, None, &nodes).then(|| Found { chain: chain(None, sum.result), nodes })
}

/// What is computed with the product with experts at node `i`.
pub(in crate::vulkan) fn find(graph: GraphRef, i: usize, taken: &[bool], info: &Info) -> Option<Found> {
    let node = graph.node(i);
    method(node, info)?;
    gated(&Search { graph, from: i, ahead: AHEAD, taken, info })
        .or_else(|| summed(&Search { graph, from: i, ahead: ahead_of(node), taken, info }))
}

/// A view and an addition for each slot.
fn ahead_of(product: TensorRef) -> usize {
    AHEAD + 2 * product.ne()[1].clamp(0, MOST_SLOTS) as usize
}

/// The products of tensors with weights at node `i`, and the sum of them over their slots.
pub(in crate::vulkan) fn weighted_sum(graph: GraphRef, i: usize, taken: &[bool], info: &Info) -> Option<Found> {
    let mul = graph.node(i);
    let experts = mul.src(0)?;
    let search = Search { graph, from: i, ahead: ahead_of(mul), taken, info };
    if !experts.is_contiguous() || experts.dtype() != GGML_TYPE_F32 {
        return None;
    }
    let sum = sum_of_slots(&search, i, experts)?;
    let reads = [experts, sum.weights];
    let fits = reads.iter().all(|t| apart(sum.result, *t))
        && search.may_overtake(&sum.nodes, &sum.nodes, &reads, sum.result)
        && u32::try_from(mul.ne()[0]).is_ok();
    let chain = Chain::SpacedSum {
        first: experts,
        weights: Some(sum.weights),
        n: mul.ne()[1] as u32,
        spacing: mul.ne()[0] as u32,
        result: sum.result,
    };
    fits.then_some(Found { chain, nodes: sum.nodes })
}
