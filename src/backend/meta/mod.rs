//! The meta device: several devices as one, for tensor parallelism. The host defines how tensors with data are
//! distributed over the devices; the distribution of results follows from their operations.
//!
//! Files: `split` (how one tensor is distributed), `infer` (how a result is), `layout` (which bytes are where),
//! `slices` (the tensors on the devices that represent one), `buffer` (buffers and their transfers), `regions` (where a
//! graph must stop to add up partial sums), `reduce` (adding them up), `stream` (computing graphs on all devices).
//!
//! Two things differ from the original: a tensor that cannot be distributed is an error and does not end the process,
//! and the partial sums of any linear chain of nodes are added up where that moves the fewest bytes.

mod buffer;
mod infer;
mod layout;
mod reduce;
mod regions;
mod slices;
mod split;
mod stream;

use super::author::{Device, NoEvent, buffer_type_author, leak_device, stream_author};
use super::{BackendRef, BufferRef, BufferTypeRef, DeviceRef};
use crate::abi::backend::{
    GGML_BACKEND_META_MAX_DEVICES, ggml_backend_dev_caps, ggml_backend_dev_type, ggml_backend_meta_get_split_state_t,
    ggml_backend_meta_split_state,
};
use crate::abi::ggml::ggml_tensor;
use crate::error::Result;
use crate::invalid;
use crate::sys::sync::brief;
use crate::tensor::{TensorRef, known};
use buffer::{MetaBuffer, MetaBufferType};
use split::Split;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, OnceLock};
use stream::MetaStream;

/// Several devices as one.
pub struct MetaDevice {
    name: CString,
    description: CString,
    devices: Vec<DeviceRef>,
    spread: Spread,
    buffer_type: OnceLock<BufferTypeRef>,
}

/// The host's function and what it is called with.
struct Spread {
    function: unsafe extern "C" fn(*const ggml_tensor, *mut c_void) -> ggml_backend_meta_split_state,
    data: *mut c_void,
}

impl PartialEq for Spread {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.function, other.function) && self.data == other.data
    }
}
// SAFETY: the host promises that its function may be called with its data while the device is in use.
unsafe impl Send for Spread {}
// SAFETY: as above.
unsafe impl Sync for Spread {}

/// "Meta(a,b)".
fn joined_name(names: &[String]) -> CString {
    CString::new(format!("Meta({})", names.join(","))).unwrap_or_default()
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
    let spread = Spread { function, data };
    // Before the lock: names are code of modules.
    let texts = |f: fn(DeviceRef) -> String| joined_name(&devices.iter().map(|d| f(*d)).collect::<Vec<_>>());
    let (name, description) = (texts(DeviceRef::name), texts(DeviceRef::description));
    let mut known = brief(&KNOWN);
    let same = |d: &&DeviceRef| {
        super::author::device_author::<MetaDevice>(**d).is_some_and(|m| m.devices == devices && m.spread == spread)
    };
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

impl MetaDevice {
    /// The devices that are joined.
    pub fn devices(&self) -> &[DeviceRef] {
        &self.devices
    }

    /// How the host splits a tensor with data.
    fn split_of(&self, t: TensorRef) -> Result<Split> {
        // SAFETY: the promise of `device`; the tensor is valid.
        let state = unsafe { (self.spread.function)(t.as_ptr(), self.spread.data) };
        Split::from_c(&state, t, self.devices.len())
    }
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
        MetaStream::new(self, params)
    }

    fn buffer_type(&self, this: DeviceRef) -> BufferTypeRef {
        *crate::sys::sync::once(&self.buffer_type, || {
            let part = |d: &DeviceRef| match d.buffer_type() {
                Some(t) => t,
                None => crate::ggml_abort!("the device {} has no buffer type", d.name()),
            };
            let parts = self.devices.iter().map(part).collect();
            super::author::leak_buffer_type(Some(this), MetaBufferType::new(this, parts))
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
        let device = buft.device().and_then(super::author::device_author::<Self>);
        device.is_some_and(|d| d.devices == self.devices)
    }
}

/// The streams that a meta stream joins, or `None` for any other.
pub fn streams(backend: BackendRef) -> Option<Vec<BackendRef>> {
    stream_author::<MetaStream>(&backend).map(|s| s.streams().collect())
}

/// Whether a buffer type is a meta device's.
pub fn is_meta_type(buft: BufferTypeRef) -> bool {
    buffer_type_author::<MetaBufferType>(buft).is_some()
}

/// The buffers that a meta buffer is made of, or `None` for any other.
pub fn parts(buffer: BufferRef) -> Option<Vec<BufferRef>> {
    slices::meta_buffer(&buffer).map(|m: &MetaBuffer| m.parts().collect())
}
