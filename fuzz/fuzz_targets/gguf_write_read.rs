//! A file built by arbitrary calls of the C interface, written, read and compared: every key, value, tensor and byte of
//! data must come back. If it is written again, the bytes must be the same.
#![no_main]

use ggml::abi::ggml::{ggml_context, ggml_init_params, ggml_tensor, ggml_type};
use ggml::abi::gguf::gguf_type::{self, *};
use ggml::abi::gguf::{gguf_context, gguf_init_params};
use ggml::capi::ggml::*;
use ggml::capi::gguf::*;
use libfuzzer_sys::arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::ffi::{CStr, CString};

#[derive(Debug)]
enum Call {
    Numbers(CString, gguf_type, Vec<u8>),
    Number(CString, gguf_type, [u8; 8]),
    Text(CString, CString),
    Texts(CString, Vec<CString>),
    Remove(CString),
    Alignment(u32),
    Tensor(CString, ggml_type, [i64; 4], u8),
    Retype(u8, ggml_type),
}

const NUMBERS: [gguf_type; 11] = [
    GGUF_TYPE_UINT8,
    GGUF_TYPE_INT8,
    GGUF_TYPE_UINT16,
    GGUF_TYPE_INT16,
    GGUF_TYPE_UINT32,
    GGUF_TYPE_INT32,
    GGUF_TYPE_FLOAT32,
    GGUF_TYPE_BOOL,
    GGUF_TYPE_UINT64,
    GGUF_TYPE_INT64,
    GGUF_TYPE_FLOAT64,
];

fn text(u: &mut Unstructured<'_>, max: usize) -> Result<CString> {
    let n = u.int_in_range(0..=max)?;
    let bytes = u.bytes(n.min(u.len()))?;
    Ok(CString::new(bytes.split(|b| *b == 0).next().unwrap_or_default()).unwrap_or_default())
}

fn key(u: &mut Unstructured<'_>) -> Result<CString> {
    let mut bytes = text(u, 12)?.into_bytes();
    if bytes.is_empty() || bytes == b"general.alignment" {
        bytes = b"k".to_vec();
    }
    Ok(CString::new(bytes).unwrap_or_default())
}

fn some_type(u: &mut Unstructured<'_>) -> Result<ggml_type> {
    let all: Vec<ggml_type> = ggml_type::ALL.into_iter().filter(|t| t.blck_size() > 0).collect();
    Ok(*u.choose(&all)?)
}

impl<'a> Arbitrary<'a> for Call {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u.int_in_range(0..=8)? {
            0 => Self::Numbers(key(u)?, *u.choose(&NUMBERS)?, u.arbitrary()?),
            1 => Self::Number(key(u)?, *u.choose(&NUMBERS)?, u.arbitrary()?),
            2 => Self::Text(key(u)?, text(u, 40)?),
            3 => {
                let n = u.int_in_range(0..=5)?;
                Self::Texts(key(u)?, (0..n).map(|_| text(u, 9)).collect::<Result<_>>()?)
            }
            4 => Self::Remove(key(u)?),
            5 => Self::Alignment(1 << u.int_in_range(0..=8)?),
            6 => Self::Retype(u.arbitrary()?, some_type(u)?),
            _ => {
                let (name, dtype) = (text(u, 80)?, some_type(u)?);
                let mut ne = [1i64; 4];
                for n in &mut ne {
                    *n = u.int_in_range(0..=4)?;
                }
                ne[0] *= dtype.blck_size();
                Self::Tensor(name, dtype, ne, u.arbitrary()?)
            }
        })
    }
}

/// All contents of a file, in order.
unsafe fn contents(g: *const gguf_context) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    // SAFETY: a context of the library, and indices below its counts.
    unsafe {
        let string = |p| CStr::from_ptr(p).to_bytes().to_vec();
        for i in 0..gguf_get_n_kv(g) {
            let t = gguf_get_kv_type(g, i);
            all.push([string(gguf_get_key(g, i)), t.to_le_bytes().to_vec()].concat());
            if t == GGUF_TYPE_STRING as i32 {
                all.push(string(gguf_get_val_str(g, i)));
            } else if t != GGUF_TYPE_ARRAY as i32 {
                let n = gguf_type_size(t);
                all.push(std::slice::from_raw_parts(gguf_get_val_data(g, i).cast::<u8>(), n).to_vec());
            } else if gguf_get_arr_type(g, i) == GGUF_TYPE_STRING as i32 {
                (0..gguf_get_arr_n(g, i)).for_each(|k| all.push(string(gguf_get_arr_str(g, i, k))));
            } else {
                let n = gguf_get_arr_n(g, i) * gguf_type_size(gguf_get_arr_type(g, i));
                all.push(gguf_get_arr_type(g, i).to_le_bytes().to_vec());
                if n > 0 {
                    all.push(std::slice::from_raw_parts(gguf_get_arr_data(g, i).cast::<u8>(), n).to_vec());
                }
            }
        }
        for i in 0..gguf_get_n_tensors(g) {
            let mut row = string(gguf_get_tensor_name(g, i));
            row.extend(gguf_get_tensor_type(g, i).to_le_bytes());
            row.extend(gguf_get_tensor_offset(g, i).to_le_bytes());
            row.extend(gguf_get_tensor_size(g, i).to_le_bytes());
            all.push(row);
        }
    }
    all
}

/// Writes to a file without a name. Returns the bytes.
unsafe fn written(g: *const gguf_context) -> Vec<u8> {
    // SAFETY: a context of the library; the stream is closed once.
    unsafe {
        let mut p: *mut libc::c_char = std::ptr::null_mut();
        let mut n = 0usize;
        let f = libc::open_memstream(&mut p, &mut n);
        assert!(!f.is_null() && gguf_write_to_file_ptr(g, f.cast(), false), "not written");
        libc::fclose(f);
        let bytes = std::slice::from_raw_parts(p.cast::<u8>(), n).to_vec();
        libc::free(p.cast());
        bytes
    }
}

fn main_of(calls: Vec<Call>) {
    libggml_rs_fuzz::quiet();
    // SAFETY: contexts and tensors of the library, each freed once; names are C strings.
    unsafe {
        let c = ggml_init(ggml_init_params { mem_size: 1 << 17, mem_buffer: std::ptr::null_mut(), no_alloc: false });
        let g = gguf_init_empty();
        let mut tensors: Vec<*mut ggml_tensor> = Vec::new();
        for call in calls.into_iter().take(60) {
            match call {
                Call::Numbers(k, t, mut data) => {
                    if t == GGUF_TYPE_BOOL {
                        data.iter_mut().for_each(|b| *b &= 1);
                    }
                    let n = data.len() / gguf_type_size(t as i32);
                    gguf_set_arr_data(g, k.as_ptr(), t as i32, data.as_ptr().cast(), n);
                }
                Call::Number(k, t, b) => {
                    let (k, v) = (k.as_ptr(), u64::from_le_bytes(b));
                    match t {
                        GGUF_TYPE_UINT8 => gguf_set_val_u8(g, k, v as u8),
                        GGUF_TYPE_INT8 => gguf_set_val_i8(g, k, v as i8),
                        GGUF_TYPE_UINT16 => gguf_set_val_u16(g, k, v as u16),
                        GGUF_TYPE_INT16 => gguf_set_val_i16(g, k, v as i16),
                        GGUF_TYPE_UINT32 => gguf_set_val_u32(g, k, v as u32),
                        GGUF_TYPE_INT32 => gguf_set_val_i32(g, k, v as i32),
                        GGUF_TYPE_FLOAT32 => gguf_set_val_f32(g, k, f32::from_bits(v as u32)),
                        GGUF_TYPE_UINT64 => gguf_set_val_u64(g, k, v),
                        GGUF_TYPE_INT64 => gguf_set_val_i64(g, k, v as i64),
                        GGUF_TYPE_FLOAT64 => gguf_set_val_f64(g, k, f64::from_bits(v)),
                        _ => gguf_set_val_bool(g, k, v & 1 == 1),
                    }
                }
                Call::Text(k, v) => gguf_set_val_str(g, k.as_ptr(), v.as_ptr()),
                Call::Texts(k, v) => {
                    let mut p: Vec<_> = v.iter().map(|s| s.as_ptr()).collect();
                    gguf_set_arr_str(g, k.as_ptr(), p.as_mut_ptr(), p.len());
                }
                Call::Remove(k) => {
                    gguf_remove_key(g, k.as_ptr());
                }
                // Tensors that were added have their places already.
                Call::Alignment(n) if tensors.is_empty() => gguf_set_val_u32(g, c"general.alignment".as_ptr(), n),
                Call::Alignment(_) => {}
                Call::Tensor(name, dtype, ne, fill) => {
                    // A context of this size is allocated and freed quickly, and most errors need no large tensor.
                    let rows = (ne[1] * ne[2] * ne[3]) as usize;
                    if ggml_used_mem(c) + ggml_row_size(dtype as i32, ne[0]) * rows > (1 << 17) - 1024 {
                        continue;
                    }
                    let t = ggml_new_tensor(c, dtype as i32, 4, ne.as_ptr());
                    ggml_set_name(t, name.as_ptr());
                    if gguf_find_tensor(g, ggml_get_name(t)) >= 0 {
                        continue;
                    }
                    (*t).data.cast::<u8>().write_bytes(fill, ggml_nbytes(t));
                    gguf_add_tensor(g, t);
                    tensors.push(t);
                }
                Call::Retype(i, dtype) => {
                    let Some(&t) = tensors.get(usize::from(i)) else { continue };
                    // To a type that fits the rows and needs no more memory.
                    let fits = (*t).ne[0] % dtype.blck_size() == 0
                        && ggml_row_size(dtype as i32, (*t).ne[0]) <= ggml_row_size((*t).r#type, (*t).ne[0]);
                    if fits {
                        gguf_set_tensor_type(g, ggml_get_name(t), dtype as i32);
                    }
                }
            }
        }
        let file = written(g);
        let mut d: *mut ggml_context = std::ptr::null_mut();
        let params = gguf_init_params { no_alloc: false, ctx: &raw mut d };
        let h = gguf_init_from_buffer(file.as_ptr().cast(), file.len(), params);
        assert!(!h.is_null(), "what was written is refused");
        assert_eq!(contents(g), contents(h));
        for &t in &tensors {
            let back = ggml_get_tensor(d, ggml_get_name(t));
            assert!(!back.is_null());
            assert_eq!((*t).ne, (*back).ne);
            let (a, b) = ((*t).data.cast::<u8>(), (*back).data.cast::<u8>());
            let n = ggml_nbytes(back);
            let bytes = |p: *mut u8| if n == 0 { &[][..] } else { std::slice::from_raw_parts(p.cast_const(), n) };
            assert!(bytes(a) == bytes(b), "other data");
        }
        // The data of the second is in its context; its descriptions have no address of it.
        for &t in &tensors {
            let back = ggml_get_tensor(d, ggml_get_name(t));
            gguf_set_tensor_data(h, ggml_get_name(t), (*back).data);
        }
        assert!(written(h) == file, "written again, the bytes are not the same");
        gguf_free(h);
        ggml_free(d);
        gguf_free(g);
        ggml_free(c);
    }
}

fuzz_target!(|calls: Vec<Call>| main_of(calls));
