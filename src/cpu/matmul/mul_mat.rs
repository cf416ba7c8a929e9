//! `MUL_MAT`: each matrix of weights is multiplied by the columns of the matrices for which it is repeated.
#![forbid(unsafe_code)]

use super::activations::{Activations, convert};
use super::hadamard;
use super::plan::{ProductPlan, Shapes};
use super::product::{Columns, Job, Matrix};
use crate::abi::ggml::ggml_op_hint;
use crate::cpu::access::{Dest, Layout, RowIndex, Source, Workspace, publish, rows};
use crate::cpu::checked::CheckedNode;
use crate::cpu::checked::Shared;
use crate::cpu::repack::FileRows;
use crate::cpu::simd::{Kernels, kernels, reference};
use crate::cpu::worker::Worker;
use crate::ggml_assert;
use crate::tensor::TensorRef;

/// Bytes of scratch memory that [`mul_mat`] needs for `dst` with `n_threads` threads.
pub fn scratch_mul_mat(dst: TensorRef, n_threads: usize) -> usize {
    [kernels(), reference()].map(|k| scratch(k, dst, n_threads)).into_iter().fold(0, usize::max)
}

/// What products have in common: converted activations.
pub const SHARED: Shared =
    Shared { same: share_activations, nothing: |node| !converts(node), small: is_small, prepare };

/// Activations that one thread converts.
pub(super) const FEW_VALUES: usize = 1 << 14;

/// Whether two products convert the same activations to the same form, at the same place in the scratch memory. Which
/// of the two sets of kernels will run is not known yet, and one of them may need no conversion.
fn share_activations(a: TensorRef, b: TensorRef) -> bool {
    let (s, t) = (Shapes::of(a), Shapes::of(b));
    if !same_source(a, b, 1) || s.k() == 0 || [a, b].into_iter().any(has_hint) {
        return false;
    }
    let plans = [kernels(), reference()].map(|k| [&s, &t].map(|s| ProductPlan::new(s.kernels(k), s, s.columns(), 1)));
    plans.iter().all(|[p, q]| p.converts_like(q)) && plans.iter().any(|[p, _]| p.converts())
}

/// Whether source `i` of two nodes has the same data in the same layout.
pub(super) fn same_source(a: TensorRef, b: TensorRef, i: usize) -> bool {
    match (a.src(i), b.src(i)) {
        (Some(a), Some(b)) => a.data() == b.data() && Layout::of(a) == Layout::of(b),
        _ => false,
    }
}

/// Whether a product converts activations, or does other work for all threads.
fn converts(node: TensorRef) -> bool {
    let s = Shapes::of(node);
    let plan = |k| ProductPlan::new(s.kernels(k), &s, s.columns(), 1);
    has_hint(node) || [kernels(), reference()].into_iter().any(|k| plan(k).converts())
}

/// Whether a product converts so few activations that one thread should do it.
fn is_small(node: TensorRef) -> bool {
    let s = Shapes::of(node);
    s.k() > 0 && s.src1.nrows().saturating_mul(s.k()) <= FEW_VALUES && !has_hint(node) && converts(node)
}

/// Converts the activations of a product on one thread.
fn prepare(w: &Worker<'_>, node: CheckedNode<'_>, _: Dest<'_>) {
    let s = Shapes::of(*node);
    let k = s.kernels(kernels_for(w));
    let plan = ProductPlan::new(k, &s, s.columns(), w.nth());
    if plan.converts() {
        let (front, own) = workspace(w, plan.scratch()).split_at(plan.own_at);
        convert(w, k, &plan, &node.source(1), front, own.own(plan.own_floats()));
    }
}

/// Whether the host says that the weights are a Hadamard matrix.
fn has_hint(node: TensorRef) -> bool {
    node.op_param_i32(1) == ggml_op_hint::GGML_HINT_SRC0_IS_HADAMARD as i32
}

/// [`scratch_mul_mat`] with given kernels.
pub(super) fn scratch(k: &Kernels, dst: TensorRef, n_threads: usize) -> usize {
    let s = Shapes::of(dst);
    let k = s.kernels(k);
    ProductPlan::new(k, &s, s.columns(), n_threads).scratch()
}

/// Computes a `MUL_MAT` node: `src0` `[k, m, a, b]`, `src1` `[k, n, c, d]` with `c` a multiple of `a` and `d` of `b`;
/// `dst` `[m, n, c, d]` in F32. All threads of the node call it.
pub fn mul_mat(w: &Worker<'_>, node: CheckedNode<'_>, dest: Dest<'_>) {
    compute(kernels_for(w), w, node, dest);
}

/// The kernels that the host has selected.
pub(super) fn kernels_for(w: &Worker<'_>) -> &'static Kernels {
    if w.use_ref() { reference() } else { kernels() }
}

/// [`mul_mat`] with given kernels.
pub(super) fn compute(k: &Kernels, w: &Worker<'_>, node: CheckedNode<'_>, mut dest: Dest<'_>) {
    let s = Shapes::of(*node);
    let k = s.kernels(k);
    if has_hint(*node) && !k.dots_only && hadamard::applies(&s) {
        return hadamard::transform(w, node, dest);
    }
    if s.k() == 0 {
        return rows(w, &dest).for_each(|row| dest.row_mut::<f32>(row).fill(0.0));
    }
    let plan = ProductPlan::new(k, &s, s.columns(), w.nth());
    let (src0, src1) = (node.source(0), node.source(1));
    let (front, own) = workspace(w, plan.scratch()).split_at(plan.own_at);
    let own = own.own(plan.own_floats());
    let published = if !plan.converts() {
        None
    } else if w.finds_scratch() {
        Some(plan.kept(w, front))
    } else {
        let [published] = publish(w, [convert(w, k, &plan, &src1, front, own)]);
        Some(published)
    };
    let activations = Activations::new(&plan, src1, published);
    // What is not interleaved yet.
    let rows = w.file_rows().map(|rows| (rows, ProductPlan::new(k, &s.in_rows(), s.columns(), w.nth())));
    let in_rows = rows.as_ref().map(|(rows, plan)| (*rows, Activations::new(plan, src1, published)));

    let matrices = src0.ne[2] * src0.ne[3];
    let cut = plan.cut(src0.ne[1], s.columns(), matrices, w.nth());
    while let Some(at) = w.next_piece(cut.chunks() * matrices) {
        let (matrix, piece) = (at / cut.chunks(), at % cut.chunks());
        let place = [matrix % src0.ne[2], matrix / src0.ne[2]];
        let (source, activations) = source_of(src0, activations, in_rows, matrix);
        let matrix = Matrix { source, at: place };
        let columns = Repeated { ne1: src1.ne, repeats: [src1.ne[2] / src0.ne[2], src1.ne[3] / src0.ne[3]], place };
        Job::new(k, matrix, activations, columns, cut.rows(piece), cut.cols(piece)).run(w, &mut dest, own);
    }
}

/// Where the rows of a matrix of weights are, and the activations with the plan for them: in memory, or in the file.
pub(super) fn source_of<'a>(
    source: Source<'a>,
    activations: Activations<'a>,
    in_rows: Option<(FileRows<'a>, Activations<'a>)>,
    matrix: usize,
) -> (Source<'a>, Activations<'a>) {
    match in_rows.and_then(|(rows, activations)| Some((rows.instead_of(matrix)?, activations))) {
        Some((bytes, activations)) => (source.in_bytes(bytes), activations),
        None => (source, activations),
    }
}

/// The scratch memory of the node. Asserts that the plan of the graph has reserved at least `bytes` bytes.
pub(super) fn workspace<'a>(w: &Worker<'a>, bytes: usize) -> Workspace<'a> {
    let all = w.workspace();
    ggml_assert!(all.size() >= bytes, "the graph's plan is for another graph");
    all
}

/// The columns for one matrix of `src0`: those of all matrices of `src1` for which it is repeated.
struct Repeated {
    ne1: [usize; 4],
    repeats: [usize; 2],
    /// Indices of the matrix in dimensions 2 and 3.
    place: [usize; 2],
}

impl Columns for Repeated {
    fn get(&self, j: usize) -> (RowIndex, RowIndex) {
        let ([r2, r3], [i02, i03]) = (self.repeats, self.place);
        if j < self.ne1[1] {
            // Divisions would take a good part of the time of a small product.
            let at = [j, i02 * r2, i03 * r3];
            return (at, at);
        }
        let (i1, above) = (j % self.ne1[1], j / self.ne1[1]);
        let at = [i1, i02 * r2 + above % r2, i03 * r3 + above / r2];
        (at, at)
    }
}
