//! The choice of the experts of tokens: a gating function of the router's results, the largest of them, and weights, as
//! one dispatch. Between the sorting and the weights, hosts gather (GET_ROWS), and may take the softmax, divide by the
//! sum, and scale.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::ggml_unary_op::*;
use crate::graph::GraphRef;
use crate::sys::small_sort;
use crate::tensor::TensorRef;
use crate::vulkan::chains::chain::{Chain, Found};
use crate::vulkan::chains::search::{Search, apart, computed, only_for};
use crate::vulkan::device::Info;
use crate::vulkan::ops::sort::{Gating, Routing, Select};

/// How many nodes after the first one may belong to it.
const AHEAD: usize = 24;
/// The most experts, and the most that are chosen.
const MOST: [i64; 2] = [1024, 64];

/// A name of a whole tensor, in contiguous memory.
fn renames(t: TensorRef, of: TensorRef) -> bool {
    matches!(t.op(), GGML_OP_RESHAPE | GGML_OP_VIEW)
        && t.src(0) == Some(of)
        && t.dtype() == of.dtype()
        && t.is_contiguous()
        && of.is_contiguous()
        && t.nelements() == of.nelements()
        && t.view_offs() == of.view_offs()
}

/// A softmax without mask, sinks, scale and position bias.
fn is_plain_soft_max(node: TensorRef) -> bool {
    node.op() == GGML_OP_SOFT_MAX
        && node.src(1).is_none()
        && node.src(2).is_none()
        && node.op_param_f32(0) == 1.0
        && node.op_param_f32(1) == 0.0
}

/// Walks the nodes of a chain, and keeps their numbers.
struct Walk<'a> {
    search: Search<'a>,
    nodes: Vec<usize>,
}

impl Walk<'_> {
    fn graph(&self) -> GraphRef {
        self.search.graph
    }

    /// The first node after the first one that passes a test.
    fn find(&self, test: impl Fn(TensorRef) -> bool) -> Option<(usize, TensorRef)> {
        self.search.after(self.search.from).find(|(_, n)| test(*n))
    }

    /// Whether exactly `n` nodes read a tensor, so that it need not be written if all of them are in the chain.
    fn has_readers(&self, t: TensorRef, n: i32) -> bool {
        self.graph().use_count(t) == n && !t.has_flag(GGML_TENSOR_FLAG_OUTPUT)
    }

    /// The name of a tensor that is one row for each token, or the tensor itself.
    fn named(&self, t: TensorRef) -> TensorRef {
        match self.find(|n| renames(n, t)) {
            Some((_, name)) if self.has_readers(t, 1) => name,
            _ => t,
        }
    }

    /// A number for each token.
    fn sums(&self, t: TensorRef) -> Option<(usize, TensorRef)> {
        self.find(|n| n.op() == GGML_OP_SUM_ROWS && n.src(0) == Some(t) && computed(n))
    }
}

/// The gating function that starts with a node: its value, its kind, and the numbers of its nodes.
fn gating(walk: &Walk<'_>, first: TensorRef) -> Option<(TensorRef, Gating, Vec<usize>)> {
    let from = walk.search.from;
    if is_plain_soft_max(first) {
        return Some((first, Gating::SoftMax, vec![from]));
    }
    match Some(first).filter(|n| n.op() == GGML_OP_UNARY)?.unary_op()? {
        GGML_UNARY_OP_SIGMOID => Some((first, Gating::Sigmoid, vec![from])),
        GGML_UNARY_OP_SOFTPLUS => {
            let (k, root) = walk.find(|n| n.op() == GGML_OP_SQRT && n.src(0) == Some(first))?;
            only_for(walk.graph(), first, root).then_some((root, Gating::RootSoftplus, vec![from, k]))
        }
        _ => None,
    }
}

/// F32, a contiguous row of experts for each token.
fn is_rows(t: TensorRef, ne: [i64; 4]) -> bool {
    t.dtype() == GGML_TYPE_F32 && t.ne() == ne && t.is_contiguous_rows() && ne[2..] == [1, 1]
}

/// The weights from the gathered values on, as far as they belong to the chain.
fn weights(walk: &mut Walk<'_>, route: &mut Routing, gathered: TensorRef, tokens: i64) {
    let row = [i64::from(route.k), tokens, 1, 1];
    let mut last = gathered;
    let name = walk.named(last);
    if let Some((k, node)) = walk.find(|n| is_plain_soft_max(n) && n.src(0) == Some(name))
        && is_rows(node, row)
        && walk.has_readers(name, 1)
        && computed(node)
        && node.is_contiguous()
    {
        walk.nodes.push(k);
        last = node;
        route.late = true;
    }
    let mut name = walk.named(last);
    // A name of a name, where hosts go to another shape and back.
    if !is_rows(name, row) {
        name = walk.named(name);
    }
    if is_rows(name, row)
        && let Some((k, sums)) = walk.sums(name)
    {
        let (mut nodes, mut by, mut clamp) = (vec![k], sums, None);
        if let Some((k, node)) = walk.find(|n| n.op() == GGML_OP_CLAMP && n.src(0) == Some(sums))
            && only_for(walk.graph(), sums, node)
        {
            nodes.push(k);
            (by, clamp) = (node, Some([node.op_param_f32(0), node.op_param_f32(1)]));
        }
        let quotient = |n: TensorRef| n.op() == GGML_OP_DIV && n.src(0) == Some(name) && n.src(1) == Some(by);
        if let Some((k, node)) = walk.find(quotient)
            && only_for(walk.graph(), by, node)
            && walk.has_readers(name, 2)
            && computed(node)
            && is_rows(node, row)
            && node.is_contiguous()
        {
            nodes.push(k);
            walk.nodes.extend(nodes);
            last = node;
            route.norm = Some(clamp);
        }
    }
    let name = walk.named(last);
    if let Some((k, node)) = walk.find(|n| n.op() == GGML_OP_SCALE && n.src(0) == Some(name))
        && only_for(walk.graph(), name, node)
        && node.is_contiguous()
    {
        walk.nodes.push(k);
        last = node;
        route.scale = Some([node.op_param_f32(0), node.op_param_f32(1)]);
    }
    route.weights = last;
}

/// ARGSORT or TOP_K, and the gating function before it, if the chain starts with one.
struct Start {
    sort: TensorRef,
    gating: Gating,
    /// The result of the gating function.
    values: Option<TensorRef>,
}

fn start(walk: &mut Walk<'_>, first: TensorRef) -> Option<Start> {
    let sorts = |n: TensorRef| matches!(n.op(), GGML_OP_ARGSORT | GGML_OP_TOP_K);
    let (k, start) = if sorts(first) {
        (walk.search.from, Start { sort: first, gating: Gating::None, values: None })
    } else {
        let (values, gating, nodes) = gating(walk, first)?;
        walk.nodes = nodes;
        let (k, sort) = walk.find(sorts)?;
        (k, Start { sort, gating, values: Some(values) })
    };
    walk.nodes.push(k);
    let sort = start.sort;
    let by = sort.src(0)?;
    let descending = sort.op() == GGML_OP_TOP_K || sort.op_param_i32(0) == 1;
    (descending && computed(sort) && by.ne()[0] <= MOST[0] && is_rows(by, by.ne())).then_some(start)
}

/// The chosen experts of each token: the first of the sorted ones.
fn chosen(walk: &Walk<'_>, sort: TensorRef) -> Option<TensorRef> {
    if sort.op() == GGML_OP_TOP_K {
        return Some(sort);
    }
    let tokens = sort.ne()[1];
    let (_, view) = walk.find(|n| n.op() == GGML_OP_VIEW && n.src(0) == Some(sort))?;
    let rows = view.ne()[1..] == [tokens, 1, 1] && view.nb()[0] == 4 && (tokens == 1 || view.nb()[1] == sort.nb()[1]);
    (rows && view.view_offs() == sort.view_offs() && walk.has_readers(sort, 1)).then_some(view)
}

/// The values of the chosen experts: GET_ROWS, the tensor that it reads, and the name by which it does. `ne`: experts
/// and tokens.
fn gathered(walk: &mut Walk<'_>, ids: TensorRef, ne: [i64; 4]) -> Option<(TensorRef, TensorRef, TensorRef)> {
    let chosen = ids.ne()[0];
    let (k, gathered) = walk.find(|n| n.op() == GGML_OP_GET_ROWS && n.src(1) == Some(ids))?;
    walk.nodes.push(k);
    let name = gathered.src(0)?;
    let table = match name.src(0) {
        Some(t) if renames(name, t) => t,
        _ => name,
    };
    let fits = (1..=MOST[1].min(ne[0])).contains(&chosen)
        && name.ne() == [1, ne[0], ne[1], 1]
        && gathered.ne() == [1, chosen, ne[1], 1]
        && gathered.dtype() == GGML_TYPE_F32
        && gathered.is_contiguous()
        && table.dtype() == GGML_TYPE_F32
        && table.is_contiguous()
        && computed(gathered);
    fits.then_some((gathered, table, name))
}

/// The argument of the gating function, and what experts are selected by. Only the chain may read its `values`: by
/// their name, and for the selection.
fn selection(
    walk: &mut Walk<'_>,
    (start, values): (&Start, TensorRef),
    (table, name): (TensorRef, TensorRef),
) -> Option<(TensorRef, Select)> {
    let by = start.sort.src(0)?;
    let ne = by.ne();
    if table != values || !is_rows(values, ne) || !values.is_contiguous() || table != name && !walk.has_readers(name, 1)
    {
        return None;
    }
    let first = walk.graph().node(walk.search.from);
    let source = if start.gating == Gating::RootSoftplus { first.src(0)? } else { values.src(0)? };
    let (mut select, mut readers) = (Select::Other(by), 1);
    if by == values {
        (select, readers) = (Select::Values, 2);
    } else if by.op() == GGML_OP_ADD && by.src(0) == Some(values) {
        let (bias, (k, _)) = (by.src(1)?, walk.find(|n| n == by)?);
        if bias.ne() != [ne[0], 1, 1, 1] || !is_rows(bias, bias.ne()) || !only_for(walk.graph(), by, start.sort) {
            return None;
        }
        (select, readers) = (Select::Biased(bias), 2);
        walk.nodes.push(k);
    }
    (walk.has_readers(values, readers) && computed(values)).then_some((source, select))
}

/// The choice of experts that starts at node `i`.
pub fn find(graph: GraphRef, i: usize, taken: &[bool], info: &Info) -> Option<Found> {
    let mut walk = Walk { search: Search { graph, from: i, ahead: AHEAD, taken, info }, nodes: Vec::new() };
    let start = start(&mut walk, graph.node(i))?;
    let sort = start.sort;
    let by = sort.src(0)?;
    let ne = by.ne();
    let ids = chosen(&walk, sort)?;
    let (gathered, table, name) = gathered(&mut walk, ids, ne)?;
    let (source, select) = match start.values {
        Some(values) => selection(&mut walk, (&start, values), (table, name))?,
        None => (table, if by == table { Select::Values } else { Select::Other(by) }),
    };
    if !is_rows(source, ne) {
        return None;
    }
    let mut route = Routing {
        source,
        gating: start.gating,
        select,
        sort,
        k: ids.ne()[0] as u32,
        late: false,
        norm: None,
        scale: None,
        weights: gathered,
    };
    weights(&mut walk, &mut route, gathered, ne[1]);
    let mut reads = vec![route.source];
    match route.select {
        Select::Values => {}
        Select::Biased(t) | Select::Other(t) => reads.push(t),
    }
    let Walk { search, nodes } = walk;
    // One workgroup reads everything before it writes. Several need memory of their own.
    let free = |t: TensorRef| {
        (ne[1] == 1 || reads.iter().all(|r| apart(t, *r))) && search.may_overtake(&nodes, &nodes, &reads, t)
    };
    let good = apart(sort, route.weights) && free(sort) && free(route.weights);
    good.then(|| Found { chain: Chain::Routing(route), nodes: sorted(i, &nodes) })
}

/// Numbers of nodes, the first one first.
fn sorted(first: usize, nodes: &[usize]) -> Vec<usize> {
    let mut all = nodes.to_vec();
    small_sort::sort(&mut all, |a, b| a < b);
    debug_assert_eq!(all.first(), Some(&first));
    all
}
