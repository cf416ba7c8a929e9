//! Aligned memory with one owner, the size of the machine's memory, and prefetching.

use crate::error::{Error, Result};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

/// Returns the size of the machine's memory in bytes, or 0 if the system does not report it.
pub fn physical() -> usize {
    #[cfg(unix)]
    {
        // SAFETY: `sysconf` takes any name.
        let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
        usize::try_from(pages).unwrap_or(0).saturating_mul(page_size())
    }
    #[cfg(not(unix))]
    {
        of_system().and_then(|(all, _)| usize::try_from(all).ok()).unwrap_or(0)
    }
}

/// The system's own account of memory in bytes: all that the machine has, and what programs have not taken. `None` if
/// it does not say, and on Linux, which has files for it (`available`).
pub fn of_system() -> Option<(u64, u64)> {
    #[cfg(target_vendor = "apple")]
    {
        let mut now = std::mem::MaybeUninit::<libc::vm_statistics64>::zeroed();
        let mut words = libc::HOST_VM_INFO64_COUNT;
        // SAFETY: the struct has so many words, which the call may write. An older system writes fewer, and the others
        // are zeros, which are values, too. Every process may use the port of its machine.
        let now = unsafe {
            #[allow(deprecated)] // in favour of a crate for all of Mach
            let host = libc::mach_host_self();
            let result = libc::host_statistics64(host, libc::HOST_VM_INFO64, now.as_mut_ptr().cast(), &raw mut words);
            (result == libc::KERN_SUCCESS).then(|| now.assume_init())
        }?;
        // What its Activity Monitor shows as used: memory of programs that cannot be dropped, that of the system, and
        // compressed memory. The rest is unused, or is pages of files.
        let programs = u64::from(now.internal_page_count).saturating_sub(u64::from(now.purgeable_count));
        let used = programs + u64::from(now.wire_count) + u64::from(now.compressor_page_count);
        let total = physical() as u64;
        Some((total, total.saturating_sub(used.saturating_mul(page_size() as u64))))
    }
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
        let mut now = MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
        // SAFETY: a struct that says its size, which the call may write.
        let known = unsafe { GlobalMemoryStatusEx(&raw mut now) } != 0;
        known.then_some((now.ullTotalPhys, now.ullAvailPhys))
    }
    #[cfg(not(any(target_vendor = "apple", windows)))]
    None
}

/// Bytes of a page.
#[cfg(unix)]
pub fn page_size() -> usize {
    // SAFETY: `sysconf` takes any name.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGE_SIZE) }).ok().filter(|n| n.is_power_of_two()).unwrap_or(4096)
}

/// Bytes of a page: what Windows has on x86-64 and on 64-bit ARM.
#[cfg(windows)]
pub fn page_size() -> usize {
    4096
}

/// A block of aligned memory, freed when dropped. It gives out a raw pointer only, because C code shares the bytes.
#[derive(Debug)]
pub struct AlignedBlock {
    ptr: NonNull<u8>,
    layout: Layout,
    /// Whether the block is a mapping of its own.
    #[cfg(linux_kernel)]
    mapped: bool,
}

/// Size of a large page.
#[cfg(linux_kernel)]
const LARGE_PAGE: usize = 2 << 20;

// SAFETY: memory of the global allocator and mappings may be freed on any thread. The block itself never reads or
// writes its bytes.
unsafe impl Send for AlignedBlock {}
// SAFETY: a shared block gives out only its address and size; each access through the address has its own SAFETY
// comment.
unsafe impl Sync for AlignedBlock {}

impl AlignedBlock {
    /// Allocates `size` uninitialised bytes (at least one) at a multiple of `align`, a power of two.
    pub fn new(size: usize, align: usize, what: &str) -> Result<Self> {
        Self::with(size, align, what, alloc)
    }

    /// Allocates `size` zeroed bytes at a multiple of `align`.
    pub fn zeroed(size: usize, align: usize, what: &str) -> Result<Self> {
        Self::with(size, align, what, alloc_zeroed)
    }

    /// Like [`Self::new`], but requests large pages for a large block if the system has them: reading through it then
    /// misses the TLB less often.
    pub fn paged(size: usize, align: usize, what: &str) -> Result<Self> {
        #[cfg(not(linux_kernel))]
        const LARGE_PAGE: usize = 2 << 20;
        if size < 2 * LARGE_PAGE {
            return Self::new(size, align, what);
        }
        let block = Self::new(size, align.max(LARGE_PAGE), what)?;
        #[cfg(linux_kernel)]
        // SAFETY: the range is inside the block and aligned to pages, and this advice does not change its bytes.
        unsafe {
            libc::madvise(block.as_ptr().cast(), size / LARGE_PAGE * LARGE_PAGE, libc::MADV_HUGEPAGE);
        }
        Ok(block)
    }

    /// Like [`Self::zeroed`], with large pages as [`Self::paged`] for a large block. The system clears a page when a
    /// thread first uses it.
    pub fn zeroed_pages(size: usize, align: usize, what: &str) -> Result<Self> {
        #[cfg(linux_kernel)]
        if size >= 2 * LARGE_PAGE && align <= LARGE_PAGE {
            return Self::mapped(size, align).ok_or_else(|| Error::OutOfMemory { what: what.to_owned(), bytes: size });
        }
        Self::zeroed(size, align, what)
    }

    /// A mapping of `size` bytes at a multiple of a large page; `None` if there is not enough memory. `align` is at
    /// most a large page.
    #[cfg(linux_kernel)]
    fn mapped(size: usize, align: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size, align).ok()?;
        let len = mapping(size)?;
        let all = len.checked_add(LARGE_PAGE)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping anywhere, which overlaps nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), all, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = start.cast::<u8>();
        let before = start.addr().next_multiple_of(LARGE_PAGE) - start.addr();
        let block = start.wrapping_add(before);
        // SAFETY: all ranges are inside the mapping, and whole pages. The parts before and after the block are not
        // used.
        unsafe {
            if before > 0 {
                libc::munmap(start.cast(), before);
            }
            if before < LARGE_PAGE {
                libc::munmap(block.wrapping_add(len).cast(), LARGE_PAGE - before);
            }
            libc::madvise(block.cast(), len, libc::MADV_HUGEPAGE);
        }
        Some(Self { ptr: NonNull::new(block)?, layout, mapped: true })
    }

    fn with(size: usize, align: usize, what: &str, get: unsafe fn(Layout) -> *mut u8) -> Result<Self> {
        let oom = || Error::OutOfMemory { what: what.to_owned(), bytes: size };
        let layout = Layout::from_size_align(size.max(1), align).map_err(|_| oom())?;
        // SAFETY: the size of the layout is not zero, which is all that `alloc` and `alloc_zeroed` require.
        let ptr = NonNull::new(unsafe { get(layout) }).ok_or_else(oom)?;
        Ok(Self {
            ptr,
            layout,
            #[cfg(linux_kernel)]
            mapped: false,
        })
    }

    /// Address of the first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Gives the memory of bytes `range` back to the system, as far as they are whole pages. Panics if the block does
    /// not have them.
    ///
    /// # Safety
    /// No other code uses these bytes meanwhile. Afterwards each of them is as it was, or 0.
    pub unsafe fn give_back(&self, range: Range<usize>) {
        #[cfg(linux_kernel)]
        // SAFETY: the block is private memory without a file, and the caller permits that its bytes become 0.
        unsafe {
            self.advise(range, libc::MADV_DONTNEED);
        }
        // macOS takes these pages when it needs memory.
        #[cfg(target_vendor = "apple")]
        // SAFETY: as above.
        unsafe {
            self.advise(range, libc::MADV_FREE);
        }
        #[cfg(windows)]
        if let Some((at, size)) = self.pages(range) {
            // SAFETY: whole pages of private memory, whose bytes the caller permits to be lost. An error leaves them
            // as they are.
            unsafe { windows_sys::Win32::System::Memory::DiscardVirtualMemory(at.cast(), size) };
        }
        #[cfg(not(any(linux_kernel, target_vendor = "apple", windows)))]
        let _ = range;
    }

    /// Gets the pages of bytes `range`, which will be written, at once: it takes half of the time of getting each when
    /// it is first used.
    pub fn will_write(&self, range: Range<usize>) {
        /// Since Linux 5.14; before, an error.
        #[cfg(linux_kernel)]
        const POPULATE_WRITE: std::ffi::c_int = 23;
        #[cfg(linux_kernel)]
        // SAFETY: this advice changes no byte.
        unsafe {
            self.advise(range, POPULATE_WRITE);
        }
        #[cfg(not(linux_kernel))]
        let _ = range;
    }

    /// Uses small pages for bytes `range`, which are given back often: a large page stays as long as any byte of it is
    /// used.
    pub fn use_small_pages(&self, range: Range<usize>) {
        #[cfg(linux_kernel)]
        // SAFETY: this advice changes no byte.
        unsafe {
            self.advise(range, libc::MADV_NOHUGEPAGE);
        }
        #[cfg(not(linux_kernel))]
        let _ = range;
    }

    /// Where the whole pages of bytes `range` are, if there are any, and their size. Panics if the block does not have
    /// the bytes.
    #[cfg(any(linux_kernel, target_vendor = "apple", windows))]
    fn pages(&self, range: Range<usize>) -> Option<(*mut u8, usize)> {
        assert!(range.start <= range.end && range.end <= self.size(), "{range:?} of {} bytes", self.size());
        let page = page_size();
        let start = (self.as_ptr().addr() + range.start).next_multiple_of(page);
        let end = (self.as_ptr().addr() + range.end) / page * page;
        (start < end).then(|| (self.as_ptr().with_addr(start), end - start))
    }

    /// Advises the system about the whole pages of bytes `range`. An error leaves them as they are. Panics if the block
    /// does not have the bytes.
    ///
    /// # Safety
    /// The advice may be given for private memory that the caller may change so.
    #[cfg(any(linux_kernel, target_vendor = "apple"))]
    unsafe fn advise(&self, range: Range<usize>, advice: std::ffi::c_int) {
        if let Some((at, size)) = self.pages(range) {
            // SAFETY: whole pages of the block; the caller's promise for the advice.
            unsafe { libc::madvise(at.cast(), size, advice) };
        }
    }

    /// Bytes in the block.
    pub fn size(&self) -> usize {
        self.layout.size()
    }
}

/// Length of the mapping of a block: whole large pages.
#[cfg(linux_kernel)]
fn mapping(size: usize) -> Option<usize> {
    size.checked_next_multiple_of(LARGE_PAGE)
}

impl Drop for AlignedBlock {
    fn drop(&mut self) {
        #[cfg(linux_kernel)]
        if self.mapped {
            // SAFETY: `mapped` has mapped that many bytes (there is no overflow: it did so), and only `drop` unmaps
            // them.
            unsafe { libc::munmap(self.ptr.as_ptr().cast(), mapping(self.layout.size()).unwrap_or(0)) };
            return;
        }
        // SAFETY: `with` allocated `ptr` with this layout, and only `drop` frees it.
        unsafe { dealloc(self.ptr.as_ptr(), self.layout) }
    }
}

/// Allocates `size` uninitialised bytes with the C library at a multiple of `ALIGN`, for callers that do not know the
/// size when they free. Returns NULL if there is not enough memory. Free them with [`c_aligned_free`].
pub fn c_aligned_alloc<const ALIGN: usize>(size: usize) -> *mut c_void {
    const { assert!(ALIGN.is_power_of_two() && ALIGN.is_multiple_of(size_of::<*const ()>())) };
    #[cfg(not(windows))]
    {
        let mut p = std::ptr::null_mut();
        // SAFETY: the assertion above is what `posix_memalign` requires of the alignment, and `p` is writable.
        match unsafe { libc::posix_memalign(&raw mut p, ALIGN, size) } {
            0 => p,
            _ => std::ptr::null_mut(),
        }
    }
    #[cfg(windows)]
    {
        // That of Wine 8 adds to the size and does not look whether the sum has wrapped.
        if isize::try_from(size).is_err() {
            return std::ptr::null_mut();
        }
        // SAFETY: the alignment is a power of two, by the assertion above.
        unsafe { libc::aligned_malloc(size, ALIGN) }
    }
}

/// Frees memory of [`c_aligned_alloc`]. Does nothing for NULL.
///
/// # Safety
/// `p` is NULL or came from [`c_aligned_alloc`], and no code uses it afterwards.
pub unsafe fn c_aligned_free(p: *mut c_void) {
    #[cfg(not(windows))]
    // SAFETY: the caller promises NULL or a pointer of `c_aligned_alloc`, which is one of `posix_memalign`. `free`
    // takes both.
    unsafe {
        libc::free(p)
    }
    #[cfg(windows)]
    // SAFETY: the caller promises NULL or a pointer of `c_aligned_alloc`, which is one of `aligned_malloc`.
    // `aligned_free` takes both.
    unsafe {
        libc::aligned_free(p)
    }
}

/// There is no memory. Unlike an [`Error`], it needs none itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Moves a value to the heap.
///
/// # Errors
/// There is no memory for it.
pub fn try_box<T>(value: T) -> std::result::Result<Box<T>, Full> {
    let mut one = Vec::new();
    one.try_reserve_exact(1).map_err(|_| Full)?;
    one.push(value);
    let slice = Box::into_raw(one.into_boxed_slice());
    // SAFETY: the slice has one element, and a slice of one element has the layout of the element.
    Ok(unsafe { Box::from_raw(slice.cast::<T>()) })
}

/// Adds an element at the end.
///
/// # Errors
/// There is no memory for it; nothing has changed.
pub fn try_push<T>(list: &mut Vec<T>, element: T) -> std::result::Result<(), Full> {
    list.try_reserve(1).map_err(|_| Full)?;
    list.push(element);
    Ok(())
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
        let mut bytes = Self::default();
        bytes.grow(len).map_err(|_| Error::OutOfMemory { what: "numbers".into(), bytes: len })?;
        Ok(bytes)
    }

    /// Adds `more` zeroed bytes at the end.
    ///
    /// # Errors
    /// There is no memory for them; nothing has changed.
    pub fn grow(&mut self, more: usize) -> std::result::Result<(), Full> {
        let len = self.len.checked_add(more).ok_or(Full)?;
        let n = len.div_ceil(8);
        self.words.try_reserve_exact(n - self.words.len()).map_err(|_| Full)?;
        // Bytes after the old end are zeros, because no code could write them.
        self.words.resize(n, 0);
        self.len = len;
        Ok(())
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let mut b = Self::zeroed(bytes.len())?;
        b.as_mut_slice().copy_from_slice(bytes);
        Ok(b)
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `words` has `len` rounded up to words initialised bytes (`zeroed`), and the result borrows `self`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }

    /// Returns the bytes for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `words` has at least `len` initialised bytes (`zeroed`), any bytes are valid words, and `self` is
        // borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_by_zeros() {
        let mut bytes = NumberBytes::zeroed(3).unwrap();
        bytes.as_mut_slice().fill(7);
        bytes.grow(10).unwrap();
        assert_eq!(bytes.as_slice(), [7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes.as_slice().as_ptr().addr() % 8, 0);
        assert_eq!((bytes.grow(usize::MAX), bytes.grow(1 << 60), bytes.as_slice().len()), (Err(Full), Err(Full), 13));
    }

    #[test]
    fn a_value_moves_to_the_heap() {
        let text = try_box(String::from("text")).unwrap();
        assert_eq!(*text, "text");
        let mut list = Vec::new();
        assert_eq!((try_push(&mut list, text), list.len()), (Ok(()), 1));
    }

    #[test]
    fn large_blocks_are_zeros_in_pages() {
        for size in [1, 4095, 4 << 20, (4 << 20) + 1, (7 << 20) - 64] {
            let b = AlignedBlock::zeroed_pages(size, 64, "test").unwrap();
            assert_eq!((b.as_ptr().addr() % 64, b.size()), (0, size));
            // SAFETY: the block has `size` zeroed bytes, and nothing else uses them.
            let bytes = unsafe { std::slice::from_raw_parts_mut(b.as_ptr(), size) };
            assert!(bytes.iter().all(|&x| x == 0), "{size}");
            bytes.fill(7);
        }
        for size in [1 << 60, usize::MAX - 64] {
            assert!(matches!(AlignedBlock::zeroed_pages(size, 64, "test"), Err(Error::OutOfMemory { .. })));
        }
    }

    #[test]
    fn blocks_are_aligned_and_impossible_sizes_are_errors() {
        for align in [16, 64, 4096] {
            let b = AlignedBlock::zeroed(100, align, "test").unwrap();
            assert_eq!(b.as_ptr() as usize % align, 0);
            // SAFETY: the block has 100 zeroed bytes, and nothing writes them.
            assert!(unsafe { std::slice::from_raw_parts(b.as_ptr(), 100) }.iter().all(|&x| x == 0));
        }
        assert!(matches!(AlignedBlock::new(usize::MAX - 64, 64, "test"), Err(Error::OutOfMemory { .. })));
        assert!(matches!(AlignedBlock::new(1 << 60, 64, "test"), Err(Error::OutOfMemory { .. })));
    }

    /// Every byte of a block of every size belongs to this block only. A sanitizer detects a write after the block, and
    /// memory that is not given back.
    #[test]
    fn blocks_of_every_size_and_alignment() {
        for align in [1, 2, 8, 16, 64, 256, 4096] {
            for size in (0..=130).chain([4095, 4096, 4097, 65537]) {
                let made = [AlignedBlock::new(size, align, "test"), AlignedBlock::paged(size, align, "test")];
                for b in made.into_iter().chain([AlignedBlock::zeroed(size, align, "test")]) {
                    let b = b.unwrap();
                    assert_eq!((b.as_ptr().addr() % align, b.size()), (0, size.max(1)));
                    // SAFETY: the block has so many bytes, and nothing else uses them.
                    unsafe { b.as_ptr().write_bytes(0xa5, b.size()) };
                }
            }
        }
        let b = AlignedBlock::paged((5 << 20) + 3, 64, "test").unwrap();
        // SAFETY: the block has so many bytes, and nothing else uses them.
        unsafe { b.as_ptr().write_bytes(0xa5, b.size()) };
        assert!(b.as_ptr().addr().is_multiple_of(2 << 20));
        for size in (0..=130).chain([4096, 100_000]) {
            let p = c_aligned_alloc::<64>(size);
            assert!(!p.is_null() && p.addr().is_multiple_of(64));
            // SAFETY: `size` bytes, which no code uses afterwards.
            unsafe {
                p.cast::<u8>().write_bytes(1, size);
                c_aligned_free(p);
            }
        }
        // SAFETY: NULL is allowed.
        unsafe { c_aligned_free(c_aligned_alloc::<64>(usize::MAX - 4096)) };
        assert!(c_aligned_alloc::<64>(usize::MAX - 4096).is_null());
    }

    #[test]
    fn numbers_of_every_length_grow_by_every_length() {
        for len in 0..=33usize {
            for more in 0..=17usize {
                let from: Box<[u8]> = (1..=len as u8).collect();
                let mut bytes = NumberBytes::copy_of(&from).unwrap();
                assert_eq!(bytes.as_slice(), &*from);
                bytes.grow(more).unwrap();
                let expected = [&*from, &vec![0; more]].concat();
                assert!(bytes.as_slice() == expected && bytes.as_mut_slice() == expected);
                bytes.as_mut_slice().fill(7);
                assert_eq!(bytes.clone(), bytes);
            }
        }
    }

    /// Dropped once, with no memory left, also if the value has no bytes.
    #[test]
    fn boxed_values_are_dropped_once() {
        struct Counts<'a, const N: usize>(&'a std::cell::Cell<usize>, [u8; N]);
        impl<const N: usize> Drop for Counts<'_, N> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = std::cell::Cell::new(0);
        drop(try_box(Counts(&dropped, [1; 0])).unwrap());
        drop(try_box(Counts(&dropped, [1; 1])).unwrap());
        drop(try_box(Counts(&dropped, [1; 5000])).unwrap());
        assert_eq!((dropped.get(), *try_box(()).unwrap()), (3, ()));
    }
}
