//! Matrix products of weights in blocks in tiles: weights are packed into panels, columns of activations are streamed,
//! and results accumulate in registers. The generic code over [`Lanes`] and [`Dots`] is compiled for each instruction
//! set.
//!
//! A *panel* has a fixed number of rows of weights, transposed so that a vector has the same element of several rows.
//! So kernels need no sums across lanes. Every result is one chain of additions in the order of `k`, in any tile, so
//! that results do not depend on the partition of the work.
//!
//! Weights in blocks are unpacked to signed bytes with a float scale (and offset) for every 16 or 32 values:
//! `w = scale * q + offset`. Activations are quantized to [`Act`] blocks: signed bytes with a float scale for every 32
//! values. Sums of their products are exact integers.

use super::form::{Act, Form};
use super::group::Groups;
pub use super::group::VECTORS;
use super::lanes::{Dots, Lanes};
use crate::quant::types;

/// Maximum number of columns of a tile.
pub const MAX_COLS: usize = 6;

/// Addresses of the parts of a panel of bytes.
#[derive(Clone, Copy)]
pub struct BytePanel {
    /// For every 4 values of `k`: 4 bytes of each row. For every 2 values, if they have 16 bits: those of each row.
    pub q: *const u8,
    /// For every group of values of `k`: a float of each row.
    pub scales: *const f32,
    /// The same; not read if the format has no offsets.
    pub offsets: *const f32,
}

/// Computes a tile: `rows` rows, at most those of a panel, by the number of columns of the kernel. Adds to the results
/// if `add`.
///
/// # Safety
/// `panel` has `k` values of its rows, a multiple of 32. `acts` and `dst` have as many pointers as the kernel has
/// columns: each in `acts` is readable for `k / 32` blocks of [`Act`] with the group and offset of the kernel, or for
/// what [`Spread`] writes if weights have 16 bits, and each in `dst` is writable for `rows` floats (readable, too, if
/// `add`).
pub type ByteTile =
    unsafe fn(k: usize, panel: BytePanel, acts: *const *const u8, dst: *const *mut f32, rows: usize, add: bool);

/// Widens a column of [`Act`] blocks without offsets, with a scale for each: `k` numbers of 16 bits, then `k / 32`
/// scales.
///
/// # Safety
/// `act` is readable for `k / 32` blocks, and `to` is writable for [`spread_bytes`]. The processor has the instruction
/// set of the kernel.
pub type Spread = unsafe fn(k: usize, act: *const u8, to: *mut u8);

/// Bytes of a column of `k` activations after [`Spread`].
pub const fn spread_bytes(k: usize) -> usize {
    2 * k + size_of::<f32>() * (k / 32)
}

/// The start of a column of a tile: zeros, or for `add` the first `rows` lanes of `N` vectors that are there. A result
/// is one chain of additions, however `k` is divided into steps.
///
/// # Safety
/// `dst` is readable for `rows` floats if `add`, and the processor has the instruction set of `V`.
#[inline(always)]
pub unsafe fn begin<V: Lanes, const N: usize>(dst: *const f32, rows: usize, add: bool) -> [V; N] {
    // SAFETY: the caller promises `rows` floats to read if `add`, of which `left` are from here, and the instruction
    // set.
    unsafe {
        let mut acc = [V::splat(0.0); N];
        if add {
            for (r, acc) in acc.iter_mut().enumerate() {
                let (left, dst) = (rows.saturating_sub(r * V::N), dst.wrapping_add(r * V::N));
                if left >= V::N {
                    *acc = V::load(dst);
                } else if left > 0 {
                    *acc = V::load_part(dst, left);
                }
            }
        }
        acc
    }
}

/// Stores a column of a tile: the first `rows` lanes of `N` vectors.
///
/// # Safety
/// `dst` is writable for `rows` floats, and the processor has the instruction set of `V`.
#[inline(always)]
pub unsafe fn put<V: Lanes, const N: usize>(acc: [V; N], dst: *mut f32, rows: usize) {
    for (r, acc) in acc.into_iter().enumerate() {
        let left = rows.saturating_sub(r * V::N);
        // SAFETY: the caller promises `rows` floats, of which `left` are from here, and the instruction set.
        unsafe {
            let dst = dst.wrapping_add(r * V::N);
            if left >= V::N {
                acc.store(dst);
            } else if left > 0 {
                acc.store_part(dst, left);
            }
        }
    }
}

/// The start of the sums of a group, at `p` in an [`Act`] block: minus what a bias (0 or a power of two) of the weights
/// adds.
///
/// # Safety
/// `p` is in a block of activations, and the processor has the instruction set of `D`.
#[inline(always)]
pub unsafe fn start<D: Dots>(p: *const u8, bias: i32) -> D {
    // SAFETY: the caller promises the block and the instruction set.
    unsafe {
        if bias == 0 {
            return D::splat(0);
        }
        // The number there is for a bias of 128.
        D::splat(p.cast::<i32>().read_unaligned()).signed_right(7 - bias.trailing_zeros() as i32)
    }
}

/// [`ByteTile`] for `C` columns and formats with a scale for every `GROUP` values, whose weights have `BITS` bits.
///
/// # Safety
/// As for [`ByteTile`], and the processor has the instruction set of `D`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
pub unsafe fn byte_tile<D: Groups, const C: usize, const GROUP: usize, const OFFSETS: bool, const BITS: u32>(
    k: usize,
    panel: BytePanel,
    acts: *const *const u8,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    let bias = Form { group: GROUP, offsets: OFFSETS, bits: BITS }.bias::<D>();
    // SAFETY: the contracts of `ByteTile` and `Dots`; all offsets are below `k` values of the panel and `k / 32` blocks
    // of a column.
    unsafe {
        let n = D::Floats::N;
        let mut acc = [[D::Floats::splat(0.0); VECTORS]; C];
        for (c, acc) in acc.iter_mut().enumerate() {
            *acc = begin(*dst.add(c), rows, add);
        }
        let acts = acts.cast::<[*const u8; C]>().read_unaligned();
        let BytePanel { mut q, mut scales, mut offsets } = panel;
        for block in 0..k / 32 {
            let at = block * Act::<GROUP, OFFSETS>::BYTES;
            for group in 0..32 / GROUP {
                let zero = |c: usize| start::<D>(acts[c].add(at + Act::<GROUP, OFFSETS>::START + 4 * group), bias);
                let a = acts.map(|act| act.add(at + group * GROUP));
                let sums = D::panel_group::<C, GROUP>(q, a, zero, BITS);
                q = q.add(GROUP * n * VECTORS);
                for r in 0..VECTORS {
                    let scale = D::Floats::load(scales.add(n * r));
                    for c in 0..C {
                        let d = D::Floats::splat(
                            acts[c].add(at + Act::<GROUP, OFFSETS>::SCALE).cast::<f32>().read_unaligned(),
                        );
                        acc[c][r] = sums[c][r].to_floats().mul(scale).mul_add(d, acc[c][r]);
                    }
                }
                scales = scales.add(n * VECTORS);
                if OFFSETS {
                    for r in 0..VECTORS {
                        let offset = D::Floats::load(offsets.add(n * r));
                        for c in 0..C {
                            let sum = acts[c].add(at + Act::<GROUP, OFFSETS>::SUM + 4 * group).cast::<f32>();
                            acc[c][r] = offset.mul_add(D::Floats::splat(sum.read_unaligned()), acc[c][r]);
                        }
                    }
                    offsets = offsets.add(n * VECTORS);
                }
            }
        }
        for (c, acc) in acc.into_iter().enumerate() {
            put(acc, *dst.add(c), rows);
        }
    }
}

/// Quantizes `k` floats (a multiple of 32) to [`Act`] blocks. The scale of a block with an infinity or NaN is NaN.
///
/// # Safety
/// `x` is readable for `k` floats, and `y` is writable for `k / 32` blocks. The processor has the instruction set of
/// `D`.
#[inline(always)]
pub unsafe fn act_row<D: Dots, const GROUP: usize, const OFFSETS: bool>(k: usize, x: *const f32, y: *mut u8) {
    for block in 0..k / 32 {
        // SAFETY: `block` is below `k / 32`, so the caller promises its floats, and that `y` is writable for the block.
        // All offsets are below `Act::BYTES`. The caller promises the instruction set.
        unsafe {
            let (scale, q, [first, last]) = D::quantize(x.add(32 * block));
            let scale = if scale.is_finite() { scale } else { f32::NAN };
            let y = y.add(block * Act::<GROUP, OFFSETS>::BYTES);
            y.cast::<[i8; 32]>().write_unaligned(q);
            y.add(Act::<GROUP, OFFSETS>::SCALE).cast::<f32>().write_unaligned(scale);
            let sums = if GROUP == 32 { [first + last, 0] } else { [first, last] };
            for (group, sum) in sums.into_iter().take(32 / GROUP).enumerate() {
                y.add(Act::<GROUP, OFFSETS>::START + 4 * group).cast::<i32>().write_unaligned(-128 * sum);
                if OFFSETS {
                    y.add(Act::<GROUP, OFFSETS>::SUM + 4 * group).cast::<f32>().write_unaligned(scale * sum as f32);
                }
            }
        }
    }
}

/// Transposes rows into a panel: word `c` of row `r`, at `src + r * src_stride + c`, goes to
/// `panel + c * rows_of_panel + r`.
///
/// # Safety
/// `src` is readable for as many rows of `words` words as a panel has, at the stride, and `panel` is writable for
/// `words` steps. The processor has the instruction set of `V`.
#[inline(always)]
pub unsafe fn transpose<V: Lanes>(words: usize, src: *const f32, src_stride: usize, panel: *mut f32) {
    let height = VECTORS * V::N;
    // SAFETY: the caller promises the rows, the panel and the instruction set. All indices are below `words` and the
    // rows of the panel.
    unsafe {
        for r in (0..height).step_by(V::N) {
            let mut c = 0;
            while c + V::N <= words {
                V::transpose(src.add(r * src_stride + c), src_stride, panel.add(c * height + r), height);
                c += V::N;
            }
            while c < words {
                for i in r..r + V::N {
                    let word = src.add(i * src_stride + c).cast::<u32>().read_unaligned();
                    panel.add(c * height + i).cast::<u32>().write_unaligned(word);
                }
                c += 1;
            }
        }
    }
}

/// Unpacks a row of weights; see [`super::batch::unpack_row`].
///
/// # Safety
/// As for that function.
pub type UnpackRow = unsafe fn(x: *const u8, k: usize, q: *mut i8, scales: *mut f32, offsets: *mut f32);

/// Quantizes a row of activations; see [`act_row`].
///
/// # Safety
/// As for that function.
pub type ActRow = unsafe fn(k: usize, x: *const f32, y: *mut u8);

/// Transposes rows into a panel; see [`transpose`].
///
/// # Safety
/// As for that function.
pub type Transpose = unsafe fn(words: usize, src: *const f32, src_stride: usize, panel: *mut f32);

/// The tile kernels for bytes.
#[derive(Clone, Copy)]
pub struct ByteTiles {
    /// Rows of a panel.
    pub height: usize,
    /// By [`Form::index`]: kernels with their number of columns, in descending order, down to one column. Empty for
    /// forms that have no format.
    pub kernels: [&'static [(usize, ByteTile)]; 21],
    /// Widens columns for weights of 16 bits, if there are such kernels.
    pub spread: Option<Spread>,
    /// Conversions of activations, by [`Form::act_index`].
    pub act: [ActRow; 4],
    /// Transposes rows into panels.
    pub transpose: Transpose,
    /// Unpacking by format; `None` for formats without blocks.
    pub unpack: [Option<Unpacker>; types::COUNT],
}

/// Unpacking of a format.
#[derive(Clone, Copy)]
pub struct Unpacker {
    /// Unpacks a row.
    pub row: UnpackRow,
    /// The form of the result.
    pub form: Form,
}

/// Compiles the byte tiles for one instruction set, with a function `byte_tiles::table`.
macro_rules! instantiate_bytes {
    ($dots:ty, [$($cols:literal)*], $more:ident $(, $features:literal)?) => {
        mod byte_tiles {
            use $crate::cpu::simd::{batch, form::Form, lanes::{Dots, Lanes}, tile, unpack::Unpack};
            $(#[target_feature(enable = $features)])?
            unsafe fn byte_tile<const C: usize, const GROUP: usize, const OFFSETS: bool, const BITS: u32>(
                k: usize, panel: tile::BytePanel, acts: *const *const u8, dst: *const *mut f32, rows: usize, add: bool,
            ) {
                // SAFETY: this function enables the features, and the contract of `ByteTile` covers the rest.
                unsafe { tile::byte_tile::<$dots, C, GROUP, OFFSETS, BITS>(k, panel, acts, dst, rows, add) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn unpack_row<B: Unpack>(x: *const u8, k: usize, q: *mut i8, scales: *mut f32, offsets: *mut f32) {
                // SAFETY: the contract of `UnpackRow`, which is that of `unpack_row`.
                unsafe { batch::unpack_row::<$dots, B>(x, k, q, scales, offsets) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn act_row<const GROUP: usize, const OFFSETS: bool>(k: usize, x: *const f32, y: *mut u8) {
                // SAFETY: the contract of `ActRow`, which is that of `act_row`.
                unsafe { tile::act_row::<$dots, GROUP, OFFSETS>(k, x, y) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn transpose(words: usize, src: *const f32, src_stride: usize, panel: *mut f32) {
                // SAFETY: this function enables the features, and the contract of `Transpose` covers the rest.
                unsafe { tile::transpose::<<$dots as Dots>::Floats>(words, src, src_stride, panel) }
            }
            const fn unpacker<B: Unpack>() -> tile::Unpacker {
                tile::Unpacker { row: unpack_row::<B>, form: Form::of::<$dots, B>() }
            }
            pub fn table() -> tile::ByteTiles {
                use $crate::abi::ggml::ggml_type::*;
                use $crate::quant::*;
                let mut unpack = [None; types::COUNT];
                $crate::quant::each_weight!($crate::cpu::simd::tile::set_unpackers, (unpack));
                tile::ByteTiles {
                    height: tile::VECTORS * <<$dots as Dots>::Floats as Lanes>::N,
                    kernels: {
                        let mut all: [&'static [(usize, tile::ByteTile)]; 21] = [&[]; 21];
                        all[0] = &[$(($cols, byte_tile::<$cols, 32, false, 8>)),*];
                        all[1] = &[$(($cols, byte_tile::<$cols, 32, true, 8>)),*];
                        all[2] = &[$(($cols, byte_tile::<$cols, 16, false, 8>)),*];
                        all[3] = &[$(($cols, byte_tile::<$cols, 16, true, 8>)),*];
                        $crate::cpu::simd::tile::$more!(all, byte_tile, [$($cols)*]);
                        all
                    },
                    spread: None,
                    act: [act_row::<32, false>, act_row::<32, true>, act_row::<16, false>, act_row::<16, true>],
                    transpose,
                    unpack,
                }
            }
        }
    };
}
pub(super) use instantiate_bytes;

/// Adds the kernels for weights of a few bits.
#[cfg(target_arch = "x86_64")]
macro_rules! narrow {
    ($all:ident, $tile:ident, [$($cols:literal)*]) => {
        // Q1_0, Q2_0, Q4_0, TQ1_0, TQ2_0; Q4_1, Q4_K; Q3_K; Q2_K.
        $all[4] = &[$(($cols, $tile::<$cols, 32, false, 4>)),*];
        $all[5] = &[$(($cols, $tile::<$cols, 32, true, 4>)),*];
        $all[6] = &[$(($cols, $tile::<$cols, 16, false, 4>)),*];
        $all[7] = &[$(($cols, $tile::<$cols, 16, true, 4>)),*];
        // Q5_0, IQ1_S, IQ3_S, MXFP4; Q5_1, Q5_K; IQ1_M, NVFP4.
        $all[8] = &[$(($cols, $tile::<$cols, 32, false, 5>)),*];
        $all[9] = &[$(($cols, $tile::<$cols, 32, true, 5>)),*];
        $all[10] = &[$(($cols, $tile::<$cols, 16, false, 5>)),*];
        // IQ2_XXS, IQ3_XXS; IQ2_XS, IQ2_S.
        $all[16] = &[$(($cols, $tile::<$cols, 32, false, 7>)),*];
        $all[18] = &[$(($cols, $tile::<$cols, 16, false, 7>)),*];
        // Q6_K.
        $all[14] = &[$(($cols, $tile::<$cols, 16, false, 6>)),*];
    };
}
#[cfg(target_arch = "x86_64")]
pub(super) use narrow;

/// Adds no kernels for weights of a few bits.
macro_rules! signed_only {
    ($all:ident, $tile:ident, [$($cols:literal)*]) => {};
}
pub(super) use signed_only;

macro_rules! set_unpackers {
    (($unpack:ident) $($module:ident::$block:ident: $type:ident, align $align:literal, $kind:ident, dot $act:path, [$($name:ident)*];)*) => {
        $( $unpack[$type as usize] = Some(unpacker::<$module::$block>()); )*
    };
}
pub(super) use set_unpackers;
