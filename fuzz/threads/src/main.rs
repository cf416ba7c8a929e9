//! Threads under stress, as hosts use them, for ThreadSanitizer: `scripts/sanitizers.py` builds and runs this with it.
//!
//!     libggml-rs-threads           pools, graphs, numbers of threads, pauses and stops that change all the time: must
//!                                  be silent
//!     libggml-rs-threads rpc       an RPC server and hosts that share a connection to it: must be silent
//!     libggml-rs-threads tensor    a seeded race: two computations write one tensor at once. Must be reported
//!     libggml-rs-threads region    a seeded race: two threads of one computation write one number. Must be reported

mod rpc;

use ggml::abi::cpu::ggml_cplan;
use ggml::abi::ggml::{ggml_context, ggml_init_params, ggml_status, ggml_tensor, ggml_threadpool};
use ggml::abi::graph::ggml_cgraph;
use ggml::capi::cpu::*;
use ggml::capi::ggml::*;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI64, Ordering};

const F32: c_int = 0;
const N: i64 = 32;

/// A graph of products, sums and soft maxima, in a context of its own.
struct Net {
    ctx: *mut ggml_context,
    graph: *mut ggml_cgraph,
    out: *mut ggml_tensor,
}
// SAFETY: a net is used by one thread at a time, but for the seeded race.
unsafe impl Send for Net {}
// SAFETY: as above.
unsafe impl Sync for Net {}

impl Net {
    fn new(layers: usize) -> Self {
        // SAFETY: the library's own objects, freed in `drop`.
        unsafe {
            let ctx =
                ggml_init(ggml_init_params { mem_size: 1 << 20, mem_buffer: std::ptr::null_mut(), no_alloc: false });
            let tensor = |seed: usize| {
                let t = ggml_new_tensor_2d(ctx, F32, N, N);
                for i in 0..(N * N) as usize {
                    (*t).data.cast::<f32>().add(i).write(((i * 7 + seed) % 13) as f32 / 13.0 - 0.5);
                }
                t
            };
            let w = tensor(3);
            let mut x = tensor(5);
            for _ in 0..layers {
                let y = ggml_mul_mat(ctx, w, x);
                x = ggml_soft_max(ctx, ggml_add(ctx, x, y));
            }
            let graph = ggml_new_graph(ctx);
            ggml_build_forward_expand(graph, x);
            Self { ctx, graph, out: x }
        }
    }

    fn compute(&self, pool: *mut ggml_threadpool, n_threads: c_int, stop_after: Option<i64>) -> c_int {
        let left = AtomicI64::new(stop_after.unwrap_or(i64::MAX));
        // SAFETY: the net is valid; the work memory and the counter live until the computation has ended.
        unsafe {
            let mut plan: ggml_cplan = ggml_graph_plan(self.graph, n_threads, pool);
            let mut work = vec![0u8; plan.work_size];
            plan.work_data = work.as_mut_ptr();
            plan.abort_callback = Some(stop);
            plan.abort_callback_data = (&raw const left).cast_mut().cast();
            ggml_graph_compute(self.graph, &mut plan)
        }
    }

    fn bits(&self) -> Vec<u32> {
        // SAFETY: the tensor has data in its context.
        unsafe { std::slice::from_raw_parts((*self.out).data.cast::<u32>(), (N * N) as usize) }.to_vec()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed once.
        unsafe { ggml_free(self.ctx) }
    }
}

unsafe extern "C" fn stop(left: *mut c_void) -> bool {
    // SAFETY: the counter of `compute`.
    unsafe { &*left.cast::<AtomicI64>() }.fetch_sub(1, Ordering::Relaxed) == 1
}

fn pool(n: c_int, poll: u32) -> *mut ggml_threadpool {
    // SAFETY: plain parameters.
    unsafe {
        let mut params = ggml_threadpool_params_default(n);
        params.poll = poll;
        ggml_threadpool_new(&mut params)
    }
}

fn expect(what: bool, text: &str) {
    if !what {
        eprintln!("FAIL {text}");
        std::process::exit(1);
    }
}

/// One host: graphs that are built and freed, with every number of threads, some of them stopped, in a pool that is
/// paused and resumed.
fn host(seed: usize, rounds: usize, want: &[u32], alone: bool) {
    let own = pool(5, if seed % 2 == 0 { 50 } else { 0 });
    for round in 0..rounds {
        let net = Net::new(4);
        let n_threads = 1 + ((round * 7 + seed) % 5) as c_int;
        // SAFETY: the pool lives until the end.
        unsafe {
            match round % 16 {
                3 => ggml_threadpool_pause(own),
                7 => {
                    ggml_threadpool_pause(own);
                    ggml_threadpool_resume(own);
                }
                _ => {}
            }
        }
        // Every fourth round, without a pool of the host's own. The library guards its pools for that with a lock of
        // the standard library, which is not built with the sanitizer: with hosts at the same time, accesses under that
        // lock would be reported.
        let at = if round % 4 == 3 && alone { std::ptr::null_mut() } else { own };
        // SAFETY: a valid graph.
        let nodes = i64::from(unsafe { ggml_graph_n_nodes(net.graph) });
        let stop_after = (round % 3 == 2).then_some(1 + round as i64 % nodes);
        let status = net.compute(at, n_threads, stop_after);
        match stop_after {
            Some(_) => expect(status == ggml_status::GGML_STATUS_ABORTED as c_int, "a stopped graph says so"),
            None => {
                expect(status == ggml_status::GGML_STATUS_SUCCESS as c_int, "a graph is computed");
                expect(net.bits() == want, "the result is the same every time");
            }
        }
        // The graph is freed here: no thread may access it any more.
    }
    // SAFETY: made above, freed once.
    unsafe { ggml_threadpool_free(own) };
}

/// Three threads at once, joined one by one: the end of a scope is a lock of the standard library, a join is one of the
/// system.
fn together(f: &(dyn Fn(usize) + Sync)) {
    std::thread::scope(|s| {
        let all: Vec<_> = (1..4).map(|seed| s.spawn(move || f(seed))).collect();
        all.into_iter().for_each(|t| expect(t.join().is_ok(), "no thread panics"));
    });
}

fn stress(rounds: usize) {
    // Objects that are made once for the process are made before there are threads: the standard library's locks, which
    // guard them, are not built with the sanitizer.
    let net = Net::new(4);
    expect(net.compute(std::ptr::null_mut(), 1, None) == 0, "a graph is computed by one thread");
    let want = net.bits();
    host(0, rounds, &want, true);
    together(&|seed| host(seed, rounds / 2, &want, false));
    // Hosts that share a pool: one of them has it, the others compute alone.
    let shared = pool(3, 50).expose_provenance();
    together(&|_| {
        for _ in 0..rounds / 4 {
            let net = Net::new(2);
            let pool = std::ptr::with_exposed_provenance_mut(shared);
            expect(net.compute(pool, 3, None) == 0, "a graph is computed in a shared pool");
        }
    });
    // SAFETY: made above, freed once.
    unsafe { ggml_threadpool_free(std::ptr::with_exposed_provenance_mut(shared)) };
}

/// Two computations of one graph at once, which is forbidden to hosts.
fn race_of_computations() {
    let net = Net::new(4);
    net.compute(std::ptr::null_mut(), 1, None);
    together(&|_| {
        for _ in 0..50 {
            net.compute(std::ptr::null_mut(), 1, None);
        }
    });
}

unsafe extern "C" fn count(_: *mut ggml_tensor, _: *const ggml_tensor, _: c_int, _: c_int, counter: *mut c_void) {
    // SAFETY: the counter of `race_of_a_region`; that all threads write it is the point.
    unsafe { *counter.cast::<u64>() += 1 }
}

/// A function of the host that writes one number from all threads, without order.
fn race_of_a_region() {
    let mut counter = 0u64;
    // SAFETY: as in `Net`.
    unsafe {
        let ctx = ggml_init(ggml_init_params { mem_size: 1 << 20, mem_buffer: std::ptr::null_mut(), no_alloc: false });
        let x = ggml_new_tensor_2d(ctx, F32, N, N);
        let y = ggml_map_custom1(ctx, x, Some(count), -1, (&raw mut counter).cast());
        let graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, y);
        let net = Net { ctx, graph, out: y };
        for _ in 0..200 {
            net.compute(std::ptr::null_mut(), 4, None);
        }
    }
    eprintln!("counted to {counter}");
}

fn main() {
    let arg = std::env::args().nth(1).unwrap_or_default();
    match arg.as_str() {
        "tensor" => race_of_computations(),
        "region" => race_of_a_region(),
        "rpc" => rpc::run(),
        n => stress(n.parse().unwrap_or(400)),
    }
    println!("done");
}
