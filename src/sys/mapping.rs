//! Read-only mappings of files: which memory of the host is one, and giving its pages back.
//!
//! A host that maps a model file and copies its tensors elsewhere keeps the pages of the file in its memory, beside the
//! copies. The kernel has these pages in its cache and reads them again when they are used, so the process can give
//! them back as soon as they are copied.

use std::ops::Range;

/// Memory that is a read-only, shared mapping of a file. While it is borrowed, the mapping stays.
pub struct FileMapping<'a> {
    bytes: &'a [u8],
}

/// A line of `/proc/self/maps`.
#[cfg(any(target_os = "linux", test))]
#[derive(Debug, PartialEq, Eq)]
struct Area {
    bytes: Range<usize>,
    /// Whether it is a shared mapping of a file that nobody may write through it.
    is_read_only_file: bool,
}

/// Parses a line `START-END PERMISSIONS OFFSET DEVICE INODE PATH`; `None` if it is another line.
#[cfg(any(target_os = "linux", test))]
fn parse(line: &str) -> Option<Area> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let bytes = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let (permissions, inode) = (words.next()?, words.nth(2)?);
    // A private mapping may have pages that were written before it became read-only, and these would be lost.
    Some(Area { bytes, is_read_only_file: permissions.starts_with("r-") && permissions.ends_with('s') && inode != "0" })
}

/// Whether the areas, in ascending order, cover all of `bytes` with read-only mappings of files.
#[cfg(any(target_os = "linux", test))]
fn covered(mut areas: impl Iterator<Item = Area>, bytes: &Range<usize>) -> bool {
    let mut at = bytes.start;
    while at < bytes.end {
        match areas.find(|area| area.bytes.end > at) {
            Some(area) if area.bytes.start <= at && area.is_read_only_file => at = area.bytes.end,
            _ => return false,
        }
    }
    true
}

impl<'a> FileMapping<'a> {
    /// The mapping that has all of `bytes`; `None` if some of them are other memory, or if the system does not say.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        #[cfg(target_os = "linux")]
        {
            use std::io::BufRead;
            let start = bytes.as_ptr().addr();
            let maps = std::io::BufReader::new(std::fs::File::open("/proc/self/maps").ok()?);
            // Names of files need not be UTF-8.
            let lines = maps.split(b'\n').map_while(std::result::Result::ok);
            let areas = lines.filter_map(|line| parse(&String::from_utf8_lossy(&line)));
            covered(areas, &(start..start + bytes.len())).then_some(Self { bytes })
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = bytes;
            None
        }
    }

    /// Gives back the pages that have only bytes of `part`. They stay readable: the kernel has them in its cache, or
    /// reads them from the file again.
    pub fn give_back(&self, part: Range<usize>) {
        #[cfg(target_os = "linux")]
        {
            let page = super::memory::page_size();
            let bytes = &self.bytes[part];
            let first = bytes.as_ptr().addr().next_multiple_of(page) - bytes.as_ptr().addr();
            let size = bytes.len().saturating_sub(first) / page * page;
            if size > 0 {
                // SAFETY: whole pages of memory that `of` has found to be a shared, read-only mapping of a file; the
                // borrow keeps the mapping. Such pages have no contents of their own: the next read gets the file's. An
                // error (locked pages, for example) leaves them as they are.
                unsafe {
                    libc::madvise(bytes.as_ptr().wrapping_add(first).cast_mut().cast(), size, libc::MADV_DONTNEED)
                };
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(line: &str) -> Area {
        parse(line).unwrap()
    }

    #[test]
    fn only_shared_files_without_writing_count() {
        let line = |permissions: &str, inode: &str| {
            format!("1000-3000 {permissions} 00000000 08:01 {inode}    /models/a b.gguf")
        };
        assert_eq!(area(&line("r--s", "42")), Area { bytes: 0x1000..0x3000, is_read_only_file: true });
        for (permissions, inode) in [("r--p", "42"), ("rw-s", "42"), ("---s", "42"), ("r--s", "0"), ("rw-p", "0")] {
            assert!(!area(&line(permissions, inode)).is_read_only_file, "{permissions} {inode}");
        }
        assert!(area("7f00-7f10 r-xs 00001000 00:1f 7").is_read_only_file);
        for line in ["", "Size: 4 kB", "1000 r--s 0 08:01 42", "x-y r--s 0 08:01 42", "1000-2000 r--s 0"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn all_bytes_must_be_in_such_mappings() {
        let maps = |list: &[(usize, usize, bool)]| {
            let list: Vec<_> =
                list.iter().map(|&(a, b, is_read_only_file)| Area { bytes: a..b, is_read_only_file }).collect();
            covered(list.into_iter(), &(20..40))
        };
        assert!(maps(&[(0, 10, false), (10, 50, true), (50, 60, false)]));
        assert!(maps(&[(20, 30, true), (30, 40, true)]));
        assert!(!maps(&[(20, 30, true), (31, 40, true)]), "a gap");
        assert!(!maps(&[(20, 30, true), (30, 40, false)]), "other memory behind it");
        assert!(!maps(&[(20, 39, true)]) && !maps(&[(21, 40, true)]) && !maps(&[]));
    }

    #[cfg(target_os = "linux")]
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
        // `mincore` counts pages in the kernel's cache, so the process's own are read from /proc/self/pagemap: bit 63
        // of each entry.
        let present = |bytes: &[u8]| {
            use std::os::unix::fs::FileExt;
            let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
            let mut entries = vec![0; 8 * bytes.len() / page];
            pagemap.read_exact_at(&mut entries, (bytes.as_ptr().addr() / page * 8) as u64).unwrap();
            entries.chunks(8).filter(|e| e[7] & 0x80 != 0).count()
        };
        let bytes = map(libc::PROT_READ, libc::MAP_SHARED);
        assert_eq!(bytes, contents);
        assert_eq!(present(bytes), pages);
        let mapping = FileMapping::of(&bytes[10..size - 10]).unwrap();
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
