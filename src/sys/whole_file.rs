//! A mapping of a whole file, for reading, of the library's own.

use super::mapping::will_need;
use super::memory::page_size;
use std::fs::File;
use std::ops::Range;

/// A file as memory.
#[derive(Debug)]
pub struct WholeFile {
    at: *const u8,
    len: usize,
}

// SAFETY: the mapping belongs to this object alone, and any thread may give it back.
unsafe impl Send for WholeFile {}
// SAFETY: shared, it gives bytes to read that nothing in this process writes.
unsafe impl Sync for WholeFile {}

impl WholeFile {
    /// Maps the first `len` bytes of a file; `None` if the system cannot.
    pub fn new(file: &File, len: usize) -> Option<Self> {
        #[cfg(linux_kernel)]
        {
            use std::os::fd::AsRawFd;
            // SAFETY: a new mapping anywhere, which overlaps nothing.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
            };
            (at != libc::MAP_FAILED).then(|| Self { at: at.cast_const().cast(), len })
        }
        #[cfg(not(linux_kernel))]
        {
            let _ = (file, len);
            None
        }
    }

    /// The bytes. As with every mapping, a program that cuts the file off while they are read ends this one.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has so many bytes while `self` lives, and nothing in this process writes them.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }

    /// The pages of some bytes.
    fn pages(&self, bytes: Range<usize>) -> Range<usize> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len, "{bytes:?} of {}", self.len);
        let start = bytes.start / page_size() * page_size();
        self.at.addr() + start..self.at.addr() + bytes.end
    }

    /// Reads the pages of some bytes, so that no thread waits for them later.
    ///
    /// # Errors
    /// If the file cannot be read, or has them no more.
    pub fn load(&self, bytes: Range<usize>) -> std::io::Result<()> {
        let pages = self.pages(bytes);
        // All at once, in large requests.
        will_need(pages.clone());
        #[cfg(linux_kernel)]
        {
            /// Linux has it since 5.14.
            const MADV_POPULATE_READ: libc::c_int = 22;
            let at = std::ptr::without_provenance_mut(pages.start);
            // SAFETY: pages of the mapping, which the call reads and puts into the process's tables.
            if unsafe { libc::madvise(at, pages.len(), MADV_POPULATE_READ) } != 0 {
                let why = std::io::Error::last_os_error();
                // Older systems read them when they are used.
                return if why.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(why) };
            }
        }
        Ok(())
    }

    /// Takes the pages that have only these bytes out of the process's memory. They stay readable.
    pub fn give_back(&self, bytes: Range<usize>) {
        let end = self.pages(bytes.clone()).end / page_size() * page_size();
        self.drop_pages((self.at.addr() + bytes.start).next_multiple_of(page_size())..end);
    }

    /// The same, with what a read of their neighbours maps beside itself: that is up to a large page.
    pub fn give_back_around(&self, bytes: Range<usize>) {
        const BESIDE: usize = 2 << 20;
        let around = bytes.start.saturating_sub(BESIDE)..bytes.end.saturating_add(BESIDE).min(self.len);
        self.drop_pages(self.pages(around));
    }

    /// Takes whole pages of the mapping out of the process's memory.
    fn drop_pages(&self, pages: Range<usize>) {
        #[cfg(linux_kernel)]
        if pages.start < pages.end {
            let at = std::ptr::without_provenance_mut(pages.start);
            // SAFETY: pages of the mapping, which have no contents of their own: the next read gets the file's.
            unsafe { libc::madvise(at, pages.len(), libc::MADV_DONTNEED) };
        }
        #[cfg(not(linux_kernel))]
        let _ = pages;
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        #[cfg(linux_kernel)]
        // SAFETY: the mapping of `new`, which nothing uses any more.
        unsafe {
            libc::munmap(self.at.cast_mut().cast(), self.len);
        }
    }
}

#[cfg(all(test, linux_kernel))]
mod tests {
    use super::*;
    use crate::sys::mapping::ResidentPages;
    use std::io::Write;

    #[test]
    fn a_file_is_memory() {
        let mut file = tempfile::NamedTempFile::new_in(concat!(env!("CARGO_MANIFEST_DIR"), "/target")).unwrap();
        let size = 40 * page_size() + 123;
        let contents: Vec<u8> = (0..size).map(|i| (i / 7) as u8).collect();
        file.write_all(&contents).unwrap();
        let whole = WholeFile::new(file.as_file(), size).unwrap();
        let there = |bytes: Range<usize>| {
            let pages = ResidentPages::open().unwrap();
            pages.bytes(whole.at.addr() + bytes.start..whole.at.addr() + bytes.end).unwrap()
        };
        let some = page_size() + 5..21 * page_size() + 7;
        whole.load(some.clone()).unwrap();
        assert_eq!(there(some.clone()), 21 * page_size());
        assert!(whole.bytes() == contents);
        whole.give_back(some.clone());
        // Pages that have other bytes, too, stay.
        assert_eq!(there(some.clone()), 2 * page_size());
        whole.give_back_around(some.clone());
        assert_eq!(there(0..size), 0);
        whole.give_back(5..6);
        assert!(whole.bytes() == contents);
        file.as_file().set_len(10 * page_size() as u64).unwrap();
        assert!(whole.load(0..5).is_ok());
        assert!(whole.load(some).is_err(), "it has them no more");
    }
}
