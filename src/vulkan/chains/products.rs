//! Products of one column, as in the generation of text: those of the same column with matrices of one format (Q, K and
//! V), the additions after them, the rotation (RoPE) and SET_ROWS of some of them, the gated function of two of them.
//! Their nodes need not be neighbours: what is computed earlier than the graph says must not touch the memory of the
//! nodes that it overtakes.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_prec::GGML_PREC_F32;
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT;
use crate::abi::ggml::ggml_type::*;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::vulkan::chains::chain::{Chain, Found};
use crate::vulkan::chains::search::{Search, apart, apart_or_same, computed, f32_rows, only_for};
use crate::vulkan::device::Info;
use crate::vulkan::ops::matmul::joined::{JoinedPart, JoinedProducts};
use crate::vulkan::ops::rope;
use crate::vulkan::policy::method::{self, Product, Request};

/// How many nodes after the first one may belong to it.
const AHEAD: usize = 24;

impl JoinedPart {
    /// A product alone.
    fn of(product: TensorRef) -> Self {
        Self { product, summands: [None; 2], rope: None, result: product, rows: false }
    }

    /// What a dispatch reads for it, apart from the summands.
    fn operands(&self) -> impl Iterator<Item = TensorRef> {
        let index = self.result.src(1).filter(|_| self.rows);
        let rotation = self.rope.into_iter().flat_map(|r| [r.src(1), r.src(2)]).flatten();
        self.product.srcs().map(|(_, s)| s).chain(rotation).chain(index)
    }

    /// Whether the shader, which has one set of parameters for all rotations and one for all rows by index, can compute
    /// this part beside another.
    fn goes_with(&self, other: &JoinedPart) -> bool {
        let same_rotation = |a: TensorRef, b: TensorRef| {
            a.op_params() == b.op_params() && a.src(1) == b.src(1) && a.src(2) == b.src(2) && a.ne()[0] == b.ne()[0]
        };
        let same_rows = |a: TensorRef, b: TensorRef| {
            a.dtype() == b.dtype()
                && a.ne()[1] == b.ne()[1]
                && a.nb()[1] == b.nb()[1]
                && a.src(1).zip(b.src(1)).is_some_and(|(a, b)| a.dtype() == b.dtype())
        };
        let even = |p: &JoinedPart| p.product.ne()[0] % 2 == 0;
        self.summands[0].is_some() == other.summands[0].is_some()
            && self.rope.zip(other.rope).is_none_or(|(a, b)| same_rotation(a, b))
            && (self.rope.or(other.rope).is_none() || even(self) && even(other))
            && (!(self.rows && other.rows) || same_rows(self.result, other.result))
    }

    fn reads(&self) -> Vec<TensorRef> {
        self.operands().chain(self.summands.into_iter().flatten()).collect()
    }
}

/// How the device computes a product of one column with one matrix. `None` for other nodes, and for methods that do not
/// join.
fn method(node: TensorRef, info: &Info) -> Option<Product> {
    if node.op() != GGML_OP_MUL_MAT || !computed(node) {
        return None;
    }
    let (a, b) = (node.src(0)?, node.src(1)?);
    let fits = node.ne()[1..] == [1, 1, 1]
        && b.ne()[1..] == [1, 1, 1]
        && a.ne()[2..] == [1, 1]
        && a.ne()[0] % 8 == 0
        && node.ne()[0] > 0
        && node.ne()[0] < 1 << 29
        && node.is_contiguous();
    let exact = node.op_param_i32(0) == GGML_PREC_F32 as i32;
    let method = method::product(info, &Request { columns: 1, format: a.dtype(), exact, loadable: false });
    Some(method).filter(|m| fits && matches!(m, Product::Vector | Product::VectorInts))
}

/// Whether a node multiplies the same column as `first`, in the same way, with a matrix of the same format and stride.
fn joins(node: TensorRef, first: TensorRef, info: &Info) -> bool {
    let same =
        |(a, b): (TensorRef, TensorRef)| a.dtype() == b.dtype() && a.ne()[0] == b.ne()[0] && a.nb()[1] == b.nb()[1];
    node.op() == GGML_OP_MUL_MAT
        && node.src(1) == first.src(1)
        && node.src(0).zip(first.src(0)).is_some_and(same)
        && method(node, info).is_some()
        && method(node, info) == method(first, info)
}

/// Whether the addresses of these parts have room in the push block: two rows by index, or the factors of a rotation,
/// are where summands would be.
fn has_room(parts: &[&JoinedPart]) -> bool {
    let rows = parts.iter().filter(|p| p.rows).count();
    let factors = parts.iter().filter_map(|p| p.rope).any(|r| r.src(2).is_some());
    let adds = parts.iter().any(|p| p.summands[0].is_some());
    rows <= if adds { 1 } else { 2 } && !(adds && factors)
}

impl Search<'_> {
    /// The product at node `i` with the additions after it, at most `most`, and the numbers of all these nodes.
    fn part(&self, i: usize, most: usize) -> (JoinedPart, Vec<usize>) {
        let product = self.graph.node(i);
        let (mut part, mut nodes) = (JoinedPart::of(product), vec![i]);
        for k in 0..most {
            let last = nodes[nodes.len() - 1];
            let next = self.reader(part.result, last);
            let Some((n, add)) = next.filter(|(_, n)| n.op() == GGML_OP_ADD && only_for(self.graph, part.result, *n))
            else {
                break;
            };
            let Some(summand) = crate::vulkan::chains::search::other(add, part.result) else { break };
            let fits = [summand, add].into_iter().all(|t| f32_rows(t) && t.same_shape(product) && t.is_contiguous());
            if !fits || !self.may_write(product, add, &[summand]) {
                break;
            }
            part.summands[k] = Some(summand);
            part.result = add;
            nodes.push(n);
        }
        (part, nodes)
    }

    /// The part with the rotation and SET_ROWS after it, and these nodes, which only views separate from the part: with
    /// both, with the first of them, as far as they are there.
    fn with_more(&self, part: &JoinedPart, nodes: &[usize]) -> Vec<(JoinedPart, Vec<usize>)> {
        let mut all = Vec::new();
        let (mut part, mut nodes) = (*part, nodes.to_vec());
        while let Some((more, k)) = self.next_of(&part, &nodes) {
            (part, nodes) = (more, nodes.into_iter().chain([k]).collect());
            all.insert(0, (part, nodes.clone()));
        }
        all
    }

    /// The part with the rotation or SET_ROWS that is next, and the number of that node.
    fn next_of(&self, part: &JoinedPart, nodes: &[usize]) -> Option<(JoinedPart, usize)> {
        let (mut value, mut last) = (part.result, *nodes.last()?);
        if part.rows {
            return None;
        }
        loop {
            let (k, reader) = self.reader(value, last)?;
            if self.graph.use_count(value) != 1 || value.has_flag(GGML_TENSOR_FLAG_OUTPUT) {
                return None;
            }
            let whole = reader.is_contiguous()
                && reader.nelements() == value.nelements()
                && reader.view_offs() == value.view_offs();
            if matches!(reader.op(), GGML_OP_VIEW | GGML_OP_RESHAPE) && whole && reader.dtype() == value.dtype() {
                (value, last) = (reader, k);
                continue;
            }
            let good = |with: &JoinedPart| computed(reader) && with.reads().iter().all(|t| apart(reader, *t));
            if part.rope.is_none() && reader.src(0) == Some(value) && rope::joins_product(reader, self.info) {
                let with = JoinedPart { rope: Some(reader), result: reader, ..*part };
                // Its one row of heads is the column.
                let fits = reader.is_contiguous() && value.is_contiguous() && value.nelements() % 2 == 0;
                return (fits && good(&with)).then_some((with, k));
            }
            let (ids, m) = (reader.src(1)?, part.product.ne()[0]);
            let fits = reader.op() == GGML_OP_SET_ROWS
                && reader.src(0) == Some(value)
                && value.ne() == [m, 1, 1, 1]
                && reader.ne()[0] == m
                && reader.ne()[2..] == [1, 1]
                && reader.is_contiguous_rows()
                && matches!(reader.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16)
                && ids.nelements() == 1
                && matches!(ids.dtype(), GGML_TYPE_I32 | GGML_TYPE_I64);
            let with = JoinedPart { result: reader, rows: true, ..*part };
            return (fits && good(&with)).then_some((with, k));
        }
    }

    /// Whether a dispatch may write `result` while it reads the operands of the product, and the summands element by
    /// element.
    fn may_write(&self, product: TensorRef, result: TensorRef, summands: &[TensorRef]) -> bool {
        product.srcs().all(|(_, s)| apart(result, s)) && summands.iter().all(|s| apart_or_same(result, *s))
    }

    /// Two products that a gated function joins.
    fn gated(&self) -> Option<Found> {
        let first = self.graph.node(self.from);
        let (k, node) = self.reader(first, self.from)?;
        let (gate, up) = (node.src(0)?, node.src(1)?);
        let other = if gate == first { up } else { gate };
        if node.op() != GGML_OP_GLU || !computed(node) || node.src(2).is_some() || gate == up {
            return None;
        }
        let (j, _) = self.after(self.from).find(|(_, n)| *n == other)?;
        let fits = joins(other, first, self.info)
            && node.dtype() == GGML_TYPE_F32
            && node.is_contiguous()
            && [gate, up].into_iter().all(|t| t.same_shape(node) && only_for(self.graph, t, node));
        let nodes = vec![self.from, j, k];
        let reads: Vec<_> = [gate, up].iter().flat_map(|p| p.srcs().map(|(_, s)| s)).collect();
        if !fits || !reads.iter().all(|s| apart(node, *s)) || !self.may_overtake(&nodes, &nodes, &reads, node) {
            return None;
        }
        let joined =
            JoinedProducts { parts: [Some(JoinedPart::of(gate)), Some(JoinedPart::of(up)), None], gate: Some(node) };
        Some(Found { chain: Chain::Products(joined), nodes })
    }

    /// Products of the same column, each with an addition or each without, or one product with up to two additions.
    /// Some may be rotated, and some may go to a row by index.
    fn rows(&self) -> Option<Found> {
        let first = self.graph.node(self.from);
        let others: Vec<_> =
            self.after(self.from).filter(|(_, n)| joins(*n, first, self.info)).map(|(k, _)| k).collect();
        let mut most = if others.is_empty() { 2 } else { 1 };
        loop {
            let mut parts = [None; 3];
            let mut all: Vec<usize> = Vec::new();
            let mut n = 0;
            for &i in [self.from].iter().chain(&others) {
                let plain = self.part(i, most);
                let more = self.with_more(&plain.0, &plain.1);
                let fits = |(part, nodes): &(JoinedPart, Vec<usize>)| {
                    let together: Vec<&JoinedPart> = parts.iter().flatten().chain([part]).collect();
                    let same = parts.iter().flatten().all(|p: &JoinedPart| p.goes_with(part)) && has_room(&together);
                    let with: Vec<_> = all.iter().chain(nodes).copied().collect();
                    // What one part writes must not be what another reads or writes.
                    let apart_from = |p: &JoinedPart| {
                        apart(part.result, p.result)
                            && p.reads().iter().all(|t| apart(part.result, *t))
                            && part.reads().iter().all(|t| apart(p.result, *t))
                    };
                    same && n < 3
                        && self.may_write(part.product, part.result, &[])
                        && self.may_overtake(nodes, &with, &part.reads(), part.result)
                        && parts.iter().flatten().all(apart_from)
                };
                match more.into_iter().chain([plain]).find(fits) {
                    Some((part, nodes)) => {
                        parts[n] = Some(part);
                        all.extend(nodes);
                        n += 1;
                    }
                    None if i == self.from => break,
                    None => {}
                }
            }
            let adds = parts[0].is_some_and(|p: JoinedPart| p.summands[0].is_some());
            let more = parts.iter().flatten().any(|p: &JoinedPart| p.rows || p.rope.is_some());
            if n > 1 || adds && n > 0 || more {
                return Some(Found { chain: Chain::Products(JoinedProducts { parts, gate: None }), nodes: all });
            }
            // Other products do not join after all, or the additions are in the way.
            most = match most {
                1 if !others.is_empty() && n == 1 => return None,
                0 => return None,
                m => m - 1,
            };
        }
    }
}

/// The products that are computed with that at node `i`.
pub(in crate::vulkan) fn find(graph: GraphRef, i: usize, taken: &[bool], info: &Info) -> Option<Found> {
    method(graph.node(i), info)?;
    let search = Search { graph, from: i, ahead: AHEAD, taken, info };
    search.gated().or_else(|| search.rows())
}

/// Whether a product after node `i` reads `columns` as blocks of integers.
pub(in crate::vulkan) fn feeds_integers(graph: GraphRef, i: usize, columns: TensorRef, info: &Info) -> bool {
    (i + 1..graph.n_nodes().min(i + 1 + AHEAD)).map(|k| graph.node(k)).any(|node| {
        let n = match node.op() {
            GGML_OP_MUL_MAT => node.ne()[1],
            GGML_OP_MUL_MAT_ID => node.ne()[2],
            _ => return false,
        };
        let (Some(a), Some(b), Ok(n)) = (node.src(0), node.src(1), u32::try_from(n)) else { return false };
        let same =
            b == columns || b.view_src() == Some(columns) && b.is_contiguous() && b.nelements() == columns.nelements();
        let exact = node.op_param_i32(0) == GGML_PREC_F32 as i32;
        let ints = || method::product(info, &Request { columns: n, format: a.dtype(), exact, loadable: false });
        same && computed(node) && matches!(ints(), Product::VectorInts | Product::TileInts)
    })
}
