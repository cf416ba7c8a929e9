//! Graphs computed by the whole backend. Results must be bit-identical for any number of threads, and near a reference
//! in double precision.

use super::access::whole;
use super::check::{self, CheckedGraph};
use super::convert;
use super::exec::{self, Abort, Settings};
use super::plan::Plan;
use super::worker::Scratch;
use crate::abi::ggml::ggml_glu_op::*;
use crate::abi::ggml::ggml_type::{self, *};
use crate::abi::ggml::*;
use crate::error::{Error, Result};
use crate::tensor::ops::{Place, *};
use crate::tensor::{Context, TensorRef};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) fn ctx() -> Context {
    Context::with_size(64 << 20, false).unwrap()
}

/// Reproducible numbers between -1 and 1.
pub(super) fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

pub(super) fn write(t: TensorRef, x: &[f32]) {
    let mut p = whole::dest(t);
    assert_eq!(x.len(), p.len());
    for r in 0..p.nrows() {
        p.store(p.row_index(r), 0, &x[r * p.ne[0]..][..p.ne[0]]);
    }
}

pub(super) fn tensor(c: &mut Context, dtype: ggml_type, ne: &[i64], seed: u64) -> TensorRef {
    let t = c.new_tensor(dtype, ne).unwrap();
    write(t, &noise(t.nelements() as usize, seed));
    t
}

pub(super) fn floats(c: &mut Context, ne: &[i64], seed: u64) -> TensorRef {
    tensor(c, GGML_TYPE_F32, ne, seed)
}

pub(super) fn integers(c: &mut Context, ne: &[i64], values: &[i32]) -> TensorRef {
    let t = c.new_tensor(GGML_TYPE_I32, ne).unwrap();
    let mut p = whole::dest(t);
    (0..p.len()).for_each(|i| p.set(i % p.ne[0], p.row_index(i / p.ne[0]), values[i]));
    t
}

pub(super) fn read(t: TensorRef) -> Vec<f32> {
    let p = whole::source(t);
    let mut out = vec![0f32; p.len()];
    for (r, out) in out.chunks_exact_mut(p.ne[0]).enumerate() {
        p.load(p.row_index(r), 0, out);
    }
    out
}

/// All tensors that `t` is computed from, and `t`, each after its sources.
pub(super) fn nodes_of(t: TensorRef) -> Vec<TensorRef> {
    fn visit(t: TensorRef, out: &mut Vec<TensorRef>) {
        if out.contains(&t) {
            return;
        }
        t.srcs().for_each(|(_, s)| visit(s, out));
        t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
        out.push(t);
    }
    let mut out = Vec::new();
    visit(t, &mut out);
    out
}

pub(super) fn compute_with(nodes: &[TensorRef], n_threads: usize, abort: Abort) -> Result<()> {
    let plan = Plan::of(nodes.iter().copied(), n_threads);
    let mut work = vec![0u8; plan.work_size()];
    // SAFETY: only this computation uses the bytes of `work`.
    let scratch = unsafe { Scratch::new(work.as_mut_ptr(), work.len()) };
    let graph = CheckedGraph::new(nodes)?;
    exec::compute(&graph, &Settings { n_threads, pool: None, scratch, abort, use_ref: false })
}

/// Computes `t` with several numbers of threads, and asserts that the results are equal.
pub(super) fn compute(t: TensorRef) -> Vec<f32> {
    let nodes = nodes_of(t);
    let mut first: Option<Vec<u32>> = None;
    for n in [1, 2, 3, 8] {
        compute_with(&nodes, n, Abort::NEVER).unwrap();
        let bits: Vec<u32> = read(t).iter().map(|x| x.to_bits()).collect();
        match &first {
            None => first = Some(bits),
            Some(first) => assert!(*first == bits, "{:?} differs with {n} threads", t.op()),
        }
    }
    read(t)
}

pub(super) fn near(got: &[f32], want: impl Iterator<Item = f64>, tolerance: f64) {
    let mut n = 0;
    for (i, want) in want.enumerate() {
        let got = f64::from(got[i]);
        assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "element {i}: {got}, not {want}");
        n += 1;
    }
    assert_eq!(n, got.len());
}

/// Element `i` of a dense tensor with shape `ne`, or zero outside.
pub(super) fn at(x: &[f32], ne: [i64; 4], i: [i64; 4]) -> f64 {
    if (0..4).any(|d| i[d] < 0 || i[d] >= ne[d]) {
        return 0.0;
    }
    f64::from(x[(((i[3] * ne[2] + i[2]) * ne[1] + i[1]) * ne[0] + i[0]) as usize])
}

/// All indices of a tensor with shape `ne`, in the order of its elements.
pub(super) fn indices(ne: [i64; 4]) -> impl Iterator<Item = [i64; 4]> {
    let [n0, n1, n2, _] = ne;
    (0..ne.iter().product()).map(move |i| [i % n0, i / n0 % n1, i / (n0 * n1) % n2, i / (n0 * n1 * n2)])
}

#[test]
fn sums_and_products_broadcast_in_every_format() {
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16] {
        for (ne, nb) in [
            ([33, 5, 2, 3], [33, 1, 2, 1]),
            ([40, 130, 1, 1], [40, 130, 1, 1]),
            ([32, 7, 2, 2], [8, 7, 1, 2]),
            ([9, 5, 1, 1], [1, 1, 1, 1]),
        ] {
            let mut c = ctx();
            let (a, b) = (tensor(&mut c, dtype, &ne, 1), tensor(&mut c, dtype, &nb, 2));
            for kind in [binary::Binary::Add, binary::Binary::Sub, binary::Binary::Mul] {
                let t = binary::binary(&mut c, kind, a, b, Place::New).unwrap();
                let (x, y, z) = (read(a), read(b), compute(t));
                let at = |i: usize| {
                    let (n, m) = (ne.map(|n| n as usize), nb.map(|n| n as usize));
                    let i = [i % n[0], i / n[0] % n[1], i / (n[0] * n[1]) % n[2], i / (n[0] * n[1] * n[2])];
                    ((i[3] % m[3] * m[2] + i[2] % m[2]) * m[1] + i[1] % m[1]) * m[0] + i[0] % m[0]
                };
                let want = x.iter().enumerate().map(|(i, &x)| {
                    let (x, y) = (f64::from(x), f64::from(y[at(i)]));
                    match kind {
                        binary::Binary::Add => x + y,
                        binary::Binary::Sub => x - y,
                        _ => x * y,
                    }
                });
                near(&z, want, if dtype == GGML_TYPE_F32 { 1e-6 } else { 1e-2 });
            }
        }
    }
}

#[test]
fn in_place_results_are_those_of_new_tensors() {
    let mut c = ctx();
    for n in [1, 7, 64, 5000] {
        let a = floats(&mut c, &[n, 3], 3);
        let b = floats(&mut c, &[n, 3], 4);
        let new = binary::binary(&mut c, binary::Binary::Mul, a, b, Place::New).unwrap();
        let want = compute(new);
        let old = read(a);
        for alias in [a, b] {
            let t = binary::binary(&mut c, binary::Binary::Mul, a, b, Place::New).unwrap();
            t.set_data(alias.data());
            let saved = read(alias);
            compute_with(&nodes_of(t), 2, Abort::NEVER).unwrap();
            assert_eq!(read(t), want);
            write(alias, &saved);
        }
        let t = norm::norm(&mut c, norm::Norm::Rms, a, 1e-5, Place::New).unwrap();
        let want = compute(t);
        let t = norm::norm(&mut c, norm::Norm::Rms, a, 1e-5, Place::Inplace).unwrap();
        compute_with(&nodes_of(t), 3, Abort::NEVER).unwrap();
        assert_eq!(read(t), want);
        write(a, &old);
    }
}

#[test]
fn every_unary_operation_with_more_threads_than_rows() {
    let reference = |op: ggml_unary_op, x: f64| -> f64 {
        use ggml_unary_op::*;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match op {
            GGML_UNARY_OP_ABS => x.abs(),
            GGML_UNARY_OP_SGN => {
                if x == 0.0 {
                    0.0
                } else {
                    x.signum()
                }
            }
            GGML_UNARY_OP_NEG => -x,
            GGML_UNARY_OP_STEP => f64::from(u8::from(x > 0.0)),
            GGML_UNARY_OP_TANH => x.tanh(),
            GGML_UNARY_OP_ELU => {
                if x > 0.0 {
                    x
                } else {
                    x.exp_m1()
                }
            }
            GGML_UNARY_OP_RELU => x.max(0.0),
            GGML_UNARY_OP_SIGMOID => sigmoid(x),
            GGML_UNARY_OP_GELU => 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x * x * x)).tanh()),
            GGML_UNARY_OP_GELU_ERF => x * 0.5 * super::simd::tests::erfc(-x / std::f64::consts::SQRT_2),
            GGML_UNARY_OP_GELU_QUICK => x * sigmoid(1.702 * x),
            GGML_UNARY_OP_SILU => x * sigmoid(x),
            GGML_UNARY_OP_HARDSWISH => x * ((x + 3.0) / 6.0).clamp(0.0, 1.0),
            GGML_UNARY_OP_HARDSIGMOID => ((x + 3.0) / 6.0).clamp(0.0, 1.0),
            GGML_UNARY_OP_EXP => x.exp(),
            GGML_UNARY_OP_EXPM1 => x.exp_m1(),
            GGML_UNARY_OP_SOFTPLUS => x.exp().ln_1p(),
            GGML_UNARY_OP_XIELU => 0.0,
            GGML_UNARY_OP_FLOOR => x.floor(),
            GGML_UNARY_OP_CEIL => x.ceil(),
            GGML_UNARY_OP_ROUND => x.round(),
            GGML_UNARY_OP_TRUNC => x.trunc(),
            GGML_UNARY_OP_COUNT => unreachable!(),
        }
    };
    for op in ggml_unary_op::ALL.into_iter().filter(|&op| op != ggml_unary_op::GGML_UNARY_OP_XIELU) {
        for ne in [[37, 1], [5, 3], [1, 9000]] {
            let mut c = ctx();
            let a = floats(&mut c, &ne, 5);
            write(a, &read(a).iter().map(|x| x * 6.0).collect::<Vec<_>>());
            let t = unary::unary_new(&mut c, op, a).unwrap();
            let half_table = matches!(op, ggml_unary_op::GGML_UNARY_OP_GELU | ggml_unary_op::GGML_UNARY_OP_GELU_QUICK);
            let want = read(a).into_iter().map(|x| reference(op, f64::from(x)));
            near(&compute(t), want, if half_table { 3e-3 } else { 2e-6 });
        }
    }
}

#[test]
fn norms_of_odd_lengths() {
    for n in (1..70).chain([384, 1023]) {
        let mut c = ctx();
        let a = floats(&mut c, &[n, 3, 2], n as u64);
        let x = read(a);
        let rows = |f: &dyn Fn(&[f32]) -> Vec<f64>| -> Vec<f64> { x.chunks_exact(n as usize).flat_map(f).collect() };
        let mean = |v: &dyn Fn(f64) -> f64, r: &[f32]| r.iter().map(|&x| v(f64::from(x))).sum::<f64>() / r.len() as f64;
        let rms = rows(&|r| {
            let s = (mean(&|x| x * x, r) + 1e-5).sqrt();
            r.iter().map(|&x| f64::from(x) / s).collect()
        });
        let t = norm::norm(&mut c, norm::Norm::Rms, a, 1e-5, Place::New).unwrap();
        near(&compute(t), rms.into_iter(), 1e-5);
        let centred = rows(&|r| {
            let m = mean(&|x| x, r);
            let s = (mean(&|x| (x - m) * (x - m), r) + 1e-3).sqrt();
            r.iter().map(|&x| (f64::from(x) - m) / s).collect()
        });
        let t = norm::norm(&mut c, norm::Norm::Layer, a, 1e-3, Place::New).unwrap();
        near(&compute(t), centred.into_iter(), 1e-5);
    }
}

#[test]
fn soft_max_with_mask_and_sinks() {
    for n in [1, 5, 16, 33, 200] {
        let mut c = ctx();
        let a = floats(&mut c, &[n, 4, 3, 2], 7);
        let mask = tensor(&mut c, GGML_TYPE_F16, &[n, 4, 1, 2], 8);
        let sinks = floats(&mut c, &[3], 9);
        let t = softmax::soft_max(&mut c, a, Some(mask), 0.5, 0.0, Place::New).unwrap();
        softmax::add_sinks(t, Some(sinks));
        let (x, m, s) = (read(a), read(mask), read(sinks));
        let n = n as usize;
        let want: Vec<f64> = (0..24)
            .flat_map(|r| {
                let (i1, i2, i3) = (r % 4, r / 4 % 3, r / 12);
                let e: Vec<f64> =
                    (0..n).map(|i| f64::from(x[r * n + i] * 0.5 + m[(i3 * 4 + i1) * n + i]).exp()).collect();
                let sum: f64 = e.iter().sum::<f64>() + f64::from(s[i2]).exp();
                e.into_iter().map(move |e| e / sum).collect::<Vec<_>>()
            })
            .collect();
        near(&compute(t), want.into_iter(), 1e-6);
    }
}

#[test]
fn attention_is_soft_max_of_products() {
    for (dtype, tolerance) in [(GGML_TYPE_F32, 1e-5), (GGML_TYPE_F16, 1e-5), (GGML_TYPE_Q8_0, 1e-5)] {
        for (positions, keys, heads, groups) in [(1, 1, 1, 1), (7, 130, 4, 2), (70, 65, 2, 1), (1, 600, 6, 3)] {
            let (d, mut c) = (64, ctx());
            let q = floats(&mut c, &[d, positions, heads, 2], 1);
            let k = tensor(&mut c, dtype, &[d, keys, heads / groups, 2], 2);
            let v = tensor(&mut c, dtype, &[d, keys, heads / groups, 2], 3);
            let mask = tensor(&mut c, GGML_TYPE_F16, &[keys, positions, 1, 1], 4);
            let mut m = read(mask);
            m.iter_mut().skip(1).step_by(3).for_each(|m| *m = f32::NEG_INFINITY);
            write(mask, &m);
            let t = attention::flash_attn(&mut c, [q, k, v], Some(mask), 0.2, 0.0, 3.0).unwrap();
            let (q, k, v) = (read(q), read(k), read(v));
            let [d, positions, keys, heads, groups] = [d, positions, keys, heads, groups].map(|n| n as usize);
            let mut want = Vec::new();
            for i3 in 0..2 {
                for p in 0..positions {
                    for h in 0..heads {
                        let plane = i3 * (heads / groups) + h / groups;
                        let row = |x: &[f32], i: usize| x[(plane * keys + i) * d..][..d].to_vec();
                        let query = &q[((i3 * heads + h) * positions + p) * d..][..d];
                        let weight = |i: usize| {
                            let dot: f64 =
                                query.iter().zip(row(&k, i)).map(|(a, b)| f64::from(*a) * f64::from(b)).sum();
                            (3.0 * (dot * 0.2 / 3.0).tanh() + f64::from(m[p * keys + i])).exp()
                        };
                        let weights: Vec<f64> = (0..keys).map(weight).collect();
                        let sum: f64 = weights.iter().sum();
                        let mut out = vec![0f64; d];
                        for (i, w) in weights.iter().enumerate() {
                            out.iter_mut().zip(row(&v, i)).for_each(|(o, v)| *o += w / sum * f64::from(v));
                        }
                        want.extend(if sum > 0.0 { out } else { vec![0.0; d] });
                    }
                }
            }
            near(&compute(t), want.into_iter(), tolerance);
        }
    }
}

#[test]
fn rope_turns_pairs_and_turns_them_back() {
    for (mode, offset) in [(GGML_ROPE_TYPE_NORMAL, 0), (GGML_ROPE_TYPE_NEOX, 0), (GGML_ROPE_TYPE_NEOX, 4)] {
        for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
            let mut c = ctx();
            let a = tensor(&mut c, dtype, &[24, 3, 5, 2], 11);
            let pos = integers(&mut c, &[5], &[0, 3, 7, 100, 2]);
            let params = rope::Rope::plain(16, mode);
            let t = rope::rope(&mut c, a, pos, None, &params, Place::New).unwrap();
            rope::set_offset(t, offset);
            let (x, y) = (read(a), compute(t));
            let p = [0.0, 3.0, 7.0, 100.0, 2.0];
            let o = offset as usize;
            let mut want: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            for (r, row) in want.chunks_exact_mut(24).enumerate() {
                for pair in 0..8 {
                    let (i, j) =
                        if mode == GGML_ROPE_TYPE_NORMAL { (2 * pair, 2 * pair + 1) } else { (pair, pair + 8) };
                    let angle = p[r / 3 % 5] * 10000f64.powf(-(pair as f64) / 8.0);
                    let (a, b) = (row[o + i], row[o + j]);
                    row[o + i] = a * angle.cos() - b * angle.sin();
                    row[o + j] = a * angle.sin() + b * angle.cos();
                }
            }
            let tolerance = if dtype == GGML_TYPE_F32 { 2e-5 } else { 2e-3 };
            near(&y, want.into_iter(), tolerance);
            let back = rope::rope_back(&mut c, t, pos, None, &params).unwrap();
            rope::set_offset(back, offset);
            near(&compute(back), x.iter().map(|&x| f64::from(x)), tolerance);
        }
    }
}

#[test]
fn copies_convert_and_transpose() {
    let formats = [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K];
    for from in formats {
        for to in formats {
            let mut c = ctx();
            let a = tensor(&mut c, from, &[256, 3, 2], 1);
            let b = c.new_tensor(to, &[256, 3, 2]).unwrap();
            let t = copy::cpy(&mut c, a, b).unwrap();
            if check::supported(t).is_err() {
                assert!(from.blck_size() > 1 && to != GGML_TYPE_F32, "{from:?} to {to:?}");
                continue;
            }
            let mut expected = vec![0u8; b.nbytes()];
            convert::from_f32(to, &read(a), &mut expected);
            if from != to {
                compute(t);
                assert!(whole::dest(b).flat().bytes_mut([0; 3]) == expected, "{from:?} to {to:?}");
            } else {
                assert_eq!(compute(t), read(a));
            }
        }
    }
    let mut c = ctx();
    let a = floats(&mut c, &[70, 33, 3], 2);
    let turned = view::permute(&mut c, a, [1, 0, 2, 3]).unwrap();
    let t = copy::cont(&mut c, turned).unwrap();
    let (x, y) = (read(a), compute(t));
    for (i, y) in y.iter().enumerate() {
        assert_eq!(*y, x[(i / (33 * 70) * 33 + i % 33) * 70 + i / 33 % 70]);
    }

    // Numbers of two bytes; and a transposed part of a tensor, whose columns have gaps.
    let a = tensor(&mut c, GGML_TYPE_F16, &[70, 33], 3);
    let turned = view::transpose(&mut c, a).unwrap();
    let (x, y) = (read(a), compute(copy::cont(&mut c, turned).unwrap()));
    assert!(y.iter().enumerate().all(|(i, y)| *y == x[i % 33 * 70 + i / 33]));
    let part = view::view(&mut c, a, &[20, 7], &[a.nb()[1] * 2], 6).unwrap();
    let turned = view::transpose(&mut c, part).unwrap();
    let y = compute(copy::cont(&mut c, turned).unwrap());
    assert!(y.iter().enumerate().all(|(i, y)| *y == x[i % 7 * 140 + 3 + i / 7]));
}

#[test]
fn rows_by_index_and_indices_out_of_range() {
    let mut c = ctx();
    let table = floats(&mut c, &[40, 9], 1);
    let ids = integers(&mut c, &[4], &[8, 0, 3, 3]);
    let t = rows::get_rows(&mut c, table, ids).unwrap();
    let x = read(table);
    let want: Vec<f32> = [8, 0, 3, 3].iter().flat_map(|&i: &usize| x[i * 40..][..40].to_vec()).collect();
    assert_eq!(compute(t), want);
    for bad in [9, -1, i32::MIN, i32::MAX] {
        let ids = integers(&mut c, &[4], &[1, bad, 3, 3]);
        let t = rows::get_rows(&mut c, table, ids).unwrap();
        for n in [1, 4] {
            assert!(matches!(compute_with(&nodes_of(t), n, Abort::NEVER), Err(Error::Invalid(_))));
        }
        let ids = c.new_tensor(GGML_TYPE_I64, &[1]).unwrap();
        whole::dest(ids).set(0, [0; 3], i64::from(bad));
        let new = floats(&mut c, &[40, 1], 3);
        let t = rows::set_rows(&mut c, table, new, ids).unwrap();
        assert!(compute_with(&nodes_of(t), 1, Abort::NEVER).is_err());
        assert_eq!(read(table), x);
    }
}

#[test]
fn gated_units_split_or_joined() {
    for op in [GGML_GLU_OP_REGLU, GGML_GLU_OP_GEGLU, GGML_GLU_OP_SWIGLU, GGML_GLU_OP_GEGLU_ERF, GGML_GLU_OP_GEGLU_QUICK]
    {
        let mut c = ctx();
        let joined = floats(&mut c, &[34, 5], 1);
        let x = read(joined);
        let half = |at: usize| x.chunks_exact(34).flat_map(|r| r[at..at + 17].to_vec()).collect::<Vec<_>>();
        let (a, b) = (floats(&mut c, &[17, 5], 0), floats(&mut c, &[17, 5], 0));
        write(a, &half(0));
        write(b, &half(17));
        let split = glu::glu(&mut c, op, a, Some(b), false).unwrap();
        let whole = glu::glu(&mut c, op, joined, None, false).unwrap();
        assert_eq!(compute(split), compute(whole));
        let swapped = glu::glu(&mut c, op, joined, None, true).unwrap();
        let other = glu::glu(&mut c, op, b, Some(a), false).unwrap();
        assert_eq!(compute(swapped), compute(other));
    }
}

unsafe extern "C" fn stop_after(data: *mut std::ffi::c_void) -> bool {
    // SAFETY: the tests pass the address of an `AtomicUsize` that outlives the computation.
    unsafe { &*data.cast::<AtomicUsize>() }.fetch_sub(1, Ordering::Relaxed) == 1
}

#[test]
fn stopping_at_any_node_leaves_everything_usable() {
    let mut c = ctx();
    let mut t = floats(&mut c, &[100, 100], 1);
    for i in 0..30 {
        let other = floats(&mut c, &[if i % 3 == 0 { 100 } else { 1 }, 1], 2);
        t = binary::add(&mut c, t, other).unwrap();
        if i % 4 == 0 {
            t = reduce::sum_rows(&mut c, t).unwrap();
            t = copy::repeat(&mut c, t, [100, 100, 1, 1]).unwrap();
        }
    }
    let nodes = nodes_of(t);
    let live = nodes.iter().filter(|&&n| check::is_live(n)).count();
    for at in 1..=live + 1 {
        for n_threads in [1, 4] {
            let left = AtomicUsize::new(at);
            let data = std::ptr::from_ref(&left).cast_mut().cast();
            let result = compute_with(&nodes, n_threads, Abort { callback: Some(stop_after), data });
            assert_eq!(matches!(result, Err(Error::Aborted)), at <= live, "{at} of {live}: {result:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let mut c = ctx();
    let a = floats(&mut c, &[32, 4], 1);
    let t = binary::add(&mut c, a, a).unwrap();
    let nodes = nodes_of(t);
    let data = a.data();
    a.set_data(std::ptr::null_mut());
    assert!(compute_with(&nodes, 2, Abort::NEVER).is_err());
    a.set_data(data);
    let v = view::view(&mut c, a, &[32, 2], &[128], 128).unwrap();
    let t = binary::add(&mut c, v, v).unwrap();
    v.set_ne([32, 400, 1, 1]);
    t.set_ne([32, 400, 1, 1]);
    assert!(compute_with(&nodes_of(t), 2, Abort::NEVER).is_err());
    let t = binary::add(&mut c, a, a).unwrap();
    t.set_op(ggml_op::GGML_OP_MUL_MAT);
    assert!(compute_with(&nodes_of(t), 2, Abort::NEVER).is_err());
}

#[test]
fn what_is_around_nothing_is_zero() {
    let mut c = ctx();
    let a = c.new_tensor(GGML_TYPE_F32, &[5, 0, 2]).unwrap();
    let t = image::pad(&mut c, a, [1, 2, 0, 3, 1, 0, 0, 0], false).unwrap();
    assert_eq!(t.ne(), [8, 3, 3, 1]);
    write(t, &noise(72, 1));
    assert_eq!(compute(t), [0.0; 72]);
}

#[test]
fn results_do_not_mind_where_they_are_written() {
    let mut c = ctx();
    let a = floats(&mut c, &[48, 6, 2], 1);
    let b = floats(&mut c, &[48, 6, 2], 2);
    let pos = integers(&mut c, &[2], &[3, 9]);
    let unary = ggml_unary_op::GGML_UNARY_OP_SILU;
    let nodes = [
        norm::rms_norm_back(&mut c, a, b, 1e-5).unwrap(),
        softmax::soft_max_back(&mut c, a, b, 0.5, 0.0, Place::New).unwrap(),
        softmax::soft_max(&mut c, a, None, 0.5, 0.0, Place::New).unwrap(),
        unary::silu_back(&mut c, a, b).unwrap(),
        binary::binary(&mut c, binary::Binary::Div, a, b, Place::New).unwrap(),
        binary::binary(&mut c, binary::Binary::Sub, a, b, Place::New).unwrap(),
        unary::unary_new(&mut c, unary, a).unwrap(),
        unary::scale_bias(&mut c, a, 2.0, 1.0, Place::New).unwrap(),
        rope::rope(&mut c, a, pos, None, &rope::Rope::plain(48, GGML_ROPE_TYPE_NEOX), Place::New).unwrap(),
        glu::glu(&mut c, GGML_GLU_OP_SWIGLU, a, Some(b), false).unwrap(),
        norm::norm(&mut c, norm::Norm::Layer, a, 1e-5, Place::New).unwrap(),
    ];
    let (x, y) = (read(a), read(b));
    for node in nodes {
        let want = compute(node);
        let own = node.data();
        for (_, source) in node.srcs().filter(|(_, s)| s.same_shape(node)) {
            node.set_data(source.data());
            compute_with(&nodes_of(node), 3, Abort::NEVER).unwrap();
            assert_eq!(read(node), want, "{:?}", node.op());
            node.set_data(own);
            write(a, &x);
            write(b, &y);
        }
    }
}

#[test]
fn scratch_memory_is_not_overrun() {
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_IQ4_XS] {
        for (columns, n_threads) in [(1, 1), (3, 2), (9, 8), (17, 30)] {
            let mut c = ctx();
            let matrices = tensor(&mut c, dtype, &[256, 33, 5], 1);
            let b = floats(&mut c, &[256, 2, columns], 2);
            let ids: Vec<i32> = (0..2 * columns as i32).map(|i| i * 3 % 5).collect();
            let ids = integers(&mut c, &[2, columns], &ids);
            let plane = c.new_view(matrices, &[256, 33], 0).unwrap();
            let flat = c.new_view(b, &[256, 2 * columns], 0).unwrap();
            for t in
                [matmul::mul_mat_id(&mut c, matrices, b, ids).unwrap(), matmul::mul_mat(&mut c, plane, flat).unwrap()]
            {
                let nodes = nodes_of(t);
                let plan = |n| Plan::of(nodes.iter().copied(), n);
                // A plan for more threads than a computation can have needs no more memory.
                let (many, most) = (plan(GGML_MAX_N_THREADS + 88), plan(GGML_MAX_N_THREADS));
                let named = if most.n_threads > 1 { GGML_MAX_N_THREADS + 88 } else { 1 };
                assert_eq!(many, Plan { n_threads: named, ..most });
                let graph = CheckedGraph::new(&nodes).unwrap();
                assert!(exec::Steps::new(&graph, many.n_threads, None).work_size() <= many.work_size());
                let size = plan(n_threads).work_size();
                let mut work = vec![0x5au8; size + 256];
                // SAFETY: `size` bytes of `work`, which only the computations use until they end.
                let scratch = unsafe { Scratch::new(work.as_mut_ptr(), size) };
                let settings = Settings { n_threads, pool: None, scratch, abort: Abort::NEVER, use_ref: true };
                exec::compute(&CheckedGraph::new(&nodes).unwrap(), &settings).unwrap();
                let reference = read(t).into_iter().map(f64::from).collect::<Vec<_>>();
                let settings = Settings { use_ref: false, ..settings };
                exec::compute(&CheckedGraph::new(&nodes).unwrap(), &settings).unwrap();
                assert!(work[size..].iter().all(|&b| b == 0x5a), "{dtype:?}, {columns} columns, {n_threads} threads");
                // Tiles may use scales for other groups of activations than the reference.
                let largest = reference.iter().fold(0f64, |m, x| m.max(x.abs()));
                near(&read(t), reference.into_iter(), 1e-2 * largest.max(1e-3));
            }
        }
    }
}

#[test]
fn graphs_may_go_as_soon_as_they_are_computed() {
    let pool = super::threadpool::Pool::new(&super::threadpool::default_params(4)).unwrap();
    for round in 0..500u64 {
        let mut c = Context::with_size(1 << 16, false).unwrap();
        let a = floats(&mut c, &[64, 8], round);
        let t = binary::add(&mut c, a, a).unwrap();
        let nodes = nodes_of(t);
        let n_threads = 1 + (round * 7 % 5) as usize;
        let settings =
            Settings { n_threads, pool: Some(&pool), scratch: Scratch::EMPTY, abort: Abort::NEVER, use_ref: false };
        exec::compute(&CheckedGraph::new(&nodes).unwrap(), &settings).unwrap();
        let x = read(a);
        assert!(read(t).iter().zip(x).all(|(y, x)| *y == x + x));
    }
}

#[test]
fn quantized_tensors_are_joined_and_sorted_values_rise() {
    for dim in 0..4 {
        let mut c = ctx();
        let mut ne = [64, 3, 2, 2];
        let a = tensor(&mut c, GGML_TYPE_Q8_0, &ne, 1);
        ne[dim] *= 2;
        let b = tensor(&mut c, GGML_TYPE_Q8_0, &ne, 2);
        let t = copy::concat(&mut c, a, b, dim as i32).unwrap();
        let (x, y, z) = (read(a), read(b), compute(t));
        assert_eq!(z.len(), x.len() + y.len());
        let sum = |v: &[f32]| v.iter().map(|&v| f64::from(v)).sum::<f64>();
        assert!((sum(&z) - sum(&x) - sum(&y)).abs() < 1e-3);
        assert_eq!(z[..64], x[..64]);
    }
    let mut c = ctx();
    let a = floats(&mut c, &[1000, 3], 3);
    let t = sort::argsort(&mut c, a, ggml_sort_order::GGML_SORT_ORDER_DESC).unwrap();
    let (x, order) = (read(a), compute(t));
    for r in 0..3 {
        let at = |i: usize| x[r * 1000 + order[r * 1000 + i] as usize];
        assert!((1..1000).all(|i| at(i - 1) >= at(i)));
    }
}

#[test]
fn of_rows_with_one_target_the_last_is_kept_by_any_number_of_threads() {
    let mut c = ctx();
    let (table, new) = (floats(&mut c, &[5, 3], 1), floats(&mut c, &[5, 8], 2));
    let ids = integers(&mut c, &[8], &[2, 1, 2, 1, 1, 2, 1, 2]);
    let (old, x) = (read(table), read(new));
    for threads in [1, 2, 3, 8] {
        write(table, &old);
        let t = rows::set_rows(&mut c, table, new, ids).unwrap();
        compute_with(&nodes_of(t), threads, Abort::NEVER).unwrap();
        let got = read(table);
        assert_eq!((&got[..5], &got[5..10], &got[10..]), (&old[..5], &x[30..35], &x[35..40]), "{threads} threads");
    }
}

#[test]
fn sources_that_overlap_the_result_partly_are_read_by_one_thread() {
    for shift in [4, 400, 20000] {
        let mut first: Option<Vec<u32>> = None;
        for threads in [1, 2, 8] {
            let mut c = ctx();
            let memory = floats(&mut c, &[20000], 7);
            let a = c.new_tensor(GGML_TYPE_F32, &[100, 100]).unwrap();
            a.set_data(memory.data());
            let t = unary::plain(&mut c, unary::Plain::Sqr, a, Place::New).unwrap();
            t.set_data(memory.data().wrapping_add(shift));
            compute_with(&nodes_of(t), threads, Abort::NEVER).unwrap();
            let bits: Vec<u32> = read(memory).iter().map(|x| x.to_bits()).collect();
            assert!(*first.get_or_insert_with(|| bits.clone()) == bits, "{shift} bytes on, {threads} threads");
        }
    }
}

/// A pool has 512 threads at most, even if the host requests more.
#[test]
fn more_threads_than_a_pool_can_have_compute_all() {
    let mut c = ctx();
    let (a, b) = (floats(&mut c, &[64, 7000], 1), floats(&mut c, &[64, 7000], 2));
    let sum = binary::add(&mut c, a, b).unwrap();
    // Threads wait for each other between the two nodes.
    let all = binary::add(&mut c, sum, b).unwrap();
    compute_with(&nodes_of(all), 600, Abort::NEVER).unwrap();
    let expected: Vec<f32> = read(a).iter().zip(read(b)).map(|(a, b)| a + b + b).collect();
    assert_eq!(read(all), expected);
}

/// Query, key and value of a layer have the same activations, which are converted once, unless a node writes them or
/// uses the scratch memory in between.
#[test]
fn products_of_the_same_activations_are_those_of_each_alone() {
    for (dtype, columns) in [GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_Q8_0, GGML_TYPE_BF16, GGML_TYPE_IQ2_S]
        .into_iter()
        .flat_map(|t| [(t, 1), (t, 3), (t, 40)])
    {
        let mut c = ctx();
        let weights: Vec<_> = (0..4).map(|i| tensor(&mut c, dtype, &[512, 24 + 8 * i, 1], i as u64)).collect();
        let x = floats(&mut c, &[512, columns], 9);
        let mut nodes = Vec::new();
        let mut multiply = |c: &mut Context, w: TensorRef, x: TensorRef| {
            let t = matmul::mul_mat(c, w, x).unwrap();
            nodes.push(t);
            t
        };
        let q = multiply(&mut c, weights[0], x);
        let k = multiply(&mut c, weights[1], x);
        // As many activations, elsewhere.
        let y = floats(&mut c, &[512, columns], 10);
        let other = multiply(&mut c, weights[2], y);
        let v = multiply(&mut c, weights[2], x);
        let q_again = multiply(&mut c, weights[0], x);
        // The activations change between these two.
        let doubled = binary::binary(&mut c, binary::Binary::Add, x, x, Place::Inplace).unwrap();
        let changed = matmul::mul_mat(&mut c, weights[3], x).unwrap();
        let all: Vec<_> = nodes.iter().copied().chain([doubled, changed]).collect();
        all.iter().for_each(|t| t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE));
        let bits = |t: TensorRef| read(t).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let start = read(x);
        // Each product in a graph of its own, with other contents of the scratch memory.
        let alone: Vec<_> = nodes
            .iter()
            .map(|&t| {
                compute_with(&[t], 1, Abort::NEVER).unwrap();
                bits(t)
            })
            .collect();
        compute_with(&[doubled, changed], 1, Abort::NEVER).unwrap();
        let changed_alone = bits(changed);
        for n_threads in [1, 2, 3] {
            write(x, &start);
            all.iter().for_each(|t| {
                if t.data() != x.data() {
                    write(*t, &vec![7.0; t.nelements() as usize])
                }
            });
            compute_with(&all, n_threads, Abort::NEVER).unwrap();
            for (t, alone) in nodes.iter().zip(&alone) {
                assert!(bits(*t) == *alone, "{dtype:?}, {columns} columns, {n_threads} threads");
            }
            assert!(bits(changed) == changed_alone, "{dtype:?}, {columns} columns, {n_threads} threads: changed");
        }
        // Those of `k` and of `q_again` are kept, those of `other`, `v` and `changed` are not.
        let graph = CheckedGraph::new(&all).unwrap();
        let kept: Vec<_> = exec::Steps::new(&graph, 1, None).list().concat().iter().map(|(_, kept)| *kept).collect();
        let converts = matmul_converts(dtype);
        assert_eq!(kept, [false, converts, false, false, converts, false, false], "{dtype:?}");
        assert!(bits(q) == bits(q_again) && bits(k) != bits(v) && bits(other) != bits(v));
    }
}

/// Whether products with weights of this format convert their activations.
fn matmul_converts(dtype: ggml_type) -> bool {
    dtype.blck_size() > 1 || super::simd::kernels().products.bf16_columns == GGML_TYPE_BF16
}
