//! Q1_0: 128 signs and one scale, the mean magnitude. 1.125 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;

/// One block: `x[i] = d` if bit `i` is set, else `-d`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ1_0 {
    /// Scale, a half.
    pub d: u16,
    /// One bit per value, lowest bit first.
    pub qs: [u8; 16],
}

impl Check for BlockQ1_0 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockQ1_0 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (y, bits) in y.chunks_exact_mut(8).zip(self.qs) {
            for (i, y) in y.iter_mut().enumerate() {
                *y = if bits >> i & 1 != 0 { d } else { -d };
            }
        }
    }
}

impl Encode for BlockQ1_0 {
    fn encode(x: &[f32]) -> Self {
        let mean = x.iter().fold(0.0, |sum, v| sum + v.abs()) / 128.0;
        let mut block = Self { d: f32_to_f16(mean), qs: [0; 16] };
        for (bits, x) in block.qs.iter_mut().zip(x.chunks_exact(8)) {
            *bits = x.iter().rev().fold(0, |bits, v| bits << 1 | u8::from(*v >= 0.0));
        }
        block
    }
}
