//! IQ4_NL: 32 four-bit codes, indices into a fixed non-linear table of 16 values. 4.5 bits per value.
//!
//! # Blocks of zeros
//!
//! `ggml_quantize_chunk`, which writes files, gives a block of zeros (scale 0) the code of zero everywhere. The quick
//! conversion of a row (`from_float_ref`) of ggml 0.28 gives it the codes of the previous block, and so does this one.
//! Before the first block with a nonzero value, the original leaves these codes uninitialised; here they are zero. The
//! blocks decode to the same values, because the scale is 0. Measured by `c_tests/quant` (18 kinds of rows, two seeds):
//! 134 of 1,152 blocks of the quick conversion differ, all of them zeros at the start of a row, most of them in rows of
//! zeros only.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted, nibbles};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::{GROUP_EPS, extreme, importance_weights, nearest_of, sum_squares};

/// One block: `x[i] = d * CURVE[q[i]]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockIq4Nl {
    /// Scale, a half.
    pub d: u16,
    /// Byte `i` holds code `i` (low four bits) and code `i + 16` (high four bits).
    pub qs: [u8; 16],
}

/// The values of the codes of IQ4_NL and IQ4_XS, ascending.
pub static CURVE: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

impl Check for BlockIq4Nl {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockIq4Nl {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        decode_group(f16_to_f32(self.d), &self.qs, y);
    }
}

/// Decodes the 32 values of a group.
#[inline(always)]
pub(super) fn decode_group(d: f32, qs: &[u8], y: &mut [f32]) {
    let values = nibbles(qs).map(|q| CURVE[usize::from(q)]);
    for (y, value) in y.iter_mut().zip(values) {
        *y = d * f32::from(value);
    }
}

/// Packs 32 codes.
pub(super) fn pack(codes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| codes[i] | codes[i + 16] << 4)
}

/// Best scale for a group of 32 values, from `2 tries + 1` scales around the one that maps the extreme value to the end
/// of the curve. Zero for a group of zeros.
pub(super) fn fit_scale(x: &[f32], weights: &[f32; 32], tries: Option<i32>) -> f32 {
    let (top, magnitude) = extreme(x);
    if magnitude < GROUP_EPS {
        return 0.0;
    }
    let moments = |inverse: f32| {
        let (mut xq, mut q2) = (0.0, 0.0);
        for (&v, &w) in x.iter().zip(weights) {
            let q = f32::from(CURVE[usize::from(nearest_of(&CURVE, inverse * v))]);
            xq += w * q * v;
            q2 += w * q * q;
        }
        (xq, q2)
    };
    let end = f32::from(CURVE[0]);
    let first = if tries.is_some() { -top } else { top };
    let (xq, q2) = moments(1.0 / (first / end));
    let mut d = if q2 > 0.0 { xq / q2 } else { 0.0 };
    let mut best = d * xq;
    if let Some(tries) = tries {
        for step in -tries..=tries {
            let (xq, q2) = moments((step as f32 + end) / top);
            if q2 > 0.0 && xq * xq > best * q2 {
                d = xq / q2;
                best = d * xq;
            }
        }
    }
    d
}

/// Weights of a group: from the importance or, without it, the squares of the values.
pub(super) fn weights(x: &[f32], importance: Option<&[f32]>, sigma2: f32) -> [f32; 32] {
    let mut weights = [0.0; 32];
    match importance {
        Some(i) => importance_weights(&mut weights, x, i, sigma2),
        None => weights.iter_mut().zip(x).for_each(|(w, v)| *w = v * v),
    }
    weights
}

impl BlockIq4Nl {
    fn fit(x: &[f32], importance: Option<&[f32]>) -> Self {
        let sigma2 = sum_squares(x) * (2.0 / 32.0);
        let d = fit_scale(x, &weights(x, importance, sigma2), Some(7));
        let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
        Self { d: f32_to_f16(d), qs: pack(&std::array::from_fn(|i| nearest_of(&CURVE, inverse * x[i]))) }
    }

    /// Encodes a block as `quantize_chunk` does without importance, with a wider search than [`Encode::encode`].
    pub fn encode_thorough(x: &[f32]) -> Self {
        Self::fit(x, None)
    }
}

impl Encode for BlockIq4Nl {
    fn encode(x: &[f32]) -> Self {
        Self::encode_behind(x, None)
    }

    /// The quick conversion: tries one scale. A block of zeros gets the codes of the previous block.
    fn encode_behind(x: &[f32], before: Option<&Self>) -> Self {
        let (top, magnitude) = extreme(x);
        if magnitude < GROUP_EPS {
            return Self { d: 0, qs: before.map_or([0; 16], |b| b.qs) };
        }
        let d = fit_scale(x, &weights(x, None, 0.0), None);
        let inverse = 1.0 / (top / f32::from(CURVE[0]));
        Self { d: f32_to_f16(d), qs: pack(&std::array::from_fn(|i| nearest_of(&CURVE, inverse * x[i]))) }
    }
}

impl EncodeWeighted for BlockIq4Nl {
    fn encode_weighted(x: &[f32], importance: &[f32], _: f32) -> Self {
        Self::fit(x, Some(importance))
    }
}
