//! Paths in UTF-8 and C streams.

use super::patient;
use std::ffi::CStr;
use std::fs::File;
use std::io::{Error, Read, Result, Seek, SeekFrom, Write};
use std::path::Path;

#[cfg(windows)]
use crt::{_fseeki64 as seek, _ftelli64 as tell};
#[cfg(not(windows))]
use libc::{fseeko as seek, ftello as tell, off_t as Offset};
#[cfg(windows)]
type Offset = i64;

/// Returns the path with these bytes. A path on Unix may have any bytes; elsewhere the result is `None` unless they are
/// UTF-8.
pub fn path(bytes: &[u8]) -> Option<&Path> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Some(Path::new(std::ffi::OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    std::str::from_utf8(bytes).ok().map(Path::new)
}

/// Creates a file, or empties the one that is there. Follows a link only if it belongs to the user of this process or
/// to root: in a folder where others may write, such as `/tmp`, they must not choose which file is emptied.
///
/// # Errors
/// As [`File::create`], and if the path is a link of any other user.
pub fn create(path: &Path) -> Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        let open = |flags| File::options().write(true).create(true).truncate(true).custom_flags(flags).open(path);
        let opened = open(libc::O_NOFOLLOW);
        if !opened.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ELOOP)) {
            return opened;
        }
        let owner = path.symlink_metadata()?.uid();
        // SAFETY: the function takes no arguments and cannot fail.
        if owner != 0 && owner != unsafe { libc::geteuid() } {
            return Err(Error::new(std::io::ErrorKind::PermissionDenied, format!("a link of user {owner}")));
        }
        open(0)
    }
    #[cfg(not(unix))]
    File::create(path)
}

/// Opens a file of at most `max` bytes that only the user of this process can have written: a file of that user, no
/// link, that others may not write. Returns it with its size.
///
/// # Errors
/// As [`File::open`]; and if the file is another kind of object, belongs to another user, may be written by others, or
/// is longer.
pub fn open_private(path: &Path, max: u64) -> Result<(File, u64)> {
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe is not waited for.
        let link = libc::O_NOFOLLOW;
        options.custom_flags(link | libc::O_NONBLOCK);
    }
    let file = options.read(true).open(path)?;
    let about = file.metadata()?;
    let refused = |why: String| Err(Error::new(std::io::ErrorKind::PermissionDenied, why));
    if !about.is_file() {
        return refused("this is not a file".into());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // SAFETY: the function takes no arguments and cannot fail.
        if about.uid() != unsafe { libc::geteuid() } {
            return refused(format!("the file belongs to user {}", about.uid()));
        }
        if about.mode() & 0o022 != 0 {
            return refused(format!("others may write the file (mode {:o})", about.mode() & 0o777));
        }
    }
    if about.len() > max {
        return refused(format!("the file has {} bytes, more than {max}", about.len()));
    }
    Ok((file, about.len()))
}

/// Reads a file that [`open_private`] opens.
///
/// # Errors
/// As [`open_private`] and reading.
pub fn read_private(path: &Path, max: u64) -> Result<Vec<u8>> {
    let (file, size) = open_private(path, max)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size as usize)?;
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a machine that loses power may leave of a file that was just replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The old file or the new one: the bytes are on the disk before the name is.
    Synced,
    /// A file of other content.
    None,
}

/// Replaces a file by one with these bytes that only the user of this process may read and write, or creates it with
/// its folders. Other processes see the old file or the new one. No link is followed: the bytes go to a new file with
/// an unused name, which is then renamed.
///
/// # Errors
/// As [`File::create`], writing and [`std::fs::rename`].
pub fn replace_private(path: &Path, parts: &[&[u8]], durability: Durability) -> Result<()> {
    fill_private(path, durability, |out| parts.iter().try_for_each(|part| out.write_all(part)))
}

/// As [`replace_private`]; `fill` writes the bytes.
///
/// # Errors
/// As [`replace_private`], and those of `fill`.
pub fn fill_private(path: &Path, durability: Durability, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut folders = std::fs::DirBuilder::new();
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folders.mode(0o700);
        options.mode(0o600);
    }
    if let Some(folder) = path.parent() {
        folders.recursive(true).create(folder)?;
    }
    // The number is random, so that no other process can create a file of this name first.
    let number = RandomState::new().build_hasher().finish();
    let temporary = path.with_extension(format!("{number:016x}.tmp"));
    let mut out = options.write(true).create_new(true).open(&temporary)?;
    let write = || -> Result<()> {
        fill(&mut out)?;
        if durability == Durability::Synced {
            out.sync_all()?;
        }
        std::fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// Bytes that this user can still write to the file system of a folder; `None` if the system does not say.
pub fn free_space(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
        // SAFETY: a struct of numbers, for which zeros are values.
        let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: a C string, and memory for the result.
        let done = unsafe { libc::statvfs(path.as_ptr(), &raw mut about) } == 0;
        // The fields have other types on other systems.
        #[allow(clippy::useless_conversion)]
        done.then(|| u64::from(about.f_bavail).saturating_mul(u64::from(about.f_frsize)))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// `fopen` with paths in UTF-8 on every system; that of Windows reads paths in the code page of the process. Returns
/// NULL and sets `errno` if the file cannot be opened.
pub fn open_stream(path: &CStr, mode: &CStr) -> *mut libc::FILE {
    #[cfg(not(windows))]
    // SAFETY: both are valid C strings: `CStr` guarantees it.
    unsafe {
        libc::fopen(path.as_ptr(), mode.as_ptr())
    }
    #[cfg(windows)]
    {
        let wide = |text: &CStr| text.to_str().ok().map(|t| t.encode_utf16().chain([0]).collect::<Vec<u16>>());
        match (wide(path), wide(mode)) {
            // SAFETY: `wide` ends both with a zero.
            (Some(path), Some(mode)) => unsafe { crt::_wfopen(path.as_ptr(), mode.as_ptr()) },
            _ => {
                // SAFETY: `_set_errno` takes any value.
                unsafe { crt::_set_errno(libc::EINVAL) };
                std::ptr::null_mut()
            }
        }
    }
}

/// Functions of Windows' C library that the `libc` crate does not declare.
#[cfg(windows)]
mod crt {
    unsafe extern "C" {
        pub fn _wfopen(path: *const u16, mode: *const u16) -> *mut libc::FILE;
        pub fn _set_errno(value: libc::c_int) -> libc::c_int;
        pub fn _fseeki64(stream: *mut libc::FILE, offset: i64, from: libc::c_int) -> libc::c_int;
        pub fn _ftelli64(stream: *mut libc::FILE) -> i64;
    }
}

/// Functions of the C library that may be left by cancellation.
mod waiting {
    unsafe extern "C-unwind" {
        pub fn fread(to: *mut u8, size: usize, n: usize, stream: *mut libc::FILE) -> usize;
        pub fn fwrite(from: *const u8, size: usize, n: usize, stream: *mut libc::FILE) -> usize;
    }
}

/// A C stream that the host opened and closes.
pub struct CStream(*mut libc::FILE);

impl CStream {
    /// # Safety
    /// `file` is an open stream that no other code uses or closes while the `CStream` exists.
    pub unsafe fn new(file: *mut libc::FILE) -> Self {
        Self(file)
    }

    /// Returns the position and the number of bytes after it, or `None` if the stream cannot seek.
    pub fn position_and_rest(&mut self) -> Option<(u64, u64)> {
        let at = self.tell()?;
        self.seek_to(0, libc::SEEK_END).ok()?;
        let end = self.tell();
        // Restore the position even if `end` is `None`.
        self.seek_to(i64::try_from(at).ok()?, libc::SEEK_SET).ok()?;
        Some((at, end?.checked_sub(at)?))
    }

    /// Whether it is a file in the usual sense, which does not let a writer wait, and which should not be left in
    /// pieces.
    fn is_file(&self) -> bool {
        #[cfg(unix)]
        {
            // SAFETY: a struct of numbers, for which zeros are values.
            let mut about: libc::stat = unsafe { std::mem::zeroed() };
            // SAFETY: the promise of `new`: an open stream; and memory for the result.
            let known = unsafe { libc::fstat(libc::fileno(self.0), &raw mut about) } == 0;
            known && about.st_mode & libc::S_IFMT == libc::S_IFREG
        }
        #[cfg(not(unix))]
        true
    }

    fn tell(&mut self) -> Option<u64> {
        // SAFETY: the promise of `new`: an open stream that no other code uses.
        u64::try_from(unsafe { tell(self.0) }).ok()
    }

    fn seek_to(&mut self, offset: i64, from: libc::c_int) -> Result<()> {
        let offset = Offset::try_from(offset).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        // SAFETY: the promise of `new`: an open stream that no other code uses.
        let rc = unsafe { seek(self.0, offset, from) };
        if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}

impl Read for CStream {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let (to, n, stream) = (out.as_mut_ptr(), out.len(), self.0);
        // SAFETY: the promise of `new`: an open stream without other users. `n` bytes are writable. The C library
        // undoes what it does if it is left.
        patient::wait(|| unsafe { waiting::fread(to, 1, n, stream) }).map(|(n, _)| n)
    }
}

impl Seek for CStream {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let SeekFrom::Start(offset) = to else { return Err(std::io::ErrorKind::Unsupported.into()) };
        self.seek_to(i64::try_from(offset).map_err(|_| std::io::ErrorKind::InvalidInput)?, libc::SEEK_SET)?;
        Ok(offset)
    }
}

impl Write for CStream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let (from, n, stream) = (bytes.as_ptr(), bytes.len(), self.0);
        // SAFETY: the promise of `new`: an open stream without other users. `n` bytes are readable. The C library
        // undoes what it does if it is left.
        let write = || unsafe { waiting::fwrite(from, 1, n, stream) };
        let (written, errno) = if self.is_file() {
            (write(), Error::last_os_error().raw_os_error().unwrap_or(0))
        } else {
            patient::wait(write)?
        };
        if written == 0 && n > 0 { Err(Error::from_raw_os_error(errno)) } else { Ok(written) }
    }

    /// Does nothing: the host flushes or closes its stream.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A symbolic link at `link`, for tests.
#[cfg(all(test, unix))]
pub fn symlink(target: &Path, link: impl AsRef<Path>) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// There is none to try.
#[cfg(all(test, not(unix)))]
pub fn symlink(_: &Path, _: impl AsRef<Path>) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn private_files_are_written_whole_and_read() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let file = folder.join("a/b.bin");
        assert!(read_private(&file, 100).is_err());
        replace_private(&file, &[b"some", b" data"], Durability::Synced).unwrap();
        assert_eq!(read_private(&file, 100).unwrap(), b"some data");
        assert_eq!(read_private(&file, 9).unwrap(), b"some data");
        assert!(read_private(&file, 8).is_err(), "too long");
        assert!(read_private(folder, 100).is_err(), "a folder");
        replace_private(&file, &[b"other"], Durability::Synced).unwrap();
        assert_eq!(read_private(&file, 100).unwrap(), b"other");
        replace_private(&file, &[b"not durable"], Durability::None).unwrap();
        assert_eq!(read_private(&file, 100).unwrap(), b"not durable");
        assert!(free_space(folder).is_none_or(|bytes| bytes > 0) && free_space(&folder.join("none")).is_none());
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
        // Where the file cannot go, no temporary file stays either.
        std::fs::create_dir_all(folder.join("c/taken")).unwrap();
        std::fs::write(folder.join("c/taken/x"), "").unwrap();
        assert!(replace_private(&folder.join("c/taken"), &[b"x"], Durability::Synced).is_err());
        assert_eq!(std::fs::read_dir(folder.join("c")).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn private_files_are_not_read_if_others_may_write_them_nor_through_links() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let (file, link, target) = (folder.join("file"), folder.join("link"), folder.join("target"));
        replace_private(&file, &[b"data"], Durability::Synced).unwrap();
        for (mode, good) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false), (0o666, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_private(&file, 100).is_ok(), good, "{mode:o}");
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        assert!(read_private(&link, 100).is_err());
        // A link in the place of the file is replaced, and what it leads to stays as it is.
        std::fs::write(&target, "theirs").unwrap();
        std::fs::remove_file(&link).unwrap();
        symlink(&target, &link).unwrap();
        replace_private(&link, &[b"ours"], Durability::Synced).unwrap();
        assert_eq!(
            (std::fs::read(&target).unwrap(), read_private(&link, 9).unwrap()),
            (b"theirs".into(), b"ours".into())
        );
        let pipe = CString::new(folder.join("pipe").to_str().unwrap()).unwrap();
        // SAFETY: a valid C string.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert!(read_private(&folder.join("pipe"), 9).is_err(), "nobody waits for a writer");
    }

    #[test]
    fn a_stream_with_a_name_beyond_ascii_is_written_measured_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stream-é");
        let name = CString::new(file.to_str().unwrap()).unwrap();
        assert_eq!(path(name.to_bytes()), Some(file.as_path()));
        assert!(open_stream(&name, c"rb").is_null(), "there is no such file yet");
        let raw = open_stream(&name, c"w+b");
        assert!(!raw.is_null());
        // SAFETY: `raw` is open, and only this test uses it.
        let mut stream = unsafe { CStream::new(raw) };
        assert_eq!(stream.write(b"0123456789").unwrap(), 10);
        assert_eq!(stream.seek(SeekFrom::Start(3)).unwrap(), 3);
        assert_eq!(stream.position_and_rest(), Some((3, 7)));
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"3456789");
        assert!(stream.seek(SeekFrom::Current(1)).is_err() && stream.seek(SeekFrom::Start(u64::MAX)).is_err());
        // SAFETY: `raw` is open, and nothing uses it afterwards.
        unsafe { libc::fclose(raw) };
        assert_eq!(std::fs::read(&file).unwrap(), b"0123456789");
    }
}
