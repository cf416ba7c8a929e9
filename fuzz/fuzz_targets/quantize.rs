//! Blocks of any bytes in every format: they are converted to numbers and validated, and never fault. Any numbers are
//! quantized to valid blocks, or the call fails.
#![no_main]

use ggml::abi::ggml::ggml_type;
use ggml::capi::ggml::*;
use libfuzzer_sys::fuzz_target;
use std::hint::black_box;
use std::ptr::null;

/// Converts and validates the blocks.
fn read(dtype: ggml_type, data: &[u8]) {
    let (size, per_block) = (ggml_size(dtype), dtype.blck_size() as usize);
    let n = data.len() / size;
    // Exactly this size, so that the sanitizer finds a read past its end.
    let blocks: Box<[u8]> = data[..n * size].into();
    let mut numbers = vec![0f32; n * per_block].into_boxed_slice();
    // SAFETY: `n` blocks at one address, and room for as many numbers at the other.
    unsafe {
        if let Some(to_float) = (*ggml_get_type_traits(dtype as i32)).to_float {
            to_float(blocks.as_ptr().cast(), numbers.as_mut_ptr(), numbers.len() as i64);
        }
        black_box(ggml_validate_row_data(dtype as i32, blocks.as_ptr().cast(), blocks.len()));
    }
    black_box(numbers);
}

fn ggml_size(dtype: ggml_type) -> usize {
    // SAFETY: the function takes any number.
    unsafe { ggml_type_size(dtype as i32) }
}

/// Quantizes numbers of any bits, with and without importance.
fn write(dtype: ggml_type, data: &[u8], finite: bool, weighted: bool) {
    let per_row = dtype.blck_size();
    let mut numbers: Vec<f32> = data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    numbers.resize(numbers.len().next_multiple_of(per_row as usize).max(per_row as usize), 0.5);
    if finite {
        numbers.iter_mut().for_each(|x| *x = if x.is_finite() { x.clamp(-1e4, 1e4) } else { 1.0 });
    }
    let rows = numbers.len() as i64 / per_row;
    let importance: Vec<f32> = (0..per_row).map(|i| 1.0 + i as f32 / 16.0).collect();
    let weights = if weighted { importance.as_ptr() } else { null() };
    let mut blocks = vec![0u8; ggml_size(dtype) * rows as usize].into_boxed_slice();
    // SAFETY: `rows` rows of numbers, room for as many blocks, and an importance for each column or none.
    unsafe {
        let (from, to) = (numbers.as_ptr(), blocks.as_mut_ptr().cast());
        let written = ggml_quantize_chunk(dtype as i32, from, to, 0, rows, per_row, weights);
        assert!(written == 0 || written == blocks.len(), "{dtype:?}: {written} bytes of {}", blocks.len());
        if written != 0 && finite {
            assert!(
                ggml_validate_row_data(dtype as i32, blocks.as_ptr().cast(), blocks.len()),
                "{dtype:?} refuses its own blocks"
            );
        }
    }
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet_with_errors();
    let [which, what, rest @ ..] = data else { return };
    let all: Vec<ggml_type> = ggml_type::ALL.into_iter().filter(|&t| t.blck_size() > 0 && ggml_size(t) > 0).collect();
    let dtype = all[usize::from(*which) % all.len()];
    match what % 3 {
        0 => read(dtype, rest),
        n => write(dtype, &rest[..rest.len().min(2048)], n == 2, what / 3 % 2 == 1),
    }
});
