//! The backend "Vulkan" and its devices as backend objects.

use crate::abi::backend::{ggml_backend_dev_caps, ggml_backend_dev_type};
use crate::backend::author::{Device, HostMemory, Reg, leak_buffer_type, new_buffer, publish};
use crate::backend::{BufferBox, BufferTypeRef, DeviceRef, RegRef};
use crate::environment;
use crate::error::Result;
use crate::sys::first_use;
use crate::tensor::TensorRef;
use crate::vulkan::backend::buffer_type::{VkBufferType, VkHostBufferType};
use crate::vulkan::backend::procs;
use crate::vulkan::backend::stream::{VkEvent, VkStream};
use crate::vulkan::device::info::Info;
use crate::vulkan::device::instance::{Instance, instance};
use crate::vulkan::gpu::buffer::VkBuffer;
use crate::vulkan::gpu::lazy::LazyGpu;
use crate::vulkan::gpu::open::Gpu;
use crate::vulkan::ops::Shapes;
use ash::vk;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, OnceLock};

/// A device of the backend.
pub struct VkDevice {
    name: CString,
    lazy: Arc<LazyGpu>,
    shapes: Shapes,
    buffer_type: OnceLock<BufferTypeRef>,
    host_buffer_type: OnceLock<BufferTypeRef>,
}

impl VkDevice {
    fn new(index: usize, reg: &VkReg, card: &Card) -> Self {
        Self {
            name: CString::new(format!("Vulkan{index}")).unwrap_or_default(),
            lazy: Arc::new(LazyGpu::new(reg.instance, card.info.clone(), card.direct)),
            shapes: reg.shapes,
            buffer_type: OnceLock::new(),
            host_buffer_type: OnceLock::new(),
        }
    }

    /// The description of the device.
    pub fn info(&self) -> &Arc<Info> {
        self.lazy.info()
    }

    /// The open device.
    pub fn gpu(&self) -> Result<Arc<Gpu>> {
        self.lazy.gpu()
    }
}

impl Device for VkDevice {
    type Stream = VkStream;
    type Event = VkEvent;
    const HOST_BUFFERS: bool = true;
    const EVENTS: bool = true;
    const OFFLOADS: bool = true;
    const BUFFERS_FROM_HOST: bool = true;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn description(&self) -> &CStr {
        &self.info().description
    }

    fn memory(&self) -> (usize, usize) {
        let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut p = vk::PhysicalDeviceMemoryProperties2::default();
        if self.info().features.memory_budget {
            p = p.push_next(&mut budget);
        }
        // SAFETY: `physical` is a device of this instance (`Info::probe`), and `p` borrows the chained struct.
        unsafe { self.lazy.instance.vk.get_physical_device_memory_properties2(self.info().physical, &mut p) };
        let heaps = p.memory_properties;
        let (mut free, mut total) = (0u64, 0u64);
        for (i, heap) in heaps.memory_heaps_as_slice().iter().enumerate() {
            if heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL) || self.info().shares_memory() {
                total += heap.size;
                free += if self.info().features.memory_budget {
                    budget.heap_budget[i].saturating_sub(budget.heap_usage[i])
                } else {
                    heap.size
                };
            }
        }
        (usize::try_from(free).unwrap_or(usize::MAX), usize::try_from(total).unwrap_or(usize::MAX))
    }

    fn kind(&self) -> ggml_backend_dev_type {
        match self.info().identity.kind {
            vk::PhysicalDeviceType::INTEGRATED_GPU => ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_IGPU,
            _ => ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_GPU,
        }
    }

    fn device_id(&self) -> Option<&CStr> {
        self.info().pci.as_deref()
    }

    fn caps(&self) -> ggml_backend_dev_caps {
        ggml_backend_dev_caps {
            r#async: self.info().features.queues,
            host_buffer: true,
            // Supported, but hosts use this for mapped files, which drivers refuse to import, or read slowly.
            buffer_from_host_ptr: false,
            events: true,
            mmap_support: self.info().identity.kind != vk::PhysicalDeviceType::INTEGRATED_GPU,
        }
    }

    fn open(&self, _this: DeviceRef, _params: Option<&CStr>) -> Result<VkStream> {
        VkStream::new(&self.gpu()?, self.name.clone(), self.shapes)
    }

    fn buffer_type(&self, this: DeviceRef) -> BufferTypeRef {
        *crate::sys::sync::once(&self.buffer_type, || {
            leak_buffer_type(Some(this), VkBufferType::new(&self.lazy, self.name.clone()))
        })
    }

    fn host_buffer_type(&self, this: DeviceRef) -> Option<BufferTypeRef> {
        Some(*crate::sys::sync::once(&self.host_buffer_type, || {
            leak_buffer_type(Some(this), VkHostBufferType::new(&self.lazy))
        }))
    }

    fn buffer_from_host(&self, this: DeviceRef, memory: HostMemory, _max_tensor_size: usize) -> Result<BufferBox> {
        let size = memory.size();
        Ok(new_buffer(self.buffer_type(this), size, VkBuffer::import(&self.gpu()?, memory)?))
    }

    fn event_new(&self) -> Result<VkEvent> {
        Ok(VkEvent::new())
    }

    fn supports_op(&self, op: TensorRef) -> bool {
        crate::vulkan::backend::stream::supports(self.info(), self.shapes, op)
    }

    fn supports_buft(&self, this: DeviceRef, buft: BufferTypeRef) -> bool {
        buft == self.buffer_type(this)
    }

    fn offload_op(&self, op: TensorRef) -> bool {
        crate::vulkan::backend::stream::worth_offloading(op)
    }
}

/// A device to publish.
#[derive(Clone)]
pub(in crate::vulkan) struct Card {
    /// Its description.
    pub info: Arc<Info>,
    /// Whether the host reads and writes mapped device memory directly.
    pub direct: bool,
}

struct VkReg {
    instance: &'static Instance,
    cards: Vec<Card>,
    shapes: Shapes,
}

impl Reg for VkReg {
    type Device = VkDevice;

    fn name(&self) -> &CStr {
        c"Vulkan"
    }

    fn devices(&self) -> Vec<VkDevice> {
        self.cards.iter().enumerate().map(|(i, card)| VkDevice::new(i, self, card)).collect()
    }

    fn proc_address(&self, name: &CStr) -> *const c_void {
        procs::address(name)
    }
}

/// Publishes a registry with these devices.
pub(in crate::vulkan) fn publish_cards(instance: &'static Instance, cards: Vec<Card>, shapes: Shapes) -> RegRef {
    publish(VkReg { instance, cards, shapes })
}

/// The device with each division of work ([`Info::divisions`]), with its name.
#[cfg(any(test, fuzzing))]
pub(in crate::vulkan) fn publish_divisions(instance: &'static Instance, info: &Info) -> Vec<(&'static str, DeviceRef)> {
    let (names, cards): (Vec<_>, Vec<_>) =
        info.divisions().map(|(name, info)| (name, Card { info: Arc::new(info), direct: true })).into_iter().unzip();
    let reg = publish_cards(instance, cards, crate::cpu::check::accepts);
    names.into_iter().enumerate().filter_map(|(i, name)| Some((name, reg.device(i)?))).collect()
}

/// The registry of the backend, which computes only nodes that `shapes` accepts; the first call decides. `None` if the
/// system has no Vulkan.
pub fn reg(shapes: Shapes) -> Option<RegRef> {
    static REG: OnceLock<Option<RegRef>> = OnceLock::new();
    let make = || {
        let instance = instance()?;
        let direct = !environment::VK_DISABLE_HOST_VISIBLE_VIDMEM.is_set();
        let cards = instance.cards.iter().map(|info| Card { info: info.clone(), direct }).collect();
        Some(publish_cards(instance, cards, shapes))
    };
    first_use::make(|| *crate::sys::sync::once(&REG, make))
}

/// The `VkDevice` of a backend device.
#[cfg(test)]
pub fn author(device: DeviceRef) -> Option<&'static VkDevice> {
    crate::backend::author::device_author(device)
}
