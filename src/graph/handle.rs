//! `GraphRef`: a copyable handle on a compute graph that C code may own.

use super::set::HashSetRef;
use crate::abi::ggml::ggml_tensor;
use crate::abi::graph::{ggml_cgraph, ggml_cgraph_eval_order};
use crate::error::{Result, invalid};
use crate::ggml_assert;
use crate::tensor::TensorRef;
use std::ffi::c_int;
use std::ptr::NonNull;

/// In the place of a graph's order of traversal: a call that should have filled the graph has failed, so that nodes may
/// be missing.
const SPOILED: c_int = c_int::MIN;

/// Handle on a valid graph. Making one is the promise; using one is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct GraphRef(NonNull<ggml_cgraph>);

// SAFETY: a handle is a number; the code that makes it promises that no code writes the graph meanwhile. Workers of the
// CPU backend read the graph they compute.
unsafe impl Send for GraphRef {}
// SAFETY: a shared handle gives what a copy gives, and copies may be on any thread (`Send`).
unsafe impl Sync for GraphRef {}

/// Reads or writes a field. A handle refers to a **valid graph** (`from_ptr`), so each of its fields is there, and may
/// be written on the thread that uses the handle to do so.
macro_rules! field {
    ($self:ident . $name:ident) => {
        // SAFETY: a handle refers to a valid graph.
        unsafe { (&raw const (*$self.0.as_ptr()).$name).read() }
    };
    ($self:ident . $name:ident = $value:expr) => {{
        let value = $value;
        // SAFETY: a handle refers to a valid graph.
        unsafe { (&raw mut (*$self.0.as_ptr()).$name).write(value) }
    }};
}

/// An array of a graph. All use of the pointers in a graph is here, but for those of its set ([`HashSetRef`]).
///
/// Only [`GraphRef`] makes one, from a pointer of a **valid graph** and the count that belongs to it:
/// - it has room for as many entries as the count says, which may be read and written as the graph's fields may be;
/// - an entry that is read has been written: nodes and leafs before they were counted, a use count when its slot was
///   filled, gradients when the graph was made;
/// - nodes and leafs are **valid tensors**, or NULL in a graph that a host has made badly. Gradients are valid tensors,
///   or NULL for none.
#[derive(Clone, Copy)]
pub(super) struct Array<T> {
    first: *mut T,
    len: usize,
}

// Apart from the accessors, which are in every loop over a graph.
#[cold]
#[inline(never)]
fn outside(what: &str, i: usize, len: usize) -> ! {
    crate::ggml_abort!("{what} {i} of {len}")
}

#[cold]
#[inline(never)]
fn missing(what: &str, i: usize) -> ! {
    crate::ggml_abort!("{what} {i} of a graph is NULL")
}

impl<T: Copy> Array<T> {
    /// Number of entries.
    pub fn len(self) -> usize {
        self.len
    }

    #[inline(always)]
    fn require(self, i: usize, what: &str) {
        if i >= self.len {
            outside(what, i, self.len);
        }
    }

    /// Entry `i`, which must exist: a broken contract otherwise. `what` it is, for the message.
    #[inline(always)]
    fn get(self, i: usize, what: &str) -> T {
        self.require(i, what);
        // SAFETY: one of `len` entries that have been written, as the type says.
        unsafe { self.first.add(i).read() }
    }

    /// Sets entry `i`, which must exist.
    #[inline]
    pub fn set(self, i: usize, value: T, what: &str) {
        self.require(i, what);
        // SAFETY: there is room for `len` entries, as the type says.
        unsafe { self.first.add(i).write(value) }
    }
}

impl Array<*mut ggml_tensor> {
    /// The tensor of entry `i`, which may have none.
    #[inline(always)]
    pub fn tensor(self, i: usize, what: &str) -> Option<TensorRef> {
        // SAFETY: a **valid tensor** or NULL, as the type says.
        unsafe { TensorRef::from_ptr(self.get(i, what)) }
    }

    /// The tensor of entry `i`, which must have one: a broken contract otherwise.
    #[inline(always)]
    fn some_tensor(self, i: usize, what: &str) -> TensorRef {
        self.tensor(i, what).unwrap_or_else(|| missing(what, i))
    }

    /// Sets all entries to NULL.
    pub fn clear(self) {
        (0..self.len).for_each(|i| self.set(i, std::ptr::null_mut(), "entry"));
    }
}

impl GraphRef {
    /// The handle, or `None` for NULL.
    ///
    /// # Safety
    /// `p` is NULL or a valid graph for as long as the handle, or a copy of it, is used.
    #[inline]
    pub unsafe fn from_ptr(p: *const ggml_cgraph) -> Option<Self> {
        NonNull::new(p.cast_mut()).map(Self)
    }

    /// The graph's address.
    #[inline]
    pub fn as_ptr(self) -> *mut ggml_cgraph {
        self.0.as_ptr()
    }

    /// Room for nodes, and for leafs. 0 for a view of another graph.
    #[inline]
    pub fn size(self) -> usize {
        usize::try_from(field!(self.size)).unwrap_or(0)
    }

    /// Nodes in use.
    #[inline]
    pub fn n_nodes(self) -> usize {
        usize::try_from(field!(self.n_nodes)).unwrap_or(0)
    }

    /// Leafs in use.
    #[inline]
    pub fn n_leafs(self) -> usize {
        usize::try_from(field!(self.n_leafs)).unwrap_or(0)
    }

    /// The nodes in use.
    #[inline]
    fn node_array(self) -> Array<*mut ggml_tensor> {
        Array { first: field!(self.nodes), len: self.n_nodes() }
    }

    /// The leafs in use.
    #[inline]
    fn leaf_array(self) -> Array<*mut ggml_tensor> {
        Array { first: field!(self.leafs), len: self.n_leafs() }
    }

    /// The use counts, one for each slot of the set.
    #[inline]
    fn use_counts(self) -> Array<i32> {
        Array { first: field!(self.use_counts), len: self.visited().size() }
    }

    /// The gradients and the gradient accumulators, one for each slot of the set; none if the graph has no room for
    /// them.
    pub(super) fn grad_arrays(self) -> [Array<*mut ggml_tensor>; 2] {
        let slots = self.visited().size();
        let array = |first: *mut *mut ggml_tensor| Array { first, len: if first.is_null() { 0 } else { slots } };
        [array(field!(self.grads)), array(field!(self.grad_accs))]
    }

    /// Node `i`; which must exist: a broken contract otherwise.
    #[inline]
    pub fn node(self, i: usize) -> TensorRef {
        self.node_array().some_tensor(i, "node")
    }

    /// Puts `t` in the place of node `i`.
    pub fn set_node(self, i: usize, t: TensorRef) {
        self.node_array().set(i, t.as_ptr(), "node");
    }

    /// Leaf `i`; which must exist: a broken contract otherwise.
    #[cfg(test)]
    pub fn leaf(self, i: usize) -> TensorRef {
        self.leaf_array().some_tensor(i, "leaf")
    }

    /// All nodes in the order of their evaluation.
    pub fn nodes(self) -> impl DoubleEndedIterator<Item = TensorRef> + ExactSizeIterator {
        let nodes = self.node_array();
        (0..nodes.len).map(move |i| nodes.some_tensor(i, "node"))
    }

    /// All leafs.
    pub fn leafs(self) -> impl DoubleEndedIterator<Item = TensorRef> + ExactSizeIterator {
        let leafs = self.leaf_array();
        (0..leafs.len).map(move |i| leafs.some_tensor(i, "leaf"))
    }

    /// Adds a node at the end; `false` when the graph is full.
    pub fn push_node(self, t: TensorRef) -> bool {
        let n = self.n_nodes();
        if n >= self.size() {
            return false;
        }
        Array { first: field!(self.nodes), len: self.size() }.set(n, t.as_ptr(), "node");
        field!(self.n_nodes = n as i32 + 1);
        true
    }

    /// Adds a leaf at the end; `false` when the graph is full.
    pub fn push_leaf(self, t: TensorRef) -> bool {
        let n = self.n_leafs();
        if n >= self.size() {
            return false;
        }
        Array { first: field!(self.leafs), len: self.size() }.set(n, t.as_ptr(), "leaf");
        field!(self.n_leafs = n as i32 + 1);
        true
    }

    /// Sets how many nodes and leafs are in use; at most as many as there is room for.
    pub fn set_counts(self, n_nodes: usize, n_leafs: usize) {
        ggml_assert!(n_nodes <= self.size() && n_leafs <= self.size());
        field!(self.n_nodes = n_nodes as i32);
        field!(self.n_leafs = n_leafs as i32);
    }

    /// Number by which equal graphs are known; 0 for none.
    #[inline]
    pub fn uid(self) -> u64 {
        field!(self.uid)
    }

    /// Sets the number.
    pub fn set_uid(self, uid: u64) {
        field!(self.uid = uid)
    }

    /// Notes that a call which should have filled the graph has failed. What is missing in it is not known, so that it
    /// must not be computed: until it is cleared, [`Self::whole`] fails for it and its copies.
    pub fn spoil(self) {
        field!(self.order = SPOILED);
    }

    /// The graph, unless it is spoiled.
    ///
    /// # Errors
    /// The graph is spoiled, see [`Self::spoil`].
    #[inline]
    pub fn unspoiled(self) -> Result<Self> {
        match field!(self.order) {
            SPOILED => Err(invalid!(
                "the graph is incomplete, because a call that should have filled it has failed: clear it, or build another"
            )),
            _ => Ok(self),
        }
    }

    /// Whether the graph is spoiled, and the order of traversal that it has otherwise, become those of `other`.
    pub(super) fn take_order(self, other: Self) {
        field!(self.order = field!(other.order));
    }

    /// Forgets that the graph was spoiled: it is empty.
    pub(super) fn mend(self) {
        if self.unspoiled().is_err() {
            field!(self.order = ggml_cgraph_eval_order::GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT as c_int);
        }
    }

    /// The set of all tensors of the graph.
    #[inline]
    pub fn visited(self) -> HashSetRef {
        let set = field!(self.visited_hash_set);
        // SAFETY: a handle refers to a **valid graph** for as long as it, or a copy of it, is used.
        unsafe { HashSetRef::of(set) }
    }

    /// How many nodes read the tensor, 0 for one that is not in the graph. Backends use it to see what may be fused.
    pub fn use_count(self, t: TensorRef) -> i32 {
        match self.visited().find(t) {
            Some((slot, true)) => self.use_count_at(slot),
            _ => 0,
        }
    }

    /// Sets the use count of a slot.
    pub(crate) fn set_use_count(self, slot: usize, n: i32) {
        self.use_counts().set(slot, n, "use count");
    }

    /// The use count of a used slot.
    pub(crate) fn use_count_at(self, slot: usize) -> i32 {
        self.use_counts().get(slot, "use count")
    }

    /// The raw struct, copied.
    pub fn raw(self) -> ggml_cgraph {
        // SAFETY: a handle refers to a valid graph.
        unsafe { self.0.as_ptr().read() }
    }
}

/// A number that no graph has had yet, from 1 on.
pub fn next_uid() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
