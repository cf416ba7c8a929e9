//! Q8_K: 256 eight-bit values and the sums of groups of 16, for the activations in dot products with the K formats. Not
//! for files.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode};
use super::finite::float;
use super::search::{extreme, nearest};

/// One block: `x[i] = d * qs[i]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockQ8K {
    /// Scale.
    pub d: f32,
    /// The values, in [-127, 127].
    pub qs: [i8; 256],
    /// Sum of each group of 16 values.
    pub bsums: [i16; 16],
}

impl Check for BlockQ8K {
    fn flaw(&self) -> Option<&'static str> {
        float(f64::from(self.d))
    }
}

impl Decode for BlockQ8K {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        for (y, q) in y.iter_mut().zip(&self.qs) {
            *y = self.d * f32::from(*q);
        }
    }
}

impl Encode for BlockQ8K {
    fn encode(x: &[f32]) -> Self {
        let (top, magnitude) = extreme(x);
        if magnitude == 0.0 {
            return Self { d: 0.0, qs: [0; 256], bsums: [0; 16] };
        }
        // Not -128, because kernels negate values.
        let inverse = -127.0 / top;
        let qs: [i8; 256] = std::array::from_fn(|i| nearest(inverse * x[i]).min(127) as i8);
        let bsums = std::array::from_fn(|g| qs[16 * g..16 * g + 16].iter().map(|q| i16::from(*q)).sum());
        Self { d: 1.0 / inverse, qs, bsums }
    }
}
