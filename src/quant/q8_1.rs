//! Q8_1: 32 eight-bit values and their sum, for the activations in dot products with formats that have an offset. Not
//! for files.
#![forbid(unsafe_code)]

use super::block::Encode;
use super::convert::f32_to_f16;

/// One block: `x[i] = d * q[i]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ8_1 {
    /// Scale, a half.
    pub d: u16,
    /// `d` times the sum of `qs`, a half.
    pub s: u16,
    /// The values, in [-127, 127].
    pub qs: [i8; 32],
}

impl Encode for BlockQ8_1 {
    fn encode(x: &[f32]) -> Self {
        let (d, qs) = super::q8_0::levels(x);
        let sum: i32 = qs.iter().map(|q| i32::from(*q)).sum();
        Self { d: f32_to_f16(d), s: f32_to_f16(sum as f32 * d), qs }
    }
}
