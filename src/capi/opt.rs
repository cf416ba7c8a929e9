//! ggml-opt.h: training. This version of the library has parameters and names; what would make or run something fails with
//! a log line, and there is no data set, training run or result but NULL.

use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::abi::opt::*;
use crate::abi::raw;
use crate::capi::convert::put;
use crate::guard::guarded;
use crate::{ggml_assert, log_error};
use std::ffi::{c_char, c_void};

/// Says that a function has nothing to work with yet.
fn absent(function: &str) {
    log_error!("{function}: this version of the library cannot train");
}

/// A data set of `ndata` points of `ne_datapoint` elements with labels of `ne_label` elements, shuffled and copied
/// in shards of `ndata_shard`. This version of the library cannot train: NULL, with a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_init(
    type_data: raw::ggml_type,
    type_label: raw::ggml_type,
    ne_datapoint: i64,
    ne_label: i64,
    ndata: i64,
    ndata_shard: i64,
) -> ggml_opt_dataset_t {
    let _ = (type_data, type_label, ne_datapoint, ne_label, ndata, ndata_shard);
    absent("ggml_opt_dataset_init");
    std::ptr::null_mut()
}

/// Frees a data set. Nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_free(dataset: ggml_opt_dataset_t) {
    let _ = dataset;
}

/// Number of data points; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_ndata(dataset: ggml_opt_dataset_t) -> i64 {
    let _ = dataset;
    0
}

/// Tensor of all data points, [ne_datapoint, ndata]; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_data(dataset: ggml_opt_dataset_t) -> *mut ggml_tensor {
    let _ = dataset;
    std::ptr::null_mut()
}

/// Tensor of all labels, [ne_label, ndata]; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_labels(dataset: ggml_opt_dataset_t) -> *mut ggml_tensor {
    let _ = dataset;
    std::ptr::null_mut()
}

/// Shuffles the first `idata` data points, or all when it is negative, with the random numbers of `opt_ctx`. This
/// version of the library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_shuffle(
    opt_ctx: ggml_opt_context_t,
    dataset: ggml_opt_dataset_t,
    idata: i64,
) {
    let _ = (opt_ctx, dataset, idata);
    absent("ggml_opt_dataset_shuffle");
}

/// Copies batch `ibatch` into the tensors `data_batch`, [ne_datapoint, ndata_batch], and `labels_batch`, [ne_label,
/// ndata_batch]. This version of the library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_get_batch(
    dataset: ggml_opt_dataset_t,
    data_batch: *mut ggml_tensor,
    labels_batch: *mut ggml_tensor,
    ibatch: i64,
) {
    let _ = (dataset, data_batch, labels_batch, ibatch);
    absent("ggml_opt_dataset_get_batch");
}

/// Copies batch `ibatch`, `nb_data_batch` bytes of data and its labels, into host memory. This version of the
/// library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_get_batch_host(
    dataset: ggml_opt_dataset_t,
    data_batch: *mut c_void,
    nb_data_batch: usize,
    labels_batch: *mut c_void,
    ibatch: i64,
) {
    let _ = (dataset, data_batch, nb_data_batch, labels_batch, ibatch);
    absent("ggml_opt_dataset_get_batch_host");
}

/// The parameters that optimizers have by default. `userdata` is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_get_default_optimizer_params(userdata: *mut c_void) -> ggml_opt_optimizer_params {
    let _ = userdata;
    ggml_opt_optimizer_params {
        adamw: ggml_opt_adamw_params { alpha: 0.001, beta1: 0.9, beta2: 0.999, eps: 1e-8, wd: 0.0 },
        sgd: ggml_opt_sgd_params { alpha: 0.001, wd: 0.0 },
    }
}

/// The parameters that `userdata` points to, a `struct ggml_opt_optimizer_params`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_get_constant_optimizer_params(userdata: *mut c_void) -> ggml_opt_optimizer_params {
    ggml_assert!(!userdata.is_null(), "userdata points to optimizer parameters");
    // SAFETY: not NULL, so parameters, by the contract.
    unsafe { userdata.cast::<ggml_opt_optimizer_params>().read() }
}

/// Parameters of a training run with defaults for all that has one: AdamW, a step after each evaluation, graphs built anew.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_default_params(
    backend_sched: ggml_backend_sched_t,
    loss_type: raw::ggml_opt_loss_type,
) -> ggml_opt_params {
    ggml_opt_params {
        backend_sched,
        ctx_compute: std::ptr::null_mut(),
        inputs: std::ptr::null_mut(),
        outputs: std::ptr::null_mut(),
        loss_type,
        build_type: ggml_opt_build_type::GGML_OPT_BUILD_TYPE_OPT as raw::ggml_opt_build_type,
        opt_period: 1,
        get_opt_pars: Some(ggml_opt_get_default_optimizer_params),
        get_opt_pars_ud: std::ptr::null_mut(),
        optimizer: ggml_opt_optimizer_type::GGML_OPT_OPTIMIZER_TYPE_ADAMW as raw::ggml_opt_optimizer_type,
    }
}

/// Begins a training run with these parameters. This version of the library cannot train: NULL, with a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_init(params: ggml_opt_params) -> ggml_opt_context_t {
    let _ = params;
    absent("ggml_opt_init");
    std::ptr::null_mut()
}

/// Ends a training run and frees what it holds. Nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_free(opt_ctx: ggml_opt_context_t) {
    let _ = opt_ctx;
}

/// Sets gradients to zero and forgets the loss; with `optimizer` the state of the optimizer too. This version of
/// the library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_reset(opt_ctx: ggml_opt_context_t, optimizer: bool) {
    let _ = (opt_ctx, optimizer);
    absent("ggml_opt_reset");
}

/// Whether the graphs of a training run are built once only; false for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_static_graphs(opt_ctx: ggml_opt_context_t) -> bool {
    let _ = opt_ctx;
    false
}

/// Input of the forward graph; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_inputs(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    let _ = opt_ctx;
    std::ptr::null_mut()
}

/// Output of the forward graph; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_outputs(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    let _ = opt_ctx;
    std::ptr::null_mut()
}

/// Labels that outputs are compared with; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_labels(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    let _ = opt_ctx;
    std::ptr::null_mut()
}

/// The loss, one number; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_loss(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    let _ = opt_ctx;
    std::ptr::null_mut()
}

/// Predictions made from the outputs; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_pred(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    let _ = opt_ctx;
    std::ptr::null_mut()
}

/// How many predictions are right, one number; NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_ncorrect(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    let _ = opt_ctx;
    std::ptr::null_mut()
}

/// Accumulated gradient of a node of the forward graph; NULL when there is none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_grad_acc(opt_ctx: ggml_opt_context_t, node: *mut ggml_tensor) -> *mut ggml_tensor {
    let _ = (opt_ctx, node);
    std::ptr::null_mut()
}

/// Optimizer of a training run; AdamW for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_context_optimizer_type(opt_ctx: ggml_opt_context_t) -> raw::ggml_opt_optimizer_type {
    let _ = opt_ctx;
    ggml_opt_optimizer_type::GGML_OPT_OPTIMIZER_TYPE_ADAMW as raw::ggml_opt_optimizer_type
}

/// Name of an optimizer, "adamw" or "sgd"; "undefined" for a number that names none.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_optimizer_name(optimizer: raw::ggml_opt_optimizer_type) -> *const c_char {
    match ggml_opt_optimizer_type::from_raw(optimizer) {
        Some(ggml_opt_optimizer_type::GGML_OPT_OPTIMIZER_TYPE_ADAMW) => c"adamw",
        Some(ggml_opt_optimizer_type::GGML_OPT_OPTIMIZER_TYPE_SGD) => c"sgd",
        _ => c"undefined",
    }
    .as_ptr()
}

/// Room for the results of evaluations. This version of the library cannot train: NULL, with a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_init() -> ggml_opt_result_t {
    absent("ggml_opt_result_init");
    std::ptr::null_mut()
}

/// Frees results. Nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_free(result: ggml_opt_result_t) {
    let _ = result;
}

/// Forgets the results gathered so far. This version of the library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_reset(result: ggml_opt_result_t) {
    let _ = result;
    absent("ggml_opt_result_reset");
}

/// Number of data points evaluated; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_ndata(result: ggml_opt_result_t, ndata: *mut i64) {
    let _ = result;
    // SAFETY: NULL or writable, by the contract.
    unsafe { put(ndata, 0) }
}

/// Loss, and its uncertainty unless `unc` is NULL; without evaluations 0 and not a number.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_loss(result: ggml_opt_result_t, loss: *mut f64, unc: *mut f64) {
    let _ = result;
    // SAFETY: NULL or writable, by the contract.
    unsafe {
        put(loss, 0.0);
        put(unc, f64::NAN);
    }
}

/// Writes all predictions, as many as `ggml_opt_result_ndata` says. This version of the library cannot train:
/// nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_pred(result: ggml_opt_result_t, pred: *mut i32) {
    let _ = (result, pred);
    absent("ggml_opt_result_pred");
}

/// Share of right predictions, and its uncertainty unless `unc` is NULL; without evaluations not a number.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_accuracy(result: ggml_opt_result_t, accuracy: *mut f64, unc: *mut f64) {
    let _ = result;
    // SAFETY: NULL or writable, by the contract.
    unsafe {
        put(accuracy, f64::NAN);
        put(unc, f64::NAN);
    }
}

/// Tells a training run whose graphs are built anew each time the next forward graph with its input and output.
/// This version of the library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_prepare_alloc(
    opt_ctx: ggml_opt_context_t,
    ctx_compute: *mut ggml_context,
    gf: *mut ggml_cgraph,
    inputs: *mut ggml_tensor,
    outputs: *mut ggml_tensor,
) {
    let _ = (opt_ctx, ctx_compute, gf, inputs, outputs);
    absent("ggml_opt_prepare_alloc");
}

/// Allocates the graph for the next evaluation, with gradients when `backward` is true. This version of the library
/// cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_alloc(opt_ctx: ggml_opt_context_t, backward: bool) {
    let _ = (opt_ctx, backward);
    absent("ggml_opt_alloc");
}

/// Computes the graph, adds to `result` unless that is NULL, and takes an optimizer step where one is due. This
/// version of the library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_eval(opt_ctx: ggml_opt_context_t, result: ggml_opt_result_t) {
    let _ = (opt_ctx, result);
    absent("ggml_opt_eval");
}

/// Trains on the first `idata_split` data points and evaluates on the rest, with a callback after each batch. This
/// version of the library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_epoch(
    opt_ctx: ggml_opt_context_t,
    dataset: ggml_opt_dataset_t,
    result_train: ggml_opt_result_t,
    result_eval: ggml_opt_result_t,
    idata_split: i64,
    callback_train: ggml_opt_epoch_callback,
    callback_eval: ggml_opt_epoch_callback,
) {
    let _ = (opt_ctx, dataset, result_train, result_eval, idata_split, callback_train, callback_eval);
    absent("ggml_opt_epoch");
}

/// A callback for `ggml_opt_epoch` that draws a progress bar on standard error. This version of the library cannot
/// train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_epoch_callback_progress_bar(
    train: bool,
    opt_ctx: ggml_opt_context_t,
    dataset: ggml_opt_dataset_t,
    result: ggml_opt_result_t,
    ibatch: i64,
    ibatch_max: i64,
    t_start_us: i64,
) {
    let _ = (train, opt_ctx, dataset, result, ibatch, ibatch_max, t_start_us);
    absent("ggml_opt_epoch_callback_progress_bar");
}

/// Trains a model from `inputs` to `outputs` on a data set for `nepoch` epochs, the last `val_split` of the data
/// kept for validation. This version of the library cannot train: nothing but a log line.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_fit(
    backend_sched: ggml_backend_sched_t,
    ctx_compute: *mut ggml_context,
    inputs: *mut ggml_tensor,
    outputs: *mut ggml_tensor,
    dataset: ggml_opt_dataset_t,
    loss_type: raw::ggml_opt_loss_type,
    optimizer: raw::ggml_opt_optimizer_type,
    get_opt_pars: ggml_opt_get_optimizer_params,
    nepoch: i64,
    nbatch_logical: i64,
    val_split: f32,
    silent: bool,
) {
    let _ = (
        backend_sched,
        ctx_compute,
        inputs,
        outputs,
        dataset,
        loss_type,
        optimizer,
        get_opt_pars,
        nepoch,
        nbatch_logical,
        val_split,
        silent,
    );
    absent("ggml_opt_fit");
}
