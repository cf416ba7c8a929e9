//! Conversion of rows between any number format and single precision, for kernels.

use super::simd::kernels;
use crate::abi::ggml::ggml_type::{self, *};
use crate::quant;

/// Whether rows of the format can be converted to single precision.
pub fn readable(dtype: ggml_type) -> bool {
    matches!(dtype, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16 | GGML_TYPE_I32)
        || quant::traits(dtype).to_float.is_some()
}

/// Whether encoding the format needs an importance for each column, or tables that only quantizing programs build.
pub const fn needs_importance(dtype: ggml_type) -> bool {
    matches!(
        dtype,
        GGML_TYPE_IQ3_XXS
            | GGML_TYPE_IQ3_S
            | GGML_TYPE_IQ2_XXS
            | GGML_TYPE_IQ2_XS
            | GGML_TYPE_IQ2_S
            | GGML_TYPE_IQ1_S
            | GGML_TYPE_IQ1_M
    )
}

/// Whether a row in single precision can be converted to the format without further data.
pub fn writable(dtype: ggml_type) -> bool {
    match dtype {
        GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16 | GGML_TYPE_I32 => true,
        _ if needs_importance(dtype) => false,
        _ => kernels().from_float[dtype as usize].is_some() || quant::traits(dtype).from_float_ref.is_some(),
    }
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// Converts a row of `out.len()` elements to single precision. The format must be [`readable`].
pub fn to_f32(dtype: ggml_type, bytes: &[u8], out: &mut [f32]) {
    let n = out.len();
    let halves = || {
        assert!(bytes.len() >= n * 2);
        bytes.as_ptr().cast::<u16>()
    };
    match dtype {
        GGML_TYPE_F32 => out.iter_mut().zip(chunks(bytes)).for_each(|(y, b)| *y = f32::from_ne_bytes(b)),
        // SAFETY: the contract of `f16_to_f32`: `halves` has checked that there are `n`, and `out` is a `&mut` to `n`
        // floats, so it does not overlap them.
        GGML_TYPE_F16 => unsafe { (kernels().f16_to_f32)(n, out.as_mut_ptr(), halves()) },
        // SAFETY: the contract of `bf16_to_f32`: `halves` has checked that there are `n`, and `out` is a `&mut` to `n`
        // floats, so it does not overlap them.
        GGML_TYPE_BF16 => unsafe { (kernels().bf16_to_f32)(n, out.as_mut_ptr(), halves()) },
        GGML_TYPE_F8_E4M3 => {
            assert!(bytes.len() >= n);
            // SAFETY: the contract of `f8_to_f32`: there are `n` bytes by the assertion, and `out` is a `&mut` to `n`
            // floats, so it does not overlap them.
            unsafe { (kernels().f8_to_f32)(n, out.as_mut_ptr(), bytes.as_ptr()) }
        }
        GGML_TYPE_I32 => out.iter_mut().zip(chunks(bytes)).for_each(|(y, b)| *y = i32::from_ne_bytes(b) as f32),
        _ => match (kernels().to_float[dtype as usize], quant::traits(dtype).to_float) {
            // SAFETY: the contract of `ToFloat`: the function is from the table of this processor.
            (Some(f), _) => unsafe { f(bytes, out) },
            (None, Some(f)) => f(bytes, out),
            _ => unreachable!("the op table lets no {dtype:?} through here"),
        },
    }
}

/// The integer part. The smallest integer for NaN and what 32 bits do not represent, as x86-64 converts, and so the
/// original.
#[inline]
fn integer(x: f32) -> i32 {
    const END: f32 = 2_147_483_648.0;
    if (-END..END).contains(&x) { x as i32 } else { i32::MIN }
}

/// Converts a row in single precision to the format, which must be [`writable`].
pub fn from_f32(dtype: ggml_type, x: &[f32], bytes: &mut [u8]) {
    fn put<const N: usize>(x: &[f32], bytes: &mut [u8], f: impl Fn(f32) -> [u8; N]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().zip(x).for_each(|(b, &x)| *b = f(x));
    }
    let (k, n) = (kernels(), x.len());
    match dtype {
        GGML_TYPE_F32 => put(x, bytes, f32::to_ne_bytes),
        GGML_TYPE_I32 => put(x, bytes, |x| integer(x).to_ne_bytes()),
        GGML_TYPE_F16 | GGML_TYPE_BF16 => {
            assert!(bytes.len() >= n * 2);
            let f = if dtype == GGML_TYPE_F16 { k.f32_to_f16 } else { k.f32_to_bf16 };
            // SAFETY: the contract of `f32_to_f16` and `f32_to_bf16`: `x` has `n` floats. `bytes` has room for `n`
            // halves by the assertion, and is a `&mut`, so it does not overlap them.
            unsafe { f(n, bytes.as_mut_ptr().cast(), x.as_ptr()) }
        }
        _ => match (k.from_float[dtype as usize], quant::traits(dtype).from_float_ref) {
            (Some(f), _) => {
                let whole = dtype.row_size(n as i64).is_some_and(|size| size <= bytes.len());
                assert!(whole, "{n} values of {dtype:?} in {} bytes", bytes.len());
                // SAFETY: the contract of `FromFloat`: `x` has `n` floats, and by the assertion they are whole blocks
                // that fit into `bytes`.
                unsafe { f(x.as_ptr(), bytes.as_mut_ptr(), n) }
            }
            (None, Some(f)) => f(x, bytes),
            _ => unreachable!("the op table lets no {dtype:?} through here"),
        },
    }
}
