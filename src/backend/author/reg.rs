//! Families of devices of a backend author.

use super::context::Context;
use super::device::{Device, leak_device};
use super::run::guard;
use super::shim::{self, shims};
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

    /// All devices. Called once.
    fn devices(&self) -> Vec<Self::Device>;

    /// The registration that its devices belong to, if it is another one.
    fn owner(&self) -> Option<RegRef> {
        None
    }

    /// Address of a function beyond the interface (`function as *const c_void`), or NULL if there is none with this
    /// name.
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
            get_name: Some(get_name::<R>),
            get_device_count: Some(get_device_count::<R>),
            get_device: Some(get_device::<R>),
            get_proc_address: Some(get_proc_address::<R>),
        },
        context: Context::boxed(Family { author, devices: OnceLock::new() }),
    }));
    // SAFETY: leaked, with the shims below for a context of `Family<R>`.
    let Some(reg) = (unsafe { RegRef::from_ptr(object) }) else { unreachable!("a box is never NULL") };
    // SAFETY: its context is a `Family<R>`, made just now.
    let Some(family) = (unsafe { Context::<Family<R>>::get((*reg.as_ptr()).context) }) else {
        unreachable!("a family of `R`")
    };
    let devices = guard("devices", Vec::new, || family.author.devices());
    let owner = family.author.owner().unwrap_or(reg);
    crate::sys::sync::once(&family.devices, || devices.into_iter().map(|d| leak_device(Some(owner), d)).collect());
    reg
}

/// The family that a function belongs to.
type This<'c, R> = shim::This<'c, Family<R>, RegRef>;

shims! {
    fn get_name<R: Reg>(this: ggml_backend_reg_t => This<R>) -> *const c_char, c"?".as_ptr() => { this.author.name().as_ptr() }

    fn get_device_count<R: Reg>(this: ggml_backend_reg_t => This<R>) -> usize, 0 => { this.devices.get().map_or(0, Vec::len) }

    fn get_device<R: Reg>(this: ggml_backend_reg_t => This<R>, index: usize => usize) -> ggml_backend_dev_t, std::ptr::null_mut() => {
        match this.devices.get().and_then(|d| d.get(index)) {
            Some(d) => d.as_ptr(),
            None => ggml_abort!("a registry has no device {index}"),
        }
    }

    fn get_proc_address<R: Reg>(
        this: ggml_backend_reg_t => This<R>,
        name: *const c_char => Option<&CStr>,
    ) -> *mut c_void, std::ptr::null_mut() => {
        name.map_or(std::ptr::null(), |name| this.author.proc_address(name)).cast_mut()
    }
}
