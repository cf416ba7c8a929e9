//! ggml-cpu.h: the CPU backend.

use super::ggml::*;
use super::raw;
use libggml_macros::Numbered;
use std::ffi::{c_int, c_void};

/// How threads and memory are distributed over the nodes of a NUMA machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_numa_strategy {
    /// Ignore the nodes.
    GGML_NUMA_STRATEGY_DISABLED = 0,
    /// Distribute the threads over all nodes.
    GGML_NUMA_STRATEGY_DISTRIBUTE = 1,
    /// Keep all threads on the node that the process started on.
    GGML_NUMA_STRATEGY_ISOLATE = 2,
    /// Use the processors that `numactl` has given to the process.
    GGML_NUMA_STRATEGY_NUMACTL = 3,
    /// Reserved for copies of the weights on each node.
    GGML_NUMA_STRATEGY_MIRROR = 4,
    /// Number of strategies.
    GGML_NUMA_STRATEGY_COUNT = 5,
}

/// What the CPU needs to compute a graph. `ggml_graph_plan` fills it in; the caller adds the work memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_cplan {
    /// Size of the work memory in bytes.
    pub work_size: usize,
    /// Work memory of `work_size` bytes, owned by the caller, which must live until the computation ends.
    pub work_data: *mut u8,
    /// Number of threads.
    pub n_threads: c_int,
    /// Thread pool. NULL: one is created for this computation.
    pub threadpool: *mut ggml_threadpool,
    /// Called during the computation, which stops if it returns true. May be NULL.
    pub abort_callback: ggml_abort_callback,
    /// Argument of `abort_callback`.
    pub abort_callback_data: *mut c_void,
    /// Use the reference kernels.
    pub use_ref: bool,
}

/// How the CPU backend computes with a type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_type_traits_cpu {
    /// Converts a row from single precision. NULL if there is no such conversion.
    pub from_float: ggml_from_float_t,
    /// Dot product of two rows.
    pub vec_dot: ggml_vec_dot_t,
    /// Type of the second row of `vec_dot`.
    pub vec_dot_type: raw::ggml_type,
    /// Number of rows that `vec_dot` computes at a time.
    pub nrows: i64,
}

/// Writes the dot product of `n` elements of `x` and `y` to `s`. If `nrc` is greater than 1, does so for several
/// rows, whose strides are `bs`, `bx` and `by`.
pub type ggml_vec_dot_t = Option<
    unsafe extern "C" fn(
        n: c_int,
        s: *mut f32,
        bs: usize,
        x: *const c_void,
        bx: usize,
        y: *const c_void,
        by: usize,
        nrc: c_int,
    ),
>;
