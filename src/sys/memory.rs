//! Aligned memory that is owned by one holder.

use crate::error::{Error, Result};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Bytes of memory that the machine has; 0 where the system does not say.
pub fn physical() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: plain questions to the system.
        let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGE_SIZE)) };
        usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(size).unwrap_or(0))
    }
    #[cfg(not(unix))]
    {
        0
    }
}

/// A block of aligned memory, freed when dropped. Its bytes are reached through the raw pointer, because C code shares them.
#[derive(Debug)]
pub struct AlignedBlock {
    ptr: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block owns its memory; access is through the raw pointer, and the responsibility of the holder.
unsafe impl Send for AlignedBlock {}
// SAFETY: as above.
unsafe impl Sync for AlignedBlock {}

impl AlignedBlock {
    /// A block of `size` uninitialised bytes (at least one is allocated) at a multiple of `align`, a power of two.
    pub fn new(size: usize, align: usize, what: &str) -> Result<Self> {
        Self::with(size, align, what, alloc)
    }

    /// A block of `size` zeroed bytes at a multiple of `align`.
    pub fn zeroed(size: usize, align: usize, what: &str) -> Result<Self> {
        Self::with(size, align, what, alloc_zeroed)
    }

    /// As [`Self::new`]; a large block requests large pages from the system, if it has them: memory that is walked through from
    /// end to end misses the table of pages less often then.
    pub fn paged(size: usize, align: usize, what: &str) -> Result<Self> {
        const LARGE_PAGE: usize = 2 << 20;
        if size < 2 * LARGE_PAGE {
            return Self::new(size, align, what);
        }
        let block = Self::new(size, align.max(LARGE_PAGE), what)?;
        #[cfg(target_os = "linux")]
        // SAFETY: the range is the block's own and aligned to pages; the advice changes no byte of it.
        unsafe {
            libc::madvise(block.as_ptr().cast(), size / LARGE_PAGE * LARGE_PAGE, libc::MADV_HUGEPAGE);
        }
        Ok(block)
    }

    fn with(size: usize, align: usize, what: &str, get: unsafe fn(Layout) -> *mut u8) -> Result<Self> {
        let oom = || Error::OutOfMemory { what: what.to_owned(), bytes: size };
        let layout = Layout::from_size_align(size.max(1), align).map_err(|_| oom())?;
        // SAFETY: the layout's size is not zero.
        let ptr = NonNull::new(unsafe { get(layout) }).ok_or_else(oom)?;
        Ok(Self { ptr, layout })
    }

    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Bytes in the block.
    pub fn size(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for AlignedBlock {
    fn drop(&mut self) {
        // SAFETY: allocated in `with` with this layout and freed only here.
        unsafe { dealloc(self.ptr.as_ptr(), self.layout) }
    }
}

/// `size` uninitialised bytes of the C library at a multiple of `ALIGN`, for holders who free memory without its size; NULL when there
/// is none. Freed with [`c_aligned_free`].
pub fn c_aligned_alloc<const ALIGN: usize>(size: usize) -> *mut c_void {
    const { assert!(ALIGN.is_power_of_two() && ALIGN.is_multiple_of(size_of::<*const ()>())) };
    #[cfg(not(windows))]
    {
        let mut p = std::ptr::null_mut();
        // SAFETY: the alignment is what the function requires, as checked at compile time; `p` is writable.
        match unsafe { libc::posix_memalign(&raw mut p, ALIGN, size) } {
            0 => p,
            _ => std::ptr::null_mut(),
        }
    }
    #[cfg(windows)]
    // SAFETY: the alignment is a power of two, as checked while compiling.
    unsafe {
        libc::aligned_malloc(size, ALIGN)
    }
}

/// Frees memory of [`c_aligned_alloc`]; nothing for NULL.
///
/// # Safety
/// `p` is NULL or came from [`c_aligned_alloc`], and nobody uses it afterwards.
pub unsafe fn c_aligned_free(p: *mut c_void) {
    #[cfg(not(windows))]
    // SAFETY: forwarded to the caller.
    unsafe {
        libc::free(p)
    }
    #[cfg(windows)]
    // SAFETY: forwarded to the caller.
    unsafe {
        libc::aligned_free(p)
    }
}

/// Begins to load `bytes` bytes from `at` on into the cache. A hint: any address will do.
#[inline]
pub fn prefetch(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..bytes.div_ceil(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is part of every x86-64, and reads nothing where an address is not mapped.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(64 * line).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

/// Bytes aligned to 8, so that C code may read them as numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberBytes {
    words: Vec<u64>,
    len: usize,
}

impl NumberBytes {
    /// `len` zeroed bytes.
    pub fn zeroed(len: usize) -> Result<Self> {
        let mut words = Vec::new();
        let n = len.div_ceil(8);
        words.try_reserve_exact(n).map_err(|_| Error::OutOfMemory { what: "numbers".into(), bytes: len })?;
        words.resize(n, 0);
        Ok(Self { words, len })
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let mut b = Self::zeroed(bytes.len())?;
        b.as_mut_slice().copy_from_slice(bytes);
        Ok(b)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `words` holds at least `len` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }

    /// The bytes, to change.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_impossible_sizes_are_errors() {
        for align in [16, 64, 4096] {
            let b = AlignedBlock::zeroed(100, align, "test").unwrap();
            assert_eq!(b.as_ptr() as usize % align, 0);
            // SAFETY: the block has 100 initialised bytes and nobody else holds it.
            assert!(unsafe { std::slice::from_raw_parts(b.as_ptr(), 100) }.iter().all(|&x| x == 0));
        }
        assert!(matches!(AlignedBlock::new(usize::MAX - 64, 64, "test"), Err(Error::OutOfMemory { .. })));
        assert!(matches!(AlignedBlock::new(1 << 60, 64, "test"), Err(Error::OutOfMemory { .. })));
    }
}
