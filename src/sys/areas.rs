//! The areas of this process's memory: which addresses are mapped, and to what. Linux says it in a list of lines, of
//! which there may be hundreds, and since version 6.11 for one address.

use std::path::PathBuf;
#[cfg(any(linux_kernel, test))]
use std::{ops::Range, path::Path};

/// Bytes of a file, as the system names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// Where the file was when it was mapped. Another file may be there by now.
    pub path: PathBuf,
    /// The file: its device, as the system writes it, and its number there.
    pub file: (String, u64),
    /// The first byte.
    pub offset: u64,
}

/// Addresses that are mapped alike.
#[cfg(any(linux_kernel, test))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its addresses.
    pub bytes: Range<usize>,
    /// Its first byte in the file.
    pub place: FilePlace,
    /// Whether it is a shared mapping of a file that cannot be written through it.
    pub is_read_only_file: bool,
}

/// Parses a line `START-END PERMISSIONS OFFSET DEVICE INODE PATH`; `None` if it is another line.
#[cfg(any(linux_kernel, test))]
fn parse(line: &[u8]) -> Option<Area> {
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_ascii_start();
        let (word, behind) = rest.split_at(rest.iter().position(|&c| c == b' ').unwrap_or(rest.len()));
        rest = behind;
        std::str::from_utf8(word).ok().filter(|word| !word.is_empty())
    };
    let (start, end) = word()?.split_once('-')?;
    let bytes = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let permissions = word()?;
    let offset = u64::from_str_radix(word()?, 16).ok()?;
    let file = (word()?.to_owned(), word()?.parse().ok()?);
    let path = super::file::path(rest.trim_ascii_start()).map(Path::to_owned).unwrap_or_default();
    // A private mapping may have pages that were written before it became read-only, and these would be lost.
    let is_read_only_file = permissions.starts_with("r-") && permissions.ends_with('s') && file.1 != 0;
    Some(Area { bytes, place: FilePlace { path, file, offset }, is_read_only_file })
}

#[cfg(linux_kernel)]
const MAPS: &str = "/proc/self/maps";

/// All areas, in ascending order.
#[cfg(linux_kernel)]
pub fn all() -> Option<impl Iterator<Item = Area>> {
    use std::io::BufRead;
    let maps = std::io::BufReader::new(std::fs::File::open(MAPS).ok()?);
    Some(maps.split(b'\n').map_while(std::result::Result::ok).filter_map(|line| parse(&line)))
}

/// Returns the areas in ascending order, from the area that contains `address` on, or else from the first area after
/// it. Returns `None` if the list cannot be read.
#[cfg(linux_kernel)]
pub fn from(address: usize) -> Option<Box<dyn Iterator<Item = Area>>> {
    let maps = std::fs::File::open(MAPS).ok()?;
    match query(&maps, address) {
        // The system does not have the call, or does not permit it.
        Err(why) if why.raw_os_error() != Some(libc::ENOENT) => {
            Some(Box::new(all()?.skip_while(move |area| area.bytes.end <= address)))
        }
        first => {
            let next = move |area: &Area| query(&maps, area.bytes.end).ok();
            Some(Box::new(std::iter::successors(first.ok(), next)))
        }
    }
}

/// Returns the area that contains `address`, or else the first area after it. The error is [`libc::ENOENT`] if there is
/// none.
#[cfg(linux_kernel)]
fn query(maps: &std::fs::File, address: usize) -> std::io::Result<Area> {
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;

    /// A request to the system, and its answer.
    #[repr(C)]
    #[derive(Default)]
    struct Query {
        size: u64,
        flags: u64,
        address: u64,
        start: u64,
        end: u64,
        permissions: u64,
        page_size: u64,
        offset: u64,
        inode: u64,
        device: [u32; 2],
        name_size: u32,
        build_id_size: u32,
        name: u64,
        build_id: u64,
    }
    /// Number of the call: read and written, 104 bytes, letter f, 17.
    const PROCMAP_QUERY: u32 = 3 << 30 | (size_of::<Query>() as u32) << 16 | (b'f' as u32) << 8 | 17;
    const COVERING_OR_NEXT: u64 = 16;
    const READABLE: u64 = 1;
    const WRITABLE: u64 = 2;
    const SHARED: u64 = 8;

    let mut name = [0u8; libc::PATH_MAX as usize];
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: COVERING_OR_NEXT,
        address: address as u64,
        name_size: name.len() as u32,
        name: name.as_mut_ptr().expose_provenance() as u64,
        ..Query::default()
    };
    // SAFETY: an open file, and a request whose sizes are those of the memory that it names.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let path = std::ffi::OsStr::from_bytes(&name[..(query.name_size as usize).saturating_sub(1)]).into();
    let [major, minor] = query.device;
    let file = (format!("{major:02x}:{minor:02x}"), query.inode);
    let is_read_only_file = query.permissions & (READABLE | WRITABLE | SHARED) == READABLE | SHARED && query.inode != 0;
    let place = FilePlace { path, file, offset: query.offset };
    Ok(Area { bytes: query.start as usize..query.end as usize, place, is_read_only_file })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(line: &str) -> Area {
        parse(line.as_bytes()).unwrap()
    }

    fn place(offset: u64, inode: u64) -> FilePlace {
        FilePlace { path: "/models/a b.gguf".into(), file: ("08:01".into(), inode), offset }
    }

    #[test]
    fn only_shared_files_without_writing_count() {
        let line = |permissions: &str, inode: &str| {
            format!("1000-3000 {permissions} 00000000 08:01 {inode}    /models/a b.gguf")
        };
        let whole = Area { bytes: 0x1000..0x3000, place: place(0, 42), is_read_only_file: true };
        assert_eq!(area(&line("r--s", "42")), whole);
        for (permissions, inode) in [("r--p", "42"), ("rw-s", "42"), ("---s", "42"), ("r--s", "0"), ("rw-p", "0")] {
            assert!(!area(&line(permissions, inode)).is_read_only_file, "{permissions} {inode}");
        }
        let other = area("7f00-7f10 r-xs 00001000 00:1f 7");
        assert!(other.is_read_only_file);
        assert_eq!(other.place, FilePlace { path: "".into(), file: ("00:1f".into(), 7), offset: 4096 });
        for line in ["", "Size: 4 kB", "1000 r--s 0 08:01 42", "x-y r--s 0 08:01 42", "1000-2000 r--s 0"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[cfg(linux_kernel)]
    #[test]
    fn both_lists_are_the_same() {
        let file = tempfile::NamedTempFile::new_in(concat!(env!("CARGO_MANIFEST_DIR"), "/target")).unwrap();
        file.as_file().set_len(100).unwrap();
        let check = |bytes: &[u8]| {
            let address = bytes.as_ptr().addr() + 50;
            let found = from(address).unwrap().next().unwrap();
            assert!(found.bytes.contains(&address) && found.is_read_only_file);
            assert_eq!(found.place.path, file.path());
            let mut listed = all().unwrap();
            assert_eq!(listed.find(|area| area.bytes.contains(&address)), Some(found));
        };
        crate::sys::file_part::with_mapping(file.as_file(), 100, check).unwrap();
        // This address is after the last area, except for one that the list may contain.
        assert!(from(usize::MAX / 2 + 1).unwrap().all(|area| area.bytes.end > usize::MAX / 2));
        let some = from(0).unwrap().take(3).map(|area| area.bytes.start).collect::<Vec<_>>();
        assert!(some.is_sorted() && some.len() == 3);
    }
}
