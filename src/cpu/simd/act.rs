//! Activations in eight bits: the arithmetic that all such formats share, written so that it vectorises.
#![forbid(unsafe_code)]

/// Adding this to a float of magnitude below 2^22 leaves its nearest integer (ties to even) in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// Greatest magnitude; a NaN counts as the greatest.
#[inline(always)]
pub fn greatest(x: &[f32]) -> f32 {
    // Floats without their sign are ordered as their bits are, and integers have no NaN to be careful about.
    f32::from_bits(x.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7fff_ffff)))
}

/// `x * factor`, rounded to nearest even; its low eight bits.
#[inline(always)]
pub fn level(x: f32, factor: f32) -> i32 {
    (x * factor + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32
}

/// The scale that maps the greatest magnitude on 127, and the 32 values by it.
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
