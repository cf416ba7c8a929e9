//! Rows of blocks: dot products of every weight format with the activation formats, and the conversions to these. Written once
//! over [`Unpack`] and [`Dots`], compiled once for each instruction set; formats that matter most have kernels of their own
//! in the folders of the instruction sets.

use super::act;
use super::lanes::{AnyDots, Lanes, PlainDots, f16_to_f32};
use super::unpack::Unpack;
use crate::quant::{Block, Plain, q8_0::BlockQ8_0, q8_1::BlockQ8_1, q8_k::BlockQ8K};

/// Values that are taken apart at a time; a multiple of every block.
const BATCH: usize = 1024;
/// Groups in the largest block.
const GROUPS: usize = 16;

/// A block of activations.
pub trait Activation: Block {
    /// The scale.
    fn scale(&self) -> f32;
    /// The values.
    fn values(&self) -> &[i8];
    /// Sum of the values of group `g` of `size` (16 or 32), times the scale.
    fn sum(&self, g: usize, size: usize) -> f32;
}

impl Activation for BlockQ8_0 {
    #[inline(always)]
    fn scale(&self) -> f32 {
        f16_to_f32(self.d)
    }
    #[inline(always)]
    fn values(&self) -> &[i8] {
        &self.qs
    }
    #[inline(always)]
    fn sum(&self, g: usize, size: usize) -> f32 {
        self.scale() * self.qs[g * size..(g + 1) * size].iter().map(|q| i32::from(*q)).sum::<i32>() as f32
    }
}

impl Activation for BlockQ8_1 {
    #[inline(always)]
    fn scale(&self) -> f32 {
        f16_to_f32(self.d)
    }
    #[inline(always)]
    fn values(&self) -> &[i8] {
        &self.qs
    }
    #[inline(always)]
    fn sum(&self, _: usize, _: usize) -> f32 {
        f16_to_f32(self.s)
    }
}

impl Activation for BlockQ8K {
    #[inline(always)]
    fn scale(&self) -> f32 {
        self.d
    }
    #[inline(always)]
    fn values(&self) -> &[i8] {
        &self.qs
    }
    #[inline(always)]
    fn sum(&self, g: usize, size: usize) -> f32 {
        let n = size / 16;
        self.d * self.bsums[g * n..(g + 1) * n].iter().map(|s| i32::from(*s)).sum::<i32>() as f32
    }
}

/// A block by value, from memory of any alignment.
///
/// # Safety
/// Block `i` of the row at `row` is readable.
#[inline(always)]
pub unsafe fn block<B: Plain>(row: *const u8, i: usize) -> B {
    // SAFETY: the caller's promise; every bit pattern is a value.
    unsafe { row.cast::<B>().add(i).read_unaligned() }
}

/// Dot product of a row of weights and a row of activations.
///
/// # Safety
/// Both rows have `n` values, a multiple of both blocks; the instruction set of `D` is there, its lanes are eight, and it wants no flipped signs.
#[inline(always)]
pub unsafe fn vec_dot<D: AnyDots, B: Unpack, A: Activation>(n: usize, x: *const u8, y: *const u8) -> f32 {
    const { assert!(B::VALUES % A::VALUES == 0 && D::FLIP == 0 && D::Floats::N == 8) };
    let per = B::VALUES / A::VALUES;
    // SAFETY: block indices stay below n / VALUES; the rest is the caller's promise.
    unsafe {
        let mut total = D::Floats::splat(0.0);
        let mut shift = 0.0;
        let mut least = D::splat(0);
        let (mut q, mut scales, mut offsets) = ([0i8; BATCH], [0.0; BATCH / 16], [0.0; BATCH / 16]);
        let (blocks, batch, groups) = (n / B::VALUES, BATCH / B::VALUES, B::VALUES / B::GROUP);
        let mut first = 0;
        while first < blocks {
            // Several blocks are taken apart before any is used: what was just written in small pieces cannot be read at once in large ones.
            let here = batch.min(blocks - first);
            for i in 0..here {
                let (s, o) = (&mut scales[i * groups..], &mut offsets[i * groups..]);
                block::<B>(x, first + i).unpack(&mut q[i * B::VALUES..], s, o);
            }
            for j in 0..here * per {
                let a: A = block(y, first * per + j);
                let mut part = D::Floats::splat(0.0);
                for t in 0..A::VALUES / 32 {
                    let at = j * A::VALUES + 32 * t;
                    let w = D::load(q.as_ptr().add(at).cast());
                    let values = D::load(a.values().as_ptr().add(32 * t).cast());
                    least = least.least(values);
                    let dot = D::splat(0).dot4(w, values).to_floats();
                    let scale = if B::GROUP == 32 {
                        D::Floats::splat(scales[at / 32])
                    } else {
                        let (first, second) = (scales[at / 16], scales[at / 16 + 1]);
                        D::Floats::load([first, first, first, first, second, second, second, second].as_ptr())
                    };
                    part = dot.mul_add(scale, part);
                    if B::OFFSETS {
                        for g in 0..32 / B::GROUP {
                            shift += offsets[at / B::GROUP + g] * a.sum(32 / B::GROUP * t + g, B::GROUP);
                        }
                    }
                }
                total = part.mul_add(D::Floats::splat(a.scale()), total);
            }
            first += here;
        }
        if least.has_least() {
            return vec_dot_any::<B, A>(n, x, y);
        }
        total.sum() + shift
    }
}

/// The same for activations with bytes of -128, which are seldom: no conversion gives them, but a host's file may.
///
/// # Safety
/// As for [`vec_dot`].
#[cold]
#[inline(never)]
unsafe fn vec_dot_any<B: Unpack, A: Activation>(n: usize, x: *const u8, y: *const u8) -> f32 {
    // SAFETY: the caller's promise; these lanes need no instruction set.
    unsafe { vec_dot::<PlainDots, B, A>(n, x, y) }
}

/// Takes a row of weights apart: bytes (each `^ FLIP`), scales, offsets.
///
/// # Safety
/// `x` has `k` values, a multiple of the block; `q` is writable for `k` bytes, `scales` for `k / GROUP` floats, and `offsets` too
/// where the format has them.
#[inline(always)]
pub unsafe fn unpack_row<B: Unpack, const FLIP: u8>(
    x: *const u8,
    k: usize,
    q: *mut i8,
    scales: *mut f32,
    offsets: *mut f32,
) {
    let groups = B::VALUES / B::GROUP;
    let (mut bytes, mut s, mut o) = ([0i8; 256], [0.0; GROUPS], [0.0; GROUPS]);
    for i in 0..k / B::VALUES {
        // SAFETY: i < k / VALUES. The slices do not overlap and live for this round; the bytes written here were given to be written.
        unsafe {
            block::<B>(x, i).unpack(&mut bytes, &mut s, &mut o);
            for b in &mut bytes[..B::VALUES] {
                *b ^= FLIP as i8;
            }
            q.add(i * B::VALUES).copy_from_nonoverlapping(bytes.as_ptr(), B::VALUES);
            scales.add(i * groups).copy_from_nonoverlapping(s.as_ptr(), groups);
            if B::OFFSETS {
                offsets.add(i * groups).copy_from_nonoverlapping(o.as_ptr(), groups);
            }
        }
    }
}

/// A row as Q8_0.
///
/// # Safety
/// As for [`super::FromFloat`]; the instruction set of `V` is there.
#[inline(always)]
pub unsafe fn from_float_q8_0<V: Lanes>(x: *const f32, y: *mut u8, n: usize) {
    for i in 0..n / 32 {
        // SAFETY: i < n / 32.
        unsafe {
            let (d, qs) = act::levels(&x.add(32 * i).cast::<[f32; 32]>().read_unaligned());
            y.cast::<BlockQ8_0>().add(i).write_unaligned(BlockQ8_0 { d: half_bits::<V>(d), qs });
        }
    }
}

/// A row as Q8_1.
///
/// # Safety
/// As for [`super::FromFloat`]; the instruction set of `V` is there.
#[inline(always)]
pub unsafe fn from_float_q8_1<V: Lanes>(x: *const f32, y: *mut u8, n: usize) {
    for i in 0..n / 32 {
        // SAFETY: i < n / 32.
        unsafe {
            let (d, qs) = act::levels(&x.add(32 * i).cast::<[f32; 32]>().read_unaligned());
            let sum: i32 = qs.iter().map(|q| i32::from(*q)).sum();
            let block = BlockQ8_1 { d: half_bits::<V>(d), s: half_bits::<V>(d * sum as f32), qs };
            y.cast::<BlockQ8_1>().add(i).write_unaligned(block);
        }
    }
}

/// A row as Q8_K. The scale has the sign that maps the value of greatest magnitude, the first of them, on -127.
///
/// # Safety
/// As for [`super::FromFloat`].
#[inline(always)]
pub unsafe fn from_float_q8_k(x: *const f32, y: *mut u8, n: usize) {
    for i in 0..n / 256 {
        // SAFETY: i < n / 256; floats may be at any address that is a multiple of one, but we ask for no alignment.
        let x = unsafe { x.add(256 * i).cast::<[f32; 256]>().read_unaligned() };
        let top = act::greatest(&x);
        let mut b = BlockQ8K { d: 0.0, qs: [0; 256], bsums: [0; 16] };
        if top != 0.0 {
            let signed = x.iter().copied().find(|v| v.abs() == top).unwrap_or(top);
            let factor = -127.0 / signed;
            for (q, x) in b.qs.iter_mut().zip(&x) {
                *q = act::level(*x, factor).min(127) as i8;
            }
            for (s, q) in b.bsums.iter_mut().zip(b.qs.chunks_exact(16)) {
                *s = q.iter().map(|q| i16::from(*q)).sum();
            }
            b.d = 1.0 / factor;
        }
        // SAFETY: i < n / 256.
        unsafe { y.cast::<BlockQ8K>().add(i).write_unaligned(b) };
    }
}

/// Bits of the nearest half.
#[inline(always)]
unsafe fn half_bits<V: Lanes>(x: f32) -> u16 {
    let mut bits = [0u16; 16];
    // SAFETY: 16 halves are as many as any `V` has lanes; the instruction set is there: the caller's promise.
    unsafe { V::splat(x).store_f16(bits.as_mut_ptr()) };
    bits[0]
}

/// Compiles the dot products and conversions for one instruction set: a function `fill_blocks` that puts them into the table.
macro_rules! instantiate {
    ($lanes:ty, $dots:ty $(, $features:literal)?) => {
        /// The block kernels of this instruction set.
        mod block_kernels {
            use super::*;
            use $crate::cpu::simd::{blocks, unpack::Unpack};

            $(#[target_feature(enable = $features)])?
            pub unsafe fn vec_dot<B: Unpack, A: blocks::Activation>(n: usize, x: *const u8, y: *const u8) -> f32 {
                // SAFETY: the features are enabled here, the rest is the caller's promise.
                unsafe { blocks::vec_dot::<$dots, B, A>(n, x, y) }
            }
            $(#[target_feature(enable = $features)])?
            pub unsafe fn from_float_q8_0(x: *const f32, y: *mut u8, n: usize) {
                // SAFETY: the features are enabled here, the rest is the caller's promise.
                unsafe { blocks::from_float_q8_0::<$lanes>(x, y, n) }
            }
            $(#[target_feature(enable = $features)])?
            pub unsafe fn from_float_q8_1(x: *const f32, y: *mut u8, n: usize) {
                // SAFETY: the features are enabled here, the rest is the caller's promise.
                unsafe { blocks::from_float_q8_1::<$lanes>(x, y, n) }
            }
            $(#[target_feature(enable = $features)])?
            pub unsafe fn from_float_q8_k(x: *const f32, y: *mut u8, n: usize) {
                // SAFETY: the features are enabled here, the rest is the caller's promise.
                unsafe { blocks::from_float_q8_k(x, y, n) }
            }
        }

        fn fill_blocks(k: &mut Kernels) {
            use $crate::abi::ggml::ggml_type::*;
            use $crate::quant::*;
            $crate::quant::each_weight!($crate::cpu::simd::blocks::set_dots, (k));
            k.from_float[GGML_TYPE_Q8_0 as usize] = Some(block_kernels::from_float_q8_0);
            k.from_float[GGML_TYPE_Q8_1 as usize] = Some(block_kernels::from_float_q8_1);
            k.from_float[GGML_TYPE_Q8_K as usize] = Some(block_kernels::from_float_q8_k);
        }
    };
}
pub(super) use instantiate;

macro_rules! set_dots {
    (($k:ident) $($module:ident::$block:ident: $type:ident, align $align:literal, $kind:ident, dot $act:path, [$($name:ident)*];)*) => {$(
        $k.vec_dot[$type as usize] = Some(block_kernels::vec_dot::<$module::$block, $act>);
    )*};
}
pub(super) use set_dots;
