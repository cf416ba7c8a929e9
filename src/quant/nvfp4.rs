//! NVFP4: 64 four-bit floats (E2M1) in four groups of 16, each with an unsigned E4M3 scale. 4.5 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode};
use super::convert::{f32_to_ue4m3, ue4m3_to_f32_half};
use super::mxfp4::{FP4_DOUBLED, nearest_code, scaled_codes};
use super::search::extreme;

/// One block: `x[i] = d[i / 16] * q[i]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockNvfp4 {
    /// Scale of each group, unsigned E4M3.
    pub d: [u8; 4],
    /// Byte `8 g + i` holds value `16 g + i` (low four bits) and value `16 g + i + 8` (high four bits).
    pub qs: [u8; 32],
}

impl Check for BlockNvfp4 {
    fn flaw(&self) -> Option<&'static str> {
        None // every byte is a valid scale
    }
}

impl Decode for BlockNvfp4 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        for ((y, qs), d) in y.chunks_exact_mut(16).zip(self.qs.chunks_exact(8)).zip(self.d) {
            let d = ue4m3_to_f32_half(d);
            let (low, high) = y.split_at_mut(8);
            for ((low, high), q) in low.iter_mut().zip(high).zip(qs) {
                *low = f32::from(FP4_DOUBLED[usize::from(q & 15)]) * d;
                *high = f32::from(FP4_DOUBLED[usize::from(q >> 4)]) * d;
            }
        }
    }
}

impl Encode for BlockNvfp4 {
    fn encode(x: &[f32]) -> Self {
        let mut block = Self { d: [0; 4], qs: [0; 32] };
        for ((x, qs), d) in x.chunks_exact(16).zip(block.qs.chunks_exact_mut(8)).zip(&mut block.d) {
            // The greatest value of a code is 6.
            *d = f32_to_ue4m3(extreme(x).1 / 6.0);
            let values = scaled_codes(ue4m3_to_f32_half(*d));
            for (i, q) in qs.iter_mut().enumerate() {
                *q = nearest_code(x[i], &values) | nearest_code(x[i + 8], &values) << 4;
            }
        }
        block
    }
}
