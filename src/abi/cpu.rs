//! ggml-cpu.h: the CPU backend.

use super::ggml::*;
use super::raw;
use libggml_macros::Numbered;
use std::ffi::{c_int, c_void};

/// How threads and memory are spread over the nodes of a NUMA machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_numa_strategy {
    /// No attention to nodes.
    GGML_NUMA_STRATEGY_DISABLED = 0,
    /// Threads spread evenly over all nodes.
    GGML_NUMA_STRATEGY_DISTRIBUTE = 1,
    /// All threads on the node that the process started on.
    GGML_NUMA_STRATEGY_ISOLATE = 2,
    /// The processors that `numactl` gave to the process.
    GGML_NUMA_STRATEGY_NUMACTL = 3,
    /// Reserved for copies of the weights on each node.
    GGML_NUMA_STRATEGY_MIRROR = 4,
    /// Number after the last strategy.
    GGML_NUMA_STRATEGY_COUNT = 5,
}

/// What computing a graph on the CPU needs: `ggml_graph_plan` fills it, the caller adds the work memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_cplan {
    /// Bytes of work memory needed.
    pub work_size: usize,
    /// Work memory of the caller, `work_size` bytes; it must stay until the computation ends.
    pub work_data: *mut u8,
    /// Threads to compute with.
    pub n_threads: c_int,
    /// Pool to compute in; NULL: one is made for this computation.
    pub threadpool: *mut ggml_threadpool,
    /// Asked whether to stop; may be NULL.
    pub abort_callback: ggml_abort_callback,
    /// Argument of `abort_callback`.
    pub abort_callback_data: *mut c_void,
    /// Compute with the plain reference kernels.
    pub use_ref: bool,
}

/// How the CPU backend computes with a number format.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_type_traits_cpu {
    /// Conversion of a row from single precision; NULL when there is none.
    pub from_float: ggml_from_float_t,
    /// Dot product of rows.
    pub vec_dot: ggml_vec_dot_t,
    /// Format of the second row of `vec_dot`.
    pub vec_dot_type: raw::ggml_type,
    /// Rows that `vec_dot` takes at a time.
    pub nrows: i64,
}

/// Dot product of `n` elements of `x` and `y` into `s`. With `nrc` above 1 several rows at once: `bs`, `bx` and
/// `by` are the distances of the rows.
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
