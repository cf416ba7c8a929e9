//! What kind of program this library is part of.

/// Whether the program can open shared libraries. One that is linked statically cannot: the C library's `dlopen` is there, and crashes when
/// the library that it opens needs a C library of its own.
pub fn opens_libraries() -> bool {
    #[cfg(target_os = "linux")]
    {
        let mut found = false;
        // SAFETY: the function below takes what dl_iterate_phdr gives, with a pointer to `found`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(program), std::ptr::from_mut(&mut found).cast()) };
        found
    }
    #[cfg(not(target_os = "linux"))]
    true
}

/// Looks at the first loaded file, the program itself: one that names a dynamic linker has one.
///
/// # Safety
/// As `dl_iterate_phdr` calls it; `found` points to a `bool`.
#[cfg(target_os = "linux")]
unsafe extern "C" fn program(info: *mut libc::dl_phdr_info, _: usize, found: *mut std::ffi::c_void) -> std::ffi::c_int {
    // SAFETY: the C library gives a valid struct, whose headers stay for as long as the file is loaded.
    let headers = unsafe {
        let info = &*info;
        if info.dlpi_phdr.is_null() {
            &[]
        } else {
            std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
        }
    };
    let dynamic = headers.iter().any(|h| h.p_type == libc::PT_INTERP);
    // SAFETY: the caller's promise.
    unsafe { found.cast::<bool>().write(dynamic) };
    1 // no other file
}

#[cfg(test)]
mod tests {
    #[test]
    fn tests_are_dynamic_programs() {
        assert!(super::opens_libraries());
    }
}
