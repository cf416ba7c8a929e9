//! The tensors of a file in a context, with or without their data.

use super::file::Gguf;
use super::reader::Reader;
use crate::abi::ggml::ggml_type::GGML_TYPE_I8;
use crate::error::{Error, Result};
use crate::tensor::Context;
use crate::tensor::context::{OBJECT_SIZE, TENSOR_SIZE};

/// Bytes of tensor data that are read at once.
const PIECE: usize = 64 << 20;

/// The original's name of the tensor that has the whole data section.
const BLOB: &str = "GGUF tensor data binary blob";

/// A new context with the tensors of `file`. With `no_alloc` they have no data; otherwise the whole data section is
/// read from `reader`, which is at its start, into one tensor named "GGUF tensor data binary blob", and they point into
/// it. A number is added to this name where the file has a tensor of that name: it is the file's that a lookup finds.
///
/// # Safety
/// The tensors are used only while the context lives.
pub unsafe fn load(file: &Gguf, reader: &mut Reader<'_>, no_alloc: bool) -> Result<Context> {
    let n = file.tensors.len() + usize::from(!no_alloc);
    let data = if no_alloc { 0 } else { file.data_size };
    if data as u64 > reader.rest() {
        let (rest, name) = (reader.rest(), "tensor data");
        return Err(Error::Corrupt(format!("the file has {rest} bytes of {name}, {data} are described")));
    }
    let size = n
        .checked_mul(OBJECT_SIZE + TENSOR_SIZE)
        .and_then(|head| head.checked_add(data)?.checked_next_multiple_of(16))
        .ok_or_else(|| Error::OutOfMemory { what: "the tensors of a GGUF file".into(), bytes: data })?;
    // SAFETY: the tensors leave this function with the context alone; from there on the caller's promise.
    let mut ctx = unsafe { Context::owned(size, no_alloc) }?;
    let mut blob = None;
    if !no_alloc {
        let t = ctx.new_tensor(GGML_TYPE_I8, &[data as i64])?;
        t.set_name(&blob_name(file));
        // In pieces: the memory of what does not come is never touched.
        for start in (0..data).step_by(PIECE) {
            let n = PIECE.min(data - start);
            // SAFETY: the new tensor has `data` bytes in the new context, which no other code uses; zeroed, they are
            // initialised.
            let bytes = unsafe {
                let at = t.data().add(start);
                at.write_bytes(0, n);
                std::slice::from_raw_parts_mut(at, n)
            };
            reader.fill(bytes, "the tensor data")?;
        }
        blob = Some(t.data());
    }
    ctx.set_no_alloc(true);
    for info in &file.tensors {
        let described = info.tensor();
        let t = ctx.new_tensor(described.dtype(), &described.ne())?;
        t.set_name(&described.name_bytes());
        if let Some(blob) = blob {
            // Offset and size were checked against the data section when the description was read.
            t.set_data(blob.wrapping_add(info.offset as usize));
        }
    }
    ctx.set_no_alloc(no_alloc);
    Ok(ctx)
}

/// The name of the tensor that has the whole data section, which no tensor of the file has.
fn blob_name(file: &Gguf) -> Vec<u8> {
    let numbered = (2u64..).map(|n| format!("{BLOB} {n}"));
    let mut names = std::iter::once(BLOB.to_owned()).chain(numbered).map(String::into_bytes);
    names.find(|name| file.find_tensor(name).is_none()).unwrap_or_default()
}

/// As [`load`], for tests, which hold the context until they end.
#[cfg(test)]
pub fn load_for_test(file: &Gguf, reader: &mut Reader<'_>, no_alloc: bool) -> Result<Context> {
    // SAFETY: the tests' promise, above.
    unsafe { load(file, reader, no_alloc) }
}
