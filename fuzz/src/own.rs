//! A device with memory of its own, which computes with the CPU's kernels the operations that an input selects. A
//! computation with the memory of another device is a bug.

use ggml::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
use ggml::abi::backend::{ggml_backend_dev_props, ggml_backend_dev_t, ggml_backend_dev_type};
use ggml::abi::backend_impl::*;
use ggml::abi::cpu::ggml_cplan;
use ggml::abi::ggml::{ggml_cgraph, ggml_op, ggml_status, ggml_tensor};
use ggml::capi::backend_impl::ggml_backend_buffer_init;
use ggml::capi::cpu::{ggml_graph_compute, ggml_graph_plan};
use ggml::capi::ggml::{ggml_graph_n_nodes, ggml_graph_node};
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

thread_local! {
    static COMPUTES: Cell<u8> = const { Cell::new(0) };
    static DEVICE: Cell<*mut Device> = const { Cell::new(null_mut()) };
}

/// The parts of the device: one for each thread, which lives as long as the thread.
struct Device {
    buft: ggml_backend_buffer_type,
    device: ggml_backend_device,
    backend: ggml_backend,
    guid: [u8; 16],
}

/// The operations that an input can select, a bit each.
const SELECTED: [ggml_op; 3] = [ggml_op::GGML_OP_ADD, ggml_op::GGML_OP_SCALE, ggml_op::GGML_OP_CPY];

fn is_view(op: i32) -> bool {
    use ggml_op::*;
    let views = [GGML_OP_NONE, GGML_OP_VIEW, GGML_OP_RESHAPE, GGML_OP_PERMUTE, GGML_OP_TRANSPOSE];
    views.iter().any(|&view| view as i32 == op)
}

unsafe extern "C" fn name<T>(_: *mut T) -> *const c_char {
    c"OWN".as_ptr()
}

unsafe extern "C" fn memory(_: ggml_backend_dev_t, free: *mut usize, total: *mut usize) {
    // SAFETY: the contract of the function.
    unsafe { (*free, *total) = (0, 0) };
}

unsafe extern "C" fn kind(_: ggml_backend_dev_t) -> i32 {
    ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_GPU as i32
}

unsafe extern "C" fn props(_: ggml_backend_dev_t, props: *mut ggml_backend_dev_props) {
    // SAFETY: the contract of the function; zeros are a value of it.
    unsafe {
        *props = std::mem::zeroed();
        ((*props).name, (*props).description) = (c"OWN".as_ptr(), c"OWN".as_ptr());
    }
}

unsafe extern "C" fn buffer_type(_: ggml_backend_dev_t) -> ggml_backend_buffer_type_t {
    // SAFETY: made before the device is used.
    unsafe { &raw mut (*DEVICE.get()).buft }
}

unsafe extern "C" fn supports(_: ggml_backend_dev_t, t: *const ggml_tensor) -> bool {
    // SAFETY: a valid tensor.
    let op = unsafe { (*t).op };
    is_view(op) || SELECTED.iter().position(|&s| s as i32 == op).is_some_and(|i| COMPUTES.get() >> i & 1 != 0)
}

unsafe extern "C" fn supports_type(device: ggml_backend_dev_t, buft: ggml_backend_buffer_type_t) -> bool {
    // SAFETY: the device of this thread.
    unsafe { buffer_type(device) == buft }
}

unsafe extern "C" fn alloc(buft: ggml_backend_buffer_type_t, size: usize) -> ggml_backend_buffer_t {
    // SAFETY: zeros are a value of the struct: no function; the memory lives until `free_buffer`.
    unsafe {
        let iface = ggml_backend_buffer_i {
            free_buffer: Some(free_buffer),
            get_base: Some(base),
            set_tensor: Some(set),
            get_tensor: Some(get),
            clear: Some(clear),
            ..std::mem::zeroed()
        };
        ggml_backend_buffer_init(buft, iface, libc::aligned_alloc(64, size.next_multiple_of(64) + 64), size)
    }
}

unsafe extern "C" fn free_buffer(buffer: ggml_backend_buffer_t) {
    // SAFETY: from `alloc`.
    unsafe { libc::free((*buffer).context) };
}

unsafe extern "C" fn base(buffer: ggml_backend_buffer_t) -> *mut c_void {
    // SAFETY: a valid buffer.
    unsafe { (*buffer).context }
}

unsafe extern "C" fn set(_: ggml_backend_buffer_t, t: *mut ggml_tensor, data: *const c_void, at: usize, n: usize) {
    // SAFETY: the contract of the function: a range of the tensor.
    unsafe { (*t).data.cast::<u8>().add(at).copy_from(data.cast(), n) };
}

unsafe extern "C" fn get(_: ggml_backend_buffer_t, t: *const ggml_tensor, data: *mut c_void, at: usize, n: usize) {
    // SAFETY: as above.
    unsafe { (*t).data.cast::<u8>().add(at).copy_to(data.cast(), n) };
}

unsafe extern "C" fn clear(buffer: ggml_backend_buffer_t, value: u8) {
    // SAFETY: the whole buffer.
    unsafe { (*buffer).context.cast::<u8>().write_bytes(value, (*buffer).size) };
}

unsafe extern "C" fn alignment(_: ggml_backend_buffer_type_t) -> usize {
    64
}

unsafe extern "C" fn is_host(_: ggml_backend_buffer_type_t) -> bool {
    false
}

unsafe extern "C" fn free(_: ggml_backend_t) {}

/// Whether a tensor is in this device's memory.
unsafe fn is_here(t: *const ggml_tensor) -> bool {
    // SAFETY: a valid tensor; so are its view source and its buffer.
    unsafe {
        let root = if (*t).view_src.is_null() { t } else { (*t).view_src.cast_const() };
        !(*root).buffer.is_null() && (*(*root).buffer).buft == &raw mut (*DEVICE.get()).buft
    }
}

unsafe extern "C" fn compute(_: ggml_backend_t, graph: *mut ggml_cgraph) -> i32 {
    let graph = graph.cast::<ggml::abi::graph::ggml_cgraph>();
    // SAFETY: a valid graph.
    unsafe {
        for i in 0..ggml_graph_n_nodes(graph) {
            let node = ggml_graph_node(graph, i);
            if is_view((*node).op) {
                continue;
            }
            assert!(is_here(node), "a node in the memory of another");
            let sources = (*node).src.iter().filter(|src| !src.is_null());
            sources.for_each(|&src| assert!(is_here(src), "a source in the memory of another"));
        }
        let mut plan: ggml_cplan = ggml_graph_plan(graph, 1, null_mut());
        let mut work = vec![0u64; plan.work_size / 8 + 16];
        plan.work_data = work.as_mut_ptr().cast();
        match ggml_graph_compute(graph, &raw mut plan) {
            status if status == ggml_status::GGML_STATUS_SUCCESS as i32 => status,
            status => panic!("the kernels fail with {status}"),
        }
    }
}

/// The backend of this thread's device, which computes the operations of these bits from now on.
pub fn own(computes: u8) -> ggml_backend_t {
    COMPUTES.set(computes);
    if DEVICE.get().is_null() {
        // SAFETY: zeros are a value of each of these structs: no functions, no pointers.
        let made: &mut Device = unsafe { Box::leak(Box::new(std::mem::zeroed())) };
        DEVICE.set(made);
        made.guid = *b"a device of fuzz";
        let of_device = &raw mut made.device;
        let b = &mut made.buft;
        b.device = of_device;
        b.iface.get_name = Some(name);
        b.iface.alloc_buffer = Some(alloc);
        b.iface.get_alignment = Some(alignment);
        b.iface.is_host = Some(is_host);
        let d = &mut made.device.iface;
        d.get_name = Some(name);
        d.get_description = Some(name);
        d.get_memory = Some(memory);
        d.get_type = Some(kind);
        d.get_props = Some(props);
        d.get_buffer_type = Some(buffer_type);
        d.supports_op = Some(supports);
        d.supports_buft = Some(supports_type);
        made.backend.guid = (&raw mut made.guid).cast();
        made.backend.device = of_device;
        let s = &mut made.backend.iface;
        s.get_name = Some(name);
        s.free = Some(free);
        s.graph_compute = Some(compute);
    }
    // SAFETY: made above.
    unsafe { &raw mut (*DEVICE.get()).backend }
}
