//! Checks of data from files. A scale that is infinite or NaN would silently turn the results of a model into NaN.
#![forbid(unsafe_code)]

use super::block::{Check, read};
use super::finite::{float, half};
use super::*;
use crate::abi::ggml::ggml_type;
use crate::abi::ggml::ggml_type::*;
use crate::error::{Error, Result};

fn corrupt(what: std::fmt::Arguments<'_>) -> Error {
    Error::Corrupt(what.to_string())
}

/// Checks every block.
fn each<B: Check>(bytes: &[u8]) -> Result<()> {
    for (i, bytes) in bytes.chunks_exact(size_of::<B>()).enumerate() {
        if let Some(what) = read::<B>(bytes).flaw() {
            return Err(corrupt(format_args!("found {what} value at block {i} of {}", traits(B::TYPE).name())));
        }
    }
    Ok(())
}

macro_rules! blocks {
    ($($module:ident::$block:ident: $ty:ident, align $align:literal, $kind:ident, dot $act:path, [$($name:ident)*];)*) => {
        /// Checks every block of a format of weights. Other block formats are for intermediate results and not for
        /// files, so they are an error, as in the original.
        fn weights(ty: ggml_type, bytes: &[u8]) -> Result<()> {
            match ty {
                $($ty => each::<$module::$block>(bytes),)*
                _ => Err(corrupt(format_args!("{} is not a type for stored data", traits(ty).name()))),
            }
        }
    };
}
each_weight!(blocks);

/// Checks every number of `N` bytes. Skips sequences of finite numbers quickly with `finite`, a test without branches.
fn numbers<const N: usize>(
    ty: ggml_type,
    bytes: &[u8],
    finite: impl Fn([u8; N]) -> bool,
    check: impl Fn([u8; N]) -> Option<&'static str>,
) -> Result<()> {
    let number = |bytes: &[u8]| -> [u8; N] { std::array::from_fn(|i| bytes[i]) };
    for (run, bytes) in bytes.chunks(64 * N).enumerate() {
        if bytes.chunks_exact(N).fold(true, |all, b| all & finite(number(b))) {
            continue;
        }
        for (i, b) in bytes.chunks_exact(N).enumerate() {
            if let Some(what) = check(number(b)) {
                return Err(corrupt(format_args!(
                    "found {what} value at element {} of {}",
                    64 * run + i,
                    traits(ty).name()
                )));
            }
        }
    }
    Ok(())
}

/// Checks that `bytes` are whole blocks of the type, and that no number or scale in them is infinite or NaN.
///
/// # Errors
/// Says what was found and where.
pub fn validate_row(ty: ggml_type, bytes: &[u8]) -> Result<()> {
    let t = traits(ty);
    if t.type_size == 0 {
        return Err(corrupt(format_args!("type {} does not exist", ty as i32)));
    }
    if !bytes.len().is_multiple_of(t.type_size) {
        return Err(corrupt(format_args!(
            "{} bytes are no whole blocks of {} ({} bytes each)",
            bytes.len(),
            t.name(),
            t.type_size
        )));
    }
    match ty {
        GGML_TYPE_F32 => {
            let finite = |b| u32::from_ne_bytes(b) & 0x7f80_0000 != 0x7f80_0000;
            numbers(ty, bytes, finite, |b| float(f64::from(f32::from_ne_bytes(b))))
        }
        GGML_TYPE_F64 => numbers(ty, bytes, |b| f64::from_ne_bytes(b).is_finite(), |b| float(f64::from_ne_bytes(b))),
        GGML_TYPE_F16 => {
            let finite = |b| u16::from_ne_bytes(b) & 0x7c00 != 0x7c00;
            numbers(ty, bytes, finite, |b| half(u16::from_ne_bytes(b)))
        }
        GGML_TYPE_BF16 => {
            let finite = |b| u16::from_ne_bytes(b) & 0x7f80 != 0x7f80;
            numbers(ty, bytes, finite, |b| float(f64::from(convert::bf16_to_f32(u16::from_ne_bytes(b)))))
        }
        GGML_TYPE_F8_E4M3 => {
            numbers(ty, bytes, |[b]: [u8; 1]| b & 0x7f != 0x7f, |[b]| (b & 0x7f == 0x7f).then_some("nan"))
        }
        GGML_TYPE_I8 | GGML_TYPE_I16 | GGML_TYPE_I32 | GGML_TYPE_I64 => Ok(()),
        GGML_TYPE_Q8_K => each::<q8_k::BlockQ8K>(bytes),
        _ => weights(ty, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_sound_and_all_ones_are_not() {
        for ty in ggml_type::ALL {
            let size = traits(ty).type_size;
            let stored = ty != GGML_TYPE_Q8_1;
            assert_eq!(validate_row(ty, &vec![0; size * 3]).is_ok(), stored, "{ty:?}");
            assert!(size == 1 || validate_row(ty, &vec![0; size + 1]).is_err(), "{ty:?}");
            let any = matches!(ty, GGML_TYPE_I8 | GGML_TYPE_I16 | GGML_TYPE_I32 | GGML_TYPE_I64 | GGML_TYPE_NVFP4);
            assert_eq!(validate_row(ty, &vec![0xff; size]).is_ok(), any, "{ty:?}");
        }
    }

    #[test]
    fn the_error_says_where() {
        let mut bytes = vec![0; 3 * 18];
        bytes[2 * 18 + 1] = 0x7c;
        let text = validate_row(GGML_TYPE_Q4_0, &bytes).unwrap_err().to_string();
        assert_eq!(text, "found inf value at block 2 of q4_0");
        let mut bytes = vec![0; 4 * 1000];
        bytes[4 * 777..][..4].copy_from_slice(&f32::NAN.to_ne_bytes());
        let text = validate_row(GGML_TYPE_F32, &bytes).unwrap_err().to_string();
        assert_eq!(text, "found nan value at element 777 of f32");
    }
}
