//! The host's own functions as nodes.

use super::super::check::ensure;
use crate::abi::ggml::ggml_tensor;
use crate::abi::graph::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;
use std::ffi::c_int;

macro_rules! params {
    ($node:expr, $ty:ty) => {{
        let words = $node.op_params();
        // SAFETY: the constructor of the node put this struct of plain words and a nullable function there; it is shorter
        // than all parameter words.
        unsafe { words.as_ptr().cast::<$ty>().read_unaligned() }
    }};
}

fn raw(node: TensorRef, i: usize) -> *const ggml_tensor {
    node.src(i).map_or(std::ptr::null(), |t| t.as_ptr())
}

/// Whether a custom node takes all threads: unless it wants to be alone.
pub fn is_wide(node: TensorRef) -> bool {
    params!(node, ggml_custom_op_params).n_tasks != 1
}

/// A function of one source.
pub fn map_custom1(w: &Worker<'_>, dst: TensorRef) {
    let p = params!(dst, ggml_map_custom1_op_params);
    if let Some(f) = p.fun {
        // SAFETY: the host promised, when it made the node, that its function may be called so; the tensors are valid.
        unsafe { f(dst.as_ptr(), raw(dst, 0), w.ith as c_int, w.nth as c_int, p.userdata) }
    }
}

/// A function of two sources.
pub fn map_custom2(w: &Worker<'_>, dst: TensorRef) {
    let p = params!(dst, ggml_map_custom2_op_params);
    if let Some(f) = p.fun {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), raw(dst, 0), raw(dst, 1), w.ith as c_int, w.nth as c_int, p.userdata) }
    }
}

/// A function of three sources.
pub fn map_custom3(w: &Worker<'_>, dst: TensorRef) {
    let p = params!(dst, ggml_map_custom3_op_params);
    if let Some(f) = p.fun {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), raw(dst, 0), raw(dst, 1), raw(dst, 2), w.ith as c_int, w.nth as c_int, p.userdata) }
    }
}

/// A function that finds its sources in the node.
pub fn custom(w: &Worker<'_>, dst: TensorRef) {
    let p = params!(dst, ggml_custom_op_params);
    if let Some(f) = p.fun {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), w.ith as c_int, w.nth as c_int, p.userdata) }
    }
}

/// There is a function.
pub fn check_custom(node: TensorRef) -> Result<()> {
    ensure!(params!(node, ggml_custom_op_params).fun.is_some(), "no function");
    Ok(())
}
