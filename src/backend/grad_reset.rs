//! The state of a training graph set back: gradient sums, losses, moments.

use super::tensor_io;
use crate::abi::ggml::{ggml_op, ggml_tensor_flag, ggml_type};
use crate::ggml_assert;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;

/// Sets all bytes of a tensor to 0, in host memory or through its buffer. Ends the process if it has bytes, but no data.
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
    // SAFETY: there is no buffer, so the caller promises that the data is in host memory; it is one number, checked above.
    unsafe { t.data().cast::<f32>().write_unaligned(1.0) };
}

/// Sets gradient accumulators of a graph to 0, those of losses to 1, and the moments of AdamW steps to 0. Ends the process if the graph has no
/// room for gradients.
///
/// # Safety
/// As for [`set_zero`], for these tensors.
pub unsafe fn reset_gradients(graph: GraphRef) {
    ggml_assert!(graph.has_grads(), "only a graph with gradients can be reset");
    for node in graph.nodes() {
        if node.op() == ggml_op::GGML_OP_OPT_STEP_ADAMW {
            // SAFETY: the caller's promise covers the moments.
            [node.src(2), node.src(3)].into_iter().flatten().for_each(|t| unsafe { set_zero(t) });
        }
        let Some(acc) = graph.grad_acc(node) else { continue };
        // SAFETY: the caller's promise covers the accumulators.
        unsafe {
            if node.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_LOSS) {
                set_one(acc);
            } else {
                set_zero(acc);
            }
        }
    }
}
