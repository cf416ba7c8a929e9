//! Files as C programs name and hold them: paths in UTF-8, and C streams.

use std::ffi::CStr;
use std::io::{Error, Read, Result, Seek, SeekFrom, Write};
use std::path::Path;

/// The path with these bytes. On Unix a path is bytes; elsewhere it is text, and `None` when the bytes are no UTF-8.
pub fn path(bytes: &[u8]) -> Option<&Path> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Some(Path::new(std::ffi::OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    std::str::from_utf8(bytes).ok().map(Path::new)
}

/// `fopen`. On Windows the C library reads paths in the code page of the process; this function takes UTF-8 on every system. NULL, with
/// `errno` set, when the file cannot be opened.
pub fn open_stream(path: &CStr, mode: &CStr) -> *mut libc::FILE {
    #[cfg(not(windows))]
    // SAFETY: both are C strings, by their type.
    unsafe {
        libc::fopen(path.as_ptr(), mode.as_ptr())
    }
    #[cfg(windows)]
    {
        let wide = |text: &CStr| text.to_str().ok().map(|t| t.encode_utf16().chain([0]).collect::<Vec<u16>>());
        match (wide(path), wide(mode)) {
            // SAFETY: both end with a zero.
            (Some(path), Some(mode)) => unsafe { crt::_wfopen(path.as_ptr(), mode.as_ptr()) },
            _ => {
                // SAFETY: no preconditions.
                unsafe { crt::_set_errno(libc::EINVAL) };
                std::ptr::null_mut()
            }
        }
    }
}

/// What the `libc` crate does not declare of Windows' C library.
#[cfg(windows)]
mod crt {
    unsafe extern "C" {
        pub fn _wfopen(path: *const u16, mode: *const u16) -> *mut libc::FILE;
        pub fn _set_errno(value: libc::c_int) -> libc::c_int;
        pub fn _fseeki64(stream: *mut libc::FILE, offset: i64, from: libc::c_int) -> libc::c_int;
        pub fn _ftelli64(stream: *mut libc::FILE) -> i64;
    }
}

/// A C stream of the host, which also closes it.
pub struct CStream(*mut libc::FILE);

impl CStream {
    /// # Safety
    /// `file` is an open stream that nobody else uses while this lives.
    pub unsafe fn new(file: *mut libc::FILE) -> Self {
        Self(file)
    }

    /// The position and the number of bytes after it, if the stream can tell.
    pub fn position_and_rest(&mut self) -> Option<(u64, u64)> {
        let at = self.tell()?;
        self.seek_to(0, libc::SEEK_END).ok()?;
        let end = self.tell();
        // Back to where it was, also when the end is not known.
        self.seek_to(i64::try_from(at).ok()?, libc::SEEK_SET).ok()?;
        Some((at, end?.checked_sub(at)?))
    }

    fn tell(&mut self) -> Option<u64> {
        // SAFETY: an open stream that nobody else uses, by the promise of `new`.
        #[cfg(not(windows))]
        let at = unsafe { libc::ftello(self.0) };
        // SAFETY: as above.
        #[cfg(windows)]
        let at = unsafe { crt::_ftelli64(self.0) };
        u64::try_from(at).ok()
    }

    fn seek_to(&mut self, offset: i64, from: libc::c_int) -> Result<()> {
        #[cfg(not(windows))]
        let rc = {
            let offset = libc::off_t::try_from(offset).map_err(|_| std::io::ErrorKind::InvalidInput)?;
            // SAFETY: an open stream that nobody else uses, by the promise of `new`.
            unsafe { libc::fseeko(self.0, offset, from) }
        };
        // SAFETY: as above.
        #[cfg(windows)]
        let rc = unsafe { crt::_fseeki64(self.0, offset, from) };
        if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}

impl Read for CStream {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        // SAFETY: an open stream that nobody else uses, by the promise of `new`; `out` has room for its length.
        Ok(unsafe { libc::fread(out.as_mut_ptr().cast(), 1, out.len(), self.0) })
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
        // SAFETY: an open stream that nobody else uses, by the promise of `new`; `bytes` has its length.
        match unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.0) } {
            0 if !bytes.is_empty() => Err(Error::last_os_error()),
            n => Ok(n),
        }
    }

    /// Nothing: the host flushes its stream, or closes it.
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
        let file = std::env::temp_dir().join(format!("ggml-stream-é-{}", std::process::id()));
        let name = CString::new(file.to_str().unwrap()).unwrap();
        assert_eq!(path(name.to_bytes()), Some(file.as_path()));
        assert!(open_stream(&name, c"rb").is_null(), "there is no such file yet");
        let raw = open_stream(&name, c"w+b");
        assert!(!raw.is_null());
        // SAFETY: open, and used by nobody else until it is closed.
        let mut stream = unsafe { CStream::new(raw) };
        assert_eq!(stream.write(b"0123456789").unwrap(), 10);
        assert_eq!(stream.seek(SeekFrom::Start(3)).unwrap(), 3);
        assert_eq!(stream.position_and_rest(), Some((3, 7)));
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"3456789");
        assert!(stream.seek(SeekFrom::Current(1)).is_err() && stream.seek(SeekFrom::Start(u64::MAX)).is_err());
        // SAFETY: open, and not used afterwards.
        unsafe { libc::fclose(raw) };
        assert_eq!(std::fs::read(&file).unwrap(), b"0123456789");
        std::fs::remove_file(file).unwrap();
    }
}
