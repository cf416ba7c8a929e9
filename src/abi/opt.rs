//! ggml-opt.h: training.

use super::alloc::*;
use super::backend::*;
use super::ggml::*;
use super::raw;
use std::ffi::{c_int, c_void};

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_adamw_params {
    /// TODO-DOC
    pub alpha: f32,
    /// TODO-DOC
    pub beta1: f32,
    /// TODO-DOC
    pub beta2: f32,
    /// TODO-DOC
    pub eps: f32,
    /// TODO-DOC
    pub wd: f32,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_sgd_params {
    /// TODO-DOC
    pub alpha: f32,
    /// TODO-DOC
    pub wd: f32,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_opt_loss_type {
    /// TODO-DOC
    GGML_OPT_LOSS_TYPE_MEAN = 0,
    /// TODO-DOC
    GGML_OPT_LOSS_TYPE_SUM = 1,
    /// TODO-DOC
    GGML_OPT_LOSS_TYPE_CROSS_ENTROPY = 2,
    /// TODO-DOC
    GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR = 3,
}
impl ggml_opt_loss_type {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 4] = [
        Self::GGML_OPT_LOSS_TYPE_MEAN,
        Self::GGML_OPT_LOSS_TYPE_SUM,
        Self::GGML_OPT_LOSS_TYPE_CROSS_ENTROPY,
        Self::GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR,
    ];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_opt_build_type {
    /// TODO-DOC
    GGML_OPT_BUILD_TYPE_FORWARD = 10,
    /// TODO-DOC
    GGML_OPT_BUILD_TYPE_GRAD = 20,
    /// TODO-DOC
    GGML_OPT_BUILD_TYPE_OPT = 30,
}
impl ggml_opt_build_type {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 3] =
        [Self::GGML_OPT_BUILD_TYPE_FORWARD, Self::GGML_OPT_BUILD_TYPE_GRAD, Self::GGML_OPT_BUILD_TYPE_OPT];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        Some(match v {
            10 => Self::GGML_OPT_BUILD_TYPE_FORWARD,
            20 => Self::GGML_OPT_BUILD_TYPE_GRAD,
            30 => Self::GGML_OPT_BUILD_TYPE_OPT,
            _ => return None,
        })
    }
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ggml_opt_optimizer_type {
    /// TODO-DOC
    GGML_OPT_OPTIMIZER_TYPE_ADAMW = 0,
    /// TODO-DOC
    GGML_OPT_OPTIMIZER_TYPE_SGD = 1,
    /// TODO-DOC
    GGML_OPT_OPTIMIZER_TYPE_COUNT = 2,
}
impl ggml_opt_optimizer_type {
    /// Every value that stands for something, in order of its number (the `_COUNT` mark is not among them).
    pub const ALL: [Self; 2] = [Self::GGML_OPT_OPTIMIZER_TYPE_ADAMW, Self::GGML_OPT_OPTIMIZER_TYPE_SGD];
    /// The value with this number, or `None` when the number names nothing.
    #[inline]
    pub fn from_raw(v: c_int) -> Option<Self> {
        usize::try_from(v).ok().and_then(|i| Self::ALL.get(i).copied())
    }
}

/// TODO-DOC (opaque)
pub struct ggml_opt_dataset {
    _opaque: [u8; 0],
}

/// TODO-DOC (opaque)
pub struct ggml_opt_context {
    _opaque: [u8; 0],
}

/// TODO-DOC (opaque)
pub struct ggml_opt_result {
    _opaque: [u8; 0],
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_optimizer_params {
    /// TODO-DOC
    pub adamw: ggml_opt_adamw_params,
    /// TODO-DOC
    pub sgd: ggml_opt_sgd_params,
}

/// TODO-DOC
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_params {
    /// TODO-DOC
    pub backend_sched: ggml_backend_sched_t,
    /// TODO-DOC
    pub ctx_compute: *mut ggml_context,
    /// TODO-DOC
    pub inputs: *mut ggml_tensor,
    /// TODO-DOC
    pub outputs: *mut ggml_tensor,
    /// TODO-DOC
    pub loss_type: raw::ggml_opt_loss_type,
    /// TODO-DOC
    pub build_type: raw::ggml_opt_build_type,
    /// TODO-DOC
    pub opt_period: i32,
    /// TODO-DOC
    pub get_opt_pars: ggml_opt_get_optimizer_params,
    /// TODO-DOC
    pub get_opt_pars_ud: *mut c_void,
    /// TODO-DOC
    pub optimizer: raw::ggml_opt_optimizer_type,
}

/// TODO-DOC
pub type ggml_opt_dataset_t = *mut ggml_opt_dataset;

/// TODO-DOC
pub type ggml_opt_context_t = *mut ggml_opt_context;

/// TODO-DOC
pub type ggml_opt_result_t = *mut ggml_opt_result;

/// TODO-DOC
pub type ggml_opt_get_optimizer_params =
    Option<unsafe extern "C" fn(userdata: *mut c_void) -> ggml_opt_optimizer_params>;

/// TODO-DOC
pub type ggml_opt_epoch_callback = Option<
    unsafe extern "C" fn(
        train: bool,
        opt_ctx: ggml_opt_context_t,
        dataset: ggml_opt_dataset_t,
        result: ggml_opt_result_t,
        ibatch: i64,
        ibatch_max: i64,
        t_start_us: i64,
    ),
>;
