//! Speed of matrix products, for every format of weights:
//! `cargo run --release --features internals --example bench_matmul [k m columns,.. threads format ..]`.
//!
//! Prints, for each format and number of columns, the best of several rounds in GFLOP/s and the gigabytes of weights
//! read per second. `GGML_RS_CPU_LEVEL` chooses the instruction set.

use ggml::abi::ggml::{ggml_op, ggml_tensor, ggml_tensor_flag, ggml_type};
use ggml::cpu::check::CheckedGraph;
use ggml::cpu::exec::{self, Abort, Settings};
use ggml::cpu::matmul::{can, scratch_mul_mat};
use ggml::cpu::worker::Scratch;
use ggml::quant;
use ggml::tensor::TensorRef;

struct Owned {
    tensor: Box<ggml_tensor>,
    data: Vec<u8>,
}

impl Owned {
    fn new(t: ggml_type, ne: [usize; 2]) -> Self {
        // SAFETY: zero bits are a tensor: numbers, NULLs, an empty name.
        let tensor: Box<ggml_tensor> = Box::new(unsafe { std::mem::zeroed() });
        let row = t.row_size(ne[0] as i64).expect("whole blocks");
        let mut o = Self { tensor, data: vec![0; row * ne[1]] };
        let r = o.get();
        r.set_dtype(t);
        r.set_ne([ne[0] as i64, ne[1] as i64, 1, 1]);
        r.set_nb([t.type_size(), row, row * ne[1], row * ne[1]]);
        r.set_data(o.data.as_mut_ptr());
        o
    }
    fn get(&mut self) -> TensorRef {
        // SAFETY: the box lives as long as the owner.
        unsafe { TensorRef::from_ptr(&raw const *self.tensor) }.expect("not NULL")
    }
}

/// Weights that look like a model's: random floats, or random bits for formats that cannot be quantized without
/// importance.
fn fill(t: ggml_type, o: &mut Owned) {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    match quant::traits(t).from_float_ref {
        Some(from) => {
            let (block, bytes) = (t.blck_size() as usize, t.type_size());
            for b in o.data.chunks_exact_mut(bytes * (1024 / block).max(1)) {
                let x: Vec<f32> = (0..block * (1024 / block).max(1)).map(|_| next()).collect();
                from(&x, b);
            }
        }
        None if t == ggml_type::GGML_TYPE_F32 => {
            o.data.chunks_exact_mut(4).for_each(|b| b.copy_from_slice(&next().to_le_bytes()))
        }
        None => o.data.iter_mut().for_each(|b| *b = (next() * 64.0) as i8 as u8),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, or: usize| args.get(i).map_or(or, |a| a.parse().expect("a number"));
    let (k, m, threads) = (number(0, 2048), number(1, 2048), number(3, 1));
    let columns: Vec<usize> =
        args.get(2).map_or(vec![1, 512], |a| a.split(',').map(|n| n.parse().expect("numbers")).collect());
    let names = args.get(4..).unwrap_or_default();
    println!("level {:?}, k={k} m={m} threads={threads}", ggml::cpu::simd::kernels().level);
    for t in ggml_type::ALL {
        let name = quant::traits(t).name();
        if !can(t, ggml_type::GGML_TYPE_F32) || (!names.is_empty() && !names.iter().any(|n| n == name)) {
            continue;
        }
        let mut a = Owned::new(t, [k, m]);
        fill(t, &mut a);
        for &n in &columns {
            let (mut b, mut d) =
                (Owned::new(ggml_type::GGML_TYPE_F32, [k, n]), Owned::new(ggml_type::GGML_TYPE_F32, [m, n]));
            fill(ggml_type::GGML_TYPE_F32, &mut b);
            let node = d.get();
            node.set_src(0, Some(a.get()));
            node.set_src(1, Some(b.get()));
            let best = best_of(node, threads, 2 * k * m * n);
            let (flops, bytes) = (2.0 * (k * m * n) as f64, a.data.len() as f64);
            println!(
                "{name:8} n={n:4}  {:8.1} GFLOP/s  {:6.2} GB/s  {:9.1} us",
                flops / best / 1e9,
                bytes / best / 1e9,
                best * 1e6
            );
        }
    }
}

/// Processor time of this thread, without that of other programs on a busy machine.
#[cfg(unix)]
fn thread_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists and `t` can be written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + 1e-9 * t.tv_nsec as f64
}

/// Time of the clock on the wall, if the system does not measure the time of threads.
#[cfg(not(unix))]
fn thread_seconds() -> f64 {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed().as_secs_f64()
}

/// Seconds of the fastest round, the check of the node included.
fn best_of(node: TensorRef, threads: usize, flops: usize) -> f64 {
    node.set_op(ggml_op::GGML_OP_MUL_MAT);
    node.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
    let size = scratch_mul_mat(node, threads);
    let mut memory = vec![0u8; size + Scratch::ALIGN];
    // SAFETY: `memory` is used through the scratch alone.
    let scratch = unsafe { Scratch::new(memory.as_mut_ptr(), memory.len()) };
    let settings = Settings { n_threads: threads, pool: None, scratch, abort: Abort::NEVER, use_ref: false };
    let rounds = (6_000_000_000 / flops).clamp(5, 3000);
    let round = || {
        let start = thread_seconds();
        let graph = CheckedGraph::new(std::slice::from_ref(&node)).expect("a product that the CPU computes");
        exec::compute(&graph, &settings).expect("a product that the CPU computes");
        thread_seconds() - start
    };
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}
