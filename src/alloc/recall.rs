//! Recognises a graph: hosts build the same graph again for each token, in the same memory. If every tensor of the
//! graph is, byte by byte, the same as when the graph was allocated last time, so is everything that follows from it:
//! placement, splits, copies, plan and addresses. They are restored instead of being computed again.
//!
//! The comparison is that of [`graph::memo`](crate::graph::memo), here of the whole tensors: even names count, because
//! a device may read any of them to decide what it computes. Also compared are the structs of the buffers that hold
//! tensors, such as weights, and the placements that the host requested.
//!
//! A snapshot is taken only of a graph that has the structure, the sizes and the addresses of the one before it.

use crate::abi::backend_impl::ggml_backend_buffer;
use crate::graph::GraphRef;
use crate::graph::ids::TensorIds;
use crate::graph::memo::{BufferState, Pause, Snapshot};
use crate::tensor::TensorRef;
use std::ffi::c_int;
use std::mem::offset_of;

/// Bytes of a buffer's struct without the padding after its last field. There is none between its fields.
const HOLDER_SIZE: usize = offset_of!(ggml_backend_buffer, usage) + size_of::<c_int>();

/// The bytes of a buffer's struct.
#[derive(PartialEq)]
struct Holder([u8; HOLDER_SIZE]);

impl BufferState for Holder {
    fn of(t: TensorRef) -> Self {
        // SAFETY: the buffer of a **valid tensor** is valid, and the bytes are those of whole fields.
        Self(unsafe { t.buffer_raw().cast::<[u8; HOLDER_SIZE]>().read() })
    }
}

/// What is remembered of the graph that was split last.
#[derive(Default)]
pub struct Recall {
    snapshot: Snapshot<Holder>,
    /// What the host had placed.
    user: Vec<(TensorRef, i8)>,
    cur_copy: usize,
    n_leafs: usize,
    /// The snapshot is of the graph that the scheduler's state describes.
    is_valid: bool,
    /// Splits without a snapshot.
    pause: Pause,
}

impl Recall {
    /// Whether the snapshot is of the graph that was split last.
    pub fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Forgets the snapshot: the state that it represents is about to change.
    pub fn forget(&mut self) {
        self.is_valid = false;
    }

    /// As [`Self::matches`], for a caller that knows one graph only: the snapshot is forgotten when it is another.
    pub fn recognises(&mut self, graph: GraphRef, user: &[(TensorRef, i8)], cur_copy: usize) -> bool {
        if !self.is_valid {
            return false;
        }
        let same = self.matches(graph, user, cur_copy);
        if same {
            self.succeeded()
        } else {
            self.failed()
        }
        same
    }

    /// Whether this is the graph of the snapshot, to be computed in the same way.
    pub fn matches(&self, graph: GraphRef, user: &[(TensorRef, i8)], cur_copy: usize) -> bool {
        self.is_valid
            && (self.n_leafs, self.cur_copy) == (graph.n_leafs(), cur_copy)
            && self.user == user
            && self.snapshot.is_exactly(heads(graph))
    }

    /// The snapshot was of use.
    pub fn succeeded(&mut self) {
        self.pause.succeeded();
    }

    /// The snapshot was taken in vain: the graph came again, but was another.
    pub fn failed(&mut self) {
        self.is_valid = false;
        self.pause.failed();
    }

    /// Takes a snapshot of a graph that is about to be split, after one with the same sizes at the same addresses,
    /// unless that was in vain lately. `ids` number its leafs, its nodes and then all others, each of which is read by
    /// an earlier one.
    pub fn consider(&mut self, graph: GraphRef, ids: &TensorIds, user: &[(TensorRef, i8)], cur_copy: usize) {
        self.is_valid = false;
        if !self.pause.take_turn() {
            return;
        }
        // SAFETY: `ids` are numbers of this graph only, whose leafs and nodes are the heads. A description gives a
        // number to another tensor when it reaches it as a source or a view source of a tensor that has one.
        unsafe { self.snapshot.take(heads(graph), ids.tensors()) };
        self.user.clear();
        self.user.extend_from_slice(user);
        (self.n_leafs, self.cur_copy) = (graph.n_leafs(), cur_copy);
        self.is_valid = true;
    }
}

/// The leafs and nodes of a graph.
fn heads(graph: GraphRef) -> impl Iterator<Item = TensorRef> {
    graph.leafs().chain(graph.nodes())
}
