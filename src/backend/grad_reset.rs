//! The state of a training graph set back: gradient sums, losses, moments.

use super::tensor_io;
use crate::abi::ggml::{ggml_op, ggml_tensor_flag, ggml_type};
use crate::ggml_assert;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;

/// Sets all bytes of a tensor to 0, in host memory or through its buffer. Ends the process if it has bytes, but no
/// data.
///
/// # Safety
/// A tensor that has data but no buffer: its data is in host memory, writable.
pub unsafe fn set_zero(t: TensorRef) {
    if t.is_empty() {
        return;
    }
    if !t.buffer_raw().is_null() {
        return tensor_io::memset(t, 0, 0, t.nbytes());
    }
    ggml_assert!(!t.data().is_null(), "'{}' has no data to set", t.name());
    // SAFETY: there is no buffer, so the caller promises that the data is in host memory: `nbytes` writable bytes.
    unsafe { t.data().write_bytes(0, t.nbytes()) };
}

/// Sets a tensor of one number to 1.
///
/// # Safety
/// As for [`set_zero`].
unsafe fn set_one(t: TensorRef) {
    ggml_assert!(t.dtype() == ggml_type::GGML_TYPE_F32 && t.is_scalar());
    if !t.buffer_raw().is_null() {
        return tensor_io::set_bytes(t, &1f32.to_ne_bytes(), 0);
    }
    ggml_assert!(!t.data().is_null(), "'{}' has no data to set", t.name());
    // SAFETY: there is no buffer, so the caller promises that the data is in host memory; it is one number, checked
    // above.
    unsafe { t.data().cast::<f32>().write_unaligned(1.0) };
}

/// What a tensor of a training graph starts from.
#[derive(Clone, Copy)]
enum Start {
    Zero,
    One,
}

impl Start {
    /// Sets the tensor.
    ///
    /// # Safety
    /// As for [`set_zero`].
    unsafe fn set(self, t: TensorRef) {
        // SAFETY: the caller promises of the tensor what both functions require.
        unsafe {
            match self {
                Start::Zero => set_zero(t),
                Start::One => set_one(t),
            }
        }
    }
}

/// The tensors that a reset sets: the moments of AdamW steps, and gradient accumulators. Ends the process if the graph
/// has no room for gradients.
fn state_of(graph: GraphRef) -> impl Iterator<Item = (TensorRef, Start)> {
    ggml_assert!(graph.has_grads(), "only a graph with gradients can be reset");
    graph.nodes().flat_map(move |node| {
        let is_step = node.op() == ggml_op::GGML_OP_OPT_STEP_ADAMW;
        let moments = if is_step { [node.src(2), node.src(3)] } else { [None; 2] };
        let is_loss = node.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_LOSS);
        let acc = graph.grad_acc(node).map(|acc| (acc, if is_loss { Start::One } else { Start::Zero }));
        moments.into_iter().flatten().map(|t| (t, Start::Zero)).chain(acc)
    })
}

/// Sets gradient accumulators of a graph to 0, those of losses to 1, and the moments of AdamW steps to 0. Ends the
/// process if the graph has no room for gradients.
///
/// # Safety
/// As for [`set_zero`], for these tensors.
pub unsafe fn reset_gradients(graph: GraphRef) {
    for (t, start) in state_of(graph) {
        // SAFETY: the caller promises it for the tensors of `state_of`.
        unsafe { start.set(t) };
    }
}

/// As [`reset_gradients`], for a graph whose accumulators and moments are in buffers. Ends the process if one is not.
pub fn reset_buffered_gradients(graph: GraphRef) {
    for (t, start) in state_of(graph) {
        ggml_assert!(t.is_empty() || !t.buffer_raw().is_null(), "'{}' is not in a buffer", t.name());
        // SAFETY: the tensor is empty or has a buffer, as checked above, and `set` requires nothing of the data of such
        // a tensor.
        unsafe { start.set(t) };
    }
}
