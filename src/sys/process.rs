//! Whether the program that this library is part of is linked statically.

/// Whether the program can open shared libraries. A statically linked program has `dlopen`, but it crashes if the library that it
/// opens depends on a C library.
pub fn opens_libraries() -> bool {
    #[cfg(target_os = "linux")]
    {
        let mut found = false;
        // SAFETY: `program` has the signature and contract of the callback, and its third argument is `found`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(program), std::ptr::from_mut(&mut found).cast()) };
        found
    }
    #[cfg(not(target_os = "linux"))]
    true
}

/// Callback for `dl_iterate_phdr`: writes whether the first loaded file, the program itself, names a dynamic linker.
///
/// # Safety
/// `info` is as `dl_iterate_phdr` passes it, and `found` points to a `bool`.
#[cfg(target_os = "linux")]
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

#[cfg(test)]
mod tests {
    #[test]
    fn tests_are_dynamic_programs() {
        assert!(super::opens_libraries());
    }
}
