//! TQ1_0: 256 values in {-1, 0, 1} times a scale, five per byte. 1.6875 bits per value.
#![forbid(unsafe_code)]

use super::block::{Check, Decode, Encode};
use super::convert::{f16_to_f32, f32_to_f16};
use super::finite::half;
use super::search::max;

/// One block: `x[i] = d * (t[i] - 1)`.
///
/// A byte stores five base-3 digits as `digits * 256 / 243`, rounded up. Each multiplication by 3 carries the next
/// digit out of the byte, the first digit first.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockTq1_0 {
    /// Values 0..160 (32 bytes: digit `n` of byte `m` is value `32 n + m`), then 160..240 (16 bytes: `160 + 16 n + m`).
    pub qs: [u8; 48],
    /// Values 240..256: digit `n` of byte `m` is value `240 + 4 n + m`; the fifth digit is unused.
    pub qh: [u8; 4],
    /// Scale, a half.
    pub d: u16,
}

const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// The three parts of a block: number of bytes, and digits used of each byte.
const RUNS: [(usize, usize); 3] = [(32, 5), (16, 5), (4, 4)];

impl Check for BlockTq1_0 {
    fn flaw(&self) -> Option<&'static str> {
        half(self.d)
    }
}

impl Decode for BlockTq1_0 {
    #[inline(always)]
    fn decode(&self, y: &mut [f32]) {
        let d = f16_to_f32(self.d);
        let (mut bytes, mut y) = (self.qs.iter().chain(&self.qh).copied(), y.iter_mut());
        for (len, digits) in RUNS {
            let mut run = [0; 32];
            run[..len].iter_mut().zip(&mut bytes).for_each(|(r, b)| *r = b);
            for power in &POWERS[..digits] {
                for (byte, y) in run[..len].iter().zip(&mut y) {
                    let digit = (u16::from(byte.wrapping_mul(*power)) * 3) >> 8;
                    *y = (i32::from(digit) - 1) as f32 * d;
                }
            }
        }
    }
}

/// Scale of a ternary block (its greatest magnitude), and the inverse.
pub(super) fn scale(x: &[f32]) -> (f32, f32) {
    let d = x.iter().fold(0.0, |m, v| max(m, v.abs()));
    (d, if d != 0.0 { 1.0 / d } else { 0.0 })
}

/// The digit of a scaled value: 0, 1 or 2 (a NaN gives 1).
pub(super) fn digit(x: f32) -> u8 {
    let rounded = x.round();
    // Outside the range of `long`, the C library returns its smallest value, whose low bits are zero.
    let n = if rounded.abs() < 9.2e18 { rounded as i64 } else { 0 };
    n.wrapping_add(1) as u8
}

impl Encode for BlockTq1_0 {
    fn encode(x: &[f32]) -> Self {
        let (d, inverse) = scale(x);
        let mut block = Self { qs: [0; 48], qh: [0; 4], d: f32_to_f16(d) };
        let (mut bytes, mut from) = (block.qs.iter_mut().chain(&mut block.qh), 0);
        for (len, digits) in RUNS {
            for (m, byte) in bytes.by_ref().take(len).enumerate() {
                let mut q = (0..digits)
                    .fold(0u8, |q, n| q.wrapping_mul(3).wrapping_add(digit(x[from + n * len + m] * inverse)));
                if digits == 4 {
                    q = q.wrapping_mul(3);
                }
                *byte = (u16::from(q) * 256).wrapping_add(242).wrapping_div(243) as u8;
            }
            from += len * digits;
        }
        block
    }
}
