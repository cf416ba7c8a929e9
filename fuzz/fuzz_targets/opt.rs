//! The optimizer (ggml-opt.h) with any data sets, losses, periods and parameters, and any sequence of calls: each
//! succeeds or fails, and nothing ends the process.
#![no_main]

use ggml::abi::ggml::{ggml_init_params, ggml_type};
use ggml::abi::opt::*;
use ggml::capi::alloc::ggml_backend_alloc_ctx_tensors;
use ggml::capi::backend::*;
use ggml::capi::ggml::*;
use ggml::capi::opt::*;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use libggml_rs_fuzz::{Cpu, is_fresh};
use std::ffi::c_void;
use std::ptr::null_mut;

const F32: i32 = ggml_type::GGML_TYPE_F32 as i32;

#[derive(Arbitrary, Debug)]
enum Call {
    Shuffle(i8),
    Batch(i8),
    BatchHost(i8, u8),
    Reset(bool),
    Prepare,
    Alloc(bool),
    Eval(bool),
    Epoch(i8),
    Results,
    Accumulator,
}

#[derive(Arbitrary, Debug)]
struct Case {
    data: u8,
    labels: u8,
    point: i8,
    label: i8,
    points: i8,
    shard: i8,
    width: u8,
    batch: u8,
    loss: u8,
    build: u8,
    period: i8,
    optimizer: u8,
    is_static: bool,
    rates: [f32; 9],
    calls: Vec<Call>,
    fit: Option<(i8, u8, f32)>,
}

unsafe extern "C" fn parameters(rates: *mut c_void) -> ggml_opt_optimizer_params {
    // SAFETY: `main_of` passes nine numbers.
    let r = unsafe { rates.cast::<[f32; 9]>().read() };
    ggml_opt_optimizer_params {
        adamw: ggml_opt_adamw_params { alpha: r[0], beta1: r[1], beta2: r[2], eps: r[3], wd: r[4] },
        sgd: ggml_opt_sgd_params { alpha: r[5], wd: r[6] },
    }
}

/// For `fit`, which passes the number of the epoch.
unsafe extern "C" fn usual(_: *mut c_void) -> ggml_opt_optimizer_params {
    ggml_opt_optimizer_params {
        adamw: ggml_opt_adamw_params { alpha: 0.001, beta1: 0.9, beta2: 0.999, eps: 1e-8, wd: 0.0 },
        sgd: ggml_opt_sgd_params { alpha: 0.001, wd: 0.0 },
    }
}

fn choice(n: u8, values: &[i32]) -> i32 {
    // The last numbers are not valid.
    *values.get(usize::from(n) % (values.len() + 1)).unwrap_or(&i32::from(n))
}

fn main_of(case: Case, fresh: bool) {
    let mut rates = case.rates;
    // SAFETY: objects of the library, used before they are freed, and freed once. The library returns NULL if it fails.
    unsafe {
        let types = [F32, ggml_type::GGML_TYPE_F16 as i32, ggml_type::GGML_TYPE_I8 as i32];
        let (point, label) = (i64::from(case.point), i64::from(case.label));
        let dataset = ggml_opt_dataset_init(
            choice(case.data, &types),
            choice(case.labels, &types),
            point,
            label,
            case.points.into(),
            case.shard.into(),
        );
        let cpu = Cpu::new(0, 1, fresh);
        let backend = cpu.backend;
        let mut list = [backend];
        let sched = ggml_backend_sched_new(list.as_mut_ptr(), null_mut(), 1, 512, false, false);
        let c = ggml_init(ggml_init_params { mem_size: 1 << 14, mem_buffer: null_mut(), no_alloc: true });
        // Static graphs have the default size, and there are three of them.
        let mem_size = if case.is_static { 1 << 20 } else { 200 << 10 };
        let forward = ggml_init(ggml_init_params { mem_size, mem_buffer: null_mut(), no_alloc: true });
        let (width, batch) = (i64::from(case.width % 8 + 1), i64::from(case.batch % 4 + 1));
        let weights = ggml_new_tensor_2d(c, F32, width, width);
        ggml_set_param(weights);
        // Without memory of their own, the inputs of static graphs are refused.
        let inputs = ggml_new_tensor_2d(if case.is_static { c } else { forward }, F32, width, batch);
        ggml_set_input(inputs);
        let buffer = ggml_backend_alloc_ctx_tensors(c, backend);
        ggml_backend_buffer_clear(buffer, 0);
        let outputs = ggml_mul_mat(forward, weights, inputs);
        let mut params = ggml_opt_default_params(sched, choice(case.loss, &[0, 1, 2, 3]));
        params.build_type = choice(case.build, &[10, 20, 30]);
        params.opt_period = case.period.into();
        params.optimizer = choice(case.optimizer, &[0, 1]);
        params.get_opt_pars = Some(parameters);
        params.get_opt_pars_ud = rates.as_mut_ptr().cast();
        if case.is_static {
            (params.ctx_compute, params.inputs, params.outputs) = (forward, inputs, outputs);
        }
        // The graph of a run that was freed must not be used again.
        let run = if case.fit.is_some() { null_mut() } else { ggml_opt_init(params) };
        let result = ggml_opt_result_init();
        for call in case.calls.into_iter().take(24) {
            match call {
                Call::Shuffle(n) if !run.is_null() => ggml_opt_dataset_shuffle(run, dataset, n.into()),
                Call::Batch(n) if !run.is_null() => {
                    ggml_opt_dataset_get_batch(dataset, ggml_opt_inputs(run), ggml_opt_labels(run), n.into())
                }
                Call::BatchHost(n, bytes) => {
                    let mut data = vec![0u8; usize::from(bytes)];
                    ggml_opt_dataset_get_batch_host(
                        dataset,
                        data.as_mut_ptr().cast(),
                        data.len(),
                        null_mut(),
                        n.into(),
                    );
                }
                Call::Reset(optimizer) => ggml_opt_reset(run, optimizer),
                Call::Prepare if !case.is_static => {
                    let graph = ggml_new_graph_custom(forward, 64, true);
                    if !graph.is_null() {
                        ggml_build_forward_expand(graph, outputs);
                        ggml_opt_prepare_alloc(run, forward, graph, inputs, outputs);
                    }
                }
                Call::Alloc(backward) => ggml_opt_alloc(run, backward),
                Call::Eval(with) => ggml_opt_eval(run, if with { result } else { null_mut() }),
                Call::Epoch(n) if case.is_static => {
                    ggml_opt_epoch(run, dataset, result, null_mut(), n.into(), None, None)
                }
                Call::Results => {
                    let (mut n, mut a, mut b) = (0, 0.0, 0.0);
                    ggml_opt_result_ndata(result, &raw mut n);
                    ggml_opt_result_loss(result, &raw mut a, &raw mut b);
                    ggml_opt_result_accuracy(result, &raw mut a, null_mut());
                }
                Call::Accumulator => _ = ggml_opt_grad_acc(run, weights),
                _ => {}
            }
        }
        ggml_opt_result_free(result);
        ggml_opt_free(run);
        if let Some((epochs, logical, validation)) = case.fit.filter(|_| case.is_static) {
            let (loss, optimizer) = (choice(case.loss, &[0, 1, 2, 3]), choice(case.optimizer, &[0, 1]));
            let (n, size) = (i64::from(epochs % 3), i64::from(logical));
            ggml_opt_fit(
                sched,
                forward,
                inputs,
                outputs,
                dataset,
                loss,
                optimizer,
                Some(usual),
                n,
                size,
                validation,
                true,
            );
        }
        ggml_opt_dataset_free(dataset);
        ggml_backend_sched_free(sched);
        ggml_free(forward);
        ggml_free(c);
        ggml_backend_buffer_free(buffer);
    }
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet_with_errors();
    if let Ok(case) = Unstructured::new(data).arbitrary() {
        main_of(case, is_fresh(data));
    }
});
