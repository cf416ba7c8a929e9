//! Memory whose ends fault, for tests of damaged input.

use crate::error::{Error, Result};

/// Bytes of inaccessible memory on both sides.
const GUARD: usize = 1 << 20;

/// Memory between two guard pages, which fault on access.
pub struct Zone {
    start: *mut u8,
    len: usize,
}

impl Zone {
    /// Maps `len` bytes, a multiple of the page size.
    pub fn new(len: usize) -> Result<Self> {
        let io = |what: &str| Error::Io { what: what.into(), source: std::io::Error::last_os_error() };
        let all = reserve(len + 2 * GUARD).ok_or_else(|| io("mapping memory"))?;
        let zone = Self { start: all.wrapping_add(GUARD), len };
        if open(zone.start, len) { Ok(zone) } else { Err(io("opening memory")) }
    }

    /// Address of the last `n` bytes.
    pub fn last(&self, n: usize) -> *mut u8 {
        assert!(n <= self.len);
        self.start.wrapping_add(self.len - n)
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        let all = self.start.wrapping_sub(GUARD);
        #[cfg(unix)]
        // SAFETY: the mapping that `new` made, whole. Tensors and buffers in it do not outlive the zone.
        unsafe {
            libc::munmap(all.cast(), self.len + 2 * GUARD);
        }
        #[cfg(windows)]
        // SAFETY: as above. All of it has the size 0 here.
        unsafe {
            use windows_sys::Win32::System::Memory::{MEM_RELEASE, VirtualFree};
            VirtualFree(all.cast(), 0, MEM_RELEASE);
        }
    }
}

/// New memory without access.
#[cfg(unix)]
fn reserve(len: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses the address of the new mapping.
    let all = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    (all != libc::MAP_FAILED).then_some(all.cast())
}

/// Permits access to a part of it.
#[cfg(unix)]
fn open(start: *mut u8, len: usize) -> bool {
    // SAFETY: a part of what `reserve` has mapped, which nothing uses yet.
    unsafe { libc::mprotect(start.cast(), len, libc::PROT_READ | libc::PROT_WRITE) == 0 }
}

/// New memory without access.
#[cfg(windows)]
fn reserve(len: usize) -> Option<*mut u8> {
    use windows_sys::Win32::System::Memory::{MEM_RESERVE, PAGE_NOACCESS, VirtualAlloc};
    // SAFETY: the system chooses the address.
    let all = unsafe { VirtualAlloc(std::ptr::null(), len, MEM_RESERVE, PAGE_NOACCESS) };
    (!all.is_null()).then_some(all.cast())
}

/// Permits access to a part of it.
#[cfg(windows)]
fn open(start: *mut u8, len: usize) -> bool {
    use windows_sys::Win32::System::Memory::{MEM_COMMIT, PAGE_READWRITE, VirtualAlloc};
    // SAFETY: a part of what `reserve` has reserved, which nothing uses yet.
    unsafe { !VirtualAlloc(start.cast(), len, MEM_COMMIT, PAGE_READWRITE).is_null() }
}
