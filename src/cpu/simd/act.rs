//! Quantizing activations to eight bits: arithmetic that all such formats share, written so that it vectorises.
#![forbid(unsafe_code)]

/// The sum of this and a float of magnitude below 2^22 has the nearest integer, ties to even, in its low bits.
pub const MAGIC: f32 = 12_582_912.0;

/// Greatest magnitude. A NaN counts as greater than all numbers.
#[inline(always)]
pub fn greatest(x: &[f32]) -> f32 {
    // Floats without a sign have the order of their bits, and comparing integers needs no special case for NaN.
    f32::from_bits(x.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7fff_ffff)))
}

/// `x * factor`, rounded to nearest even. Only the low eight bits are used.
#[inline(always)]
pub fn level(x: f32, factor: f32) -> i32 {
    (x * factor + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32
}

/// The scale that maps the greatest magnitude to 127, and the 32 quantized values.
#[inline(always)]
pub fn levels(x: &[f32; 32]) -> (f32, [i8; 32]) {
    let top = greatest(x);
    let factor = if top == 0.0 { 0.0 } else { 127.0 / top };
    let mut q = [0; 32];
    for (q, x) in q.iter_mut().zip(x) {
        *q = level(*x, factor) as i8;
    }
    (top / 127.0, q)
}
