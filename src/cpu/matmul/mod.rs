//! Matrix products: `dst = src0^T src1`, `dst[m, n] = sum over k of src0[k, m] * src1[k, n]`, for weights of every format.
//!
//! Who lives here: `plan` (which way a product is computed, scratch memory, how the work is cut), `convert` (activations into
//! the form that the way needs), `product` (computing a piece), `experts` (`MUL_MAT_ID`), `hadamard` (the fast transform).
//!
//! Two ways: few columns go row by row through a dot product, which is as fast as the weights come from memory; more go
//! through tiles (`simd::tile`), which take weights apart once for many columns. Floats and halves meet activations in F32, so nothing is
//! rounded that need not be; weights in blocks meet activations in bytes, as in the original, in tiles with a scale for every 32 values.
//!
//! The result does not depend on the number of threads, bit for bit: the way depends on shapes alone, and in either way each
//! result is computed by one thread in an order that no cut changes.

mod convert;
mod experts;
mod hadamard;
mod plan;
mod product;

#[cfg(test)]
mod tests;

use super::access::Dest;
use super::check::CheckedNode;
use super::simd::{Kernels, kernels, reference};
use super::worker::Worker;
use crate::abi::ggml::ggml_op_hint;
use crate::ggml_assert;
use crate::tensor::TensorRef;
use plan::{Plan, Shapes};
use product::{Columns, Job};

pub use experts::{mul_mat_id, scratch_mul_mat_id};
#[cfg(any(test, feature = "internals"))]
pub use plan::can;

/// Bytes of scratch memory that [`mul_mat`] needs for `dst` with `n_threads` threads.
pub fn scratch_mul_mat(dst: TensorRef, n_threads: usize) -> usize {
    [kernels(), reference()].map(|k| scratch(k, dst, n_threads)).into_iter().fold(0, usize::max)
}

/// [`scratch_mul_mat`] with given kernels.
fn scratch(k: &Kernels, dst: TensorRef, n_threads: usize) -> usize {
    let s = Shapes::of(dst);
    Plan::new(k, &s, s.columns(), n_threads).scratch()
}

/// Computes a `MUL_MAT` node: `src0` `[k, m, a, b]`, `src1` `[k, n, c, d]` with `c` a multiple of `a` and `d` of `b`; `dst` `[m, n, c, d]`
/// in F32. Called by all threads of the region.
pub fn mul_mat(w: &Worker<'_>, node: CheckedNode<'_>, dest: Dest<'_>) {
    compute(kernels_for(w), w, node, dest);
}

/// The kernels that the host wants.
fn kernels_for(w: &Worker<'_>) -> &'static Kernels {
    if w.use_ref() { reference() } else { kernels() }
}

/// [`mul_mat`] with given kernels.
fn compute(k: &Kernels, w: &Worker<'_>, node: CheckedNode<'_>, mut dest: Dest<'_>) {
    let s = Shapes::of(*node);
    s.check();
    ggml_assert!(s.ne[1] == s.ne1[1] && s.ne[2] == s.ne1[2] && s.ne[3] == s.ne1[3]);
    ggml_assert!(
        s.ne0[2] > 0 && s.ne0[3] > 0 && s.ne1[2].is_multiple_of(s.ne0[2]) && s.ne1[3].is_multiple_of(s.ne0[3]),
        "src0 does not repeat into src1"
    );
    if s.ne.contains(&0) {
        return;
    }
    let hinted = node.op_param_i32(1) == ggml_op_hint::GGML_HINT_SRC0_IS_HADAMARD as i32;
    if hinted && !k.dots_only && hadamard::applies(&s) {
        return hadamard::transform(w, node, dest);
    }
    let plan = Plan::new(k, &s, s.columns(), w.nth());
    ggml_assert!(w.scratch().len() >= plan.scratch(), "the graph's plan is for another graph");

    convert::activations(w, k, &plan, &s);
    if plan.converts() {
        w.wait();
    }

    let matrices = s.ne0[2] * s.ne0[3];
    let cut = plan.cut(s.ne0[1], s.columns(), matrices, w.nth());
    let mut at = w.next_chunk();
    while at < cut.chunks() * matrices {
        let (matrix, piece) = (at / cut.chunks(), at % cut.chunks());
        let (i02, i03) = (matrix % s.ne0[2], matrix / s.ne0[2]);
        let columns = Repeated { s: &s, plan: &plan, scratch: w.scratch().as_ptr(), i02, i03 };
        let job = Job {
            k,
            plan: &plan,
            weights: s.src0.wrapping_add(i02 * s.nb0[2] + i03 * s.nb0[3]),
            stride: s.nb0[1],
            rows: cut.rows(piece),
            cols: cut.cols(piece),
            own: plan.own_scratch(w),
        };
        job.claim(&columns, &mut dest);
        // SAFETY: shapes and strides were checked (by `check` and above): the weights, the columns and the results of this piece are
        // inside their tensors or inside the scratch memory. Pieces are disjoint, and each is taken by one thread.
        unsafe { job.run(plan.way, &columns) };
        at = w.next_chunk();
    }
}

/// The columns that one matrix of `src0` is multiplied with: all of `src1` that it repeats into.
struct Repeated<'a> {
    s: &'a Shapes,
    plan: &'a Plan,
    scratch: *mut u8,
    i02: usize,
    i03: usize,
}

impl Columns for Repeated<'_> {
    fn get(&self, j: usize) -> (*const u8, *mut f32) {
        let s = self.s;
        let r2 = s.ne1[2] / s.ne0[2];
        let (i1, above) = (j % s.ne1[1], j / s.ne1[1]);
        let (i2, i3) = (self.i02 * r2 + above % r2, self.i03 * (s.ne1[3] / s.ne0[3]) + above / r2);
        let act = if self.plan.converts() {
            let row = (i3 * s.ne1[2] + i2) * s.ne1[1] + i1;
            self.scratch.wrapping_add(row * self.plan.act_bytes).cast_const()
        } else {
            s.src1.wrapping_add(i1 * s.nb1[1] + i2 * s.nb1[2] + i3 * s.nb1[3])
        };
        (act, s.dst.wrapping_add(i1 * s.nb[1] + i2 * s.nb[2] + i3 * s.nb[3]).cast())
    }
}
