//! Tiles of weights that are signed bytes, with AVX2: as numbers of 16 bits. Products of signed bytes take four
//! instructions for each vector, two of them multiplications; those of 16 bits take two for half as many values, one of
//! them a multiplication. Sums are the same exact integers.
//!
//! Weights are widened when they are unpacked to a panel, and some columns at a time before they are multiplied with
//! the panels.

use super::lanes::{Avx2, Avx2Dots, opaque};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::simd::form::{Act, Form};
use crate::cpu::simd::interleave::{self, Unpacked, block::Format, formats};
use crate::cpu::simd::lanes::Lanes;
use crate::cpu::simd::table::Kernels;
use crate::cpu::simd::tile::{BytePanel, ByteTile, VECTORS, begin, put};
use std::arch::x86_64::*;

/// The form of the weights.
const FORM: Form = Form { group: 32, offsets: false, bits: 16 };

/// The kernels with their number of columns.
const TILES: &[(usize, ByteTile)] =
    &[(6, tile::<6>), (5, tile::<5>), (4, tile::<4>), (3, tile::<3>), (2, tile::<2>), (1, tile::<1>)];

/// Sets the kernels for interleaved formats of signed bytes in a table that has those for bytes.
pub fn fill(k: &mut Kernels) {
    k.byte_tiles.kernels[FORM.index()] = TILES;
    k.byte_tiles.spread = Some(spread);
    for (t, unpack) in [
        (GGML_TYPE_Q8_0, unpack::<formats::Q8_0> as interleave::Unpack),
        (GGML_TYPE_IQ4_NL, unpack::<formats::Iq4Nl>),
        (GGML_TYPE_IQ4_XS, unpack::<formats::Iq4Xs>),
    ] {
        if let Some(f) = &mut k.interleaved[t as usize] {
            assert!(f.form == Form { bits: 8, ..FORM });
            (f.form, f.unpack) = (FORM, unpack);
        }
    }
}

/// [`ByteTile`] for `C` columns.
///
/// # Safety
/// As for [`ByteTile`], and the processor has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn tile<const C: usize>(
    k: usize,
    panel: BytePanel,
    acts: *const *const u8,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    // SAFETY: the contract of `ByteTile`: the panel has `k` values of its rows, and the columns have `k` numbers and
    // `k / 32` scales after them.
    unsafe {
        let mut acc = [[Avx2::splat(0.0); VECTORS]; C];
        for (c, acc) in acc.iter_mut().enumerate() {
            *acc = begin(*dst.add(c), rows, add);
        }
        let acts = acts.cast::<[*const u8; C]>().read_unaligned();
        for block in 0..k / 32 {
            let mut sums = [[_mm256_setzero_si256(); VECTORS]; C];
            for two in 16 * block..16 * block + 16 {
                let w: [__m256i; VECTORS] =
                    std::array::from_fn(|r| _mm256_loadu_si256(panel.q.cast::<__m256i>().add(VECTORS * two + r)));
                for c in 0..C {
                    let a = _mm256_set1_epi32(acts[c].cast::<i32>().add(two).read_unaligned());
                    for r in 0..VECTORS {
                        sums[c][r] = opaque(_mm256_add_epi32(sums[c][r], _mm256_madd_epi16(w[r], a)));
                    }
                }
            }
            for r in 0..VECTORS {
                let scale = Avx2::load(panel.scales.add(Avx2::N * (VECTORS * block + r)));
                for c in 0..C {
                    let d = Avx2::splat(acts[c].cast::<f32>().add(k / 2 + block).read_unaligned());
                    acc[c][r] = Avx2(_mm256_cvtepi32_ps(sums[c][r])).mul(scale).mul_add(d, acc[c][r]);
                }
            }
        }
        for (c, acc) in acc.into_iter().enumerate() {
            put(acc, *dst.add(c), rows);
        }
    }
}

/// [`Spread`](crate::cpu::simd::tile::Spread).
///
/// # Safety
/// As for that type, and the processor has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn spread(k: usize, act: *const u8, to: *mut u8) {
    for block in 0..k / 32 {
        // SAFETY: the caller promises `k / 32` blocks, and `k` numbers of 16 bits and `k / 32` floats to write.
        unsafe {
            let act = act.add(block * Act::<32, false>::BYTES);
            for half in 0..2 {
                let bytes = _mm_loadu_si128(act.cast::<__m128i>().add(half));
                _mm256_storeu_si256(to.cast::<__m256i>().add(2 * block + half), _mm256_cvtepi8_epi16(bytes));
            }
            let scale = act.add(Act::<32, false>::SCALE).cast::<f32>().read_unaligned();
            to.cast::<f32>().add(k / 2 + block).write_unaligned(scale);
        }
    }
}

/// [`interleave::unpack`] to numbers of 16 bits: the first two of each four values of the rows, then the others.
///
/// # Safety
/// As for that function, for a panel in this form, and the processor has AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unpack<F: Format>(k: usize, strip: *const u8, to: Unpacked, height: usize) {
    let put = |codes: Avx2Dots, four: usize| {
        // Each byte becomes the upper half of a number.
        let at = [0x80, 0, 0x80, 1, 0x80, 4, 0x80, 5, 0x80, 8, 0x80, 9, 0x80, 12, 0x80, 13].map(|i: u8| i as i8);
        for half in 0..2 {
            // SAFETY: the array has as many bytes. The caller promises a panel for `k` values, of which these are two.
            unsafe {
                let first = _mm256_broadcastsi128_si256(_mm_loadu_si128(at.as_ptr().cast()));
                let upper = _mm256_shuffle_epi8(codes.0, _mm256_or_si256(first, _mm256_set1_epi8(2 * half)));
                let to = to.q.add((2 * four + half as usize) * 4 * height);
                _mm256_storeu_si256(to.cast(), _mm256_srai_epi16::<8>(upper));
            }
        }
    };
    // SAFETY: forwarded to the caller.
    unsafe { interleave::unpack_with::<Avx2Dots, F>(k, strip, to, height, put) }
}
