//! Matrix times column with VNNI. Sixteen rows are processed at once, and a lane of a vector of results is a row, as in
//! a panel. So every result is one chain of additions in the order of `k`, and has the same bits as in a tile
//! (`tile::byte_tile`).
//!
//! Weights are unpacked to unsigned bytes with a bias (`BIAS`). The bias adds the same to the sums of all rows, so the
//! sums start with minus that number.

use super::super::gemv::{WideAct, act_row, ahead};
use super::lanes::VnniDots;
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::simd::gemv::Rows;
use crate::quant::iq4_nl::CURVE;
use crate::sys::prefetch::prefetch;
use std::arch::x86_64::*;

/// Rows that are processed at once: a lane of a vector of results is a row.
const ROWS: usize = 16;
/// Maximum size in bytes of a [`Super`] block that consists of smaller ones.
const LAST: usize = 144;

/// The rows, at the first block.
type Rows16 = [*const u8; ROWS];

/// A block of 256 values, or several smaller blocks with 256 values together.
///
/// # Safety
/// `scales` and `quants` read at most `BYTES` bytes at their pointer, in which every `UNIT` values have an equal share.
/// All-zero bytes are a block of zeros. Call them only if the bytes are readable and the processor has AVX-512 F, BW,
/// DQ, VL and VNNI.
pub(super) unsafe trait Super {
    const BYTES: usize;
    /// Values of a block of the format.
    const UNIT: usize = 256;
    const BIAS: i8;
    /// Whether there is a scale for every 16 values, not for every 32.
    const FINE: bool;
    /// Whether there is an offset for each scale.
    const OFFSETS: bool = false;
    /// Whether vectors have even groups of 32 before odd ones.
    const SPLIT: bool = false;
    /// Scales and offsets, one per lane, for each group.
    unsafe fn scales(b: *const u8) -> (__m512, __m512);
    /// The values plus the bias.
    unsafe fn quants(b: *const u8) -> [__m512i; 4];
}

macro_rules! with_simd {
    ($($vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)*) => {$(
        #[inline(always)]
        $vis unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the contract of `Super`: the processor has the instructions, and the bytes of the block are
            // readable.
            unsafe { $body }
        }
    )*};
}
pub(super) use with_simd;

with_simd! {
    // Broadcasts a half, at any alignment, as sixteen floats.
    pub(super) unsafe fn half_at(p: *const u8) -> __m512 {
        _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(p.cast::<u16>().read_unaligned()))))
    }
    // Selects the bits of `a` where `mask` has ones, else those of `b`.
    unsafe fn choose(mask: __m512i, a: __m512i, b: __m512i) -> __m512i {
        _mm512_ternarylogic_epi64::<0xca>(mask, a, b)
    }
    pub(super) unsafe fn bytes(x: u8) -> __m512i {
        _mm512_set1_epi8(x as i8)
    }
    // Rotates each 64-bit word left: by `low` bits in the low half of the vector, by `high` bits in the high half.
    unsafe fn turn_halves(v: __m512i, low: i64, high: i64) -> __m512i {
        _mm512_rolv_epi64(v, _mm512_set_epi64(high, high, high, high, low, low, low, low))
    }
    unsafe fn both_halves(p: *const u8) -> __m512i {
        _mm512_broadcast_i64x4(_mm256_loadu_si256(p.cast()))
    }
    pub(super) unsafe fn load(p: *const u8) -> __m512i {
        _mm512_loadu_si512(p.cast())
    }
    unsafe fn high_nibbles(v: __m512i) -> __m512i {
        _mm512_and_si512(_mm512_srli_epi16::<4>(v), bytes(15))
    }
    pub(super) unsafe fn table(values: &[i8; 16]) -> __m512i {
        _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128(values.as_ptr().cast())), bytes(0x80))
    }
    // Unpacks two-bit values of twice 32 bytes, where each byte has one value of four groups of 32.
    unsafe fn two_bits(x: __m512i, y: __m512i) -> [__m512i; 4] {
        let low = |v: __m512i| _mm512_and_si512(v, bytes(3));
        [low(turn_halves(x, 0, 62)), low(turn_halves(x, 60, 58)), low(turn_halves(y, 0, 62)), low(turn_halves(y, 60, 58))]
    }
    // Six-bit scales and offsets of Q4_K and Q5_K, times `d` and `dmin`.
    unsafe fn affine(d: *const u8, packed: *const u8) -> (__m512, __m512) {
        let word = |i: usize| packed.add(4 * i).cast::<u32>().read_unaligned();
        let (a, b, c) = (word(0), word(1), word(2));
        let scales = u64::from(a & 0x3f3f_3f3f) | u64::from(c & 0x0f0f_0f0f | (a >> 2) & 0x3030_3030) << 32;
        let offsets = u64::from(b & 0x3f3f_3f3f) | u64::from((c >> 4) & 0x0f0f_0f0f | (b >> 2) & 0x3030_3030) << 32;
        let floats = |x: u64| _mm512_castps256_ps512(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(x as i64))));
        let scales = _mm512_mul_ps(floats(scales), half_at(d));
        let offsets = _mm512_mul_ps(floats(offsets), half_at(d.add(2)));
        (scales, _mm512_sub_ps(_mm512_setzero_ps(), offsets))
    }
}

struct Q4K;
// SAFETY: `Q4_K` has 144 bytes: halves at 0 and 2, packed scales at 4, values at 16.
unsafe impl Super for Q4K {
    const BYTES: usize = 144;
    const BIAS: i8 = 0;
    const FINE: bool = false;
    const OFFSETS: bool = true;
    const SPLIT: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) { affine(b, b.add(4)) }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let (x, y) = (load(b.add(16)), load(b.add(80)));
            [_mm512_and_si512(x, bytes(15)), high_nibbles(x), _mm512_and_si512(y, bytes(15)), high_nibbles(y)]
        }
    }
}

struct Q5K;
// SAFETY: `Q5_K` has 176 bytes: halves at 0 and 2, packed scales at 4, fifth bits at 16, values at 48.
unsafe impl Super for Q5K {
    const BYTES: usize = 176;
    const BIAS: i8 = 0;
    const FINE: bool = false;
    const OFFSETS: bool = true;
    const SPLIT: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) { affine(b, b.add(4)) }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let (x, y, high) = (load(b.add(48)), load(b.add(112)), both_halves(b.add(16)));
            // Bit g of a byte is the fifth bit of a value of group g, and moves to bit 4.
            let join = |low: __m512i, fifth: __m512i| _mm512_and_si512(choose(bytes(15), low, fifth), bytes(31));
            [
                join(x, turn_halves(high, 4, 2)),
                join(_mm512_srli_epi16::<4>(x), turn_halves(high, 3, 1)),
                join(y, turn_halves(high, 0, 62)),
                join(_mm512_srli_epi16::<4>(y), turn_halves(high, 63, 61)),
            ]
        }
    }
}

struct Q6K;
// SAFETY: `Q6_K` has 210 bytes: low bits at 0, high bits at 128, scales at 192, a half at 208.
unsafe impl Super for Q6K {
    const BYTES: usize = 210;
    const BIAS: i8 = 32;
    const FINE: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let scales = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(b.add(192).cast())));
            (_mm512_mul_ps(scales, half_at(b.add(208))), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let (x, y) = (load(b), load(b.add(64)));
            let (h, i) = (both_halves(b.add(128)), both_halves(b.add(160)));
            let join = |low: __m512i, high: __m512i| _mm512_and_si512(choose(bytes(15), low, high), bytes(63));
            // Bits 2 n and 2 n + 1 are the high bits of values 32 n.. of the half block, and move to bits 4 and 5.
            [
                join(x, turn_halves(h, 4, 2)),
                join(_mm512_srli_epi16::<4>(x), turn_halves(h, 0, 62)),
                join(y, turn_halves(i, 4, 2)),
                join(_mm512_srli_epi16::<4>(y), turn_halves(i, 0, 62)),
            ]
        }
    }
}

struct Q3K;
// SAFETY: `Q3_K` has 110 bytes: third bits at 0, low bits at 32, packed scales at 96, a half at 108.
unsafe impl Super for Q3K {
    const BYTES: usize = 110;
    const BIAS: i8 = 4;
    const FINE: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let word = |i: usize| b.add(96 + 4 * i).cast::<u32>().read_unaligned();
            let (x, y, high) = (word(0), word(1), word(2));
            let join = |low: u32, high: u32| low & 0x0f0f_0f0f | (high & 0x0303_0303) << 4;
            let codes = [join(x, high), join(y, high >> 2), join(x >> 4, high >> 4), join(y >> 4, high >> 6)];
            let codes = _mm_sub_epi8(_mm_loadu_si128(codes.as_ptr().cast()), _mm_set1_epi8(32));
            (_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)), half_at(b.add(108))), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let (x, y, third) = (both_halves(b.add(32)), both_halves(b.add(64)), both_halves(b));
            let join = |low: __m512i, high: __m512i| _mm512_and_si512(choose(bytes(3), low, high), bytes(7));
            // Bit g of a byte is the third bit of a value of the 32 values number g, and moves to bit 2.
            [
                join(turn_halves(x, 0, 62), turn_halves(third, 2, 1)),
                join(turn_halves(x, 60, 58), turn_halves(third, 0, 63)),
                join(turn_halves(y, 0, 62), turn_halves(third, 62, 61)),
                join(turn_halves(y, 60, 58), turn_halves(third, 60, 59)),
            ]
        }
    }
}

struct Q2K;
// SAFETY: `Q2_K` has 84 bytes: scales at 0, values at 16, halves at 80 and 82.
unsafe impl Super for Q2K {
    const BYTES: usize = 84;
    const BIAS: i8 = 0;
    const FINE: bool = true;
    const OFFSETS: bool = true;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(b.cast()));
            let scales = _mm512_cvtepi32_ps(_mm512_and_si512(codes, _mm512_set1_epi32(15)));
            let offsets = _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(codes));
            let offsets = _mm512_mul_ps(offsets, half_at(b.add(82)));
            (_mm512_mul_ps(scales, half_at(b.add(80))), _mm512_sub_ps(_mm512_setzero_ps(), offsets))
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            two_bits(both_halves(b.add(16)), both_halves(b.add(48)))
        }
    }
}

struct Tq2_0;
// SAFETY: `TQ2_0` has 66 bytes: values at 0, a half at 64.
unsafe impl Super for Tq2_0 {
    const BYTES: usize = 66;
    const BIAS: i8 = 1;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) { (half_at(b.add(64)), _mm512_setzero_ps()) }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] { two_bits(both_halves(b), both_halves(b.add(32))) }
    }
}

struct Iq4Xs;
// SAFETY: `IQ4_XS` has 136 bytes: a half at 0, high bits of the scales at 2, low bits at 4, values at 8.
unsafe impl Super for Iq4Xs {
    const BYTES: usize = 136;
    const BIAS: i8 = -128;
    const FINE: bool = false;
    with_simd! {
        unsafe fn scales(b: *const u8) -> (__m512, __m512) {
            let high = _mm256_set1_epi32(i32::from(b.add(2).cast::<u16>().read_unaligned()));
            let low = _mm256_set1_epi32(b.add(4).cast::<i32>().read_unaligned());
            let low = _mm256_and_si256(_mm256_srlv_epi32(low, _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0)), _mm256_set1_epi32(15));
            let high = _mm256_and_si256(_mm256_srlv_epi32(high, _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0)), _mm256_set1_epi32(3));
            let codes = _mm256_or_si256(low, _mm256_slli_epi32::<4>(high));
            let scales = _mm256_cvtepi32_ps(_mm256_sub_epi32(codes, _mm256_set1_epi32(32)));
            (_mm512_mul_ps(_mm512_castps256_ps512(scales), half_at(b)), _mm512_setzero_ps())
        }
        unsafe fn quants(b: *const u8) -> [__m512i; 4] {
            let curve = table(&CURVE);
            let spread = |p: *const u8| {
                let twice = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 2, 3, 2, 1, 0, 1, 0), both_halves(p));
                let codes = _mm512_and_si512(_mm512_srlv_epi64(twice, _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0)), bytes(15));
                _mm512_shuffle_epi8(curve, codes)
            };
            [spread(b.add(8)), spread(b.add(40)), spread(b.add(72)), spread(b.add(104))]
        }
    }
}

with_simd! {
    // The start of the sums: minus what the bias adds.
    unsafe fn start(bias: i8, a: __m512i) -> __m512i {
        if bias == 0 {
            return _mm512_setzero_si512();
        }
        _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(bias), a))
    }
}

with_simd! {
    // Sums of the lanes of each 128-bit part: lane r of a part is the sum of that part of vector r.
    unsafe fn sum_parts(v: [__m512i; 4]) -> __m512i {
        let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
        let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
    }
    // The sums of two groups of 32 values of sixteen rows, from the parts of four rows each.
    unsafe fn two_groups(v: [__m512i; 4]) -> [__m512i; 2] {
        let a = _mm512_add_epi32(_mm512_shuffle_i32x4::<0x88>(v[0], v[1]), _mm512_shuffle_i32x4::<0xdd>(v[0], v[1]));
        let b = _mm512_add_epi32(_mm512_shuffle_i32x4::<0x88>(v[2], v[3]), _mm512_shuffle_i32x4::<0xdd>(v[2], v[3]));
        [_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b)]
    }
    // The sums of four groups of 16 values.
    unsafe fn four_groups(v: [__m512i; 4]) -> [__m512i; 4] {
        let (a, b) = (_mm512_shuffle_i32x4::<0x44>(v[0], v[1]), _mm512_shuffle_i32x4::<0x44>(v[2], v[3]));
        let (c, d) = (_mm512_shuffle_i32x4::<0xee>(v[0], v[1]), _mm512_shuffle_i32x4::<0xee>(v[2], v[3]));
        [
            _mm512_shuffle_i32x4::<0x88>(a, b),
            _mm512_shuffle_i32x4::<0xdd>(a, b),
            _mm512_shuffle_i32x4::<0x88>(c, d),
            _mm512_shuffle_i32x4::<0xdd>(c, d),
        ]
    }
    unsafe fn splat(p: *const f32) -> __m512 {
        _mm512_set1_ps(p.read_unaligned())
    }
    // Adds the products of a group of sixteen rows, whose sums in integers are `sums`, in the order of a tile. `d` is
    // the scale of the activations.
    unsafe fn add_group(acc: __m512, sums: __m512i, scale: __m512, d: *const f32) -> __m512 {
        _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale), splat(d), acc)
    }
}

/// Scales or offsets of a block of each row, one for each group.
type ByRow = [[f32; 16]; ROWS];

/// Turns the first `N` (8 or 16) numbers of each row into vectors with a lane for each row.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn by_group<const N: usize>(rows: &ByRow) -> [__m512; N] {
    // SAFETY: rows and columns are inside of `rows`, and the caller promises the features.
    unsafe {
        let mut all = [_mm512_setzero_ps(); N];
        let at = rows.as_ptr().cast::<f32>();
        for column in (0..N).step_by(8) {
            let mut fours = [[_mm512_setzero_ps(); 4]; 2];
            for (half, fours) in fours.iter_mut().enumerate() {
                // Columns of rows r and r + 4 in the two halves of a vector.
                let mut v = [_mm512_setzero_ps(); 4];
                for (r, v) in v.iter_mut().enumerate() {
                    let low = at.add((8 * half + r) * 16 + column);
                    let both = _mm512_castps256_ps512(_mm256_loadu_ps(low));
                    *v = _mm512_insertf32x8::<1>(both, _mm256_loadu_ps(low.add(4 * 16)));
                }
                let (ab, ab_high) = (_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
                let (cd, cd_high) = (_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
                *fours = [
                    _mm512_shuffle_ps::<0x44>(ab, cd),
                    _mm512_shuffle_ps::<0xee>(ab, cd),
                    _mm512_shuffle_ps::<0x44>(ab_high, cd_high),
                    _mm512_shuffle_ps::<0xee>(ab_high, cd_high),
                ];
            }
            for q in 0..4 {
                all[column + q] = _mm512_shuffle_f32x4::<0x88>(fours[0][q], fours[1][q]);
                all[column + q + 4] = _mm512_shuffle_f32x4::<0xdd>(fours[0][q], fours[1][q]);
            }
        }
        all
    }
}

/// Dot products of sixteen rows of [`Super`] blocks with `N` groups.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn super_rows<B: Super, const N: usize>(k: usize, x: Rows16, ahead: usize, act: *const u8) -> __m512 {
    const { assert!(N == if B::FINE { 16 } else { 8 }) };
    // SAFETY: the contract of `Rows`: sixteen rows of `k` values, and a `WideAct` row for `k` values. Block indices are
    // below the number of blocks, and the parts of the `WideAct` row are padded to whole blocks of 256 values. The
    // caller promises the features.
    unsafe {
        let layout = WideAct::new(k);
        let d = act.add(layout.scales()).cast::<f32>();
        let totals = act.add(if B::FINE { layout.fine_sums() } else { layout.sums() }).cast::<f32>();
        let mut acc = _mm512_setzero_ps();
        // Blocks of fewer than 256 values that are left over are copied, followed by zeros.
        let whole = k / 256;
        let rest = if B::UNIT < 256 { k % 256 / B::UNIT * (B::BYTES * B::UNIT / 256) } else { 0 };
        let mut last = [[0u8; LAST]; ROWS];
        if B::UNIT < 256 && rest > 0 {
            for (x, last) in x.iter().zip(&mut last) {
                x.add(whole * B::BYTES).copy_to_nonoverlapping(last.as_mut_ptr(), rest);
            }
        }
        let (mut scales, mut offsets): (ByRow, ByRow) = ([[0.0; 16]; ROWS], [[0.0; 16]; ROWS]);
        for i in 0..whole + usize::from(rest > 0) {
            let mut a = [_mm512_setzero_si512(); 4];
            for (t, a) in a.iter_mut().enumerate() {
                *a = load(act.add(256 * i + 64 * t));
            }
            if B::SPLIT {
                a = [
                    _mm512_shuffle_i64x2::<0x44>(a[0], a[1]),
                    _mm512_shuffle_i64x2::<0xee>(a[0], a[1]),
                    _mm512_shuffle_i64x2::<0x44>(a[2], a[3]),
                    _mm512_shuffle_i64x2::<0xee>(a[2], a[3]),
                ];
            }
            let starts = [start(B::BIAS, a[0]), start(B::BIAS, a[1]), start(B::BIAS, a[2]), start(B::BIAS, a[3])];
            let mut parts = [[_mm512_setzero_si512(); 4]; 4];
            for four in 0..4 {
                let mut dots = [[_mm512_setzero_si512(); 4]; 4];
                for r in 0..4 {
                    let row = 4 * four + r;
                    let block = if B::UNIT < 256 && i == whole { last[row].as_ptr() } else { x[row].add(i * B::BYTES) };
                    prefetch(block.wrapping_add(ahead), B::BYTES);
                    let (s, o) = B::scales(block);
                    _mm512_storeu_ps(scales[row].as_mut_ptr(), s);
                    if B::OFFSETS {
                        _mm512_storeu_ps(offsets[row].as_mut_ptr(), o);
                    }
                    let q = B::quants(block);
                    for t in 0..4 {
                        dots[t][r] = _mm512_dpbusd_epi32(starts[t], q[t], a[t]);
                    }
                }
                for t in 0..4 {
                    parts[t][four] = sum_parts(dots[t]);
                }
            }
            let mut sums = [_mm512_setzero_si512(); N];
            for t in 0..4 {
                if B::FINE {
                    sums[4 * t..][..4].copy_from_slice(&four_groups(parts[t]));
                } else {
                    let [low, high] = two_groups(parts[t]);
                    let (first, second) =
                        if B::SPLIT { (4 * (t / 2) + t % 2, 4 * (t / 2) + t % 2 + 2) } else { (2 * t, 2 * t + 1) };
                    (sums[first], sums[second]) = (low, high);
                }
            }
            let scale: [__m512; N] = by_group(&scales);
            let offset: [__m512; N] = if B::OFFSETS { by_group(&offsets) } else { scale };
            for g in 0..N {
                acc = add_group(acc, sums[g], scale[g], d.add(8 * i + g * 8 / N));
                if B::OFFSETS {
                    acc = _mm512_fmadd_ps(offset[g], splat(totals.add(N * i + g)), acc);
                }
            }
        }
        acc
    }
}

macro_rules! kernel {
    ($name:ident, $groups:literal) => {
        #[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        pub(super) unsafe fn $name<B: Super>(
            k: usize,
            x: *const u8,
            stride: usize,
            rows: usize,
            act: *const u8,
            dst: *mut f32,
        ) {
            for first in (0..rows).step_by(ROWS) {
                let n = ROWS.min(rows - first);
                // SAFETY: the contract of `Rows`, for at most sixteen of its rows: where fewer are left, the last row
                // fills the places of the others. The features of this function are those that the callees require.
                unsafe {
                    let x = std::array::from_fn(|i| x.add((first + i.min(n - 1)) * stride));
                    let acc = super_rows::<B, $groups>(k, x, ahead(ROWS, stride), act);
                    _mm512_mask_storeu_ps(dst.add(first), ((1u32 << n) - 1) as u16, acc);
                }
            }
        }
    };
}
kernel!(coarse, 8);
kernel!(fine, 16);

/// Quantizes a column to a [`WideAct`] row.
///
/// # Safety
/// As for [`act_row`], and the processor has AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub unsafe fn act(k: usize, x: *const f32, y: *mut u8) {
    // SAFETY: the contract of `Gemv::act`, which is that of `act_row`.
    unsafe { act_row::<VnniDots>(k, x, y) }
}

/// The kernels of the formats in this file.
pub const KERNELS: [(ggml_type, Rows); 7] = [
    (GGML_TYPE_Q2_K, fine::<Q2K>),
    (GGML_TYPE_Q3_K, fine::<Q3K>),
    (GGML_TYPE_Q4_K, coarse::<Q4K>),
    (GGML_TYPE_Q5_K, coarse::<Q5K>),
    (GGML_TYPE_Q6_K, fine::<Q6K>),
    (GGML_TYPE_IQ4_XS, coarse::<Iq4Xs>),
    (GGML_TYPE_TQ2_0, coarse::<Tq2_0>),
];
