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
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of squared gradients.
    pub beta2: f32,
    /// Added to divisors, so that none is zero.
    pub eps: f32,
    /// Weight decay; 0 is none.
    pub wd: f32,
}

/// Parameters of stochastic gradient descent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_sgd_params {
    /// Learning rate.
    pub alpha: f32,
    /// Weight decay; 0 is none.
    pub wd: f32,
}

/// What training minimises.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_opt_loss_type {
    /// Mean of the outputs, for losses the graph computes itself.
    GGML_OPT_LOSS_TYPE_MEAN = 0,
    /// Sum of the outputs, for losses the graph computes itself.
    GGML_OPT_LOSS_TYPE_SUM = 1,
    /// Cross entropy of outputs and labels.
    GGML_OPT_LOSS_TYPE_CROSS_ENTROPY = 2,
    /// Mean squared difference of outputs and labels.
    GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR = 3,
}

/// How much of a training graph is built.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_opt_build_type {
    /// Results and loss.
    GGML_OPT_BUILD_TYPE_FORWARD = 10,
    /// Gradients as well.
    GGML_OPT_BUILD_TYPE_GRAD = 20,
    /// The optimizer's steps as well.
    GGML_OPT_BUILD_TYPE_OPT = 30,
}

/// Optimizers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Numbered)]
pub enum ggml_opt_optimizer_type {
    /// AdamW: two moments for each parameter.
    GGML_OPT_OPTIMIZER_TYPE_ADAMW = 0,
    /// Stochastic gradient descent with weight decay.
    GGML_OPT_OPTIMIZER_TYPE_SGD = 1,
    /// Number after the last optimizer.
    GGML_OPT_OPTIMIZER_TYPE_COUNT = 2,
}

/// Data points and their labels.
pub struct ggml_opt_dataset {
    _opaque: [u8; 0],
}

/// A training run: graphs, gradients, moments.
pub struct ggml_opt_context {
    _opaque: [u8; 0],
}

/// What evaluations gave: losses, predictions, accuracy.
pub struct ggml_opt_result {
    _opaque: [u8; 0],
}

/// Parameters of each optimizer; those of the one in use count.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_optimizer_params {
    /// For AdamW.
    pub adamw: ggml_opt_adamw_params,
    /// For stochastic gradient descent.
    pub sgd: ggml_opt_sgd_params,
}

/// What a training run needs to know. Fill it with `ggml_opt_default_params`, then change what matters.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ggml_opt_params {
    /// Scheduler that computes the graphs.
    pub backend_sched: ggml_backend_sched_t,
    /// Context of the forward graph, when graphs are to be built once only; with `inputs` and `outputs`. NULL:
    /// built anew for each evaluation.
    pub ctx_compute: *mut ggml_context,
    /// Input of the forward graph.
    pub inputs: *mut ggml_tensor,
    /// Output of the forward graph.
    pub outputs: *mut ggml_tensor,
    /// What is minimised.
    pub loss_type: raw::ggml_opt_loss_type,
    /// How much is built.
    pub build_type: raw::ggml_opt_build_type,
    /// Evaluations whose gradients add up before the optimizer takes a step.
    pub opt_period: i32,
    /// Gives the optimizer's parameters before each step.
    pub get_opt_pars: ggml_opt_get_optimizer_params,
    /// Argument of `get_opt_pars`.
    pub get_opt_pars_ud: *mut c_void,
    /// Optimizer in use.
    pub optimizer: raw::ggml_opt_optimizer_type,
}

/// A data set.
pub type ggml_opt_dataset_t = *mut ggml_opt_dataset;

/// A training run.
pub type ggml_opt_context_t = *mut ggml_opt_context;

/// Results of evaluations.
pub type ggml_opt_result_t = *mut ggml_opt_result;

/// Gives the optimizer's parameters before a step.
pub type ggml_opt_get_optimizer_params =
    Option<unsafe extern "C" fn(userdata: *mut c_void) -> ggml_opt_optimizer_params>;

/// Called after each batch of an epoch, in training (`train` true) and in evaluation: batches done, batches in all,
/// and the time it began in microseconds.
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
