//! Q2_0: 64 values in {-1, 0, 1, 2} times a scale, the greatest magnitude. 2.25 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::{extreme, truncate};

/// One block: `x[i] = d * (q[i] - 1)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ2_0 {
    /// Scale, a half.
    pub d: u16,
    /// Two bits per value, lowest bits first.
    pub qs: [u8; 16],
}

impl Check for BlockQ2_0 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockQ2_0 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (y, bits) in y.chunks_exact_mut(4).zip(self.qs) {
            for (i, y) in y.iter_mut().enumerate() {
                *y = (i32::from(bits >> (2 * i) & 3) - 1) as f32 * d;
            }
        }
    }
}

impl Encode for BlockQ2_0 {
    fn encode(x: &[f32]) -> Self {
        let (_, d) = extreme(x);
        let inverse = if d > 0.0 { 1.0 / d } else { 0.0 };
        let mut block = Self { d: f32_to_f16(d), qs: [0; 16] };
        for (bits, x) in block.qs.iter_mut().zip(x.chunks_exact(4)) {
            for (i, v) in x.iter().enumerate() {
                let q = truncate((v * inverse).round()).wrapping_add(1).clamp(0, 3);
                *bits |= (q as u8) << (2 * i);
            }
        }
        block
    }
}
