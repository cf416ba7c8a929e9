//! Unpacks blocks of every weight format to signed bytes with float scales: `w = scale * q + offset`, with a scale
//! (and, in some formats, an offset) for every 16 or 32 values. Matrix products and generic dot products use this form.
//!
//! The code is written so that it vectorises when compiled for an instruction set. `quant` documents the formats.
#![forbid(unsafe_code)]

use crate::quant::convert::f16_to_f32;
use crate::quant::tables::{iq1::IQ1S_GRID, iq2::*, iq3::*};
use crate::quant::{
    Block, iq1_m::BlockIq1M, iq1_s::BlockIq1S, iq1_s::DELTA, iq2_s::BlockIq2S, iq2_xs::BlockIq2Xs,
    iq2_xxs::BlockIq2Xxs, iq3_s::BlockIq3S, iq3_xxs::BlockIq3Xxs, iq4_nl::BlockIq4Nl, iq4_nl::CURVE,
    iq4_xs::BlockIq4Xs, mxfp4::BlockMxfp4, nvfp4::BlockNvfp4, q1_0::BlockQ1_0, q2_0::BlockQ2_0, q2_k::BlockQ2K,
    q3_k::BlockQ3K, q4_0::BlockQ4_0, q4_1::BlockQ4_1, q4_k::BlockQ4K, q4_k::scale_and_offset, q5_0::BlockQ5_0,
    q5_1::BlockQ5_1, q5_k::BlockQ5K, q6_k::BlockQ6K, q8_0::BlockQ8_0, q8_1::BlockQ8_1, tq1_0::BlockTq1_0,
    tq2_0::BlockTq2_0,
};
use crate::quant::{convert::e8m0_to_f32_half, convert::ue4m3_to_f32_half};

/// A block that can be unpacked to bytes and scales.
pub trait Unpack: Block {
    /// Values that share a scale: 16 or 32.
    const GROUP: usize;
    /// Whether there are offsets.
    const OFFSETS: bool;
    /// Bits of a value: 4 to 7 if all are in `-2^(BITS - 1)..2^(BITS - 1)`, with offsets in `0..2^BITS`; else 8.
    const BITS: u32;
    /// Writes the values, and the scale (and offset) of each group. The slices have room for the block; `offsets` is
    /// not written if the format has none.
    fn unpack(&self, q: &mut [i8], scales: &mut [f32], offsets: &mut [f32]);
}

/// Applies `f` to the low nibbles of `qs`, then to the high nibbles.
#[inline(always)]
fn halves(qs: &[u8], q: &mut [i8], f: impl Fn(u8) -> i8) {
    let n = qs.len();
    for (q, b) in q[..n].iter_mut().zip(qs) {
        *q = f(b & 15);
    }
    for (q, b) in q[n..2 * n].iter_mut().zip(qs) {
        *q = f(b >> 4);
    }
}

/// The fifth bits of 32 values, times 16.
#[inline(always)]
fn fifth_bits(qh: [u8; 4], q: &mut [i8]) {
    let bits = u32::from_le_bytes(qh);
    for (i, q) in q[..32].iter_mut().enumerate() {
        *q |= ((bits >> i & 1) << 4) as i8;
    }
}

/// Expands eight sign bits to bytes: all bits of a byte are set if the sign bit is.
static SIGNS: [u64; 256] = {
    let mut all = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut i = 0;
        while i < 8 {
            if bits >> i & 1 != 0 {
                all[bits] |= 0xff << (8 * i);
            }
            i += 1;
        }
        bits += 1;
    }
    all
};

/// The same for seven sign bits, where the eighth makes the number of set bits even.
static EVEN_SIGNS: [u64; 128] = {
    let mut all = [0; 128];
    let mut bits: usize = 0;
    while bits < 128 {
        all[bits] = SIGNS[bits | (bits.count_ones() as usize & 1) << 7];
        bits += 1;
    }
    all
};

/// Writes eight grid values (none of them zero), negated where the bytes of `signs` are set.
#[inline(always)]
fn signed_eight(grid: u64, signs: u64, q: &mut [i8]) {
    // Two's complement in each byte. No value is zero, so adding one does not carry into the next byte.
    eight((grid ^ signs).wrapping_add(signs & 0x0101_0101_0101_0101), q);
}

/// Adds byte by byte, without carries between bytes.
#[inline(always)]
fn add_bytes(a: u64, b: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    ((a & LOW) + (b & LOW)) ^ ((a ^ b) & !LOW)
}

/// Writes the eight values in a word.
#[inline(always)]
fn eight(word: u64, q: &mut [i8]) {
    for (q, b) in q.iter_mut().zip(word.to_le_bytes()) {
        *q = b as i8;
    }
}

/// A point of IQ1 in eighths, shifted by one up or down.
#[inline(always)]
fn eighths(point: u64, down: bool) -> u64 {
    // Multiplies each byte by eight; the mask clears the bits from the byte below.
    let points = (point << 3) & 0xf8f8_f8f8_f8f8_f8f8;
    add_bytes(points, if down { u64::MAX } else { 0x0101_0101_0101_0101 })
}

/// Twice the value of an E2M1 code: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives, without a table.
#[inline(always)]
fn fp4_doubled(code: u8) -> i8 {
    let m = code & 7;
    let magnitude = (m + m.saturating_sub(4) + (m == 7) as u8 * 2) as i8;
    let negative = -((code >> 3 & 1) as i8);
    (magnitude ^ negative) - negative
}

macro_rules! unpack {
    ($($block:ty, bits $bits:literal, group $group:literal $(, $offsets:ident)?: |$b:ident, $q:ident, $s:ident, $o:ident| $body:block)*) => {$(
        impl Unpack for $block {
            const GROUP: usize = $group;
            const BITS: u32 = $bits;
            const OFFSETS: bool = unpack!(@offsets $($offsets)?);
            #[inline(always)]
            fn unpack(&self, $q: &mut [i8], $s: &mut [f32], $o: &mut [f32]) {
                let $b = self;
                let $q = &mut $q[..Self::VALUES];
                let $s = &mut $s[..Self::VALUES / $group];
                $body
            }
        }
    )*};
    (@offsets) => { false };
    (@offsets offsets) => { true };
}

unpack! {
    BlockQ1_0, bits 4, group 32: |b, q, s, _o| {
        s.fill(f16_to_f32(b.d));
        for (q, bits) in q.chunks_exact_mut(8).zip(b.qs) {
            for (i, q) in q.iter_mut().enumerate() {
                *q = 2 * (bits >> i & 1) as i8 - 1;
            }
        }
    }
    BlockQ2_0, bits 4, group 32: |b, q, s, _o| {
        s.fill(f16_to_f32(b.d));
        for (q, bits) in q.chunks_exact_mut(4).zip(b.qs) {
            for (i, q) in q.iter_mut().enumerate() {
                *q = (bits >> (2 * i) & 3) as i8 - 1;
            }
        }
    }
    BlockQ4_0, bits 4, group 32: |b, q, s, _o| {
        s[0] = f16_to_f32(b.d);
        halves(&b.qs, q, |x| x as i8 - 8);
    }
    BlockQ4_1, bits 4, group 32, offsets: |b, q, s, o| {
        s[0] = f16_to_f32(b.d);
        o[0] = f16_to_f32(b.m);
        halves(&b.qs, q, |x| x as i8);
    }
    BlockQ5_0, bits 5, group 32: |b, q, s, _o| {
        s[0] = f16_to_f32(b.d);
        halves(&b.qs, q, |x| x as i8);
        fifth_bits(b.qh, q);
        q.iter_mut().for_each(|q| *q -= 16);
    }
    BlockQ5_1, bits 5, group 32, offsets: |b, q, s, o| {
        s[0] = f16_to_f32(b.d);
        o[0] = f16_to_f32(b.m);
        halves(&b.qs, q, |x| x as i8);
        fifth_bits(b.qh, q);
    }
    BlockQ8_0, bits 8, group 32: |b, q, s, _o| {
        s[0] = f16_to_f32(b.d);
        q.copy_from_slice(&b.qs);
    }
    BlockQ8_1, bits 8, group 32: |b, q, s, _o| {
        s[0] = f16_to_f32(b.d);
        q.copy_from_slice(&b.qs);
    }
    BlockIq4Nl, bits 8, group 32: |b, q, s, _o| {
        s[0] = f16_to_f32(b.d);
        halves(&b.qs, q, |x| CURVE[usize::from(x & 15)]);
    }
    BlockMxfp4, bits 5, group 32: |b, q, s, _o| {
        s[0] = e8m0_to_f32_half(b.e);
        halves(&b.qs, q, fp4_doubled);
    }
    BlockNvfp4, bits 5, group 16: |b, q, s, _o| {
        for (s, d) in s.iter_mut().zip(b.d) {
            *s = ue4m3_to_f32_half(d);
        }
        let (mut low, mut high) = ([0; 32], [0; 32]);
        for ((low, high), x) in low.iter_mut().zip(&mut high).zip(b.qs) {
            *low = fp4_doubled(x);
            *high = fp4_doubled(x >> 4);
        }
        for (q, (low, high)) in q.chunks_exact_mut(16).zip(low.chunks_exact(8).zip(high.chunks_exact(8))) {
            q[..8].copy_from_slice(low);
            q[8..].copy_from_slice(high);
        }
    }
    BlockQ2K, bits 4, group 16, offsets: |b, q, s, o| {
        let (d, dmin) = (f16_to_f32(b.d), f16_to_f32(b.dmin));
        for ((s, o), code) in s.iter_mut().zip(&mut o[..16]).zip(b.scales) {
            *s = d * f32::from(code & 15);
            *o = -dmin * f32::from(code >> 4);
        }
        for (q, qs) in q.chunks_exact_mut(128).zip(b.qs.chunks_exact(32)) {
            for (n, q) in q.chunks_exact_mut(32).enumerate() {
                for (q, bits) in q.iter_mut().zip(qs) {
                    *q = (bits >> (2 * n) & 3) as i8;
                }
            }
        }
    }
    BlockQ3K, bits 4, group 16: |b, q, s, _o| {
        let d = f16_to_f32(b.d);
        for (s, code) in s.iter_mut().zip(b.group_scales()) {
            *s = d * f32::from(code);
        }
        for (half, (q, qs)) in q.chunks_exact_mut(128).zip(b.qs.chunks_exact(32)).enumerate() {
            for (n, q) in q.chunks_exact_mut(32).enumerate() {
                for ((q, bits), high) in q.iter_mut().zip(qs).zip(b.hmask) {
                    *q = (bits >> (2 * n) & 3 | (high >> (4 * half + n) & 1) << 2) as i8 - 4;
                }
            }
        }
    }
    BlockQ4K, bits 4, group 32, offsets: |b, q, s, o| {
        affine_scales(b.d, b.dmin, &b.scales, s, o);
        for (q, qs) in q.chunks_exact_mut(64).zip(b.qs.chunks_exact(32)) {
            halves(qs, q, |x| x as i8);
        }
    }
    BlockQ5K, bits 5, group 32, offsets: |b, q, s, o| {
        affine_scales(b.d, b.dmin, &b.scales, s, o);
        for (n, (q, qs)) in q.chunks_exact_mut(64).zip(b.qs.chunks_exact(32)).enumerate() {
            let (low, high) = q.split_at_mut(32);
            for ((q, bits), h) in low.iter_mut().zip(qs).zip(b.qh) {
                *q = (bits & 15 | (h >> (2 * n) & 1) << 4) as i8;
            }
            for ((q, bits), h) in high.iter_mut().zip(qs).zip(b.qh) {
                *q = (bits >> 4 | (h >> (2 * n + 1) & 1) << 4) as i8;
            }
        }
    }
    BlockQ6K, bits 6, group 16: |b, q, s, _o| {
        let d = f16_to_f32(b.d);
        for (s, code) in s.iter_mut().zip(b.scales) {
            *s = d * f32::from(code);
        }
        for ((q, ql), qh) in q.chunks_exact_mut(128).zip(b.ql.chunks_exact(64)).zip(b.qh.chunks_exact(32)) {
            for (n, q) in q.chunks_exact_mut(32).enumerate() {
                for ((q, l), h) in q.iter_mut().zip(&ql[n % 2 * 32..]).zip(qh) {
                    *q = (l >> (n / 2 * 4) & 15 | (h >> (2 * n) & 3) << 4) as i8 - 32;
                }
            }
        }
    }
    BlockIq4Xs, bits 8, group 32: |b, q, s, _o| {
        let d = f16_to_f32(b.d);
        for (g, (s, (q, qs))) in s.iter_mut().zip(q.chunks_exact_mut(32).zip(b.qs.chunks_exact(16))).enumerate() {
            *s = d * b.group_scale(g) as f32;
            halves(qs, q, |x| CURVE[usize::from(x & 15)]);
        }
    }
    BlockTq1_0, bits 4, group 32: |b, q, s, _o| {
        s.fill(f16_to_f32(b.d));
        let (first, last) = q.split_at_mut(240);
        let (wide, narrow) = first.split_at_mut(160);
        digits(&b.qs[..32], wide);
        digits(&b.qs[32..], narrow);
        digits(&b.qh, last);
    }
    BlockTq2_0, bits 4, group 32: |b, q, s, _o| {
        s.fill(f16_to_f32(b.d));
        for (q, qs) in q.chunks_exact_mut(128).zip(b.qs.chunks_exact(32)) {
            for (n, q) in q.chunks_exact_mut(32).enumerate() {
                for (q, bits) in q.iter_mut().zip(qs) {
                    *q = (bits >> (2 * n) & 3) as i8 - 1;
                }
            }
        }
    }
    BlockIq2Xxs, bits 7, group 32: |b, q, s, _o| {
        let d = f16_to_f32(b.d);
        for (g, (s, q)) in s.iter_mut().zip(q.chunks_exact_mut(32)).enumerate() {
            let word = |i: usize| u32::from(b.qs[4 * g + i]) | u32::from(b.qs[4 * g + i + 1]) << 16;
            let (indices, signs) = (word(0), word(2));
            *s = d * (0.5 + (signs >> 28) as f32) * 0.25;
            for (k, (q, index)) in q.chunks_exact_mut(8).zip(indices.to_le_bytes()).enumerate() {
                signed_eight(IQ2XXS_GRID[usize::from(index)], EVEN_SIGNS[(signs >> (7 * k) & 127) as usize], q);
            }
        }
    }
    BlockIq2Xs, bits 7, group 16: |b, q, s, _o| {
        fine_scales(f16_to_f32(b.d), &b.scales, s);
        for (q, code) in q.chunks_exact_mut(8).zip(b.qs) {
            signed_eight(IQ2XS_GRID[usize::from(code & 511)], EVEN_SIGNS[usize::from(code >> 9)], q);
        }
    }
    BlockIq2S, bits 7, group 16: |b, q, s, _o| {
        fine_scales(f16_to_f32(b.d), &b.scales, s);
        let (low, signs) = b.qs.split_at(32);
        for (k, (q, (low, signs))) in q.chunks_exact_mut(8).zip(low.iter().zip(signs)).enumerate() {
            let index = usize::from(*low) | usize::from(b.qh[k / 4] >> (k % 4 * 2) & 3) << 8;
            signed_eight(IQ2S_GRID[index], SIGNS[usize::from(*signs)], q);
        }
    }
    BlockIq3Xxs, bits 7, group 32: |b, q, s, _o| {
        let d = f16_to_f32(b.d);
        let (indices, words) = b.qs.split_at(64);
        let groups = q.chunks_exact_mut(32).zip(indices.chunks_exact(8)).zip(words.chunks_exact(4));
        for (s, ((q, indices), word)) in s.iter_mut().zip(groups) {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            *s = d * (0.5 + (word >> 28) as f32) * 0.5;
            for (k, (q, i)) in q.chunks_exact_mut(8).zip(indices.chunks_exact(2)).enumerate() {
                let grid = u64::from(IQ3XXS_GRID[usize::from(i[0])]) | u64::from(IQ3XXS_GRID[usize::from(i[1])]) << 32;
                signed_eight(grid, EVEN_SIGNS[(word >> (7 * k) & 127) as usize], q);
            }
        }
    }
    BlockIq3S, bits 5, group 32: |b, q, s, _o| {
        let d = f16_to_f32(b.d);
        for (g, s) in s.iter_mut().enumerate() {
            *s = d * f32::from(1 + 2 * (b.scales[g / 2] >> (g % 2 * 4) & 15));
        }
        let point = |k: usize| {
            u64::from(IQ3S_GRID[usize::from(b.qs[k]) | usize::from(b.qh[k / 8] >> (k % 8) & 1) << 8])
        };
        for (k, (q, signs)) in q.chunks_exact_mut(8).zip(b.signs).enumerate() {
            signed_eight(point(2 * k) | point(2 * k + 1) << 32, SIGNS[usize::from(signs)], q);
        }
    }
    // The values are eight times as large, so that they include the shift.
    BlockIq1S, bits 5, group 32: |b, q, s, _o| {
        let d = f16_to_f32(b.d);
        for (g, q) in q.chunks_exact_mut(32).enumerate() {
            let h = b.qh[g];
            s[g] = d * f32::from(2 * (h >> 12 & 7) + 1) * DELTA;
            for (k, q) in q.chunks_exact_mut(8).enumerate() {
                let index = usize::from(b.qs[4 * g + k]) | usize::from(h >> (3 * k) & 7) << 8;
                eight(eighths(IQ1S_GRID[index], h & 0x8000 != 0), q);
            }
        }
    }
    // The same. The shift changes every eight values here, but a scale is for 16.
    BlockIq1M, bits 5, group 16: |b, q, s, _o| {
        let d = f16_to_f32(b.d());
        for (g, s) in s.iter_mut().enumerate() {
            *s = d * f32::from(2 * b.scale_code(g) + 1) * DELTA;
        }
        for (k, q) in q.chunks_exact_mut(8).enumerate() {
            let high = b.qh[k / 2] >> (k % 2 * 4);
            let index = usize::from(b.qs[k]) | usize::from(high & 7) << 8;
            eight(eighths(IQ1S_GRID[index], high & 8 != 0), q);
        }
    }
}

/// Scales and offsets of Q4_K and Q5_K.
#[inline(always)]
fn affine_scales(d: u16, dmin: u16, packed: &[u8; 12], s: &mut [f32], o: &mut [f32]) {
    let (d, dmin) = (f16_to_f32(d), f16_to_f32(dmin));
    for (g, (s, o)) in s.iter_mut().zip(o).enumerate() {
        let (scale, offset) = scale_and_offset(g, packed);
        *s = d * f32::from(scale);
        *o = -dmin * f32::from(offset);
    }
}

/// Scales of IQ2_XS and IQ2_S.
#[inline(always)]
fn fine_scales(d: f32, codes: &[u8; 8], s: &mut [f32]) {
    for (g, s) in s.iter_mut().enumerate() {
        *s = d * (0.5 + f32::from(codes[g / 2] >> (g % 2 * 4) & 15)) * 0.25;
    }
}

/// Base-3 digits of TQ1_0 bytes, less one: as many digits of each byte as `q` has room for.
#[inline(always)]
fn digits(bytes: &[u8], q: &mut [i8]) {
    let mut power = 1u8;
    for q in q.chunks_exact_mut(bytes.len()) {
        for (q, b) in q.iter_mut().zip(bytes) {
            *q = ((u16::from(b.wrapping_mul(power)) * 3) >> 8) as i8 - 1;
        }
        power = power.wrapping_mul(3);
    }
}
