//! Files that may have to be waited for: pipes, terminals, file systems of a network. A thread that waits can be
//! cancelled (`pthread_cancel`), as in the C library's own functions. Its unwinding stops where the system is called
//! (`foreign`), and continues at the end of the exported function, whose call has failed.

use super::foreign;
use std::fs::File;
use std::io::{Error, Read, Result, Seek, SeekFrom, Write};
use std::path::Path;

/// What a call returns that the thread was cancelled in.
fn cancelled() -> Error {
    Error::other("the thread was cancelled")
}

/// Calls a function of the C library that may wait, with its result and `errno`. It may be left by cancellation.
///
/// # Errors
/// It was.
pub fn wait<T: Copy>(function: impl FnOnce() -> T + Copy) -> Result<(T, i32)> {
    let call = || {
        let result = function();
        (result, Error::last_os_error().raw_os_error().unwrap_or(0))
    };
    // An exception of the host that is on its way does not keep the library from its work.
    if foreign::is_pending() && !foreign::is_ending() {
        return Ok(call());
    }
    foreign::call_host(call).ok_or_else(cancelled)
}

/// An open file.
pub struct Patient {
    file: File,
    /// Whether a thread can be cancelled while it writes. Not for files in the usual sense: they would be left in
    /// pieces, and do not let a writer wait.
    #[cfg_attr(not(unix), allow(dead_code))]
    may_leave: bool,
}

#[cfg(unix)]
mod calls {
    use super::{Patient, wait};
    use std::ffi::{CString, c_char, c_int};
    use std::fs::File;
    use std::io::{Error, ErrorKind, Result};
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    // As libc has them, but they may be left by unwinding.
    unsafe extern "C-unwind" {
        fn open(path: *const c_char, flags: c_int, ...) -> c_int;
        fn read(file: c_int, to: *mut u8, n: usize) -> isize;
        fn write(file: c_int, from: *const u8, n: usize) -> isize;
    }

    pub fn open_file(path: &Path, flags: c_int) -> Result<Patient> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| ErrorKind::InvalidInput)?;
        let address = path.as_ptr();
        loop {
            // SAFETY: a C string, and flags of this function.
            let (file, errno) = wait(|| unsafe { open(address, flags | libc::O_CLOEXEC, 0o666) })?;
            match file {
                0.. => {
                    // SAFETY: just opened, and not used by others.
                    let file = unsafe { File::from_raw_fd(file) };
                    let may_leave = !file.metadata()?.is_file();
                    return Ok(Patient { file, may_leave });
                }
                _ if errno == libc::EINTR => {}
                _ => return Err(Error::from_raw_os_error(errno)),
            }
        }
    }

    fn result((n, errno): (isize, i32)) -> Result<usize> {
        usize::try_from(n).map_err(|_| Error::from_raw_os_error(errno))
    }

    pub fn read_file(file: &File, out: &mut [u8]) -> Result<usize> {
        let (file, to, n) = (file.as_raw_fd(), out.as_mut_ptr(), out.len());
        // SAFETY: `n` bytes there are writable.
        wait(|| unsafe { read(file, to, n) }).and_then(result)
    }

    pub fn write_file(file: &File, bytes: &[u8]) -> Result<usize> {
        let (file, from, n) = (file.as_raw_fd(), bytes.as_ptr(), bytes.len());
        // SAFETY: `n` bytes there are readable.
        wait(|| unsafe { write(file, from, n) }).and_then(result)
    }
}

impl Patient {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`File::open`], and if the thread was cancelled.
    pub fn open(path: &Path) -> Result<Self> {
        #[cfg(unix)]
        return calls::open_file(path, libc::O_RDONLY);
        #[cfg(not(unix))]
        Ok(Self { file: File::open(path)?, may_leave: false })
    }

    /// Creates a file, or empties the one that is there.
    ///
    /// # Errors
    /// As [`File::create`], and if the thread was cancelled.
    pub fn create(path: &Path) -> Result<Self> {
        #[cfg(unix)]
        {
            // Not emptied by opening it, which may be cancelled after that: the old contents would be lost, and none
            // written.
            let created = calls::open_file(path, libc::O_WRONLY | libc::O_CREAT)?;
            if !created.may_leave {
                created.file.set_len(0)?;
            }
            Ok(created)
        }
        #[cfg(not(unix))]
        Ok(Self { file: File::create(path)?, may_leave: false })
    }

    /// Its size in bytes; 0 for a pipe.
    ///
    /// # Errors
    /// As [`File::metadata`].
    pub fn len(&self) -> Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl Read for Patient {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        #[cfg(unix)]
        return calls::read_file(&self.file, out);
        #[cfg(not(unix))]
        self.file.read(out)
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        #[cfg(unix)]
        if self.may_leave {
            return calls::write_file(&self.file, bytes);
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

impl Seek for Patient {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(Patient::open(&path).err().unwrap().kind(), std::io::ErrorKind::NotFound);
        Patient::create(&path).unwrap().write_all(b"0123456789").unwrap();
        let mut file = Patient::open(&path).unwrap();
        assert_eq!((file.len().unwrap(), file.seek(SeekFrom::Start(7)).unwrap()), (10, 7));
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "789");
        assert!(file.write(b"x").is_err());
        assert_eq!(Patient::create(&path).unwrap().len().unwrap(), 0);
    }
}
