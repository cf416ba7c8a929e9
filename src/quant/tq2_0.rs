//! TQ2_0: 256 values in {-1, 0, 1} times a scale, four per byte. 2.0625 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::tq1_0::{digit, scale};

/// One block: `x[i] = d * (q[i] - 1)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockTq2_0 {
    /// Two halves of 32 bytes for 128 values each: bits `2 n` of byte `m` are value `32 n + m` of the half.
    pub qs: [u8; 64],
    /// Scale, a half.
    pub d: u16,
}

impl Check for BlockTq2_0 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockTq2_0 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (y, qs) in y.chunks_exact_mut(128).zip(self.qs.chunks_exact(32)) {
            for (n, y) in y.chunks_exact_mut(32).enumerate() {
                for (y, q) in y.iter_mut().zip(qs) {
                    *y = (i32::from(q >> (2 * n) & 3) - 1) as f32 * d;
                }
            }
        }
    }
}

impl Encode for BlockTq2_0 {
    fn encode(x: &[f32]) -> Self {
        let (d, inverse) = scale(x);
        let mut block = Self { qs: [0; 64], d: f32_to_f16(d) };
        for (x, qs) in x.chunks_exact(128).zip(block.qs.chunks_exact_mut(32)) {
            for (m, q) in qs.iter_mut().enumerate() {
                *q = (0..4).fold(0, |q, n| q | (digit(x[32 * n + m] * inverse) & 3) << (2 * n));
            }
        }
        block
    }
}
