//! Rows of blocks: dot products of all weight formats with the activation formats, and conversion of activations. The
//! generic code over [`Unpack`] and [`Dots`] is compiled for each instruction set. The folders of the instruction sets
//! have faster kernels for some products.

use super::act;
use super::batch::{BATCH, Batch, block};
use super::lanes::{AnyDots, Lanes, Plain as PlainLanes, PlainDots};
use super::unpack::Unpack;
use crate::quant::convert::f16_to_f32;
use crate::quant::{Block, q8_0::BlockQ8_0, q8_1::BlockQ8_1, q8_k::BlockQ8K};

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

/// Dot product of a row of weights and a row of activations.
///
/// # Safety
/// As for [`super::table::VecDot`], with `n` a multiple of both blocks. The processor has the instruction set of `D`.
#[inline(always)]
pub unsafe fn vec_dot<D: AnyDots, B: Unpack, A: Activation>(n: usize, x: *const u8, y: *const u8) -> f32 {
    const { assert!(B::VALUES % A::VALUES == 0 && D::FLIP == 0 && D::Floats::N == 8) };
    let per = B::VALUES / A::VALUES;
    // SAFETY: the caller promises rows of `n` values and the instruction set; block indices are below n / VALUES.
    unsafe {
        let mut total = D::Floats::splat(0.0);
        let mut shift = 0.0;
        let mut least = D::splat(0);
        let mut batch = Batch::new();
        let (blocks, step) = (n / B::VALUES, BATCH / B::VALUES);
        for first in (0..blocks).step_by(step) {
            let here = step.min(blocks - first);
            batch.unpack::<B>(x, first, here);
            let Batch { q, scales, offsets } = &batch;
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
        }
        if least.has_least() {
            return vec_dot_any::<B, A>(n, x, y);
        }
        total.sum() + shift
    }
}

/// The same for activations with bytes of -128. They are rare: no conversion here produces them, but those of a host
/// may.
///
/// # Safety
/// As for [`vec_dot`], without an instruction set.
#[cold]
#[inline(never)]
pub unsafe fn vec_dot_any<B: Unpack, A: Activation>(n: usize, x: *const u8, y: *const u8) -> f32 {
    // SAFETY: the caller promises the rows that `vec_dot` requires, and `PlainDots` needs no instruction set.
    unsafe { vec_dot::<PlainDots, B, A>(n, x, y) }
}

/// Encodes a row as Q8_0, on every processor.
///
/// # Safety
/// As for [`super::table::FromFloat`].
pub unsafe fn from_float_q8_0(x: *const f32, y: *mut u8, n: usize) {
    for i in 0..n / 32 {
        // SAFETY: `i` is below `n / 32`, so the contract of `FromFloat` covers the floats and the block.
        unsafe {
            let (d, qs) = act::levels(&x.add(32 * i).cast::<[f32; 32]>().read_unaligned());
            y.cast::<BlockQ8_0>().add(i).write_unaligned(BlockQ8_0 { d: half_bits::<PlainLanes>(d), qs });
        }
    }
}

/// Encodes a row as Q8_1, on every processor.
///
/// # Safety
/// As for [`super::table::FromFloat`].
pub unsafe fn from_float_q8_1(x: *const f32, y: *mut u8, n: usize) {
    for i in 0..n / 32 {
        // SAFETY: `i` is below `n / 32`, so the contract of `FromFloat` covers the floats and the block.
        unsafe {
            let (d, qs) = act::levels(&x.add(32 * i).cast::<[f32; 32]>().read_unaligned());
            let sum: i32 = qs.iter().map(|q| i32::from(*q)).sum();
            let block = BlockQ8_1 { d: half_bits::<PlainLanes>(d), s: half_bits::<PlainLanes>(d * sum as f32), qs };
            y.cast::<BlockQ8_1>().add(i).write_unaligned(block);
        }
    }
}

/// Encodes a row as Q8_K. The sign of the scale is such that the first value of greatest magnitude becomes -127.
///
/// # Safety
/// As for [`super::table::FromFloat`].
#[inline(always)]
pub unsafe fn from_float_q8_k(x: *const f32, y: *mut u8, n: usize) {
    for i in 0..n / 256 {
        // SAFETY: `i` is below `n / 256`, so the contract of `FromFloat` covers the floats, and the read needs no
        // alignment.
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
        // SAFETY: `i` is below `n / 256`, so the contract of `FromFloat` covers the block, and the write needs no
        // alignment.
        unsafe { y.cast::<BlockQ8K>().add(i).write_unaligned(b) };
    }
}

/// Converts to the bits of the nearest half.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
pub unsafe fn half_bits<V: Lanes>(x: f32) -> u16 {
    let mut bits = [0u16; 16];
    // SAFETY: no `V` has more than 16 lanes, so `bits` has room for them. The caller promises the instruction set.
    unsafe { V::splat(x).store_f16(bits.as_mut_ptr()) };
    bits[0]
}

/// Compiles the dot products, matrix times column and the conversion to Q8_K for one instruction set, and defines a
/// function `fill_blocks` that sets the dot products and the conversion in the table.
macro_rules! instantiate {
    ($dots:ty $(, $features:literal)?) => {
        /// The block kernels of this instruction set.
        mod block_kernels {
            use $crate::cpu::simd::{blocks, gemv, unpack::Unpack};

            $(#[target_feature(enable = $features)])?
            pub unsafe fn vec_dot<B: Unpack, A: blocks::Activation>(n: usize, x: *const u8, y: *const u8) -> f32 {
                // SAFETY: this function enables the features, and the contract of `VecDot` covers the rest.
                unsafe {
                    if <$dots as $crate::cpu::simd::lanes::AnyDots>::FOR_ALL {
                        // Not compiled a second time: it is 49 KB for all formats.
                        return blocks::vec_dot_any::<B, A>(n, x, y);
                    }
                    blocks::vec_dot::<$dots, B, A>(n, x, y)
                }
            }
            $(#[target_feature(enable = $features)])?
            pub unsafe fn rows<B: Unpack>(k: usize, x: *const u8, stride: usize, rows: usize, act: *const u8, dst: *mut f32) {
                // SAFETY: this function enables the features, and the contract of `Rows` covers the rest.
                unsafe { gemv::unpacked_rows::<$dots, B>(k, x, stride, rows, act, dst) }
            }
            $(#[target_feature(enable = $features)])?
            pub unsafe fn from_float_q8_k(x: *const f32, y: *mut u8, n: usize) {
                // SAFETY: this function enables the features, and the contract of `FromFloat` covers the rest.
                unsafe { blocks::from_float_q8_k(x, y, n) }
            }
        }

        fn fill_blocks(k: &mut Kernels) {
            use $crate::abi::ggml::ggml_type::*;
            use $crate::quant::*;
            $crate::quant::each_weight!($crate::cpu::simd::blocks::set_dots, (k));
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

/// Sets matrix times column of all formats in the table `$k`, which has the tiles of this level.
macro_rules! set_rows {
    (($k:ident) $($module:ident::$block:ident: $type:ident, align $align:literal, $kind:ident, dot $act:path, [$($name:ident)*];)*) => {$(
        $k.set_gemv($type, block_kernels::rows::<$module::$block>);
    )*};
}
pub(super) use set_rows;
