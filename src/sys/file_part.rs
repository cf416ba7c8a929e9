//! Bytes of a file that the host has mapped, to be read again after it has ended its mapping. They are read: what
//! another program has cut off is an error instead of a signal, and a change of the file is noticed. Or they are used
//! where this library has mapped the file, as the host did, until they have been read.

use super::mapping::FileMapping;
#[cfg(linux_kernel)]
use super::mapping::{FilePlace, file_at};
use super::memory::AlignedBlock;
use super::whole_file::WholeFile;
use crate::error::{Error, Result};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// Bytes of a file.
#[derive(Clone, Debug)]
pub struct FilePart {
    file: Arc<OpenFile>,
    start: u64,
    len: usize,
}

/// A file that is open. Parts share it.
#[derive(Debug)]
struct OpenFile {
    file: File,
    path: PathBuf,
    #[cfg(linux_kernel)]
    id: (String, u64),
    /// Its size, and when it was last written, when it was opened.
    version: (u64, Option<SystemTime>),
    /// The same file, for reading past the system's cache, if that can be.
    #[cfg(linux_kernel)]
    direct: OnceLock<Option<File>>,
    /// The file as memory, if that can be.
    whole: OnceLock<Option<WholeFile>>,
}

/// Memory for bytes that are read.
#[derive(Default)]
pub struct Buffer(Option<AlignedBlock>);

/// Whether the system keeps what is read in its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// It does: it reads ahead, and the next program that reads the file finds it.
    Kept,
    /// It need not: other pages that are in use stay in memory.
    Passed,
}

/// What reads past the cache must be aligned to: no device has larger sectors.
const SECTOR: usize = 4096;

impl Buffer {
    /// `len` bytes, at a multiple of a sector. For reads past the cache they are in large pages: the system then makes
    /// large requests of them.
    fn of(&mut self, len: usize, cache: Cache) -> Result<&mut [u8]> {
        /// A block of so many bytes is in large pages.
        const LARGE: usize = 4 << 20;
        let size = if cache == Cache::Passed { len.max(LARGE) } else { len };
        if self.0.as_ref().is_none_or(|block| block.size() < size) {
            self.0 = None;
            self.0 = Some(AlignedBlock::zeroed_pages(size, SECTOR, "weights that are read")?);
        }
        let Some(block) = &mut self.0 else { return Ok(&mut []) };
        // SAFETY: the block has so many bytes, initialised by the system, and `&mut self` is its only user.
        Ok(unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), len) })
    }
}

fn version(file: &File) -> std::io::Result<(u64, Option<SystemTime>)> {
    let now = file.metadata()?;
    Ok((now.len(), now.modified().ok()))
}

impl OpenFile {
    /// Opens the file of a place; `None` if it is not there any more, or is memory with a name.
    #[cfg(linux_kernel)]
    fn at(place: &FilePlace) -> Option<Arc<Self>> {
        use std::os::fd::AsRawFd;
        use std::sync::{Mutex, Weak};
        static OPEN: Mutex<Vec<Weak<OpenFile>>> = Mutex::new(Vec::new());
        let known = || {
            let mut open = super::sync::brief(&OPEN);
            open.retain(|file| file.strong_count() > 0);
            open.iter().filter_map(Weak::upgrade).find(|file| file.id == place.file)
        };
        if let Some(file) = known() {
            return Some(file);
        }
        let file = File::open(&place.path).ok()?;
        let mut system = std::mem::MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: an open file, and room for the result, which is read only if it was written.
        let kind = unsafe { (libc::fstatfs(file.as_raw_fd(), system.as_mut_ptr()) == 0).then(|| system.assume_init()) };
        #[allow(clippy::unnecessary_cast)] // C libraries have different types for them
        let is_memory = kind?.f_type as u64 == libc::TMPFS_MAGIC as u64;
        // Devices and numbers of files are not the same everywhere (in an overlay, for example) as `fstat` gives them:
        // those of two mappings are.
        let id = file_at(WholeFile::new(&file, 1)?.bytes().as_ptr());
        if is_memory || id.as_ref() != Some(&place.file) {
            return None;
        }
        let version = version(&file).ok()?;
        let (path, id, direct, whole) = (place.path.clone(), place.file.clone(), OnceLock::new(), OnceLock::new());
        let file = Arc::new(Self { file, path, id, version, direct, whole });
        super::sync::brief(&OPEN).push(Arc::downgrade(&file));
        Some(file)
    }

    fn read_exact_at(&self, out: &mut [u8], at: u64) -> std::io::Result<()> {
        #[cfg(unix)]
        {
            std::os::unix::fs::FileExt::read_exact_at(&self.file, out, at)
        }
        #[cfg(not(unix))]
        {
            let _ = (out, at);
            Err(std::io::ErrorKind::Unsupported.into())
        }
    }

    /// Whether the system has all of `len` bytes from `at` on in its cache. False if it does not say.
    fn is_cached(&self, at: u64, len: usize) -> bool {
        // Android ends an app that uses a call which is not on its list.
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            /// Number of the call `cachestat`, which Linux has since 6.5, on all processors.
            const CACHESTAT: libc::c_long = 451;
            let (range, file) = ([at, len as u64], self.file.as_raw_fd());
            let mut pages = [0u64; 5];
            // SAFETY: an open file, the range as two numbers, and room for five.
            let said = unsafe { libc::syscall(CACHESTAT, file, range.as_ptr(), pages.as_mut_ptr(), 0) };
            let page = super::memory::page_size() as u64;
            said == 0 && pages[0] >= (at + len as u64).div_ceil(page) - at / page
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (at, len);
            false
        }
    }

    /// Fills `out`, of whole sectors at a multiple of one, past the system's cache, from a multiple of a sector on,
    /// until at least `least` bytes are there. Returns false if that cannot be.
    #[cfg(linux_kernel)]
    fn read_direct(&self, out: &mut [u8], at: u64, least: usize) -> bool {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::{FileExt, OpenOptionsExt};
        let open = || {
            // The name may be that of another file now.
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            File::options().read(true).custom_flags(libc::O_DIRECT).open(own).ok()
        };
        let Some(file) = super::sync::once(&self.direct, open) else { return false };
        let mut done = 0;
        while done < least {
            match file.read_at(&mut out[done..], at + done as u64) {
                // The end of the file, which may be inside of a sector.
                Ok(n) if n > 0 && (n.is_multiple_of(SECTOR) || done + n >= least) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                _ => return false,
            }
        }
        true
    }
}

impl FilePart {
    /// The bytes that a mapping has; `None` if they are not in one file, or if the file cannot be opened any more, was
    /// written since another part of it was made, or is memory with a name.
    pub fn of(mapping: &FileMapping<'_>) -> Option<Self> {
        #[cfg(linux_kernel)]
        {
            let place = mapping.place()?;
            let file = OpenFile::at(place)?;
            let len = mapping.bytes().len();
            // After the end of the file, the mapping has zeros up to the end of the page.
            let has_all = place.offset.checked_add(len as u64)? <= file.version.0;
            let part = Self { file, start: place.offset, len };
            (has_all && part.check().is_ok()).then_some(part)
        }
        #[cfg(not(linux_kernel))]
        {
            let _ = mapping;
            None
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reads bytes from `at` on. Panics if the part does not have them.
    ///
    /// # Errors
    /// [`Error::Io`] if the system cannot read them, or if the file is shorter now. [`Self::check`] says whether the
    /// file was written meanwhile.
    pub fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        assert!(at <= self.len && out.len() <= self.len - at, "{} bytes from {at} on of {}", out.len(), self.len);
        self.file.read_exact_at(out, self.start + at as u64).map_err(|source| self.error(source))
    }

    /// Like [`Self::read`], into a buffer, of which it returns the bytes.
    ///
    /// # Errors
    /// As [`Self::read`], and if there is no memory for the buffer.
    pub fn read_into<'b>(&self, at: usize, len: usize, buffer: &'b mut Buffer, cache: Cache) -> Result<&'b [u8]> {
        #[cfg(linux_kernel)]
        if cache == Cache::Passed {
            assert!(at <= self.len && len <= self.len - at, "{len} bytes from {at} on of {}", self.len);
            let from = self.start + at as u64;
            let before = from as usize % SECTOR;
            let whole = (before + len).next_multiple_of(SECTOR);
            let all = buffer.of(whole, cache)?;
            // A read with RWF_NOWAIT, which is to fail for other bytes, makes the system read ahead.
            let is_read =
                !self.file.is_cached(from, len) && self.file.read_direct(all, from - before as u64, before + len);
            if !is_read {
                self.read(at, &mut all[before..before + len])?;
            }
            return Ok(&all[before..before + len]);
        }
        let bytes = buffer.of(len, cache)?;
        self.read(at, bytes)?;
        Ok(bytes)
    }

    /// The bytes as memory; `None` if the system cannot map the file. [`Self::check`] says whether they are still
    /// there.
    pub fn mapped(&self) -> Option<&[u8]> {
        let map = || WholeFile::new(&self.file.file, usize::try_from(self.file.version.0).ok()?);
        let whole = super::sync::once(&self.file.whole, map).as_ref()?;
        Some(&whole.bytes()[self.place(0..self.len)])
    }

    /// Where some of the bytes are in the file. Panics if the part does not have them.
    fn place(&self, bytes: Range<usize>) -> Range<usize> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len, "{bytes:?} of {}", self.len);
        let start = self.start as usize;
        start + bytes.start..start + bytes.end
    }

    /// Whether the system has all of some bytes in its cache. False if it does not say.
    pub fn are_cached(&self, bytes: Range<usize>) -> bool {
        let place = self.place(bytes);
        self.file.is_cached(place.start as u64, place.len())
    }

    /// Brings some of the [mapped](Self::mapped) bytes into memory.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn load(&self, bytes: Range<usize>) -> Result<()> {
        let Some(Some(whole)) = self.file.whole.get() else { return Ok(()) };
        whole.load(self.place(bytes)).map_err(|source| self.error(source))
    }

    /// Takes some of the mapped bytes out of memory. They stay readable.
    pub fn give_back(&self, bytes: Range<usize>) {
        if let Some(Some(whole)) = self.file.whole.get() {
            whole.give_back(self.place(bytes));
        }
    }

    /// The same, with what a read of their neighbours maps beside itself.
    pub fn give_back_around(&self, bytes: Range<usize>) {
        if let Some(Some(whole)) = self.file.whole.get() {
            whole.give_back_around(self.place(bytes));
        }
    }

    /// Whether another part is of the same file.
    pub fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }

    /// Whether all that was read so far is what the host has mapped.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file was written since it was opened.
    pub fn check(&self) -> Result<()> {
        let now = version(&self.file.file).map_err(|source| self.error(source))?;
        if now == self.file.version {
            return Ok(());
        }
        let path = self.file.path.display();
        Err(Error::Corrupt(format!("{path} was written after its weights were loaded, which are read again from it")))
    }

    fn error(&self, source: std::io::Error) -> Error {
        Error::Io { what: format!("weights in {}", self.file.path.display()), source }
    }
}

/// Calls `f` with a mapping of a file of `size` bytes, which then ends. Returns `None` where bytes of files are not
/// read later.
#[cfg(test)]
pub fn with_mapping<T>(file: &File, size: usize, f: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let whole = WholeFile::new(file, size);
    assert!(whole.is_some() || cfg!(not(linux_kernel)));
    whole.map(|whole| f(whole.bytes()))
}

#[cfg(all(test, linux_kernel))]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    const SIZE: usize = 10_000;

    fn contents() -> Vec<u8> {
        (0..SIZE).map(|i| (i / 7) as u8).collect()
    }

    /// A part of a file in the folder of the tests, which is on disk, from a mapping that has ended.
    fn part(file: &std::fs::File, bytes: std::ops::Range<usize>) -> Option<FilePart> {
        with_mapping(file, SIZE, |all| FilePart::of(&FileMapping::of(&all[bytes]).unwrap())).unwrap()
    }

    fn on_disk() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/target").unwrap();
        file.write_all(&contents()).unwrap();
        file
    }

    #[test]
    fn bytes_are_read_after_the_mapping_has_ended() {
        let file = on_disk();
        let part = part(file.as_file(), 5000..9000).unwrap();
        assert_eq!(part.len(), 4000);
        let mut out = [0; 100];
        part.read(3900, &mut out).unwrap();
        assert_eq!(out, contents()[8900..9000]);
        let again = self::part(file.as_file(), 0..1).unwrap();
        assert!(Arc::ptr_eq(&part.file, &again.file), "the file is open once");
        // A file that is removed stays while it is open.
        drop(file);
        part.read(0, &mut out).unwrap();
        assert_eq!(out, contents()[5000..5100]);
        assert!(part.check().is_ok());
    }

    #[test]
    fn what_was_cut_off_or_written_is_an_error() {
        let mut file = on_disk();
        let part = part(file.as_file(), 0..SIZE).unwrap();
        file.as_file().set_len(5000).unwrap();
        let mut out = [0; 100];
        assert!(matches!(part.read(4950, &mut out), Err(Error::Io { .. })));
        assert!(matches!(part.check(), Err(Error::Corrupt(_))));
        file.as_file().set_len(SIZE as u64).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.as_file_mut().seek(SeekFrom::Start(10)).unwrap();
        file.write_all(b"other").unwrap();
        let why = part.check().unwrap_err().to_string();
        assert!(why.contains("was written after"), "{why}");
        assert!(self::part(file.as_file(), 0..SIZE).is_none(), "parts of one file are of one version");
        drop(part);
        assert!(self::part(file.as_file(), 0..SIZE).is_some());
    }

    #[test]
    fn another_file_at_the_path_is_not_read() {
        let file = on_disk();
        let place = with_mapping(file.as_file(), SIZE, |all| FileMapping::of(all).unwrap().place().unwrap().clone());
        let place = place.unwrap();
        let other = on_disk();
        std::fs::rename(other.path(), file.path()).unwrap();
        assert!(OpenFile::at(&place).is_none(), "another file");
        std::fs::remove_file(file.path()).unwrap();
        assert!(OpenFile::at(&place).is_none(), "none");
        // Without a name there is no path.
        let mut unnamed = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/target").unwrap();
        unnamed.write_all(&contents()).unwrap();
        assert!(part(&unnamed, 0..SIZE).is_none());
    }
}
