//! The gradients that a graph keeps of its tensors, in the order of the set's slots.
#![forbid(unsafe_code)]

use super::GraphRef;
use super::handle::Array;
use crate::abi::ggml::ggml_tensor;
use crate::ggml_assert;
use crate::tensor::TensorRef;

impl GraphRef {
    /// Whether the graph has room for gradients.
    pub fn has_grads(self) -> bool {
        !self.raw().grads.is_null() && !self.raw().grad_accs.is_null()
    }

    /// The slot of `t` in an array of gradients.
    fn slot_in(self, array: Array<*mut ggml_tensor>, t: TensorRef) -> Option<usize> {
        match self.visited().find(t) {
            Some((slot, true)) if array.len() > 0 => Some(slot),
            _ => None,
        }
    }

    fn read_slot(self, array: Array<*mut ggml_tensor>, t: TensorRef) -> Option<TensorRef> {
        array.tensor(self.slot_in(array, t)?, "gradient")
    }

    fn write_slot(self, array: Array<*mut ggml_tensor>, t: TensorRef, value: Option<TensorRef>) {
        let slot = self.slot_in(array, t);
        ggml_assert!(slot.is_some(), "'{}' is not in the graph, or the graph has no room for gradients", t.name());
        if let Some(slot) = slot {
            array.set(slot, value.map_or(std::ptr::null_mut(), TensorRef::as_ptr), "gradient");
        }
    }

    /// The gradient of `t`.
    pub fn grad(self, t: TensorRef) -> Option<TensorRef> {
        self.read_slot(self.grad_arrays()[0], t)
    }

    /// The gradient accumulator of `t`.
    pub fn grad_acc(self, t: TensorRef) -> Option<TensorRef> {
        self.read_slot(self.grad_arrays()[1], t)
    }

    /// Sets the gradient of `t`, which must be in the graph.
    pub fn set_grad(self, t: TensorRef, grad: Option<TensorRef>) {
        self.write_slot(self.grad_arrays()[0], t, grad);
    }

    /// Sets the gradient accumulator of `t`, which must be in the graph.
    pub fn set_grad_acc(self, t: TensorRef, grad: Option<TensorRef>) {
        self.write_slot(self.grad_arrays()[1], t, grad);
    }

    /// Forgets all gradients.
    pub fn clear_grads(self) {
        self.grad_arrays().into_iter().for_each(Array::clear);
    }
}
