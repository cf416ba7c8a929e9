//! The C libraries of a process of Windows. Each of its files may use another one: programs of Visual C++ have the
//! Universal C Runtime, those of Debian's MinGW have msvcrt.dll. Each has streams, an `errno` and handlers of signals
//! of its own, and a stream of one is none of another. So what comes from the host, or goes to it, is of the C library
//! that the host's file imports.

use super::library::file_of;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::Diagnostics::Debug::RtlCaptureStackBackTrace;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};

type Stream = *mut libc::FILE;
type Read = unsafe extern "C-unwind" fn(*mut u8, usize, usize, Stream) -> usize;
type Write = unsafe extern "C-unwind" fn(*const u8, usize, usize, Stream) -> usize;
type Seek = unsafe extern "C" fn(Stream, i64, c_int) -> c_int;
type Tell = unsafe extern "C" fn(Stream) -> i64;
type Open = unsafe extern "C" fn(*const u16, *const u16) -> Stream;
type Errno = unsafe extern "C" fn() -> *mut c_int;
type Flush = unsafe extern "C" fn(Stream) -> c_int;
type Standard = unsafe extern "C" fn(c_uint) -> Stream;
/// What `GetProcAddress` gives.
type Function = unsafe extern "system" fn() -> isize;
type Abort = unsafe extern "C" fn() -> !;

/// Functions of one of them.
#[derive(Clone, Copy)]
pub struct Crt {
    pub read: Read,
    pub write: Write,
    pub seek: Seek,
    pub tell: Tell,
    open: Open,
    errno: Errno,
    flush: Flush,
    /// `None`: one without this function, whose standard streams are not known.
    standard: Option<Standard>,
    abort: Abort,
}

/// Those of this library.
mod own {
    use super::{Stream, c_int, c_uint};
    unsafe extern "C-unwind" {
        pub fn fread(to: *mut u8, size: usize, n: usize, stream: Stream) -> usize;
        pub fn fwrite(from: *const u8, size: usize, n: usize, stream: Stream) -> usize;
    }
    unsafe extern "C" {
        pub fn _fseeki64(stream: Stream, offset: i64, from: c_int) -> c_int;
        pub fn _ftelli64(stream: Stream) -> i64;
        pub fn _wfopen(path: *const u16, mode: *const u16) -> Stream;
        pub fn _errno() -> *mut c_int;
        pub fn fflush(stream: Stream) -> c_int;
        pub fn __acrt_iob_func(number: c_uint) -> Stream;
        pub fn abort() -> !;
    }
}

const OWN: Crt = Crt {
    read: own::fread,
    write: own::fwrite,
    seek: own::_fseeki64,
    tell: own::_ftelli64,
    open: own::_wfopen,
    errno: own::_errno,
    flush: own::fflush,
    standard: Some(own::__acrt_iob_func),
    abort: own::abort,
};

/// The names of the files that a file of the process imports.
fn imports(file: HMODULE) -> impl Iterator<Item = &'static CStr> {
    // SAFETY: the system has mapped a file for 64 bits at this address: the offset of its header is at 0x3c, that of
    // its imports 0x90 bytes after the header's beginning. Each of them has 20 bytes, with the offset of its name at
    // 12; the last has none. The file stays loaded meanwhile: its code is on the stack, or it is the program.
    unsafe {
        let at = move |offset: usize| file.cast::<u8>().add(offset);
        let number = move |offset: usize| at(offset).cast::<u32>().read_unaligned() as usize;
        let first = number(number(0x3c) + 0x90);
        (0..).map_while(move |i| {
            let name = if first == 0 { 0 } else { number(first + 20 * i + 12) };
            (name != 0).then(|| CStr::from_ptr(at(name).cast::<c_char>()))
        })
    }
}

/// The file that has the C library which a file imports by this name.
fn library(name: &CStr) -> Option<Vec<u16>> {
    let name = name.to_str().ok()?.to_ascii_lowercase();
    // Names of sets of functions, of which the system knows where they are.
    let name = if name.starts_with("api-ms-win-crt-") { "ucrtbase.dll" } else { &name };
    let known = ["ucrtbase", "msvcr"].into_iter().any(|start| name.starts_with(start));
    known.then(|| name.encode_utf16().chain([0]).collect())
}

impl Crt {
    /// That of the file whose code has called this library.
    pub fn of_caller() -> Self {
        let own = file_of(Self::of_caller as *const c_void);
        // SAFETY: without a name, this is the program.
        if own == unsafe { GetModuleHandleW(null()) } {
            return OWN; // this library is a part of the program
        }
        let mut frames = [null_mut(); 62];
        // SAFETY: so many addresses can be written.
        let n = unsafe { RtlCaptureStackBackTrace(0, 62, frames.as_mut_ptr(), null_mut()) };
        let files = frames.iter().take(n.into()).map(|frame| file_of(*frame));
        files.into_iter().find(|file| !file.is_null() && *file != own).map_or(OWN, Self::of)
    }

    /// That of the program.
    pub fn of_program() -> Self {
        // SAFETY: without a name, this is the program.
        Self::of(unsafe { GetModuleHandleW(null()) })
    }

    /// That which a file imports.
    fn of(file: HMODULE) -> Self {
        imports(file).find_map(library).and_then(|name| Self::load(&name)).unwrap_or(OWN)
    }

    fn load(name: &[u16]) -> Option<Self> {
        // SAFETY: a string that ends with 0.
        let file = unsafe { GetModuleHandleW(name.as_ptr()) };
        if file.is_null() {
            return None;
        }
        // SAFETY: `file` stays loaded while a file that imports it does, and these are the signatures of its functions.
        unsafe {
            let find = |name: &CStr| GetProcAddress(file, name.as_ptr().cast());
            Some(Self {
                read: transmute::<Function, Read>(find(c"fread")?),
                write: transmute::<Function, Write>(find(c"fwrite")?),
                seek: transmute::<Function, Seek>(find(c"_fseeki64")?),
                tell: transmute::<Function, Tell>(find(c"_ftelli64")?),
                open: transmute::<Function, Open>(find(c"_wfopen")?),
                errno: transmute::<Function, Errno>(find(c"_errno")?),
                flush: transmute::<Function, Flush>(find(c"fflush")?),
                standard: find(c"__acrt_iob_func").map(|f| transmute::<Function, Standard>(f)),
                abort: transmute::<Function, Abort>(find(c"abort")?),
            })
        }
    }

    /// As `stream::open` says.
    pub fn open(self, path: &CStr, mode: &CStr) -> Stream {
        let wide = |text: &CStr| text.to_str().ok().map(|t| t.encode_utf16().chain([0]).collect::<Vec<u16>>());
        match (wide(path), wide(mode)) {
            // SAFETY: `wide` ends both with a zero.
            (Some(path), Some(mode)) => unsafe { (self.open)(path.as_ptr(), mode.as_ptr()) },
            _ => {
                // SAFETY: the address of this thread's number.
                unsafe { *(self.errno)() = libc::EINVAL };
                null_mut()
            }
        }
    }

    /// Writes what has been printed to its standard output.
    pub fn flush_output(self) {
        if let Some(standard) = self.standard {
            // SAFETY: stream 1 is standard output, which exists while the process does.
            unsafe { (self.flush)(standard(1)) };
        }
    }

    /// Ends the process after its handler of SIGABRT.
    pub fn abort(self) -> ! {
        // SAFETY: the function takes no arguments.
        unsafe { (self.abort)() }
    }
}
