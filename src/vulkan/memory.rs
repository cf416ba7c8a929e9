//! Pieces of device or host memory, each with a buffer object and a device address.

use super::core::Core;
use crate::error::{Error, Result};
use ash::vk;
use ash::vk::MemoryPropertyFlags as P;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use std::ptr::NonNull;
use std::sync::Arc;

/// Tests let the next requests of their thread fail.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<u32> = const { Cell::new(0) };
    }

    /// So many requests of this thread are to fail.
    pub fn fail_next(n: u32) {
        LEFT.set(n);
    }

    pub fn due() -> bool {
        let left = LEFT.get();
        LEFT.set(left.saturating_sub(1));
        left > 0
    }
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Tensors that the device computes with.
    Tensors,
    /// Host memory that the device copies from and to.
    Host,
}

enum Backing {
    Allocated(Allocation),
    Imported(vk::DeviceMemory),
}

/// A buffer object with memory.
pub struct Memory {
    core: Arc<Core>,
    /// The buffer object.
    pub buffer: vk::Buffer,
    /// Its device address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    mapped: Option<NonNull<u8>>,
    backing: Option<Backing>,
}
// SAFETY: the mapped address is memory that stays mapped as long as the object; who writes where is the users' business.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory for a purpose.
    pub fn new(core: &Arc<Core>, size: u64, purpose: Purpose, name: &str) -> Result<Self> {
        let limits = &core.info.limits;
        let out_of_memory = || Error::OutOfMemory {
            what: format!("{} ({name})", core.info.identity.name),
            bytes: usize::try_from(size).unwrap_or(usize::MAX),
        };
        #[cfg(test)]
        if faults::due() {
            return Err(out_of_memory());
        }
        if size == 0 || size > limits.buffer.min(limits.allocation) {
            return Err(out_of_memory());
        }
        let (buffer, need) = create_buffer(core, size, false)?;
        let order = preferences(purpose, core.info.shares_memory(), &Policy::from_env());
        let mut made = Err(out_of_memory());
        for index in memory_types(&core.info.memory, need, &order) {
            let desc = AllocationCreateDesc {
                name,
                requirements: vk::MemoryRequirements { memory_type_bits: 1 << index, ..need },
                location: MemoryLocation::Unknown,
                linear: true,
                allocation_scheme: AllocationScheme::GpuAllocatorManaged,
            };
            match core.with_allocator(|a| a.allocate(&desc)) {
                Some(Ok(allocation)) => {
                    made = Ok(allocation);
                    break;
                }
                // The next type may have room.
                Some(Err(e)) => crate::log_debug!("ggml_vulkan: {size} bytes of memory type {index} for {name}: {e}"),
                None => break,
            }
        }
        let allocation = match made {
            Ok(a) => a,
            Err(e) => {
                // SAFETY: just made, nobody uses it.
                unsafe { core.vk.destroy_buffer(buffer, None) };
                return Err(e);
            }
        };
        let mapped = allocation.mapped_ptr().map(NonNull::cast);
        // SAFETY: the memory belongs to this buffer alone and has the size and alignment it needs.
        let bound = unsafe { core.vk.bind_buffer_memory(buffer, allocation.memory(), allocation.offset()) };
        let mut memory = Self {
            core: core.clone(),
            buffer,
            address: 0,
            size,
            mapped,
            backing: Some(Backing::Allocated(allocation)),
        };
        bound.map_err(|e| core.failed("binding memory", e))?;
        memory.address = device_address(core, buffer);
        Ok(memory)
    }

    /// Host memory as memory of the device. Start and size must be multiples of `Limits::import_alignment`.
    ///
    /// # Safety
    /// `ptr` points to `size` readable and writable bytes that live as long as the result.
    pub unsafe fn import(core: &Arc<Core>, ptr: NonNull<u8>, size: u64) -> Result<Self> {
        let Some(import) = &core.import else {
            return Err(Error::Unsupported("this driver cannot import host memory".into()));
        };
        let limits = &core.info.limits;
        let align = limits.import_alignment;
        if !(ptr.as_ptr() as u64).is_multiple_of(align) || !size.is_multiple_of(align) || size == 0 {
            return Err(Error::Unsupported(format!("imported memory must be aligned to {align} bytes")));
        }
        if size > limits.buffer {
            return Err(Error::Unsupported(format!("{size} bytes are more than one buffer may have")));
        }
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let mut host = vk::MemoryHostPointerPropertiesEXT::default();
        // SAFETY: the memory is there, by the caller's promise.
        let asked = unsafe {
            (import.fp().get_memory_host_pointer_properties_ext)(
                core.vk.handle(),
                kind,
                ptr.as_ptr().cast::<std::ffi::c_void>(),
                &mut host,
            )
        };
        asked.result().map_err(|e| core.failed("asking about host memory", e))?;
        let (buffer, mut need) = create_buffer(core, size, true)?;
        need.memory_type_bits &= host.memory_type_bits;
        let order = [P::HOST_VISIBLE | P::HOST_COHERENT | P::HOST_CACHED, P::HOST_VISIBLE | P::HOST_COHERENT];
        let index = memory_types(&core.info.memory, need, &order).first().copied();
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut pointer = vk::ImportMemoryHostPointerInfoEXT::default().handle_type(kind);
        pointer.p_host_pointer = ptr.as_ptr().cast();
        let memory = match index {
            None => Err(Error::Unsupported("no memory type for imported memory".into())),
            Some(index) => {
                let info = vk::MemoryAllocateInfo::default()
                    .allocation_size(size)
                    .memory_type_index(index)
                    .push_next(&mut pointer)
                    .push_next(&mut flags);
                // SAFETY: the memory is there, by the caller's promise, and the type is one it can have.
                unsafe { core.vk.allocate_memory(&info, None) }.map_err(|e| core.failed("importing host memory", e))
            }
        };
        let memory = match memory {
            Ok(m) => m,
            Err(e) => {
                // SAFETY: just made, nobody uses it.
                unsafe { core.vk.destroy_buffer(buffer, None) };
                return Err(e);
            }
        };
        // SAFETY: memory and buffer have the same size.
        let bound = unsafe { core.vk.bind_buffer_memory(buffer, memory, 0) };
        let backing = Some(Backing::Imported(memory));
        let mut memory = Self { core: core.clone(), buffer, address: 0, size, mapped: Some(ptr), backing };
        bound.map_err(|e| core.failed("binding memory", e))?;
        memory.address = device_address(core, buffer);
        Ok(memory)
    }

    /// Host address of the first byte, when the host can reach it (coherently).
    pub fn mapped(&self) -> Option<NonNull<u8>> {
        self.mapped
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the owner says that nobody uses the memory any more.
        unsafe { self.core.vk.destroy_buffer(self.buffer, None) };
        match self.backing.take() {
            Some(Backing::Allocated(a)) => {
                if let Some(Err(e)) = self.core.with_allocator(|all| all.free(a)) {
                    crate::log_warn!("ggml_vulkan: {e}");
                }
            }
            // SAFETY: as above.
            Some(Backing::Imported(m)) => unsafe { self.core.vk.free_memory(m, None) },
            None => {}
        }
    }
}

fn create_buffer(core: &Core, size: u64, imported: bool) -> Result<(vk::Buffer, vk::MemoryRequirements)> {
    use vk::BufferUsageFlags as U;
    let mut external = vk::ExternalMemoryBufferCreateInfo::default()
        .handle_types(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
    let mut info = vk::BufferCreateInfo::default()
        .size(size)
        .usage(U::STORAGE_BUFFER | U::TRANSFER_SRC | U::TRANSFER_DST | U::SHADER_DEVICE_ADDRESS)
        .sharing_mode(vk::SharingMode::EXCLUSIVE);
    if imported {
        info = info.push_next(&mut external);
    }
    // SAFETY: the size is within the device's limit.
    let buffer = unsafe { core.vk.create_buffer(&info, None) }.map_err(|e| core.failed("making a buffer", e))?;
    // SAFETY: just made.
    Ok((buffer, unsafe { core.vk.get_buffer_memory_requirements(buffer) }))
}

fn device_address(core: &Core, buffer: vk::Buffer) -> u64 {
    // SAFETY: the buffer has memory and was made for addresses.
    unsafe { core.vk.get_buffer_device_address(&vk::BufferDeviceAddressInfo::default().buffer(buffer)) }
}

/// Memory settings of the user.
#[derive(Clone, Copy, Debug, Default)]
struct Policy {
    prefer_host: bool,
    no_visible_vidmem: bool,
    sysmem_fallback: bool,
}

impl Policy {
    fn from_env() -> Self {
        use super::env::set;
        Self {
            prefer_host: set("GGML_VK_PREFER_HOST_MEMORY"),
            no_visible_vidmem: set("GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM"),
            sysmem_fallback: set("GGML_VK_ALLOW_SYSMEM_FALLBACK"),
        }
    }
}

/// Properties of memory to try, best first.
fn preferences(purpose: Purpose, shared: bool, policy: &Policy) -> Vec<P> {
    let (device, host) = (P::DEVICE_LOCAL, P::HOST_VISIBLE | P::HOST_COHERENT);
    match purpose {
        Purpose::Host => vec![host | P::HOST_CACHED, host],
        Purpose::Tensors if policy.prefer_host => vec![host, device],
        Purpose::Tensors if shared => vec![device | host, device, host],
        Purpose::Tensors => {
            let mut order = if policy.no_visible_vidmem { vec![device] } else { vec![device | host, device] };
            if policy.sysmem_fallback {
                order.push(host);
            }
            order
        }
    }
}

/// The memory types that fit, in the order of the preferences. Types of protected or lazily allocated memory, and AMD's
/// uncached ones, are never right; neither are heaps too small for the buffer.
fn memory_types(all: &vk::PhysicalDeviceMemoryProperties, need: vk::MemoryRequirements, preferred: &[P]) -> Vec<u32> {
    const NEVER: P = P::from_raw(
        P::PROTECTED.as_raw()
            | P::LAZILY_ALLOCATED.as_raw()
            | P::DEVICE_COHERENT_AMD.as_raw()
            | P::DEVICE_UNCACHED_AMD.as_raw()
            | P::RDMA_CAPABLE_NV.as_raw(),
    );
    let heaps = all.memory_heaps_as_slice();
    let mut found = Vec::new();
    for &properties in preferred {
        for (i, ty) in (0u32..).zip(all.memory_types_as_slice()) {
            let fits = need.memory_type_bits & (1 << i) != 0
                && ty.property_flags.contains(properties)
                && !ty.property_flags.intersects(NEVER)
                && heaps.get(ty.heap_index as usize).is_some_and(|h| h.size >= need.size);
            if fits && !found.contains(&i) {
                found.push(i);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(types: &[(P, u32)], heaps: &[u64]) -> vk::PhysicalDeviceMemoryProperties {
        let mut m = vk::PhysicalDeviceMemoryProperties {
            memory_type_count: u32::try_from(types.len()).unwrap(),
            memory_heap_count: u32::try_from(heaps.len()).unwrap(),
            ..Default::default()
        };
        for (slot, (flags, heap)) in m.memory_types.iter_mut().zip(types) {
            *slot = vk::MemoryType { property_flags: *flags, heap_index: *heap };
        }
        for (slot, size) in m.memory_heaps.iter_mut().zip(heaps) {
            *slot = vk::MemoryHeap { size: *size, flags: vk::MemoryHeapFlags::empty() };
        }
        m
    }

    fn pick(m: &vk::PhysicalDeviceMemoryProperties, size: u64, bits: u32, purpose: Purpose, shared: bool) -> Vec<u32> {
        let need = vk::MemoryRequirements { size, alignment: 16, memory_type_bits: bits };
        memory_types(m, need, &preferences(purpose, shared, &Policy::default()))
    }

    // Row V3 of the regressions: heaps in an odd order.
    #[test]
    fn memory_types_are_picked_by_what_they_are_not_by_their_place() {
        let (d, h, c) = (P::DEVICE_LOCAL, P::HOST_VISIBLE | P::HOST_COHERENT, P::HOST_CACHED);
        // A card whose small window (heap 0) comes first, its memory last, with a protected twin of it in between.
        let m = device(
            &[(P::empty(), 1), (d | h, 0), (h, 1), (d | P::PROTECTED, 2), (h | c, 1), (d, 2)],
            &[256 << 20, 16 << 30, 8 << 30],
        );
        assert_eq!(pick(&m, 1 << 20, u32::MAX, Purpose::Tensors, false), [1, 5]);
        assert_eq!(pick(&m, 1 << 30, u32::MAX, Purpose::Tensors, false), [5], "too big for the window");
        assert_eq!(pick(&m, 1 << 30, u32::MAX, Purpose::Host, false), [4, 2]);
        assert_eq!(pick(&m, 1 << 30, 1 << 2, Purpose::Host, false), [2]);
        assert_eq!(pick(&m, 9 << 30, u32::MAX, Purpose::Tensors, false), [0u32; 0], "bigger than the card");
        assert_eq!(
            pick(&m, 9 << 30, u32::MAX, Purpose::Tensors, true),
            [2, 4],
            "shared memory falls back to the host's"
        );
        let fallback = Policy { sysmem_fallback: true, no_visible_vidmem: true, ..Policy::default() };
        assert_eq!(preferences(Purpose::Tensors, false, &fallback), [d, h]);
        let host = Policy { prefer_host: true, ..Policy::default() };
        assert_eq!(preferences(Purpose::Tensors, false, &host), [h, d]);
    }
}
