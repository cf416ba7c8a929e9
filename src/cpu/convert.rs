//! Rows of any number format to and from single precision, as kernels use it.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type::{self, *};

/// Half precision to single.
#[inline]
pub fn f16(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32()
}

/// Single precision to half, rounded to nearest even.
#[inline]
pub fn to_f16(x: f32) -> u16 {
    half::f16::from_f32(x).to_bits()
}

/// Brain float to single.
#[inline]
pub fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Single precision to brain float, rounded to nearest even; a NaN becomes a quiet one.
#[inline]
pub fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 64;
    }
    ((bits.wrapping_add(0x7fff + (bits >> 16 & 1))) >> 16) as u16
}

/// Whether rows of the format can be read as single precision.
pub fn readable(dtype: ggml_type) -> bool {
    matches!(dtype, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16 | GGML_TYPE_I32)
}

/// Whether rows of the format can be written from single precision without more knowledge than the row itself.
pub fn writable(dtype: ggml_type) -> bool {
    matches!(dtype, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16 | GGML_TYPE_I32)
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// A row of `out.len()` elements to single precision. The format must be [`readable`].
pub fn to_f32(dtype: ggml_type, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        GGML_TYPE_F32 => out.iter_mut().zip(chunks(bytes)).for_each(|(y, b)| *y = f32::from_ne_bytes(b)),
        GGML_TYPE_F16 => out.iter_mut().zip(chunks(bytes)).for_each(|(y, b)| *y = f16(u16::from_ne_bytes(b))),
        GGML_TYPE_BF16 => out.iter_mut().zip(chunks(bytes)).for_each(|(y, b)| *y = bf16(u16::from_ne_bytes(b))),
        GGML_TYPE_I32 => out.iter_mut().zip(chunks(bytes)).for_each(|(y, b)| *y = i32::from_ne_bytes(b) as f32),
        _ => unreachable!("the op table lets no {dtype:?} through here"),
    }
}

/// A row of single precision to the format, which must be [`writable`].
pub fn from_f32(dtype: ggml_type, x: &[f32], bytes: &mut [u8]) {
    fn put<const N: usize>(x: &[f32], bytes: &mut [u8], f: impl Fn(f32) -> [u8; N]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().zip(x).for_each(|(b, &x)| *b = f(x));
    }
    match dtype {
        GGML_TYPE_F32 => put(x, bytes, f32::to_ne_bytes),
        GGML_TYPE_F16 => put(x, bytes, |x| to_f16(x).to_ne_bytes()),
        GGML_TYPE_BF16 => put(x, bytes, |x| to_bf16(x).to_ne_bytes()),
        GGML_TYPE_I32 => put(x, bytes, |x| (x as i32).to_ne_bytes()),
        _ => unreachable!("the op table lets no {dtype:?} through here"),
    }
}
