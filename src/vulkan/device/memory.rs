//! Device memory and host memory, each piece with a buffer object and a device address.

use crate::environment;
use crate::error::{Error, Result};
use crate::sys::memory::AlignedBlock;
use crate::vulkan::device::Info;
use crate::vulkan::device::core::Core;
use ash::vk;
use ash::vk::MemoryPropertyFlags as P;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// Lets tests make the next requests of their thread fail.
#[cfg(test)]
pub(in crate::vulkan) mod faults {
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<u32> = const { Cell::new(0) };
    }

    /// Makes the next `n` requests of this thread fail.
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

/// A buffer object, destroyed on drop.
struct Object {
    core: Arc<Core>,
    handle: vk::Buffer,
    /// What memory for it needs.
    need: vk::MemoryRequirements,
}

impl Object {
    /// A buffer object without memory. `imported`: its memory will be imported from the host.
    fn new(core: &Arc<Core>, size: u64, imported: bool) -> Result<Self> {
        use vk::BufferUsageFlags as U;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default()
            .handle_types(vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT);
        let mut info = vk::BufferCreateInfo::default()
            .size(size)
            .usage(U::STORAGE_BUFFER | U::TRANSFER_SRC | U::TRANSFER_DST | U::SHADER_DEVICE_ADDRESS)
            .sharing_mode(vk::SharingMode::EXCLUSIVE);
        // Exclusive buffers would have to be handed from queue to queue, which buys nothing: drivers compress images
        // only.
        let families = [core.info.queue_family, core.info.copy_family.unwrap_or_default()];
        if core.info.copy_family.is_some() {
            info = info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&families);
        }
        if imported {
            info = info.push_next(&mut external);
        }
        // SAFETY: `Core`: the device is valid and has buffer addresses. The callers checked that the size is not 0 and
        // within the limit of the device, and `info` borrows what it points to.
        let handle = unsafe { core.vk.create_buffer(&info, None) }.map_err(|e| core.failed("making a buffer", e))?;
        // SAFETY: `handle` was created from this device in the line above.
        let need = unsafe { core.vk.get_buffer_memory_requirements(handle) };
        Ok(Self { core: core.clone(), handle, need })
    }

    /// The device address. The object must have memory.
    fn address(&self) -> u64 {
        let info = vk::BufferDeviceAddressInfo::default().buffer(self.handle);
        // SAFETY: the handle is valid until drop, and has the usage SHADER_DEVICE_ADDRESS.
        unsafe { self.core.vk.get_buffer_device_address(&info) }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle was created from this device. Submitted work that uses the buffer is done, as
        // vkDestroyBuffer requires: a recorder keeps the memory of its copies until then (`Keep`). Shaders use
        // addresses: `VkBuffer` and `VkHostBuffer` wait for the device before they drop their memory.
        unsafe { self.core.vk.destroy_buffer(self.handle, None) };
    }
}

enum Source {
    Allocated(Allocation),
    /// Memory of the host, and what frees it if that is not the host's.
    Imported(vk::DeviceMemory, Option<Arc<AlignedBlock>>),
}

/// The memory of a buffer object, freed on drop.
struct Backing {
    core: Arc<Core>,
    source: Option<Source>,
}

impl Drop for Backing {
    fn drop(&mut self) {
        match self.source.take() {
            Some(Source::Allocated(a)) => {
                if let Some(Err(e)) = self.core.with_allocator(|all| all.free(a)) {
                    crate::log_warn!("ggml_vulkan: {e}");
                }
            }
            Some(Source::Imported(m, block)) => {
                // SAFETY: the memory was allocated from this device and is not freed twice (`take`). Work that uses it
                // is done, because `Memory` drops its buffer object first.
                unsafe { self.core.vk.free_memory(m, None) };
                drop(block);
            }
            None => {}
        }
    }
}

/// A buffer object with memory.
pub struct Memory {
    // Dropped in this order: the object goes before its memory.
    object: Object,
    _backing: Backing,
    /// Its device address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    mapped: Option<NonNull<u8>>,
    place: Place,
}

/// Where memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    /// The host reads the mapped bytes as fast as its own.
    near: bool,
    /// The bytes cross PCI Express when the host writes them.
    card: bool,
}

impl Place {
    /// That of a memory type. A card's memory is mapped without caches: each read waits for an answer over PCI Express.
    fn of(flags: vk::MemoryPropertyFlags, info: &Info) -> Self {
        let shared = info.shares_memory();
        Self { near: shared || flags.contains(P::HOST_CACHED), card: !shared && flags.contains(P::DEVICE_LOCAL) }
    }
}
// SAFETY: only `mapped` is not `Send`. The address stays mapped until drop, on whichever thread that is.
unsafe impl Send for Memory {}
// SAFETY: only `mapped` is not `Sync`. This type does not access the bytes; `Span` states which code may.
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
        let object = Object::new(core, size, false)?;
        let need = object.need;
        let order = preferences(purpose, core.info.shares_memory(), &Policy::from_env());
        let mut made = Err(out_of_memory());
        let mut place = Place::default();
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
                    place = Place::of(core.info.memory.memory_types[index as usize].property_flags, &core.info);
                    break;
                }
                // The next type may have room.
                Some(Err(e)) => crate::log_debug!("ggml_vulkan: {size} bytes of memory type {index} for {name}: {e}"),
                None => break,
            }
        }
        let allocation = made?;
        let mapped = allocation.mapped_ptr().map(NonNull::cast);
        // SAFETY: the object is new and has no memory yet. The allocator gave this range to no other object, with the
        // size, alignment and type of `need`.
        let bound = unsafe { core.vk.bind_buffer_memory(object.handle, allocation.memory(), allocation.offset()) };
        let backing = Backing { core: core.clone(), source: Some(Source::Allocated(allocation)) };
        Self::after_bind(bound, object, backing, size, (mapped, place))
    }

    /// The memory, if binding it to the object succeeded.
    fn after_bind(
        bound: std::result::Result<(), vk::Result>,
        object: Object,
        backing: Backing,
        size: u64,
        (mapped, place): (Option<NonNull<u8>>, Place),
    ) -> Result<Self> {
        let mut memory = Self { object, _backing: backing, address: 0, size, mapped, place };
        bound.map_err(|e| memory.object.core.failed("binding memory", e))?;
        memory.address = memory.object.address();
        Ok(memory)
    }

    /// Imports host memory into the device. Address and size must be multiples of `Limits::import_alignment`.
    ///
    /// # Safety
    /// `ptr` points to `size` readable and writable bytes that live as long as the result.
    pub unsafe fn import(core: &Arc<Core>, ptr: NonNull<u8>, size: u64) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::import_from(core, ptr, size, None) }
    }

    /// Imports all of a block, which lives as long as the result. Its address and size must be multiples of
    /// `Limits::import_alignment`.
    pub fn of_block(core: &Arc<Core>, block: &Arc<AlignedBlock>) -> Result<Self> {
        let ptr = NonNull::new(block.as_ptr()).ok_or_else(|| Error::Invalid("a block without memory".into()))?;
        // SAFETY: the block has that many bytes, and the result keeps it.
        unsafe { Self::import_from(core, ptr, block.size() as u64, Some(block.clone())) }
    }

    /// # Safety
    /// `ptr` points to `size` readable and writable bytes that live as long as the result, for example those of
    /// `block`.
    unsafe fn import_from(
        core: &Arc<Core>,
        ptr: NonNull<u8>,
        size: u64,
        block: Option<Arc<AlignedBlock>>,
    ) -> Result<Self> {
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
        // SAFETY: `core.import` is there only if the device has the extension. The caller promises that the memory is
        // allocated, its alignment was checked, and `host` is writable.
        let queried = unsafe {
            (import.fp().get_memory_host_pointer_properties_ext)(
                core.vk.handle(),
                kind,
                ptr.as_ptr().cast::<std::ffi::c_void>(),
                &mut host,
            )
        };
        queried.result().map_err(|e| core.failed("asking about host memory", e))?;
        let object = Object::new(core, size, true)?;
        let mut need = object.need;
        need.memory_type_bits &= host.memory_type_bits;
        let order = [P::HOST_VISIBLE | P::HOST_COHERENT | P::HOST_CACHED, P::HOST_VISIBLE | P::HOST_COHERENT];
        let index = memory_types(&core.info.memory, need, &order).first().copied();
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut pointer = vk::ImportMemoryHostPointerInfoEXT::default().handle_type(kind);
        pointer.p_host_pointer = ptr.as_ptr().cast();
        let index = index.ok_or_else(|| Error::Unsupported("no memory type for imported memory".into()))?;
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(size)
            .memory_type_index(index)
            .push_next(&mut pointer)
            .push_next(&mut flags);
        // SAFETY: the caller promises `size` bytes that live as long as the result. Address and size are multiples of
        // the device's alignment (checked), and the type is among those that the driver named for this memory.
        let memory = unsafe { core.vk.allocate_memory(&info, None) };
        let memory = memory.map_err(|e| core.failed("importing host memory", e))?;
        // SAFETY: the object is new and has no memory yet. The imported memory is its own, has the same size, and is of
        // a type in `need`.
        let bound = unsafe { core.vk.bind_buffer_memory(object.handle, memory, 0) };
        let backing = Backing { core: core.clone(), source: Some(Source::Imported(memory, block)) };
        Self::after_bind(bound, object, backing, size, (Some(ptr), Place { near: true, card: false }))
    }

    /// The buffer object. It is valid as long as this.
    pub fn buffer(&self) -> vk::Buffer {
        self.object.handle
    }

    /// Host address of the first byte, if the host can access the memory. The mapping is coherent.
    pub fn mapped(&self) -> Option<NonNull<u8>> {
        self.mapped
    }

    /// Whether the host should read the mapped bytes itself.
    pub fn is_near(&self) -> bool {
        self.place.near
    }

    /// Whether the memory is that of a card, which fetches many bytes faster than the host writes them.
    pub fn is_on_card(&self) -> bool {
        self.place.card
    }
}

/// Bytes of a [`Memory`] that their owner may read and write now.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    memory: &'a Arc<Memory>,
    offset: u64,
    len: u64,
}

impl<'a> Span<'a> {
    /// `len` bytes of `memory` from `offset` on. Fails if they are not in the memory.
    ///
    /// # Safety
    /// While the span is used, nothing else writes those of its bytes that are read through it, or uses those that are
    /// written through it. This includes queued work of the device.
    pub unsafe fn new(memory: &'a Arc<Memory>, offset: u64, len: u64) -> Result<Self> {
        match offset.checked_add(len) {
            Some(end) if end <= memory.size => Ok(Self { memory, offset, len }),
            _ => Err(Error::Invalid(format!("Vulkan: {len} bytes at {offset} of a buffer of {}", memory.size))),
        }
    }

    /// `len` bytes of the span from byte `at` on. Fails if the span ends before.
    pub fn part(&self, at: u64, len: u64) -> Result<Self> {
        match at.checked_add(len) {
            Some(end) if end <= self.len => Ok(Self { offset: self.offset + at, len, ..*self }),
            _ => Err(Error::Invalid(format!("Vulkan: {len} bytes at {at} of {}", self.len))),
        }
    }

    /// The memory.
    pub fn memory(&self) -> &'a Arc<Memory> {
        self.memory
    }

    /// Offset of the first byte in the memory.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of bytes.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// The bytes for the host. `None` if the memory is not mapped.
    pub fn window(&self) -> Option<Window<'a>> {
        let base = self.memory.mapped?;
        let (at, len) = (usize::try_from(self.offset).ok()?, usize::try_from(self.len).ok()?);
        // SAFETY: all of the memory is mapped at `base`, and `offset` is at most its size (`new`, `part`).
        Some(Window { start: unsafe { base.add(at) }, len, memory: PhantomData })
    }
}

/// The bytes of a [`Span`] for the host: mapped, with the promise of [`Span::new`].
pub struct Window<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a Memory>,
}

impl Window<'_> {
    /// Address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Sets the bytes. `data` must have the size of the window.
    pub fn write(&self, data: &[u8]) {
        assert_eq!(data.len(), self.len);
        // SAFETY: the `len` bytes are mapped as long as the borrowed `Memory`, and `Span` promises that nothing else
        // uses them now.
        unsafe { self.start.as_ptr().copy_from(data.as_ptr(), self.len) }
    }

    /// Reads the bytes. `data` must have the size of the window.
    pub fn read(&self, data: &mut [u8]) {
        assert_eq!(data.len(), self.len);
        // SAFETY: the `len` bytes are mapped as long as the borrowed `Memory`, and `Span` promises that nothing else
        // writes them now.
        unsafe { self.start.as_ptr().copy_to(data.as_mut_ptr(), self.len) }
    }

    /// Sets all bytes to `value`.
    pub fn fill(&self, value: u8) {
        // SAFETY: the `len` bytes are mapped as long as the borrowed `Memory`, and `Span` promises that nothing else
        // uses them now.
        unsafe { self.start.as_ptr().write_bytes(value, self.len) }
    }

    /// Copies the bytes of a window of the same size, which may overlap.
    pub fn copy_from(&self, from: &Window<'_>) {
        assert_eq!(from.len, self.len);
        // SAFETY: both windows have `len` bytes, mapped as long as the borrowed memories, and `Span` promises that
        // nothing else uses them now.
        unsafe { self.start.as_ptr().copy_from(from.start.as_ptr(), self.len) }
    }
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
        Self {
            prefer_host: environment::VK_PREFER_HOST_MEMORY.is_set(),
            no_visible_vidmem: environment::VK_DISABLE_HOST_VISIBLE_VIDMEM.is_set(),
            sysmem_fallback: environment::VK_ALLOW_SYSMEM_FALLBACK.is_set(),
        }
    }
}

/// Memory properties to try, best first.
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

/// The memory types that fit, in the order of the preferences. Leaves out protected and lazily allocated memory, AMD's
/// uncached types, and heaps that are smaller than the buffer.
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
        // A card with a small visible window (heap 0) first and its own memory last. A protected type of that memory is
        // in between.
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
