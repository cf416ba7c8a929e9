//! `GraphRef`: a copyable handle on a compute graph that C code may own, and the hash set inside it.

use crate::abi::ggml::ggml_tensor;
use crate::abi::graph::{ggml_cgraph, ggml_cgraph_eval_order, ggml_hash_set};
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
// SAFETY: as above.
unsafe impl Sync for GraphRef {}

macro_rules! field {
    ($self:ident . $name:ident) => {
        // SAFETY: a handle refers to a valid graph.
        unsafe { (&raw const (*$self.0.as_ptr()).$name).read() }
    };
    ($self:ident . $name:ident = $value:expr) => {
        // SAFETY: a handle refers to a valid graph.
        unsafe { (&raw mut (*$self.0.as_ptr()).$name).write($value) }
    };
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

    /// Node `i`; which must exist: a broken contract otherwise.
    #[inline]
    pub fn node(self, i: usize) -> TensorRef {
        ggml_assert!(i < self.n_nodes(), "node {i} of {}", self.n_nodes());
        let entries = field!(self.nodes);
        // SAFETY: the first `n_nodes` entries are valid tensors.
        match unsafe { TensorRef::from_ptr(entries.add(i).read()) } {
            Some(t) => t,
            None => crate::ggml_abort!("node {i} of a graph is NULL"),
        }
    }

    /// Puts `t` in the place of node `i`.
    pub fn set_node(self, i: usize, t: TensorRef) {
        ggml_assert!(i < self.n_nodes());
        let entries = field!(self.nodes);
        // SAFETY: `nodes` has room for `n_nodes` entries.
        unsafe { entries.add(i).write(t.as_ptr()) }
    }

    /// Leaf `i`; which must exist: a broken contract otherwise.
    #[inline]
    pub fn leaf(self, i: usize) -> TensorRef {
        ggml_assert!(i < self.n_leafs(), "leaf {i} of {}", self.n_leafs());
        let entries = field!(self.leafs);
        // SAFETY: the first `n_leafs` entries are valid tensors.
        match unsafe { TensorRef::from_ptr(entries.add(i).read()) } {
            Some(t) => t,
            None => crate::ggml_abort!("leaf {i} of a graph is NULL"),
        }
    }

    /// All nodes in the order of their evaluation.
    pub fn nodes(self) -> impl DoubleEndedIterator<Item = TensorRef> + ExactSizeIterator {
        let entries = field!(self.nodes);
        // SAFETY: the first `n_nodes` entries are valid tensors.
        (0..self.n_nodes()).map(move |i| match unsafe { TensorRef::from_ptr(entries.add(i).read()) } {
            Some(t) => t,
            None => crate::ggml_abort!("node {i} of a graph is NULL"),
        })
    }

    /// All leafs.
    pub fn leafs(self) -> impl DoubleEndedIterator<Item = TensorRef> + ExactSizeIterator {
        (0..self.n_leafs()).map(move |i| self.leaf(i))
    }

    /// Adds a node at the end; `false` when the graph is full.
    pub fn push_node(self, t: TensorRef) -> bool {
        let n = self.n_nodes();
        if n >= self.size() {
            return false;
        }
        let entries = field!(self.nodes);
        // SAFETY: `nodes` has room for `size` entries.
        unsafe { entries.add(n).write(t.as_ptr()) };
        field!(self.n_nodes = n as i32 + 1);
        true
    }

    /// Adds a leaf at the end; `false` when the graph is full.
    pub fn push_leaf(self, t: TensorRef) -> bool {
        let n = self.n_leafs();
        if n >= self.size() {
            return false;
        }
        let entries = field!(self.leafs);
        // SAFETY: `leafs` has room for `size` entries.
        unsafe { entries.add(n).write(t.as_ptr()) };
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
    pub fn whole(self) -> Result<Self> {
        match field!(self.order) {
            SPOILED => Err(invalid!(
                "the graph is incomplete, because a call that should have filled it has failed: clear it, or build another"
            )),
            _ => Ok(self),
        }
    }

    /// Forgets that the graph was spoiled: it is empty.
    pub(super) fn mend(self) {
        if self.whole().is_err() {
            field!(self.order = ggml_cgraph_eval_order::GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT as c_int);
        }
    }

    /// The set of all tensors of the graph.
    #[inline]
    pub fn visited(self) -> HashSetRef {
        HashSetRef(field!(self.visited_hash_set))
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
        ggml_assert!(slot < self.visited().size());
        let entries = field!(self.use_counts);
        // SAFETY: as in `use_count`.
        unsafe { entries.add(slot).write(n) }
    }

    /// The use count of a slot.
    pub(crate) fn use_count_at(self, slot: usize) -> i32 {
        ggml_assert!(slot < self.visited().size());
        let entries = field!(self.use_counts);
        // SAFETY: as in `use_count`.
        unsafe { entries.add(slot).read() }
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

/// Remainders by one number, without divisions: those of 64 bits take longer than all else that a look into a set does.
#[derive(Clone, Copy, Debug)]
pub struct Modulus {
    n: usize,
    /// 2^64 / n, a little less.
    inverse: u64,
}

impl Modulus {
    /// Remainders by `n`, 0 for none.
    pub fn new(n: usize) -> Self {
        Self { n, inverse: u64::MAX.checked_div(n as u64).unwrap_or(0) }
    }

    /// The number.
    #[inline]
    pub fn number(self) -> usize {
        self.n
    }

    /// `x` modulo the number.
    #[inline]
    pub fn of(self, x: usize) -> usize {
        // The quotient is at most one too small: x < 2^64, and the inverse lacks less than one.
        let quotient = ((x as u128 * u128::from(self.inverse)) >> 64) as usize;
        let rest = x.wrapping_sub(quotient.wrapping_mul(self.n));
        if rest >= self.n { rest.wrapping_sub(self.n) } else { rest }
    }
}

/// A set of tensors as it is in a graph: linear probing from `(address >> 4) % size`.
#[derive(Clone, Copy)]
pub struct HashSetRef(ggml_hash_set);

impl HashSetRef {
    /// Number of slots.
    #[inline]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Whether a slot holds a tensor.
    #[inline]
    pub fn is_used(&self, slot: usize) -> bool {
        ggml_assert!(slot < self.0.size);
        // SAFETY: `used` has a bit for each of `size` slots.
        unsafe { self.0.used.add(slot / 32).read() >> (slot % 32) & 1 == 1 }
    }

    /// The tensor of a used slot.
    #[inline]
    pub fn key(&self, slot: usize) -> Option<TensorRef> {
        if !self.is_used(slot) {
            return None;
        }
        // SAFETY: a used slot holds a valid tensor.
        unsafe { TensorRef::from_ptr(self.key_raw(slot)) }
    }

    #[inline]
    fn key_raw(&self, slot: usize) -> *mut ggml_tensor {
        // SAFETY: `keys` has an entry for each of `size` slots; callers pass a smaller number.
        unsafe { self.0.keys.add(slot).read() }
    }

    /// The slot that holds `t` (with `true`), or the slot where it would go (with `false`); `None` when the set is
    /// full.
    #[inline]
    pub fn find(&self, t: TensorRef) -> Option<(usize, bool)> {
        if self.0.size == 0 {
            return None;
        }
        self.find_from(t, (t.as_ptr() as usize >> 4) % self.0.size)
    }

    /// As [`Self::find`] for a set that has slots, with the place where the search starts.
    #[inline]
    pub fn find_from(&self, t: TensorRef, start: usize) -> Option<(usize, bool)> {
        let mut slot = start;
        loop {
            if !self.is_used(slot) {
                return Some((slot, false));
            }
            if self.key_raw(slot) == t.as_ptr() {
                return Some((slot, true));
            }
            slot = if slot + 1 == self.0.size { 0 } else { slot + 1 };
            if slot == start {
                return None;
            }
        }
    }

    /// Puts `t` into its slot and returns it, with whether it was there before; `None` when the set is full.
    #[inline]
    pub fn insert(&self, t: TensorRef) -> Option<(usize, bool)> {
        if self.0.size == 0 {
            return None;
        }
        self.insert_from(t, (t.as_ptr() as usize >> 4) % self.0.size)
    }

    /// As [`Self::insert`], with the remainder by the number of slots taken by `modulus`, which is made for it.
    #[inline]
    pub fn insert_by(&self, modulus: Modulus, t: TensorRef) -> Option<(usize, bool)> {
        if self.0.size == 0 {
            return None;
        }
        self.insert_from(t, modulus.of(t.as_ptr() as usize >> 4))
    }

    #[inline]
    fn insert_from(&self, t: TensorRef, start: usize) -> Option<(usize, bool)> {
        let (slot, found) = self.find_from(t, start)?;
        if !found {
            self.fill(slot, t);
        }
        Some((slot, found))
    }

    #[inline]
    fn fill(&self, slot: usize, t: TensorRef) {
        ggml_assert!(slot < self.0.size);
        // SAFETY: `used` and `keys` have room for `size` slots, and `slot` is smaller.
        unsafe {
            let word = self.0.used.add(slot / 32);
            word.write(word.read() | 1 << (slot % 32));
            self.0.keys.add(slot).write(t.as_ptr());
        }
    }

    /// Empties the set.
    pub fn reset(&self) {
        // SAFETY: `used` has a bit for each of `size` slots.
        unsafe { self.0.used.write_bytes(0, self.0.size.div_ceil(32)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_those_of_the_division() {
        for n in [1, 2, 3, 5, 11, 1031, 2053, 65537, 1048583, (1 << 32) + 15, usize::MAX / 3] {
            let modulus = Modulus::new(n);
            let near = [0, 1, n - 1, n, n + 1, usize::MAX / n * n, usize::MAX / n * n - 1, usize::MAX, usize::MAX - 1];
            let far = (0..2000usize).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            for x in near.into_iter().chain(far) {
                assert_eq!(modulus.of(x), x % n, "{x} by {n}");
            }
        }
    }
}
