//! Checks on data that others made: scales that are no numbers would turn a whole model into NaN without a trace.
#![forbid(unsafe_code)]

use super::block::{Block, read};
use super::*;
use crate::abi::ggml::ggml_type;
use crate::abi::ggml::ggml_type::*;
use crate::error::{Error, Result};

/// What is wrong with a number.
fn half(bits: u16) -> Option<&'static str> {
    match (bits & 0x7c00, bits & 0x03ff) {
        (0x7c00, 0) => Some("inf"),
        (0x7c00, _) => Some("nan"),
        _ => None,
    }
}

fn float(x: f64) -> Option<&'static str> {
    if x.is_infinite() {
        Some("inf")
    } else if x.is_nan() {
        Some("nan")
    } else {
        None
    }
}

fn corrupt(what: std::fmt::Arguments<'_>) -> Error {
    Error::Corrupt(what.to_string())
}

/// Looks at every block; `check` says what is wrong with one.
fn each<B: Block>(bytes: &[u8], check: impl Fn(&B) -> Option<&'static str>) -> Result<()> {
    for (i, bytes) in bytes.chunks_exact(size_of::<B>()).enumerate() {
        if let Some(what) = check(&read::<B>(bytes)) {
            return Err(corrupt(format_args!("found {what} value at block {i} of {}", traits(B::TYPE).name())));
        }
    }
    Ok(())
}

/// Looks at every number of `N` bytes. Runs of numbers that are all finite are passed over quickly: `finite` is a test
/// without branches.
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

/// Checks that `bytes` are whole blocks of the type, and that no number or scale in them is infinite or NaN. The error
/// says what was found and where.
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
        GGML_TYPE_Q1_0 => each::<q1_0::BlockQ1_0>(bytes, |b| half(b.d)),
        GGML_TYPE_Q2_0 => each::<q2_0::BlockQ2_0>(bytes, |b| half(b.d)),
        GGML_TYPE_Q4_0 => each::<q4_0::BlockQ4_0>(bytes, |b| half(b.d)),
        GGML_TYPE_Q4_1 => each::<q4_1::BlockQ4_1>(bytes, |b| half(b.d).or(half(b.m))),
        GGML_TYPE_Q5_0 => each::<q5_0::BlockQ5_0>(bytes, |b| half(b.d)),
        GGML_TYPE_Q5_1 => each::<q5_1::BlockQ5_1>(bytes, |b| half(b.d).or(half(b.m))),
        GGML_TYPE_Q8_0 => each::<q8_0::BlockQ8_0>(bytes, |b| half(b.d)),
        // A format of intermediate results: never in files, and the original refuses it too.
        GGML_TYPE_Q8_1 | GGML_TYPE_COUNT => Err(corrupt(format_args!("{} is not a type for stored data", t.name()))),
        GGML_TYPE_MXFP4 => each::<mxfp4::BlockMxfp4>(bytes, |b| (b.e == 0xff).then_some("nan exponent")),
        // Every byte is a scale.
        GGML_TYPE_NVFP4 => Ok(()),
        GGML_TYPE_TQ1_0 => each::<tq1_0::BlockTq1_0>(bytes, |b| half(b.d)),
        GGML_TYPE_TQ2_0 => each::<tq2_0::BlockTq2_0>(bytes, |b| half(b.d)),
        GGML_TYPE_Q2_K => each::<q2_k::BlockQ2K>(bytes, |b| half(b.d).or(half(b.dmin))),
        GGML_TYPE_Q3_K => each::<q3_k::BlockQ3K>(bytes, |b| half(b.d)),
        GGML_TYPE_Q4_K => each::<q4_k::BlockQ4K>(bytes, |b| half(b.d).or(half(b.dmin))),
        GGML_TYPE_Q5_K => each::<q5_k::BlockQ5K>(bytes, |b| half(b.d).or(half(b.dmin))),
        GGML_TYPE_Q6_K => each::<q6_k::BlockQ6K>(bytes, |b| half(b.d)),
        GGML_TYPE_Q8_K => each::<q8_k::BlockQ8K>(bytes, |b| float(f64::from(b.d))),
        GGML_TYPE_IQ1_S => each::<iq1_s::BlockIq1S>(bytes, |b| half(b.d)),
        GGML_TYPE_IQ1_M => each::<iq1_m::BlockIq1M>(bytes, |b| half(b.d())),
        GGML_TYPE_IQ2_XXS => each::<iq2_xxs::BlockIq2Xxs>(bytes, |b| half(b.d)),
        GGML_TYPE_IQ2_XS => each::<iq2_xs::BlockIq2Xs>(bytes, |b| half(b.d)),
        GGML_TYPE_IQ2_S => each::<iq2_s::BlockIq2S>(bytes, |b| half(b.d)),
        GGML_TYPE_IQ3_XXS => each::<iq3_xxs::BlockIq3Xxs>(bytes, |b| half(b.d)),
        GGML_TYPE_IQ3_S => each::<iq3_s::BlockIq3S>(bytes, |b| half(b.d)),
        GGML_TYPE_IQ4_NL => each::<iq4_nl::BlockIq4Nl>(bytes, |b| half(b.d)),
        GGML_TYPE_IQ4_XS => each::<iq4_xs::BlockIq4Xs>(bytes, |b| half(b.d)),
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
