//! Quantizes many rows at once, with or without an importance for each column.
#![forbid(unsafe_code)]

use super::block::{Encode, EncodeWeighted, bytes_of, encode_row, encode_row_weighted};
use super::lattice::{self, EncodeSearch, encode_row_searched};
use super::*;
use crate::abi::ggml::ggml_type;
use crate::abi::ggml::ggml_type::*;
use crate::error::{Error, Result};
use crate::invalid;

/// Whether quantizing to this type needs importance weights.
pub fn requires_imatrix(ty: ggml_type) -> bool {
    matches!(ty, GGML_TYPE_IQ2_XXS | GGML_TYPE_IQ2_XS | GGML_TYPE_IQ1_S)
}

/// Builds the tables for quantizing to this type, which are otherwise built on first use.
pub fn quantize_init(ty: ggml_type) {
    if let Some(grid) = lattice::grid_of(ty) {
        drop(lattice::get(grid));
    }
}

/// Frees the tables that [`quantize_init`] built. Calls that are quantizing keep theirs until they return.
pub fn quantize_free() {
    lattice::free_all();
}

/// The checked arguments of [`quantize_chunk`].
struct Rows<'a> {
    ty: ggml_type,
    x: &'a [f32],
    y: &'a mut [u8],
    per_row: usize,
    importance: Option<&'a [f32]>,
}

impl Rows<'_> {
    fn plain<B: Encode>(self) -> Result<()> {
        encode_row::<B>(self.x, self.y);
        Ok(())
    }

    fn weighted<B: Encode + EncodeWeighted>(self) -> Result<()> {
        let Some(importance) = self.importance else { return self.plain::<B>() };
        let row_bytes = self.per_row / B::VALUES * size_of::<B>();
        for (x, y) in self.x.chunks_exact(self.per_row).zip(self.y.chunks_exact_mut(row_bytes)) {
            encode_row_weighted::<B>(x, importance, y);
        }
        Ok(())
    }

    fn searched<B: EncodeSearch>(self) -> Result<()> {
        let lattice = lattice::get(B::GRID);
        let row_bytes = self.per_row / B::VALUES * size_of::<B>();
        let rows = self.x.chunks_exact(self.per_row).zip(self.y.chunks_exact_mut(row_bytes));
        for (row, (x, y)) in rows.enumerate() {
            if !encode_row_searched::<B>(&lattice, x, self.importance, y) {
                return Err(invalid!(
                    "cannot quantize row {row} of the chunk to {}: values and importance must be finite and not too large",
                    traits(self.ty).name()
                ));
            }
        }
        Ok(())
    }

    /// IQ4_NL, with the thorough search even without importance.
    fn iq4_nl(self) -> Result<()> {
        if self.importance.is_some() {
            return self.weighted::<iq4_nl::BlockIq4Nl>();
        }
        for (x, y) in self.x.chunks_exact(32).zip(self.y.chunks_exact_mut(18)) {
            y.copy_from_slice(bytes_of(&iq4_nl::BlockIq4Nl::encode_thorough(x)));
        }
        Ok(())
    }

    fn bytes(self) -> Result<()> {
        for (x, y) in self.x.iter().zip(self.y.chunks_exact_mut(4)) {
            y.copy_from_slice(&x.to_ne_bytes());
        }
        Ok(())
    }

    fn by_table(self) -> Result<()> {
        match traits(self.ty).from_float_ref {
            Some(from_float) => from_float(self.x, self.y),
            None => return Err(Error::Unsupported(format!("quantizing to {}", traits(self.ty).name()))),
        }
        Ok(())
    }

    fn run(self) -> Result<()> {
        match self.ty {
            GGML_TYPE_F32 => self.bytes(),
            GGML_TYPE_Q4_0 => self.weighted::<q4_0::BlockQ4_0>(),
            GGML_TYPE_Q4_1 => self.weighted::<q4_1::BlockQ4_1>(),
            GGML_TYPE_Q5_0 => self.weighted::<q5_0::BlockQ5_0>(),
            GGML_TYPE_Q5_1 => self.weighted::<q5_1::BlockQ5_1>(),
            GGML_TYPE_Q2_K => self.weighted::<q2_k::BlockQ2K>(),
            GGML_TYPE_Q3_K => self.weighted::<q3_k::BlockQ3K>(),
            GGML_TYPE_Q4_K => self.weighted::<q4_k::BlockQ4K>(),
            GGML_TYPE_Q5_K => self.weighted::<q5_k::BlockQ5K>(),
            GGML_TYPE_Q6_K => self.weighted::<q6_k::BlockQ6K>(),
            GGML_TYPE_IQ4_NL => self.iq4_nl(),
            GGML_TYPE_IQ4_XS => self.weighted::<iq4_xs::BlockIq4Xs>(),
            GGML_TYPE_IQ1_S => self.searched::<iq1_s::BlockIq1S>(),
            GGML_TYPE_IQ1_M => self.searched::<iq1_m::BlockIq1M>(),
            GGML_TYPE_IQ2_XXS => self.searched::<iq2_xxs::BlockIq2Xxs>(),
            GGML_TYPE_IQ2_XS => self.searched::<iq2_xs::BlockIq2Xs>(),
            GGML_TYPE_IQ2_S => self.searched::<iq2_s::BlockIq2S>(),
            GGML_TYPE_IQ3_XXS => self.searched::<iq3_xxs::BlockIq3Xxs>(),
            GGML_TYPE_IQ3_S => self.searched::<iq3_s::BlockIq3S>(),
            // A format of intermediate results, not for files.
            GGML_TYPE_Q8_1 => Err(Error::Unsupported("quantizing rows to q8_1".to_owned())),
            _ => self.by_table(),
        }
    }
}

/// Quantizes `nrows` rows of `n_per_row` values, starting at value `start` of `src`, to the same rows of `dst`.
///
/// `src` and `dst` are the values and bytes of whole tensors, and `start` is the first value of a row. `imatrix` has
/// one weight for each column. Returns the number of bytes written.
///
/// # Errors
/// Shapes that do not fit, an `imatrix` that the type needs and that is missing, a type that cannot be quantized to, or
/// values that are not finite or too large for a search.
pub fn quantize_chunk(
    ty: ggml_type,
    src: &[f32],
    dst: &mut [u8],
    start: usize,
    nrows: usize,
    n_per_row: usize,
    imatrix: Option<&[f32]>,
) -> Result<usize> {
    let t = traits(ty);
    let name = t.name();
    let row_bytes = i64::try_from(n_per_row).ok().and_then(|n| row_size_checked(ty, n));
    let row_bytes = row_bytes.ok_or_else(|| invalid!("a row of {n_per_row} values is not whole blocks of {name}"))?;
    if n_per_row == 0 || !start.is_multiple_of(n_per_row) {
        return Err(invalid!("value {start} is not the first of a row of {n_per_row}"));
    }
    if requires_imatrix(ty) && imatrix.is_none() {
        return Err(invalid!("quantizing to {name} needs an importance matrix"));
    }
    if let Some(w) = imatrix.filter(|w| w.len() < n_per_row) {
        return Err(invalid!("the importance matrix has {} columns, but rows have {n_per_row}", w.len()));
    }
    let too_large = || invalid!("{nrows} rows of {n_per_row} values from value {start} are outside the tensor");
    let values = nrows.checked_mul(n_per_row).and_then(|n| n.checked_add(start)).ok_or_else(too_large)?;
    let first = (start / n_per_row).checked_mul(row_bytes).ok_or_else(too_large)?;
    let bytes = nrows.checked_mul(row_bytes).ok_or_else(too_large)?;
    let x = src.get(start..values).ok_or_else(too_large)?;
    let y = first.checked_add(bytes).and_then(|end| dst.get_mut(first..end)).ok_or_else(too_large)?;
    Rows { ty, x, y, per_row: n_per_row, importance: imatrix.map(|w| &w[..n_per_row]) }.run()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Vec<f32> {
        (0..1024).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect()
    }

    #[test]
    fn a_chunk_lands_in_its_place() {
        let x = data();
        let mut whole = vec![0; row_size(GGML_TYPE_Q4_K, 1024)];
        assert_eq!(quantize_chunk(GGML_TYPE_Q4_K, &x, &mut whole, 0, 4, 256, None).unwrap(), 4 * 144);
        let mut parts = vec![0; whole.len()];
        for row in [2, 0, 3, 1] {
            assert_eq!(quantize_chunk(GGML_TYPE_Q4_K, &x, &mut parts, row * 256, 1, 256, None).unwrap(), 144);
        }
        assert_eq!(whole, parts);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let (x, mut y) = (data(), vec![0; 8192]);
        let mut run = |ty, start, nrows, per_row, imatrix| {
            quantize_chunk(ty, &x, &mut y, start, nrows, per_row, imatrix).is_err()
        };
        assert!(run(GGML_TYPE_Q4_0, 0, 1, 33, None), "no whole blocks");
        assert!(run(GGML_TYPE_Q4_0, 0, 1, 0, None), "empty rows");
        assert!(run(GGML_TYPE_Q4_0, 32, 1, 64, None), "inside a row");
        assert!(run(GGML_TYPE_Q4_0, 0, 33, 32, None), "more rows than there are");
        assert!(run(GGML_TYPE_Q4_0, 0, usize::MAX, 64, None), "overflow");
        assert!(run(GGML_TYPE_IQ1_S, 0, 1, 256, None), "importance needed");
        assert!(run(GGML_TYPE_Q4_0, 0, 1, 64, Some(&[1.0; 32])), "too few weights");
        assert!(run(GGML_TYPE_I32, 0, 1, 64, None), "not a float format");
        assert!(run(GGML_TYPE_Q8_K, 0, 1, 256, None), "not a file format");
        assert!(!run(GGML_TYPE_F32, 0, 1, 64, None));
    }

    /// Numbers of any bits are quantized, or refused.
    #[test]
    fn any_bits_are_quantized_or_refused() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 32) as u32
        };
        let odd =
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45, -0.0, 0.0, 1e30, -1.0];
        let importance: Vec<f32> = (0..512).map(|i| i as f32 / 16.0).collect();
        for ty in ggml_type::ALL.into_iter().filter(|t| t.blck_size() > 0) {
            let mut y = vec![0; row_size(ty, 512)];
            for round in 0..if ty.blck_size() > 1 { 48 } else { 4 } {
                let x: Vec<f32> = (0..512)
                    .map(|_| match (round % 3, random() % 8) {
                        (0, _) | (1, 0) => f32::from_bits(random()),
                        (1, 1..5) => odd[random() as usize % odd.len()],
                        _ => random() as f32 / 2e9 - 1.0,
                    })
                    .collect();
                for weights in [None, Some(&importance[..])] {
                    if let Ok(n) = quantize_chunk(ty, &x, &mut y, 0, 1, 512, weights) {
                        assert_eq!(n, y.len(), "{ty:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn searches_refuse_what_they_cannot_weigh() {
        let mut y = vec![0; 256];
        for bad in [f32::NAN, f32::INFINITY] {
            let mut x = data();
            x[5] = bad;
            for ty in [GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_S, GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ2_XXS] {
                assert!(quantize_chunk(ty, &x, &mut y, 0, 1, 256, Some(&[1.0; 256])).is_err(), "{ty:?} {bad}");
            }
        }
    }

    #[test]
    fn importance_moves_the_error_away_from_where_it_counts() {
        let x = data();
        let weights: Vec<f32> = (0..256).map(|i| if i % 4 == 0 { 100.0 } else { 0.01 }).collect();
        for ty in [GGML_TYPE_Q4_0, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_IQ4_XS, GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_S] {
            let error = |imatrix: Option<&[f32]>| {
                let (mut bytes, mut y) = (vec![0; row_size(ty, 256)], vec![0.0; 256]);
                quantize_chunk(ty, &x, &mut bytes, 0, 1, 256, imatrix).unwrap();
                traits(ty).to_float.unwrap()(&bytes, &mut y);
                x.iter().zip(&y).step_by(4).map(|(a, b)| (a - b).powi(2)).sum::<f32>()
            };
            assert!(error(Some(&weights)) < error(None), "{ty:?}");
        }
    }

    #[test]
    fn iq3_s_leaves_no_room_for_a_group_of_zeros() {
        // As in the original, the indices and signs of later groups move up, but the scales do not.
        let encoded = |zeros: std::ops::Range<usize>| {
            let mut x = data()[..256].to_vec();
            x[zeros].fill(0.0);
            let mut bytes = vec![0; 110];
            quantize_chunk(GGML_TYPE_IQ3_S, &x, &mut bytes, 0, 1, 256, None).unwrap();
            bytes
        };
        let (last, second) = (encoded(224..256), encoded(32..64));
        assert!(second[2 + 56..2 + 64].iter().chain(&second[74 + 28..74 + 32]).all(|b| *b == 0));
        assert_eq!(
            (&second[2..10], &second[106..110]),
            (&last[2..10], &[second[106], last[107], second[108], second[109]][..])
        );
        assert!(second[106] >> 4 == 0 && last[109] >> 4 == 0);
    }
}
