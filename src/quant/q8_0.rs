//! Q8_0: 32 eight-bit values. 8.5 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::{max, truncate};

/// One block: `x[i] = d * q[i]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ8_0 {
    /// Scale, a half.
    pub d: u16,
    /// The values, in [-127, 127].
    pub qs: [i8; 32],
}

/// The scale that maps the greatest magnitude to 127, and the levels, rounded with ties away from zero.
pub(super) fn levels(x: &[f32]) -> (f32, [i8; 32]) {
    let d = x.iter().fold(0.0, |m, v| max(m, v.abs())) / 127.0;
    let inverse = if d != 0.0 { 1.0 / d } else { 0.0 };
    (d, std::array::from_fn(|i| truncate((x[i] * inverse).round()) as i8))
}

impl Check for BlockQ8_0 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockQ8_0 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        for (y, q) in y.iter_mut().zip(&self.qs) {
            *y = f32::from(*q) * d;
        }
    }
}

impl Encode for BlockQ8_0 {
    fn encode(x: &[f32]) -> Self {
        let (d, qs) = levels(x);
        Self { d: f32_to_f16(d), qs }
    }
}
