//! A graph and its data copied to another device, and two backends compared on one graph.

use super::{BackendRef, BufferBox, tensor_io, view};
use crate::abi::ggml::{ggml_op, ggml_status};
use crate::error::{Error, Result};
use crate::graph::{GraphRef, build};
use crate::tensor::context::{OBJECT_SIZE, TENSOR_SIZE};
use crate::tensor::{Context, TensorRef};
use crate::{ggml_assert, invalid, log_error};
use std::collections::{HashMap, HashSet};

/// A copied graph with everything it needs.
pub struct GraphCopy {
    /// Data of the tensors that have some.
    pub buffer: BufferBox,
    /// Tensors with data, and the graph.
    pub allocated: Context,
    /// Views.
    pub unallocated: Context,
    /// The graph: nodes only.
    pub graph: GraphRef,
}

/// One tensor of the graph and its copy; in the list the source of a view is before the view.
struct Pair {
    from: TensorRef,
    to: TensorRef,
}

struct Copier {
    copies: HashMap<TensorRef, TensorRef>,
    pairs: Vec<Pair>,
    allocated: Context,
    unallocated: Context,
}

impl Copier {
    /// Copies a tensor, the source of a view before the view. Its sources are set later ([`Copier::connect`]): a tensor
    /// may be among its own, as the result of `ggml_cast` is.
    fn copy(&mut self, t: TensorRef) -> Result<()> {
        let mut chain = vec![t];
        while let Some(t) = chain.last().copied() {
            match t.view_src() {
                _ if self.copies.contains_key(&t) => _ = chain.pop(),
                Some(base) if !self.copies.contains_key(&base) => {
                    if chain.contains(&base) {
                        return Err(invalid!("'{}' is a view of itself", base.name()));
                    }
                    chain.push(base);
                }
                _ => {
                    self.duplicate(t)?;
                    chain.pop();
                }
            }
        }
        Ok(())
    }

    /// Gives every copy the copies of its tensor's sources.
    fn connect(&self) -> Result<()> {
        for Pair { from, to } in &self.pairs {
            for (i, s) in from.srcs() {
                to.set_src(i, Some(self.find(s)?));
            }
        }
        Ok(())
    }

    fn find(&self, t: TensorRef) -> Result<TensorRef> {
        self.copies.get(&t).copied().ok_or_else(|| invalid!("'{}' is not part of the copy", t.name()))
    }

    /// Copies one tensor whose view source has been copied.
    fn duplicate(&mut self, from: TensorRef) -> Result<()> {
        ggml_assert!(!from.data().is_null(), "graph must be allocated: '{}'", from.name());
        let context = if from.view_src().is_none() { &mut self.allocated } else { &mut self.unallocated };
        let to = context.new_tensor(from.dtype(), &from.ne())?;
        to.set_nb(from.nb());
        if let Some(base) = from.view_src() {
            to.set_view_src(Some(self.find(base)?));
            to.set_view_offs(from.view_offs());
        }
        to.set_op(from.op());
        to.set_flags(from.flags());
        to.set_op_params(from.op_params());
        to.set_name(&from.name_bytes());
        self.copies.insert(from, to);
        self.pairs.push(Pair { from, to });
        Ok(())
    }
}

/// Tensors that a graph reaches. Works on a list, not by recursion: graphs may be deeper than the stack.
fn reachable(graph: GraphRef) -> Vec<TensorRef> {
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    let mut todo: Vec<_> = graph.nodes().collect();
    while let Some(t) = todo.pop() {
        if seen.insert(t) {
            all.push(t);
            todo.extend(t.srcs().map(|(_, s)| s).chain(t.view_src()));
        }
    }
    all
}

/// Copies a graph, whose tensors must have data, to the device of `backend`.
pub fn copy(backend: BackendRef, graph: GraphRef) -> Result<GraphCopy> {
    let tensors = reachable(graph);
    let room = tensors.len() * (OBJECT_SIZE + TENSOR_SIZE);
    let room_for_graph = build::overhead(graph.size().max(graph.n_nodes()), false);
    // SAFETY: the copies are beside their contexts, in the copier and then in the `GraphCopy`; its holder uses the
    // graph while it lives.
    let (allocated, unallocated) =
        unsafe { (Context::owned(room + room_for_graph, true)?, Context::owned(room, true)?) };
    let mut copier = Copier {
        copies: HashMap::with_capacity(tensors.len()),
        pairs: Vec::with_capacity(tensors.len()),
        allocated,
        unallocated,
    };
    for t in tensors {
        copier.copy(t)?;
    }
    copier.connect()?;
    let mut list: Vec<_> = copier.allocated.tensors().map(TensorRef::as_ptr).collect();
    let buffer = backend
        .default_buffer_type()
        .alloc_buffer_n(&mut list)?
        .ok_or_else(|| invalid!("a graph without data cannot be copied"))?;
    for Pair { from, to } in &copier.pairs {
        if to.view_src().is_none() {
            tensor_io::copy(*from, *to)?;
        } else if view::init(*to) != ggml_status::GGML_STATUS_SUCCESS {
            return Err(Error::Backend(format!("{} cannot hold the view '{}'", buffer.name(), to.name())));
        }
    }
    let to = build::new(&mut copier.allocated, graph.size().max(graph.n_nodes()), false)?;
    for node in graph.nodes() {
        ggml_assert!(to.push_node(copier.find(node)?));
    }
    Ok(GraphCopy { buffer, allocated: copier.allocated, unallocated: copier.unallocated, graph: to })
}

/// Computes a graph on `first` and a copy of it on `second`, and calls `compare` with the index and both results: for
/// each node after it was computed alone, until `compare` says `false`; or, when `only` names nodes, for those after
/// the whole graph was computed. At least one of `only` must be a node (the contract). `false` when the graph could not
/// be copied.
pub fn compare(
    first: BackendRef,
    second: BackendRef,
    graph: GraphRef,
    only: &[*const crate::abi::ggml::ggml_tensor],
    mut compare: impl FnMut(usize, TensorRef, TensorRef) -> bool,
) -> bool {
    let copied = match copy(second, graph) {
        Ok(c) => c,
        Err(e) => {
            log_error!("graph copy: {e}");
            return false;
        }
    };
    let run = |backend: BackendRef, graph: GraphRef| {
        let status = backend.graph_compute(graph);
        if status != ggml_status::GGML_STATUS_SUCCESS {
            log_error!("comparing backends: {} computed with status {status:?}", backend.name());
        }
    };
    if !only.is_empty() {
        run(first, graph);
        run(second, copied.graph);
        let mut verified = false;
        for (i, (a, b)) in graph.nodes().zip(copied.graph.nodes()).enumerate() {
            for _ in only.iter().filter(|t| t.cast_mut() == a.as_ptr()) {
                compare(i, a, b);
                verified = true;
            }
        }
        ggml_assert!(verified, "none of the nodes to compare is in the graph");
        return true;
    }
    for (i, (a, b)) in graph.nodes().zip(copied.graph.nodes()).enumerate() {
        let (one, other) = (graph.slice(i..i + 1), copied.graph.slice(i..i + 1));
        // SAFETY: views of valid graphs that live until the computation is done.
        let views = unsafe { (GraphRef::from_ptr(&one), GraphRef::from_ptr(&other)) };
        if let (Some(one), Some(other)) = views {
            run(first, one);
            run(second, other);
        }
        use ggml_op::*;
        let is_view = matches!(a.op(), GGML_OP_VIEW | GGML_OP_RESHAPE | GGML_OP_PERMUTE | GGML_OP_TRANSPOSE);
        if !is_view && !compare(i, a, b) {
            break;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::{ggml_tensor_flag, ggml_type::GGML_TYPE_F32};
    use crate::backend::{author, host};

    #[test]
    fn a_graph_and_its_data_move_to_another_device() {
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let a = ctx.new_tensor(GGML_TYPE_F32, &[4, 2]).unwrap();
        let b = ctx.new_tensor(GGML_TYPE_F32, &[4, 2]).unwrap();
        let row = ctx.new_view(a, &[4], 16).unwrap();
        row.set_op(ggml_op::GGML_OP_VIEW);
        row.set_src(0, Some(a));
        let sum = ctx.new_tensor(GGML_TYPE_F32, &[4, 2]).unwrap();
        sum.set_op(ggml_op::GGML_OP_ADD);
        sum.set_src(0, Some(b));
        sum.set_src(1, Some(row));
        sum.set_name(b"sum");
        sum.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT);
        let mut list: Vec<_> = ctx.tensors().map(TensorRef::as_ptr).collect();
        let buffer = host::buffer_type().alloc_buffer_n(&mut list).unwrap().unwrap();
        buffer.clear(0);
        let data: Vec<u8> = (0..32).collect();
        tensor_io::set_bytes(a, &data, 0);
        let graph = build::new(&mut ctx, 16, false).unwrap();
        graph.expand(sum, true);

        let stream = author::tests::toy().device(0).unwrap().init(None).unwrap();
        let copied = copy(stream.handle(), graph).unwrap();
        assert_eq!(copied.graph.n_nodes(), graph.n_nodes());
        assert_eq!(copied.buffer.buft(), stream.default_buffer_type());
        let (view, total) = (copied.graph.node(0), copied.graph.node(1));
        assert_eq!((total.name().as_str(), total.op(), total.flags()), ("sum", sum.op(), sum.flags()));
        assert_eq!((total.src(1), view.view_src(), view.view_offs()), (Some(view), view.src(0), 16));
        let mut out = [0; 16];
        tensor_io::get_bytes(view, &mut out, 0);
        assert_eq!(out, data[16..]);
    }

    #[test]
    fn a_tensor_may_be_a_source_of_itself_and_two_of_each_other() {
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let a = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        // What ggml_cast makes: a copy into its own memory.
        let cast = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        cast.set_op(ggml_op::GGML_OP_CPY);
        cast.set_src(0, Some(a));
        cast.set_src(1, Some(cast));
        let base = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        let view = ctx.new_view(base, &[2], 8).unwrap();
        view.set_op(ggml_op::GGML_OP_CPY);
        view.set_src(0, Some(base));
        base.set_op(ggml_op::GGML_OP_ADD);
        base.set_src(0, Some(cast));
        base.set_src(1, Some(view));
        let mut list: Vec<_> = ctx.tensors().map(TensorRef::as_ptr).collect();
        let _buffer = host::buffer_type().alloc_buffer_n(&mut list).unwrap().unwrap();
        let graph = build::new(&mut ctx, 16, false).unwrap();
        graph.expand(view, true);

        let stream = author::tests::toy().device(0).unwrap().init(None).unwrap();
        let copied = copy(stream.handle(), graph).unwrap();
        assert_eq!(copied.graph.n_nodes(), graph.n_nodes());
        let of = |t: TensorRef| copied.graph.node(graph.nodes().position(|n| n == t).unwrap());
        assert_eq!(
            (of(cast).src(1), of(base).src(0), of(base).src(1)),
            (Some(of(cast)), Some(of(cast)), Some(of(view)))
        );
        assert_eq!((of(view).src(0), of(view).view_src()), (Some(of(base)), Some(of(base))));
    }

    #[test]
    fn a_graph_too_large_for_the_device_is_an_error() {
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let a = ctx.new_tensor(GGML_TYPE_F32, &[4096]).unwrap();
        let b = ctx.new_tensor(GGML_TYPE_F32, &[4096]).unwrap();
        b.set_op(ggml_op::GGML_OP_SQR);
        b.set_src(0, Some(a));
        let mut list = [a.as_ptr(), b.as_ptr()];
        let _buffer = host::buffer_type().alloc_buffer_n(&mut list).unwrap().unwrap();
        let graph = build::new(&mut ctx, 16, false).unwrap();
        graph.expand(b, true);
        let stream = author::tests::toy().device(0).unwrap().init(None).unwrap();
        assert!(copy(stream.handle(), graph).is_err());
        assert!(!compare(stream.handle(), stream.handle(), graph, &[], |_, _, _| true));
    }
}
