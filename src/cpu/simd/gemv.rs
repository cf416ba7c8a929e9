//! Matrix times column for weights in blocks, which dominates the time of text generation. Several rows are processed
//! at once, so that they share the work on the column.

use super::batch::{BATCH, Batch};
use super::form::{self, Form};
use super::lanes::{AnyDots, Dots, Lanes};
use super::unpack::Unpack;

/// Dot products of `rows` rows of weights with one row of activations.
///
/// # Safety
/// `x` has `rows` readable rows of `k` values, `stride` bytes apart, where `k` is a multiple of the block. `act` is a
/// row of `k` activations in the layout of the [`Gemv`], and `dst` is writable for `rows` floats.
pub type Rows = unsafe fn(k: usize, x: *const u8, stride: usize, rows: usize, act: *const u8, dst: *mut f32);

/// How far ahead of the rows that are multiplied others are loaded, at least: short rows would be needed before they
/// have arrived. On Zen 5, memory is fastest from 4 KiB on.
const AHEAD: usize = 8192;

/// By how many bytes what is loaded is ahead of `together` rows that are multiplied at once.
#[inline(always)]
pub fn ahead(together: usize, stride: usize) -> usize {
    (together * stride).max(AHEAD)
}

/// [`Rows`] of every format, with activations in blocks of [`form::Act`]: unpacks one row after the other, and adds in
/// the order of a tile.
///
/// # Safety
/// As for [`Rows`], and the processor has the instruction set of `D`.
#[inline(always)]
pub unsafe fn unpacked_rows<D: AnyDots, B: Unpack>(
    k: usize,
    x: *const u8,
    stride: usize,
    rows: usize,
    act: *const u8,
    dst: *mut f32,
) {
    const { assert!(D::FLIP == 0 && D::Floats::N == 8) };
    let form = Form { group: B::GROUP, offsets: B::OFFSETS, bits: 8 };
    let (act_bytes, groups) = (form.act_bytes(), 32 / B::GROUP);
    let (scale_at, sum_at) = (form::Act::<32, false>::SCALE, form::Act::<32, false>::START + 4 * groups);
    let mut batch = Batch::new();
    for r in 0..rows {
        let row = x.wrapping_add(r * stride);
        // SAFETY: the caller promises rows and activations of `k` values and the instruction set; block indices are
        // below `k / VALUES`, or `k / 32` for activations.
        unsafe {
            // All lanes have the result.
            let mut acc = D::Floats::splat(0.0);
            for first in (0..k).step_by(BATCH) {
                let n = BATCH.min(k - first);
                batch.unpack::<B>(row, first / B::VALUES, n / B::VALUES);
                let Batch { q, scales, offsets } = &batch;
                for t in 0..n / 32 {
                    let at = act.add((first / 32 + t) * act_bytes);
                    let w = D::load(q.as_ptr().add(32 * t).cast());
                    let (all, halves) = D::splat(0).dot4(w, D::load(at)).totals();
                    let d = D::Floats::splat(at.add(scale_at).cast::<f32>().read_unaligned());
                    for g in 0..groups {
                        let sum = if groups == 1 { all } else { halves[g] };
                        let scale = D::Floats::splat(scales[groups * t + g]);
                        acc = D::splat(sum).to_floats().mul(scale).mul_add(d, acc);
                        if B::OFFSETS {
                            let sum = D::Floats::splat(at.add(sum_at + 4 * g).cast::<f32>().read_unaligned());
                            acc = D::Floats::splat(offsets[groups * t + g]).mul_add(sum, acc);
                        }
                    }
                }
            }
            let mut result = [0.0; 8];
            acc.store(result.as_mut_ptr());
            dst.add(r).write_unaligned(result[0]);
        }
    }
}

/// Layout of a row of activations: values as bytes, a scale for every 32 values, and the scaled sums of every 32 and of
/// every 16 values. Each part is padded with zeros to a multiple of 512 values.
#[derive(Clone, Copy)]
pub struct WideAct {
    /// Number of values with padding.
    padded: usize,
}

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
impl WideAct {
    /// Layout for rows of `k` values.
    #[inline(always)]
    pub const fn new(k: usize) -> Self {
        Self { padded: k.next_multiple_of(512) }
    }
    /// Offset of the scales. The values are at 0.
    #[inline(always)]
    pub const fn scales(self) -> usize {
        self.padded
    }
    /// Offset of the sums of every 32 values.
    #[inline(always)]
    pub const fn sums(self) -> usize {
        self.padded + self.padded / 8
    }
    /// Offset of the sums of every 16 values.
    #[inline(always)]
    pub const fn fine_sums(self) -> usize {
        self.padded + self.padded / 4
    }
    /// Size of the row in bytes.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        self.padded + self.padded / 2
    }
}

/// Quantizes `k` floats (a multiple of 32) to a [`WideAct`] row. The scale of a group with an infinity or NaN is NaN.
///
/// # Safety
/// `x` is readable for `k` floats, and `y` is writable for the bytes of the row. The processor has the instruction set
/// of `D`.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub unsafe fn act_row<D: Dots>(k: usize, x: *const f32, y: *mut u8) {
    let layout = WideAct::new(k);
    // SAFETY: the caller promises the floats, the bytes of the row and the instruction set. All offsets are inside its
    // parts, for blocks below padded / 32.
    unsafe {
        let (scales, sums) = (y.add(layout.scales()).cast::<f32>(), y.add(layout.sums()).cast::<f32>());
        let fine_sums = y.add(layout.fine_sums()).cast::<[f32; 2]>();
        for i in 0..k / 32 {
            let (scale, q, [a, b]) = D::quantize(x.add(32 * i));
            let scale = if scale.is_finite() { scale } else { f32::NAN };
            y.cast::<[i8; 32]>().add(i).write_unaligned(q);
            scales.add(i).write_unaligned(scale);
            sums.add(i).write_unaligned(scale * (a + b) as f32);
            fine_sums.add(i).write_unaligned([scale * a as f32, scale * b as f32]);
        }
        for i in k / 32..layout.padded / 32 {
            y.cast::<[i8; 32]>().add(i).write_unaligned([0; 32]);
            scales.add(i).write_unaligned(0.0);
            sums.add(i).write_unaligned(0.0);
            fine_sums.add(i).write_unaligned([0.0; 2]);
        }
    }
}

/// How a row of activations is stored.
#[derive(Clone, Copy)]
pub enum RowForm {
    /// As a [`WideAct`] row.
    Wide,
    /// In blocks of [`super::form::Act`] for this form.
    Blocks(Form),
}

/// Quantizes `k` floats.
///
/// # Safety
/// `x` is readable for `k` floats, a multiple of 32, and `y` is writable for a row in the layout.
pub type Act = unsafe fn(k: usize, x: *const f32, y: *mut u8);

/// The matrix times column functions of a format.
#[derive(Clone, Copy)]
pub struct Gemv {
    /// The layout of the activations.
    pub layout: RowForm,
    /// Quantizes floats to a row in this layout.
    pub act: Act,
    /// The dot products.
    pub rows: Rows,
    /// Whether it is for matrices with fewer rows than a tile: with more, interleaving them is faster even for one
    /// column.
    pub few_rows: bool,
}

impl RowForm {
    /// Bytes of a row of `k` activations.
    pub fn act_bytes(self, k: usize) -> usize {
        match self {
            Self::Wide => WideAct::new(k).bytes(),
            Self::Blocks(form) => k / 32 * form.act_bytes(),
        }
    }
}

/// Functions of the formats of rows as they are in a file, inlined into kernels that enable the instruction set.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! with_simd {
    ($($vis:vis unsafe fn $name:ident $(<const $j:ident: $jt:ty>)? ($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)*) => {$(
        #[inline(always)]
        $vis unsafe fn $name $(<const $j: $jt>)? ($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the contracts of the traits of formats: the processor has the instructions, and the bytes of the
            // blocks are readable.
            unsafe { $body }
        }
    )*};
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use with_simd;

/// Declares formats: `Name { constants } note { methods }`. Those of 256 values also have the interleaved format, and
/// where words of it are that have scales.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! formats {
    ($($kind:ident $name:ident $(, $format:ty, $words:expr;)? { $($constant:ident: $ty:ty = $value:expr),* } $note:literal { $($body:tt)* })*) => {$(
        pub struct $name;
        impl Codes for $name {
            $(const $constant: $ty = $value;)*
        }
        #[doc = $note]
        // SAFETY: the offsets in the block are those in the note, all below `BYTES`.
        unsafe impl $kind for $name {
            $(type Interleaved = $format;
            const WORDS: &'static [usize] = $words;)?
            $crate::cpu::simd::gemv::with_simd! { $($body)* }
        }
    )*};
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use formats;

/// Matrix times column of rows as they are in a file, by format: `small` and `large` are the functions for blocks of 32
/// values and of 256. The formats are types of the module `codes`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! rows_by_format {
    ($small:ident, $large:ident) => {
        [
            (GGML_TYPE_Q4_0, $small::<codes::Q4_0> as Rows),
            (GGML_TYPE_Q4_1, $small::<codes::Q4_1>),
            (GGML_TYPE_Q5_0, $small::<codes::Q5_0>),
            (GGML_TYPE_Q5_1, $small::<codes::Q5_1>),
            (GGML_TYPE_Q8_0, $small::<codes::Q8_0>),
            (GGML_TYPE_IQ4_NL, $small::<codes::Iq4Nl>),
            (GGML_TYPE_MXFP4, $small::<codes::Mxfp4>),
            (GGML_TYPE_Q2_K, $large::<codes::Q2K>),
            (GGML_TYPE_Q3_K, $large::<codes::Q3K>),
            (GGML_TYPE_Q4_K, $large::<codes::Q4K>),
            (GGML_TYPE_Q5_K, $large::<codes::Q5K>),
            (GGML_TYPE_Q6_K, $large::<codes::Q6K>),
            (GGML_TYPE_IQ4_XS, $large::<codes::Iq4Xs>),
            (GGML_TYPE_TQ2_0, $large::<codes::Tq2_0>),
        ]
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use rows_by_format;
