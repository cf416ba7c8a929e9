//! Shared libraries: their names, opening them, and symbols in them.

use libloading::Library;
use std::ffi::c_void;
use std::path::Path;
#[cfg(unix)]
use std::{ffi::CStr, ptr::NonNull};

/// How the file name of a backend module begins.
pub const MODULE_PREFIX: &str = if cfg!(windows) { "ggml-" } else { "libggml-" };
/// How it ends; the original's modules end so on macOS, too.
pub const MODULE_EXTENSION: &str = if cfg!(windows) { "dll" } else { "so" };

/// Opens a library with all its symbols bound, and not visible to others. It uses its own symbols first, then those of
/// what it depends on: a module of the original calls its own `ggml_backend_cpu_reg` by the exported name, and must
/// not get the one of this library, which is before it in the host's list of libraries.
///
/// # Safety
/// The library's initialisers, and later its finalisers, may run.
pub unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library as Unix, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: forwarded to the caller.
        unsafe { Unix::open(Some(path), RTLD_NOW | RTLD_LOCAL | own_symbols_first()) }.map(Library::from)
    }
    #[cfg(not(unix))]
    // SAFETY: forwarded to the caller.
    unsafe {
        Library::new(path)
    }
}

/// The flag of `dlopen` for [`open`]. None under a sanitizer, whose runtime refuses it, and where the system
/// has none: there a module must be linked with `-Bsymbolic` or hide its names.
#[cfg(unix)]
fn own_symbols_first() -> std::ffi::c_int {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if ![c"__asan_init", c"__tsan_init", c"__msan_init"].into_iter().any(|name| find(name).is_some()) {
        return libc::RTLD_DEEPBIND;
    }
    0
}

/// What the process has under this name, in whichever library. Windows has no such search.
#[cfg(unix)]
pub fn find(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: dlsym takes any name, and returns NULL for one that does not exist.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Whether a symbol that was found in the library at `path` is that library's own. The dynamic linker of Unix also looks through
/// what a library depends on. A backend module depends on this library, which exports the names of modules for hosts that load it as
/// one.
#[cfg(unix)]
pub fn is_own(path: &Path, symbol: *const c_void) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |address: *const c_void| {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr takes any address and fills the struct if it knows the address; the zeroed struct is a valid one.
        let known = unsafe { libc::dladdr(address, info.as_mut_ptr()) } != 0;
        // SAFETY: zeroed or filled.
        known.then(|| unsafe { info.assume_init() })
    };
    let (Some(its), Some(ours)) = (place(symbol), place(is_own as *const c_void)) else { return true };
    if its.dli_fbase != ours.dli_fbase || ours.dli_fname.is_null() {
        return true;
    }
    // The name is this library's: right only if the module is this library, under whatever name.
    // SAFETY: the linker's name of a loaded file is a valid C string for as long as the file is loaded.
    let name = unsafe { CStr::from_ptr(ours.dli_fname) };
    let file = super::file::path(name.to_bytes()).and_then(|f| std::fs::metadata(f).ok());
    match (std::fs::metadata(path), file) {
        (Ok(a), Some(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => true,
    }
}

/// Always: the system looks for symbols in the library itself.
#[cfg(not(unix))]
pub fn is_own(_: &Path, _: *const c_void) -> bool {
    true
}
