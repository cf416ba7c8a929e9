//! Making graphs: memory in a context, and the walk from a result back to everything it needs.

use super::GraphRef;
use super::set::{HashSetRef, Modulus};
use crate::abi::ggml::{ggml_object_type, ggml_op, ggml_tensor, ggml_tensor_flag};
use crate::abi::graph::{ggml_cgraph, ggml_cgraph_eval_order, ggml_hash_set};
use crate::error::{Error, Result};
use crate::ggml_assert;
use crate::tensor::{Context, TensorRef, context::OBJECT_SIZE};
use std::cell::Cell;
use std::ffi::c_int;

/// Numbers of hash slots: the first prime after each power of two.
const SLOT_COUNTS: [usize; 32] = [
    2, 3, 5, 11, 17, 37, 67, 131, 257, 521, 1031, 2053, 4099, 8209, 16411, 32771, 65537, 131101, 262147, 524309,
    1048583, 2097169, 4194319, 8388617, 16777259, 33554467, 67108879, 134217757, 268435459, 536870923, 1073741827,
    2147483659,
];

/// Slots of a hash set that shall hold `min` tensors.
pub fn hash_size(min: usize) -> usize {
    let i = SLOT_COUNTS.partition_point(|&p| p < min);
    SLOT_COUNTS.get(i).copied().unwrap_or(min | 1)
}

/// Offsets of the arrays of a graph, in bytes from its start.
struct ArrayOffsets {
    slots: usize,
    nodes: usize,
    leafs: usize,
    use_counts: usize,
    keys: usize,
    grads: usize,
    grad_accs: usize,
    used: usize,
    total: usize,
}

impl ArrayOffsets {
    fn new(size: usize, grads: bool) -> Option<Self> {
        let slots = hash_size(size.checked_mul(2)?);
        let mut end = size_of::<ggml_cgraph>();
        let mut place = |count: usize, item: usize| {
            let at = end.checked_next_multiple_of(item)?;
            end = at.checked_add(count.checked_mul(item)?)?;
            Some(at)
        };
        const PTR: usize = size_of::<*mut ggml_tensor>();
        let nodes = place(size, PTR)?;
        let leafs = place(size, PTR)?;
        let use_counts = place(slots, size_of::<i32>())?;
        let keys = place(slots, PTR)?;
        let n_grads = if grads { slots } else { 0 };
        let grads = place(n_grads, PTR)?;
        let grad_accs = place(n_grads, PTR)?;
        let used = place(slots.div_ceil(32), size_of::<u32>())?;
        Some(Self { slots, nodes, leafs, use_counts, keys, grads, grad_accs, used, total: end })
    }
}

/// Bytes a context needs for a graph of `size` nodes and leafs; `grads`: with room for gradients. Saturates.
pub fn overhead(size: usize, grads: bool) -> usize {
    ArrayOffsets::new(size, grads)
        .and_then(|l| l.total.checked_next_multiple_of(crate::abi::ggml::GGML_MEM_ALIGN))
        .map_or(usize::MAX, |n| n.saturating_add(OBJECT_SIZE))
}

/// A new empty graph in `ctx` with room for `size` nodes and as many leafs; `grads`: with room for gradients.
pub fn new(ctx: &mut Context, size: usize, grads: bool) -> Result<GraphRef> {
    let too_large = || Error::OutOfMemory { what: "a graph".into(), bytes: size };
    let layout = ArrayOffsets::new(size, grads).ok_or_else(too_large)?;
    let count = c_int::try_from(size).map_err(|_| too_large())?;
    let base = ctx.new_object(ggml_object_type::GGML_OBJECT_TYPE_GRAPH, layout.total)?.as_ptr();
    let at = |offset: usize| {
        // SAFETY: all offsets are in the object, which has `total` bytes.
        unsafe { base.add(offset) }
    };
    let none = std::ptr::null_mut();
    let graph = ggml_cgraph {
        size: count,
        n_nodes: 0,
        n_leafs: 0,
        nodes: at(layout.nodes).cast(),
        grads: if grads { at(layout.grads).cast() } else { none },
        grad_accs: if grads { at(layout.grad_accs).cast() } else { none },
        leafs: at(layout.leafs).cast(),
        use_counts: at(layout.use_counts).cast(),
        visited_hash_set: ggml_hash_set {
            size: layout.slots,
            used: at(layout.used).cast(),
            keys: at(layout.keys).cast(),
        },
        order: ggml_cgraph_eval_order::GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT as c_int,
        uid: 0,
    };
    let p = base.cast::<ggml_cgraph>();
    // SAFETY: the object is aligned to 16 and large enough; its arrays are inside it. Entries of nodes and leafs are
    // written before they are counted, keys and use counts before their bit is set: only the bits, and gradients, start
    // as zeros.
    let graph = unsafe {
        at(layout.grads).write_bytes(0, layout.total - layout.grads);
        p.write(graph);
        GraphRef::from_ptr(p)
    };
    graph.ok_or_else(too_large)
}

/// One tensor on the way from a result to its sources.
#[derive(Clone, Copy)]
struct Frame {
    tensor: TensorRef,
    slot: usize,
    next_src: u8,
    /// Index after the last source that is set.
    end: u8,
    /// Seen before: only the compute flag travels on.
    revisit: bool,
}

/// What the walk keeps from one call to the next on a thread: hosts expand after every few operations.
struct WalkMemory {
    stack: Vec<Frame>,
    modulus: Modulus,
}

thread_local! {
    static WALK_MEMORY: Cell<Option<WalkMemory>> = const { Cell::new(None) };
}

impl GraphRef {
    /// Adds `tensor` and everything it needs that is not there yet: sources before the nodes that read them, in the
    /// order of their places. Tensors without an operation become leafs, parameters nodes. `compute` marks what is
    /// visited as to be computed; without it the tensors only take their places.
    ///
    /// Ends the process when the graph has no room (the contract).
    pub fn expand(self, tensor: TensorRef, compute: bool) {
        let (n_old, set) = (self.n_nodes(), self.visited());
        // A destructor of the host may be the caller, after the thread's own values are gone.
        let kept = WALK_MEMORY.try_with(Cell::take).ok().flatten();
        let mut kept = kept.unwrap_or_else(|| WalkMemory { stack: Vec::new(), modulus: Modulus::new(0) });
        if kept.modulus.number() != set.size() {
            kept.modulus = Modulus::new(set.size());
        }
        kept.stack.clear();
        let mut walk = Walk {
            graph: self,
            set,
            modulus: kept.modulus,
            rtl: self.raw().order == ggml_cgraph_eval_order::GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT as c_int,
            compute,
            stack: kept.stack,
        };
        walk.run(tensor);
        let kept = WalkMemory { stack: walk.stack, modulus: walk.modulus };
        let _ = WALK_MEMORY.try_with(|place| place.set(Some(kept)));
        if self.n_nodes() > n_old {
            ggml_assert!(self.node(self.n_nodes() - 1) == tensor, "the result must be the last node");
        }
    }
}

/// The walk of one call.
struct Walk {
    graph: GraphRef,
    set: HashSetRef,
    /// Remainders by the number of slots of the set.
    modulus: Modulus,
    /// Sources from the last place to the first.
    rtl: bool,
    compute: bool,
    stack: Vec<Frame>,
}

impl Walk {
    fn run(&mut self, tensor: TensorRef) {
        self.enter(tensor, self.compute);
        while let Some(frame) = self.stack.last_mut() {
            let Frame { tensor: parent, next_src, end, revisit, .. } = *frame;
            let mut i = usize::from(next_src);
            let mut next = None;
            while next.is_none() && i < usize::from(end) {
                next = parent.src(if self.rtl { usize::from(end) - 1 - i } else { i });
                i += 1;
            }
            frame.next_src = i as u8;
            match next {
                None => {
                    let done = *frame;
                    self.stack.pop();
                    if !revisit {
                        self.place(done.tensor);
                        // A tensor that was entered for its first reader counts that reader now.
                        if self.stack.last().is_some_and(|p| !p.revisit) {
                            self.count_use(done.slot);
                        }
                    }
                }
                Some(src) if revisit => {
                    if !src.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE) {
                        self.enter(src, true);
                    }
                }
                Some(src) => {
                    if let Some(slot) = self.enter(src, self.compute) {
                        self.count_use(slot);
                    }
                }
            }
        }
    }

    #[inline]
    fn count_use(&self, slot: usize) {
        self.graph.set_use_count(slot, self.graph.use_count_at(slot) + 1);
    }

    /// Starts on a tensor; one without sources is also done with. Returns its slot when it was there before, or is done
    /// with.
    #[inline]
    fn enter(&mut self, tensor: TensorRef, compute: bool) -> Option<usize> {
        let is_op = tensor.op_raw() != ggml_op::GGML_OP_NONE as c_int;
        if compute && is_op {
            tensor.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
        }
        let Some((slot, known)) = self.set.insert_by(self.modulus, tensor) else {
            crate::ggml_abort!("the graph's hash set of {} slots is full", self.set.size())
        };
        if known && !(compute && is_op) {
            return Some(slot);
        }
        let end = tensor.srcs_end();
        if !known {
            self.graph.set_use_count(slot, 0);
            if end == 0 {
                tensor.prefetch_next();
                self.place(tensor);
                return Some(slot);
            }
        }
        self.stack.push(Frame { tensor, slot, next_src: 0, end: end as u8, revisit: known });
        known.then_some(slot)
    }

    #[inline]
    fn place(&self, tensor: TensorRef) {
        let graph = self.graph;
        let is_leaf = tensor.op_raw() == ggml_op::GGML_OP_NONE as c_int
            && !tensor.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM);
        if !tensor.has_name() {
            match is_leaf {
                true => tensor.set_numbered_name(b"leaf_", graph.n_leafs()),
                false => tensor.set_numbered_name(b"node_", graph.n_nodes()),
            }
        }
        let placed = if is_leaf { graph.push_leaf(tensor) } else { graph.push_node(tensor) };
        ggml_assert!(placed, "the graph has room for {} nodes and as many leafs, make it larger", graph.size());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::tensor::context::TENSOR_SIZE;

    fn op(ctx: &mut Context, srcs: &[TensorRef]) -> TensorRef {
        let t = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        t.set_op(ggml_op::GGML_OP_ADD);
        for (i, &s) in srcs.iter().enumerate() {
            t.set_src(i, Some(s));
        }
        t
    }

    #[test]
    fn sources_come_first_and_uses_are_counted() {
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let a = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        let b = op(&mut ctx, &[a, a]);
        let c = op(&mut ctx, &[b, a]);
        let d = op(&mut ctx, &[c, b]);
        let g = new(&mut ctx, 16, true).unwrap();
        g.expand(c, true);
        g.expand(d, true);
        assert_eq!(g.nodes().collect::<Vec<_>>(), [b, c, d]);
        assert_eq!(g.leafs().collect::<Vec<_>>(), [a]);
        assert_eq!([a, b, c, d].map(|t| g.use_count(t)), [3, 2, 1, 0]);
        assert_eq!([a.name(), d.name()], ["leaf_0", "node_2"]);
    }

    #[test]
    fn the_compute_flag_reaches_what_was_only_placed() {
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let a = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        let b = op(&mut ctx, &[a]);
        let c = op(&mut ctx, &[b]);
        let g = new(&mut ctx, 16, false).unwrap();
        g.expand(c, false);
        assert!(!b.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE));
        g.expand(c, true);
        assert!([b, c].iter().all(|t| t.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE)));
        assert_eq!((g.n_nodes(), g.use_count(b), g.use_count(a)), (2, 1, 1));
    }

    #[test]
    fn long_chains_need_no_stack() {
        let n = 200_000;
        let tensors = n * (OBJECT_SIZE + TENSOR_SIZE);
        let mut ctx = Context::with_size(tensors + overhead(n + 8, false) + 4096, true).unwrap();
        let mut t = ctx.new_tensor(GGML_TYPE_F32, &[1]).unwrap();
        for _ in 0..n {
            t = op(&mut ctx, &[t]);
        }
        let g = new(&mut ctx, n + 8, false).unwrap();
        g.expand(t, true);
        assert_eq!(g.n_nodes(), n);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        let mut ctx = Context::with_size(4096, true).unwrap();
        assert!(new(&mut ctx, usize::MAX / 2, true).is_err());
        assert!(new(&mut ctx, 1 << 40, false).is_err());
        assert_eq!(overhead(2048, false), 32 + 96 + 2 * 2048 * 8 + 4099 * 12 + 4 + 516 + 4);
    }
}
