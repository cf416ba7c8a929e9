//! The host's own functions as nodes.

use super::super::check::ensure;
use crate::abi::ggml::{ggml_custom_op_t, ggml_custom1_op_t, ggml_custom2_op_t, ggml_custom3_op_t, ggml_tensor};
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::custom::{Fun, Job};
use std::ffi::c_int;

/// The job of a node of this family.
fn job<F: Fun>(node: TensorRef) -> Job<F> {
    // SAFETY: the table calls the functions below for their own operations alone, and only the constructors set those: they
    // put a job with this kind of function there.
    unsafe { Job::of_node(node) }
}

fn raw(node: TensorRef, i: usize) -> *const ggml_tensor {
    node.src(i).map_or(std::ptr::null(), |t| t.as_ptr())
}

/// Whether a custom node takes all threads: unless it wants to be alone.
pub fn is_wide(node: TensorRef) -> bool {
    job::<ggml_custom_op_t>(node).n_tasks != 1
}

/// A function of one source.
pub fn map_custom1(w: &Worker<'_>, dst: TensorRef) {
    let p = job::<ggml_custom1_op_t>(dst);
    if let Some(f) = p.fun {
        // SAFETY: the host promised, when it made the node, that its function may be called so; the tensors are valid.
        unsafe { f(dst.as_ptr(), raw(dst, 0), w.ith as c_int, w.nth as c_int, p.userdata) }
    }
}

/// A function of two sources.
pub fn map_custom2(w: &Worker<'_>, dst: TensorRef) {
    let p = job::<ggml_custom2_op_t>(dst);
    if let Some(f) = p.fun {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), raw(dst, 0), raw(dst, 1), w.ith as c_int, w.nth as c_int, p.userdata) }
    }
}

/// A function of three sources.
pub fn map_custom3(w: &Worker<'_>, dst: TensorRef) {
    let p = job::<ggml_custom3_op_t>(dst);
    if let Some(f) = p.fun {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), raw(dst, 0), raw(dst, 1), raw(dst, 2), w.ith as c_int, w.nth as c_int, p.userdata) }
    }
}

/// A function that finds its sources in the node.
pub fn custom(w: &Worker<'_>, dst: TensorRef) {
    let p = job::<ggml_custom_op_t>(dst);
    if let Some(f) = p.fun {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), w.ith as c_int, w.nth as c_int, p.userdata) }
    }
}

/// There is a function.
pub fn check_custom(node: TensorRef) -> Result<()> {
    ensure!(job::<ggml_custom_op_t>(node).fun.is_some(), "no function");
    Ok(())
}
