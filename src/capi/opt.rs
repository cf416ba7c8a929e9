//! ggml-opt.h: training.

use crate::abi::backend::*;
use crate::abi::ggml::*;
use crate::abi::graph::ggml_cgraph;
use crate::abi::opt::*;
use crate::abi::raw;
use crate::capi::convert::{
    dtype, given, known, logged, need, opt_out, optional, outputs, passed, required, take, tensor,
};
use crate::guard::{self, guarded};
use crate::opt::dataset::Shape;
use crate::opt::epoch::{Watch, epoch};
use crate::opt::fit::{FitPlan, fit};
use crate::opt::progress::Progress;
use crate::opt::{BatchCallback, Dataset, Lent, Model, ParamsSource, Results, Run, Settings, Shared, eval};
use crate::sys::foreign::call_export;
use crate::sys::process;
use crate::sys::time::monotonic_us;
use crate::tensor::{Context, TensorRef};
use crate::{ggml_assert, log_error};
use std::ffi::{c_char, c_void};
use std::rc::Rc;

// SAFETY: `Shared::into_raw` and `Shared::as_ptr` make these pointers, of the type in the row.
passed! { unsafe 'c:
    ggml_opt_dataset_t => &'c Shared<Dataset>, Shared::at;
    ggml_opt_context_t => &'c Shared<Run>, Shared::at;
    ggml_opt_result_t => &'c Shared<Results>, Shared::at;
}

// SAFETY: what a host may free came from `Shared::into_raw`, of the type in the row.
given! { unsafe:
    ggml_opt_dataset_t => Box<Shared<Dataset>>, Shared::from_raw;
    ggml_opt_context_t => Box<Shared<Run>>, Shared::from_raw;
    ggml_opt_result_t => Box<Shared<Results>>, Shared::from_raw;
}

/// Creates a data set of `ndata` points with `ne_datapoint` elements, and labels with `ne_label` elements (0: no
/// labels). They are shuffled and copied in shards of `ndata_shard` points. The caller writes data and labels to its
/// tensors, which are in host memory. When out of memory, logs an error and returns NULL. Free it with
/// `ggml_opt_dataset_free`.
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
    let shape = Shape {
        data: dtype(type_data),
        labels: dtype(type_label),
        point: ne_datapoint,
        label: ne_label,
        points: ndata,
        shard: ndata_shard,
    };
    let made = logged("ggml_opt_dataset_init", Dataset::new(&shape));
    made.map_or(std::ptr::null_mut(), |d| Shared::new(d).into_raw())
}

/// Frees a data set and its tensors. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_free(dataset: ggml_opt_dataset_t) {
    take!(dataset);
    drop(dataset);
}

/// Returns the number of data points; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_ndata(dataset: ggml_opt_dataset_t) -> i64 {
    optional!(dataset);
    dataset.map_or(0, |d| d.with(|d| d.n_points()))
}

/// Returns the tensor of all data points, [ne_datapoint, ndata]. NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_data(dataset: ggml_opt_dataset_t) -> *mut ggml_tensor {
    optional!(dataset);
    opt_out(dataset.map(|d| d.with(|d| d.data())))
}

/// Returns the tensor of all labels, [ne_label, ndata]. NULL for NULL, and for a data set without labels.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_labels(dataset: ggml_opt_dataset_t) -> *mut ggml_tensor {
    optional!(dataset);
    opt_out(dataset.and_then(|d| d.with(|d| d.labels())))
}

/// Shuffles the shards of the first `idata` data points, or of all if it is negative, with the random number
/// generator of `opt_ctx`. The resulting order is the same as the original's with the GNU C++ library.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_shuffle(
    opt_ctx: ggml_opt_context_t,
    dataset: ggml_opt_dataset_t,
    idata: i64,
) {
    need!(opt_ctx, dataset);
    let n_points = (idata >= 0).then_some(idata);
    opt_ctx.with(|r| dataset.with(|d| d.shuffle(r.random(), n_points)));
}

/// Copies batch `ibatch` to the tensors `data_batch`, [ne_datapoint, ndata_batch], and `labels_batch`, [ne_label,
/// ndata_batch], which is NULL for a data set without labels. A batch is a whole number of shards.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_get_batch(
    dataset: ggml_opt_dataset_t,
    data_batch: *mut ggml_tensor,
    labels_batch: *mut ggml_tensor,
    ibatch: i64,
) {
    need!(dataset, data_batch; labels_batch);
    dataset.with(|d| d.get_batch(data_batch, labels_batch, ibatch));
}

/// As `ggml_opt_dataset_get_batch`, to host memory: `nb_data_batch` bytes of data, and the labels of as many points.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_dataset_get_batch_host(
    dataset: ggml_opt_dataset_t,
    data_batch: *mut c_void,
    nb_data_batch: usize,
    labels_batch: *mut c_void,
    ibatch: i64,
) {
    ggml_assert!(!data_batch.is_null());
    need!(dataset);
    // SAFETY: the header requires room for `nb_data_batch` bytes of data, and NULL or room for the labels of as many
    // points.
    dataset.with(|d| unsafe { d.get_batch_host(data_batch.cast(), nb_data_batch, labels_batch.cast(), ibatch) });
}

/// Returns the default parameters. `userdata` is not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_get_default_optimizer_params(userdata: *mut c_void) -> ggml_opt_optimizer_params {
    let _ = userdata;
    default_parameters()
}

fn default_parameters() -> ggml_opt_optimizer_params {
    ggml_opt_optimizer_params {
        adamw: ggml_opt_adamw_params { alpha: 0.001, beta1: 0.9, beta2: 0.999, eps: 1e-8, wd: 0.0 },
        sgd: ggml_opt_sgd_params { alpha: 0.001, wd: 0.0 },
    }
}

/// Returns the `struct ggml_opt_optimizer_params` that `userdata` points to.
#[guarded(default_parameters())]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_get_constant_optimizer_params(userdata: *mut c_void) -> ggml_opt_optimizer_params {
    ggml_assert!(!userdata.is_null(), "userdata points to optimizer parameters");
    // SAFETY: not NULL, so the parameters that the header requires.
    unsafe { userdata.cast::<ggml_opt_optimizer_params>().read() }
}

/// Returns the default parameters: AdamW, an optimizer step after each evaluation, no static graphs.
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

/// The checked parameters.
///
/// # Safety
/// The scheduler is NULL or valid, and no other thread uses it during a call, for as long as a run with these settings
/// lives; so is the function that gives an optimizer's parameters, for its argument.
#[track_caller]
unsafe fn settings(p: &ggml_opt_params) -> Settings {
    // SAFETY: forwarded to the caller.
    let (scheduler, params) =
        unsafe { (Lent::from_ptr(p.backend_sched.cast()), ParamsSource::new(p.get_opt_pars, p.get_opt_pars_ud)) };
    Settings {
        scheduler: Rc::new(required(scheduler, "backend_sched")),
        loss: known(ggml_opt_loss_type::from_raw(p.loss_type), "loss_type", p.loss_type),
        build: known(ggml_opt_build_type::from_raw(p.build_type), "build_type", p.build_type),
        period: p.opt_period,
        optimizer: known(ggml_opt_optimizer_type::from_raw(p.optimizer), "optimizer", p.optimizer),
        params,
    }
}

/// The model that the pointers describe, and the context of its nodes.
///
/// # Safety
/// `ctx` is a valid context, and `inputs` and `outputs` are valid tensors, for as long as the run uses them. No other
/// code uses the context during a call.
#[track_caller]
unsafe fn model(ctx: *mut ggml_context, inputs: *mut ggml_tensor, outputs: *mut ggml_tensor) -> (Lent<Context>, Model) {
    // SAFETY: forwarded to the caller; `ggml_context` is the opaque C name of `Context`.
    let ctx = required(unsafe { Lent::from_ptr(ctx.cast::<Context>()) }, "ctx_compute");
    // SAFETY: forwarded to the caller.
    let (inputs, outputs) = unsafe { (tensor(inputs, "inputs"), tensor(outputs, "outputs")) };
    (ctx, Model { inputs, outputs })
}

/// Creates a training run. If `ctx_compute`, `inputs` and `outputs` are set, its graphs are static: they are built
/// now, and the inputs must be allocated. Otherwise call `ggml_opt_prepare_alloc` before each evaluation. The
/// scheduler and the context must outlive the run. A log callback must not use the run. When out of memory, logs an
/// error and returns NULL. Free it with `ggml_opt_free`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_init(params: ggml_opt_params) -> ggml_opt_context_t {
    let is_static = !params.ctx_compute.is_null();
    ggml_assert!(is_static || params.inputs.is_null() && params.outputs.is_null());
    // SAFETY: the header requires a valid context and valid tensors, which outlive the run.
    let model = is_static.then(|| unsafe { model(params.ctx_compute, params.inputs, params.outputs) });
    // SAFETY: the header requires a scheduler that outlives the run, and a function that may be called with its
    // argument.
    let settings = unsafe { settings(&params) };
    let made = logged("ggml_opt_init", Run::new(settings, model));
    made.map_or(std::ptr::null_mut(), |r| Shared::new(r).into_raw())
}

/// Frees a training run. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_free(opt_ctx: ggml_opt_context_t) {
    take!(opt_ctx);
    drop(opt_ctx);
}

/// Sets the gradients to zero, and with `optimizer` also the moments and the step count of the optimizer. Without
/// static graphs there are gradients only between `ggml_opt_alloc` and `ggml_opt_eval`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_reset(opt_ctx: ggml_opt_context_t, optimizer: bool) {
    need!(opt_ctx);
    opt_ctx.with(|r| r.reset(optimizer));
}

/// Returns whether the graphs are static. False for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_static_graphs(opt_ctx: ggml_opt_context_t) -> bool {
    optional!(opt_ctx);
    opt_ctx.is_some_and(|r| r.with(|r| r.is_static()))
}

/// A tensor of a run for C, or NULL.
fn tensor_of(run: Option<&Shared<Run>>, pick: impl FnOnce(&mut Run) -> Option<TensorRef>) -> *mut ggml_tensor {
    opt_out(run.and_then(|r| r.with(pick)))
}

/// Returns the inputs of the forward graph. NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_inputs(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    optional!(opt_ctx);
    tensor_of(opt_ctx, |r| Some(r.model()?.inputs))
}

/// Returns the outputs of the forward graph. NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_outputs(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    optional!(opt_ctx);
    tensor_of(opt_ctx, |r| Some(r.model()?.outputs))
}

/// Returns the labels that the outputs are compared with. NULL for NULL, and for a loss without labels.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_labels(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    optional!(opt_ctx);
    tensor_of(opt_ctx, |r| r.objective()?.labels)
}

/// Returns the loss, a scalar. NULL for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_loss(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    optional!(opt_ctx);
    tensor_of(opt_ctx, |r| Some(r.objective()?.loss))
}

/// Returns the predictions for the outputs. NULL unless the loss is the cross entropy.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_pred(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    optional!(opt_ctx);
    tensor_of(opt_ctx, |r| r.objective()?.predictions)
}

/// Returns the number of correct predictions, a scalar. NULL unless the loss is the cross entropy.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_ncorrect(opt_ctx: ggml_opt_context_t) -> *mut ggml_tensor {
    optional!(opt_ctx);
    tensor_of(opt_ctx, |r| r.objective()?.n_correct)
}

/// Returns the gradient accumulator of a node of the forward graph. NULL if it has none, for example with static
/// graphs and an optimizer step after each evaluation.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_grad_acc(opt_ctx: ggml_opt_context_t, node: *mut ggml_tensor) -> *mut ggml_tensor {
    optional!(opt_ctx, node);
    tensor_of(opt_ctx, |r| r.accumulator(node?))
}

/// Returns the optimizer of a training run; AdamW for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_context_optimizer_type(opt_ctx: ggml_opt_context_t) -> raw::ggml_opt_optimizer_type {
    optional!(opt_ctx);
    let optimizer = opt_ctx.map(|r| r.with(|r| r.settings().optimizer));
    optimizer.unwrap_or(ggml_opt_optimizer_type::GGML_OPT_OPTIMIZER_TYPE_ADAMW) as raw::ggml_opt_optimizer_type
}

/// Returns the name of an optimizer, "adamw" or "sgd". "undefined" for an unknown one.
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

/// Creates an empty result. Free it with `ggml_opt_result_free`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_init() -> ggml_opt_result_t {
    Shared::new(Results::default()).into_raw()
}

/// Frees a result. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_free(result: ggml_opt_result_t) {
    take!(result);
    drop(result);
}

/// Removes everything that has been added to a result. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_reset(result: ggml_opt_result_t) {
    optional!(result);
    if let Some(r) = result {
        r.with(Results::reset);
    }
}

/// Writes the number of evaluated data points; 0 for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_ndata(result: ggml_opt_result_t, ndata: *mut i64) {
    optional!(result);
    outputs!(ndata);
    ndata.put(result.map_or(0, |r| r.with(|r| r.n_points())));
}

/// Writes the mean loss, and its uncertainty unless `unc` is NULL. Without evaluations they are 0 and NaN.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_loss(result: ggml_opt_result_t, loss: *mut f64, unc: *mut f64) {
    optional!(result);
    let known = result.map_or((0.0, f64::NAN), |r| r.with(|r| r.loss()));
    outputs!(loss, unc);
    loss.put(known.0);
    unc.put(known.1);
}

/// Writes all predictions, as many as `ggml_opt_result_ndata` returns. Writes nothing if the loss makes no
/// predictions.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_pred(result: ggml_opt_result_t, pred: *mut i32) {
    optional!(result);
    let Some(results) = result else { return };
    results.with(|r| {
        let from = r.predictions();
        ggml_assert!(from.is_empty() || !pred.is_null());
        // SAFETY: the header requires room for all predictions; NULL is refused unless there are none.
        unsafe { from.as_ptr().copy_to(pred, from.len()) }
    });
}

/// Writes the fraction of correct predictions, and its uncertainty unless `unc` is NULL. Without evaluations or
/// predictions they are NaN.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_result_accuracy(result: ggml_opt_result_t, accuracy: *mut f64, unc: *mut f64) {
    optional!(result);
    let known = result.map_or((f64::NAN, f64::NAN), |r| r.with(|r| r.accuracy()));
    outputs!(accuracy, unc);
    accuracy.put(known.0);
    unc.put(known.1);
}

/// Sets the forward graph of the next evaluation, with its inputs and outputs, for a run without static graphs. The
/// graph was built in `ctx_compute`, with room for gradients. Call this before each `ggml_opt_alloc`. Context and
/// graph must live until `ggml_opt_eval` returns. Gradients accumulate from the first evaluation on; see
/// `ggml_opt_reset`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_prepare_alloc(
    opt_ctx: ggml_opt_context_t,
    ctx_compute: *mut ggml_context,
    gf: *mut ggml_cgraph,
    inputs: *mut ggml_tensor,
    outputs: *mut ggml_tensor,
) {
    need!(opt_ctx);
    // SAFETY: the header requires a valid context and valid tensors, which live until `ggml_opt_eval` returns.
    let (ctx, model) = unsafe { model(ctx_compute, inputs, outputs) };
    need!(gf);
    opt_ctx.with(|r| r.set_model(ctx, model, gf));
}

/// Allocates the graph of the next evaluation: with gradients if `backward` is true, and with an optimizer step if
/// one is due. Call it exactly once before each `ggml_opt_eval`. With static graphs, the same graph twice in a row
/// keeps its memory. If the graph cannot be allocated, logs an error, and the evaluation fails.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_alloc(opt_ctx: ggml_opt_context_t, backward: bool) {
    need!(opt_ctx);
    logged("ggml_opt_alloc", opt_ctx.with(|r| r.alloc(backward)));
}

/// Computes the graph, with an optimizer step if one is due, and adds the outcome to `result` unless it is NULL. All
/// evaluations added to one result must have the same number of data points. On failure, logs an error and adds
/// nothing.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_opt_eval(opt_ctx: ggml_opt_context_t, result: ggml_opt_result_t) {
    need!(opt_ctx; result);
    logged("ggml_opt_eval", eval::eval(opt_ctx, result));
}

/// Trains on the first `idata_split` data points (on all, if it is negative) and evaluates the rest. Calls a callback
/// after each batch, unless it is NULL. The graphs must be static, and both parts must be whole batches.
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
    need!(opt_ctx, dataset; result_train, result_eval);
    // SAFETY: the header requires functions that may be called with this run, data set and result.
    let [train_callback, eval_callback] = unsafe { [callback_train, callback_eval].map(|f| BatchCallback::new(f)) };
    let train = Watch { results: result_train, callback: train_callback };
    epoch(opt_ctx, dataset, idata_split, train, Watch { results: result_eval, callback: eval_callback });
}

/// A callback for `ggml_opt_epoch` that draws a progress bar on standard error: data points, loss and accuracy with
/// their uncertainties, elapsed and remaining time.
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
    let _ = dataset;
    // Not `#[guarded]`: a callback has the type of functions that are not left by unwinding.
    guard::run(
        || {},
        || {
            optional!(opt_ctx, result);
            let progress = Progress {
                train,
                done: ibatch,
                all: ibatch_max,
                per_batch: opt_ctx.and_then(|r| r.with(|r| r.model())).map_or(0, |m| m.inputs.ne()[1]),
                loss: result.map_or((0.0, f64::NAN), |r| r.with(|r| r.loss())),
                accuracy: result.map_or((f64::NAN, f64::NAN), |r| r.with(|r| r.accuracy())),
                elapsed_us: monotonic_us() - t_start_us,
            };
            process::write_to_standard_error(progress.line().as_bytes());
        },
    );
}

/// Trains a model on a data set for `nepoch` epochs. The graph in `ctx_compute` goes from `inputs`, [ne_datapoint,
/// ndata_batch], to `outputs`. An optimizer step uses `nbatch_logical` data points, which must be whole batches. The
/// last part of the shuffled data, a fraction of `val_split` (at least 0, less than 1), is used for validation.
/// `get_opt_pars` receives a pointer to the number of the epoch, an `int64_t` that starts at 1. Prints epochs and
/// progress to standard error, unless `silent`.
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
    // SAFETY: the function has no requirements: it only copies its arguments.
    let defaults = call_export(|| unsafe { ggml_opt_default_params(backend_sched, loss_type) });
    // SAFETY: the header requires a valid scheduler, which `fit` uses during this call only; the function gets no other
    // argument than the one that `fit` gives it.
    let settings = unsafe { settings(&ggml_opt_params { optimizer, get_opt_pars, ..defaults }) };
    // SAFETY: the header requires a valid context and valid tensors, which `fit` uses during this call only.
    let model = unsafe { model(ctx_compute, inputs, outputs) };
    need!(dataset);
    let show: ggml_opt_epoch_callback = if silent { None } else { Some(ggml_opt_epoch_callback_progress_bar) };
    // SAFETY: our own function, for a run, a data set and results.
    let show = unsafe { BatchCallback::new(show) };
    let plan = FitPlan { epochs: nepoch, points_per_step: nbatch_logical, validation: val_split, show };
    // SAFETY: the header requires a `get_opt_pars` that takes a pointer to the number of the epoch.
    if let Err(e) = unsafe { fit(settings, model, dataset, &plan) } {
        log_error!("ggml_opt_fit: {e}");
    }
}
