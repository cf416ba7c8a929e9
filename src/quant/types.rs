//! The table of all tensor types: name, block and byte sizes, and the functions that read and write a row.

use super::*;
use crate::abi::ggml::ggml_type;
use std::ffi::CStr;

/// Decodes a row: as many whole blocks as both slices have room for.
pub type ToFloat = fn(&[u8], &mut [f32]);
/// Encodes a row: as many whole blocks as both slices have room for.
pub type FromFloat = fn(&[f32], &mut [u8]);

/// Properties of a type.
#[derive(Clone, Copy, Debug)]
pub struct TypeTraits {
    /// Name, as in files and logs.
    pub c_name: &'static CStr,
    /// Values in a block; 0 for the number of a removed type.
    pub blck_size: i64,
    /// Values in an interleaved block; 0 for all types of this version.
    pub blck_size_interleave: i64,
    /// Bytes in a block.
    pub type_size: usize,
    /// Whether the type is a quantized format.
    pub is_quantized: bool,
    /// Decodes a row to floats. `None` for F32, integers, and the formats of intermediate results.
    pub to_float: Option<ToFloat>,
    /// Encodes a row of floats, without importance. `None` as for `to_float`, and if the format needs importance.
    pub from_float_ref: Option<FromFloat>,
}

impl TypeTraits {
    /// The name as text.
    pub fn name(&self) -> &'static str {
        self.c_name.to_str().unwrap_or_default()
    }

    /// An entry with name and sizes, without functions.
    const fn plain(ty: ggml_type) -> Self {
        Self {
            c_name: ty.c_name(),
            blck_size: ty.blck_size(),
            blck_size_interleave: 0,
            type_size: ty.type_size(),
            is_quantized: ty.blck_size() > 1,
            to_float: None,
            from_float_ref: None,
        }
    }

    /// The entry of a removed type.
    const fn gone(c_name: &'static CStr) -> Self {
        Self { c_name, ..Self::plain(ggml_type::GGML_TYPE_COUNT) }
    }

    const fn decoded<B: Decode>() -> Self {
        Self { to_float: Some(block::decode_row::<B>), ..Self::plain(B::TYPE) }
    }

    const fn coded<B: Decode + Encode>() -> Self {
        Self { from_float_ref: Some(block::encode_row::<B>), ..Self::decoded::<B>() }
    }

    const fn searched<B: Decode + lattice::EncodeSearch>() -> Self {
        Self { from_float_ref: Some(lattice::encode_row_or_abort::<B>), ..Self::decoded::<B>() }
    }
}

/// Decodes 16-bit words in chunks, because a row may be unaligned.
fn words_to_float(x: &[u8], y: &mut [f32], convert: fn(&[u16], &mut [f32])) {
    let mut words = [0; 64];
    for (x, y) in x.chunks(128).zip(y.chunks_mut(64)) {
        let n = (x.len() / 2).min(y.len());
        for (w, b) in words.iter_mut().zip(x.chunks_exact(2)) {
            *w = u16::from_le_bytes([b[0], b[1]]);
        }
        convert(&words[..n], y);
    }
}

fn float_to_words(x: &[f32], y: &mut [u8], convert: fn(&[f32], &mut [u16])) {
    let mut words = [0; 64];
    for (x, y) in x.chunks(64).zip(y.chunks_mut(128)) {
        convert(x, &mut words);
        for (w, b) in words.iter().zip(y.chunks_exact_mut(2)).take(x.len()) {
            b.copy_from_slice(&w.to_le_bytes());
        }
    }
}

const F16: TypeTraits = TypeTraits {
    to_float: Some(|x, y| words_to_float(x, y, convert::f16_to_f32_row)),
    from_float_ref: Some(|x, y| float_to_words(x, y, convert::f32_to_f16_row)),
    ..TypeTraits::plain(ggml_type::GGML_TYPE_F16)
};

const BF16: TypeTraits = TypeTraits {
    to_float: Some(|x, y| words_to_float(x, y, convert::bf16_to_f32_row)),
    from_float_ref: Some(|x, y| float_to_words(x, y, convert::f32_to_bf16_row)),
    ..TypeTraits::plain(ggml_type::GGML_TYPE_BF16)
};

const F8_E4M3: TypeTraits = TypeTraits {
    to_float: Some(|x, y| x.iter().zip(y).for_each(|(x, y)| *y = convert::f8_e4m3_to_f32(*x))),
    from_float_ref: Some(|x, y| x.iter().zip(y).for_each(|(x, y)| *y = convert::f32_to_f8_e4m3(*x))),
    ..TypeTraits::plain(ggml_type::GGML_TYPE_F8_E4M3)
};

/// Fills the entries of the formats of weights.
macro_rules! entries {
    (($table:ident) $($module:ident::$block:ident: $ty:ident, align $align:literal, $kind:ident, dot $act:path, [$($name:ident)*];)*) => {
        $($table[$ty as usize] = TypeTraits::$kind::<$module::$block>();)*
    };
}

/// Number of type numbers, including those of removed types.
pub const COUNT: usize = ggml_type::GGML_TYPE_COUNT as usize;

/// All types by number, and an empty entry for `GGML_TYPE_COUNT`.
pub static TABLE: [TypeTraits; COUNT + 1] = {
    use ggml_type::*;
    let mut t = [TypeTraits::plain(GGML_TYPE_COUNT); COUNT + 1];
    each_weight!(entries, (t));
    t[GGML_TYPE_F32 as usize] = TypeTraits::plain(GGML_TYPE_F32);
    t[GGML_TYPE_F16 as usize] = F16;
    t[4] = TypeTraits::gone(c"DEPRECATED");
    t[5] = TypeTraits::gone(c"DEPRECATED");
    t[GGML_TYPE_Q8_1 as usize] =
        TypeTraits { from_float_ref: Some(block::encode_row::<q8_1::BlockQ8_1>), ..TypeTraits::plain(GGML_TYPE_Q8_1) };
    t[GGML_TYPE_Q8_K as usize] = TypeTraits::plain(GGML_TYPE_Q8_K);
    t[GGML_TYPE_I8 as usize] = TypeTraits::plain(GGML_TYPE_I8);
    t[GGML_TYPE_I16 as usize] = TypeTraits::plain(GGML_TYPE_I16);
    t[GGML_TYPE_I32 as usize] = TypeTraits::plain(GGML_TYPE_I32);
    t[GGML_TYPE_I64 as usize] = TypeTraits::plain(GGML_TYPE_I64);
    t[GGML_TYPE_F64 as usize] = TypeTraits::plain(GGML_TYPE_F64);
    t[GGML_TYPE_BF16 as usize] = BF16;
    t[31] = TypeTraits::gone(c"TYPE_Q4_0_4_4 REMOVED, use Q4_0 with runtime repacking");
    t[32] = TypeTraits::gone(c"TYPE_Q4_0_4_8 REMOVED, use Q4_0 with runtime repacking");
    t[33] = TypeTraits::gone(c"TYPE_Q4_0_8_8 REMOVED, use Q4_0 with runtime repacking");
    t[36] = TypeTraits::gone(c"TYPE_IQ4_NL_4_4 REMOVED, use IQ4_NL with runtime repacking");
    t[37] = TypeTraits::gone(c"TYPE_IQ4_NL_4_8 REMOVED, use IQ4_NL with runtime repacking");
    t[38] = TypeTraits::gone(c"TYPE_IQ4_NL_8_8 REMOVED, use IQ4_NL with runtime repacking");
    t[GGML_TYPE_F8_E4M3 as usize] = F8_E4M3;
    t
};

/// Properties of a type.
#[inline]
pub fn traits(ty: ggml_type) -> &'static TypeTraits {
    &TABLE[ty as usize]
}

/// Properties of the type with this number, or `None` if there is none. Removed types have an entry with block size 0.
#[inline]
pub fn traits_by_number(number: i32) -> Option<&'static TypeTraits> {
    TABLE[..COUNT].get(usize::try_from(number).ok()?)
}

/// Bytes in a row of `ne` values, which should be whole blocks: a remainder is ignored. The result is 0 for a negative
/// count, and `usize::MAX` for an overflow.
#[inline]
pub fn row_size(ty: ggml_type, ne: i64) -> usize {
    let t = traits(ty);
    let blocks = usize::try_from(ne / t.blck_size.max(1)).unwrap_or(0);
    blocks.saturating_mul(t.type_size)
}

/// Bytes in a row of `ne` values, or `None` if `ne` is negative, the values are not whole blocks, or the size
/// overflows.
#[inline]
pub fn row_size_checked(ty: ggml_type, ne: i64) -> Option<usize> {
    let t = traits(ty);
    if ne < 0 || t.blck_size == 0 || ne % t.blck_size != 0 {
        return None;
    }
    usize::try_from(ne / t.blck_size).ok()?.checked_mul(t.type_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_name_and_a_size() {
        for ty in ggml_type::ALL {
            let t = traits(ty);
            assert!(!t.name().is_empty() && t.blck_size > 0 && t.type_size > 0, "{ty:?}");
            assert_eq!(row_size(ty, t.blck_size * 3), t.type_size * 3);
            assert_eq!(row_size_checked(ty, t.blck_size * 3), Some(t.type_size * 3));
            assert_eq!(row_size_checked(ty, -t.blck_size), None);
            assert_eq!(row_size_checked(ty, t.blck_size + 1).is_none(), t.blck_size > 1);
        }
        assert_eq!(row_size_checked(ggml_type::GGML_TYPE_I64, i64::MAX), None);
        assert!(TABLE[..COUNT].iter().all(|t| !t.name().is_empty()), "no hole in the table");
        assert!(traits_by_number(-1).is_none() && traits_by_number(COUNT as i32).is_none());
        assert_eq!(traits_by_number(31).unwrap().blck_size, 0);
    }

    #[test]
    fn rows_of_every_type_survive_the_way_there_and_back() {
        let x: Vec<f32> = (0..512).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
        for ty in ggml_type::ALL {
            let t = traits(ty);
            let (Some(to), Some(from)) = (t.to_float, t.from_float_ref) else { continue };
            let mut bytes = vec![0; row_size(ty, 512)];
            let mut y = vec![f32::NAN; 512];
            from(&x, &mut bytes);
            to(&bytes, &mut y);
            let error = x.iter().zip(&y).map(|(a, b)| (a - b).powi(2)).sum::<f32>() / 512.0;
            // The mean square of the data is a third. Formats of two bits per value or less do not represent uniform
            // data well.
            let limit = if t.type_size * 8 <= 2 * t.blck_size as usize + 20 { 0.15 } else { 0.04 };
            assert!(error < limit, "{}: {error}", t.name());
        }
    }
}
