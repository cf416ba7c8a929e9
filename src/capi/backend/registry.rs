//! The registry of backends, and loading them from libraries.

use crate::abi::alloc::*;
use crate::abi::backend::*;
use crate::abi::raw;
use crate::backend::registry::{self, Builtin};
use crate::backend::{BackendBox, DeviceRef, RegRef, dl};
use crate::capi::convert::{self, need, optional};
use crate::environment;
use crate::guard::guarded;
use crate::{ggml_assert, log_error};
use std::ffi::c_char;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The built-in backends, in the order of their registration.
const BUILTINS: &[Builtin] = &[
    #[cfg(feature = "vulkan")]
    Builtin { name: "Vulkan", reg: crate::capi::vulkan::reg, without_devices: false },
    Builtin { name: "RPC", reg: || Some(crate::capi::rpc::reg()), without_devices: true },
    Builtin { name: "CPU", reg: || Some(cpu()), without_devices: false },
];

/// The CPU backend.
pub(in crate::capi) fn cpu() -> RegRef {
    crate::cpu::reg()
}

/// Gives the registry, a lower layer, the list of built-in backends. Called before every use of the registry. The first
/// call also loads the module that GGML_BACKEND_PATH names, as hosts built for a library with built-in backends never
/// call `load_all`, and connects to the RPC servers that GGML_RS_RPC_SERVERS names.
pub(in crate::capi) fn prepare() {
    static LOOKED: AtomicBool = AtomicBool::new(false);
    registry::set_builtins(BUILTINS, || Some(cpu()));
    // A flag and no `Once`: the module's own code may use the registry while it is loaded.
    if LOOKED.load(Ordering::Relaxed) || LOOKED.swap(true, Ordering::Relaxed) {
        return;
    }
    environment::warn_once();
    if let Some(path) = environment::BACKEND_PATH.filled() {
        // SAFETY: the host, or its user, vouches for the library.
        unsafe { dl::load(Path::new(&path), false) };
    }
    // For hosts that have no option for servers.
    let servers = environment::RPC_SERVERS.os().unwrap_or_default();
    for endpoint in servers.to_string_lossy().split(',').filter(|e| !e.is_empty()) {
        crate::capi::rpc::add_server(endpoint).into_iter().for_each(registry::register);
    }
}

fn device_out(device: Option<DeviceRef>) -> ggml_backend_dev_t {
    device.map_or(std::ptr::null_mut(), DeviceRef::as_ptr)
}

fn backend_out(backend: Option<BackendBox>) -> ggml_backend_t {
    backend.map_or(std::ptr::null_mut(), BackendBox::into_raw)
}

/// Registers a backend and its devices. Does nothing for NULL, or if it is registered already.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_register(reg: ggml_backend_reg_t) {
    prepare();
    optional!(reg);
    if let Some(reg) = reg {
        registry::register(reg);
    }
}

/// Registers one device. Does nothing if it is registered already.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_device_register(device: ggml_backend_dev_t) {
    prepare();
    need!(device);
    registry::register_device(device)
}

/// Returns the number of registered backends.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_count() -> usize {
    prepare();
    registry::reg_count()
}

/// Returns backend `index`, in the order of registration.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_get(index: usize) -> ggml_backend_reg_t {
    prepare();
    let reg = registry::reg(index);
    ggml_assert!(reg.is_some(), "index < ggml_backend_reg_count()");
    reg.map_or(std::ptr::null_mut(), RegRef::as_ptr)
}

/// Returns the first backend with this name, ignoring case, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_reg_by_name(name: *const c_char) -> ggml_backend_reg_t {
    prepare();
    optional!(name);
    let reg = name.and_then(|n| registry::reg_by_name(n.to_bytes()));
    reg.map_or(std::ptr::null_mut(), RegRef::as_ptr)
}

/// Returns the number of registered devices.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_count() -> usize {
    prepare();
    registry::device_count()
}

/// Returns device `index`, in the order of registration.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_get(index: usize) -> ggml_backend_dev_t {
    prepare();
    let device = registry::device(index);
    ggml_assert!(device.is_some(), "index < ggml_backend_dev_count()");
    device_out(device)
}

/// Returns the first device with this name, ignoring case, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_by_name(name: *const c_char) -> ggml_backend_dev_t {
    prepare();
    optional!(name);
    device_out(name.and_then(|n| registry::device_by_name(n.to_bytes())))
}

/// Returns the first device of this type, or NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_dev_by_type(ty: raw::ggml_backend_dev_type) -> ggml_backend_dev_t {
    prepare();
    device_out(registry::device_by_kind(ty))
}

/// Creates a backend on the device with this name (see `ggml_backend_dev_init`). Returns NULL if there is none, or on
/// failure.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_init_by_name(name: *const c_char, params: *const c_char) -> ggml_backend_t {
    prepare();
    optional!(name, params);
    backend_out(name.and_then(|n| registry::init_by_name(n.to_bytes(), params)))
}

/// Creates a backend on the first device of this type. Returns NULL if there is none, or on failure.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_init_by_type(
    ty: raw::ggml_backend_dev_type,
    params: *const c_char,
) -> ggml_backend_t {
    prepare();
    optional!(params);
    backend_out(registry::init_by_kind(ty, params))
}

/// Creates a backend on the best device: a GPU with its own memory, else an integrated GPU, else the CPU.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_init_best() -> ggml_backend_t {
    prepare();
    backend_out(registry::init_best())
}

/// Loads a backend from a shared library and registers it. The library must export `ggml_backend_init`, be able to
/// run on this machine, and have the same version of the vtables; otherwise logs an error and returns NULL. A backend
/// that is registered already is returned as it is.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_load(path: *const c_char) -> ggml_backend_reg_t {
    prepare();
    optional!(path);
    let Some(file) = convert::path(path) else {
        log_error!("ggml_backend_load: no path");
        return std::ptr::null_mut();
    };
    // SAFETY: the host vouches for the library.
    unsafe { dl::load(file, false) }.map_or(std::ptr::null_mut(), RegRef::as_ptr)
}

/// Removes a backend and its devices from the registry, and closes its library. Nothing of it may be used afterwards.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_unload(reg: ggml_backend_reg_t) {
    prepare();
    need!(reg);
    // SAFETY: the header forbids any later use of what the backend owns: devices, buffers, functions.
    unsafe { registry::unload(reg) };
}

/// Loads the best module of each known backend from the folder of the executable and from the current folder, and the
/// module that the environment variable GGML_BACKEND_PATH names (also loaded when the registry is first used). Skips
/// backends that are built in.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_load_all() {
    prepare();
    // SAFETY: the host vouches for the libraries.
    unsafe { dl::load_all(None) }
}

/// As `ggml_backend_load_all`, but only from the folder `dir_path`. NULL: the usual folders.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_load_all_from_path(dir_path: *const c_char) {
    prepare();
    optional!(dir_path);
    // SAFETY: the host vouches for the libraries.
    unsafe { dl::load_all(convert::path(dir_path)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::backend::{BackendRef, tensor_io};
    use crate::tensor::Context;

    #[test]
    fn the_cpu_is_built_in_and_computes() {
        // SAFETY: only objects made here are used, and freed once.
        unsafe {
            let device = ggml_backend_dev_by_type(ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU as i32);
            assert_eq!(device, ggml_backend_dev_by_name(c"cpu".as_ptr()));
            assert_eq!(ggml_backend_reg_by_name(c"CPU".as_ptr()), cpu().as_ptr());
            assert!(ggml_backend_dev_by_name(std::ptr::null()).is_null());
            assert!(ggml_backend_load(std::ptr::null()).is_null());
            let backend = BackendBox::own(BackendRef::from_ptr(ggml_backend_init_best()).unwrap());
            let mut ctx = Context::with_size(1 << 16, true).unwrap();
            let a = ctx.new_tensor(GGML_TYPE_F32, &[3]).unwrap();
            let sum = ctx.new_tensor(GGML_TYPE_F32, &[3]).unwrap();
            sum.set_op(crate::abi::ggml::ggml_op::GGML_OP_ADD);
            sum.set_src(0, Some(a));
            sum.set_src(1, Some(a));
            let mut list = [a.as_ptr(), sum.as_ptr()];
            let _buffer = backend.default_buffer_type().alloc_buffer_n(&mut list).unwrap().unwrap();
            let bytes = |v: [f32; 3]| v.map(f32::to_ne_bytes).concat();
            tensor_io::set_bytes(a, &bytes([1.0, 2.0, -3.5]), 0);
            let graph = crate::graph::build::new(&mut ctx, 8, false).unwrap();
            graph.expand(sum, true);
            assert_eq!(backend.graph_compute(graph), crate::abi::ggml::ggml_status::GGML_STATUS_SUCCESS);
            let mut out = vec![0; 12];
            tensor_io::get_bytes(sum, &mut out, 0);
            assert_eq!(out, bytes([2.0, 4.0, -7.0]));
        }
    }
}
