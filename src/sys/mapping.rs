//! Read-only mappings of files: which memory of the host is one, in which file it is, and giving its pages back.
//!
//! A host that maps a model file and copies its tensors elsewhere keeps the pages of the file in its memory, beside the
//! copies. The kernel has these pages in its cache and reads them again when they are used, so the process can give
//! them back as soon as they are copied.

#[cfg(any(linux_kernel, test))]
use super::areas::Area;
pub use super::areas::FilePlace;
#[cfg(linux_kernel)]
use super::areas::{all, from};
use std::ops::Range;

/// Memory that is a read-only, shared mapping of a file. While it is borrowed, the mapping stays.
pub struct FileMapping<'a> {
    bytes: &'a [u8],
    /// Where the bytes are, if they follow each other in one file.
    #[cfg_attr(not(linux_kernel), allow(dead_code))]
    place: Option<FilePlace>,
}

/// If the areas, in ascending order, cover all of `bytes` with read-only mappings of files: where the bytes are, if
/// they follow each other in one file.
#[cfg(any(linux_kernel, test))]
fn covered(mut areas: impl Iterator<Item = Area>, bytes: &Range<usize>) -> Option<Option<FilePlace>> {
    let (mut at, mut place) = (bytes.start, None::<FilePlace>);
    let mut is_one = true;
    while at < bytes.end {
        let area = areas.find(|area| area.bytes.end > at).filter(|a| a.bytes.start <= at && a.is_read_only_file)?;
        let offset = area.place.offset + (at - area.bytes.start) as u64;
        let first = place.get_or_insert_with(|| FilePlace { offset, ..area.place.clone() });
        is_one &= first.file == area.place.file && offset - first.offset.min(offset) == (at - bytes.start) as u64;
        at = area.bytes.end;
    }
    Some(place.filter(|_| is_one))
}

/// The file that is mapped at an address, as [`FilePlace::file`].
#[cfg(linux_kernel)]
pub fn file_at(address: *const u8) -> Option<(String, u64)> {
    let at = address.addr();
    from(at)?.next().filter(|area| area.bytes.contains(&at)).map(|area| area.place.file)
}

/// Whether all of these addresses are in read-only mappings of files, as Windows says now. Programs and libraries are
/// such mappings, too, of another kind.
#[cfg(windows)]
fn mapped_by_windows(addresses: &Range<usize>) -> bool {
    use windows_sys::Win32::System::Memory::{MEM_MAPPED, MEMORY_BASIC_INFORMATION, PAGE_READONLY, VirtualQuery};
    use windows_sys::Win32::System::ProcessStatus::GetMappedFileNameW;
    use windows_sys::Win32::System::Threading::GetCurrentProcess;
    let mut at = addresses.start;
    while at < addresses.end {
        let mut about = MEMORY_BASIC_INFORMATION::default();
        let (address, mut name) = (std::ptr::without_provenance(at), [0u16; 512]);
        // SAFETY: both calls take any address, and write so much. A name that is too long is cut.
        let is_file = unsafe {
            VirtualQuery(address, &raw mut about, size_of_val(&about)) == size_of_val(&about)
                && about.Type == MEM_MAPPED
                && about.Protect == PAGE_READONLY
                && GetMappedFileNameW(GetCurrentProcess(), address, name.as_mut_ptr(), name.len() as u32) != 0
        };
        if !is_file {
            return false;
        }
        at = about.BaseAddress.addr() + about.RegionSize;
    }
    true
}

/// The read-only mappings of files that the process had when this was made (on Windows: has).
pub struct MappedFiles {
    #[cfg(linux_kernel)]
    areas: Vec<Area>,
}

impl MappedFiles {
    /// Those of now; none if the system does not say.
    pub fn now() -> Self {
        Self {
            #[cfg(linux_kernel)]
            areas: all().map_or_else(Vec::new, |areas| areas.filter(|area| area.is_read_only_file).collect()),
        }
    }

    /// Whether all of this memory is such mappings.
    pub fn cover(&self, addresses: Range<usize>) -> bool {
        #[cfg(linux_kernel)]
        {
            covered(self.areas.iter().cloned(), &addresses).is_some()
        }
        #[cfg(windows)]
        {
            mapped_by_windows(&addresses)
        }
        #[cfg(not(any(linux_kernel, windows)))]
        {
            let _ = addresses;
            false
        }
    }
}

impl<'a> FileMapping<'a> {
    /// The mapping that has all of `bytes`; `None` if some of them are other memory, or if the system does not say.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        #[cfg(linux_kernel)]
        {
            let start = bytes.as_ptr().addr();
            covered(from(start)?, &(start..start + bytes.len())).map(|place| Self { bytes, place })
        }
        #[cfg(windows)]
        {
            let start = bytes.as_ptr().addr();
            mapped_by_windows(&(start..start + bytes.len())).then_some(Self { bytes, place: None })
        }
        #[cfg(not(any(linux_kernel, windows)))]
        {
            let _ = bytes;
            None
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where the bytes are, if they follow each other in one file.
    #[cfg_attr(not(linux_kernel), allow(dead_code))]
    pub fn place(&self) -> Option<&FilePlace> {
        self.place.as_ref()
    }

    /// Gives back the pages that have only bytes of `part`. They stay readable: the kernel has them in its cache, or
    /// reads them from the file again.
    pub fn give_back(&self, part: Range<usize>) {
        #[cfg(any(linux_kernel, windows))]
        {
            let page = super::memory::page_size();
            let bytes = &self.bytes[part];
            let first = bytes.as_ptr().addr().next_multiple_of(page) - bytes.as_ptr().addr();
            let size = bytes.len().saturating_sub(first) / page * page;
            if size > 0 {
                let at = bytes.as_ptr().wrapping_add(first).cast_mut().cast();
                #[cfg(windows)]
                // SAFETY: whole pages of a mapping, which the borrow keeps.
                unsafe {
                    leave_working_set(at, size, page);
                }
                #[cfg(linux_kernel)]
                // SAFETY: whole pages of memory that `of` has found to be a shared, read-only mapping of a file; the
                // borrow keeps the mapping. Such pages have no contents of their own: the next read gets the file's. An
                // error (locked pages, for example) leaves them as they are.
                unsafe {
                    libc::madvise(at, size, libc::MADV_DONTNEED);
                    // Reading what is beside them would map them again, in a large page.
                    libc::madvise(at, size, libc::MADV_NOHUGEPAGE);
                }
            }
        }
        #[cfg(not(any(linux_kernel, windows)))]
        let _ = part;
    }
}

/// Which of the process's pages are in memory, and in its tables. The system may have more of a file in its cache.
pub struct ResidentPages {
    #[cfg(linux_kernel)]
    pagemap: std::fs::File,
}

impl ResidentPages {
    /// `None` if the system does not say.
    pub fn open() -> Option<Self> {
        #[cfg(linux_kernel)]
        {
            Some(Self { pagemap: std::fs::File::open("/proc/self/pagemap").ok()? })
        }
        #[cfg(not(linux_kernel))]
        {
            None
        }
    }

    /// How many bytes of these there are now, in whole pages.
    pub fn bytes(&self, addresses: Range<usize>) -> Option<usize> {
        #[cfg(linux_kernel)]
        {
            use std::os::unix::fs::FileExt;
            /// Entries that are read at once.
            const ENTRIES: usize = 1024;
            let page = super::memory::page_size();
            let (first, end) = (addresses.start / page, addresses.end.div_ceil(page));
            let (mut entries, mut pages) = ([0; 8 * ENTRIES], 0);
            for at in (first..end).step_by(ENTRIES) {
                let some = &mut entries[..8 * ENTRIES.min(end - at)];
                self.pagemap.read_exact_at(some, 8 * at as u64).ok()?;
                // Bit 63 of an entry.
                pages += some.chunks_exact(8).filter(|entry| entry[7] & 0x80 != 0).count();
            }
            Some(pages * page)
        }
        #[cfg(not(linux_kernel))]
        {
            let _ = addresses;
            None
        }
    }
}

/// Requests pages that will be read soon. A hint, which changes nothing at these addresses. For a file, Linux reads
/// these pages and no others; a read without it reads many around it.
pub fn will_need(addresses: Range<usize>) {
    #[cfg(unix)]
    {
        let page = super::memory::page_size();
        let start = addresses.start / page * page;
        // SAFETY: the advice changes neither memory nor mappings, and is an error where there are none.
        unsafe { libc::madvise(std::ptr::without_provenance_mut(start), addresses.end - start, libc::MADV_WILLNEED) };
    }
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::Memory::{PrefetchVirtualMemory, WIN32_MEMORY_RANGE_ENTRY};
        use windows_sys::Win32::System::Threading::GetCurrentProcess;
        let range = WIN32_MEMORY_RANGE_ENTRY {
            VirtualAddress: std::ptr::without_provenance_mut(addresses.start),
            NumberOfBytes: addresses.end - addresses.start,
        };
        // SAFETY: one range, which the call reads. It changes neither memory nor mappings.
        unsafe { PrefetchVirtualMemory(GetCurrentProcess(), 1, &raw const range, 0) };
    }
    #[cfg(not(any(unix, windows)))]
    let _ = addresses;
}

/// Removes pages from the process's memory, but those that the host has locked there.
///
/// # Safety
/// `size` bytes are whole pages of a mapped file.
#[cfg(windows)]
unsafe fn leave_working_set(at: *mut std::ffi::c_void, size: usize, page: usize) {
    use windows_sys::Win32::System::Memory::VirtualUnlock;
    use windows_sys::Win32::System::ProcessStatus::{K32QueryWorkingSetEx, PSAPI_WORKING_SET_EX_INFORMATION};
    use windows_sys::Win32::System::Threading::GetCurrentProcess;
    const LOCKED: usize = 1 << 22;
    let mut pages = [PSAPI_WORKING_SET_EX_INFORMATION::default(); 256];
    for first in (0..size).step_by(pages.len() * page) {
        let part = &mut pages[..((size - first) / page).min(256)];
        for (i, about) in part.iter_mut().enumerate() {
            about.VirtualAddress = at.wrapping_byte_add(first + i * page);
        }
        // SAFETY: the call fills the list, whose size it gets. Unlocking pages that are not locked removes them from
        // the process's memory, and says that they were not locked. An error leaves them as they are.
        unsafe {
            let known = K32QueryWorkingSetEx(GetCurrentProcess(), part.as_mut_ptr().cast(), size_of_val(part) as u32);
            if known != 0 && part.iter().all(|about| about.VirtualAttributes.Flags & LOCKED == 0) {
                VirtualUnlock(part[0].VirtualAddress, part.len() * page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64, inode: u64) -> FilePlace {
        FilePlace { path: "/models/a b.gguf".into(), file: ("08:01".into(), inode), offset }
    }

    #[test]
    fn all_bytes_must_be_in_such_mappings() {
        let maps = |list: &[(usize, usize, bool)]| {
            let area = |&(a, b, is_read_only_file): &_| Area { bytes: a..b, place: place(0, 1), is_read_only_file };
            covered(list.iter().map(area), &(20..40)).is_some()
        };
        assert!(maps(&[(0, 10, false), (10, 50, true), (50, 60, false)]));
        assert!(maps(&[(20, 30, true), (30, 40, true)]));
        assert!(!maps(&[(20, 30, true), (31, 40, true)]), "a gap");
        assert!(!maps(&[(20, 30, true), (30, 40, false)]), "other memory behind it");
        assert!(!maps(&[(20, 39, true)]) && !maps(&[(21, 40, true)]) && !maps(&[]));
    }

    #[test]
    fn bytes_that_follow_each_other_have_a_place() {
        let at = |list: &[(usize, usize, u64, u64)]| {
            let areas = list.iter().map(|&(a, b, offset, inode)| {
                let place = place(offset, inode);
                Area { bytes: a..b, place, is_read_only_file: true }
            });
            covered(areas, &(20..40)).unwrap().map(|place| place.offset)
        };
        assert_eq!(at(&[(10, 50, 100, 1)]), Some(110));
        // As a host leaves it that has ended a part of its mapping, or changed the system's advice for it.
        assert_eq!(at(&[(10, 30, 100, 1), (30, 50, 120, 1)]), Some(110));
        for other in [(30, 50, 121, 1), (30, 50, 119, 1), (30, 50, 0, 1), (30, 50, 120, 2)] {
            assert_eq!(at(&[(10, 30, 100, 1), other]), None, "{other:?}");
        }
    }

    #[cfg(linux_kernel)]
    #[test]
    fn pages_that_are_given_back_have_the_same_bytes() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let (page, pages) = (super::super::memory::page_size(), 64);
        let size = page * pages;
        let mut file = tempfile::tempfile().unwrap();
        let contents: Vec<u8> = (0..size).map(|i| (i / page + i) as u8).collect();
        file.write_all(&contents).unwrap();
        let map = |access, flags| {
            // SAFETY: a new mapping of a file that has so many bytes.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, file.as_raw_fd(), 0) };
            assert_ne!(at, libc::MAP_FAILED);
            // SAFETY: the mapping has so many bytes and stays until the process ends; only this test writes the file.
            unsafe { std::slice::from_raw_parts(at.cast_const().cast::<u8>(), size) }
        };
        let present = |bytes: &[u8]| {
            let start = bytes.as_ptr().addr();
            ResidentPages::open().unwrap().bytes(start..start + bytes.len()).unwrap() / page
        };
        let bytes = map(libc::PROT_READ, libc::MAP_SHARED);
        assert_eq!(bytes, contents);
        assert_eq!(present(bytes), pages);
        let mapping = FileMapping::of(&bytes[10..size - 10]).unwrap();
        let (files, start) = (MappedFiles::now(), bytes.as_ptr().addr());
        assert!(
            files.cover(start..start + size) && !files.cover(contents.as_ptr().addr()..contents.as_ptr().addr() + 1)
        );
        // Pages with other bytes stay: the first, the last, and those that a part shares with others.
        mapping.give_back(0..page * 4);
        assert_eq!(present(bytes), pages - 3);
        mapping.give_back(0..size - 20);
        assert_eq!(present(bytes), 2);
        mapping.give_back(5..5);
        assert_eq!(bytes, contents);
        let private = map(libc::PROT_READ, libc::MAP_PRIVATE);
        assert!(FileMapping::of(private).is_none());
        assert!(FileMapping::of(map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)).is_none());
        assert!(FileMapping::of(&contents).is_none());
    }
}
