//! C streams of the host.

#[cfg(windows)]
use super::crt::Crt;
use super::patient;
use std::ffi::{CStr, c_int};
use std::io::{Error, Read, Result, Seek, SeekFrom, Write};

/// The C library: a process has one.
#[cfg(not(windows))]
#[derive(Clone, Copy)]
struct Crt {
    read: unsafe extern "C-unwind" fn(*mut u8, usize, usize, *mut libc::FILE) -> usize,
    write: unsafe extern "C-unwind" fn(*const u8, usize, usize, *mut libc::FILE) -> usize,
    seek: unsafe extern "C" fn(*mut libc::FILE, libc::off_t, c_int) -> c_int,
    tell: unsafe extern "C" fn(*mut libc::FILE) -> libc::off_t,
}

#[cfg(not(windows))]
impl Crt {
    fn of_caller() -> Self {
        // These may be left by cancellation.
        unsafe extern "C-unwind" {
            fn fread(to: *mut u8, size: usize, n: usize, stream: *mut libc::FILE) -> usize;
            fn fwrite(from: *const u8, size: usize, n: usize, stream: *mut libc::FILE) -> usize;
        }
        Self { read: fread, write: fwrite, seek: libc::fseeko, tell: libc::ftello }
    }
}

/// `fopen` with paths in UTF-8 on every system; that of Windows reads paths in the code page of the process. Returns
/// NULL and sets `errno` if the file cannot be opened.
pub fn open(path: &CStr, mode: &CStr) -> *mut libc::FILE {
    #[cfg(not(windows))]
    // SAFETY: both are valid C strings: `CStr` guarantees it.
    unsafe {
        libc::fopen(path.as_ptr(), mode.as_ptr())
    }
    #[cfg(windows)]
    Crt::of_caller().open(path, mode)
}

/// A stream that the host opened and closes.
pub struct CStream {
    stream: *mut libc::FILE,
    crt: Crt,
}

impl CStream {
    /// # Safety
    /// `file` is an open stream that no other code uses or closes while the `CStream` exists.
    pub unsafe fn new(file: *mut libc::FILE) -> Self {
        Self { stream: file, crt: Crt::of_caller() }
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
            let known = unsafe { libc::fstat(libc::fileno(self.stream), &raw mut about) } == 0;
            known && about.st_mode & libc::S_IFMT == libc::S_IFREG
        }
        #[cfg(not(unix))]
        true
    }

    fn tell(&mut self) -> Option<u64> {
        // SAFETY: the promise of `new`: an open stream that no other code uses.
        u64::try_from(unsafe { (self.crt.tell)(self.stream) }).ok()
    }

    fn seek_to(&mut self, offset: i64, from: c_int) -> Result<()> {
        #[allow(clippy::useless_conversion)] // on most systems
        let offset = offset.try_into().map_err(|_| std::io::ErrorKind::InvalidInput)?;
        // SAFETY: the promise of `new`: an open stream that no other code uses.
        let rc = unsafe { (self.crt.seek)(self.stream, offset, from) };
        if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}

impl Read for CStream {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let crt = self.crt;
        let (to, n, stream) = (out.as_mut_ptr(), out.len(), self.stream);
        // SAFETY: the promise of `new`: an open stream without other users. `n` bytes are writable. The C library
        // undoes what it does if it is left.
        patient::wait(|| unsafe { (crt.read)(to, 1, n, stream) }).map(|(n, _)| n)
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
        let crt = self.crt;
        let (from, n, stream) = (bytes.as_ptr(), bytes.len(), self.stream);
        // SAFETY: the promise of `new`: an open stream without other users. `n` bytes are readable. The C library
        // undoes what it does if it is left.
        let write = || unsafe { (crt.write)(from, 1, n, stream) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn a_stream_with_a_name_beyond_ascii_is_written_measured_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stream-é");
        let name = CString::new(file.to_str().unwrap()).unwrap();
        assert_eq!(super::super::file::path(name.to_bytes()), Some(file.as_path()));
        assert!(open(&name, c"rb").is_null(), "there is no such file yet");
        let raw = open(&name, c"w+b");
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
