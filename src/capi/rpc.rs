//! ggml-rpc.h: devices of other machines, and serving devices of this one.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::backend::author::stream_author;
use crate::backend::{BackendBox, DeviceRef, RegRef};
use crate::capi::convert::{self, objects, optional, outputs};
use crate::cpu;
use crate::environment;
use crate::error::{Result, invalid};
use crate::graph::GraphRef;
use crate::guard::guarded;
use crate::log_error;
use crate::rpc::server::{Checks, Deadline};
use crate::rpc::{client, server};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// The functions that hosts look up by their names.
fn procs(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        b"ggml_backend_rpc_add_server" => ggml_backend_rpc_add_server as *const c_void,
        b"ggml_backend_rpc_start_server" => ggml_backend_rpc_start_server as *const c_void,
        _ => std::ptr::null(),
    }
}

/// The registration of all servers.
pub(in crate::capi) fn reg() -> RegRef {
    client::reg(procs)
}

fn text(p: Option<&CStr>) -> Result<&str> {
    let endpoint = p.ok_or_else(|| invalid!("endpoint is NULL"))?;
    endpoint.to_str().map_err(|_| invalid!("the endpoint is no text in UTF-8"))
}

/// The value, or `None` after a line in the log.
fn logged<T>(function: &str, result: Result<T>) -> Option<T> {
    result.map_err(|e| log_error!("{function}: {e}")).ok()
}

/// The registration of a server with its devices; `None`, after a line in the log, if it cannot be reached.
pub(in crate::capi) fn add_server(endpoint: &str) -> Option<RegRef> {
    logged("ggml_backend_rpc_add_server", client::add_server(endpoint, procs, cpu::check::accepts))
}

/// Device `index` of a server.
fn found(endpoint: Option<&CStr>, index: u32) -> Result<DeviceRef> {
    let endpoint = text(endpoint)?;
    let reg = client::add_server(endpoint, procs, cpu::check::accepts)?;
    let count = reg.device_count();
    let device = (index as usize) < count;
    let device = device.then(|| reg.device(index as usize)).flatten();
    device.ok_or_else(|| invalid!("the server {endpoint} has {count} devices, and no device {index}"))
}

/// Creates a backend on one device of the server at `endpoint` ("host:port"). Free it with `ggml_backend_free`. Returns
/// NULL on failure.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_rpc_init(endpoint: *const c_char, device: u32) -> ggml_backend_t {
    environment::warn_once();
    optional!(endpoint);
    let backend = logged("ggml_backend_rpc_init", found(endpoint, device)).and_then(|d| d.init(None));
    backend.map_or(std::ptr::null_mut(), BackendBox::into_raw)
}

/// Returns whether this is a backend of this kind. False for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_is_rpc(backend: ggml_backend_t) -> bool {
    optional!(backend);
    backend.is_some_and(|b| stream_author::<client::RpcStream>(&b).is_some())
}

/// Returns the buffer type of one device of a server. NULL if it cannot be reached. The `data` of its tensors is not a
/// host address.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_rpc_buffer_type(
    endpoint: *const c_char,
    device: u32,
) -> ggml_backend_buffer_type_t {
    environment::warn_once();
    optional!(endpoint);
    let buft = logged("ggml_backend_rpc_buffer_type", found(endpoint, device)).and_then(DeviceRef::buffer_type);
    buft.map_or(std::ptr::null_mut(), |b| b.as_ptr())
}

/// Writes the free and the total memory of one device of a server, in bytes; 0 if it cannot be reached.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_rpc_get_device_memory(
    endpoint: *const c_char,
    device: u32,
    free: *mut usize,
    total: *mut usize,
) {
    environment::warn_once();
    optional!(endpoint);
    outputs!(free, total);
    let memory = text(endpoint).and_then(|e| client::server(e).memory(device));
    let memory = logged("ggml_backend_rpc_get_device_memory", memory).unwrap_or((0, 0));
    free.put(memory.0);
    total.put(memory.1);
}

/// Serves `n_devices` devices to other machines, until the process ends; returns only if it cannot. Caches weights in
/// the folder `cache_dir`, unless it is NULL. The environment variable GGML_RPC_KEY_FILE names the key that clients
/// must have, and `ggml_rs_set_rpc_server_limit` of ggml-rs.h sets limits: docs/DISTRIBUTED.md.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_rpc_start_server(
    endpoint: *const c_char,
    cache_dir: *const c_char,
    n_threads: usize,
    n_devices: usize,
    devices: *mut ggml_backend_dev_t,
) {
    environment::warn_once();
    optional!(endpoint, cache_dir);
    objects!(n_devices; devices);
    let open = move |device: DeviceRef, deadline: &Arc<Deadline>| open(device, n_threads, deadline);
    let checks = checks(n_threads);
    let start = |endpoint| server::start(endpoint, convert::path(cache_dir), devices, Box::new(open), checks);
    logged("ggml_backend_rpc_start_server", text(endpoint).and_then(start));
}

/// What the CPU backend knows about graphs, for a server.
pub(crate) fn checks(n_threads: usize) -> Checks {
    let scratch = move |device: DeviceRef, graph: GraphRef| {
        let is_cpu = device == cpu::device::device();
        if is_cpu { cpu::plan::Plan::of(graph.nodes(), n_threads).work_size() as u64 } else { 0 }
    };
    Checks { node: cpu::check::accepts, scratch: Box::new(scratch) }
}

/// A stream of a server.
pub(crate) fn open(device: DeviceRef, n_threads: usize, deadline: &Arc<Deadline>) -> Option<BackendBox> {
    let backend = device.init(None)?;
    set_n_threads(&backend, n_threads);
    set_deadline(&backend, deadline);
    Some(backend)
}

/// Sets the number of threads, if the backend has threads.
fn set_n_threads(backend: &BackendBox, n: usize) {
    let reg = backend.device().reg();
    let Some(address) = reg.and_then(|reg| reg.proc_address(c"ggml_backend_set_n_threads")) else { return };
    // SAFETY: the header gives functions of this name this type.
    let set: ggml_backend_set_n_threads_t = unsafe { std::mem::transmute(address.as_ptr()) };
    if let Some(set) = set {
        // SAFETY: **the vtable contract**: the function is of the backend's own registration.
        unsafe { set(backend.as_ptr(), c_int::try_from(n).unwrap_or(c_int::MAX)) };
    }
}

/// The abort callback of a server's streams.
unsafe extern "C" fn is_over(deadline: *mut c_void) -> bool {
    // SAFETY: `set_deadline` passed the address of a deadline that lives longer than the stream which calls this.
    unsafe { &*deadline.cast::<Deadline>() }.is_over()
}

/// Stops the graphs of a backend at the deadline, if the backend has an abort callback.
fn set_deadline(backend: &BackendBox, deadline: &Arc<Deadline>) {
    let reg = backend.device().reg();
    let Some(address) = reg.and_then(|reg| reg.proc_address(c"ggml_backend_set_abort_callback")) else { return };
    // SAFETY: the header gives functions of this name this type.
    let set: ggml_backend_set_abort_callback_t = unsafe { std::mem::transmute(address.as_ptr()) };
    if let Some(set) = set {
        let data = Arc::as_ptr(deadline).cast_mut().cast();
        // SAFETY: **the vtable contract**: the function is of the backend's own registration. `Open` says that the
        // deadline lives longer.
        unsafe { set(backend.as_ptr(), Some(is_over), data) };
    }
}

/// Returns the registration of all servers. It has no devices: those of a server come with
/// `ggml_backend_rpc_add_server`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_rpc_reg() -> ggml_backend_reg_t {
    reg().as_ptr()
}

/// Returns a registration with the devices of one server, for the host to register. NULL if it cannot be reached.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_rpc_add_server(endpoint: *const c_char) -> ggml_backend_reg_t {
    optional!(endpoint);
    let endpoint = logged("ggml_backend_rpc_add_server", text(endpoint));
    endpoint.and_then(add_server).map_or(std::ptr::null_mut(), RegRef::as_ptr)
}
