//! Matrix times column with VNNI. Blocks of 256 values are processed one by one, blocks of 32 values sixteen at a time.
//!
//! Weights are unpacked to unsigned bytes with a bias (`BIAS`). The bias adds the same to the sums of all rows, so the sums start with
//! minus that number.

use super::super::gemv::{Gemv, Layout, WideAct, act_row};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::simd::Kernels;
use crate::quant::{iq4_nl::CURVE, mxfp4::FP4_DOUBLED};
use crate::sys::memory::prefetch;
use std::arch::x86_64::*;

/// Rows that are processed at once.
const ROWS: usize = 4;
/// Maximum size in bytes of a [`Super`] block that consists of smaller ones.
const LAST: usize = 144;

/// The group of each lane, for the four vectors of 64 values of a block.
type Lanes = [[i32; 16]; 4];

/// Groups of 32, with values in order.
static BY_32: Lanes = lanes([0, 1, 2, 3, 4, 5, 6, 7], 8);
/// Groups of 32, with the even groups of each four before the odd ones.
static SPLIT_BY_32: Lanes = lanes([0, 2, 1, 3, 4, 6, 5, 7], 8);
/// Groups of 16, with values in order.
static BY_16: Lanes = lanes([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], 4);

const fn lanes<const N: usize>(order: [i32; N], width: usize) -> Lanes {
    let mut all = [[0; 16]; 4];
    let mut i = 0;
    while i < 64 {
        all[i / 16][i % 16] = order[i / width];
        i += 1;
    }
    all
}

/// A block of 256 values, or several smaller blocks with 256 values together.
///
/// # Safety
/// `scales` and `quants` read at most `BYTES` bytes at their pointer, in which every `UNIT` values have an equal share. All-zero bytes
/// are a block of zeros. Call them only if the bytes are readable and the processor has AVX-512 F, BW, DQ, VL and VNNI.
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
    /// Scales and offsets, one per lane.
    unsafe fn scales(b: *const u8) -> (__m512, __m512);
    /// The values plus the bias.
    unsafe fn quants(b: *const u8) -> [__m512i; 4];
}

/// A block of 32 values that starts with its scale.
///
/// # Safety
/// As for [`Super`], and a block has at least four bytes.
pub(super) unsafe trait Small {
    const BYTES: usize;
    const BIAS: i8;
    /// Whether there is an offset for each scale.
    const OFFSETS: bool = false;
    /// Scales and offsets of sixteen blocks, from the first four bytes of each.
    unsafe fn scales(heads: __m512i) -> (__m512, __m512);
    /// The values of two blocks plus the bias.
    unsafe fn quants(a: *const u8, b: *const u8) -> __m512i;
}

macro_rules! with_simd {
    ($($vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)*) => {$(
        #[inline(always)]
        $vis unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the contract of `Super` and `Small`: the processor has the instructions, and the bytes of the block are readable.
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
    // Unpacks 16 bytes of each block to low and then high nibbles, block by block.
    unsafe fn nibbles(a: *const u8, b: *const u8) -> __m512i {
        let a = _mm256_broadcastsi128_si256(_mm_loadu_si128(a.cast()));
        let b = _mm256_broadcastsi128_si256(_mm_loadu_si128(b.cast()));
        let both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b);
        _mm512_and_si512(_mm512_srlv_epi64(both, _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0)), bytes(15))
    }
    // Converts halves in the low 16 bits of each lane to floats.
    unsafe fn halves(v: __m512i) -> __m512 {
        _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v))
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

struct Q4_0;
// SAFETY: `Q4_0` has 18 bytes: a half at 0, values at 2.
unsafe impl Small for Q4_0 {
    const BYTES: usize = 18;
    const BIAS: i8 = 8;
    with_simd! {
        unsafe fn scales(heads: __m512i) -> (__m512, __m512) { (halves(heads), _mm512_setzero_ps()) }
        unsafe fn quants(a: *const u8, b: *const u8) -> __m512i { nibbles(a.add(2), b.add(2)) }
    }
}

struct Q4_1;
// SAFETY: `Q4_1` has 20 bytes: halves at 0 and 2, values at 4.
unsafe impl Small for Q4_1 {
    const BYTES: usize = 20;
    const BIAS: i8 = 0;
    const OFFSETS: bool = true;
    with_simd! {
        unsafe fn scales(heads: __m512i) -> (__m512, __m512) { (halves(heads), halves(_mm512_srli_epi32::<16>(heads))) }
        unsafe fn quants(a: *const u8, b: *const u8) -> __m512i { nibbles(a.add(4), b.add(4)) }
    }
}

with_simd! {
    // Values of two blocks with five bits: the fifth bits are in four bytes, followed by 16 bytes with the low bits.
    unsafe fn five_bits(a: *const u8, b: *const u8) -> __m512i {
        let bits = |p: *const u8| u64::from(p.cast::<u32>().read_unaligned());
        let low = nibbles(a.add(4), b.add(4));
        _mm512_mask_add_epi8(low, bits(a) | bits(b) << 32, low, bytes(16))
    }
}

struct Q5_0;
// SAFETY: `Q5_0` has 22 bytes: a half at 0, fifth bits at 2, values at 6.
unsafe impl Small for Q5_0 {
    const BYTES: usize = 22;
    const BIAS: i8 = 16;
    with_simd! {
        unsafe fn scales(heads: __m512i) -> (__m512, __m512) { (halves(heads), _mm512_setzero_ps()) }
        unsafe fn quants(a: *const u8, b: *const u8) -> __m512i { five_bits(a.add(2), b.add(2)) }
    }
}

struct Q5_1;
// SAFETY: `Q5_1` has 24 bytes: halves at 0 and 2, fifth bits at 4, values at 8.
unsafe impl Small for Q5_1 {
    const BYTES: usize = 24;
    const BIAS: i8 = 0;
    const OFFSETS: bool = true;
    with_simd! {
        unsafe fn scales(heads: __m512i) -> (__m512, __m512) { (halves(heads), halves(_mm512_srli_epi32::<16>(heads))) }
        unsafe fn quants(a: *const u8, b: *const u8) -> __m512i { five_bits(a.add(4), b.add(4)) }
    }
}

struct Q8_0;
// SAFETY: `Q8_0` has 34 bytes: a half at 0, values at 2.
unsafe impl Small for Q8_0 {
    const BYTES: usize = 34;
    const BIAS: i8 = -128;
    with_simd! {
        unsafe fn scales(heads: __m512i) -> (__m512, __m512) { (halves(heads), _mm512_setzero_ps()) }
        unsafe fn quants(a: *const u8, b: *const u8) -> __m512i {
            let a = _mm512_castsi256_si512(_mm256_loadu_si256(a.add(2).cast()));
            _mm512_xor_si512(_mm512_inserti64x4::<1>(a, _mm256_loadu_si256(b.add(2).cast())), bytes(0x80))
        }
    }
}

struct Iq4Nl;
// SAFETY: `IQ4_NL` has 18 bytes: a half at 0, codes at 2.
unsafe impl Small for Iq4Nl {
    const BYTES: usize = 18;
    const BIAS: i8 = -128;
    with_simd! {
        unsafe fn scales(heads: __m512i) -> (__m512, __m512) { (halves(heads), _mm512_setzero_ps()) }
        unsafe fn quants(a: *const u8, b: *const u8) -> __m512i {
            _mm512_shuffle_epi8(table(&CURVE), nibbles(a.add(2), b.add(2)))
        }
    }
}

struct Mxfp4;
// SAFETY: `MXFP4` has 17 bytes: an exponent at 0, codes at 1.
unsafe impl Small for Mxfp4 {
    const BYTES: usize = 17;
    const BIAS: i8 = -128;
    with_simd! {
        unsafe fn scales(heads: __m512i) -> (__m512, __m512) {
            // 2^(e - 128) has the exponent bits e - 1, except for two subnormal numbers.
            let e = _mm512_and_si512(heads, _mm512_set1_epi32(255));
            let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
            let tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
            let is_tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
            (_mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, is_tiny, tiny)), _mm512_setzero_ps())
        }
        unsafe fn quants(a: *const u8, b: *const u8) -> __m512i {
            _mm512_shuffle_epi8(table(&FP4_DOUBLED), nibbles(a.add(1), b.add(1)))
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

/// Dot products of `R` rows of [`Super`] blocks.
#[inline(always)]
unsafe fn super_rows<B: Super, const R: usize>(
    k: usize,
    x: [*const u8; R],
    ahead: usize,
    act: *const u8,
    dst: *mut f32,
) {
    // SAFETY: the contract of `Rows`: `R` rows of `k` values, a `WideAct` row for `k` values, `R` floats at `dst`. Block indices are below
    // the number of blocks, and the parts of the `WideAct` row are padded to whole blocks of 256 values. The caller promises the features.
    unsafe {
        let layout = WideAct::new(k);
        let (scales, sums) = (act.add(layout.scales()).cast::<f32>(), act.add(layout.sums()).cast::<f32>());
        let fine_sums = act.add(layout.fine_sums()).cast::<f32>();
        let lanes = if B::FINE {
            &BY_16
        } else if B::SPLIT {
            &SPLIT_BY_32
        } else {
            &BY_32
        };
        let lanes: [__m512i; 4] = std::array::from_fn(|t| _mm512_loadu_si512(lanes[t].as_ptr().cast()));
        let pairs = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
        let mut acc = [_mm512_setzero_ps(); R];
        let mut shift = [_mm512_setzero_ps(); R];
        // Blocks of fewer than 256 values that are left over are copied, followed by zeros.
        let whole = k / 256;
        let rest = if B::UNIT < 256 { k % 256 / B::UNIT * (B::BYTES * B::UNIT / 256) } else { 0 };
        let mut last = [[0u8; LAST]; R];
        if B::UNIT < 256 && rest > 0 {
            for r in 0..R {
                x[r].add(whole * B::BYTES).copy_to_nonoverlapping(last[r].as_mut_ptr(), rest);
            }
        }
        for i in 0..whole + usize::from(rest > 0) {
            let [a, b, c, d]: [__m512i; 4] = std::array::from_fn(|t| load(act.add(256 * i + 64 * t)));
            let a = if B::SPLIT {
                [
                    _mm512_shuffle_i64x2::<0x44>(a, b),
                    _mm512_shuffle_i64x2::<0xee>(a, b),
                    _mm512_shuffle_i64x2::<0x44>(c, d),
                    _mm512_shuffle_i64x2::<0xee>(c, d),
                ]
            } else {
                [a, b, c, d]
            };
            let starts = [start(B::BIAS, a[0]), start(B::BIAS, a[1]), start(B::BIAS, a[2]), start(B::BIAS, a[3])];
            let scale = _mm512_castps256_ps512(_mm256_loadu_ps(scales.add(8 * i)));
            let scale = if B::FINE { _mm512_permutexvar_ps(pairs, scale) } else { scale };
            for r in 0..R {
                let block = if B::UNIT < 256 && i == whole { last[r].as_ptr() } else { x[r].add(i * B::BYTES) };
                prefetch(block.wrapping_add(ahead), B::BYTES);
                let (s, o) = B::scales(block);
                let s = _mm512_mul_ps(s, scale);
                let q = B::quants(block);
                for t in 0..4 {
                    let dot = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(starts[t], q[t], a[t]));
                    acc[r] = _mm512_fmadd_ps(dot, _mm512_permutexvar_ps(lanes[t], s), acc[r]);
                }
                if B::OFFSETS && B::FINE {
                    shift[r] = _mm512_fmadd_ps(o, _mm512_loadu_ps(fine_sums.add(16 * i)), shift[r]);
                } else if B::OFFSETS {
                    let sums = _mm512_maskz_loadu_ps(0xff, sums.add(8 * i));
                    shift[r] = _mm512_mask3_fmadd_ps(o, sums, shift[r], 0xff);
                }
            }
        }
        for r in 0..R {
            dst.add(r).write_unaligned(_mm512_reduce_add_ps(_mm512_add_ps(acc[r], shift[r])));
        }
    }
}

/// Dot products of `R` rows of [`Small`] blocks.
#[inline(always)]
unsafe fn small_rows<B: Small, const R: usize>(
    k: usize,
    x: [*const u8; R],
    ahead: usize,
    act: *const u8,
    dst: *mut f32,
) {
    // SAFETY: the contract of `Rows`: `R` rows of `k` values, a `WideAct` row for `k` values, `R` floats at `dst`. Block indices are below
    // k / 32, and the parts of the `WideAct` row are padded to 16 blocks. The caller promises the features.
    unsafe {
        let layout = WideAct::new(k);
        let (scales, sums) = (act.add(layout.scales()).cast::<f32>(), act.add(layout.sums()).cast::<f32>());
        let count = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        let places = _mm512_mullo_epi32(count, _mm512_set1_epi32(B::BYTES as i32));
        let pair = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
        let blocks = k / 32;
        let mut acc = [_mm512_setzero_ps(); R];
        let mut shift = [_mm512_setzero_ps(); R];
        let mut first = 0;
        while first < blocks {
            let n = (blocks - first).min(16);
            let scale = _mm512_loadu_ps(scales.add(first));
            let mut s = [_mm512_setzero_ps(); R];
            for r in 0..R {
                let heads = x[r].add(first * B::BYTES);
                prefetch(heads.wrapping_add(ahead), n * B::BYTES);
                // The mask excludes blocks after the end of the row.
                let heads = _mm512_mask_i32gather_epi32::<1>(
                    _mm512_setzero_si512(),
                    ((1u32 << n) - 1) as u16,
                    places,
                    heads.cast(),
                );
                let (d, o) = B::scales(heads);
                s[r] = _mm512_mul_ps(d, scale);
                if B::OFFSETS {
                    shift[r] = _mm512_fmadd_ps(o, _mm512_loadu_ps(sums.add(first)), shift[r]);
                }
            }
            let mut lane = pair;
            for j in (0..n).step_by(2) {
                let a = load(act.add(32 * (first + j)));
                let start = start(B::BIAS, a);
                // An odd last block is paired with itself, because the activations after the end are zero.
                let (here, next) = ((first + j) * B::BYTES, (first + j + usize::from(j + 1 < n)) * B::BYTES);
                for r in 0..R {
                    let q = B::quants(x[r].add(here), x[r].add(next));
                    let dot = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start, q, a));
                    acc[r] = _mm512_fmadd_ps(dot, _mm512_permutexvar_ps(lane, s[r]), acc[r]);
                }
                lane = _mm512_add_epi32(lane, _mm512_set1_epi32(2));
            }
            first += n;
        }
        for r in 0..R {
            dst.add(r).write_unaligned(_mm512_reduce_add_ps(_mm512_add_ps(acc[r], shift[r])));
        }
    }
}

macro_rules! kernel {
    ($name:ident, $block:ident, $rows:ident) => {
        #[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        pub(super) unsafe fn $name<B: $block>(
            k: usize,
            x: *const u8,
            stride: usize,
            rows: usize,
            act: *const u8,
            dst: *mut f32,
        ) {
            let mut r = 0;
            // SAFETY: the contract of `Rows`, for parts of its `rows` rows. The features of this function are those that the callees require.
            unsafe {
                while rows - r >= ROWS {
                    $rows::<B, ROWS>(
                        k,
                        std::array::from_fn(|i| x.add((r + i) * stride)),
                        ROWS * stride,
                        act,
                        dst.add(r),
                    );
                    r += ROWS;
                }
                while r < rows {
                    $rows::<B, 1>(k, [x.add(r * stride)], stride, act, dst.add(r));
                    r += 1;
                }
            }
        }
    };
}
kernel!(super_kernel, Super, super_rows);
kernel!(small_kernel, Small, small_rows);

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn act(k: usize, x: *const f32, y: *mut u8) {
    // SAFETY: the contract of `Gemv::act`, which is that of `act_row`.
    unsafe { act_row(k, x, y) }
}

/// Sets the matrix times column kernels in the table.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ, VL and VNNI.
pub unsafe fn fill(k: &mut Kernels) {
    for (t, rows) in [
        (GGML_TYPE_Q2_K, super_kernel::<Q2K> as crate::cpu::simd::gemv::Rows),
        (GGML_TYPE_Q3_K, super_kernel::<Q3K>),
        (GGML_TYPE_Q4_K, super_kernel::<Q4K>),
        (GGML_TYPE_Q5_K, super_kernel::<Q5K>),
        (GGML_TYPE_Q6_K, super_kernel::<Q6K>),
        (GGML_TYPE_IQ4_XS, super_kernel::<Iq4Xs>),
        (GGML_TYPE_TQ2_0, super_kernel::<Tq2_0>),
        (GGML_TYPE_Q4_0, small_kernel::<Q4_0>),
        (GGML_TYPE_Q4_1, small_kernel::<Q4_1>),
        (GGML_TYPE_Q5_0, small_kernel::<Q5_0>),
        (GGML_TYPE_Q5_1, small_kernel::<Q5_1>),
        (GGML_TYPE_Q8_0, small_kernel::<Q8_0>),
        (GGML_TYPE_IQ4_NL, small_kernel::<Iq4Nl>),
        (GGML_TYPE_MXFP4, small_kernel::<Mxfp4>),
    ]
    .into_iter()
    .chain(super::gemv_codes::KERNELS)
    {
        k.gemv[t as usize] = Some(Gemv { layout: Layout::Wide, act, rows });
    }
}
