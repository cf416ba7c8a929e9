//! Training runs on the CPU backend.

use super::state::{Moments, State};
use super::*;
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::abi::opt::{
    ggml_opt_adamw_params, ggml_opt_build_type::*, ggml_opt_loss_type::*, ggml_opt_optimizer_params,
    ggml_opt_optimizer_type::*, ggml_opt_sgd_params,
};
use crate::backend::testing::{Fake, Spec};
use crate::backend::{BackendBox, BufferBox, tensor_io};
use crate::cpu::device::device;
use crate::cpu::exec::Abort;
use crate::cpu::stream::stream;
use crate::graph::build;
use crate::sched::Scheduler;
use crate::tensor::ops::binary;
use crate::tensor::{Context, TensorRef};
use std::ffi::c_void;
use std::rc::Rc;

/// The model y = x w with four points, and everything that it needs.
struct Bench {
    settings: Settings,
    model: Model,
    weight: TensorRef,
    compute: *mut Context,
    scheduler: *mut Scheduler,
    _buffer: BufferBox,
    _ctx: Context,
    backend: BackendBox,
}

/// Returns rates of 0.5. Counts its calls in the `i64` at `user_data`, unless that is NULL.
unsafe extern "C" fn rates(user_data: *mut c_void) -> ggml_opt_optimizer_params {
    // SAFETY: the tests pass NULL, or the address of an `i64` that they do not use meanwhile.
    if let Some(calls) = unsafe { user_data.cast::<i64>().as_mut() } {
        *calls += 1;
    }
    ggml_opt_optimizer_params {
        adamw: ggml_opt_adamw_params { alpha: 0.5, beta1: 0.9, beta2: 0.9, eps: 1e-8, wd: 0.0 },
        sgd: ggml_opt_sgd_params { alpha: 0.5, wd: 0.0 },
    }
}

fn set(t: TensorRef, x: &[f32]) {
    tensor_io::set_bytes(t, &x.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>(), 0);
}

fn get(t: TensorRef) -> f32 {
    let mut bytes = [0; 4];
    tensor_io::get_bytes(t, &mut bytes, 0);
    f32::from_ne_bytes(bytes)
}

fn bench() -> Bench {
    let backend = device().init(None).unwrap();
    let mut ctx = Context::with_size(4096, true).unwrap();
    let inputs = ctx.new_tensor(GGML_TYPE_F32, &[1, 4]).unwrap();
    let weight = ctx.new_tensor(GGML_TYPE_F32, &[1]).unwrap();
    weight.add_flag(GGML_TENSOR_FLAG_PARAM);
    let mut list = [inputs.as_ptr(), weight.as_ptr()];
    let buffer = backend.default_buffer_type().alloc_buffer_n(&mut list).unwrap().unwrap();
    set(inputs, &[1.0, 2.0, 3.0, 4.0]);
    set(weight, &[1.0]);
    let mut compute = Box::new(Context::with_size(1 << 20, true).unwrap());
    let outputs = binary::mul(&mut compute, inputs, weight).unwrap();
    let scheduler = Box::into_raw(Box::new(Scheduler::new(&[backend.handle()], None, 64, false, false)));
    // SAFETY: the scheduler lives until the bench is dropped, and only this thread uses it. `rates` may be called with
    // NULL.
    let (lent, params) =
        unsafe { (Lent::from_ptr(scheduler).unwrap(), ParamsSource::new(Some(rates), std::ptr::null_mut())) };
    let settings = Settings {
        scheduler: Rc::new(lent),
        loss: GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR,
        build: GGML_OPT_BUILD_TYPE_OPT,
        period: 1,
        optimizer: GGML_OPT_OPTIMIZER_TYPE_SGD,
        params,
    };
    let model = Model { inputs, outputs };
    let compute = Box::into_raw(compute);
    Bench { settings, model, weight, compute, scheduler, _buffer: buffer, _ctx: ctx, backend }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: `bench` took both from boxes. The runs that use them borrow nothing, but the tests declare them after
        // the bench, so they are dropped first.
        unsafe {
            drop(Box::from_raw(self.scheduler));
            drop(Box::from_raw(self.compute));
        }
    }
}

impl Bench {
    fn run(&self, change: impl FnOnce(&mut Settings)) -> Shared<Run> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        // SAFETY: the tests declare their run after the bench, so the context outlives it. Each test has one run, on
        // one thread.
        let ctx = unsafe { Lent::from_ptr(self.compute) }.unwrap();
        let run = Run::new(settings, Some((ctx, self.model))).unwrap();
        // Labels are 2 x, so the weight must double.
        set(run.objective().unwrap().labels.unwrap(), &[2.0, 4.0, 6.0, 8.0]);
        Shared::new(run)
    }
}

fn evaluate(run: &Shared<Run>, results: Option<&Shared<Results>>, backward: bool) -> bool {
    run.with(|r| r.alloc(backward)).unwrap();
    eval::eval(run, results).is_ok()
}

#[test]
fn a_step_of_gradient_descent_goes_down_the_slope() {
    let b = bench();
    let mut calls = 0i64;
    let run = &b.run(|s| {
        s.optimizer = GGML_OPT_OPTIMIZER_TYPE_SGD;
        // SAFETY: `rates` takes the address of an `i64`, and `calls` is declared before the run, so it outlives it.
        s.params = unsafe { s.params.with_argument((&raw mut calls).cast()) };
    });
    let results = &Shared::new(Results::default());
    assert!(evaluate(run, Some(results), false));
    // The mean of (x w - 2 x)² for w = 1.
    assert_eq!((results.with(|r| r.loss().0), get(b.weight)), (7.5, 1.0));
    assert!(evaluate(run, Some(results), true));
    // Its slope is 2 (w - 2) 7.5; the rate 0.5.
    assert_eq!((get(b.weight), calls), (8.5, 1));
    assert!(results.with(|r| r.n_points()) == 8 && results.with(|r| r.accuracy().0.is_nan()));
}

#[test]
fn a_run_without_an_optimizer_gathers_gradients() {
    let b = bench();
    let run = &b.run(|s| s.build = GGML_OPT_BUILD_TYPE_GRAD);
    let sum = || get(run.with(|r| r.accumulator(b.weight)).unwrap());
    assert!(evaluate(run, None, true));
    assert_eq!((sum(), get(b.weight)), (-15.0, 1.0));
    assert!(evaluate(run, None, true));
    assert_eq!(sum(), -30.0);
    run.with(|r| r.reset(false));
    assert_eq!(sum(), 0.0);
}

#[test]
fn evaluations_of_a_step_are_averaged() {
    let b = bench();
    let run = &b.run(|s| s.period = 2);
    assert!(evaluate(run, None, true));
    assert_eq!(get(b.weight), 1.0);
    assert!(evaluate(run, None, true));
    assert_eq!(get(b.weight), 8.5);
    // The sums start again.
    assert!(evaluate(run, None, true));
    assert_eq!(get(run.with(|r| r.accumulator(b.weight)).unwrap()), 0.5 * 2.0 * 6.5 * 7.5);
}

#[test]
fn what_was_not_computed_is_no_result() {
    unsafe extern "C" fn stop(_: *mut c_void) -> bool {
        true
    }
    let b = bench();
    let run = &b.run(|_| ());
    let results = &Shared::new(Results::default());
    let cpu = b.backend.handle();
    let cpu = stream(&cpu).unwrap();
    cpu.set_abort(Abort { callback: Some(stop), data: std::ptr::null_mut() });
    assert!(!evaluate(run, Some(results), true));
    assert_eq!((results.with(|r| r.n_points()), get(b.weight)), (0, 1.0));
    cpu.set_abort(Abort { callback: None, data: std::ptr::null_mut() });
    assert!(evaluate(run, Some(results), true));
    assert_eq!((results.with(|r| r.n_points()), get(b.weight)), (4, 8.5));
}

/// A step writes the parameter and its moments, so it has to find them in one memory.
#[test]
fn moments_are_where_their_parameter_is() {
    let device = Fake::lazy(Spec::gpu());
    let b = bench();
    // SAFETY: only this test uses the context, which lives until the bench is dropped.
    let forward = build::new(unsafe { &mut *b.compute }, 16, true).unwrap();
    forward.expand(b.model.outputs, true);
    let place = forward.nodes().position(|n| n.has_flag(GGML_TENSOR_FLAG_PARAM)).unwrap();
    let mut state = State::new(1, 3, 1).unwrap();
    state.fill(forward, true, true).unwrap();
    assert!(state.allocate(device.buft).unwrap() && !state.allocate(device.buft).unwrap());
    let of = |t: TensorRef| t.data_buffer().unwrap().buft();
    let Moments { m, v, .. } = state.moments[place].unwrap();
    assert!(of(m) == of(b.weight) && of(v) == of(b.weight));
    assert!(of(state.accumulators[place].unwrap()) == device.buft);
}
