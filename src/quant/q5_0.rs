//! Q5_0: 32 five-bit values, symmetric. 5.5 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode, EncodeWeighted};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::{extreme, importance_weights, symmetric, truncate};

/// One block: `x[i] = d * (q[i] - 16)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ5_0 {
    /// Scale, a half.
    pub d: u16,
    /// Fifth bits: bit `i` of this little-endian number belongs to value `i`.
    pub qh: [u8; 4],
    /// Byte `i` holds the low four bits of value `i` (low half) and of value `i + 16` (high half).
    pub qs: [u8; 16],
}

/// Unpacks 32 five-bit values.
#[inline(always)]
pub(super) fn unpack(qh: [u8; 4], qs: [u8; 16]) -> [u8; 32] {
    let high = u32::from_le_bytes(qh);
    std::array::from_fn(|i| {
        let low = if i < 16 { qs[i] & 15 } else { qs[i - 16] >> 4 };
        low | ((high >> i & 1) as u8) << 4
    })
}

/// Packs 32 five-bit values.
pub(super) fn pack(q: &[u8; 32]) -> ([u8; 4], [u8; 16]) {
    let high = q.iter().rev().fold(0u32, |bits, q| bits << 1 | u32::from(q >> 4 & 1));
    (high.to_le_bytes(), std::array::from_fn(|i| q[i] & 15 | q[i + 16] << 4))
}

impl Check for BlockQ5_0 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockQ5_0 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (y, q) in y.iter_mut().zip(unpack(self.qh, self.qs)) {
            *y = f32::from(q as i8 - 16) * d;
        }
    }
}

impl Encode for BlockQ5_0 {
    fn encode(x: &[f32]) -> Self {
        let d = extreme(x).0 / -16.0;
        let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
        let q = std::array::from_fn(|i| (truncate(x[i] * inverse + 16.5) as i8).min(31) as u8);
        let (qh, qs) = pack(&q);
        Self { d: f32_to_f16(d), qh, qs }
    }
}

impl EncodeWeighted for BlockQ5_0 {
    fn encode_weighted(x: &[f32], importance: &[f32], row_mean_square: f32) -> Self {
        let (mut weights, mut levels) = ([0.0; 32], [0; 32]);
        importance_weights(&mut weights, x, importance, row_mean_square);
        let d = symmetric(16, x, &mut levels, Some(&weights));
        let (qh, qs) = pack(&levels.map(|l| l as u8));
        Self { d: f32_to_f16(d), qh, qs }
    }
}
