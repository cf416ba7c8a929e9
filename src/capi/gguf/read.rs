//! Making and freeing file contents.

use crate::abi::ggml::ggml_context;
use crate::abi::gguf::*;
use crate::capi::convert::{Out, ctx_into_raw, list, logged, optional, outputs, take};
use crate::error::{Error, Result};
use crate::gguf::reader::Reader;
use crate::gguf::source::{Callback, Source, Stream};
use crate::gguf::{Gguf, load, model};
use crate::guard::guarded;
use crate::log_error;
use crate::sys::file;
use crate::sys::patient::Patient;
use crate::sys::stream::CStream;
use crate::sys::thread::Shield;
use libc::FILE;
use std::ffi::{c_char, c_void};

/// Parses the file and, unless `tensors` is NULL, creates the context with its tensors and stores the context's address
/// there. Stores NULL if the description is valid but the tensors cannot be created.
fn read(
    source: &mut dyn Source,
    start: u64,
    rest: u64,
    tensors: Out<'_, *mut ggml_context>,
    no_alloc: bool,
) -> Result<Gguf> {
    let mut reader = Reader::new(source, start, rest);
    let gguf = reader.meta()?;
    model::remember(&gguf);
    if tensors.is_wanted() {
        // SAFETY: the host gets the context; the header of `ggml_free` forbids to use its tensors after it.
        let ctx = unsafe { load::load(&gguf, &mut reader, no_alloc) };
        let (raw, result) = match ctx {
            Ok(ctx) => (ctx_into_raw(ctx), Ok(())),
            Err(e) => (std::ptr::null_mut::<ggml_context>(), Err(e)),
        };
        tensors.put(raw);
        result?;
    }
    Ok(gguf)
}

fn give(what: &str, gguf: Result<Gguf>) -> *mut gguf_context {
    logged(what, gguf).map_or(std::ptr::null_mut(), |g| Box::into_raw(Box::new(g)).cast())
}

/// Creates a context without keys and tensors. Free it with `gguf_free`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_empty() -> *mut gguf_context {
    give("gguf_init_empty", Ok(Gguf::default()))
}

/// Reads a GGUF file from the current position of an open, seekable stream. If `params.ctx` is not NULL, stores a new
/// context with the tensors there, with their data unless `params.no_alloc`; the caller frees it. If the file is
/// invalid, incomplete, or of an unknown version, logs an error and returns NULL. Free the result with `gguf_free`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_file_ptr(file: *mut FILE, params: gguf_init_params) -> *mut gguf_context {
    let _shield = Shield::new();
    let gguf_init_params { no_alloc, ctx: tensors } = params;
    outputs!(tensors);
    if file.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the header requires an open stream, and NULL was refused above.
    let mut stream = unsafe { CStream::new(file) };
    let Some((at, rest)) = stream.position_and_rest() else {
        log_error!("gguf_init_from_file_ptr: the stream is not seekable");
        return std::ptr::null_mut();
    };
    give("gguf_init_from_file_ptr", read(&mut Stream::new(stream, at), at, rest, tensors, no_alloc))
}

/// Reads the GGUF file with this UTF-8 path; see `gguf_init_from_file_ptr`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_file(fname: *const c_char, params: gguf_init_params) -> *mut gguf_context {
    let _shield = Shield::new();
    let gguf_init_params { no_alloc, ctx: tensors } = params;
    outputs!(tensors);
    optional!(fname);
    let Some(name) = fname else { return std::ptr::null_mut() };
    let Some(path) = file::path(name.to_bytes()) else {
        log_error!("gguf_init_from_file: the path is not UTF-8");
        return std::ptr::null_mut();
    };
    let what = || format!("'{}'", path.display());
    let opened = Patient::open(path).and_then(|f| Ok((f.len()?, f)));
    let result = match opened {
        Err(source) => Err(Error::Io { what: format!("failed to open GGUF file {}", what()), source }),
        Ok((len, f)) => {
            let mut source = Stream::new(std::io::BufReader::with_capacity(1 << 16, f), 0);
            read(&mut source, 0, len, tensors, no_alloc)
        }
    };
    give(&format!("gguf_init_from_file: {}", what()), result)
}

/// Reads a GGUF file from memory, which is not needed afterwards; see `gguf_init_from_file_ptr`.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_buffer(
    data: *const c_void,
    size: usize,
    params: gguf_init_params,
) -> *mut gguf_context {
    let gguf_init_params { no_alloc, ctx: tensors } = params;
    outputs!(tensors);
    if data.is_null() || size == 0 {
        log_error!("gguf_init_from_buffer: the buffer is NULL or empty");
        return std::ptr::null_mut();
    }
    let bytes = data.cast::<u8>();
    list!(size; bytes);
    give("gguf_init_from_buffer", read(&mut &*bytes, 0, size as u64, tensors, no_alloc))
}

/// Reads a GGUF file through a callback; see `gguf_init_from_file_ptr`. Each call requests at most `max_chunk_read`
/// bytes (0: no limit), and all calls together request at most `max_expected_size` bytes.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_callback(
    callback: gguf_reader_callback_t,
    userdata: *mut c_void,
    max_chunk_read: usize,
    max_expected_size: u64,
    params: gguf_init_params,
) -> *mut gguf_context {
    let gguf_init_params { no_alloc, ctx: tensors } = params;
    outputs!(tensors);
    // SAFETY: the header requires a function that writes at most the requested bytes, and may be called with `userdata`
    // during this call.
    let Some(mut source) = (unsafe { Callback::new(callback, userdata, max_chunk_read) }) else {
        return std::ptr::null_mut();
    };
    give("gguf_init_from_callback", read(&mut source, 0, max_expected_size, tensors, no_alloc))
}

/// Frees the contents of a file, but not the context with its tensors. Does nothing for NULL.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_free(ctx: *mut gguf_context) {
    take!(ctx);
    drop(ctx);
}
