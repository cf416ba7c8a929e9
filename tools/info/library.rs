//! A ggml library, opened at run time. `ggml-info` is not linked to one: it describes the library that a program would
//! use, also an original one.

use libloading::Library;
use serde_json::Value;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// An object of the library.
pub type Handle = *mut c_void;

/// A library that is open until the process ends: its threads may run until then.
pub struct Ggml {
    library: &'static Library,
    /// The name by which it was opened.
    pub name: PathBuf,
}

/// Declares wrappers for functions of the C headers, which are looked up when they are called.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $(-> $result:ty)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// The library has no such function.
        ///
        /// # Safety
        /// The contract of the function in its header.
        pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<functions!(@ $($result)?), String> {
            type Function = unsafe extern "C" fn($($ty),*) $(-> $result)?;
            // SAFETY: the type is that of the header, and the header's contract is the caller's.
            unsafe {
                let function = self.library.get::<Function>(concat!(stringify!($name), "\0").as_bytes());
                Ok(function.map_err(|_| format!("{} has no function {}", self.name.display(), stringify!($name)))?($($arg),*))
            }
        }
    )*};
    (@) => { () };
    (@ $result:ty) => { $result };
}

/// `ggml_log_callback`.
pub type LogCallback = Option<unsafe extern "C" fn(c_int, *const c_char, *mut c_void)>;

/// Shows warnings (3) and errors (4) of the library.
unsafe extern "C" fn log(level: c_int, text: *const c_char, _: *mut c_void) {
    if (3..5).contains(&level) {
        eprint!("{}", Ggml::text(text));
    }
}

/// `struct ggml_init_params`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct InitParams {
    /// Bytes of the context.
    pub mem_size: usize,
    /// NULL: the library allocates it.
    pub mem_buffer: *mut c_void,
    /// Tensors get no memory.
    pub no_alloc: bool,
}

#[allow(missing_docs)]
impl Ggml {
    functions! {
        fn ggml_log_set(callback: LogCallback, user_data: *mut c_void);
        fn ggml_version() -> *const c_char;
        fn ggml_commit() -> *const c_char;
        fn ggml_backend_reg_count() -> usize;
        fn ggml_backend_reg_get(index: usize) -> Handle;
        fn ggml_backend_reg_name(reg: Handle) -> *const c_char;
        fn ggml_backend_dev_count() -> usize;
        fn ggml_backend_dev_get(index: usize) -> Handle;
        fn ggml_backend_dev_name(device: Handle) -> *const c_char;
        fn ggml_backend_dev_description(device: Handle) -> *const c_char;
        fn ggml_backend_dev_type(device: Handle) -> c_int;
        fn ggml_backend_dev_memory(device: Handle, free: *mut usize, total: *mut usize);
        fn ggml_backend_dev_backend_reg(device: Handle) -> Handle;
        fn ggml_backend_reg_get_proc_address(reg: Handle, name: *const c_char) -> *mut c_void;
        fn ggml_backend_dev_by_type(kind: c_int) -> Handle;
        fn ggml_backend_dev_init(device: Handle, params: *const c_char) -> Handle;
        fn ggml_backend_free(backend: Handle);
        fn ggml_backend_get_default_buffer_type(backend: Handle) -> Handle;
        fn ggml_backend_alloc_ctx_tensors_from_buft(context: Handle, buft: Handle) -> Handle;
        fn ggml_backend_buffer_free(buffer: Handle);
        fn ggml_backend_buft_name(buft: Handle) -> *const c_char;
        fn ggml_backend_tensor_set(tensor: Handle, data: *const c_void, offset: usize, size: usize);
        fn ggml_backend_graph_compute(backend: Handle, graph: Handle) -> c_int;
        fn ggml_init(params: InitParams) -> Handle;
        fn ggml_free(context: Handle);
        fn ggml_new_tensor_2d(context: Handle, kind: c_int, ne0: i64, ne1: i64) -> Handle;
        fn ggml_mul_mat(context: Handle, a: Handle, b: Handle) -> Handle;
        fn ggml_new_graph(context: Handle) -> Handle;
        fn ggml_build_forward_expand(graph: Handle, tensor: Handle);
        fn ggml_nbytes(tensor: Handle) -> usize;
        fn ggml_type_name(kind: c_int) -> *const c_char;
        fn ggml_quantize_chunk(kind: c_int, src: *const f32, dst: *mut c_void, start: i64, rows: i64, per_row: i64, imatrix: *const f32) -> usize;
        fn ggml_rs_describe() -> *mut c_char;
        fn ggml_rs_string_free(text: *mut c_char);
    }

    /// Opens the library at a path, or the one that belongs to this program: in the folder for libraries beside its
    /// own, or where the dynamic loader finds one.
    ///
    /// # Errors
    /// There is none, or it cannot be loaded.
    pub fn open(path: Option<&Path>) -> Result<Self, String> {
        let mut names: Vec<PathBuf> = Vec::new();
        if let Some(path) = path {
            if !path.exists() {
                return Err(format!("{}: no such file", path.display()));
            }
            // A name without a slash would be searched for elsewhere.
            names.push(path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?);
        } else {
            let (installed, built) = match std::env::consts::OS {
                "macos" => ("libggml.0.dylib", "libggml.dylib"),
                "android" => ("libggml.so", "libggml.so"),
                "windows" => ("ggml-base.dll", "ggml.dll"),
                _ => ("libggml.so.0", "libggml.so"),
            };
            let exe = std::env::current_exe().ok();
            let folder = exe.as_deref().and_then(Path::parent);
            if let Some(folder) = folder {
                let lib = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
                names.extend([lib.as_str(), "../lib", "../lib64"].map(|l| folder.join(l).join(installed)));
                if cfg!(windows) {
                    names.push(folder.join(installed));
                }
                names.push(folder.join(built)); // the place where cargo builds both
                names.retain(|n| n.exists());
            }
            names.push(installed.into());
        }
        let mut why = String::new();
        for name in names {
            // SAFETY: the initialisers of a ggml library only set up tables, as for every program that is linked to it.
            match unsafe { Library::new(&name) } {
                Ok(library) => {
                    let this = Self { library: Box::leak(Box::new(library)), name };
                    // SAFETY: the header's contract: the callback may be called from any thread, and needs no data.
                    unsafe { this.ggml_log_set(Some(log), std::ptr::null_mut())? };
                    return Ok(this);
                }
                Err(e) => why = e.to_string(),
            }
        }
        Err(format!(
            "no ggml library can be loaded: {why} (--library FILE names one, {} the folder of its parts)",
            match std::env::consts::OS {
                "macos" => "DYLD_LIBRARY_PATH",
                "windows" => "PATH",
                _ => "LD_LIBRARY_PATH",
            }
        ))
    }

    /// The text of a function that returns one.
    pub fn text(text: *const c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: the header's contract: functions that return a text return a valid C string, which lives while this
        // is called.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The description of libggml-rs by itself; null for an original library.
    pub fn description(&self) -> Value {
        // SAFETY: the header's contract: no arguments; the text is freed once.
        unsafe {
            let Ok(text) = self.ggml_rs_describe() else { return Value::Null };
            let value = serde_json::from_str(&Self::text(text)).unwrap_or_default();
            let _ = self.ggml_rs_string_free(text);
            value
        }
    }

    /// A function that a backend offers by name, as the type `F`.
    ///
    /// # Safety
    /// `F` is the type of the function of this name, a function pointer.
    pub unsafe fn offered<F: Copy>(&self, reg: Handle, name: &str) -> Option<F> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        let name = CString::new(name).ok()?;
        // SAFETY: `reg` came from the library; the name is a C string.
        let address = unsafe { self.ggml_backend_reg_get_proc_address(reg, name.as_ptr()) }.ok()?;
        // SAFETY: the caller promises that `F` is the type of the function, and an address is as large.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}
