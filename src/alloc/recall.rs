//! Recognises a graph: hosts build the same graph again for each token, in the same memory. If every tensor of the
//! graph is, byte by byte, the same as when the graph was allocated last time, so is everything that follows from it:
//! placement, splits, copies, plan and addresses. They are restored instead of being computed again.
//!
//! Nothing depends on a hash or a count. The whole tensors are compared: operation, parameters, shape, strides, type,
//! flags, sources, views, buffers, even names, because a device may read any of them to decide what it computes. Also
//! compared are the structs of the buffers that hold tensors, such as weights (a new buffer may have the address of a
//! freed one), and the placements that the host requested.
//!
//! An image of all tensors costs memory and the time to take it, so one is taken only of a graph that has the
//! structure, the sizes and the addresses of the one before it, and more rarely the more often that was in vain.
//! Tensors of a graph have most of their bytes in common: the same shapes come in each layer, and parameters and names
//! are mostly zeros. Images name such parts by numbers (`image`), which keeps those of several graphs in the cache.

use super::ids::TensorIds;
use super::image::Images;
use super::pause::Pause;
use crate::abi::backend_impl::ggml_backend_buffer;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

/// A buffer that tensors were in, and its bytes.
type Holder = (*const ggml_backend_buffer, MaybeUninit<ggml_backend_buffer>);

/// Bytes of a buffer's struct without the padding after its last field.
const HOLDER_SIZE: usize = std::mem::offset_of!(ggml_backend_buffer, usage) + size_of::<c_int>();

/// What is remembered of the graph that was split last.
#[derive(Default)]
pub struct Recall {
    /// Tensors by number: leafs, nodes, then what these read or are views of. Each after the first two is
    /// named by an earlier one.
    images: Images,
    holders: Vec<Holder>,
    /// What the host had placed.
    user: Vec<(TensorRef, i8)>,
    cur_copy: usize,
    n_leafs: usize,
    n_nodes: usize,
    /// The images are those of the graph that the scheduler's state describes.
    is_valid: bool,
    /// Splits without images.
    pause: Pause,
}

/// Whether the first `n` bytes are equal.
///
/// # Safety
/// Both are valid for reading that many bytes.
#[inline]
unsafe fn same_bytes<T>(a: *const T, b: *const T, n: usize) -> bool {
    // SAFETY: the caller promises `n` readable bytes at each.
    unsafe { libc::memcmp(a.cast(), b.cast(), n) == 0 }
}

impl Recall {
    /// Whether the images are of the graph that was split last.
    pub fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Forgets the images: the state that they represent is about to change.
    pub fn forget(&mut self) {
        self.is_valid = false;
    }

    /// As [`Self::matches`], for a caller that knows one graph only: the images are forgotten when it is another.
    pub fn recognises(&mut self, graph: GraphRef, ids: &TensorIds, user: &[(TensorRef, i8)], cur_copy: usize) -> bool {
        if !self.is_valid {
            return false;
        }
        let same = self.matches(graph, ids, user, cur_copy);
        if same {
            self.succeeded()
        } else {
            self.failed()
        }
        same
    }

    /// Whether this is the graph whose images were taken, to be computed in the same way. `ids` are its numbers.
    pub fn matches(&self, graph: GraphRef, ids: &TensorIds, user: &[(TensorRef, i8)], cur_copy: usize) -> bool {
        self.is_valid && self.compare(graph, ids, user, cur_copy)
    }

    /// The images were of use.
    pub fn succeeded(&mut self) {
        self.pause.succeeded();
    }

    /// The images were taken in vain: the graph came again, but was another.
    pub fn failed(&mut self) {
        self.is_valid = false;
        self.pause.failed();
    }

    fn compare(&self, graph: GraphRef, ids: &TensorIds, user: &[(TensorRef, i8)], cur_copy: usize) -> bool {
        let (n_leafs, n_nodes) = (graph.n_leafs(), graph.n_nodes());
        if (self.n_leafs, self.n_nodes, self.cur_copy) != (n_leafs, n_nodes, cur_copy) || self.user != user {
            return false;
        }
        let known = ids.tensors();
        let same_places = graph.leafs().eq(known[..n_leafs].iter().copied())
            && graph.nodes().eq(known[n_leafs..n_leafs + n_nodes].iter().copied());
        if !same_places {
            return false;
        }
        // SAFETY: leafs and nodes of a valid graph are valid. All others are named by a source or a view of an earlier
        // one that was just found to name the same address, so they are valid, too.
        if !unsafe { self.images.are_of(known) } {
            return false;
        }
        // SAFETY: buffers of valid tensors are valid.
        self.holders.iter().all(|(p, bytes)| unsafe { same_bytes(*p, bytes.as_ptr(), HOLDER_SIZE) })
    }

    /// Takes images of a graph that is about to be split, after one with the same sizes at the same addresses, unless
    /// that was in vain lately. `ids` number its leafs, its nodes and then all others.
    pub fn consider(&mut self, graph: GraphRef, ids: &TensorIds, user: &[(TensorRef, i8)], cur_copy: usize) {
        let (n_leafs, n_nodes) = (graph.n_leafs(), graph.n_nodes());
        (self.n_leafs, self.n_nodes) = (n_leafs, n_nodes);
        self.is_valid = false;
        if !self.pause.take_turn() {
            return;
        }
        // A tensor that occurs at two places would shift all numbers after it.
        if !graph.nodes().eq(ids.tensors().get(n_leafs..n_leafs + n_nodes).unwrap_or(&[]).iter().copied()) {
            return;
        }
        self.holders.clear();
        // SAFETY: the tensors of a valid graph are valid.
        unsafe { self.images.take(ids.tensors()) };
        let mut last = ptr::null_mut();
        for t in ids.tensors() {
            let p = t.buffer_raw();
            if p.is_null() || p == last {
                continue;
            }
            last = p;
            if !self.holders.iter().any(|h| h.0 == p.cast_const()) {
                // SAFETY: the buffer of a valid tensor is valid.
                self.holders.push((p, unsafe { p.cast::<MaybeUninit<ggml_backend_buffer>>().read() }));
            }
        }
        self.user.clear();
        self.user.extend_from_slice(user);
        self.cur_copy = cur_copy;
        self.is_valid = true;
    }
}
