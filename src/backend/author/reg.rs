//! Families of devices of a backend author.

use super::device::{Device, leak_device};
use super::{Context, guard};
use crate::abi::backend::{ggml_backend_dev_t, ggml_backend_reg_t};
use crate::abi::backend_impl::{GGML_BACKEND_API_VERSION, ggml_backend_reg, ggml_backend_reg_i};
use crate::backend::{DeviceRef, RegRef};
use crate::ggml_abort;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// A registration: a backend with its devices.
pub trait Reg: Send + Sync + 'static {
    /// Its devices.
    type Device: Device;

    /// Name, such as "CPU".
    fn name(&self) -> &CStr;

    /// All devices; asked once.
    fn devices(&self) -> Vec<Self::Device>;

    /// Address of a function beyond the interface (`function as *const c_void`), or NULL if there is none with this name.
    fn proc_address(&self, _name: &CStr) -> *const c_void {
        std::ptr::null()
    }
}

struct Family<R> {
    author: R,
    devices: OnceLock<Vec<DeviceRef>>,
}

/// An object for a family and its devices, which lives until the process ends. To be called once per family.
pub fn publish<R: Reg>(author: R) -> RegRef {
    let object = Box::leak(Box::new(ggml_backend_reg {
        api_version: GGML_BACKEND_API_VERSION,
        iface: ggml_backend_reg_i {
            get_name: Some(name::<R>),
            get_device_count: Some(device_count::<R>),
            get_device: Some(device::<R>),
            get_proc_address: Some(proc_address::<R>),
        },
        context: Context::boxed(Family { author, devices: OnceLock::new() }),
    }));
    // SAFETY: leaked, with the shims below for a context of `Family<R>`.
    let Some(reg) = (unsafe { RegRef::from_ptr(object) }) else { unreachable!("a box is never NULL") };
    // SAFETY: as above.
    let family = unsafe { family::<R>(reg.as_ptr()) };
    let devices = guard("devices", Vec::new(), || family.author.devices());
    family.devices.get_or_init(|| devices.into_iter().map(|d| leak_device(Some(reg), d)).collect());
    reg
}

/// # Safety
/// `reg` is a valid registry of `R`.
unsafe fn family<'a, R: Reg>(reg: ggml_backend_reg_t) -> &'a Family<R> {
    // SAFETY: forwarded to the caller.
    match unsafe { Context::get((*reg).context) } {
        Some(f) => f,
        None => ggml_abort!("a function of one registry was called with another"),
    }
}

// The shims. For each: `reg` is what the vtable contract promises, a valid registry of `R`.

unsafe extern "C" fn name<R: Reg>(reg: ggml_backend_reg_t) -> *const c_char {
    // SAFETY: the contract.
    guard("get_name", c"?".as_ptr(), || unsafe { family::<R>(reg) }.author.name().as_ptr())
}

unsafe extern "C" fn device_count<R: Reg>(reg: ggml_backend_reg_t) -> usize {
    // SAFETY: the contract.
    unsafe { family::<R>(reg) }.devices.get().map_or(0, Vec::len)
}

unsafe extern "C" fn device<R: Reg>(reg: ggml_backend_reg_t, index: usize) -> ggml_backend_dev_t {
    // SAFETY: the contract.
    match unsafe { family::<R>(reg) }.devices.get().and_then(|d| d.get(index)) {
        Some(d) => d.as_ptr(),
        None => ggml_abort!("a registry has no device {index}"),
    }
}

unsafe extern "C" fn proc_address<R: Reg>(reg: ggml_backend_reg_t, name: *const c_char) -> *mut c_void {
    if name.is_null() {
        return std::ptr::null_mut();
    }
    guard("get_proc_address", std::ptr::null_mut(), || {
        // SAFETY: the contract: `name` is a valid C string.
        unsafe { family::<R>(reg).author.proc_address(CStr::from_ptr(name)) }.cast_mut()
    })
}
