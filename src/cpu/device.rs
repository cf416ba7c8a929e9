//! The CPU backend as backend objects: the registry "CPU" and its only device.

use super::stream::CpuStream;
use super::{check, procs, repack};
use crate::abi::alloc::ggml_backend_buffer_type_t;
use crate::abi::backend::{ggml_backend_dev_caps, ggml_backend_dev_t, ggml_backend_dev_type};
use crate::backend::author::{Device, HostMemory, NoEvent, Reg, publish};
use crate::backend::{BufferBox, BufferTypeRef, DeviceRef, RegRef, host};
use crate::error::Result;
use crate::guard::guarded;
use crate::sys::memory::physical;
use crate::sys::processor;
use crate::tensor::TensorRef;
use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;

/// The CPU device.
pub struct CpuDevice {
    description: CString,
}

impl CpuDevice {
    fn new() -> Self {
        let name = processor::name().and_then(|name| CString::new(name).ok());
        Self { description: name.unwrap_or_else(|| c"CPU".to_owned()) }
    }
}

impl Device for CpuDevice {
    type Stream = CpuStream;
    type Event = NoEvent;
    const BUFFERS_FROM_HOST: bool = true;

    fn name(&self) -> &CStr {
        c"CPU"
    }

    fn description(&self) -> &CStr {
        &self.description
    }

    fn memory(&self) -> (usize, usize) {
        // All memory is reported as free: the free amount changes with the caches of the system.
        let total = physical();
        (total, total)
    }

    fn kind(&self) -> ggml_backend_dev_type {
        ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU
    }

    fn caps(&self) -> ggml_backend_dev_caps {
        ggml_backend_dev_caps {
            r#async: false,
            host_buffer: false,
            buffer_from_host_ptr: true,
            events: false,
            mmap_support: true,
        }
    }

    fn open(&self, _this: DeviceRef, _params: Option<&CStr>) -> Result<CpuStream> {
        Ok(CpuStream::new())
    }

    fn buffer_type(&self, _this: DeviceRef) -> BufferTypeRef {
        host::buffer_type()
    }

    fn buffer_from_host(&self, _this: DeviceRef, memory: HostMemory, _max_tensor_size: usize) -> Result<BufferBox> {
        Ok(memory.into_buffer())
    }

    fn supports_op(&self, op: TensorRef) -> bool {
        check::supported(op).is_ok()
    }

    fn supports_buft(&self, _this: DeviceRef, buft: BufferTypeRef) -> bool {
        buft.is_host() || repack::is_type(buft)
    }
}

struct CpuReg;

impl Reg for CpuReg {
    type Device = CpuDevice;

    fn name(&self) -> &CStr {
        c"CPU"
    }

    fn devices(&self) -> Vec<CpuDevice> {
        vec![CpuDevice::new()]
    }

    fn proc_address(&self, name: &CStr) -> *const c_void {
        match name.to_bytes() {
            b"ggml_backend_dev_get_extra_bufts" => extra_bufts as *const c_void,
            _ => procs::address(name),
        }
    }
}

/// The backend registry "CPU".
pub fn reg() -> RegRef {
    static REG: OnceLock<RegRef> = OnceLock::new();
    *crate::sys::sync::once(&REG, || publish(CpuReg))
}

/// The CPU device.
pub fn device() -> DeviceRef {
    match reg().device(0) {
        Some(device) => device,
        None => unreachable!("the family has one device"),
    }
}

struct Bufts([ggml_backend_buffer_type_t; 2]);
// SAFETY: no code writes the list, and any thread may use a buffer type.
unsafe impl Sync for Bufts {}
// SAFETY: as above.
unsafe impl Send for Bufts {}

/// Additional buffer types of the device, terminated by NULL.
#[guarded]
unsafe extern "C" fn extra_bufts(_device: ggml_backend_dev_t) -> *mut ggml_backend_buffer_type_t {
    static LIST: OnceLock<Bufts> = OnceLock::new();
    let list = crate::sys::sync::once(&LIST, || {
        let first = if repack::is_offered() { repack::buffer_type(device()).as_ptr() } else { std::ptr::null_mut() };
        Bufts([first, std::ptr::null_mut()])
    });
    list.0.as_ptr().cast_mut()
}
