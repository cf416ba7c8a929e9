//! The table of kernels, the types of its functions, and the levels for which it is filled.
#![forbid(unsafe_code)]

use super::gemv::{self, Gemv};
use super::{interleave, products, recurrent, tile};
use crate::abi::ggml::ggml_type;
use crate::quant::{self, types};
use std::ffi::CStr;

/// Dot product of `n` values: a row of weights and a row in the format's [`dot_type`].
///
/// # Safety
/// Both rows are readable for `n` values of their formats, and `n` is a multiple of the block of the weights.
pub type VecDot = unsafe fn(n: usize, x: *const u8, y: *const u8) -> f32;

/// Converts `n` floats to a row of a format.
///
/// # Safety
/// `x` is readable for `n` floats, `y` is writable for a row of `n` values, and `n` is a multiple of the block of the
/// format.
pub type FromFloat = unsafe fn(x: *const f32, y: *mut u8, n: usize);

/// Decodes a row: as many whole blocks as both slices have room for.
///
/// # Safety
/// The processor has the instruction set of the function. That of a function in a table of [`Kernels::for_level`] has
/// been detected.
pub type ToFloat = unsafe fn(x: &[u8], y: &mut [f32]);

/// Writes the indices of `x` in ascending or, if `falling`, descending order, the first of equal elements first.
/// Returns false, with any indices, if it cannot because of equal elements.
///
/// # Safety
/// The processor has the instruction set of the function.
pub type SortFew = unsafe fn(x: &[f32], falling: bool, order: &mut [i32]) -> bool;

/// Writes the indices of the greatest elements, greatest first, and the first of equal elements first. `keys` is
/// scratch memory as long as `x`.
///
/// # Safety
/// The processor has the instruction set of the function.
pub type TopFew = unsafe fn(x: &[f32], keys: &mut [i64], order: &mut [i32]);

/// `dst[i] = f(x[i])`.
///
/// # Safety
/// `x` is readable and `dst` writable for `n` floats at any alignment; they are the same memory or do not overlap.
pub type Map = unsafe fn(n: usize, dst: *mut f32, x: *const f32);

/// `dst[i] = f(a[i], b[i])`.
///
/// # Safety
/// As for [`Map`], with each of the two sources.
pub type Map2 = unsafe fn(n: usize, dst: *mut f32, a: *const f32, b: *const f32);

/// Instruction sets for which kernels are compiled, in ascending order.
#[allow(dead_code)] // those of the other processors
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every processor.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// The same with AVX-VNNI.
    AvxVnni,
    /// x86-64 with AVX-512 F, BW, DQ and VL. Processors with AVX-VNNI as well use the levels above this one.
    Avx512,
    /// The same with VNNI.
    Avx512Vnni,
    /// The same with BF16.
    Avx512Bf16,
    /// The same with AMX for bfloat16s, if the system lets the process use its registers.
    Amx,
    /// 64-bit ARM.
    Neon,
    /// The same with dot products of bytes.
    NeonDot,
    /// The same with products of matrices of bytes (`i8mm`).
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
    NeonI8mm,
}

impl Level {
    /// All levels for which this library has kernels, in ascending order.
    #[cfg(not(target_arch = "aarch64"))]
    pub const ALL: &[Self] =
        &[Self::Scalar, Self::Avx2, Self::AvxVnni, Self::Avx512, Self::Avx512Vnni, Self::Avx512Bf16, Self::Amx];
    /// All levels for which this library has kernels, in ascending order.
    #[cfg(target_arch = "aarch64")]
    pub const ALL: &[Self] = &[Self::Scalar, Self::Neon, Self::NeonDot, Self::NeonI8mm];

    /// Name in `GGML_RS_CPU_LEVEL` and in the feature list.
    pub const fn name(self) -> &'static CStr {
        match self {
            Self::Scalar => c"scalar",
            Self::Avx2 => c"avx2",
            Self::AvxVnni => c"avx_vnni",
            Self::Avx512 => c"avx512",
            Self::Avx512Vnni => c"avx512_vnni",
            Self::Avx512Bf16 => c"avx512_bf16",
            Self::Amx => c"amx",
            Self::Neon => c"neon",
            Self::NeonDot => c"neon_dot",
            Self::NeonI8mm => c"neon_i8mm",
        }
    }
}

/// A table of kernels. Every function has the safety contract of its type. If the type of a field has no name, the
/// contract is: each pointer has `n` elements, readable or, for `dst`, writable, and `dst` is the source or does not
/// overlap it.
#[derive(Clone)]
pub struct Kernels {
    /// The highest level in the table.
    pub level: Level,
    /// Whether matrix products use a dot product for each result, not tiles or matrix times column kernels.
    pub dots_only: bool,
    /// Dot products by weight format; the other row has the format [`dot_type`]. `None` for other formats.
    pub vec_dot: [Option<VecDot>; types::COUNT],
    /// Conversions from floats by format. `None` if there is no kernel; see the traits in `quant` for the reference
    /// functions.
    pub from_float: [Option<FromFloat>; types::COUNT],
    /// Conversions of blocks to floats by format. `None` if there is no kernel; see the traits in `quant` for the
    /// reference functions.
    pub to_float: [Option<ToFloat>; types::COUNT],
    /// Sorts at most [`FEW`](super::argsort::FEW) elements.
    pub sort_few: Option<SortFew>,
    /// Finds at most [`MOST`](super::argsort::MOST) greatest elements.
    pub top_few: Option<TopFew>,
    /// `a + b`.
    pub add: Map2,
    /// `a - b`.
    pub sub: Map2,
    /// `a * b`.
    pub mul: Map2,
    /// `a / b`.
    pub div: Map2,
    /// `dst += x * v`.
    pub axpy: unsafe fn(n: usize, dst: *mut f32, x: *const f32, v: f32),
    /// `dst = x * v + bias`.
    pub scale: unsafe fn(n: usize, dst: *mut f32, x: *const f32, v: f32, bias: f32),
    /// `dst = x * v`.
    pub times: unsafe fn(n: usize, dst: *mut f32, x: *const f32, v: f32),
    /// `x` between `least` and `most`; NaN for NaN.
    pub clamp: unsafe fn(n: usize, dst: *mut f32, x: *const f32, least: f32, most: f32),
    /// `x`, or zero if it is negative; NaN for NaN.
    pub relu: Map,
    /// `x * x`.
    pub sqr: Map,
    /// Hyperbolic tangent, at most 3 units in the last place.
    pub tanh: Map,
    /// `ln(1 + e^x)`.
    pub softplus: Map,
    /// Rotates adjacent pairs, `n / 2` of them: `dst[i] = x[i] * cos[i] + x[j] * sin[i]`, where `j` is the other of the
    /// pair.
    pub turn_pairs: unsafe fn(n: usize, dst: *mut f32, x: *const f32, cos: *const f32, sin: *const f32),
    /// Rotates `n` pairs of `x[i]` and `x[n + i]` by the angles of `cos[i]` and `sin[i]`. `x` and `dst` have `2 * n`
    /// floats.
    pub turn_halves: unsafe fn(n: usize, dst: *mut f32, x: *const f32, cos: *const f32, sin: *const f32),
    /// Sines and cosines of numbers of magnitude below [`MAX_ANGLE`](super::float::MAX_ANGLE).
    pub sin_cos: unsafe fn(n: usize, sin: *mut f32, cos: *mut f32, x: *const f32),
    /// `e^x`: at most 2 units in the last place, subnormal numbers included.
    pub vexp: Map,
    /// `1 / (1 + e^-x)`.
    pub sigmoid: Map,
    /// `x / (1 + e^-x)`.
    pub silu: Map,
    /// GELU by the tanh formula.
    pub gelu: Map,
    /// The end of GELU by a table of halves: `dst[i]` is 0 up to -10, as it was from 10 on (or if it is NaN), else
    /// `found[i]`.
    pub gelu_found: unsafe fn(n: usize, dst: *mut f32, found: *const u16),
    /// GELU by the error function.
    pub gelu_erf: Map,
    /// `x / (1 + e^(-1.702 x))`.
    pub gelu_quick: Map,
    /// `silu(a) * b`.
    pub swiglu: Map2,
    /// `gelu(a) * b`.
    pub geglu: Map2,
    /// `dst = e^(x - top)`, subnormal numbers included; returns the sum of `dst`. `x - top` is at most 70, or NaN.
    pub exp_sum: unsafe fn(n: usize, dst: *mut f32, x: *const f32, top: f32) -> f64,
    /// `dst = e^x 2^-e` for an integer `e`, at most 2 units in the last place; zero below `2^-126`. Every `e` gives the
    /// same digits.
    pub exp_scaled: unsafe fn(n: usize, dst: *mut f32, x: *const f32, e: f32),
    /// Adds floats to aligned doubles.
    pub add_to_doubles: unsafe fn(n: usize, dst: *mut f64, x: *const f32),
    /// Sum, in double precision.
    pub sum: unsafe fn(n: usize, x: *const f32) -> f64,
    /// Sum of products, in double precision.
    pub dot_wide: unsafe fn(n: usize, x: *const f32, y: *const f32) -> f64,
    /// Sum of squares.
    pub sum_sq: unsafe fn(n: usize, x: *const f32) -> f64,
    /// `dst = x - mean`; returns the sum of squares of `dst`.
    pub center: unsafe fn(n: usize, dst: *mut f32, x: *const f32, mean: f32) -> f64,
    /// Greatest value, ignoring NaN; minus infinity if there is none.
    pub max: unsafe fn(n: usize, x: *const f32) -> f32,
    /// `dst = dst * v + slope * mask`, minus infinity where the mask is (even for NaN); returns the greatest value of
    /// `dst`, ignoring NaN.
    pub mask_scores: unsafe fn(n: usize, dst: *mut f32, mask: *const f32, v: f32, slope: f32) -> f32,
    /// Halves to floats (no overlap).
    pub f16_to_f32: unsafe fn(n: usize, dst: *mut f32, x: *const u16),
    /// Bfloat16s to floats (no overlap).
    pub bf16_to_f32: unsafe fn(n: usize, dst: *mut f32, x: *const u16),
    /// Floats of 8 bits (E4M3) to floats (no overlap).
    pub f8_to_f32: unsafe fn(n: usize, dst: *mut f32, x: *const u8),
    /// Floats to halves, to nearest even (no overlap).
    pub f32_to_f16: unsafe fn(n: usize, dst: *mut u16, x: *const f32),
    /// Floats to bfloat16s, to nearest even (no overlap).
    pub f32_to_bf16: unsafe fn(n: usize, dst: *mut u16, x: *const f32),
    /// Sum of products.
    pub dot: unsafe fn(n: usize, x: *const f32, y: *const f32) -> f32,
    /// Sum of products of halves and floats.
    pub dot_f16: unsafe fn(n: usize, x: *const u16, y: *const f32) -> f32,
    /// Sum of products of bfloat16s and floats.
    pub dot_bf16: unsafe fn(n: usize, x: *const u16, y: *const f32) -> f32,
    /// Sum of products of floats of 8 bits (E4M3) and floats.
    pub dot_f8: unsafe fn(n: usize, x: *const u8, y: *const f32) -> f32,
    /// Matrix times column by weight format. `None` if `vec_dot` is used for each row.
    pub gemv: [Option<Gemv>; types::COUNT],
    /// The same for rows of a file that will be interleaved, with the results of interleaved rows and their form of
    /// activations. `None` if that is `gemv`.
    pub gemv_in_file: [Option<Gemv>; types::COUNT],
    /// Products of rows of plain numbers and columns.
    pub products: products::Products,
    /// Recurrences over tokens.
    pub recurrent: recurrent::Recurrent,
    /// Matrix products of weights in blocks.
    pub byte_tiles: tile::ByteTiles,
    /// Interleaved weights.
    pub interleaved: interleave::Table,
}

impl Kernels {
    /// Sets matrix times column for a format, with activations in the form of its unpacked blocks. The table has the
    /// tiles of the level.
    pub fn set_gemv(&mut self, t: ggml_type, rows: gemv::Rows) {
        self.gemv[t as usize] = self.byte_tiles.unpack[t as usize].map(|unpacker| {
            let form = unpacker.form;
            let act = self.byte_tiles.act[form.act_index()];
            Gemv { layout: gemv::RowForm::Blocks(form), act, rows, few_rows: false }
        });
    }
}

/// Covers `n` columns with kernels as wide as possible: first column, width and kernel. The kernels are in descending
/// order of their width, down to one column.
pub fn cover<T: Copy>(kernels: &'static [(usize, T)], n: usize) -> impl Iterator<Item = (usize, usize, T)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let (left, widest) = (n - next, kernels.first()?.0);
        // As few kernels as possible, of similar widths: for five columns three and two, not four and one.
        let of = |count: usize| kernels.iter().find(|(width, _)| *width == left.div_ceil(count));
        let (width, kernel) = (left.div_ceil(widest).max(1)..=left).find_map(of)?;
        let first = next;
        next += width;
        Some((first, *width, *kernel))
    })
}

macro_rules! dot_types {
    ($($module:ident::$block:ident: $ty:ident, align $align:literal, $kind:ident, dot $act_module:ident::$act:ident, [$($name:ident)*];)*) => {
        /// The format of the other row of a dot product with weights of format `t`, or `None` if `t` is not a weight
        /// format.
        pub const fn dot_type(t: ggml_type) -> Option<ggml_type> {
            use ggml_type::*;
            Some(match t {
                GGML_TYPE_F32 | GGML_TYPE_F8_E4M3 => GGML_TYPE_F32,
                GGML_TYPE_F16 => GGML_TYPE_F16,
                GGML_TYPE_BF16 => GGML_TYPE_BF16,
                $($ty => <quant::$act_module::$act as quant::Block>::TYPE,)*
                GGML_TYPE_Q8_1 => GGML_TYPE_Q8_1,
                _ => return None,
            })
        }
    };
}
quant::each_weight!(dot_types);
