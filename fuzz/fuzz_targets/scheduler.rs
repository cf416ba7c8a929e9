//! Any sequence of calls of a scheduler over a device with memory of its own and two CPU backends, of which
//! computations are cancelled: each call succeeds or fails, results are right, and the device never gets memory of the
//! CPU. Many nodes write into the memory of others.
#![no_main]

use ggml::abi::backend::ggml_backend_sched_t;
use ggml::abi::ggml::{ggml_context, ggml_init_params, ggml_status, ggml_tensor, ggml_type};
use ggml::abi::graph::ggml_cgraph;
use ggml::capi::backend::*;
use ggml::capi::cpu::ggml_backend_cpu_set_abort_callback;
use ggml::capi::ggml::*;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use libggml_rs_fuzz::{Cpu, is_fresh, own::own, quiet_with_errors};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;

#[derive(Arbitrary, Debug)]
enum Call {
    New {
        parallel: bool,
        offload: bool,
        /// The operations of the device with memory of its own.
        computes: u8,
    },
    Reserve(u8),
    Split(u8),
    Alloc(u8),
    /// Cancelled after so many nodes, unless 0.
    Compute(u8, u8),
    ComputeAsync(u8),
    Reset,
    Synchronize,
    Place(u8, u8, u8),
}

thread_local! {
    static PATIENCE: Cell<u8> = const { Cell::new(0) };
}

unsafe extern "C" fn impatient(_: *mut c_void) -> bool {
    let left = PATIENCE.get();
    PATIENCE.set(left.saturating_sub(1));
    left == 1
}

/// A graph of `layers` layers, each of which adds 1.
struct Case {
    graph: *mut ggml_cgraph,
    x: *mut ggml_tensor,
    y: *mut ggml_tensor,
    layers: usize,
}

const WIDTH: usize = 16;

/// One more than `y`. The number `way` selects how: to a new tensor or, in several ways, in place.
///
/// # Safety
/// The context, the graph and the tensors are valid.
unsafe fn layer(
    c: *mut ggml_context,
    graph: *mut ggml_cgraph,
    x: *mut ggml_tensor,
    y: *mut ggml_tensor,
    way: u8,
) -> *mut ggml_tensor {
    // SAFETY: forwarded to the caller.
    unsafe {
        // The host writes x, and every layer reads it.
        let way = if y == x { 0 } else { way % 5 };
        let sum = match way {
            0 => ggml_add(c, y, x),
            1 => ggml_add_inplace(c, y, x),
            2 => ggml_scale_bias_inplace(c, y, 1.0, 1.0),
            3 => ggml_cpy(c, ggml_scale_bias(c, y, 1.0, 1.0), y),
            _ => {
                for half in 0..2 {
                    let part = ggml_view_1d(c, y, WIDTH as i64 / 2, half * WIDTH / 2 * 4);
                    ggml_build_forward_expand(graph, ggml_scale_bias_inplace(c, part, 1.0, 1.0));
                }
                y
            }
        };
        ggml_build_forward_expand(graph, sum);
        sum
    }
}

/// Removes the memory of all tensors, as if the host had built the graph again: after a reset it belongs to the
/// scheduler's next graph.
///
/// # Safety
/// The graphs are valid.
unsafe fn forget(cases: &[Case]) {
    for case in cases {
        // SAFETY: forwarded to the caller.
        unsafe {
            let nodes = (0..ggml_graph_n_nodes(case.graph)).map(|i| ggml_graph_node(case.graph, i));
            for t in nodes.chain([case.x]) {
                ((*t).data, (*t).buffer) = (null_mut(), null_mut());
            }
        }
    }
}

/// # Safety
/// `sched` and the graph are valid; its tensors have memory if the scheduler says that it is allocated.
unsafe fn compute(sched: ggml_backend_sched_t, case: &Case, patience: u8) {
    let ones = [1f32; WIDTH];
    // SAFETY: forwarded to the caller; the arrays are as long as the tensors.
    unsafe {
        assert!(ggml_backend_sched_alloc_graph(sched, case.graph), "a graph that fits is refused");
        ggml_backend_tensor_set(case.x, ones.as_ptr().cast(), 0, size_of_val(&ones));
        PATIENCE.set(patience);
        let status = ggml_backend_sched_graph_compute(sched, case.graph);
        let was_cancelled = patience != 0 && PATIENCE.replace(0) == 0;
        if status == ggml_status::GGML_STATUS_SUCCESS as i32 {
            let mut out = [0f32; WIDTH];
            ggml_backend_tensor_get(case.y, out.as_mut_ptr().cast(), 0, size_of_val(&out));
            assert_eq!(out, [(case.layers + 1) as f32; WIDTH]);
        } else {
            assert!(was_cancelled, "computing failed with {status}");
        }
    }
}

/// Graphs of 1, 4, 9, 16 and 25 layers, and their context.
///
/// # Safety
/// The context is freed once, after the last use of the graphs.
unsafe fn build(ways: u64) -> (*mut ggml_context, Vec<Case>) {
    // SAFETY: the context has room for the graphs, which belong to it.
    unsafe {
        let c = ggml_init(ggml_init_params { mem_size: 1 << 19, mem_buffer: null_mut(), no_alloc: true });
        let cases = (1..=5usize)
            .map(|n| {
                let layers = n * n;
                let x = ggml_new_tensor_1d(c, ggml_type::GGML_TYPE_F32 as i32, WIDTH as i64);
                ggml_set_input(x);
                let graph = ggml_new_graph_custom(c, 256, false);
                let way = |i: usize| (ways.rotate_left(7 * (n + i) as u32) % 251) as u8;
                let y = (0..layers).fold(x, |y, i| layer(c, graph, x, y, way(i)));
                ggml_set_output(y);
                Case { graph, x, y, layers }
            })
            .collect();
        (c, cases)
    }
}

fn main_of(calls: Vec<Call>, ways: u64, fresh: bool) {
    // SAFETY: objects of the library, used before they are freed, and freed once. Handles of one scheduler are not used
    // with another.
    unsafe {
        let cpus = [Cpu::new(0, 1, fresh), Cpu::new(1, 1 + i32::from(fresh), fresh)];
        let mut backends = [own(!0), cpus[0].backend, cpus[1].backend];
        backends[1..].iter().for_each(|&b| ggml_backend_cpu_set_abort_callback(b, Some(impatient), null_mut()));
        let (mut c, mut cases) = build(ways);
        let make = |backends: &mut [_; 3], parallel, offload| {
            ggml_backend_sched_new(backends.as_mut_ptr(), null_mut(), 3, 64, parallel, offload)
        };
        let reset = |sched, cases: &[Case]| {
            ggml_backend_sched_reset(sched);
            forget(cases);
        };
        let mut sched = make(&mut backends, false, false);
        for call in calls.into_iter().take(40) {
            let case = |i: u8| &cases[usize::from(i) % cases.len()];
            match call {
                Call::New { parallel, offload, computes } => {
                    // The scheduler's copies are sources of the graphs that it has split, and are freed with it: hosts
                    // build these graphs again.
                    ggml_backend_sched_free(sched);
                    ggml_free(c);
                    (c, cases) = build(ways);
                    own(computes);
                    sched = make(&mut backends, parallel, offload);
                }
                Call::Reserve(i) => {
                    reset(sched, &cases);
                    assert!(ggml_backend_sched_reserve(sched, case(i).graph));
                }
                Call::Split(i) => ggml_backend_sched_split_graph(sched, case(i).graph),
                Call::Alloc(i) => {
                    ggml_backend_sched_alloc_graph(sched, case(i).graph);
                }
                Call::Compute(i, patience) => {
                    reset(sched, &cases);
                    compute(sched, case(i), patience);
                }
                Call::ComputeAsync(i) => {
                    ggml_backend_sched_graph_compute_async(sched, case(i).graph);
                }
                Call::Reset => reset(sched, &cases),
                Call::Synchronize => ggml_backend_sched_synchronize(sched),
                Call::Place(i, node, backend) => {
                    let case = case(i);
                    let node = ggml_graph_node(case.graph, i32::from(node) % case.layers as i32);
                    ggml_backend_sched_set_tensor_backend(sched, node, backends[usize::from(backend) % 3]);
                }
            }
        }
        reset(sched, &cases);
        compute(sched, &cases[2], 0);
        ggml_backend_sched_free(sched);
        ggml_free(c);
    }
}

fuzz_target!(|data: &[u8]| {
    quiet_with_errors();
    let mut u = Unstructured::new(data);
    if let Ok(calls) = Vec::arbitrary(&mut u) {
        let ways = data.iter().fold(1u64, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        main_of(calls, ways, is_fresh(data));
    }
});
