//! Graphs of any shape and order with the graph allocator (gallocr), and tensors of any size with the linear one
//! (tallocr): reserve and alloc in any sequence. Results in planned memory must equal results computed by hand, and no
//! tensor may leave its buffer.
#![no_main]

use ggml::abi::ggml::{ggml_init_params, ggml_status, ggml_tensor, ggml_type};
use ggml::abi::graph::ggml_cgraph;
use ggml::capi::alloc::*;
use ggml::capi::backend::*;
use ggml::capi::cpu::{ggml_graph_compute, ggml_graph_plan};
use ggml::capi::ggml::*;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::ptr::null_mut;

type Tensor = *mut ggml_tensor;
const F32: i32 = ggml_type::GGML_TYPE_F32 as i32;

#[derive(Arbitrary, Debug)]
enum Step {
    Add(u8, u8),
    Sub(u8, u8),
    Neg(u8),
    NegInPlace(u8),
    /// A view of the second half.
    Half(u8),
    Output(u8),
}

#[derive(Arbitrary, Debug)]
struct Plan {
    width: u16,
    inputs: u8,
    steps: Vec<Step>,
    reserve: bool,
    again: bool,
}

/// A graph, and the values that its nodes must have.
struct Case {
    graph: *mut ggml_cgraph,
    inputs: Vec<(Tensor, f32)>,
    outputs: Vec<(Tensor, f32)>,
    all: Vec<Tensor>,
}

/// # Safety
/// `c` is a context without data.
unsafe fn build(c: *mut ggml::abi::ggml::ggml_context, plan: &Plan) -> Case {
    // SAFETY: forwarded to the caller; all tensors are of this context.
    unsafe {
        let width = 2 * i64::from(plan.width % 64 + 1);
        let mut known: Vec<(Tensor, f32, i64)> = Vec::new();
        for i in 0..plan.inputs % 4 + 1 {
            let t = ggml_new_tensor_1d(c, F32, width);
            ggml_set_input(t);
            known.push((t, f32::from(i) + 1.0, width));
        }
        let inputs = known.iter().map(|(t, v, _)| (*t, *v)).collect();
        let mut outputs = Vec::new();
        for step in plan.steps.iter().take(24) {
            let at = |i: u8| known[usize::from(i) % known.len()];
            let made = match *step {
                Step::Add(i, j) | Step::Sub(i, j) => {
                    let ((a, x, n), (b, y, m)) = (at(i), at(j));
                    if n != m || x.abs().max(y.abs()) > 1e6 {
                        continue;
                    }
                    match step {
                        Step::Add(..) => (ggml_add(c, a, b), x + y, n),
                        _ => (ggml_sub(c, a, b), x - y, n),
                    }
                }
                Step::Neg(i) => (ggml_neg(c, at(i).0), -at(i).1, at(i).2),
                Step::NegInPlace(i) => {
                    // It changes its source: the value of a tensor that is read later would depend on the order.
                    let (a, x, n) = at(i);
                    let copy = ggml_neg(c, a);
                    (ggml_neg_inplace(c, copy), x, n)
                }
                Step::Half(i) => {
                    let (a, x, n) = at(i);
                    if n % 4 != 0 {
                        continue;
                    }
                    (ggml_view_1d(c, a, n / 2, n as usize / 2 * 4), x, n / 2)
                }
                Step::Output(i) => {
                    let (a, x, _) = at(i);
                    ggml_set_output(a);
                    outputs.push((a, x));
                    continue;
                }
            };
            known.push(made);
        }
        let last = known[known.len() - 1];
        ggml_set_output(last.0);
        outputs.push((last.0, last.1));
        let graph = ggml_new_graph_custom(c, 64, false);
        known.iter().for_each(|(t, _, _)| ggml_build_forward_expand(graph, *t));
        Case { graph, inputs, outputs, all: known.iter().map(|k| k.0).collect() }
    }
}

/// # Safety
/// The graph has memory.
unsafe fn check(case: &Case) {
    // SAFETY: host memory of the size that the tensors have.
    unsafe {
        let fill =
            |t: Tensor, v: f32| (0..ggml_nelements(t)).for_each(|i| (*t).data.cast::<f32>().add(i as usize).write(v));
        case.inputs.iter().for_each(|(t, v)| fill(*t, *v));
        let mut plan = ggml_graph_plan(case.graph, 1, null_mut());
        let mut work = vec![0u8; plan.work_size];
        plan.work_data = work.as_mut_ptr();
        assert_eq!(ggml_graph_compute(case.graph, &raw mut plan), ggml_status::GGML_STATUS_SUCCESS as i32);
        for (t, v) in &case.outputs {
            let n = ggml_nelements(*t) as usize;
            let values = std::slice::from_raw_parts((**t).data.cast::<f32>(), n);
            assert!(values.iter().all(|x| x == v), "{v} expected");
        }
    }
}

fn graphs(plans: Vec<Plan>) {
    // SAFETY: objects of the library, used before they are freed, and freed once.
    unsafe {
        let galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        for plan in plans.iter().take(6) {
            let c = ggml_init(ggml_init_params { mem_size: 1 << 16, mem_buffer: null_mut(), no_alloc: true });
            let case = build(c, plan);
            assert!(!plan.reserve || ggml_gallocr_reserve(galloc, case.graph));
            for _ in 0..1 + u8::from(plan.again) {
                assert!(ggml_gallocr_alloc_graph(galloc, case.graph), "a graph that fits is refused");
                check(&case);
                // As if the host had built it again.
                case.all.iter().for_each(|&t| ((*t).data, (*t).buffer) = (null_mut(), null_mut()));
            }
            assert!(ggml_gallocr_get_buffer_size(galloc, 0) < 1 << 24);
            ggml_free(c);
        }
        ggml_gallocr_free(galloc);
    }
}

fn linear(size: u16, tensors: Vec<(u8, u16)>) {
    // SAFETY: as above.
    unsafe {
        let buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), usize::from(size));
        let c = ggml_init(ggml_init_params { mem_size: 1 << 16, mem_buffer: null_mut(), no_alloc: true });
        let mut talloc = ggml_tallocr_new(buffer);
        let (base, mut end) = (talloc.base as usize, talloc.base as usize);
        for (dtype, n) in tensors.into_iter().take(64) {
            let all =
                [ggml_type::GGML_TYPE_F32, ggml_type::GGML_TYPE_I8, ggml_type::GGML_TYPE_F16, ggml_type::GGML_TYPE_I64];
            let t = ggml_new_tensor_1d(c, all[usize::from(dtype) % all.len()] as i32, n.into());
            if t.is_null() {
                break;
            }
            if ggml_tallocr_alloc(&raw mut talloc, t) == ggml_status::GGML_STATUS_SUCCESS as i32 {
                let at = (*t).data as usize;
                assert!(at >= end && at + ggml_nbytes(t) <= base + ggml_backend_buffer_get_size(buffer));
                end = at + ggml_nbytes(t);
                ggml_backend_tensor_memset(t, 1, 0, ggml_nbytes(t));
            } else {
                assert!((*t).data.is_null(), "an address without memory");
            }
        }
        ggml_free(c);
        ggml_backend_buffer_free(buffer);
    }
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet_with_errors();
    let [which, rest @ ..] = data else { return };
    let mut u = Unstructured::new(rest);
    if which % 4 == 0 {
        if let (Ok(size), Ok(tensors)) = (u.arbitrary(), u.arbitrary()) {
            linear(size, tensors);
        }
    } else if let Ok(plans) = u.arbitrary() {
        graphs(plans);
    }
});
