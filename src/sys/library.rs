//! Shared libraries: names of backend modules, opening libraries, and finding symbols in them.

use libloading::Library;
#[cfg(unix)]
use std::ffi::CStr;
use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};

/// Prefix of the file name of a backend module.
pub const MODULE_PREFIX: &str = if cfg!(windows) { "ggml-" } else { "libggml-" };
/// Extension of the file name of a backend module. The original uses `so` on macOS, too.
pub const MODULE_EXTENSION: &str = if cfg!(windows) { "dll" } else { "so" };

/// Where Vulkan is on macOS if not where the system searches: in Homebrew's folders; and MoltenVK, the driver itself,
/// which does without Vulkan's own library.
pub const MORE_VULKAN: &[&str] = if cfg!(target_os = "macos") {
    &[
        "libvulkan.1.dylib",
        "/opt/homebrew/lib/libvulkan.1.dylib",
        "/usr/local/lib/libvulkan.1.dylib",
        "libMoltenVK.dylib",
        "/opt/homebrew/lib/libMoltenVK.dylib",
        "/usr/local/lib/libMoltenVK.dylib",
    ]
} else {
    &[]
};

/// Opens a library, binds all its symbols, and hides them from other libraries. The library uses its own symbols before
/// those of others: a module of the original calls `ggml_backend_cpu_reg` by its exported name, and must get its own,
/// not that of this library, which comes first in the search order of the process. `folders` is the value of PATH, for
/// Windows.
///
/// # Safety
/// The library's initialisers may run now, and its finalisers when it is closed.
pub unsafe fn open(path: &Path, folders: fn() -> Option<OsString>) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        let _ = folders;
        use libloading::os::unix::{Library as Unix, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: the caller promises that the library's initialisers and finalisers may run.
        unsafe { Unix::open(Some(path), RTLD_NOW | RTLD_LOCAL | own_symbols_first()) }.map(Library::from)
    }
    #[cfg(windows)]
    // SAFETY: the caller promises that the library's initialisers and finalisers may run.
    unsafe {
        search::open(path, folders)
    }
}

/// Where Windows finds libraries. Not in the current folder, where anybody may have put some: a module is where its
/// path says, or beside the program. What it needs is beside it, beside the program, in the system, or in an absolute
/// folder of PATH, as CUDA's libraries are.
#[cfg(windows)]
mod search {
    use super::*;
    use libloading::os::windows::{
        LOAD_LIBRARY_SEARCH_DEFAULT_DIRS, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR, Library as Windows,
    };
    use std::os::windows::ffi::OsStrExt;
    use windows_sys::Win32::System::LibraryLoader::{AddDllDirectory, RemoveDllDirectory};

    /// A folder that the system searches as long as this exists.
    struct Searched(*mut c_void);

    impl Searched {
        fn new(folder: &Path) -> Option<Self> {
            let name: Vec<u16> = folder.as_os_str().encode_wide().chain([0]).collect();
            // SAFETY: a string that ends with 0.
            let cookie = unsafe { AddDllDirectory(name.as_ptr()) };
            (!cookie.is_null()).then_some(Self(cookie))
        }
    }

    impl Drop for Searched {
        fn drop(&mut self) {
            // SAFETY: `new` has got it from the system, and only `drop` gives it back.
            unsafe { RemoveDllDirectory(self.0) };
        }
    }

    /// As that of the module above.
    ///
    /// # Safety
    /// As that of the module above.
    pub unsafe fn open(path: &Path, folders: fn() -> Option<OsString>) -> Result<Library, libloading::Error> {
        let is_name = path.components().count() == 1;
        let absolute = if is_name { None } else { std::path::absolute(path).ok() };
        let near = if is_name { 0 } else { LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR };
        let load = || {
            let flags = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS | near;
            // SAFETY: the caller promises that the library's initialisers and finalisers may run.
            unsafe { Windows::load_with_flags(absolute.as_deref().unwrap_or(path), flags) }.map(Library::from)
        };
        load().or_else(|first| {
            let folders = folders().unwrap_or_default();
            let folders = std::env::split_paths(&folders).filter(|folder| folder.is_absolute());
            let _searched: Vec<_> = folders.filter_map(|folder| Searched::new(&folder)).collect();
            load().map_err(|_| first)
        })
    }
}

/// Returns the flag of `dlopen` that makes a library use its own symbols first. It is 0 under a sanitizer, whose
/// runtime refuses the flag, and on systems without it: a module must be linked with `-Bsymbolic` or hide its names
/// there. On macOS, a file names the library of each symbol, so it finds its own.
#[cfg(unix)]
fn own_symbols_first() -> std::ffi::c_int {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if ![c"__asan_init", c"__tsan_init", c"__msan_init"].into_iter().any(|name| super::symbols::find(name).is_some()) {
        return libc::RTLD_DEEPBIND;
    }
    0
}

/// The library of the process that an address is in.
#[cfg(unix)]
fn place(address: *const c_void) -> Option<libc::Dl_info> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `dladdr` takes any address, and `info` is writable.
    let known = unsafe { libc::dladdr(address, info.as_mut_ptr()) } != 0;
    // SAFETY: `dladdr` has filled the struct; all-zero bytes would be valid, too.
    known.then(|| unsafe { info.assume_init() })
}

/// The file of this library, by the path under which the process loaded it: links are not followed.
#[cfg(unix)]
pub fn own_path() -> Option<PathBuf> {
    let ours = place(own_path as *const c_void).filter(|ours| !ours.dli_fname.is_null())?;
    // SAFETY: `dladdr` returns a valid C string that lives while the file is loaded, and this library is loaded.
    let name = unsafe { CStr::from_ptr(ours.dli_fname) };
    super::file::path(name.to_bytes()).map(Path::to_owned)
}

/// Keeps the file of this library loaded until the process ends. Elsewhere a flag in the file does it (build.rs).
#[cfg(target_vendor = "apple")]
pub fn stay() {
    use std::os::unix::ffi::OsStrExt;
    let Some(path) = own_path().and_then(|path| std::ffi::CString::new(path.as_os_str().as_bytes()).ok()) else {
        return;
    };
    // SAFETY: a C string; the file is loaded, so no code runs. If it is the program, that stays in any case.
    unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
}

/// Keeps the file of this library loaded until the process ends.
#[cfg(windows)]
pub fn stay() {
    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    };
    let (flags, mut module) =
        (GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, std::ptr::null_mut());
    // SAFETY: the flag says that the address is one in the library and no name, and the result can be written.
    unsafe { GetModuleHandleExW(flags, (stay as *const c_void).cast(), &raw mut module) };
}

/// The file of the process that an address is in. NULL: none.
#[cfg(windows)]
pub fn file_of(address: *const c_void) -> windows_sys::Win32::Foundation::HMODULE {
    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleHandleExW,
    };
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    let mut file = std::ptr::null_mut();
    // SAFETY: with these flags the name may be any address, and the result can be written.
    unsafe { GetModuleHandleExW(flags, address.cast(), &raw mut file) };
    file
}

/// The file of this library.
#[cfg(windows)]
pub fn own_path() -> Option<PathBuf> {
    use std::os::windows::ffi::OsStringExt;
    use windows_sys::Win32::System::LibraryLoader::GetModuleFileNameW;
    let module = file_of(own_path as *const c_void);
    if module.is_null() {
        return None;
    }
    // The longest path of Windows, in units of UTF-16.
    let mut name = vec![0u16; 1 << 15];
    // SAFETY: this library is loaded; so much can be written.
    let length = unsafe { GetModuleFileNameW(module, name.as_mut_ptr(), name.len() as u32) as usize };
    (length > 0 && length < name.len()).then(|| std::ffi::OsString::from_wide(&name[..length]).into())
}

/// Whether a symbol that was found in the library at `path` belongs to that library. The dynamic linker of Unix also
/// searches the libraries that it depends on. A backend module depends on this library, which exports the names of
/// modules for hosts that load it as one.
#[cfg(unix)]
pub fn is_own(path: &Path, symbol: *const c_void) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Some(its), Some(ours)) = (place(symbol), place(is_own as *const c_void)) else { return true };
    if its.dli_fbase != ours.dli_fbase || ours.dli_fname.is_null() {
        return true;
    }
    // The symbol is this library's: correct only if `path` is a file name of this library.
    let file = own_path().and_then(|f| std::fs::metadata(f).ok());
    match (std::fs::metadata(path), file) {
        (Ok(a), Some(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => true,
    }
}

/// Always true: the system searches only the library itself.
#[cfg(not(unix))]
pub fn is_own(_: &Path, _: *const c_void) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_and_have_an_owner() {
        assert!(super::super::symbols::find(c"a name that does not exist").is_none());
        let malloc = super::super::symbols::find(c"malloc").unwrap();
        let own = is_own as *const c_void;
        let me = std::env::current_exe().unwrap();
        // A symbol that is not of this library counts as one of any file. A symbol of this library belongs to no other
        // file.
        assert!(is_own(&me, malloc.as_ptr()) && is_own(Path::new("/nonexistent"), malloc.as_ptr()));
        assert!(is_own(&me, own) && !is_own(Path::new("/"), own));
        // Nothing is at these addresses.
        assert!(is_own(&me, std::ptr::null()) && is_own(&me, std::ptr::without_provenance(usize::MAX)));
    }
}
