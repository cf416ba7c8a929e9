//! Matrix times column for rows as they are in a file, on 64-bit ARM. Eight rows are processed at once, and a lane of a
//! vector of results is a row, as in a panel. So every result is one chain of additions in the order of `k`, and has
//! the same bits as in a tile (`tile::byte_tile`). `codes` has the formats.
//!
//! A vector has sixteen values of a row, and the sums of its products are in four lanes. Those of four rows become one
//! vector by two levels of additions of pairs.

use super::dots::{NeonDots, dot_16};
use super::lanes::Neon;
use crate::cpu::simd::form::{Act, Form};
use crate::cpu::simd::gemv::{ahead, with_simd};
use crate::cpu::simd::interleave::block::{Block, Format};
use crate::cpu::simd::lanes::{Dots, Lanes};
use crate::cpu::simd::tile::{put, start};
use crate::cpu::simd::words::Words;
use crate::sys::prefetch::Later;
use std::arch::aarch64::*;
use std::mem::MaybeUninit;

/// Rows that are processed at once.
pub const ROWS: usize = 8;

/// The rows, at the current block.
pub type Rows8 = [*const u8; ROWS];

/// A group of 32 values of a row.
pub type Values = [int8x16_t; 2];

/// How weights become bytes.
pub trait Codes {
    /// Bytes of a block.
    const BYTES: usize;
    /// What is added to the values: 0 or a power of two.
    const BIAS: i32 = 0;
    /// Whether there is a scale for every 16 values, not for every 32.
    const FINE: bool = false;
    /// Whether there is an offset for each scale.
    const OFFSETS: bool = false;
}

/// A block of 32 values with one scale.
///
/// # Safety
/// The methods read at most `BYTES` bytes at each pointer. Call them only if these are readable.
pub unsafe trait Small: Codes {
    /// The scales and offsets of eight blocks.
    unsafe fn scales(x: &Rows8) -> (Neon, Neon);
    /// The values of a block.
    unsafe fn codes(x: *const u8) -> Values;
}

/// A block of 256 values. Its scales are computed as those of an interleaved block, with a row in each lane.
///
/// # Safety
/// As for [`Small`]. All words that the scales are computed from are in the runs.
pub unsafe trait Super: Codes {
    /// The interleaved format.
    type Interleaved: Format;
    /// Runs of four words that scales and offsets are computed from: the numbers of their first words.
    const WORDS: &'static [usize];
    /// Values `64 * J` to `64 * J + 63` of a block.
    unsafe fn codes<const J: usize>(x: *const u8) -> [Values; 2];
}

with_simd! {
    // The bits of the numbers of 16 bits at `at` in each row.
    unsafe fn words16(x: &Rows8, at: usize) -> uint16x8_t {
        let h = x.map(|x| x.add(at).cast::<u16>().read_unaligned());
        let all = vsetq_lane_u16::<0>(h[0], vdupq_n_u16(0));
        let all = vsetq_lane_u16::<1>(h[1], all);
        let all = vsetq_lane_u16::<2>(h[2], all);
        let all = vsetq_lane_u16::<3>(h[3], all);
        let all = vsetq_lane_u16::<4>(h[4], all);
        let all = vsetq_lane_u16::<5>(h[5], all);
        let all = vsetq_lane_u16::<6>(h[6], all);
        vsetq_lane_u16::<7>(h[7], all)
    }
    // The halves at `at` in each row.
    pub unsafe fn halves(x: &Rows8, at: usize) -> Neon {
        Neon::of_halves(words16(x, at))
    }
    // Sums of the lanes of each of four vectors.
    unsafe fn totals_4(v: [int32x4_t; 4]) -> int32x4_t {
        let [a, b, c, d] = v;
        vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d))
    }
}

/// Sums of the lanes of a vector of each row.
#[inline(always)]
unsafe fn totals<const DOT: bool>([a, b, c, d, e, f, g, h]: [int32x4_t; ROWS]) -> NeonDots<DOT> {
    // SAFETY: every 64-bit ARM has the instructions.
    unsafe { NeonDots::of([totals_4([a, b, c, d]), totals_4([e, f, g, h])]) }
}

/// Sums of products of a group of 32 values of a row.
#[inline(always)]
unsafe fn coarse<const DOT: bool>(w: Values, a: Values) -> int32x4_t {
    // SAFETY: the caller promises the instruction set.
    unsafe { dot_16::<DOT>(dot_16::<DOT>(vdupq_n_s32(0), w[0], a[0]), w[1], a[1]) }
}

/// Adds the products of a group, whose sums in integers are `sums`, in the order of a tile. `at` is the [`Act`] block,
/// `group` the number of the group in it.
#[inline(always)]
unsafe fn add_group<C: Codes, const DOT: bool>(
    acc: Neon,
    sums: NeonDots<DOT>,
    (scale, offset): (Neon, Neon),
    at: *const u8,
    group: usize,
) -> Neon {
    const SCALE: usize = Act::<32, false>::SCALE;
    const START: usize = Act::<32, false>::START;
    let groups = if C::FINE { 2 } else { 1 };
    // SAFETY: `at` is a block of activations, and all offsets are inside. Every 64-bit ARM has the instructions.
    unsafe {
        let sums = match C::BIAS {
            0 => sums,
            bias => sums.add(start(at.add(START + 4 * group), bias)),
        };
        let d = Neon::splat(at.add(SCALE).cast::<f32>().read_unaligned());
        let acc = sums.to_floats().mul(scale).mul_add(d, acc);
        if !C::OFFSETS {
            return acc;
        }
        let sum = at.add(START + 4 * (groups + group)).cast::<f32>().read_unaligned();
        offset.mul_add(Neon::splat(sum), acc)
    }
}

/// The form of activations.
pub const fn form<C: Codes>() -> Form {
    Form { group: if C::FINE { 16 } else { 32 }, offsets: C::OFFSETS, bits: 8 }
}

/// The values of a block of activations.
#[inline(always)]
unsafe fn values(at: *const u8) -> Values {
    // SAFETY: the caller promises the block.
    unsafe { [vld1q_s8(at.cast()), vld1q_s8(at.add(16).cast())] }
}

/// Dot products of eight rows of [`Small`] blocks. `ahead` bytes further are the rows that come next.
#[inline(always)]
unsafe fn small_rows<B: Small, const DOT: bool>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> Neon {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below
    // `k / 32`.
    unsafe {
        let mut acc = Neon::splat(0.0);
        let mut later = Later::new(x[0].wrapping_add(ahead));
        for i in 0..k / 32 {
            let x = x.map(|x| x.add(i * B::BYTES));
            later.load(ROWS * B::BYTES);
            let at = act.add(i * form::<B>().act_bytes());
            let a = values(at);
            let mut sums = [vdupq_n_s32(0); ROWS];
            for r in 0..ROWS {
                sums[r] = coarse::<DOT>(B::codes(x[r]), a);
            }
            acc = add_group::<B, DOT>(acc, totals(sums), B::scales(&x), at, 0);
        }
        acc
    }
}

/// Words of the interleaved blocks at most, and a vector for their separate scales.
const MAX_WORDS: usize = 53;

/// As [`small_rows`], for [`Super`] blocks.
#[inline(always)]
unsafe fn super_rows<B: Super, const DOT: bool>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> Neon {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below
    // `k / 256`, and the words are those of the contract of `Super`.
    unsafe {
        let shape = <B::Interleaved as Format>::SHAPE;
        let mut words = [MaybeUninit::<[u8; 32]>::uninit(); MAX_WORDS];
        assert!(shape.words < MAX_WORDS && shape.scale % 2 == 0);
        let mut acc = Neon::splat(0.0);
        let mut later = Later::new(x[0].wrapping_add(ahead));
        for i in 0..k / 256 {
            let x = x.map(|x| x.add(i * B::BYTES));
            later.load(ROWS * B::BYTES);
            for run in B::WORDS {
                NeonDots::<DOT>::interleave_4(x.as_ptr(), 4 * run, words.as_mut_ptr().cast::<u8>().add(32 * run));
            }
            if shape.scale > 0 {
                vst1q_u16(words.as_mut_ptr().add(shape.words).cast(), words16(&x, shape.scale_at));
            }
            let b = Block::<NeonDots<DOT>>::new(words.as_ptr().cast());
            let scales = |g: usize| {
                let offset = if B::OFFSETS { <B::Interleaved as Format>::offset(b, g) } else { Neon::splat(0.0) };
                (<B::Interleaved as Format>::scale(b, g), offset)
            };
            macro_rules! chunk {
                ($j:literal) => {
                    let at = act.add((8 * i + 2 * $j) * form::<B>().act_bytes());
                    let at = [at, at.add(form::<B>().act_bytes())];
                    let a = [values(at[0]), values(at[1])];
                    // Of each of the two blocks of activations, the sums of its groups: of four rows at a time, as
                    // there are not enough registers for those of eight.
                    let mut sums = [[[vdupq_n_s32(0); 2]; 2]; 2];
                    for quad in 0..2 {
                        let mut four = [[[vdupq_n_s32(0); 4]; 2]; 2];
                        for r in 0..4 {
                            let w = B::codes::<$j>(x[4 * quad + r]);
                            for h in 0..2 {
                                if B::FINE {
                                    four[h][0][r] = dot_16::<DOT>(vdupq_n_s32(0), w[h][0], a[h][0]);
                                    four[h][1][r] = dot_16::<DOT>(vdupq_n_s32(0), w[h][1], a[h][1]);
                                } else {
                                    four[h][0][r] = coarse::<DOT>(w[h], a[h]);
                                }
                            }
                        }
                        for h in 0..2 {
                            sums[h][0][quad] = totals_4(four[h][0]);
                            if B::FINE {
                                sums[h][1][quad] = totals_4(four[h][1]);
                            }
                        }
                    }
                    let sums = |h: usize, half: usize| NeonDots::<DOT>::of(sums[h][half]);
                    for h in 0..2 {
                        if B::FINE {
                            acc = add_group::<B, DOT>(acc, sums(h, 0), scales(4 * $j + 2 * h), at[h], 0);
                            acc = add_group::<B, DOT>(acc, sums(h, 1), scales(4 * $j + 2 * h + 1), at[h], 1);
                        } else {
                            acc = add_group::<B, DOT>(acc, sums(h, 0), scales(2 * $j + h), at[h], 0);
                        }
                    }
                };
            }
            chunk!(0);
            chunk!(1);
            chunk!(2);
            chunk!(3);
        }
        acc
    }
}

/// [`Rows`](crate::cpu::simd::gemv::Rows) by a function for eight rows.
///
/// # Safety
/// As for that type, and `eight` computes the rows at its addresses.
#[inline(always)]
unsafe fn by_eight(x: *const u8, stride: usize, rows: usize, dst: *mut f32, eight: impl Fn(Rows8, usize) -> Neon) {
    let mut r = 0;
    while r < rows {
        let n = ROWS.min(rows - r);
        // Where fewer are left, the last one is repeated.
        let x = std::array::from_fn(|i| x.wrapping_add((r + i.min(n - 1)) * stride));
        // SAFETY: the caller promises `rows` results, of which these are `n`.
        unsafe { put([eight(x, ahead(ROWS, stride))], dst.add(r), n) };
        r += n;
    }
}

macro_rules! kernels {
    ($($name:ident, $kind:ident, $rows:ident, $dot:literal, $features:literal;)*) => {$(
        /// [`Rows`](crate::cpu::simd::gemv::Rows).
        ///
        /// # Safety
        /// As for that type, and the processor has the features.
        #[target_feature(enable = $features)]
        pub unsafe fn $name<B: $kind>(k: usize, x: *const u8, stride: usize, rows: usize, act: *const u8, dst: *mut f32) {
            // SAFETY: the contract of `gemv::Rows`. The features of this function are those that the callees require.
            unsafe { by_eight(x, stride, rows, dst, |x, ahead| $rows::<B, $dot>(k, x, ahead, act)) }
        }
    )*};
}
kernels! {
    small, Small, small_rows, false, "neon";
    large, Super, super_rows, false, "neon";
    small_dot, Small, small_rows, true, "neon,dotprod";
    large_dot, Super, super_rows, true, "neon,dotprod";
}
