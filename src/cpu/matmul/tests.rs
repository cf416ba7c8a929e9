//! Products compared with double precision: all formats, repeated and permuted sources, odd sizes, any number of
//! threads.

use super::mul_mat::{compute, scratch};
use super::*;
use crate::abi::ggml::{ggml_op, ggml_tensor, ggml_type, ggml_type::*};
use crate::cpu::access::Dest;
use crate::cpu::check;
use crate::cpu::checked::CheckedNode;
use crate::cpu::simd::Kernels;
use crate::cpu::simd::tests::{Noise, decode_row, levels, random_row};
use crate::cpu::worker::Worker;
use crate::cpu::worker::tests::run_workers;
use crate::error::Error;

/// Computes a product on `threads` threads.
pub(super) fn run(
    threads: usize,
    scratch: usize,
    t: TensorRef,
    f: impl Fn(&Worker<'_>, CheckedNode<'_>, Dest<'_>) + Sync,
) -> Option<Error> {
    let node = check::runnable(&t).unwrap();
    // SAFETY: each thread makes one `Dest` with its own number, and `Worker::wait` clears the claims.
    run_workers(threads, scratch, |w| f(w, node, unsafe { node.dest(w.ith(), w.claims()) }))
}

/// A tensor with its own memory.
pub(super) struct Owned {
    tensor: Box<ggml_tensor>,
    pub(super) data: Vec<u8>,
}

impl Owned {
    pub(super) fn new(t: ggml_type, ne: [usize; 4], data: Vec<u8>) -> Self {
        // SAFETY: all-zero bytes are a valid `ggml_tensor`: numbers, NULL pointers and an empty name.
        let tensor: Box<ggml_tensor> = Box::new(unsafe { std::mem::zeroed() });
        let mut o = Self { tensor, data };
        let r = o.get();
        r.set_dtype(t);
        r.set_ne(ne.map(|n| n as i64));
        let row = t.row_size(ne[0] as i64).unwrap();
        r.set_nb([t.type_size(), row, row * ne[1], row * ne[1] * ne[2]]);
        r.set_data(o.data.as_mut_ptr());
        o
    }
    pub(super) fn random(t: ggml_type, ne: [usize; 4], noise: &mut Noise) -> Self {
        let rows = ne[1] * ne[2] * ne[3];
        Self::new(t, ne, random_row(t, ne[0] * rows, noise))
    }
    pub(super) fn zeros(ne: [usize; 4]) -> Self {
        Self::new(GGML_TYPE_F32, ne, vec![0xff; 4 * ne.iter().product::<usize>()])
    }
    pub(super) fn get(&mut self) -> TensorRef {
        // SAFETY: a **valid tensor** while the `Owned` exists, and tests do not use the handle longer.
        unsafe { TensorRef::from_ptr(&raw const *self.tensor) }.unwrap()
    }
    /// Swaps two dimensions.
    fn swap(&mut self, a: usize, b: usize) {
        let t = self.get();
        let (mut ne, mut nb) = (t.ne(), t.nb());
        ne.swap(a, b);
        nb.swap(a, b);
        t.set_ne(ne);
        t.set_nb(nb);
    }
    /// The values of a row, read through the strides.
    fn row(&mut self, i1: usize, i2: usize, i3: usize) -> Vec<f32> {
        let t = self.get();
        let (nb, n) = (t.nb(), t.ne()[0] as usize);
        let at = i1 * nb[1] + i2 * nb[2] + i3 * nb[3];
        if t.dtype() == GGML_TYPE_F32 && nb[0] != 4 {
            return (0..n).map(|i| f32::from_le_bytes(self.data[at + i * nb[0]..][..4].try_into().unwrap())).collect();
        }
        decode_row(t.dtype(), &self.data[at..at + t.dtype().row_size(n as i64).unwrap()], n)
    }
}

fn dot(a: &[f32], b: &[f32]) -> (f64, f64) {
    let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.fold((0.0, 0.0), |(s, m), p| (s + p, m + p * p))
}

/// Tolerance of a result. It is larger for weights in blocks, because the activations are rounded to bytes.
fn tolerance(t: ggml_type, squares: f64) -> f64 {
    squares.sqrt() * if t.blck_size() == 1 { 1e-5 } else { 0.02 } + 1e-6
}

/// The activations that the kernels multiply: bfloat16s at some levels, if the weights are.
fn multiplied(k: &Kernels, weights: ggml_type, y: Vec<f32>) -> Vec<f32> {
    if weights != GGML_TYPE_BF16 || k.products.bf16_columns != GGML_TYPE_BF16 {
        return y;
    }
    y.into_iter().map(|y| half::bf16::from_f32(y).to_f32()).collect()
}

fn check_mul_mat(a: &mut Owned, b: &mut Owned, what: &str) {
    let (ta, tb) = (a.get(), b.get());
    let (na, nb) = (ta.ne().map(|n| n as usize), tb.ne().map(|n| n as usize));
    for k in levels() {
        let mut first: Option<Vec<u8>> = None;
        for threads in [1, 2, 3, 8] {
            let mut d = Owned::zeros([na[1], nb[1], nb[2], nb[3]]);
            let t = d.get();
            t.set_op(ggml_op::GGML_OP_MUL_MAT);
            t.set_src(0, Some(ta));
            t.set_src(1, Some(tb));
            let fault = run(threads, scratch(&k, t, threads), t, |w, n, d| compute(&k, w, n, d));
            assert!(fault.is_none());
            if let Some(first) = &first {
                assert!(*first == d.data, "{:?} {what}: {threads} threads give other bits", k.level);
                continue;
            }
            for i3 in 0..nb[3] {
                for i2 in 0..nb[2] {
                    for i1 in 0..nb[1] {
                        let y = multiplied(&k, ta.dtype(), b.row(i1, i2, i3));
                        let got = d.row(i1, i2, i3);
                        for (i0, got) in got.into_iter().enumerate() {
                            let x = a.row(i0, i2 / (nb[2] / na[2]), i3 / (nb[3] / na[3]));
                            let (want, squares) = dot(&x, &y);
                            let off = (f64::from(got) - want).abs();
                            assert!(
                                off <= tolerance(ta.dtype(), squares),
                                "{:?} {what}: [{i0},{i1},{i2},{i3}] = {got}, want {want}",
                                k.level
                            );
                        }
                    }
                }
            }
            first = Some(d.data);
        }
    }
}

fn weight_formats() -> impl Iterator<Item = ggml_type> {
    ggml_type::ALL.into_iter().filter(|t| plan::can(*t, GGML_TYPE_F32))
}

#[test]
fn every_format_with_few_and_many_columns() {
    let mut noise = Noise::new(3);
    for t in weight_formats() {
        let step = (t.blck_size() as usize).max(32);
        for (k, m, n) in
            [(step, 1, 1), (3 * step, 5, 1), (step, 9, 3), (2 * step, 33, 7), (5 * step, 70, 29), (2 * step, 64, 13)]
        {
            let mut a = Owned::random(t, [k, m, 1, 1], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [k, n, 1, 1], &mut noise);
            check_mul_mat(&mut a, &mut b, &format!("{t:?} k={k} m={m} n={n}"));
        }
    }
}

#[test]
fn floats_of_any_length() {
    let mut noise = Noise::new(4);
    for t in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16] {
        let odd = [(1, 40, 20), (15, 17, 31), (17, 31, 4), (513, 9, 25), (1100, 37, 12), (64, 8, 100)];
        // Every remainder of a vector loop, with both methods.
        for (k, m, n) in (1..66).flat_map(|k| [(k, 3, 1), (k, 9, 5)]).chain(odd) {
            let mut a = Owned::random(t, [k, m, 1, 1], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [k, n, 1, 1], &mut noise);
            check_mul_mat(&mut a, &mut b, &format!("{t:?} k={k} m={m} n={n}"));
        }
    }
}

#[test]
fn long_rows_are_taken_in_steps() {
    let mut noise = Noise::new(5);
    for t in [GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_Q8_0] {
        let mut a = Owned::random(t, [4608, 35, 1, 1], &mut noise);
        let mut b = Owned::random(GGML_TYPE_F32, [4608, 9, 1, 1], &mut noise);
        check_mul_mat(&mut a, &mut b, &format!("{t:?} long"));
    }
}

#[test]
fn sources_repeat_and_may_be_permuted() {
    let mut noise = Noise::new(6);
    for t in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K] {
        for n in [1, 2, 11] {
            let k = 256;
            let mut a = Owned::random(t, [k, 10, 2, 3], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [k, n, 6, 6], &mut noise);
            check_mul_mat(&mut a, &mut b, &format!("{t:?} repeated n={n}"));
            // src1 as a view with its columns and heads swapped.
            let mut b = Owned::random(GGML_TYPE_F32, [k, 4, n, 6], &mut noise);
            b.swap(1, 2);
            check_mul_mat(&mut a, &mut b, &format!("{t:?} permuted n={n}"));
            // A transposed src1, with gaps between the values of a row.
            let mut b = Owned::random(GGML_TYPE_F32, [n, k, 2, 3], &mut noise);
            b.swap(0, 1);
            check_mul_mat(&mut a, &mut b, &format!("{t:?} transposed n={n}"));
            // src0 as a view, as the K cache is.
            let mut a = Owned::random(t, [k, 2, 10, 3], &mut noise);
            a.swap(1, 2);
            let mut b = Owned::random(GGML_TYPE_F32, [k, n, 4, 3], &mut noise);
            check_mul_mat(&mut a, &mut b, &format!("{t:?} src0 permuted n={n}"));
        }
    }
}

#[test]
fn activations_of_other_formats() {
    let mut noise = Noise::new(7);
    for (t, u) in [
        (GGML_TYPE_F32, GGML_TYPE_F16),
        (GGML_TYPE_F32, GGML_TYPE_BF16),
        (GGML_TYPE_F16, GGML_TYPE_F16),
        (GGML_TYPE_BF16, GGML_TYPE_BF16),
        (GGML_TYPE_Q4_0, GGML_TYPE_Q8_0),
        (GGML_TYPE_Q4_0, GGML_TYPE_F16),
    ] {
        for n in [1, 9] {
            let mut a = Owned::random(t, [96, 17, 1, 1], &mut noise);
            // Encoded, not random bits, which could have bytes of -128.
            let mut data = vec![0; u.row_size(96 * 2 * n as i64).unwrap()];
            crate::quant::traits(u).from_float_ref.unwrap()(&noise.floats(96 * 2 * n), &mut data);
            let mut b = Owned::new(u, [96, n, 2, 1], data);
            check_mul_mat(&mut a, &mut b, &format!("{t:?} {u:?} n={n}"));
        }
    }
}

#[test]
fn nothing_to_do() {
    let mut noise = Noise::new(8);
    let mut a = Owned::random(GGML_TYPE_F32, [32, 0, 1, 1], &mut noise);
    let mut b = Owned::random(GGML_TYPE_F32, [32, 3, 1, 1], &mut noise);
    check_mul_mat(&mut a, &mut b, "no rows");
    let mut a = Owned::random(GGML_TYPE_F32, [32, 3, 1, 1], &mut noise);
    let mut b = Owned::random(GGML_TYPE_F32, [32, 0, 1, 1], &mut noise);
    check_mul_mat(&mut a, &mut b, "no columns");
}

/// The strides of empty rows are not checked. (Found by fuzzing: the product of row and stride overflowed.)
#[test]
fn rows_of_nothing_with_any_strides() {
    let mut noise = Noise::new(9);
    for t in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_MXFP4, GGML_TYPE_Q4_K] {
        for columns in [1, 3, 8] {
            let mut a = Owned::random(t, [0, 9, 1, 1], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [0, columns, 1, 1], &mut noise);
            for o in [&mut a, &mut b] {
                let first = o.get().nb()[0];
                o.get().set_nb([first, usize::MAX / 3, usize::MAX / 5, usize::MAX - 15]);
            }
            for kernels in levels() {
                let mut d = Owned::zeros([9, columns, 1, 1]);
                let node = d.get();
                node.set_op(ggml_op::GGML_OP_MUL_MAT);
                node.set_src(0, Some(a.get()));
                node.set_src(1, Some(b.get()));
                let size = scratch(&kernels, node, 2);
                assert!(run(2, size, node, |w, n, d| compute(&kernels, w, n, d)).is_none());
                assert!(d.data.iter().all(|&x| x == 0), "{t:?} {:?}", kernels.level);
            }
        }
    }
}

pub(super) fn ids(slots: usize, tokens: usize, f: impl Fn(usize, usize) -> i32) -> Owned {
    let all = (0..tokens).flat_map(|t| (0..slots).map(move |s| (s, t)));
    Owned::new(GGML_TYPE_I32, [slots, tokens, 1, 1], all.flat_map(|(s, t)| f(s, t).to_le_bytes()).collect())
}

#[test]
fn experts_are_picked_by_index() {
    let mut noise = Noise::new(9);
    for t in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_K, GGML_TYPE_Q8_0, GGML_TYPE_IQ2_XXS] {
        for (p, tokens) in [(1, 1), (2, 1), (1, 40), (2, 23)] {
            let (k, m, experts, slots) = (512, 19, 5, 2);
            let mut a = Owned::random(t, [k, m, experts, 1], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [k, p, tokens, 1], &mut noise);
            // Most tokens select experts 0 and 3, so that some have many columns, and others few or none.
            let pick = |s: usize, t: usize| match t % 7 {
                6 => 1,
                5 => [-1, 4][s],
                _ => [0, 3][s],
            };
            let mut i = ids(slots, tokens, pick);
            for kernels in levels() {
                let mut first: Option<Vec<u8>> = None;
                for threads in [1, 2, 5] {
                    let mut d = Owned::zeros([m, slots, tokens, 1]);
                    d.data.fill(0x55);
                    let node = d.get();
                    node.set_op(ggml_op::GGML_OP_MUL_MAT_ID);
                    node.set_src(0, Some(a.get()));
                    node.set_src(1, Some(b.get()));
                    node.set_src(2, Some(i.get()));
                    let size = experts::scratch(&kernels, node, threads);
                    assert!(run(threads, size, node, |w, n, d| experts::compute(&kernels, w, n, d)).is_none());
                    if let Some(first) = &first {
                        assert!(*first == d.data, "{t:?}: {threads} threads give other bits");
                        continue;
                    }
                    for token in 0..tokens {
                        for slot in 0..slots {
                            let Ok(expert) = usize::try_from(pick(slot, token)) else {
                                assert!(d.row(slot, token, 0).iter().all(|&x| x == 0.0), "{t:?}: no expert, no result");
                                continue;
                            };
                            let y = b.row(slot % p, token, 0);
                            for (i0, got) in d.row(slot, token, 0).into_iter().enumerate() {
                                let (want, squares) = dot(&a.row(i0, expert, 0), &y);
                                assert!(
                                    (f64::from(got) - want).abs() <= tolerance(t, squares),
                                    "{t:?} {slot} {token}: {got}, want {want}"
                                );
                            }
                        }
                    }
                    first = Some(d.data);
                }
            }
        }
    }
}

#[test]
fn an_index_out_of_range_is_an_error() {
    let mut noise = Noise::new(10);
    let mut a = Owned::random(GGML_TYPE_F32, [32, 4, 3, 1], &mut noise);
    let mut b = Owned::random(GGML_TYPE_F32, [32, 1, 2, 1], &mut noise);
    for bad in [3, -2, i32::MAX, i32::MIN] {
        let mut i = ids(1, 2, |_, t| if t == 1 { bad } else { 0 });
        let mut d = Owned::zeros([4, 1, 2, 1]);
        let node = d.get();
        node.set_op(ggml_op::GGML_OP_MUL_MAT_ID);
        node.set_src(0, Some(a.get()));
        node.set_src(1, Some(b.get()));
        node.set_src(2, Some(i.get()));
        for threads in [1, 3] {
            let fault = run(threads, scratch_mul_mat_id(node, threads), node, mul_mat_id);
            assert!(fault.is_some_and(|e| e.to_string().contains("names no matrix")));
        }
    }
}

#[test]
fn the_fast_transform_equals_the_product() {
    let n = 64usize;
    let mut noise = Noise::new(11);
    let h = (0..n * n).map(|i| if ((i / n) & (i % n)).count_ones().is_multiple_of(2) { 0.125f32 } else { -0.125 });
    let mut a = Owned::new(GGML_TYPE_F32, [n, n, 1, 1], h.flat_map(f32::to_le_bytes).collect());
    let mut b = Owned::random(GGML_TYPE_F32, [n, 5, 2, 1], &mut noise);
    let mut results = Vec::new();
    for hint in [0, 1] {
        let mut d = Owned::zeros([n, 5, 2, 1]);
        let t = d.get();
        t.set_op(ggml_op::GGML_OP_MUL_MAT);
        t.set_src(0, Some(a.get()));
        t.set_src(1, Some(b.get()));
        t.set_op_param_i32(1, hint);
        assert!(run(2, scratch_mul_mat(t, 2), t, mul_mat).is_none());
        results.push(decode_row(GGML_TYPE_F32, &d.data, n * 10));
    }
    assert!(results[0].iter().zip(&results[1]).all(|(a, b)| (a - b).abs() < 1e-5));
}
