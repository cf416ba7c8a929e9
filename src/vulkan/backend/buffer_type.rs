//! Buffer types: a device's own memory, and pinned host memory.

#![forbid(unsafe_code)]

use crate::backend::author::BufferType;
use crate::error::Result;
use crate::vulkan::gpu::buffer::{VkBuffer, VkHostBuffer};
use crate::vulkan::gpu::lazy::LazyGpu;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// The type of a device's own memory.
pub struct VkBufferType {
    device: Arc<LazyGpu>,
    name: CString,
}

impl VkBufferType {
    pub(in crate::vulkan) fn new(device: &Arc<LazyGpu>, name: CString) -> Self {
        Self { device: device.clone(), name }
    }
}

/// Minimum alignment of tensors in bytes. Shaders load vectors.
const TENSOR_ALIGNMENT: u64 = 64;

impl BufferType for VkBufferType {
    type Buffer = VkBuffer;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn alloc(&self, size: usize) -> Result<VkBuffer> {
        // Vector loads at the end of a tensor may read past its end.
        VkBuffer::alloc(&self.device.gpu()?, (size as u64).next_multiple_of(TENSOR_ALIGNMENT))
    }

    fn alignment(&self) -> usize {
        let align = self.device.info().limits.storage_alignment.max(TENSOR_ALIGNMENT);
        usize::try_from(align).unwrap_or(64)
    }

    fn max_size(&self) -> usize {
        usize::try_from(self.device.max_buffer_size()).unwrap_or(usize::MAX)
    }
}

/// The type of pinned host memory.
pub struct VkHostBufferType {
    device: Arc<LazyGpu>,
}

impl VkHostBufferType {
    pub(in crate::vulkan) fn new(device: &Arc<LazyGpu>) -> Self {
        Self { device: device.clone() }
    }
}

impl BufferType for VkHostBufferType {
    type Buffer = VkHostBuffer;

    fn name(&self) -> &CStr {
        c"Vulkan_Host"
    }

    fn alloc(&self, size: usize) -> Result<VkHostBuffer> {
        VkHostBuffer::alloc(self.device.gpu()?, size as u64)
    }

    fn alignment(&self) -> usize {
        64
    }

    fn max_size(&self) -> usize {
        usize::try_from(self.device.max_buffer_size()).unwrap_or(usize::MAX)
    }

    fn is_host(&self) -> bool {
        true
    }
}
