//! The formats whose blocks can be interleaved. `quant` documents them.

use super::block::{Block, Format, Shape};
use crate::cpu::simd::lanes::Lanes;
use crate::cpu::simd::words::Words;
use crate::quant::{iq4_nl::CURVE, mxfp4::FP4_DOUBLED};

/// Twice the values of E2M1, plus 16.
pub static FP4: [i8; 16] = {
    let mut all = FP4_DOUBLED;
    let mut i = 0;
    while i < 16 {
        all[i] += 16;
        i += 1;
    }
    all
};

/// The values of IQ4_NL for unsigned bytes.
static FLIPPED_CURVE: [i8; 16] = {
    let mut all = [0; 16];
    let mut i = 0;
    while i < 16 {
        all[i] = CURVE[i] ^ i8::MIN;
        i += 1;
    }
    all
};

/// An array of eight vectors. A closure might be compiled without the instruction set.
macro_rules! eight {
    ($i:ident => $value:expr) => {
        [
            {
                const $i: usize = 0;
                $value
            },
            {
                const $i: usize = 1;
                $value
            },
            {
                const $i: usize = 2;
                $value
            },
            {
                const $i: usize = 3;
                $value
            },
            {
                const $i: usize = 4;
                $value
            },
            {
                const $i: usize = 5;
                $value
            },
            {
                const $i: usize = 6;
                $value
            },
            {
                const $i: usize = 7;
                $value
            },
        ]
    };
}

macro_rules! with_simd {
    ($(unsafe fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty $body:block)*) => {$(
        #[inline(always)]
        unsafe fn $name<D: Words>($($arg: $ty),*) -> $ret {
            // SAFETY: the contract of `Format`: the block is readable, with the words and the scale of its `SHAPE`, and
            // the processor has the instruction set.
            unsafe { $body }
        }
    )*};
}

with_simd! {
    unsafe fn bytes(x: u8) -> D {
        D::splat(i32::from_le_bytes([x; 4]))
    }
    // Nibbles: the low ones, or the high ones for a shift by 4.
    unsafe fn nibbles(v: D, shift: i32) -> D {
        if shift == 4 { v.high_nibbles() } else { v.and(bytes(15)) }
    }
    // The low nibbles of four words, then the high ones, where `at` is the first word.
    unsafe fn both_nibbles(b: Block<D>, at: usize) -> [D; 8] {
        let w = [b.word(at), b.word(at + 1), b.word(at + 2), b.word(at + 3)];
        [
            nibbles(w[0], 0), nibbles(w[1], 0), nibbles(w[2], 0), nibbles(w[3], 0),
            nibbles(w[0], 4), nibbles(w[1], 4), nibbles(w[2], 4), nibbles(w[3], 4),
        ]
    }
    // Shifts to the left, or to the right if `n` is negative.
    unsafe fn shift(v: D, n: i32) -> D {
        if n >= 0 { v.left(n) } else { v.right(-n) }
    }
    // Byte `i` of each word.
    unsafe fn byte(v: D, i: usize) -> D {
        v.right(8 * i as i32).and(D::splat(255))
    }
    // Byte `i` of each word, with its sign.
    unsafe fn signed_byte(v: D, i: usize) -> D {
        v.left(24 - 8 * i as i32).signed_right(24)
    }
    unsafe fn negative(v: D::Floats) -> D::Floats {
        D::Floats::splat(-0.0).sub(v)
    }
    // Sets `bit` of the bytes of quad `i` of 32 values of which the word `flags` has a bit each.
    unsafe fn flagged(low: D, flags: D, i: usize, bit: u8) -> D {
        let mask = if i.is_multiple_of(2) { [1, 2, 4, 8] } else { [16, 32, 64, 128] };
        low.join(flags.repeat_byte(i / 2), D::splat(i32::from_le_bytes(mask)), bit)
    }
    unsafe fn five_bits(low: [D; 8], high: D) -> [D; 8] {
        eight!(I => flagged(low[I], high, I, 16))
    }
    // The four values of two bits of byte `i` of each word.
    unsafe fn spread(w: D, i: usize) -> D {
        let four = byte(w, i);
        let two = four.or(four.left(12));
        two.or(two.left(6)).and(bytes(3))
    }
    // Digit `n` of each byte in base 3: the highest of the byte times `3^n`.
    unsafe fn digit(w: D, n: usize) -> D {
        let mut w = w;
        for _ in 0..n {
            w = w.add_bytes(w.add_bytes(w));
        }
        let (even, odd) = (w.and(D::splat(0x00ff_00ff)), w.right(8).and(D::splat(0x00ff_00ff)));
        let (even, odd) = (even.add(even).add(even), odd.add(odd).add(odd));
        even.right(8).and(D::splat(0x0003_0003)).or(odd.and(D::splat(0x0300_0300)))
    }
    // The nibbles of eight words: the low ones, or the high ones for `which` 1.
    unsafe fn eight_nibbles(b: Block<D>, at: usize, which: usize) -> [D; 8] {
        eight!(I => nibbles(b.word(at + I), 4 * which as i32))
    }
    // The two bits number `which` of the bytes of eight words.
    unsafe fn two_bits(b: Block<D>, at: usize, which: usize) -> [D; 8] {
        eight!(I => b.word(at + I).right(2 * which as i32).and(bytes(3)))
    }
    unsafe fn look_up(values: &[i8; 16], codes: [D; 8]) -> [D; 8] {
        eight!(I => codes[I].look_up(values))
    }
    // The values of IQ4_NL `^ FLIP`.
    unsafe fn curve(codes: [D; 8]) -> [D; 8] {
        look_up(if D::FLIP == 0 { &CURVE } else { &FLIPPED_CURVE }, codes)
    }
    // 2^(e - 128): the exponent bits are e - 1, except for two subnormal numbers.
    unsafe fn power_of_two(e: D) -> D::Floats {
        e.add(D::splat(-1)).left(23).replace(e, 0, 0x0020_0000).replace(e, 1, 0x0040_0000).as_floats()
    }
    // Half of E4M3 without a sign, where 0x7f is zero. A half has the same bits, shifted, with another bias.
    unsafe fn small_float(code: D) -> D::Floats {
        code.and(D::splat(0x7f)).replace(code, 0x7f, 0).left(7).low_halves().mul(D::Floats::splat(128.0))
    }
    // Six bits for four groups of Q4_K and Q5_K: the scales, or the offsets for `which` 1.
    unsafe fn six_bits(b: Block<D>, which: usize, g: usize) -> D {
        let first = b.word(1 + which);
        if g < 4 {
            first.and(bytes(63))
        } else {
            nibbles(b.word(3), 4 * which as i32).insert(first.right(2), bytes(48))
        }
    }
    unsafe fn affine_scale(b: Block<D>, g: usize) -> D::Floats {
        b.word(0).low_halves().mul(byte(six_bits(b, 0, g), g % 4).to_floats())
    }
    unsafe fn affine_offset(b: Block<D>, g: usize) -> D::Floats {
        negative::<D>(b.word(0).right(16).low_halves()).mul(byte(six_bits(b, 1, g), g % 4).to_floats())
    }
}

/// Defines formats: constants, and methods with the names of their arguments.
macro_rules! formats {
    ($($name:ident { $($constant:ident: $ty:ty = $value:expr),* }
        scale($sb:ident, $sg:ident) $scale:block
        $(offset($ob:ident, $og:ident) $offset:block)?
        codes($cb:ident, $ct:ident) $codes:block
    )*) => {$(
        #[doc = concat!("Blocks of ", stringify!($name), ".")]
        pub struct $name;
        // SAFETY: the methods read words below those of the shape, for groups that the block has.
        unsafe impl Format for $name {
            $(const $constant: $ty = $value;)*
            with_simd! {
                unsafe fn scale($sb: Block<D>, $sg: usize) -> D::Floats $scale
                $(unsafe fn offset($ob: Block<D>, $og: usize) -> D::Floats $offset)?
                unsafe fn codes($cb: Block<D>, $ct: usize) -> [D; 8] $codes
            }
        }
    )*};
}

formats! {
    Q4_0 { SHAPE: Shape = Shape::scale_first(32, 2, 4), BITS: u32 = 4, BIAS: i32 = 8 }
    scale(b, _g) { b.halves(4) }
    codes(b, _t) { both_nibbles(b, 0) }

    Q4_1 { SHAPE: Shape = Shape::words(32, 5), BITS: u32 = 4, OFFSETS: bool = true }
    scale(b, _g) { b.word(0).low_halves() }
    offset(b, _g) { b.word(0).right(16).low_halves() }
    codes(b, _t) { both_nibbles(b, 1) }

    Q5_0 { SHAPE: Shape = Shape::scale_first(32, 2, 5), BITS: u32 = 5, BIAS: i32 = 16 }
    scale(b, _g) { b.halves(5) }
    codes(b, _t) { five_bits(both_nibbles(b, 1), b.word(0)) }

    Q5_1 { SHAPE: Shape = Shape::words(32, 6), BITS: u32 = 5, OFFSETS: bool = true }
    scale(b, _g) { b.word(0).low_halves() }
    offset(b, _g) { b.word(0).right(16).low_halves() }
    codes(b, _t) { five_bits(both_nibbles(b, 2), b.word(1)) }

    Q8_0 { SHAPE: Shape = Shape::scale_first(32, 2, 8), BITS: u32 = 8 }
    scale(b, _g) { b.halves(8) }
    codes(b, _t) {
        eight!(I => b.word(I).xor(bytes(D::FLIP)))
    }

    Iq4Nl { SHAPE: Shape = Shape::scale_first(32, 2, 4), BITS: u32 = 8 }
    scale(b, _g) { b.halves(4) }
    codes(b, _t) { curve(both_nibbles(b, 0)) }

    Mxfp4 { SHAPE: Shape = Shape::scale_first(32, 1, 4), BITS: u32 = 5, BIAS: i32 = 16 }
    scale(b, _g) { power_of_two(b.bytes(4)) }
    codes(b, _t) { look_up(&FP4, both_nibbles(b, 0)) }

    Nvfp4 { SHAPE: Shape = Shape::words(64, 9), BITS: u32 = 5, BIAS: i32 = 16, GROUP: usize = 16 }
    scale(b, g) { small_float(byte(b.word(0), g)) }
    codes(b, t) {
        let (a, c, d, e) = (b.word(4 * t + 1), b.word(4 * t + 2), b.word(4 * t + 3), b.word(4 * t + 4));
        let codes = [
            nibbles(a, 0), nibbles(c, 0), nibbles(a, 4), nibbles(c, 4), nibbles(d, 0), nibbles(e, 0), nibbles(d, 4), nibbles(e, 4),
        ];
        look_up(&FP4, codes)
    }

    Q2K { SHAPE: Shape = Shape::words(256, 21), BITS: u32 = 2, GROUP: usize = 16, OFFSETS: bool = true }
    scale(b, g) { b.word(20).low_halves().mul(byte(nibbles(b.word(g / 4), 0), g % 4).to_floats()) }
    offset(b, g) {
        negative::<D>(b.word(20).right(16).low_halves()).mul(byte(nibbles(b.word(g / 4), 4), g % 4).to_floats())
    }
    codes(b, t) { two_bits(b, 4 + 8 * (t / 4), t % 4) }

    Q3K { SHAPE: Shape = Shape::scale_last(256, 27), BITS: u32 = 3, BIAS: i32 = 4, GROUP: usize = 16 }
    scale(b, g) {
        // Four bits of a scale in the first two words, two in the third.
        let low = nibbles(b.word(24 + g / 4 % 2), 4 * (g / 8) as i32);
        let high = b.word(26).right(2 * (g / 4) as i32).and(bytes(3)).left(4);
        let code = byte(low.or(high), g % 4).add(D::splat(-32));
        b.halves(27).mul(code.to_floats())
    }
    codes(b, t) {
        let low = two_bits(b, 8 + 8 * (t / 4), t % 4);
        eight!(I => low[I].or(shift(b.word(I), 2 - t as i32).and(bytes(4))))
    }

    Q4K { SHAPE: Shape = Shape::words(256, 36), BITS: u32 = 4, OFFSETS: bool = true }
    scale(b, g) { affine_scale(b, g) }
    offset(b, g) { affine_offset(b, g) }
    codes(b, t) { eight_nibbles(b, 4 + 8 * (t / 2), t % 2) }

    Q5K { SHAPE: Shape = Shape::words(256, 44), BITS: u32 = 5, OFFSETS: bool = true }
    scale(b, g) { affine_scale(b, g) }
    offset(b, g) { affine_offset(b, g) }
    codes(b, t) {
        let low = eight_nibbles(b, 12 + 8 * (t / 2), t % 2);
        eight!(I => low[I].insert(shift(b.word(4 + I), 4 - t as i32), bytes(16)))
    }

    Q6K { SHAPE: Shape = Shape::scale_last(256, 52), BITS: u32 = 6, BIAS: i32 = 32, GROUP: usize = 16 }
    scale(b, g) { b.halves(52).mul(signed_byte(b.word(48 + g / 4), g % 4).to_floats()) }
    codes(b, t) {
        let (half, n) = (t / 4, t % 4);
        let low = eight_nibbles(b, 16 * half + 8 * (n % 2), n / 2);
        eight!(I => low[I].insert(shift(b.word(32 + 8 * half + I), 4 - 2 * n as i32), bytes(48)))
    }

    Iq4Xs { SHAPE: Shape = Shape::words(256, 34), BITS: u32 = 8 }
    scale(b, g) {
        let low = b.word(1).right(4 * g as i32).and(D::splat(15));
        let high = b.word(0).right(16 + 2 * g as i32).and(D::splat(3)).left(4);
        b.word(0).low_halves().mul(low.or(high).add(D::splat(-32)).to_floats())
    }
    codes(b, t) { curve(both_nibbles(b, 2 + 4 * t)) }

    Tq2_0 { SHAPE: Shape = Shape::scale_last(256, 16), BITS: u32 = 2, BIAS: i32 = 1 }
    scale(b, _g) { b.halves(16) }
    codes(b, t) { two_bits(b, 8 * (t / 4), t % 4) }

    Tq1_0 { SHAPE: Shape = Shape::scale_last(256, 13), BITS: u32 = 2, BIAS: i32 = 1 }
    scale(b, _g) { b.halves(13) }
    codes(b, t) {
        // Digits of 32 bytes, then those of 16, then those of four.
        match t {
            0..5 => eight!(I => digit(b.word(I), t)),
            7 => eight!(I => if I < 4 { digit(b.word(8 + I), 4) } else { digit(b.word(12), I % 4) }),
            _ => eight!(I => digit(b.word(8 + I % 4), 2 * (t - 5) + I / 4)),
        }
    }

    Q1_0 { SHAPE: Shape = Shape::scale_first(128, 2, 4), BITS: u32 = 2, BIAS: i32 = 1 }
    scale(b, _g) { b.halves(4) }
    codes(b, t) { eight!(I => flagged(D::splat(0), b.word(t), I, 2)) }

    Q2_0 { SHAPE: Shape = Shape::scale_first(64, 2, 4), BITS: u32 = 2, BIAS: i32 = 1 }
    scale(b, _g) { b.halves(4) }
    codes(b, t) { eight!(I => spread(b.word(2 * t + I / 4), I % 4)) }
}
