//! ggml-opt.h: training.

use super::backend::*;
use super::ggml::*;
use super::raw;
use libggml_macros::Numbered;
use std::ffi::c_void;

/// Parameters of AdamW.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_adamw_params {
    /// Learning rate.
    pub alpha: f32,
    /// Decay of the first moment, the mean of the gradients.
    pub beta1: f32,
    /// Decay of the second moment, the mean of the squared gradients.
    pub beta2: f32,
    /// Added to divisors, for numerical stability.
    pub eps: f32,
    /// Weight decay; 0 for none.
    pub wd: f32,
}

/// Parameters of stochastic gradient descent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_sgd_params {
    /// Learning rate.
    pub alpha: f32,
    /// Weight decay; 0 for none.
    pub wd: f32,
}

/// What training minimises.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_opt_loss_type {
    /// Mean of the outputs, for a custom loss.
    GGML_OPT_LOSS_TYPE_MEAN = 0,
    /// Sum of the outputs, for a custom loss.
    GGML_OPT_LOSS_TYPE_SUM = 1,
    /// Cross entropy between outputs and labels.
    GGML_OPT_LOSS_TYPE_CROSS_ENTROPY = 2,
    /// Mean squared error between outputs and labels.
    GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR = 3,
}

/// How much of a training graph is built.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_opt_build_type {
    /// The forward graph: results and loss.
    GGML_OPT_BUILD_TYPE_FORWARD = 10,
    /// Also the gradients.
    GGML_OPT_BUILD_TYPE_GRAD = 20,
    /// Also the optimizer step.
    GGML_OPT_BUILD_TYPE_OPT = 30,
}

/// Optimizers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_opt_optimizer_type {
    /// AdamW, with two moments for each parameter.
    GGML_OPT_OPTIMIZER_TYPE_ADAMW = 0,
    /// Stochastic gradient descent with weight decay.
    GGML_OPT_OPTIMIZER_TYPE_SGD = 1,
    /// Number of optimizers.
    GGML_OPT_OPTIMIZER_TYPE_COUNT = 2,
}

/// Data points and their labels.
pub struct ggml_opt_dataset {
    _opaque: [u8; 0],
}

/// A training run: graphs, gradients and moments.
pub struct ggml_opt_context {
    _opaque: [u8; 0],
}

/// The results of evaluations: loss, predictions and accuracy.
pub struct ggml_opt_result {
    _opaque: [u8; 0],
}

/// Parameters of all optimizers. Only those of the selected optimizer are used.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_optimizer_params {
    /// AdamW.
    pub adamw: ggml_opt_adamw_params,
    /// Stochastic gradient descent.
    pub sgd: ggml_opt_sgd_params,
}

/// Parameters of a training run. Set them with `ggml_opt_default_params`, then change what you need.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_params {
    /// The scheduler that computes the graphs.
    pub backend_sched: ggml_backend_sched_t,
    /// Context of the forward graph, if the graphs are static: built once, from `inputs` to `outputs`. NULL: the host
    /// builds the forward graph for each evaluation.
    pub ctx_compute: *mut ggml_context,
    /// Inputs of the forward graph, if it is static.
    pub inputs: *mut ggml_tensor,
    /// Outputs of the forward graph, if it is static.
    pub outputs: *mut ggml_tensor,
    /// What training minimises.
    pub loss_type: raw::ggml_opt_loss_type,
    /// How much of the graph is built.
    pub build_type: raw::ggml_opt_build_type,
    /// Number of evaluations whose gradients are accumulated for an optimizer step.
    pub opt_period: i32,
    /// Returns the parameters of the optimizer before each step.
    pub get_opt_pars: ggml_opt_get_optimizer_params,
    /// Argument of `get_opt_pars`.
    pub get_opt_pars_ud: *mut c_void,
    /// The optimizer.
    pub optimizer: raw::ggml_opt_optimizer_type,
}

/// A data set.
pub type ggml_opt_dataset_t = *mut ggml_opt_dataset;

/// A training run.
pub type ggml_opt_context_t = *mut ggml_opt_context;

/// The results of evaluations.
pub type ggml_opt_result_t = *mut ggml_opt_result;

/// Returns the parameters of the optimizer before a step.
pub type ggml_opt_get_optimizer_params =
    Option<unsafe extern "C" fn(userdata: *mut c_void) -> ggml_opt_optimizer_params>;

/// Called after each batch of an epoch. `train`: training, not validation. `result`: the results so far. `ibatch` of
/// `ibatch_max` batches are done. `t_start_us`: the time in microseconds at which training or validation started.
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
