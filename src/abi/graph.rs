//! Layouts that no public header shows but that loadable backends, compiled from the original, read directly:
//! the compute graph, its hash set, and the parameters of custom operations.

use super::ggml::*;
use libggml_macros::Numbered;
use std::ffi::{c_int, c_void};

/// A word of a bit set.
pub type ggml_bitset_t = u32;

/// Open-addressing set of tensors: linear probing from `(address >> 4) % size`, used slots marked in a bit set.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_hash_set {
    /// Number of slots.
    pub size: usize,
    /// One bit a slot.
    pub used: *mut ggml_bitset_t,
    /// Slot contents; defined only where the bit is set.
    pub keys: *mut *mut ggml_tensor,
}

/// Order in which the sources of a node are visited.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Numbered)]
pub enum ggml_cgraph_eval_order {
    /// `src[0]` first.
    GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT = 0,
    /// The last source first.
    GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT = 1,
}

/// A compute graph: nodes in the order of their evaluation, and the leafs they start from.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_cgraph {
    /// Room for nodes, and for leafs.
    pub size: c_int,
    /// Nodes in use.
    pub n_nodes: c_int,
    /// Leafs in use.
    pub n_leafs: c_int,
    /// Tensors that evaluation computes.
    pub nodes: *mut *mut ggml_tensor,
    /// Gradient of each hash slot's tensor, or NULL as a whole.
    pub grads: *mut *mut ggml_tensor,
    /// Gradient accumulator of each hash slot's tensor, or NULL as a whole.
    pub grad_accs: *mut *mut ggml_tensor,
    /// Tensors that evaluation only reads.
    pub leafs: *mut *mut ggml_tensor,
    /// How many nodes read the tensor of each hash slot.
    pub use_counts: *mut i32,
    /// Every tensor of the graph.
    pub visited_hash_set: ggml_hash_set,
    /// Order of traversal (`enum ggml_cgraph_eval_order`).
    pub order: c_int,
    /// When two graphs carry the same number other than 0, they are the same graph.
    pub uid: u64,
}

macro_rules! custom_params {
    ($(#[$doc:meta])* $name:ident, $fun:ident) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            /// The function of the host.
            pub fun: $fun,
            /// Tasks to split into, or `GGML_N_TASKS_MAX`.
            pub n_tasks: c_int,
            /// Given back to the function.
            pub userdata: *mut c_void,
        }
    };
}
custom_params!(
    /// Parameters of `GGML_OP_MAP_CUSTOM1`, as they are in `op_params`.
    ggml_map_custom1_op_params, ggml_custom1_op_t);
custom_params!(
    /// Parameters of `GGML_OP_MAP_CUSTOM2`, as they are in `op_params`.
    ggml_map_custom2_op_params, ggml_custom2_op_t);
custom_params!(
    /// Parameters of `GGML_OP_MAP_CUSTOM3`, as they are in `op_params`.
    ggml_map_custom3_op_params, ggml_custom3_op_t);
custom_params!(
    /// Parameters of `GGML_OP_CUSTOM`, as they are in `op_params`.
    ggml_custom_op_params, ggml_custom_op_t);

const _: () = {
    assert!(size_of::<ggml_hash_set>() == 24);
    assert!(size_of::<ggml_cgraph>() == 96);
    assert!(size_of::<ggml_custom_op_params>() == 24);
};
