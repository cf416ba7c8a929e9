//! Any bytes as a GGUF file, through the C interface as a host uses it: metadata, tensor descriptions, and the data in
//! all three ways of allocation. If a file is accepted, all of it is read, written and read again.
#![no_main]

use ggml::abi::ggml::ggml_context;
use ggml::abi::gguf::{gguf_context, gguf_init_params, gguf_type};
use ggml::capi::ggml::*;
use ggml::capi::gguf::*;
use libfuzzer_sys::fuzz_target;
use libggml_rs_fuzz::quiet;
use std::ffi::{CStr, c_char};
use std::hint::black_box;

/// Reads every byte that the library returns.
unsafe fn look_at(g: *const gguf_context, c: *mut ggml_context) {
    let text = |p: *const c_char| {
        if !p.is_null() {
            // SAFETY: the library returns C strings.
            black_box(unsafe { CStr::from_ptr(p) }.to_bytes().iter().fold(0u8, |a, b| a ^ b));
        }
    };
    let bytes = |p: *const u8, n: usize| {
        if !p.is_null() {
            // SAFETY: the library has returned a pointer to `n` bytes.
            black_box(unsafe { std::slice::from_raw_parts(p, n) }.iter().fold(0u8, |a, b| a ^ b));
        }
    };
    // SAFETY: a context that the library has returned; indices below its counts.
    unsafe {
        black_box((gguf_get_version(g), gguf_get_alignment(g), gguf_get_data_offset(g)));
        for i in 0..gguf_get_n_kv(g) {
            text(gguf_get_key(g, i));
            let t = gguf_get_kv_type(g, i);
            assert_eq!(gguf_find_key(g, gguf_get_key(g, i)), i, "a key that is not found where it is");
            if t == gguf_type::GGUF_TYPE_STRING as i32 {
                text(gguf_get_val_str(g, i));
            } else if t != gguf_type::GGUF_TYPE_ARRAY as i32 {
                bytes(gguf_get_val_data(g, i).cast(), gguf_type_size(t));
            } else if gguf_get_arr_type(g, i) == gguf_type::GGUF_TYPE_STRING as i32 {
                (0..gguf_get_arr_n(g, i)).for_each(|k| text(gguf_get_arr_str(g, i, k)));
            } else {
                bytes(gguf_get_arr_data(g, i).cast(), gguf_get_arr_n(g, i) * gguf_type_size(gguf_get_arr_type(g, i)));
            }
        }
        for i in 0..gguf_get_n_tensors(g) {
            text(gguf_get_tensor_name(g, i));
            black_box((gguf_get_tensor_offset(g, i), gguf_get_tensor_size(g, i), gguf_get_tensor_type(g, i)));
        }
        if !c.is_null() {
            let mut t = ggml_get_first_tensor(c);
            while !t.is_null() {
                bytes((*t).data.cast(), ggml_nbytes(t));
                t = ggml_get_next_tensor(c, t);
            }
        }
    }
}

fn main_of(data: &[u8]) {
    quiet();
    let mut accepted = [false; 3];
    for (way, accepted) in accepted.iter_mut().enumerate() {
        let mut c: *mut ggml_context = std::ptr::null_mut();
        let ctx = if way == 2 { std::ptr::null_mut() } else { &raw mut c };
        // A block of exactly this size, so that the sanitizer finds a read past its end.
        let copy: Box<[u8]> = data.into();
        // SAFETY: `copy` holds the bytes until the end of the round; contexts are freed once.
        unsafe {
            let g =
                gguf_init_from_buffer(copy.as_ptr().cast(), copy.len(), gguf_init_params { no_alloc: way == 1, ctx });
            if g.is_null() {
                assert!(c.is_null(), "refused, but a context is left");
                continue;
            }
            *accepted = true;
            look_at(g, c);
            if way == 2 {
                let mut meta = vec![0u8; gguf_get_meta_size(g)];
                gguf_get_meta_data(g, meta.as_mut_ptr().cast());
                let again = gguf_init_params { no_alloc: true, ctx: std::ptr::null_mut() };
                let h = gguf_init_from_buffer(meta.as_ptr().cast(), meta.len(), again);
                assert!(!h.is_null(), "what was accepted is refused when it is written again");
                assert_eq!((gguf_get_n_kv(g), gguf_get_n_tensors(g)), (gguf_get_n_kv(h), gguf_get_n_tensors(h)));
                let mut twice = vec![0u8; gguf_get_meta_size(h)];
                gguf_get_meta_data(h, twice.as_mut_ptr().cast());
                assert_eq!(meta, twice, "written again, the metadata is not the same");
                gguf_free(h);
            }
            gguf_free(g);
            ggml_free(c);
        }
    }
    // A context may refuse a description that is valid in a file: shapes without elements whose other dimensions exceed
    // all memory.
    assert!(accepted[2] || !accepted[0] && !accepted[1], "what has tensors is refused without them");
}

fuzz_target!(|data: &[u8]| main_of(data));
