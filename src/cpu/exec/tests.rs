//! Which nodes are computed together, and that results are those of nodes computed alone.

use super::*;
use crate::abi::ggml::ggml_op::GGML_OP_FLASH_ATTN_BACK;
use crate::abi::ggml::ggml_op_pool::GGML_OP_POOL_MAX;
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE;
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::tests::{compute_with, ctx, floats, integers, read, tensor, write};
use crate::tensor::Context;
use crate::tensor::ops::conv::{self, Window};
use crate::tensor::ops::pool::{self, Planes};
use crate::tensor::ops::{Place, matmul, matrix, norm};
use std::time::Instant;

const FORMATS: [ggml_type; 5] = [GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_IQ2_S, GGML_TYPE_BF16, GGML_TYPE_F16];

/// Nodes in the order in which they are made.
struct Nodes {
    c: Context,
    all: Vec<TensorRef>,
}

impl Nodes {
    fn add(&mut self, f: impl FnOnce(&mut Context) -> Result<TensorRef>) -> TensorRef {
        let t = f(&mut self.c).unwrap();
        t.add_flag(GGML_TENSOR_FLAG_COMPUTE);
        self.all.push(t);
        t
    }

    /// A node that one thread computes, as it has one row.
    fn norm(&mut self, x: TensorRef) -> TensorRef {
        self.add(|c| norm::norm(c, norm::Norm::Rms, x, 1e-5, Place::New))
    }

    fn steps(&self, n_threads: usize) -> Vec<Vec<u32>> {
        let steps = Steps::new(&CheckedGraph::new(&self.all).unwrap(), n_threads, None);
        steps.list().iter().map(|s| s.iter().map(|(number, _)| *number).collect()).collect()
    }

    /// Computes all nodes with several numbers of threads, many times each, and compares every bit with what one thread
    /// computes.
    fn compare(&self, what: &str) {
        let bits = |t: &TensorRef| read(*t).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for t in &self.all {
            compute_with(&[*t], 1, Abort::NEVER).unwrap();
        }
        let alone: Vec<_> = self.all.iter().map(bits).collect();
        for n_threads in [1, 2, 3, 7] {
            for _ in 0..20 {
                self.all.iter().for_each(|t| write(*t, &vec![7.0; t.nelements() as usize]));
                compute_with(&self.all, n_threads, Abort::NEVER).unwrap();
                for (t, alone) in self.all.iter().zip(&alone) {
                    assert!(bits(t) == *alone, "{what}, {n_threads} threads: {t:?}");
                }
            }
        }
    }
}

/// Query, key and value are one step although nodes that use the query and the key are between them, and so are gate
/// and up.
#[test]
fn products_that_need_nothing_of_each_other_are_one_step() {
    for dtype in FORMATS {
        let mut n = Nodes { c: ctx(), all: Vec::new() };
        let x = floats(&mut n.c, &[512, 1], 1);
        let weights: Vec<_> = [128, 256, 80, 512, 256]
            .into_iter()
            .map(|rows| tensor(&mut n.c, dtype, &[512, rows], rows as u64))
            .collect();
        let x = n.norm(x); // 0
        let q = n.add(|c| matmul::mul_mat(c, weights[0], x)); // 1
        n.norm(q); // 2
        let k = n.add(|c| matmul::mul_mat(c, weights[1], x)); // 3
        n.norm(k); // 4
        let v = n.add(|c| matmul::mul_mat(c, weights[2], x)); // 5
        n.norm(v); // 6
        let y = n.add(|c| matmul::mul_mat(c, weights[3], x)); // 7
        let y = n.norm(y); // 8
        n.add(|c| matmul::mul_mat(c, weights[4], y)); // 9
        assert_eq!(n.steps(2), [vec![0], vec![1, 3, 5, 7], vec![2, 4, 6, 8], vec![9]], "{dtype:?}");
        assert_eq!(n.steps(1), [(0..10).collect::<Vec<_>>()], "{dtype:?}");
        n.compare(&format!("{dtype:?}"));
    }
}

/// A product may not be computed before a node that changes what it reads or writes, or with one that it reads.
#[test]
fn products_stay_behind_what_they_depend_on() {
    for dtype in [GGML_TYPE_Q4_0, GGML_TYPE_F16] {
        let mut n = Nodes { c: ctx(), all: Vec::new() };
        let x = floats(&mut n.c, &[512, 1], 1);
        let weights: Vec<_> = (0..3).map(|i| tensor(&mut n.c, dtype, &[512, 128 * (4 - i)], i as u64)).collect();
        let y = n.norm(x); // 0
        let first = n.add(|c| matmul::mul_mat(c, weights[0], y)); // 1
        let read_later = n.norm(first); // 2
        let second = n.add(|c| matmul::mul_mat(c, weights[1], y)); // 3
        // Its result is where node 2 has its source.
        second.set_data(first.data());
        // Its source is the result of another product.
        n.add(|c| matmul::mul_mat(c, weights[2], read_later)); // 4
        // Node 5 changes the activations of node 6.
        let changed = n.norm(read_later); // 5
        changed.set_data(read_later.data());
        n.add(|c| matmul::mul_mat(c, weights[2], read_later)); // 6
        // Halves need no activations of an earlier product, so that nodes 3 and 4 are one step.
        let steps = n.steps(2);
        let step_of = |node: u32| steps.iter().position(|s| s.contains(&node)).unwrap();
        let behind =
            [(1, 0), (2, 1), (3, 2), (4, 2), (5, 4), (6, 5)].map(|(later, first)| step_of(later) > step_of(first));
        assert!(behind == [true; 6] && (step_of(3) == step_of(4)) == (dtype == GGML_TYPE_F16), "{dtype:?}: {steps:?}");
    }
}

/// Gate and up of experts have the same columns.
#[test]
fn products_of_experts_with_the_same_columns_are_one_step() {
    for (dtype, tokens) in FORMATS.into_iter().flat_map(|t| [(t, 1), (t, 5)]) {
        let mut n = Nodes { c: ctx(), all: Vec::new() };
        let x = floats(&mut n.c, &[512, 1, tokens], 1);
        let weights: Vec<_> = (0..3).map(|i| tensor(&mut n.c, dtype, &[512, 64 + 64 * (i % 2), 8], i as u64)).collect();
        let values: Vec<i32> = (0..3 * tokens as i32).map(|i| if i == 4 { -1 } else { (i * 5 + i / 3) % 8 }).collect();
        let ids = integers(&mut n.c, &[3, tokens], &values);
        let others = integers(&mut n.c, &[3, tokens], &vec![2; values.len()]);
        for (w, ids) in [(0, ids), (1, ids), (2, others), (1, others)] {
            n.add(|c| matmul::mul_mat_id(c, weights[w], x, ids));
        }
        assert_eq!(n.steps(2), [[0, 1], [2, 3]], "{dtype:?}");
        n.compare(&format!("{dtype:?}"));
    }
}

/// An index that names no matrix is an error of the graph, whichever thread sorts the columns.
#[test]
fn a_wrong_index_is_an_error_when_one_thread_sorts() {
    let mut n = Nodes { c: ctx(), all: Vec::new() };
    let x = floats(&mut n.c, &[512, 1], 1);
    let experts = tensor(&mut n.c, GGML_TYPE_Q4_0, &[512, 64, 4], 2);
    let ids = integers(&mut n.c, &[1, 1], &[4]);
    let x = n.norm(x);
    for _ in 0..2 {
        n.add(|c| matmul::mul_mat_id(c, experts, x, ids));
    }
    for n_threads in [1, 2, 4] {
        let error = compute_with(&n.all, n_threads, Abort::NEVER).unwrap_err();
        assert!(error.to_string().contains("index 4 names no matrix"), "{error}");
    }
}

/// Counts its calls, and says stop at the call whose number is `stop_at`.
struct Host {
    calls: AtomicUsize,
    stop_at: usize,
}

unsafe extern "C" fn ask(host: *mut std::ffi::c_void) -> bool {
    // SAFETY: `Host::compute` passes its own address, and outlives the computation.
    let host = unsafe { &*host.cast::<Host>() };
    host.calls.fetch_add(1, Ordering::Relaxed) + 1 == host.stop_at
}

impl Host {
    /// Computes a node, and returns how many questions came.
    fn compute(t: TensorRef, stop_at: usize) -> (Result<()>, usize) {
        let host = Self { calls: AtomicUsize::new(0), stop_at };
        let abort = Abort { callback: Some(ask), data: std::ptr::from_ref(&host).cast_mut().cast() };
        let result = compute_with(&[t], 1, abort);
        (result, host.calls.into_inner())
    }
}

/// Kernels whose work grows faster than their memory end in the middle, but do not call the host for each of their
/// rows.
#[test]
fn long_kernels_ask_the_host_about_once_a_millisecond() {
    let mut n = Nodes { c: Context::with_size(192 << 20, false).unwrap(), all: Vec::new() };
    let image = floats(&mut n.c, &[512, 512, 16], 1);
    let planes = Planes { kernel: [5, 5], stride: [1, 1], pad: [0.0, 0.0] };
    n.add(|c| pool::pool_2d(c, image, GGML_OP_POOL_MAX, &planes));
    let small = floats(&mut n.c, &[256, 256, 8], 2);
    let grad = floats(&mut n.c, &[252, 252, 8], 3);
    n.add(|c| pool::pool_2d_back(c, grad, small, GGML_OP_POOL_MAX, &planes));
    let window = Window { stride: [1, 1], pad: [0, 0], dilation: [1, 1] };
    let each = floats(&mut n.c, &[5, 5, 1, 16], 4);
    n.add(|c| conv::conv_2d_dw_direct(c, each, image, &window));
    let (kernel, columns) = (floats(&mut n.c, &[5, 5, 8], 5), floats(&mut n.c, &[200, 124, 124, 2], 6));
    n.add(|c| conv::im2col_back(c, columns, kernel, [128, 128, 8, 2], &window, true));
    let (a, b) = (floats(&mut n.c, &[512, 512], 7), floats(&mut n.c, &[8192, 512], 8));
    n.add(|c| matmul::out_prod(c, a, b));
    let (triangle, right) = (floats(&mut n.c, &[1024, 1024], 9), floats(&mut n.c, &[512, 1024], 10));
    n.add(|c| matrix::solve_tri(c, triangle, right, true, true, false));
    let [q, k, grad] = [11, 12, 13].map(|seed| floats(&mut n.c, &[64, 256, 16], seed));
    let v = floats(&mut n.c, &[256, 64, 16], 14);
    n.add(|c| {
        let t = c.new_tensor(GGML_TYPE_F32, &[3 * 64 * 256 * 16])?;
        t.set_op(GGML_OP_FLASH_ATTN_BACK);
        [q, k, v, grad].into_iter().enumerate().for_each(|(i, x)| t.set_src(i, Some(x)));
        Ok(t)
    });
    for &t in &n.all {
        let begun = Instant::now();
        let (result, calls) = Host::compute(t, 0);
        let most = begun.elapsed().as_millis() as usize + 2;
        assert!(result.is_ok() && (2..=most).contains(&calls), "{:?}: {calls} questions, {most} at most", t.op());
        write(t, &vec![7.0; t.nelements() as usize]);
        assert!(matches!(Host::compute(t, 1), (Err(Error::Aborted), 1)), "{:?}", t.op());
        assert!(read(t).last() == Some(&7.0), "{:?} ends in the middle", t.op());
    }
}
