//! Interleaved weights: the blocks of as many rows as a vector has lanes, word by word, so that a lane has the data of
//! a row. No kernel needs sums or shuffles across lanes then, and weights are unpacked in registers.
//!
//! An interleaved block has the size of the blocks that it is made of. It begins with the 32-bit words of the blocks in
//! order, each as a vector with a word of each row. If the format has a separate scale of one or two bytes, before or
//! after its words ([`Shape`]), an array of these scales follows, with an element for each row.
//!
//! Files: this one has the kernels, generic over the instruction set ([`Words`]) and the format ([`Format`]); `block`
//! has the blocks and the trait of formats, `formats` the formats.
//!
//! Every result is one chain of additions in the order of `k`, as in a tile: the exact sum of a group, times its scale,
//! times the scale of the activations, is added to the result; then the offset times the sum of the activations.

pub mod block;
pub mod formats;

use super::form::{Act, Form};
use super::lanes::{Dots, Lanes};
use super::tile::{begin, put, start};
use super::words::Words;
use crate::quant::types;
use crate::sys::prefetch::{Later, prefetch, prefetch_near};
use block::{Block, Format, Shape};

/// Bytes from what is processed to what is loaded into the cache: two pages, because processors load ahead by
/// themselves up to the end of a page. Kernels request a part of a block at a time, because some processors stall if
/// there are many requests at once.
const AHEAD: usize = 8192;
/// The same for formats with a byte for each weight, which are loaded into the nearest cache.
const NEAR_AHEAD: usize = 4096;

/// The form of unpacked weights.
pub const fn form<D: Dots, F: Format>() -> Form {
    Form {
        group: F::GROUP,
        offsets: F::OFFSETS,
        bits: if !D::NARROW {
            8
        } else if F::BITS < 4 {
            4
        } else {
            F::BITS
        },
    }
}

/// By what the unpacked bytes of weights exceed them in a kernel of this module.
const fn bias<D: Dots, F: Format>() -> i32 {
    match (F::BITS, D::FLIP) {
        (8, 0) => 0,
        (8, _) => 128,
        _ => F::BIAS,
    }
}

/// [`Columns`] for `C` columns. The weights are unpacked once for all of them.
///
/// # Safety
/// As for [`Columns`], and the processor has the instruction set of `D`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
pub unsafe fn columns<D: Words, F: Format, const C: usize>(
    k: usize,
    strip: *const u8,
    ahead: bool,
    acts: *const *const u8,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    const SCALE: usize = Act::<32, false>::SCALE;
    const START: usize = Act::<32, false>::START;
    let (lanes, per, groups) = (D::Floats::N, F::SHAPE.values / 32, 32 / F::GROUP);
    let act_bytes = form::<D, F>().act_bytes();
    // SAFETY: the caller promises the blocks, the columns and the instruction set; block indices are below `k /
    // values`, and groups are those of the block.
    unsafe {
        let mut acc = [D::Floats::splat(0.0); C];
        for (c, acc) in acc.iter_mut().enumerate() {
            [*acc] = begin(*dst.add(c), rows, add);
        }
        let acts = acts.cast::<[*const u8; C]>().read_unaligned();
        for i in 0..k / F::SHAPE.values {
            let b = Block::<D>::new(strip.add(i * F::SHAPE.bytes * lanes));
            let part = F::SHAPE.bytes * lanes / per;
            macro_rules! group {
                ($($t:literal)*) => {$(
                    if $t < per {
                        if ahead {
                            if F::SHAPE.bytes >= F::SHAPE.values {
                                prefetch_near(b.at.wrapping_add(NEAR_AHEAD + $t * part), part);
                            } else {
                                prefetch(b.at.wrapping_add(AHEAD + $t * part), part);
                            }
                        }
                        let at = (i * per + $t) * act_bytes;
                        let codes = F::codes(b, $t);
                        for g in 0..groups {
                            let scale = F::scale(b, $t * groups + g);
                            for c in 0..C {
                                let at = acts[c].add(at);
                                let start = start::<D>(at.add(START + 4 * g), bias::<D, F>());
                                let sums = if groups == 1 {
                                    D::strip_group(start, codes, at, F::BITS)
                                } else {
                                    D::strip_group(start, half(codes, g), at.add(16 * g), F::BITS)
                                };
                                let d = D::Floats::splat(at.add(SCALE).cast::<f32>().read_unaligned());
                                // Else the compiler loads the activations of many groups first, and moves the sums to
                                // the end of the block: with more values than there are registers.
                                acc[c] = sums.to_floats().mul(scale).mul_add(d, acc[c]).computed();
                            }
                            if F::OFFSETS {
                                let offset = F::offset(b, $t * groups + g);
                                for c in 0..C {
                                    let sum = acts[c].add(at + START + 4 * (groups + g)).cast::<f32>();
                                    acc[c] = offset.mul_add(D::Floats::splat(sum.read_unaligned()), acc[c]);
                                }
                            }
                        }
                    }
                )*};
            }
            group!(0 1 2 3 4 5 6 7);
        }
        for (c, acc) in acc.into_iter().enumerate() {
            put([acc], *dst.add(c), rows);
        }
    }
}

/// The vectors of one of the two groups of 16 values.
#[inline(always)]
fn half<D: Copy>(codes: [D; 8], g: usize) -> [D; 4] {
    let [a0, a1, a2, a3, b0, b1, b2, b3] = codes;
    if g == 0 { [a0, a1, a2, a3] } else { [b0, b1, b2, b3] }
}

/// Parts of a panel to fill; see [`super::tile::BytePanel`].
#[derive(Clone, Copy)]
pub struct Unpacked {
    /// The bytes.
    pub q: *mut u8,
    /// The scales.
    pub scales: *mut f32,
    /// The offsets; not written if the format has none.
    pub offsets: *mut f32,
}

/// Unpacks a strip to a part of a panel that has `height` rows: bytes in the form of the format, scales and offsets.
///
/// # Safety
/// `strip` has `k` values of each row in interleaved blocks. The parts of `to` are writable for a panel of `k` values,
/// from the first row of the strip on. The processor has the instruction set of `D`.
#[inline(always)]
pub unsafe fn unpack<D: Words, F: Format>(k: usize, strip: *const u8, to: Unpacked, height: usize) {
    let more = form::<D, F>().bias::<D>() - bias::<D, F>();
    // SAFETY: the caller promises the instruction set.
    let more = unsafe { D::splat(i32::from_le_bytes([more as u8; 4])) };
    // SAFETY: the caller promises the panel and the instruction set; `four` is below a quarter of `k`.
    let put = |codes: D, four: usize| unsafe { codes.add_bytes(more).store(to.q.add(four * 4 * height)) };
    // SAFETY: forwarded to the caller.
    unsafe { unpack_with::<D, F>(k, strip, to, height, put) }
}

/// [`unpack`], where `put` stores the bytes of a vector of four values of each row; its second argument is their number
/// in the rows.
///
/// # Safety
/// As for [`unpack`], but for the bytes of the panel.
#[inline(always)]
pub unsafe fn unpack_with<D: Words, F: Format>(
    k: usize,
    strip: *const u8,
    to: Unpacked,
    height: usize,
    put: impl Fn(D, usize),
) {
    let (lanes, per, groups) = (D::Floats::N, F::SHAPE.values / 32, 32 / F::GROUP);
    // SAFETY: the caller promises the blocks, the panel and the instruction set; all indices are below those of `k`
    // values.
    unsafe {
        for i in 0..k / F::SHAPE.values {
            let b = Block::<D>::new(strip.add(i * F::SHAPE.bytes * lanes));
            macro_rules! group {
                ($($t:literal)*) => {$(
                    if $t < per {
                        let n = i * per + $t;
                        for (j, codes) in F::codes(b, $t).into_iter().enumerate() {
                            put(codes, 8 * n + j);
                        }
                        for g in 0..groups {
                            let at = (n * groups + g) * height;
                            F::scale(b, $t * groups + g).store(to.scales.add(at));
                            if F::OFFSETS {
                                F::offset(b, $t * groups + g).store(to.offsets.add(at));
                            }
                        }
                    }
                )*};
            }
            group!(0 1 2 3 4 5 6 7);
        }
    }
}

/// Interleaves `k` values of as many rows as there are lanes. Meanwhile as many bytes from `ahead` on begin to be
/// loaded into the cache; NULL: none.
///
/// # Safety
/// `rows` has an address for each lane, with `k` values in blocks of `F`. `strip` is writable for as many bytes, and
/// does not overlap them. The processor has the instruction set of `D`.
#[inline(always)]
pub unsafe fn interleave<D: Words, F: Format>(k: usize, rows: *const *const u8, strip: *mut u8, ahead: *const u8) {
    let Shape { values, bytes, words_at, words, scale_at, scale } = F::SHAPE;
    let lanes = D::Floats::N;
    // SAFETY: the caller promises the blocks, the strip and the instruction set; all offsets are inside of a block.
    unsafe {
        let mut later = Later::new(ahead);
        for i in 0..k / values {
            let (from, to) = (i * bytes, strip.add(i * bytes * lanes));
            if !ahead.is_null() {
                later.load(lanes * bytes);
            }
            // The last four words may overlap those before.
            for w in (0..words).step_by(4) {
                let w = w.min(words - 4);
                D::interleave_4(rows, from + words_at + 4 * w, to.add(4 * w * lanes));
            }
            let to = to.add(4 * words * lanes);
            let scales = if scale > 0 { lanes } else { 0 };
            for r in 0..scales {
                let from = rows.add(r).read().add(from + scale_at);
                if scale == 2 {
                    to.cast::<u16>().add(r).write_unaligned(from.cast::<u16>().read_unaligned());
                } else {
                    to.add(r).write(from.read());
                }
            }
        }
    }
}

/// Maximum number of lanes.
pub const MAX_LANES: usize = 16;

/// The reverse of [`interleave`]. The rows are `stride` bytes apart.
pub fn restore(f: &Interleaved, strip: &[u8], rows: &mut [u8], stride: usize) {
    let (Shape { bytes, words_at, words, scale_at, scale, .. }, lanes) = (f.shape, f.lanes);
    for (i, block) in strip.chunks_exact(bytes * lanes).enumerate() {
        for r in 0..lanes {
            let to = &mut rows[r * stride + i * bytes..][..bytes];
            for w in 0..words {
                to[words_at + 4 * w..][..4].copy_from_slice(&block[4 * (w * lanes + r)..][..4]);
            }
            to[scale_at..][..scale].copy_from_slice(&block[4 * words * lanes + scale * r..][..scale]);
        }
    }
}

/// Interleaves rows; see [`interleave`].
///
/// # Safety
/// As for that function.
pub type Interleave = unsafe fn(k: usize, rows: *const *const u8, strip: *mut u8, ahead: *const u8);

/// Adds the products of a strip and the number of columns of the kernel to the results of the first `rows` rows of the
/// strip. `add` is false for the first step of `k`: the results are not read then. If `ahead`, what comes after the
/// strip will be needed next: the kernel begins to load it into the cache.
///
/// # Safety
/// `strip` has `k` values of each row in interleaved blocks. `acts` and `dst` have as many pointers as the kernel has
/// columns: each in `acts` is readable for `k / 32` blocks of [`Act`] in the form of the format, and each in `dst` is
/// writable for `rows` floats (readable, too, if `add`).
pub type Columns = unsafe fn(
    k: usize,
    strip: *const u8,
    ahead: bool,
    acts: *const *const u8,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
);

/// Unpacks a strip; see [`unpack`].
///
/// # Safety
/// As for that function.
pub type Unpack = unsafe fn(k: usize, strip: *const u8, to: Unpacked, height: usize);

/// The kernels of a format.
#[derive(Clone, Copy)]
pub struct Interleaved {
    /// Rows of a strip.
    pub lanes: usize,
    /// Maximum number of columns for which [`Self::columns`] is faster than unpacking to panels for tiles.
    pub few: usize,
    /// Where the data of a block is.
    pub shape: Shape,
    /// The form of unpacked weights.
    pub form: Form,
    /// Interleaves rows.
    pub interleave: Interleave,
    /// Kernels with their number of columns, in descending order, down to one column.
    pub columns: &'static [(usize, Columns)],
    /// Unpacks into panels.
    pub unpack: Unpack,
}

/// The kernels of interleaved weights of an instruction set, by format; `None` for formats that are not interleaved.
pub type Table = [Option<Interleaved>; types::COUNT];

/// Maximum of [`Interleaved::few`].
pub const MAX_FEW: usize = 16;

/// Compiles the kernels for one instruction set, with a function `interleaved::table`.
macro_rules! instantiate {
    ($words:ty, few $few:literal, [$($cols:literal)*] $(, $features:literal)?) => {
        mod interleaved {
            use $crate::cpu::simd::interleave::{self, Interleaved, Table, block::Format, formats};
            use $crate::cpu::simd::lanes::{Dots, Lanes};
            use $crate::quant::types;

            type Floats = <$words as Dots>::Floats;

            $(#[target_feature(enable = $features)])?
            unsafe fn interleave<F: Format>(k: usize, rows: *const *const u8, strip: *mut u8, ahead: *const u8) {
                // SAFETY: this function enables the features, and the contract of `Interleave` covers the rest.
                unsafe { interleave::interleave::<$words, F>(k, rows, strip, ahead) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn columns<F: Format, const C: usize>(
                k: usize, strip: *const u8, ahead: bool, acts: *const *const u8, dst: *const *mut f32, rows: usize, add: bool,
            ) {
                // SAFETY: this function enables the features, and the contract of `Columns` covers the rest.
                unsafe { interleave::columns::<$words, F, C>(k, strip, ahead, acts, dst, rows, add) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn unpack<F: Format>(k: usize, strip: *const u8, to: interleave::Unpacked, height: usize) {
                // SAFETY: this function enables the features, and the contract of `Unpack` covers the rest.
                unsafe { interleave::unpack::<$words, F>(k, strip, to, height) }
            }
            const fn kernels<F: Format>() -> Option<Interleaved> {
                Some(Interleaved {
                    lanes: Floats::N,
                    few: $few,
                    shape: F::SHAPE,
                    form: interleave::form::<$words, F>(),
                    interleave: interleave::<F>,
                    columns: &[$(($cols, columns::<F, $cols>)),*],
                    unpack: unpack::<F>,
                })
            }
            pub fn table() -> Table {
                let mut all = [None; types::COUNT];
                $crate::cpu::simd::interleave::each_format!(kernels, all);
                all
            }
        }
    };
}
pub(super) use instantiate;

macro_rules! each_format {
    ($kernels:ident, $all:ident) => {
        use $crate::abi::ggml::ggml_type::*;
        for (t, kernels) in [
            (GGML_TYPE_Q4_0, $kernels::<formats::Q4_0>()),
            (GGML_TYPE_Q4_1, $kernels::<formats::Q4_1>()),
            (GGML_TYPE_Q5_0, $kernels::<formats::Q5_0>()),
            (GGML_TYPE_Q5_1, $kernels::<formats::Q5_1>()),
            (GGML_TYPE_Q8_0, $kernels::<formats::Q8_0>()),
            (GGML_TYPE_Q2_K, $kernels::<formats::Q2K>()),
            (GGML_TYPE_Q3_K, $kernels::<formats::Q3K>()),
            (GGML_TYPE_Q4_K, $kernels::<formats::Q4K>()),
            (GGML_TYPE_Q5_K, $kernels::<formats::Q5K>()),
            (GGML_TYPE_Q6_K, $kernels::<formats::Q6K>()),
            (GGML_TYPE_IQ4_NL, $kernels::<formats::Iq4Nl>()),
            (GGML_TYPE_IQ4_XS, $kernels::<formats::Iq4Xs>()),
            (GGML_TYPE_MXFP4, $kernels::<formats::Mxfp4>()),
            (GGML_TYPE_NVFP4, $kernels::<formats::Nvfp4>()),
            (GGML_TYPE_TQ1_0, $kernels::<formats::Tq1_0>()),
            (GGML_TYPE_TQ2_0, $kernels::<formats::Tq2_0>()),
            (GGML_TYPE_Q1_0, $kernels::<formats::Q1_0>()),
            (GGML_TYPE_Q2_0, $kernels::<formats::Q2_0>()),
        ] {
            $all[t as usize] = kernels;
        }
    };
}
pub(super) use each_format;
