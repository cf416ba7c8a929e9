//! The meta device itself.

use super::buffer_type::MetaBufferType;
use super::spread::Spread;
use super::stream::MetaStream;
use crate::abi::backend::{
    GGML_BACKEND_META_MAX_DEVICES, ggml_backend_dev_caps, ggml_backend_dev_type, ggml_backend_meta_get_split_state_t,
};
use crate::backend::author::{Device, NoEvent, device_author, leak_buffer_type, leak_device};
use crate::backend::{BufferTypeRef, DeviceRef};
use crate::error::Result;
use crate::invalid;
use crate::sys::sync::brief;
use crate::tensor::{TensorRef, known};
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, OnceLock};

/// Several devices as one.
pub struct MetaDevice {
    name: CString,
    description: CString,
    devices: Vec<DeviceRef>,
    spread: Spread,
    buffer_type: OnceLock<BufferTypeRef>,
}

/// "Meta(a,b)".
fn joined_name(names: impl Iterator<Item = String>) -> CString {
    CString::new(format!("Meta({})", names.collect::<Vec<_>>().join(","))).unwrap_or_default()
}

/// The meta device over `devices` whose tensors are spread as `function` says. The same arguments give the same device,
/// which lives until the process ends.
///
/// # Safety
/// The function may be called with `data` for as long as the device is in use.
pub unsafe fn device(
    devices: &[DeviceRef],
    function: ggml_backend_meta_get_split_state_t,
    data: *mut c_void,
) -> Result<DeviceRef> {
    static KNOWN: Mutex<Vec<DeviceRef>> = Mutex::new(Vec::new());
    let Some(function) = function else {
        return Err(invalid!("a meta device needs a function that distributes tensors"));
    };
    if devices.is_empty() || devices.len() > GGML_BACKEND_META_MAX_DEVICES {
        return Err(invalid!(
            "a meta device joins 1 to {GGML_BACKEND_META_MAX_DEVICES} devices, not {}",
            devices.len()
        ));
    }
    // SAFETY: the caller's promise, for as long as the device is in use; the host keeps it for all of its objects.
    let spread = unsafe { Spread::new(function, data) };
    // Before the lock: names are code of modules.
    let texts = |f: fn(DeviceRef) -> String| joined_name(devices.iter().map(|d| f(*d)));
    let (name, description) = (texts(DeviceRef::name), texts(DeviceRef::description));
    let mut known = brief(&KNOWN);
    let same =
        |d: &&DeviceRef| device_author::<MetaDevice>(**d).is_some_and(|m| m.devices == devices && m.spread == spread);
    if let Some(found) = known.iter().find(same) {
        return Ok(*found);
    }
    let device = leak_device(
        None,
        MetaDevice { name, description, devices: devices.to_vec(), spread, buffer_type: OnceLock::new() },
    );
    known.push(device);
    Ok(device)
}

impl Device for MetaDevice {
    type Stream = MetaStream;
    type Event = NoEvent;
    const HOST_BUFFERS: bool = true;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn description(&self) -> &CStr {
        &self.description
    }

    fn memory(&self) -> (usize, usize) {
        let sum = |a: (usize, usize), b: (usize, usize)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        self.devices.iter().map(|d| d.memory()).fold((0, 0), sum)
    }

    fn kind(&self) -> ggml_backend_dev_type {
        ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_META
    }

    fn caps(&self) -> ggml_backend_dev_caps {
        let all = |f: fn(&ggml_backend_dev_caps) -> bool| self.devices.iter().all(|d| f(&d.props().caps));
        ggml_backend_dev_caps {
            r#async: all(|c| c.r#async),
            host_buffer: false,
            buffer_from_host_ptr: false,
            events: false,
            mmap_support: all(|c| c.mmap_support),
        }
    }

    fn open(&self, _this: DeviceRef, params: Option<&CStr>) -> Result<MetaStream> {
        MetaStream::new(self.name.clone(), &self.devices, params)
    }

    fn buffer_type(&self, this: DeviceRef) -> BufferTypeRef {
        *crate::sys::sync::once(&self.buffer_type, || {
            let part = |d: &DeviceRef| match d.buffer_type() {
                Some(t) => t,
                None => crate::ggml_abort!("the device {} has no buffer type", d.name()),
            };
            let parts: Vec<_> = self.devices.iter().map(part).collect();
            let name = joined_name(parts.iter().map(|p| p.name()));
            leak_buffer_type(Some(this), MetaBufferType::new(name, self.spread, parts))
        })
    }

    /// The devices' own, where all share one.
    fn host_buffer_type(&self, _this: DeviceRef) -> Option<BufferTypeRef> {
        let first = self.devices.first()?.host_buffer_type()?;
        self.devices.iter().all(|d| d.host_buffer_type() == Some(first)).then_some(first)
    }

    fn supports_op(&self, op: TensorRef) -> bool {
        known::check(op).is_ok() && self.devices.iter().all(|d| d.supports_op(op))
    }

    fn supports_buft(&self, _this: DeviceRef, buft: BufferTypeRef) -> bool {
        let device = buft.device().and_then(device_author::<Self>);
        device.is_some_and(|d| d.devices == self.devices)
    }
}
