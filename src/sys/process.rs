//! The program that this library is part of: how it is linked, and what it prints.

use super::thread::Shield;

/// Whether the program can open shared libraries. A statically linked program has `dlopen`, but it crashes if the
/// library that it opens depends on a C library.
pub fn opens_libraries() -> bool {
    #[cfg(linux_kernel)]
    {
        let mut found = false;
        // SAFETY: `program` has the signature and contract of the callback, and its third argument is `found`, which
        // outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(program), std::ptr::from_mut(&mut found).cast()) };
        found
    }
    #[cfg(not(linux_kernel))]
    true
}

/// Callback for `dl_iterate_phdr`: writes whether the first loaded file, the program itself, names a dynamic linker.
///
/// # Safety
/// `info` is as `dl_iterate_phdr` passes it, and `found` points to a `bool`.
#[cfg(linux_kernel)]
unsafe extern "C" fn program(info: *mut libc::dl_phdr_info, _: usize, found: *mut std::ffi::c_void) -> std::ffi::c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid struct, and its `dlpi_phnum` headers exist while the file is loaded.
    let headers = unsafe {
        let info = &*info;
        if info.dlpi_phdr.is_null() {
            &[]
        } else {
            std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
        }
    };
    let dynamic = headers.iter().any(|h| h.p_type == libc::PT_INTERP);
    // SAFETY: the caller promises that `found` points to a `bool`.
    unsafe { found.cast::<bool>().write(dynamic) };
    1 // do not visit other files
}

/// Ends the process as C does, after the host's handler of SIGABRT. Rust's own function calls none on Windows, and
/// leaves another status.
pub fn abort() -> ! {
    #[cfg(windows)]
    super::crt::Crt::of_program().abort();
    #[cfg(not(windows))]
    // SAFETY: the function takes no arguments.
    unsafe {
        libc::abort()
    }
}

/// Writes what the program has printed to C's standard output, so that it is not lost when the process ends. Does
/// nothing while another thread uses the stream: that thread may wait for ever, for a reader of a pipe, say. The other
/// streams are left alone for the same reason: a thread that waits for input holds the lock of its stream.
pub fn flush_standard_output() {
    #[cfg(unix)]
    {
        unsafe extern "C" {
            #[cfg_attr(any(target_vendor = "apple", target_os = "freebsd"), link_name = "__stdoutp")]
            static stdout: *mut libc::FILE;
            fn ftrylockfile(stream: *mut libc::FILE) -> std::ffi::c_int;
            fn funlockfile(stream: *mut libc::FILE);
        }
        // SAFETY: the C library sets `stdout` before the program starts. A program that assigns to it must assign an
        // open stream, and not at the same time as another thread uses it. The stream is unlocked only if this thread
        // has locked it.
        unsafe {
            let stream = stdout;
            if !stream.is_null() && ftrylockfile(stream) == 0 {
                libc::fflush(stream);
                funlockfile(stream);
            }
        }
    }
    #[cfg(windows)]
    super::crt::Crt::of_program().flush_output();
}

/// Writes to standard error. `eprint!` must not be used: it panics if standard error cannot be written. Nor must
/// `std::io::stderr`: it has a lock, which another thread may hold while the host forks. The child would wait for it
/// for ever.
pub fn write_to_standard_error(text: &[u8]) {
    use std::io::Write;
    let _shield = Shield::new();
    // A standard error that is closed, or full, is no reason to fail.
    #[cfg(unix)]
    {
        use std::os::fd::FromRawFd;
        // SAFETY: every process has this number for its standard error. `ManuallyDrop`: it is not closed here.
        let mut file = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(libc::STDERR_FILENO) });
        let _ = file.write_all(text);
    }
    #[cfg(not(unix))]
    let _ = std::io::stderr().lock().write_all(text);
}

/// Whether /proc describes processes of this kind. Wine shows those of Linux.
#[cfg(test)]
pub const HAS_PROC: bool = cfg!(linux_kernel);

#[cfg(test)]
mod tests {
    #[test]
    fn tests_are_dynamic_programs() {
        assert!(super::opens_libraries());
    }
}
