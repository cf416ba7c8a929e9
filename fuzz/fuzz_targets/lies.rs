//! A foreign backend whose functions return what the input says: sizes, alignments, names, statuses, kinds of devices,
//! and whether it can do something. Its memory and its objects are real. A scheduler over it and the CPU must give
//! right results or fail.
#![no_main]

use ggml::abi::alloc::*;
use ggml::abi::backend::*;
use ggml::abi::backend_impl::*;
use ggml::abi::ggml::{ggml_init_params, ggml_status, ggml_tensor, ggml_type};
use ggml::abi::graph::ggml_cgraph;
use ggml::capi::alloc::ggml_backend_alloc_ctx_tensors;
use ggml::capi::backend::*;
use ggml::capi::backend_impl::ggml_backend_buffer_init;
use ggml::capi::cpu::{ggml_graph_compute, ggml_graph_plan};
use ggml::capi::ggml::*;
use ggml::capi::rs::{ggml_rs_sched_report, ggml_rs_string_free};
use libfuzzer_sys::fuzz_target;
use libggml_rs_fuzz::{Cpu, is_fresh};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

thread_local! {
    /// The return values to come.
    static ANSWERS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The next byte; 0, for an honest result, if there are no more.
fn next() -> u8 {
    ANSWERS.with_borrow_mut(|a| a.pop().unwrap_or(0))
}

/// The honest size, mostly.
fn size(honest: usize) -> usize {
    match next() {
        1 => 0,
        2 => 1,
        3 => 3,
        4 => honest / 2,
        5 => honest.wrapping_add(1),
        6 => usize::MAX,
        7 => 1 << 62,
        8 => honest * 2,
        _ => honest,
    }
}

fn yes(honest: bool) -> bool {
    honest ^ (next() == 1)
}

fn name() -> *const c_char {
    match next() {
        1 => null(),
        2 => c"".as_ptr(),
        3 => c"\x1b[31mred\n\"<script>".as_ptr(),
        4 => c"CPU".as_ptr(),
        _ => c"Liar".as_ptr(),
    }
}

fn status(honest: ggml_status) -> i32 {
    match next() {
        1 => ggml_status::GGML_STATUS_FAILED as i32,
        2 => ggml_status::GGML_STATUS_ABORTED as i32,
        3 => 77,
        4 => i32::MIN,
        _ => honest as i32,
    }
}

unsafe extern "C" fn buft_name(_: ggml_backend_buffer_type_t) -> *const c_char {
    name()
}

/// Bytes before and after the memory of a buffer, which must not be used.
const MARGIN: usize = 4096;
const MOST: usize = 1 << 20;

unsafe extern "C" fn alloc_buffer(buft: ggml_backend_buffer_type_t, size: usize) -> ggml_backend_buffer_t {
    if next() == 1 || size > MOST {
        return null_mut();
    }
    let block = vec![0xa5u8; size + 2 * MARGIN].into_boxed_slice();
    let context = Box::into_raw(Box::new(block));
    let iface = ggml_backend_buffer_i {
        free_buffer: Some(free_buffer),
        get_base: Some(get_base),
        init_tensor: if next() == 1 { Some(init_tensor) } else { None },
        memset_tensor: Some(memset_tensor),
        set_tensor: Some(set_tensor),
        get_tensor: Some(get_tensor),
        set_tensor_2d: None,
        get_tensor_2d: None,
        cpy_tensor: if next() == 1 { Some(cpy_tensor) } else { None },
        clear: Some(clear),
        reset: None,
        set_tensor_n: None,
        get_tensor_n: None,
        cpy_tensor_n: None,
    };
    // SAFETY: functions for a context that is a boxed block.
    unsafe { ggml_backend_buffer_init(buft, iface, context.cast(), size) }
}

type Block = Box<[u8]>;

unsafe extern "C" fn free_buffer(buffer: ggml_backend_buffer_t) {
    // SAFETY: made in `alloc_buffer`.
    let block = unsafe { Box::from_raw((*buffer).context.cast::<Block>()) };
    let (n, whole) = (block.len(), |part: &[u8]| part.iter().all(|b| *b == 0xa5));
    assert!(whole(&block[..MARGIN - 64]) && whole(&block[n - MARGIN + 64..]), "somebody has written beside a buffer");
}

unsafe extern "C" fn get_base(buffer: ggml_backend_buffer_t) -> *mut c_void {
    // SAFETY: as above.
    let block = unsafe { &mut *(*buffer).context.cast::<Block>() };
    let at = block.as_mut_ptr().wrapping_add(MARGIN);
    match next() {
        1 => null_mut(),
        _ => at.wrapping_sub(at as usize % 64).cast(),
    }
}

unsafe extern "C" fn init_tensor(_: ggml_backend_buffer_t, _: *mut ggml_tensor) -> c_int {
    status(ggml_status::GGML_STATUS_SUCCESS)
}

unsafe extern "C" fn memset_tensor(
    _: ggml_backend_buffer_t,
    t: *mut ggml_tensor,
    value: u8,
    offset: usize,
    size: usize,
) {
    // SAFETY: the library has checked the range.
    unsafe { (*t).data.cast::<u8>().add(offset).write_bytes(value, size) }
}
unsafe extern "C" fn set_tensor(
    _: ggml_backend_buffer_t,
    t: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: as above.
    unsafe { (*t).data.cast::<u8>().add(offset).copy_from(data.cast(), size) }
}
unsafe extern "C" fn get_tensor(
    _: ggml_backend_buffer_t,
    t: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: as above.
    unsafe { (*t).data.cast::<u8>().add(offset).copy_to(data.cast(), size) }
}
unsafe extern "C" fn cpy_tensor(_: ggml_backend_buffer_t, _: *const ggml_tensor, _: *mut ggml_tensor) -> bool {
    false
}
unsafe extern "C" fn clear(buffer: ggml_backend_buffer_t, value: u8) {
    // SAFETY: as above.
    let (block, size) = unsafe { (&mut *(*buffer).context.cast::<Block>(), (*buffer).size) };
    block[MARGIN..][..size].fill(value);
}

unsafe extern "C" fn alignment(_: ggml_backend_buffer_type_t) -> usize {
    size(64)
}
unsafe extern "C" fn max_size(_: ggml_backend_buffer_type_t) -> usize {
    size(MOST)
}
unsafe extern "C" fn alloc_size(_: ggml_backend_buffer_type_t, t: *const ggml_tensor) -> usize {
    // SAFETY: a valid tensor. A buffer type with a smaller size than the data breaks its promise: hosts rely on it.
    let honest = unsafe { ggml_nbytes(t) };
    size(honest).max(honest)
}
unsafe extern "C" fn is_host(_: ggml_backend_buffer_type_t) -> bool {
    yes(true)
}

unsafe extern "C" fn dev_text(_: ggml_backend_dev_t) -> *const c_char {
    name()
}
unsafe extern "C" fn dev_memory(_: ggml_backend_dev_t, free: *mut usize, total: *mut usize) {
    // SAFETY: the library passes places for both.
    unsafe { (free.write(size(MOST)), total.write(size(MOST))) };
}
unsafe extern "C" fn dev_type(_: ggml_backend_dev_t) -> c_int {
    match next() {
        1 => 99,
        2 => -1,
        3 => ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU as i32,
        4 => ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_META as i32,
        _ => ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_GPU as i32,
    }
}
unsafe extern "C" fn dev_props(dev: ggml_backend_dev_t, props: *mut ggml_backend_dev_props) {
    // SAFETY: the library passes a place for them.
    unsafe {
        ((*props).name, (*props).description, (*props).device_id) = (name(), name(), null());
        dev_memory(dev, &raw mut (*props).memory_free, &raw mut (*props).memory_total);
        (*props).r#type = dev_type(dev);
        (*props).caps = std::mem::zeroed();
        (*props).caps.r#async = yes(false);
        (*props).caps.events = yes(false);
    }
}
unsafe extern "C" fn dev_buft(_: ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
    (&raw const TYPE.0).cast_mut()
}
unsafe extern "C" fn supports_op(_: ggml_backend_dev_t, _: *const ggml_tensor) -> bool {
    yes(true)
}
unsafe extern "C" fn supports_buft(_: ggml_backend_dev_t, buft: ggml_backend_buffer_type_t) -> bool {
    // Memory of the CPU is also supported, because both are the host's.
    let own = std::ptr::eq(buft, &raw const TYPE.0);
    own || next() == 1
}
unsafe extern "C" fn offload_op(_: ggml_backend_dev_t, _: *const ggml_tensor) -> bool {
    yes(false)
}

unsafe extern "C" fn backend_name(_: ggml_backend_t) -> *const c_char {
    name()
}
unsafe extern "C" fn backend_free(_: ggml_backend_t) {}
unsafe extern "C" fn synchronize(_: ggml_backend_t) {}
/// Computes the nodes, if its result says so.
unsafe extern "C" fn graph_compute(_: ggml_backend_t, graph: *mut ggml::abi::ggml::ggml_cgraph) -> c_int {
    let graph: *mut ggml_cgraph = graph.cast();
    let said = status(ggml_status::GGML_STATUS_SUCCESS);
    if said == ggml_status::GGML_STATUS_SUCCESS as i32 {
        // SAFETY: the graph is in host memory.
        unsafe {
            let mut plan = ggml_graph_plan(graph, 1, null_mut());
            let mut work = vec![0u8; plan.work_size];
            plan.work_data = work.as_mut_ptr();
            return ggml_graph_compute(graph, &raw mut plan);
        }
    }
    said
}

struct Shared<T>(T);
// SAFETY: they are never written.
unsafe impl<T> Sync for Shared<T> {}

static TYPE: Shared<ggml_backend_buffer_type> = Shared(ggml_backend_buffer_type {
    iface: ggml_backend_buffer_type_i {
        get_name: Some(buft_name),
        alloc_buffer: Some(alloc_buffer),
        alloc_buffer_n: None,
        get_alignment: Some(alignment),
        get_max_size: Some(max_size),
        get_alloc_size: Some(alloc_size),
        get_alloc_size_n: None,
        is_host: Some(is_host),
    },
    device: (&raw const DEVICE.0).cast_mut(),
    context: null_mut(),
});
static DEVICE: Shared<ggml_backend_device> = Shared(ggml_backend_device {
    iface: ggml_backend_device_i {
        get_name: Some(dev_text),
        get_description: Some(dev_text),
        get_memory: Some(dev_memory),
        get_type: Some(dev_type),
        get_props: Some(dev_props),
        init_backend: None,
        get_buffer_type: Some(dev_buft),
        get_host_buffer_type: None,
        buffer_from_host_ptr: None,
        supports_op: Some(supports_op),
        supports_buft: Some(supports_buft),
        offload_op: Some(offload_op),
        event_new: None,
        event_free: None,
        event_synchronize: None,
    },
    reg: null_mut(),
    context: null_mut(),
});

fn backend() -> ggml_backend {
    ggml_backend {
        guid: null_mut(),
        iface: ggml_backend_i {
            get_name: Some(backend_name),
            free: Some(backend_free),
            set_tensor_async: None,
            get_tensor_async: None,
            set_tensor_2d_async: None,
            get_tensor_2d_async: None,
            cpy_tensor_async: None,
            synchronize: if next() == 1 { Some(synchronize) } else { None },
            graph_plan_create: None,
            graph_plan_free: None,
            graph_plan_update: None,
            graph_plan_compute: None,
            graph_compute: Some(graph_compute),
            event_record: None,
            event_wait: None,
            graph_optimize: None,
        },
        device: (&raw const DEVICE.0).cast_mut(),
        context: null_mut(),
    }
}

const WIDTH: i64 = 16;

fn main_of(layers: u8, fresh: bool) {
    let mut liar = backend();
    // SAFETY: objects of the library, used before they are freed, and freed once; the device outlives the scheduler.
    unsafe {
        let f32 = ggml_type::GGML_TYPE_F32 as i32;
        let cpu = Cpu::new(0, 1, fresh);
        let mut list = [&raw mut liar, cpu.backend];
        let weights = ggml_init(ggml_init_params { mem_size: 1 << 14, mem_buffer: null_mut(), no_alloc: true });
        let c = ggml_init(ggml_init_params { mem_size: 1 << 17, mem_buffer: null_mut(), no_alloc: true });
        let w = ggml_new_tensor_1d(weights, f32, WIDTH);
        let buffer = ggml_backend_alloc_ctx_tensors(weights, &raw mut liar);
        let ones = [1f32; WIDTH as usize];
        let sched = ggml_backend_sched_new(list.as_mut_ptr(), null_mut(), 2, 128, yes(false), yes(false));
        if !sched.is_null() && !buffer.is_null() {
            ggml_backend_tensor_set(w, ones.as_ptr().cast(), 0, size_of_val(&ones));
            let x = ggml_new_tensor_1d(c, f32, WIDTH);
            ggml_set_input(x);
            let n = i32::from(layers % 16) + 1;
            let y = (0..n).fold(x, |y, _| ggml_add(c, y, w));
            ggml_set_output(y);
            let graph = ggml_new_graph_custom(c, 64, false);
            ggml_build_forward_expand(graph, y);
            if next() == 1 {
                ggml_backend_sched_reserve(sched, graph);
            }
            if ggml_backend_sched_alloc_graph(sched, graph) {
                ggml_rs_string_free(ggml_rs_sched_report(sched, i32::from(next() == 1)));
                for _ in 0..3 {
                    ggml_backend_tensor_set(x, ones.as_ptr().cast(), 0, size_of_val(&ones));
                    if ggml_backend_sched_graph_compute(sched, graph) == ggml_status::GGML_STATUS_SUCCESS as i32 {
                        let mut out = [0f32; WIDTH as usize];
                        ggml_backend_tensor_get(y, out.as_mut_ptr().cast(), 0, size_of_val(&out));
                        assert_eq!(out, [(n + 1) as f32; WIDTH as usize]);
                    }
                }
            }
        }
        ggml_backend_sched_free(sched);
        ggml_free(c);
        ggml_free(weights);
        ggml_backend_buffer_free(buffer);
        ggml_backend_free(&raw mut liar);
    }
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet_with_errors();
    let [layers, rest @ ..] = data else { return };
    ANSWERS.set(rest.iter().rev().copied().collect());
    main_of(*layers, is_fresh(data));
    ANSWERS.set(Vec::new());
});
