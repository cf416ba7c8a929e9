//! ggml-cpu.h: the CPU backend.

use super::ggml::*;
use super::raw;
use std::ffi::{c_int, c_void};

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_numa_strategy {
    /// TODO-DOC
    GGML_NUMA_STRATEGY_DISABLED = 0,
    /// TODO-DOC
    GGML_NUMA_STRATEGY_DISTRIBUTE = 1,
    /// TODO-DOC
    GGML_NUMA_STRATEGY_ISOLATE = 2,
    /// TODO-DOC
    GGML_NUMA_STRATEGY_NUMACTL = 3,
    /// TODO-DOC
    GGML_NUMA_STRATEGY_MIRROR = 4,
    /// TODO-DOC
    GGML_NUMA_STRATEGY_COUNT = 5,
}
impl ggml_numa_strategy {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 5] = [
        Self::GGML_NUMA_STRATEGY_DISABLED,
        Self::GGML_NUMA_STRATEGY_DISTRIBUTE,
        Self::GGML_NUMA_STRATEGY_ISOLATE,
        Self::GGML_NUMA_STRATEGY_NUMACTL,
        Self::GGML_NUMA_STRATEGY_MIRROR,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_cplan {
    /// TODO-DOC
    pub work_size: usize,
    /// TODO-DOC
    pub work_data: *mut u8,
    /// TODO-DOC
    pub n_threads: c_int,
    /// TODO-DOC
    pub threadpool: *mut ggml_threadpool,
    /// TODO-DOC
    pub abort_callback: ggml_abort_callback,
    /// TODO-DOC
    pub abort_callback_data: *mut c_void,
    /// TODO-DOC
    pub use_ref: bool,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_type_traits_cpu {
    /// TODO-DOC
    pub from_float: ggml_from_float_t,
    /// TODO-DOC
    pub vec_dot: ggml_vec_dot_t,
    /// TODO-DOC
    pub vec_dot_type: raw::ggml_type,
    /// TODO-DOC
    pub nrows: i64,
}

/// TODO-DOC
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
