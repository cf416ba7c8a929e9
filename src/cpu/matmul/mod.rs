//! Matrix products: `dst = src0^T src1`, `dst[m, n] = sum over k of src0[k, m] * src1[k, n]`, for weights of every
//! format.
//!
//! Files: `plan` (choice of the method, scratch memory), `cut` (partition of the work), `memory` (that of a thread for
//! plain numbers), `activations` (their conversion), `panels` (packed weights), `product` (computing a piece), `floats`
//! (the same for plain numbers), `registers` (those by matrix registers), `mul_mat` and `experts` (the operations
//! `MUL_MAT` and `MUL_MAT_ID`), `hadamard` (the fast transform).
//!
//! Weights of plain numbers are read as they are in memory, and multiplied with activations in F32 (`simd::products`);
//! halves and bfloat16s by matrix registers, where the processor has them (`simd::matrix`). Weights in blocks are
//! multiplied with activations in bytes, as in the original, which have a scale for every 32 of them. Few columns use a
//! dot product for each result, matrix times column (`simd::gemv`), or strips of interleaved rows (`simd::interleave`),
//! which are limited by memory bandwidth. More columns use tiles (`simd::tile`), which unpack weights once for many
//! columns. Weights in a buffer of the type `cpu::repack` are interleaved already.
//!
//! Results are bit-identical for any number of threads: the method depends only on shapes, and one thread computes each
//! result in an order that does not depend on the partition. All kernels of a format at one level have the same order,
//! so that a result has the same bits for any number of columns. Exceptions are formats that have neither strips nor a
//! kernel for one column: they use dot products with activations in another format.

mod activations;
mod cut;
mod experts;
mod floats;
mod hadamard;
mod memory;
mod mul_mat;
mod panels;
mod plan;
mod product;
mod registers;

#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod tests;

use super::simd::kernels;
use crate::tensor::TensorRef;
use plan::{ProductPlan, Shapes};

pub use experts::{SHARED_BY_EXPERTS, mul_mat_id, scratch_mul_mat_id};
pub use mul_mat::{SHARED, mul_mat, scratch_mul_mat};
pub use plan::can;

/// Whether a product with interleaved weights can use their rows instead, as a file has them: with the same activations
/// in the same memory, and the same results.
pub fn takes_rows(node: TensorRef, n_threads: usize) -> bool {
    match node.src(2) {
        Some(_) => experts::takes_rows(node, n_threads),
        None => {
            let s = Shapes::of(node);
            let plan = |s: &Shapes| ProductPlan::new(kernels(), s, s.columns(), n_threads);
            plan(&s).is_alike(&plan(&s.in_rows()))
        }
    }
}
