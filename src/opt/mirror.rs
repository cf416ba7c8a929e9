//! A copy of a graph with its own tensors, bound to the same memory. A scheduler changes the graphs that it allocates.
//! With mirrors the graphs of a run can be allocated again.

use crate::error::Result;
use crate::ggml_assert;
use crate::graph::{GraphRef, build};
use crate::tensor::context::{OBJECT_SIZE, TENSOR_SIZE};
use crate::tensor::{Context, TensorRef};
use std::collections::HashMap;

/// The copy, and the context that holds it.
pub struct Mirror {
    graph: GraphRef,
    _ctx: Context,
}

struct Copier {
    ctx: Context,
    known: HashMap<TensorRef, TensorRef>,
}

impl Copier {
    /// The copy of a tensor. Copies its sources and its view source first. In the order of the nodes these are copied
    /// already, except for view sources outside of the graph.
    fn copy(&mut self, t: TensorRef) -> Result<TensorRef> {
        if let Some(&copy) = self.known.get(&t) {
            return Ok(copy);
        }
        let view_src = t.view_src().map(|v| self.copy(v)).transpose()?;
        let srcs = t.srcs().map(|(i, s)| Ok((i, self.copy(s)?))).collect::<Result<Vec<_>>>()?;
        let copy = self.ctx.new_tensor(t.dtype(), &t.ne())?;
        copy.set_nb(t.nb());
        copy.set_op(t.op());
        copy.set_op_params(t.op_params());
        copy.set_flags(t.flags());
        copy.set_name(&t.name_bytes());
        copy.set_data(t.data());
        copy.set_buffer_raw(t.buffer_raw());
        copy.set_extra(t.extra());
        copy.set_view_offs(t.view_offs());
        copy.set_view_src(view_src);
        for (i, s) in srcs {
            copy.set_src(i, Some(s));
        }
        self.known.insert(t, copy);
        Ok(copy)
    }
}

impl Mirror {
    /// A mirror of `graph`, without room for gradients.
    pub fn new(graph: GraphRef) -> Result<Self> {
        // A view source may be outside of the graph.
        let n_tensors = 2 * (graph.n_leafs() + graph.n_nodes());
        let bytes = n_tensors * (TENSOR_SIZE + OBJECT_SIZE) + build::overhead(graph.size(), false);
        // SAFETY: the copier, and then the mirror, owns the context next to the handles of its objects. A run keeps the
        // mirror until the scheduler no longer uses its graph.
        let ctx = unsafe { Context::owned(bytes, true) }?;
        let mut copier = Copier { ctx, known: HashMap::with_capacity(n_tensors) };
        let copy = build::new(&mut copier.ctx, graph.size(), false)?;
        for t in graph.leafs().chain(graph.nodes()) {
            copy.expand(copier.copy(t)?, true);
        }
        ggml_assert!(copy.n_leafs() == graph.n_leafs() && copy.n_nodes() == graph.n_nodes());
        Ok(Self { graph: copy, _ctx: copier.ctx })
    }

    /// The copy.
    pub fn graph(&self) -> GraphRef {
        self.graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::tensor::ops::{binary, view};

    #[test]
    fn a_mirror_has_the_same_nodes_and_other_tensors() {
        let ctx = &mut Context::with_size(1 << 20, false).unwrap();
        let base = ctx.new_tensor(GGML_TYPE_F32, &[8]).unwrap();
        let part = view::view(ctx, base, &[4], &[], 16).unwrap();
        let sum = binary::add(ctx, part, part).unwrap();
        sum.set_name(b"sum");
        let graph = build::new(ctx, 16, true).unwrap();
        graph.expand(sum, true);
        let mirror = Mirror::new(graph).unwrap();
        let copy = mirror.graph();
        assert_eq!((copy.n_nodes(), copy.n_leafs()), (2, 1));
        let (part2, sum2) = (copy.node(0), copy.node(1));
        assert!(part2 != part && sum2 != sum && part2.view_src() == Some(copy.leaf(0)));
        assert_eq!((sum2.name(), sum2.data(), part2.data()), (sum.name(), sum.data(), part.data()));
        assert_eq!([sum2.src(0), sum2.src(1)], [Some(part2); 2]);
        assert_eq!(copy.use_count(part2), graph.use_count(part));
    }
}
