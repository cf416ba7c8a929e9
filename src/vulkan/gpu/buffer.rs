//! Buffers: device memory, pinned host memory, and host memory imported by a device.

use crate::backend::author::{Buffer, HostMemory, NOT_READ, buffer_author};
use crate::backend::tensor_io::Pieces;
use crate::backend::{BufferRef, damage};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::vulkan::device::core::Core;
use crate::vulkan::device::memory::{Memory, Purpose, Span, Window};
use crate::vulkan::gpu::open::Gpu;
use crate::vulkan::submit::hazard::Range;
use crate::{ggml_abort, log_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a buffer of device memory reports as the address of its first byte. It is not an address, because the host has
/// none for device memory. Offsets count from it.
pub const BASE: usize = 0x1000;

/// Device memory as a buffer.
pub struct VkBuffer {
    gpu: Arc<Gpu>,
    memory: Arc<Memory>,
    /// What tensors have as the address of the first byte.
    base: usize,
    /// Offset of the first byte in the memory. Not 0 if imported host memory does not begin at a page.
    shift: u64,
    /// Bytes.
    size: u64,
    /// No other buffer has this number, not even one that is later made at the same place.
    serial: u64,
}

fn next_serial() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

impl VkBuffer {
    /// Allocates device memory of `size` bytes.
    pub fn alloc(gpu: &Arc<Gpu>, size: u64) -> Result<Self> {
        let memory = Memory::new(&gpu.core, size, Purpose::Tensors, "tensors")?;
        let size = memory.size;
        Ok(Self { gpu: gpu.clone(), memory: Arc::new(memory), base: BASE, shift: 0, size, serial: next_serial() })
    }

    /// Makes a buffer of host memory. Its tensors have host addresses.
    pub(in crate::vulkan) fn import(gpu: &Arc<Gpu>, host: HostMemory) -> Result<Self> {
        let align = usize::try_from(gpu.info().limits.import_alignment).unwrap_or(4096);
        let (address, size) = (host.address(), host.size());
        let start = address / align * align;
        let end = address.checked_add(size).and_then(|e| e.checked_next_multiple_of(align));
        let (Some(ptr), Some(end)) = (NonNull::new(start as *mut u8), end) else {
            return Err(Error::Invalid(format!("{size} bytes of host memory at {address:#x}")));
        };
        // SAFETY: `HostMemory` promises that its bytes live as long as the buffer. The host must not free the buffer
        // before queued copies are done, so these do not use the memory for longer. The rest of the first and the last
        // page is mapped for as long, because the alignment is at most a page, and is not written: `place` and
        // `location` check bounds.
        let memory = unsafe { Memory::import(&gpu.core, ptr, (end - start) as u64) }?;
        let shift = (address - start) as u64;
        let serial = next_serial();
        Ok(Self { gpu: gpu.clone(), memory: Arc::new(memory), base: address, shift, size: size as u64, serial })
    }

    /// The device.
    #[cfg(test)]
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Offset in the memory of byte `offset` of a tensor's data. `None` unless `len` bytes from there on are in the
    /// buffer.
    fn inside(&self, tensor: TensorRef, offset: usize, len: u64) -> Option<u64> {
        let start = (tensor.data() as usize).checked_sub(self.base)?.checked_add(offset)? as u64;
        (start.checked_add(len)? <= self.size).then(|| self.shift + start)
    }

    /// `len` bytes of a tensor's data from byte `offset` on. Fails unless they are in the buffer: imported memory may
    /// begin and end with bytes of others. Only for the functions of `Buffer`.
    fn place(&self, tensor: TensorRef, offset: usize, len: usize) -> Result<Span<'_>> {
        let at = self.inside(tensor, offset, len as u64).ok_or_else(|| {
            Error::Invalid(format!("{len} bytes at {offset} of tensor '{}' are outside its buffer", tensor.name()))
        })?;
        // SAFETY: `Buffer`: nothing else uses these bytes of the tensor while one of its functions runs.
        unsafe { Span::new(&self.memory, at, len as u64) }
    }
}

/// The place of a tensor's data.
pub struct Location {
    /// The device.
    pub gpu: Arc<Gpu>,
    /// The memory.
    pub memory: Arc<Memory>,
    /// Offset of the first byte.
    pub offset: u64,
}

/// The place of a tensor's data. `None` unless the data is in a buffer of this backend and inside its bounds.
pub fn location(tensor: TensorRef) -> Option<Location> {
    with(tensor, |b, offset| Location { gpu: b.gpu.clone(), memory: b.memory.clone(), offset })
}

/// The device addresses of a tensor's data. Fails unless the data is in a buffer of this backend and inside its bounds.
pub fn range(tensor: TensorRef) -> Result<Range> {
    with(tensor, |b, offset| Range::new(b.memory.address + offset, tensor.nbytes() as u64))
        .ok_or_else(|| Error::Invalid(format!("tensor '{}' is not in a buffer of a Vulkan device", tensor.name())))
}

/// Fails unless a tensor's data is in a buffer of this open device.
pub fn is_of(tensor: TensorRef, core: &Arc<Core>) -> Result<()> {
    match with(tensor, |b, _| Arc::ptr_eq(&b.gpu.core, core)) {
        Some(true) => Ok(()),
        _ => {
            let of = tensor.data_buffer().map_or_else(|| "no buffer".to_owned(), |b| b.name());
            Err(Error::Invalid(format!("'{}' is in {of}, not in a buffer of this device", tensor.name())))
        }
    }
}

/// The number of the buffer that has a tensor's data. While it is the same, the same data is at the same device
/// address.
pub fn serial(tensor: TensorRef) -> Option<u64> {
    with(tensor, |b, _| b.serial)
}

fn with<T>(tensor: TensorRef, f: impl FnOnce(&VkBuffer, u64) -> T) -> Option<T> {
    let buffer: BufferRef = tensor.data_buffer()?;
    let author = buffer_author::<VkBuffer>(&buffer)?;
    let offset = author.inside(tensor, 0, tensor.nbytes_checked()? as u64)?;
    Some(f(author, offset))
}

/// Logs a failure. Returns whether there was one.
fn failed(what: &str, result: Result<()>) -> bool {
    result.map_err(|e| log_error!("ggml_vulkan: {what}: {e}")).is_err()
}

/// The end of a write of `size` bytes.
fn written(what: &str, result: Result<()>, tensor: TensorRef, offset: usize, size: usize) {
    if failed(what, result) {
        damage::unwritten(tensor, offset, size);
    }
}

/// Sets pieces of host memory that were not read.
pub(in crate::vulkan) fn not_read(data: &mut [u8], p: Pieces) {
    for i in 0..p.count {
        data[i * p.stride_data..][..p.size].fill(NOT_READ);
    }
}

impl Buffer for VkBuffer {
    // Drivers have threads, which a child does not have.
    const IN_CHILDREN: bool = false;
    const PIECES: bool = true;
    const COPIES: bool = true;

    fn base(&self) -> *mut u8 {
        self.base as *mut u8
    }

    fn memset(&self, tensor: TensorRef, value: u8, offset: usize, size: usize) {
        let done = self.place(tensor, offset, size).and_then(|to| self.gpu.fill(&to, value));
        written("memset", done, tensor, offset, size);
    }

    fn set(&self, tensor: TensorRef, data: &[u8], offset: usize) {
        let done = self.place(tensor, offset, data.len()).and_then(|to| self.gpu.write(&to, data));
        written("set", done, tensor, offset, data.len());
    }

    fn get(&self, tensor: TensorRef, data: &mut [u8], offset: usize) {
        if failed("get", self.place(tensor, offset, data.len()).and_then(|from| self.gpu.read(&from, data))) {
            data.fill(NOT_READ);
        }
    }

    fn set_2d(&self, tensor: TensorRef, data: &[u8], p: Pieces) {
        let to = self.place(tensor, p.offset, p.extent_in_tensor());
        written("set", to.and_then(|to| self.gpu.write_2d(&to, data, p)), tensor, p.offset, p.extent_in_tensor());
    }

    fn get_2d(&self, tensor: TensorRef, data: &mut [u8], p: Pieces) {
        debug_assert!(p.extent_in_tensor() <= tensor.nbytes());
        let from = self.place(tensor, p.offset, p.extent_in_tensor());
        if failed("get", from.and_then(|from| self.gpu.read_2d(&from, data, p))) {
            not_read(data, p);
        }
    }

    fn copy_from(&self, src: TensorRef, dst: TensorRef) -> bool {
        let Some(source) = location(src) else { return false };
        let n = src.nbytes();
        // SAFETY: `Buffer`: nothing else writes the data of `src` meanwhile.
        let from = unsafe { Span::new(&source.memory, source.offset, n as u64) };
        let (from, to) = match from.and_then(|from| Ok((from, self.place(dst, 0, n)?))) {
            Ok(both) => both,
            Err(e) => {
                written("copy", Err(e), dst, 0, n);
                return true;
            }
        };
        if Arc::ptr_eq(&source.gpu, &self.gpu) {
            written("copy", self.gpu.copy(&from, &to), dst, 0, n);
            return true;
        }
        // Between two devices. The host reads into the target itself if it can, which saves a copy.
        let Some(target) = self.gpu.window(&to) else { return false };
        // SAFETY: the window has `n` mapped bytes. `Buffer`: nothing else uses the data of `dst` meanwhile, so the
        // slice is the only access to them.
        let target = unsafe { std::slice::from_raw_parts_mut(target.start().as_ptr(), n) };
        written("copy", source.gpu.read(&from, target), dst, 0, n);
        true
    }

    fn clear(&self, this: BufferRef, value: u8) {
        // SAFETY: `Buffer`: nothing else uses the bytes of the buffer meanwhile.
        let all = unsafe { Span::new(&self.memory, self.shift, self.size) };
        if failed("clear", all.and_then(|all| self.gpu.fill(&all, value))) {
            damage::unwritten_buffer(this);
        }
    }
}

impl Drop for VkBuffer {
    fn drop(&mut self) {
        // Work in flight may use the memory if a host frees the buffer too early.
        self.gpu.core.wait_idle();
        self.gpu.unpin(&self.memory);
    }
}

/// Pinned host memory, which the device copies from and to.
pub struct VkHostBuffer {
    gpu: Arc<Gpu>,
    /// Mapped: `alloc` has checked it.
    memory: Arc<Memory>,
}

impl VkHostBuffer {
    /// Allocates host memory of `size` bytes.
    pub fn alloc(gpu: Arc<Gpu>, size: u64) -> Result<Self> {
        let memory = Arc::new(Memory::new(&gpu.core, size, Purpose::Host, "host tensors")?);
        if memory.mapped().is_none() {
            return Err(Error::Backend("Vulkan: host memory is not mapped".into()));
        }
        gpu.pin(&memory);
        Ok(Self { gpu, memory })
    }

    /// `size` bytes of a tensor from `offset` on. Only for the functions of `Buffer`.
    fn window(&self, tensor: TensorRef, offset: usize, size: usize) -> Window<'_> {
        let start = (tensor.data() as usize).wrapping_sub(self.base() as usize).wrapping_add(offset);
        // SAFETY: `Buffer`: nothing else uses these bytes of the tensor while one of its functions runs.
        let span = unsafe { Span::new(&self.memory, start as u64, size as u64) };
        match span.ok().and_then(|span| span.window()) {
            Some(window) => window,
            None => ggml_abort!("tensor '{}' is outside its buffer", tensor.name()),
        }
    }
}

impl Buffer for VkHostBuffer {
    // Drivers have threads, which a child does not have.
    const IN_CHILDREN: bool = false;
    fn base(&self) -> *mut u8 {
        self.memory.mapped().map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    fn memset(&self, tensor: TensorRef, value: u8, offset: usize, size: usize) {
        self.window(tensor, offset, size).fill(value);
    }

    fn set(&self, tensor: TensorRef, data: &[u8], offset: usize) {
        self.window(tensor, offset, data.len()).write(data);
    }

    fn get(&self, tensor: TensorRef, data: &mut [u8], offset: usize) {
        self.window(tensor, offset, data.len()).read(data);
    }

    fn clear(&self, _: BufferRef, value: u8) {
        // SAFETY: `Buffer`: nothing else uses the bytes of the buffer meanwhile.
        let all = unsafe { Span::new(&self.memory, 0, self.memory.size) };
        if let Some(window) = all.ok().and_then(|all| all.window()) {
            window.fill(value);
        }
    }
}

impl Drop for VkHostBuffer {
    fn drop(&mut self) {
        self.gpu.core.wait_idle();
        self.gpu.unpin(&self.memory);
    }
}
