//! The sixteen lanes of the float kernels.

use crate::cpu::simd::lanes::Lanes;
use std::arch::x86_64::*;

/// Sixteen floats in a 512-bit register.
#[derive(Clone, Copy)]
pub struct Avx512(pub(super) __m512);

#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    debug_assert!(n < 16);
    (1 << n) - 1
}

macro_rules! methods {
    ($($name:ident($($self:ident)? $(|$arg:ident: $ty:ty)*) $(-> $ret:ty)? = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($self,)? $($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the processor has AVX-512 F, BW, DQ and VL, and the pointer reaches as far as `Lanes` says: the caller's promise.
            unsafe { $body }
        }
    )*};
}

impl Lanes for Avx512 {
    const N: usize = 16;
    methods! {
        splat(|x: f32) -> Self = Self(_mm512_set1_ps(x));
        load(|p: *const f32) -> Self = Self(_mm512_loadu_ps(p));
        load_part(|p: *const f32 |n: usize) -> Self = Self(_mm512_maskz_loadu_ps(mask(n), p));
        store(self |p: *mut f32) = _mm512_storeu_ps(p, self.0);
        store_part(self |p: *mut f32 |n: usize) = _mm512_mask_storeu_ps(p, mask(n), self.0);
        load_f16(|p: *const u16) -> Self = Self(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast())));
        store_f16(self |p: *mut u16) = _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0));
        load_bf16(|p: *const u16) -> Self =
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast())))));
        add(self |b: Self) -> Self = Self(_mm512_add_ps(self.0, b.0));
        sub(self |b: Self) -> Self = Self(_mm512_sub_ps(self.0, b.0));
        mul(self |b: Self) -> Self = Self(_mm512_mul_ps(self.0, b.0));
        div(self |b: Self) -> Self = Self(_mm512_div_ps(self.0, b.0));
        mul_add(self |b: Self |c: Self) -> Self = Self(_mm512_fmadd_ps(self.0, b.0, c.0));
        neg_mul_add(self |b: Self |c: Self) -> Self = Self(_mm512_fnmadd_ps(self.0, b.0, c.0));
        max(self |b: Self) -> Self = Self(_mm512_max_ps(b.0, self.0));
        max_skip_nan(self |b: Self) -> Self = Self(_mm512_max_ps(self.0, b.0));
        min(self |b: Self) -> Self = Self(_mm512_min_ps(b.0, self.0));
        round(self) -> Self = Self(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0));
        exp2_less_one(self) -> Self = Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(
            _mm512_cvtps_epi32(self.0),
            _mm512_set1_epi32(126),
        ))));
        sum(self) -> f32 = _mm512_reduce_add_ps(self.0);
        top(self) -> f32 = _mm512_reduce_max_ps(self.0);
    }
}
