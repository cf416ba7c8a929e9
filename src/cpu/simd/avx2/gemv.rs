//! Matrix times column with AVX2. Eight rows are processed at once, and a lane of a vector of results is a row, as in a panel. So every result is
//! one chain of additions in the order of `k`, and has the same bits as in a tile (`tile::byte_tile`).
//!
//! Files: this one has the sums, `codes` the formats whose values are bits or codes, `points` those of grids.
//!
//! Weights are unpacked to unsigned bytes with a bias (`BIAS`), or to signed bytes if the values need all eight bits. Vectors have sixteen
//! values of row `r` in the low half and of row `r + 4` in the high half: the sums of four vectors then need two levels of horizontal additions.

use super::super::gemv::{self, Rows};
use super::super::interleave::{Block, Format};
use super::super::tile::{Act, Form};
use super::lanes::{Avx2Dots, opaque};
use super::{codes, points};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::simd::words::Words;
use crate::cpu::simd::{Kernels, TYPES};
use crate::quant;
use crate::sys::memory::Later;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Rows that are processed at once.
pub const ROWS: usize = 8;

/// The rows, at the current block.
pub type Rows8 = [*const u8; ROWS];

/// A group of 32 values of two rows: the first sixteen of both, then the others.
pub type Pair = [__m256i; 2];

/// How weights become bytes.
pub trait Codes {
    /// Bytes of a block.
    const BYTES: usize;
    /// Greatest magnitude of the bytes.
    const MAX: i32;
    /// What is added to the values to make unsigned bytes: 0 or a power of two.
    const BIAS: i32 = 0;
    /// Whether the bytes are signed, without a bias.
    const SIGNED: bool = false;
    /// Whether there is a scale for every 16 values, not for every 32.
    const FINE: bool = false;
    /// Whether there is an offset for each scale.
    const OFFSETS: bool = false;
}

/// A block of 32 values with one scale.
///
/// # Safety
/// The methods read at most `BYTES` bytes at each pointer. Call them only if these are readable and the processor has AVX2, FMA and F16C.
pub unsafe trait Small: Codes {
    /// The scales and offsets of eight blocks.
    unsafe fn scales(x: &Rows8) -> (__m256, __m256);
    /// The values of two blocks.
    unsafe fn codes(a: *const u8, b: *const u8) -> Pair;
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
    /// Values `64 * J` to `64 * J + 63` of two blocks.
    unsafe fn codes<const J: usize>(a: *const u8, b: *const u8) -> [Pair; 2];
}

macro_rules! with_simd {
    ($($vis:vis unsafe fn $name:ident $(<const $j:ident: $jt:ty>)? ($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)*) => {$(
        #[inline(always)]
        $vis unsafe fn $name $(<const $j: $jt>)? ($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the contracts of `Small`, `Super` and `Points`: the processor has the instructions, and the bytes of the blocks are readable.
            unsafe { $body }
        }
    )*};
}
pub(super) use with_simd;

with_simd! {
    // Sums of four products of bytes of each row.
    unsafe fn pairs_to_words(v: __m256i) -> __m256i {
        _mm256_madd_epi16(v, _mm256_set1_epi16(1))
    }
    // The sums of four vectors, as eight lanes: rows 0 to 3 from the low halves, 4 to 7 from the high ones.
    unsafe fn by_row(v: [__m256i; 4]) -> __m256i {
        _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]))
    }
    // The same for sums of 16 bits. `times` as large ones fit into 16 bits.
    unsafe fn words_by_row(v: [__m256i; 4], times: i32) -> __m256i {
        if times < 2 {
            return by_row([pairs_to_words(v[0]), pairs_to_words(v[1]), pairs_to_words(v[2]), pairs_to_words(v[3])]);
        }
        let (first, last) = (_mm256_hadd_epi16(v[0], v[1]), _mm256_hadd_epi16(v[2], v[3]));
        if times < 4 {
            _mm256_hadd_epi32(pairs_to_words(first), pairs_to_words(last))
        } else {
            pairs_to_words(_mm256_hadd_epi16(first, last))
        }
    }
    // Sixteen activations, for both rows of a pair.
    pub unsafe fn twice(p: *const u8) -> __m256i {
        _mm256_broadcastsi128_si256(_mm_loadu_si128(p.cast()))
    }
    // Two bytes at `at` of each row.
    pub unsafe fn words16(x: &Rows8, at: usize) -> __m128i {
        let h = x.map(|x| x.add(at).cast::<i16>().read_unaligned());
        _mm_set_epi16(h[7], h[6], h[5], h[4], h[3], h[2], h[1], h[0])
    }
}

/// Products of sixteen values of two rows, added in pairs.
#[inline(always)]
unsafe fn products<C: Codes>(w: __m256i, a: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2.
    unsafe {
        if C::SIGNED {
            // The instruction requires an unsigned first factor, so the sign of the weight moves to the activation.
            _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w))
        } else {
            _mm256_maddubs_epi16(w, a)
        }
    }
}

/// How many sums of `n` products of bytes fit into 16 bits.
const fn sums_that_fit<C: Codes>(n: i32) -> i32 {
    i16::MAX as i32 / (n * 127 * C::MAX)
}

/// Sums of a group of 32 values of eight rows, where `parts` has those of its first and last sixteen values: in pairs, by pairs of rows.
#[inline(always)]
pub unsafe fn group_sums<C: Codes>([first, last]: [[__m256i; 4]; 2]) -> __m256i {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let mut sums = [_mm256_setzero_si256(); 4];
        let times = const { sums_that_fit::<C>(4) };
        for (sums, (first, last)) in sums.iter_mut().zip(first.into_iter().zip(last)) {
            *sums = match times {
                0 => _mm256_add_epi32(pairs_to_words(first), pairs_to_words(last)),
                _ => _mm256_add_epi16(first, last),
            };
        }
        if times == 0 { by_row(sums) } else { words_by_row(sums, times) }
    }
}

/// As [`group_sums`], for a group of 16 values.
#[inline(always)]
pub unsafe fn group_sums_16<C: Codes>(parts: [__m256i; 4]) -> __m256i {
    // SAFETY: the caller promises AVX2.
    unsafe { words_by_row(parts, const { sums_that_fit::<C>(2) }) }
}

/// Products of a group of 32 values of two rows.
#[inline(always)]
unsafe fn pair_products<C: Codes>(w: Pair, a: Pair) -> [__m256i; 2] {
    // SAFETY: forwarded to the caller.
    unsafe { [products::<C>(w[0], a[0]), products::<C>(w[1], a[1])] }
}

/// The parts of [`group_sums`], of the products of four pairs of rows.
fn turned(p: [[__m256i; 2]; 4]) -> [[__m256i; 4]; 2] {
    [[p[0][0], p[1][0], p[2][0], p[3][0]], [p[0][1], p[1][1], p[2][1], p[3][1]]]
}

/// Adds the products of a group, whose sums in integers are `sums`, in the order of a tile. `at` is the [`Act`] block, `group` the number
/// of the group in it.
#[inline(always)]
pub unsafe fn add_group<C: Codes>(
    acc: __m256,
    sums: __m256i,
    scale: __m256,
    offset: __m256,
    at: *const u8,
    group: usize,
) -> __m256 {
    const SCALE: usize = Act::<32, false>::SCALE;
    const START: usize = Act::<32, false>::START;
    let groups = if C::FINE { 2 } else { 1 };
    // SAFETY: `at` is a block of activations, and all offsets are inside. The caller promises AVX2 and FMA.
    unsafe {
        let sums = if C::BIAS == 0 {
            sums
        } else {
            // The number there is for a bias of 128. It is shifted as a vector: the compiler would shift it first, and move it then.
            let start = opaque(_mm256_set1_epi32(at.add(START + 4 * group).cast::<i32>().read_unaligned()));
            _mm256_add_epi32(
                sums,
                _mm256_srai_epi32::<7>(_mm256_sll_epi32(start, _mm_cvtsi32_si128(C::BIAS.ilog2() as i32))),
            )
        };
        let d = _mm256_broadcast_ss(&at.add(SCALE).cast::<f32>().read_unaligned());
        let acc = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), scale), d, acc);
        if C::OFFSETS {
            let sum = at.add(START + 4 * (groups + group)).cast::<f32>().read_unaligned();
            _mm256_fmadd_ps(offset, _mm256_broadcast_ss(&sum), acc)
        } else {
            acc
        }
    }
}

/// The form of activations.
pub const fn form<C: Codes>() -> Form {
    Form { group: if C::FINE { 16 } else { 32 }, offsets: C::OFFSETS, bits: 8 }
}

/// Dot products of eight rows of [`Small`] blocks. `ahead` bytes further are the rows that come next.
#[inline(always)]
unsafe fn small_rows<B: Small>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> __m256 {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below `k / 32`.
    unsafe {
        let mut acc = _mm256_setzero_ps();
        let mut later = Later::new(x[0].wrapping_add(ahead));
        for i in 0..k / 32 {
            let x = x.map(|x| x.add(i * B::BYTES));
            later.load(ROWS * B::BYTES);
            let at = act.add(i * form::<B>().act_bytes());
            let a = [twice(at), twice(at.add(16))];
            let sums = group_sums::<B>(turned([
                pair_products::<B>(B::codes(x[0], x[4]), a),
                pair_products::<B>(B::codes(x[1], x[5]), a),
                pair_products::<B>(B::codes(x[2], x[6]), a),
                pair_products::<B>(B::codes(x[3], x[7]), a),
            ]));
            let (scale, offset) = B::scales(&x);
            acc = add_group::<B>(acc, sums, scale, offset, at, 0);
        }
        acc
    }
}

/// Words of the interleaved blocks at most, and a vector for their separate scales.
const MAX_WORDS: usize = 53;

/// The scales of a group, and its offsets, if there are any.
#[inline(always)]
unsafe fn scales<B: Super>(b: Block<Avx2Dots>, g: usize) -> (__m256, __m256) {
    // SAFETY: the contract of `Super`: the words are there. The caller promises the instruction set.
    unsafe {
        let scale = <B::Interleaved as Format>::scale(b, g).0;
        (scale, if B::OFFSETS { <B::Interleaved as Format>::offset(b, g).0 } else { _mm256_setzero_ps() })
    }
}

/// As [`small_rows`], for [`Super`] blocks.
#[inline(always)]
unsafe fn super_rows<B: Super>(k: usize, x: Rows8, ahead: usize, act: *const u8) -> __m256 {
    // SAFETY: the contract of `gemv::Rows`: eight rows of `k` values, and activations for them. Block indices are below `k / 256`.
    unsafe {
        let shape = <B::Interleaved as Format>::SHAPE;
        let mut words = [MaybeUninit::<__m256i>::uninit(); MAX_WORDS];
        assert!(shape.words < MAX_WORDS && shape.scale % 2 == 0);
        let mut acc = _mm256_setzero_ps();
        let mut later = Later::new(x[0].wrapping_add(ahead));
        for i in 0..k / 256 {
            let x = x.map(|x| x.add(i * B::BYTES));
            later.load(ROWS * B::BYTES);
            for run in B::WORDS {
                Avx2Dots::interleave_4(x.as_ptr(), 4 * run, words.as_mut_ptr().cast::<u8>().add(32 * run));
            }
            if shape.scale > 0 {
                // In one piece: what is written in several cannot be read together at once.
                _mm_storeu_si128(words.as_mut_ptr().add(shape.words).cast(), words16(&x, shape.scale_at));
            }
            let b = Block::<Avx2Dots>::new(words.as_ptr().cast());
            macro_rules! chunk {
                ($j:literal) => {
                    let codes = [
                        B::codes::<$j>(x[0], x[4]),
                        B::codes::<$j>(x[1], x[5]),
                        B::codes::<$j>(x[2], x[6]),
                        B::codes::<$j>(x[3], x[7]),
                    ];
                    for half in 0..2 {
                        let t = 2 * $j + half;
                        let at = act.add((8 * i + t) * form::<B>().act_bytes());
                        let a = [twice(at), twice(at.add(16))];
                        let parts = turned([
                            pair_products::<B>(codes[0][half], a),
                            pair_products::<B>(codes[1][half], a),
                            pair_products::<B>(codes[2][half], a),
                            pair_products::<B>(codes[3][half], a),
                        ]);
                        if B::FINE {
                            for g in 0..2 {
                                let (scale, offset) = scales::<B>(b, 2 * t + g);
                                acc = add_group::<B>(acc, group_sums_16::<B>(parts[g]), scale, offset, at, g);
                            }
                        } else {
                            let (scale, offset) = scales::<B>(b, t);
                            acc = add_group::<B>(acc, group_sums::<B>(parts), scale, offset, at, 0);
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

macro_rules! kernel {
    ($name:ident, $kind:ident, $rows:ident) => {
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn $name<B: $kind>(k: usize, x: *const u8, stride: usize, rows: usize, act: *const u8, dst: *mut f32) {
            let mut r = 0;
            while r < rows {
                let n = ROWS.min(rows - r);
                // SAFETY: the contract of `gemv::Rows`, for at most eight of its rows: where fewer are left, the last stands for the others. The
                // features of this function are those that the callees require.
                unsafe {
                    let x = std::array::from_fn(|i| x.add((r + i.min(n - 1)) * stride));
                    let acc = $rows::<B>(k, x, ROWS * stride, act);
                    if n == ROWS {
                        _mm256_storeu_ps(dst.add(r), acc);
                    } else {
                        let mut last = [0f32; ROWS];
                        _mm256_storeu_ps(last.as_mut_ptr(), acc);
                        dst.add(r).copy_from_nonoverlapping(last.as_ptr(), n);
                    }
                }
                r += n;
            }
        }
    };
}
pub(super) use kernel;

kernel!(small, Small, small_rows);
kernel!(wide, Super, super_rows);

/// Sets the matrix times column kernels in the table, which has the tiles of this level.
///
/// # Safety
/// The processor has AVX2, FMA and F16C.
pub(super) unsafe fn fill(k: &mut Kernels) {
    use super::block_kernels::rows as unpacked;
    k.gemv = [None; TYPES];
    for (t, rows) in [
        (GGML_TYPE_Q4_0, small::<codes::Q4_0> as Rows),
        (GGML_TYPE_Q4_1, small::<codes::Q4_1>),
        (GGML_TYPE_Q5_0, small::<codes::Q5_0>),
        (GGML_TYPE_Q5_1, small::<codes::Q5_1>),
        (GGML_TYPE_Q8_0, small::<codes::Q8_0>),
        (GGML_TYPE_IQ4_NL, small::<codes::Iq4Nl>),
        (GGML_TYPE_MXFP4, small::<codes::Mxfp4>),
        (GGML_TYPE_Q2_K, wide::<codes::Q2K>),
        (GGML_TYPE_Q3_K, wide::<codes::Q3K>),
        (GGML_TYPE_Q4_K, wide::<codes::Q4K>),
        (GGML_TYPE_Q5_K, wide::<codes::Q5K>),
        (GGML_TYPE_Q6_K, wide::<codes::Q6K>),
        (GGML_TYPE_IQ4_XS, wide::<codes::Iq4Xs>),
        (GGML_TYPE_TQ2_0, wide::<codes::Tq2_0>),
        (GGML_TYPE_TQ1_0, unpacked::<quant::tq1_0::BlockTq1_0>),
        (GGML_TYPE_Q1_0, unpacked::<quant::q1_0::BlockQ1_0>),
        (GGML_TYPE_Q2_0, unpacked::<quant::q2_0::BlockQ2_0>),
    ]
    .into_iter()
    .chain(points::ALL)
    {
        gemv::set(k, t, rows);
    }
    // NVFP4 is interleaved faster than it is unpacked, except for a few rows.
    gemv::set(k, GGML_TYPE_NVFP4, unpacked::<quant::nvfp4::BlockNvfp4>);
    if let Some(gemv) = &mut k.gemv[GGML_TYPE_NVFP4 as usize] {
        gemv.few_rows = true;
    }
}
