//! The host's own functions as nodes.

use super::super::access::Dest;
use super::super::check::{CheckedNode, ensure};
use crate::abi::ggml::{
    GGML_N_TASKS_MAX, ggml_custom_op_t, ggml_custom1_op_t, ggml_custom2_op_t, ggml_custom3_op_t, ggml_tensor,
};
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

/// This thread's number and the number of threads that call the function: as many as the node wants, where there are so many. `None`
/// for a thread that is left over.
fn place<F: Fun>(w: &Worker<'_>, job: &Job<F>) -> Option<(c_int, c_int)> {
    let wanted = if job.n_tasks == GGML_N_TASKS_MAX { w.nth() } else { usize::try_from(job.n_tasks).unwrap_or(1) };
    let nth = wanted.clamp(1, w.nth());
    (w.ith() < nth).then_some((w.ith() as c_int, nth as c_int))
}

/// A function of one source.
pub fn map_custom1(w: &Worker<'_>, node: CheckedNode<'_>, _: Dest<'_>) {
    let dst = *node;
    let p = job::<ggml_custom1_op_t>(dst);
    if let (Some(f), Some((ith, nth))) = (p.fun, place(w, &p)) {
        // SAFETY: the host promised, when it made the node, that its function may be called so; the tensors are valid.
        unsafe { f(dst.as_ptr(), raw(dst, 0), ith, nth, p.userdata) }
    }
}

/// A function of two sources.
pub fn map_custom2(w: &Worker<'_>, node: CheckedNode<'_>, _: Dest<'_>) {
    let dst = *node;
    let p = job::<ggml_custom2_op_t>(dst);
    if let (Some(f), Some((ith, nth))) = (p.fun, place(w, &p)) {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), raw(dst, 0), raw(dst, 1), ith, nth, p.userdata) }
    }
}

/// A function of three sources.
pub fn map_custom3(w: &Worker<'_>, node: CheckedNode<'_>, _: Dest<'_>) {
    let dst = *node;
    let p = job::<ggml_custom3_op_t>(dst);
    if let (Some(f), Some((ith, nth))) = (p.fun, place(w, &p)) {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), raw(dst, 0), raw(dst, 1), raw(dst, 2), ith, nth, p.userdata) }
    }
}

/// A function that finds its sources in the node.
pub fn custom(w: &Worker<'_>, node: CheckedNode<'_>, _: Dest<'_>) {
    let dst = *node;
    let p = job::<ggml_custom_op_t>(dst);
    if let (Some(f), Some((ith, nth))) = (p.fun, place(w, &p)) {
        // SAFETY: as in `map_custom1`.
        unsafe { f(dst.as_ptr(), ith, nth, p.userdata) }
    }
}

/// There is a function.
pub fn check_custom(node: TensorRef) -> Result<()> {
    ensure!(job::<ggml_custom_op_t>(node).fun.is_some(), "no function");
    Ok(())
}
