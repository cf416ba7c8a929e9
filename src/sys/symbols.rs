//! Symbols of the libraries that the process has.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// Finds a symbol in the libraries of the process.
#[cfg(unix)]
pub fn find(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: `dlsym` takes any C string, and returns NULL for a name that does not exist.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Finds a function or variable that a library of the process exports. The search has no order.
#[cfg(windows)]
pub fn find(name: &CStr) -> Option<NonNull<c_void>> {
    use windows_sys::Win32::System::LibraryLoader::GetProcAddress;
    use windows_sys::Win32::System::ProcessStatus::EnumProcessModules;
    use windows_sys::Win32::System::Threading::GetCurrentProcess;
    let (mut modules, mut bytes) = (vec![std::ptr::null_mut(); 1024], 0);
    let size = u32::try_from(size_of_val(&modules[..])).unwrap_or(0);
    // SAFETY: so many bytes can be written.
    if unsafe { EnumProcessModules(GetCurrentProcess(), modules.as_mut_ptr(), size, &raw mut bytes) } == 0 {
        return None;
    }
    modules.truncate(bytes as usize / size_of::<*mut c_void>());
    // SAFETY: modules of this process. One that has been closed meanwhile is refused.
    let found = modules.into_iter().find_map(|module| unsafe { GetProcAddress(module, name.as_ptr().cast()) });
    NonNull::new(found? as *mut c_void)
}
